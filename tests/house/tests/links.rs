//! The pages of the documentation: relative links lead to files and headings that exist, and the site's summary has every
//! page once, in its five groups.

use house::named::root;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

const GROUPS: [&str; 5] = ["Start", "How-to", "Reference", "Explanation", "Laboratory"];

/// All pages: Markdown files of the repository without build output.
fn pages() -> Vec<PathBuf> {
    fn walk(folder: &Path, out: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let (path, name) = (entry.path(), entry.file_name());
            if ["target", "out", ".git", "corpus"].iter().any(|skipped| name == *skipped) {
                continue;
            }
            if entry.file_type().unwrap().is_dir() {
                walk(&path, out);
            } else if path.extension().is_some_and(|end| end == "md") {
                out.push(path);
            }
        }
    }
    let mut out = Vec::new();
    walk(&root(), &mut out);
    out.sort();
    out
}

/// The lines of a page that are prose: code between fences has other brackets.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// A line without what is in backquotes.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

/// The relative links of a page, with their lines.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        for part in without_code(line).split("](").skip(1) {
            let Some((target, _)) = part.split_once(')') else { continue };
            if !target.contains("://") && !target.starts_with("mailto:") {
                found.push((number, target.to_owned()));
            }
        }
    }
    found
}

/// The names that headings have in links, as GitHub and mdBook make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (_, line) in prose(text) {
        let title = line.trim_start_matches('#');
        if title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let name: String = title.trim().to_lowercase().chars().filter_map(in_anchor).collect();
        // The second heading of the same words has a number.
        let number = (1..).find(|n| !names.contains(&format!("{name}-{n}")));
        let name = if names.contains(&name) { format!("{name}-{}", number.unwrap_or(1)) } else { name };
        names.insert(name);
    }
    names
}

fn in_anchor(letter: char) -> Option<char> {
    match letter {
        ' ' => Some('-'),
        letter => (letter.is_alphanumeric() || "-_".contains(letter)).then_some(letter),
    }
}

/// A path without `..`, which no link has to follow.
fn plain(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut so_far, part| {
        match part {
            Component::ParentDir => drop(so_far.pop()),
            part => so_far.push(part),
        }
        so_far
    })
}

/// What is wrong with the links of a page.
fn dead(page: &Path, text: &str) -> Vec<String> {
    let mut dead = Vec::new();
    for (line, link) in links(text) {
        let (name, anchor) = link.split_once('#').unwrap_or((&link, ""));
        let to = if name.is_empty() { page.to_owned() } else { plain(&page.parent().unwrap().join(name)) };
        let is_page = to.extension().is_some_and(|end| end == "md");
        let has_heading = || {
            to == page && anchors(text).contains(anchor)
                || fs::read_to_string(&to).is_ok_and(|text| anchors(&text).contains(anchor))
        };
        if !to.exists() && to != page || (is_page && !anchor.is_empty() && !has_heading()) {
            dead.push(format!("{}:{line}: {link}", page.display()));
        }
    }
    dead
}

#[test]
fn relative_links_lead_to_files_and_headings_that_exist() {
    let pages = pages();
    let texts = pages.iter().map(|page| (page, fs::read_to_string(page).unwrap()));
    let (mut number, mut wrong) = (0, Vec::new());
    for (page, text) in texts {
        number += links(&text).len();
        wrong.extend(dead(page, &text));
    }
    assert!(number > 300, "{number} links");
    assert!(wrong.is_empty(), "these lead nowhere:\n{}", wrong.join("\n"));
}

#[test]
fn a_link_that_leads_nowhere_is_named() {
    let page = root().join("docs/planted.md");
    let text =
        "# One thing, here\n## Again\n## Again\n[a](#one-thing-here) [b](#again-1) [c](security.md) `[d](none.md)`\n";
    assert_eq!(dead(&page, text), [""; 0]);
    let wrong =
        "[a](none.md) [b](#missing)\n[c](security.md#no-such-heading) [d](../README.md)\n```\n[e](none.md)\n```\n";
    let named: Vec<String> =
        dead(&page, wrong).iter().map(|line| line.rsplit(":").next().unwrap().to_owned()).collect();
    assert_eq!(named, [" none.md", " #missing", " security.md#no-such-heading"]);
}

#[test]
fn the_sites_summary_has_every_page_once_and_five_groups() {
    let docs = root().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let groups: Vec<&str> = summary.lines().filter_map(|line| line.strip_prefix("# ")).skip(1).collect();
    assert_eq!(groups, GROUPS);
    let named: Vec<PathBuf> = links(&summary).iter().map(|(_, link)| plain(&docs.join(link))).collect();
    let once: BTreeSet<&PathBuf> = named.iter().collect();
    assert_eq!(once.len(), named.len(), "docs/SUMMARY.md has a page twice");
    let pages = pages();
    let of_site = pages.iter().filter(|page| page.starts_with(&docs) && !page.ends_with("SUMMARY.md"));
    let missing: Vec<_> = of_site.filter(|page| !once.contains(page)).collect();
    assert!(missing.is_empty(), "add these to docs/SUMMARY.md: {missing:?}");
}
