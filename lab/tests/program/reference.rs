//! The page of what this program prints is what the types say.

use super::program;
use std::path::Path;

#[test]
fn the_page_of_results_is_what_the_types_say() {
    let folder = tempfile::tempdir().unwrap();
    assert!(program(&["schema", "--markdown"]).arg(folder.path()).status().unwrap().success());
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference");
    let made: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(made, ["lab-results.md"]);
    let [is, should] = [&pages, folder.path()].map(|at| std::fs::read_to_string(at.join(&made[0])).unwrap_or_default());
    if std::env::var_os("CELLWAY_WRITE").is_some() {
        return std::fs::write(pages.join(&made[0]), should).unwrap();
    }
    assert!(is == should, "docs/reference/lab-results.md is not what the types say: run scripts/reference");
}
