//! Points, intervals, resumption and refusal.

use super::*;

fn options(folder: &Path, arguments: &[&str]) -> GridOptions {
    #[derive(clap::Parser)]
    struct Only {
        #[command(flatten)]
        grid: GridOptions,
    }
    let out = ["--out", folder.to_str().unwrap(), "--quick"];
    let all = [&["grid", "seed001-pipeline"], arguments, &out].concat();
    <Only as clap::Parser>::parse_from(all).grid
}

fn go(options: &GridOptions) -> Result<(usize, Vec<String>)> {
    let plan = Plan::new(options, &[])?;
    plan.settle(&options.out)?;
    let ran = run_points(options, &plan)?;
    let files =
        if plan.present(&options.out) == plan.points() { curves::write(&plan, &options.out)? } else { Vec::new() };
    Ok((ran, files))
}

const AXES: [&str; 4] = ["rs6000-320.word_ns=80..120/3", "rs6000-320.iocc_load_us=2..3/2", "--seeds", "1..2"];

#[test]
fn every_point_is_run_once_parts_and_an_interrupted_run_come_together_and_the_curves_are_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, parts) = (folder.path().join("whole"), folder.path().join("parts"));
    let (ran, files) = go(&options(&whole, &AXES)).unwrap();
    assert_eq!(ran, 12);
    assert!(files.len() > 2, "no row moves: {files:?}");
    let half = options(&parts, &[&AXES[..], &["--shard", "1/2"]].concat());
    assert_eq!(go(&half).unwrap(), (6, Vec::new()));
    fs::remove_file(file_of(&parts, 2)).unwrap();
    let (ran, again) = go(&options(&parts, &AXES)).unwrap();
    assert_eq!((ran, &again), (7, &files), "six of the other part, and the one that is missing");
    for file in &files {
        let [a, b] = [&whole, &parts].map(|folder| fs::read(folder.join(file)).unwrap());
        assert!(a == b, "{file} depends on how the points were run");
    }
    assert_eq!(go(&options(&parts, &AXES)).unwrap().0, 0, "nothing is left to run");
    let curves = fs::read_to_string(whole.join("curves.csv")).unwrap();
    assert!(curves.starts_with("id,what,unit,rs6000-320.word_ns,rs6000-320.iocc_load_us,mean,low,high,seeds\n"));
    assert!(curves.lines().any(|line| line.contains(",100,3,") && line.ends_with(",2")), "{curves}");
}

#[test]
fn a_folder_of_another_grid_a_constant_that_is_not_read_and_one_given_twice_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let error = |arguments: &[&str]| go(&options(folder.path(), arguments)).unwrap_err().to_string();
    assert!(error(&["hp9000-755.poll_us=1..2/2"]).contains("does not read hp9000-755.poll_us"));
    assert!(error(&AXES).contains("holds another grid"));
    assert!(error(&["rs6000-320.word_ns=1..2", "rs6000-320.word_ns=1..2"]).contains("twice"));
    for bad in ["rs6000-320.word_ns=1..2/1", "rs6000-320.word_ns=1..2/x", "rs6000-320.word_ns"] {
        assert!(bad.parse::<Axis>().is_err(), "{bad}");
    }
    assert!("3..2".parse::<Seeds>().is_err() && "x".parse::<Seeds>().is_err());
}

#[test]
fn an_interval_is_students_and_a_single_number_is_its_own() {
    assert_eq!(curves::interval(&[7.0]), [7.0; 3]);
    let [mean, low, high] = curves::interval(&[1.0, 2.0, 3.0, 4.0, 5.0]);
    // s is 1.5811, t for four degrees of freedom 2.776.
    assert!((mean - 3.0).abs() < 1e-12 && (high - 4.963).abs() < 1e-3 && (mean - low - (high - mean)).abs() < 1e-12);
    assert_eq!(curves::fields("1,\"a, \"\"b\"\"\",2"), ["1", "a, \"b\"", "2"]);
}

#[test]
fn the_commands_for_other_systems_name_every_option_of_the_grid() {
    let options = options(Path::new("my grid"), &[&AXES[..], &["--parts", "7"]].concat());
    let slurm = elsewhere(&options, Scheduler::Slurm);
    assert!(
        slurm.contains("--array=1-7") && slurm.contains("$SLURM_ARRAY_TASK_ID/7") && slurm.contains("--seeds 1..2")
    );
    let queue = elsewhere(&options, Scheduler::Hyperqueue);
    assert!(queue.contains("$HQ_TASK_ID/7") && queue.contains("iocc_load_us=2..3/2") && queue.ends_with("--quick\n"));
    assert!(queue.lines().last().unwrap().contains("'my grid'"), "{queue}");
}
