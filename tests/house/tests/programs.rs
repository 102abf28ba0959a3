//! Every file of tests is in a test program, and a package has one program, but for files that say why they are one by themselves.
//! Where a package names its programs, cargo looks for no others.

use house::named::packages;
use std::fs;
use std::path::Path;

/// How a file begins to say why it is a program of its own. One with an allocator needs no words: a program has one.
const REASONS: [&str; 2] = ["A test program of its own: ", "#[global_allocator]"];

/// The files of a package's folder of tests: name and text.
fn files(package: &Path) -> Vec<(String, String)> {
    let files = fs::read_dir(package.join("tests")).unwrap().map(|entry| entry.unwrap().path());
    let sources = files.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    sources.map(|path| (name(&path), fs::read_to_string(path).unwrap())).collect()
}

/// What is wrong with the test programs that a package's manifest names.
fn wrong(manifest: &str, files: &[(String, String)]) -> Vec<String> {
    if !manifest.contains("autotests = false") {
        let merged = files.len() < 2;
        return (!merged).then(|| "several programs without autotests = false".into()).into_iter().collect();
    }
    let named = |file: &str| manifest.contains(&format!("\"tests/{file}\""));
    let (programs, modules): (Vec<_>, Vec<_>) = files.iter().partition(|(file, _)| named(file));
    let mut wrong = Vec::new();
    for (file, _) in modules {
        let line = format!("mod {};", file.trim_end_matches(".rs"));
        if !programs.iter().any(|(_, text)| text.lines().any(|l| l == line)) {
            wrong.push(format!("{file}: in no program"));
        }
    }
    for (file, text) in programs {
        if file != "all.rs" && !REASONS.iter().any(|reason| text.contains(reason)) {
            wrong.push(format!("{file}: a program of its own, and does not say why"));
        }
    }
    wrong
}

#[test]
fn no_file_of_tests_is_forgotten_or_a_program_of_its_own_without_a_reason() {
    let mut merged = 0;
    for package in packages().into_iter().filter(|package| package.join("tests").is_dir()) {
        let manifest = fs::read_to_string(package.join("Cargo.toml")).unwrap();
        assert_eq!(wrong(&manifest, &files(&package)), [""; 0], "{}", package.display());
        merged += usize::from(package.join("tests/all.rs").is_file());
    }
    assert!(merged > 4, "{merged} packages have one");
}

#[test]
fn a_forgotten_file_and_a_program_without_a_reason_are_named() {
    let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let manifest = "autotests = false\n[[test]]\npath = \"tests/all.rs\"\n[[test]]\npath = \"tests/memory.rs\"\n";
    let all = file("all.rs", "mod calls;\n");
    let reason = file("memory.rs", "//! What it takes. A test program of its own: its allocator counts.\n");
    let calls = file("calls.rs", "//! Calls.\n");
    assert_eq!(wrong(manifest, &[all.clone(), calls.clone(), reason.clone()]), [""; 0]);
    assert_eq!(wrong(manifest, &[all.clone(), file("trees.rs", ""), reason]), ["trees.rs: in no program"]);
    let silent = file("memory.rs", "//! What it takes.\n");
    assert_eq!(wrong(manifest, &[all, calls, silent]), ["memory.rs: a program of its own, and does not say why"]);
    assert_eq!(wrong("", &[file("a.rs", ""), file("b.rs", "")]).len(), 1);
}
