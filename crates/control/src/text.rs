//! Text for a terminal: tables, and lists of what was dropped.

use std::collections::BTreeMap;

/// What was dropped, by reason, in one line.
pub fn drops(dropped: &BTreeMap<String, u64>) -> String {
    dropped.iter().map(|(reason, n)| format!("{reason} {n}")).collect::<Vec<_>>().join(", ")
}

/// How wide text is: in characters.
fn width(cell: &str) -> usize {
    if cell.is_ascii() { cell.len() } else { cell.chars().count() }
}

fn indent(text: &mut String, mut blanks: usize) {
    const BLANKS: &str = "                                ";
    while blanks > BLANKS.len() {
        text.push_str(BLANKS);
        blanks -= BLANKS.len();
    }
    text.push_str(&BLANKS[..blanks]);
}

/// A table with its columns aligned: the first left, the others right.
pub fn table<R: AsRef<[C]>, C: AsRef<str>>(head: &[&str], rows: &[R]) -> String {
    let mut widths: Vec<usize> = head.iter().map(|cell| width(cell)).collect();
    for row in rows {
        for (column, cell) in widths.iter_mut().zip(row.as_ref()) {
            *column = (*column).max(width(cell.as_ref()));
        }
    }
    let mut text = String::with_capacity((rows.len() + 1) * (widths.iter().sum::<usize>() + 2 * widths.len()));
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        for (i, (cell, column)) in cells.zip(&widths).enumerate() {
            let blanks = column - width(cell);
            if i == 0 {
                text.push_str(cell);
                indent(&mut text, blanks);
            } else {
                indent(&mut text, blanks + 2);
                text.push_str(cell);
            }
        }
        text.truncate(text.trim_end_matches(' ').len());
        text.push('\n');
    };
    line(&mut head.iter().copied());
    rows.iter().for_each(|row| line(&mut row.as_ref().iter().map(AsRef::as_ref)));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_end_without_blanks() {
        let rows = [vec!["ä".to_owned(), "1".into(), String::new()], vec!["long".to_owned(), "22".into(), "x".into()]];
        assert_eq!(table(&["a", "n", "why"], &rows), "a      n  why\nä      1\nlong  22    x\n");
    }
}
