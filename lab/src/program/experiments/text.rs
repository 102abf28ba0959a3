//! What `cellway-lab run` prints: a table of the numbers, then each phrase whole with its evidence, then the figures.

use super::{deviation, measured, modelled, published, verdict};
use ::lab::experiment::{ExperimentOutcome, Published, Row};
use cellway::output;

/// Characters of a line.
const WIDTH: usize = 118;

/// Words in lines of so many characters, each after `indent` blanks.
fn folded(text: &str, indent: usize) -> String {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split_whitespace() {
        if !line.is_empty() && indent + line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(core::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines.iter().map(|line| format!("{:indent$}{line}\n", "")).collect()
}

fn is_phrase(row: &Row) -> bool {
    matches!(&row.published, Published::Words(words) if !words.is_empty())
}

/// A row of the table. What does not fit goes on in lines of its own.
fn numbers(rows: &[&Row]) -> String {
    const WHAT: usize = 44;
    let mut cells: Vec<Vec<String>> = Vec::new();
    for row in rows {
        let what = if row.unit.is_empty() { row.what.clone() } else { format!("{}, {}", row.what, row.unit) };
        let (mut lines, mut line) = (Vec::new(), String::new());
        for word in what.split_whitespace() {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > WHAT {
                lines.push(core::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
        for (n, line) in lines.into_iter().enumerate() {
            let head = if n == 0 { format!("  {:<5} {line}", row.id) } else { format!("{:<8}{line}", "") };
            cells.push(if n == 0 {
                vec![head, published(row), modelled(row), measured(row), deviation(row), verdict(row)]
            } else {
                vec![head]
            });
        }
    }
    output::table(&["", "published", "modelled", "measured", "deviation", "verdict"], &cells)
}

/// A phrase: the quotation, the verdict, the test, and what was found.
fn phrase(row: &Row) -> String {
    let said = if row.what == "in words" { published(row) } else { format!("{}: {}", row.what, published(row)) };
    let mut text = folded(&format!("{:<5} {said}: {}", row.id, verdict(row)), 2);
    if !row.note.is_empty() {
        text.push_str(&folded(&format!("found: {}", row.note), 8));
    }
    if let Some(test) = &row.test {
        text.push_str(&folded(&format!("test: {}", test.threshold), 8));
    }
    text
}

/// An experiment's rows.
pub(super) fn rows(outcome: &ExperimentOutcome) -> String {
    let (phrases, plain): (Vec<&Row>, Vec<&Row>) = outcome.rows.iter().partition(|row| is_phrase(row));
    let mut text = format!("{}: {}\n", outcome.experiment, outcome.title);
    if !plain.is_empty() {
        text.push_str(&numbers(&plain));
    }
    phrases.into_iter().for_each(|row| text.push_str(&phrase(row)));
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::lab::experiment::run;
    use ::lab::experiments::named;

    #[test]
    fn every_phrase_is_printed_whole_and_no_line_is_wider_than_a_page() {
        let outcome = run(named("seed001-pipeline").unwrap(), 1, true, None).unwrap();
        let text = rows(&outcome);
        let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for row in outcome.rows.iter().filter(|row| is_phrase(row)) {
            let said = published(row).split_whitespace().collect::<Vec<_>>().join(" ");
            let note = row.note.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(joined.contains(&said) && joined.contains(&note), "{said}");
        }
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(WIDTH + 10), "{widest:?}");
        let number = outcome.rows.iter().find(|row| !is_phrase(row) && row.modelled.is_some()).unwrap();
        assert!(text.contains(&modelled(number)));
    }
}
