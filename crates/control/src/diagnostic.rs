//! What is wrong with a description, each at its line and column: as text with the source line and a caret, as one line
//! for a log, or as JSON.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// One thing that is wrong. Lines and columns count from 1, columns in characters; the end is the first place beyond.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Diagnostic {
    /// The line that it begins in.
    pub line: usize,
    /// The column that it begins in.
    pub column: usize,
    /// The line that it ends in.
    pub end_line: usize,
    /// The column that it ends before.
    pub end_column: usize,
    /// What is wrong, and what to do.
    pub message: String,
    /// The description's name.
    pub file: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)
    }
}

/// A description's text, under the name that messages give it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Source {
    /// The name.
    pub name: Arc<str>,
    /// The text.
    pub text: Arc<str>,
    /// Where its lines end.
    ends: Arc<[usize]>,
    /// Characters before each piece of it.
    characters: Arc<[usize]>,
}

/// Octets between two places of which it is known how many characters are before them: thousands of things can be wrong
/// in one line.
const PIECE_OCTETS: usize = 4096;

impl Source {
    /// Of a name and a text.
    pub fn new(name: &str, text: &str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, octet)| *octet == b'\n').map(|(at, _)| at).collect();
        let pieces = text.as_bytes().chunks(PIECE_OCTETS);
        let characters = pieces.scan(0, |before, piece| Some(std::mem::replace(before, *before + characters(piece))));
        Source { name: name.into(), text: text.into(), ends, characters: characters.collect() }
    }

    /// Nothing but comments and space.
    pub fn is_blank(&self) -> bool {
        self.text
            .lines()
            .map(|line| line.trim_start_matches('\u{feff}').trim())
            .all(|l| l.is_empty() || l.starts_with('#'))
    }

    /// Line and column of an octet. One in the midst of a character counts as its first.
    fn place(&self, at: usize) -> (usize, usize) {
        let mut at = at.min(self.text.len());
        while !self.text.is_char_boundary(at) {
            at -= 1;
        }
        let line = self.ends.partition_point(|end| *end < at);
        let start = line.checked_sub(1).map_or(0, |before| self.ends[before] + 1);
        (line + 1, self.characters_before(at) - self.characters_before(start) + 1)
    }

    fn characters_before(&self, at: usize) -> usize {
        // At the end of the text, the last piece may be whole.
        let piece = (at / PIECE_OCTETS).min(self.characters.len().saturating_sub(1));
        let known = self.characters.get(piece).copied().unwrap_or_default();
        known + characters(&self.text.as_bytes()[piece * PIECE_OCTETS..at])
    }

    /// What is wrong at some octets of the text. Octets beyond its end count as its end.
    pub fn wrong(&self, at: Range<usize>, message: impl ToString) -> Diagnostic {
        let (line, column) = self.place(at.start);
        let (end_line, end_column) = self.place(at.end.max(at.start));
        Diagnostic { line, column, end_line, end_column, message: message.to_string(), file: self.name.to_string() }
    }
}

/// Characters that begin in a piece of UTF-8.
fn characters(piece: &[u8]) -> usize {
    piece.iter().filter(|octet| **octet & 0xc0 != 0x80).count()
}

/// All that is wrong with a description, in the order of its lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostics {
    source: Source,
    all: Vec<Diagnostic>,
}

impl Diagnostics {
    /// Of a source.
    pub fn new(source: Source, mut all: Vec<Diagnostic>) -> Self {
        all.sort();
        all.dedup();
        Diagnostics { source, all }
    }

    /// Each.
    pub fn all(&self) -> &[Diagnostic] {
        &self.all
    }

    /// Each, without the text.
    pub fn into_all(self) -> Vec<Diagnostic> {
        self.all
    }

