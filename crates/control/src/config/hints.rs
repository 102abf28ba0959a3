//! Which of the words that there are may have been meant by one that is not: a hint, as long as hints cost little.

use std::collections::HashMap;

/// Steps of all hints of a description together: a few tens of milliseconds.
const STEPS: usize = 20_000_000;
/// Longer words get no hint, and are none.
const MAX_LETTERS: usize = 64;
/// Words whose lengths differ by more are not meant.
const MAX_DIFFERENCE: usize = 3;

/// Gives hints.
#[derive(Debug)]
pub(super) struct Hints {
    left: usize,
    /// Those for names of stations.
    stations: HashMap<String, String>,
}

impl Default for Hints {
    fn default() -> Self {
        Hints { left: STEPS, stations: HashMap::new() }
    }
}

impl Hints {
    /// For the name of a station, the same each time: ` (is it `...`?)`, or nothing.
    pub(super) fn station<'a>(&mut self, name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
        if let Some(hint) = self.stations.get(name) {
            return hint.clone();
        }
        let hint = self.word(name, known);
        if !hint.is_empty() {
            self.stations.insert(name.to_owned(), hint.clone());
        }
        hint
    }

    /// For any other word.
    pub(super) fn word<'a>(&mut self, word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
        self.nearest(word, known).map_or_else(String::new, |near| format!(" (is it `{near}`?)"))
    }

    /// The nearest of some words. `None`: there is none, or all of them cost too much.
    fn nearest<'a>(&mut self, word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
        let letters = letters(word)?;
        let mut nearest: Option<(usize, &str)> = None;
        for known in known {
            self.pay(1)?;
            let Some(others) = self::letters(known) else { continue };
            if letters.len().abs_diff(others.len()) > MAX_DIFFERENCE {
                continue;
            }
            self.pay(letters.len() * others.len())?;
            let distance = distance(&others, &letters);
            if nearest.is_none_or(|(least, _)| distance < least) {
                nearest = Some((distance, known));
            }
        }
        nearest.map(|(_, known)| known)
    }

    fn pay(&mut self, steps: usize) -> Option<()> {
        self.left = self.left.saturating_sub(steps);
        (self.left > 0).then_some(())
    }
}

fn letters(word: &str) -> Option<Vec<char>> {
    // Four octets are the most that one has.
    let letters: Vec<char> = (word.len() <= 4 * MAX_LETTERS).then(|| word.chars().collect())?;
    (letters.len() <= MAX_LETTERS).then_some(letters)
}

/// Levenshtein's.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replace = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replace.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_the_nearest_word_of_about_the_same_length() {
        let mut hints = Hints::default();
        assert_eq!(hints.word("hos", ["switch", "hosts", "host"]), " (is it `host`?)");
        assert_eq!(hints.station("bata", ["alpha", "beta"]), " (is it `beta`?)");
        assert_eq!(hints.word("x", ["outside"]), "");
        assert_eq!(hints.word(&"a".repeat(65), [&*"a".repeat(66)]), "");
        assert_eq!(hints.word("", []), "");
    }

    #[test]
    fn a_name_that_had_a_hint_has_it_again_when_others_have_none_any_more() {
        let known: Vec<String> = (0..10_000).map(|n| format!("station{n:04}")).collect();
        let mut hints = Hints::default();
        let mut of = |name: &str| hints.station(name, known.iter().map(String::as_str));
        let first = of("statoin0042");
        assert_eq!(first, " (is it `station0042`?)");
        let given = (0..40_000).filter(|n| !of(&format!("unknown{n:04}")).is_empty()).count();
        assert!((5..50).contains(&given), "{given}");
        assert_eq!(of("statoin0042"), first);
    }
}
