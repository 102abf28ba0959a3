//! The page on building on it has the echoes as they are tested.

use bindings::root;
use std::fs;

/// The code of a page in a language, in the page's order.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let mark = format!("```{language}\n");
    page.match_indices(&mark).map(|(at, _)| page[at + mark.len()..].split_once("```").unwrap().0.to_owned()).collect()
}

#[test]
fn the_echoes_of_the_page_are_those_that_run() {
    let page = fs::read_to_string(root().join("docs/building-on-it.md")).unwrap();
    for (language, file) in [
        ("rust", "crates/endpoint/examples/echo.rs"),
        ("c", "bindings/c/examples/echo.c"),
        ("python", "bindings/python/examples/echo.py"),
    ] {
        let text = fs::read_to_string(root().join(file)).unwrap();
        assert_eq!(blocks(&page, language).first(), Some(&text), "{file}: copy it into docs/building-on-it.md");
        let lines = text.lines().filter(|line| !line.trim().is_empty()).count();
        assert!(lines <= 18, "{file} has {lines} lines");
    }
}
