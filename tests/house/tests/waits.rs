//! Tests wait for conditions, never for a time.

use house::allowed_waits::ALLOWED;
use house::named::root;
use house::waits::timed_waits;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn no_test_waits_for_a_time_but_those_of_the_list() {
    let root = root();
    let mut found = Vec::new();
    for package in house::named::packages() {
        sources(&package.join("tests"), &mut found);
        if package.starts_with(root.join("tests")) && !package.ends_with("house") {
            sources(&package.join("src"), &mut found);
        }
    }
    let mut waits = BTreeSet::new();
    for file in found {
        let name = file.strip_prefix(&root).unwrap().display().to_string();
        let functions = timed_waits(&fs::read_to_string(&file).unwrap());
        waits.extend(functions.into_iter().map(|function| (name.clone(), function)));
    }
    let of_file = |(file, functions): &(&str, &[(&str, _)])| -> Vec<_> {
        functions.iter().map(|(function, _)| ((*file).to_owned(), (*function).to_owned())).collect()
    };
    let allowed: BTreeSet<_> = ALLOWED.iter().flat_map(of_file).collect();
    let new: Vec<_> = waits.difference(&allowed).collect();
    assert!(new.is_empty(), "these let time pass instead of waiting for a condition with a bound: {new:#?}");
    let gone: Vec<_> = allowed.difference(&waits).collect();
    assert!(gone.is_empty(), "listed, and no longer there: {gone:#?}");
}
