//! `cellway-lab run`, `report`: the same rows each time, and shards that merge.

use super::program;
use serde_json::Value;
use std::process::Stdio;

#[test]
fn the_laboratory_gives_the_same_rows_twice_and_shards_merge_into_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let output = program(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let common = ["--quick", "--no-measure"];
    let once = |json: &[&str]| run(&[&["run", "seed001", "seed002", "--json"], &common[..], json].concat());
    assert_eq!(once(&[]), once(&["--seed", "1"]));
    let rows: Value = serde_json::from_slice(&once(&[])).unwrap();
    let row = &rows["rows"][0];
    for key in ["id", "published", "modelled", "measured", "deviation", "verdict", "experiment"] {
        assert!(row.get(key).is_some(), "{key} in {row}");
    }

    let out = folder.path().join("lab");
    let at = out.to_str().unwrap();
    let whole = folder.path().join("whole");
    // All at once: what one process does changes nothing for another.
    let reports = [["--shard", "3/3"], ["--shard", "1/3"], ["--shard", "2/3"], ["--out", whole.to_str().unwrap()]];
    let reports = reports.map(|rest| {
        let out: &[&str] = if rest[0] == "--out" { &[] } else { &["--out", at] };
        let arguments = [&["report"], &common[..], &rest[..], out].concat();
        program(&arguments).stdout(Stdio::null()).spawn().unwrap()
    });
    assert!(reports.into_iter().all(|mut child| child.wait().unwrap().success()));
    let part = |k: u32| format!("{at}/shard-{k}-of-3.json");
    run(&["report", "--out", at, "--merge", &part(2), &part(3), &part(1)]);
    for file in ["report.json", "rows.csv", "tidy-rows.csv", "tidy-curves.csv", "figure-12.svg"] {
        let [merged, whole] = [&out, &whole].map(|folder| std::fs::read(folder.join(file)).unwrap());
        assert!(merged == whole, "{file} of the merged parts is not that of a single run");
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
