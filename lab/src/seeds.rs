//! Many seeds for one test, and the command that repeats the one that failed.

/// Says, when a test fails, which seed it was and how to run it again.
struct Reporter<'a> {
    test: &'a str,
    seed: u64,
}

impl Drop for Reporter<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}: repeat with\n    {}", self.seed, repeat_command(self.test, self.seed));
        }
    }
}

/// The command that repeats one seed of one test.
pub fn repeat_command(test: &str, seed: u64) -> String {
    format!("CELLWAY_SEED={seed} cargo test -p cellway-lab {test} -- --nocapture")
}

/// Runs `case` for `count` seeds from 0 on, or for the one in the environment's `CELLWAY_SEED`.
///
/// # Panics
/// As `case` does, after printing the seed and the command that repeats it.
pub fn for_seeds(test: &str, count: u64, mut case: impl FnMut(u64)) {
    let only = std::env::var("CELLWAY_SEED").ok().and_then(|text| text.parse().ok());
    let seeds = only.map_or(0..count, |seed: u64| seed..seed + 1);
    for seed in seeds {
        let _reporter = Reporter { test, seed };
        case(seed);
    }
}
