//! The pages under `docs/reference` are what the types say.

use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn pages_of_reference_are_what_the_types_say() {
    let folder = tempfile::tempdir().unwrap();
    let mut schema = Command::new(env!("CARGO_BIN_EXE_cellway"));
    assert!(schema.args(["schema", "--markdown"]).arg(folder.path()).status().unwrap().success());
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    let names = |folder: &Path| -> Vec<PathBuf> {
        let all = std::fs::read_dir(folder).into_iter().flatten();
        let mut all: Vec<PathBuf> = all.map(|entry| entry.unwrap().file_name().into()).collect();
        all.sort();
        all
    };
    let made = names(folder.path());
    assert_eq!(made.len(), 4);
    if std::env::var_os("CELLWAY_WRITE").is_some() {
        std::fs::create_dir_all(&pages).unwrap();
        for name in &made {
            std::fs::copy(folder.path().join(name), pages.join(name)).unwrap();
        }
    }
    // `cellway-lab` has a page of its own.
    let mut all = names(&pages);
    all.retain(|name| name.as_os_str() != "lab-results.md");
    assert_eq!(all, made, "run scripts/reference, and commit what it writes");
    for name in made {
        let [is, should] = [&pages, folder.path()].map(|at| std::fs::read_to_string(at.join(&name)).unwrap());
        assert!(is == should, "docs/reference/{} is not what the types say: run scripts/reference", name.display());
    }
}
