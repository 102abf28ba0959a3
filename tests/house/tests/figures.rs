//! Figures of the documentation: a page shows each, and each can be read in light and in dark.

use house::named::root;
use std::fs;
use std::path::{Path, PathBuf};

fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// Whether its colours follow the reader's, or it brings its own background.
fn is_legible(svg: &str) -> bool {
    let begin: String = svg.chars().take(1000).collect();
    let has_background = [r#"<rect x="0" y="0""#, r#"<rect width="100%""#].iter().any(|rect| begin.contains(rect))
        && begin.to_uppercase().contains(r##"FILL="#FFFFFF""##);
    svg.contains("prefers-color-scheme") || has_background
}

#[test]
fn each_figure_is_shown_by_a_page_and_can_be_read_in_dark() {
    let root = root();
    let mut all = vec![root.join("README.md"), root.join("ARCHITECTURE.md")];
    pages(&root.join("docs"), &mut all);
    let text: String = all.iter().map(|page| fs::read_to_string(page).unwrap()).collect();
    let figures: Vec<PathBuf> =
        fs::read_dir(root.join("docs/figures")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(figures.len() >= 7, "{figures:?}");
    for figure in figures {
        let name = figure.file_name().unwrap().to_str().unwrap();
        assert!(text.contains(&format!("figures/{name})")), "no page shows {name}");
        if figure.extension().is_some_and(|extension| extension == "svg") {
            assert!(is_legible(&fs::read_to_string(&figure).unwrap()), "{name} cannot be read in dark");
        }
    }
    assert!(!is_legible(r#"<svg viewBox="0 0 9 9"><text fill="black">a</text></svg>"#));
}
