//! Every file of tests is in a test program: where a package names its programs, cargo looks for no others.

use house::named::packages;
use std::fs;
use std::path::Path;

/// Files of a package's folder of tests that no program has.
fn forgotten(package: &Path) -> Vec<String> {
    let manifest = fs::read_to_string(package.join("Cargo.toml")).unwrap();
    if !manifest.contains("autotests = false") {
        return Vec::new();
    }
    let all = fs::read_to_string(package.join("tests/all.rs")).unwrap();
    let files = fs::read_dir(package.join("tests")).unwrap().map(|entry| entry.unwrap().file_name());
    let mut files: Vec<String> = files.map(|name| name.into_string().unwrap()).collect();
    files.retain(|file| {
        let Some(name) = file.strip_suffix(".rs") else { return false };
        !manifest.contains(&format!("\"tests/{file}\"")) && !all.lines().any(|line| line == format!("mod {name};"))
    });
    files
}

#[test]
fn no_file_of_tests_is_forgotten() {
    let mut merged = 0;
    for package in packages().into_iter().filter(|package| package.join("tests").is_dir()) {
        assert_eq!(forgotten(&package), [""; 0], "{}: tests/all.rs names them, or Cargo.toml", package.display());
        merged += usize::from(package.join("tests/all.rs").is_file());
    }
    assert!(merged > 4, "{merged} packages have one");
}
