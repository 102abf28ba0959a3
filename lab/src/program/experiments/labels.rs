//! Labels of a figure's curves, each beside the end of its curve: places in a column, in the order of the ends, without
//! overlap.

/// Pixels of a line of a label.
pub(super) const LINE: i32 = 13;
/// Characters of a line.
const CHARACTERS: usize = 34;

/// A label in lines.
pub(super) fn lines(label: &str) -> Vec<String> {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in label.split_whitespace() {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > CHARACTERS {
            lines.push(core::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

/// Where each label begins, in pixels from the top: as near to its curve's end as the others let it, between `top` and
/// `bottom` if all have room there. In: the ends, and how many lines each label has.
pub(super) fn places(ends: &[(i32, usize)], top: i32, bottom: i32) -> Vec<i32> {
    let mut order: Vec<usize> = (0..ends.len()).collect();
    order.sort_by_key(|at| (ends[*at].0, *at));
    let mut places = vec![0; ends.len()];
    let mut free = top;
    for at in &order {
        let height = ends[*at].1 as i32 * LINE;
        places[*at] = (ends[*at].0 - height / 2).max(free);
        free = places[*at] + height + 2;
    }
    // What ran over the bottom is pushed up, and what is above it as far as it has to.
    let mut limit = bottom;
    for at in order.iter().rev() {
        let height = ends[*at].1 as i32 * LINE;
        places[*at] = places[*at].min(limit - height);
        limit = places[*at] - 2;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_do_not_overlap_stay_in_the_order_of_their_ends_and_within_the_figure() {
        let ends = [(100, 1), (100, 2), (101, 1), (395, 2), (398, 1), (10, 1), (250, 1)];
        let places = places(&ends, 20, 400);
        let mut order: Vec<usize> = (0..ends.len()).collect();
        order.sort_by_key(|at| places[*at]);
        assert!(order.iter().map(|at| ends[*at].0).is_sorted(), "{places:?}");
        for pair in order.windows(2) {
            assert!(places[pair[0]] + ends[pair[0]].1 as i32 * LINE <= places[pair[1]], "{places:?}");
        }
        assert!(
            order.iter().all(|at| places[*at] >= 20 && places[*at] + ends[*at].1 as i32 * LINE <= 400),
            "{places:?}"
        );
        assert_eq!(places[6], 250 - LINE / 2, "what has room is where its curve ends");
    }

    #[test]
    fn a_long_label_is_broken_between_words() {
        assert_eq!(lines("interrupts"), ["interrupts"]);
        let long = lines("today: interrupts coalesced, 8 packets or 1 ms");
        assert_eq!((long.len(), long.join(" ").as_str()), (2, "today: interrupts coalesced, 8 packets or 1 ms"));
    }
}
