//! `cellway-lab run`, `report`: the same rows each time, and shards that merge.

use super::program;
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;

/// Each experiment in a shard, and two of them in a report of their own; with `CELLWAY_LONG` all once more, in one run.
#[test]
fn the_laboratory_gives_the_same_rows_twice_and_shards_merge_into_the_report_in_the_long_run() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let output = program(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let common = ["--quick", "--no-measure"];
    let once = |json: &[&str]| run(&[&["run", "seed001", "seed002", "--json"], &common[..], json].concat());
    let rows = once(&[]);
    assert_eq!(rows, once(&["--seed", "1"]));
    let rows: Value = serde_json::from_slice(&rows).unwrap();
    let row = &rows["rows"][0];
    for key in ["id", "published", "modelled", "measured", "deviation", "verdict", "experiment"] {
        assert!(row.get(key).is_some(), "{key} in {row}");
    }

    let out = folder.path().join("lab");
    let at = out.to_str().unwrap();
    // All at once: what one process does changes nothing for another.
    let shards = ["3/3", "1/3", "2/3"].map(|shard| {
        let arguments = [&["report"], &common[..], &["--shard", shard, "--out", at]].concat();
        program(&arguments).stdout(Stdio::null()).spawn().unwrap()
    });
    assert!(shards.into_iter().all(|mut child| child.wait().unwrap().success()));
    let part = |k: u32| format!("{at}/shard-{k}-of-3.json");
    run(&["report", "--out", at, "--merge", &part(2), &part(3), &part(1)]);
    let alone = folder.path().join("alone");
    let long = std::env::var_os("CELLWAY_LONG").is_some();
    let names: &[&str] = if long { &[] } else { &["seed001", "seed002"] };
    run(&[&["report"], names, &common[..], &["--out", alone.to_str().unwrap()]].concat());
    let rows_of = |folder: &Path| std::fs::read_to_string(folder.join("rows.csv")).unwrap();
    let (merged, single) = (rows_of(&out), rows_of(&alone));
    let named = |line: &&str| long || names.iter().any(|name| line.starts_with(name));
    assert!(single.lines().filter(named).count() > 20, "{single}");
    assert!(
        merged.lines().filter(named).eq(single.lines().filter(named)),
        "a shard's rows are not those of a single run"
    );
    for file in ["report.json", "rows.csv", "tidy-rows.csv", "tidy-curves.csv", "figure-12.svg"] {
        let [merged, whole] = [&out, &alone].map(|folder| std::fs::read(folder.join(file)).unwrap_or_default());
        assert!(!long || merged == whole, "{file} of the merged parts is not that of a single run");
        assert!(!merged.is_empty(), "{file} of the merged parts");
    }
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("seed004-livelock") && !page.contains("<script"));
    let table = std::fs::read_to_string(out.join("rows.csv")).unwrap();
    assert!(table.lines().count() > 150 && out.join("figure-12.svg").exists());
    let whole: Value = serde_json::from_slice(&std::fs::read(out.join("report.json")).unwrap()).unwrap();
    let rows = whole["outcomes"].as_array().unwrap().iter().map(|o| o["rows"].as_array().unwrap().len()).sum::<usize>();
    assert!(rows > 150, "{rows} rows as JSON");
    let absent = table.lines().filter(|line| line.contains(",absent,"));
    for line in absent {
        assert!(line.split(",absent,").nth(1).is_some_and(|reason| reason.len() > 40), "no reason: {line}");
    }
}
