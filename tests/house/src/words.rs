//! Plain words: sentences of at most 25 words, lines of at most 120 columns, and no phrase that a plainer one replaces.

/// Words of the longest sentence.
const WORDS: usize = 25;
/// Columns of the longest line of prose.
const COLUMNS: usize = 120;

/// A phrase, and what to write instead.
const PHRASES: &[(&str, &str)] = &[
    ("goes on to", "then"),
    ("gives way", "yields"),
    ("takes turns to", "alternates"),
    ("from when on", "since when"),
    ("whose most is", "at most"),
    ("way of data", "data path"),
    ("of no use with", "not valid with"),
    ("whoever", "a subject with a name"),
    ("seed 00", "the paper by its authors and year"),
    ("checklist", "the paper and its section"),
    ("in order to", "to"),
    ("utilize", "use"),
    ("leverage", "use"),
    ("seamless", "what happens"),
    ("blazing", "a figure with its limit"),
    ("cutting-edge", "what is new"),
    ("please note", "nothing"),
];

/// What a text has that is not plain, each with its line (from 1). Code, tables and headings have no sentences; code and tables may
/// be wide. `phrases` is false for pages that may name a paper by its number.
pub fn findings(markdown: &str, phrases: bool) -> Vec<String> {
    let mut found = Vec::new();
    for paragraph in paragraphs(markdown) {
        for (at, line) in &paragraph {
            if line.chars().count() > COLUMNS {
                found.push(format!("line {at}: {} columns", line.chars().count()));
            }
        }
        let text = paragraph.iter().map(|(_, line)| line.trim()).collect::<Vec<_>>().join(" ");
        let at = paragraph[0].0;
        found.extend(long_sentences(&text).map(|(words, begin)| format!("line {at}: {words} words: {begin} ...")));
        let small = text.to_lowercase();
        let used = PHRASES.iter().filter(|(phrase, _)| phrases && small.contains(phrase));
        found.extend(used.map(|(phrase, better)| format!("line {at}: \"{phrase}\": write {better}")));
    }
    found
}

/// Sentences with too many words: how many, and their first six. A sentence ends with a mark and a blank; the address of a link is none
/// of its words.
fn long_sentences(text: &str) -> impl Iterator<Item = (usize, String)> {
    let text = without_addresses(text);
    let mut sentences = vec![Vec::new()];
    for word in text.split_whitespace().skip(usize::from(is_item(&text))) {
        let last = sentences.len() - 1;
        sentences[last].push(word.to_owned());
        if word.trim_end_matches(['*', ')', '"', '`']).ends_with(['.', '!', '?', ':', ';']) {
            sentences.push(Vec::new());
        }
    }
    let long = sentences.into_iter().filter(|words| words.len() > WORDS);
    long.map(|words| (words.len(), words[..6].join(" ")))
}

/// `[text](address)` as `[text]`.
fn without_addresses(text: &str) -> String {
    let mut parts = text.split("](");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        kept.push(']');
        kept.push_str(part.split_once(')').map_or("", |(_, rest)| rest));
    }
    kept
}

/// Paragraphs and items of lists, as lines with their numbers.
fn paragraphs(markdown: &str) -> Vec<Vec<(usize, &str)>> {
    let mut all = Vec::new();
    let mut paragraph = Vec::new();
    let mut is_code = false;
    for (at, line) in markdown.lines().enumerate() {
        let start = line.trim_start();
        let fence = start.starts_with("```");
        is_code ^= fence;
        let indented = line.starts_with("    ") && paragraph.is_empty() && !is_item(start);
        let none = fence || is_code || indented || start.is_empty() || start.starts_with(['|', '#', '<']);
        if none || is_item(start) {
            all.push(std::mem::take(&mut paragraph));
        }
        if !none {
            paragraph.push((at + 1, line));
        }
    }
    all.push(paragraph);
    all.retain(|paragraph| !paragraph.is_empty());
    all
}

/// Whether a line begins an item of a list: `- `, `* `, `1. `.
fn is_item(line: &str) -> bool {
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    line.starts_with("- ") || line.starts_with("* ") || (number.len() < line.len() && number.starts_with(". "))
}

/// The comments of a source that are shown by `--help`, one paragraph for each, with blank lines for everything else: line numbers stay.
pub fn help_texts(source: &str) -> String {
    let lines = source.lines().map(|line| line.trim().strip_prefix("///").map_or("", str::trim_start));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentence(words: usize) -> String {
        format!("{}.", vec!["w"; words].join(" "))
    }

    #[test]
    fn a_planted_long_sentence_is_found_in_prose_and_in_lists_and_nowhere_else() {
        assert_eq!(findings(&sentence(25), true), [""; 0]);
        assert_eq!(findings(&sentence(26), true), ["line 1: 26 words: w w w w w w ..."]);
        assert_eq!(findings(&format!("# Head\n\n- {}\n1. {}\n", sentence(25), sentence(26)), true).len(), 1);
        let two = format!("{} {}", sentence(20), sentence(20));
        assert_eq!(findings(&two, true), [""; 0]);
        for code in ["```\n{}\n```\n", "    {}\n", "| {} |\n", "## {}\n"] {
            assert_eq!(findings(&code.replace("{}", &sentence(60)), true), [""; 0], "{code}");
        }
        let link = format!("[{}](a b c d e f)", vec!["w"; 25].join(" "));
        assert_eq!(findings(&link, true), [""; 0], "an address is no words");
    }

    #[test]
    fn a_planted_wide_line_and_a_planted_phrase_are_found_with_their_lines() {
        let wide = "x".repeat(121);
        assert_eq!(findings(&format!("a\n\n{wide}\n"), true), ["line 3: 121 columns"]);
        assert_eq!(findings(&format!("| {wide} |\n"), true), [""; 0]);
        assert_eq!(
            findings("Short.\n\nIt is fast on the way\nof data.\n", true),
            [r#"line 3: "way of data": write data path"#]
        );
        assert_eq!(findings("As in seed 001.", false), [""; 0]);
    }

    #[test]
    fn comments_for_help_keep_their_lines() {
        assert_eq!(help_texts("struct A {\n    /// What it is.\n    a: u8,\n}"), "\nWhat it is.\n\n");
    }
}