    /// As a person reads it: each message with the source line and a caret; in colour for a terminal.
    pub fn rendered(&self, colour: bool) -> String {
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        let lines: Vec<&str> = self.source.text.split_inclusive('\n').collect();
        let mut text = String::new();
        for wrong in &self.all {
            let line = lines.get(wrong.line - 1).copied().unwrap_or_default();
            let octet = |column: usize| line.char_indices().nth(column - 1).map_or(line.trim_end().len(), |(at, _)| at);
            let from = octet(wrong.column);
            let to = if wrong.end_line == wrong.line { octet(wrong.end_column) } else { line.trim_end().len() };
            let caret = AnnotationKind::Primary.span(from..to.max(from));
            let snippet = Snippet::source(line).line_start(wrong.line).path(&*wrong.file).annotation(caret);
            let message = wrong.message.replace('\n', " ");
            text.push_str(&renderer.render(&[Level::ERROR.primary_title(&message).element(snippet)]));
            text.push_str("\n\n");
        }
        let errors = if self.all.len() == 1 { "1 error".to_owned() } else { format!("{} errors", self.all.len()) };
        text + &format!("{}: {errors}", self.source.name)
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.all.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for Diagnostics {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_characters_from_one() {
        let source = Source::new("x", "ab\n\u{e9}\u{e9}cd\n");
        let wrong = source.wrong(7..9, "no");
        assert_eq!((wrong.line, wrong.column, wrong.end_line, wrong.end_column), (2, 3, 2, 5));
        // In the midst of a character, and beyond the end.
        assert_eq!(source.wrong(4..4, "no").column, 1);
        assert_eq!((source.wrong(99..99, "no").line, source.wrong(99..99, "no").column), (3, 1));
    }

    #[test]
    fn places_in_long_texts_are_those_of_a_plain_count() {
        let text: String =
            (0..9000).map(|n| ["\u{e9}", "a", "\u{1f600}", "\n"][(n * n / 7) % if n < 5000 { 4 } else { 3 }]).collect();
        let source = Source::new("x", &text);
        for at in
            (0..=text.len()).step_by(37).chain([text.len(), 4095, 4096, 4097]).filter(|at| text.is_char_boundary(*at))
        {
            let before = &text[..at];
            let start = before.rfind('\n').map_or(0, |end| end + 1);
            let plain = (before.matches('\n').count() + 1, before[start..].chars().count() + 1);
            assert_eq!(source.place(at), plain, "octet {at}");
        }
        assert_eq!(Source::new("x", "").place(5), (1, 1));
        assert_eq!(Source::new("x", &"a".repeat(2 * PIECE_OCTETS)).place(usize::MAX), (1, 2 * PIECE_OCTETS + 1));
    }

    #[test]
    fn what_a_place_costs_does_not_depend_on_how_long_the_text_is() {
        // As many lines as a description of ten thousand circuits has, and as many octets in one line; and a twentieth.
        for piece in ["ends = [\"alpha 0.100\", \"beta 0.100\"]\n", "{endz=1},{endz=1},{endz=1},{endz=1},"] {
            let cost = |pieces: usize| {
                let text = piece.repeat(pieces);
                let source = Source::new("x", &text);
                let begin = host::engine::processor_time();
                let mut last = source.wrong(0..0, "");
                for n in 0..10_000 {
                    let at = text.len() * n / 10_000;
                    last = source.wrong(at..at + 1, "no");
                }
                assert!(last.line > pieces * 9 / 10 || last.column > text.len() * 9 / 10);
                host::engine::processor_time().saturating_sub(begin)
            };
            // While each was counted from the beginning of the text, the long one took twenty times as long.
            let (short, long) = (cost(1000), cost(20_000));
            assert!(long < 6 * short, "{long:?}, {short:?}");
        }
    }

    #[test]
    fn a_message_stands_over_its_line_and_a_caret_under_the_place() {
        let source = Source::new("net.toml", "[host.a]\nip = \"10\"\n");
        let all = vec![source.wrong(14..18, "no address")];
        let text = Diagnostics::new(source, all).rendered(false);
        for part in ["error: no address", "net.toml:2:6", "ip = \"10\"", "^^^^", "net.toml: 1 error"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
