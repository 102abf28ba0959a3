//! Scenarios on small networks: what arrives, what a fault takes away, and the same octets from the same seed.

use super::scenario::Scenario;
use super::traffic::{Generator, cells};
use super::{Outcome, SimulationError, run};
use std::path::Path;

const NETWORK: &str = include_str!("../../scenarios/line.toml");
const OVERLOAD: &str = include_str!("../../scenarios/overload.toml");

fn simulate(network: &str, scenario: &str, folder: &Path, seed: u64) -> Result<Outcome, SimulationError> {
    let kinds = cellway::kinds::kinds();
    let config = control::description::read(&kinds, network, "network", folder).unwrap();
    run(&kinds, &config, &Scenario::parse(scenario)?, folder, seed)
}

fn here(scenario: &str, seed: u64) -> Outcome {
    simulate(NETWORK, scenario, Path::new(""), seed).unwrap()
}

fn source(kind: &str, more: &str) -> String {
    format!("[[source]]\nname = \"s\"\nfrom = \"alpha 0.100\"\nkind = \"{kind}\"\n{more}\n")
}

#[test]
fn a_constant_rate_within_its_contract_arrives_whole_and_with_the_delay_of_its_links() {
    let scenario = format!("duration = \"100 ms\"\n{}", source("cbr", "rate = \"4 Mbit/s\"\noctets = 472"));
    let outcome = here(&scenario, 1);
    let source = &outcome.sources[0];
    // 10 cells of 384 bits of payload at 4 Mbit/s: one SDU every 960 us.
    assert_eq!((source.sent, source.received, source.lost, source.refused), (105, 105, 0, 0), "{source:?}");
    let delay = source.delay_s.unwrap();
    // The host paces ten cells at 5 Mbit/s of payload, 76.8 us each; links add their delays and a cell's time each.
    assert!(delay.min > 9.0 * 76.8e-6 + 20e-6 && delay.max < 10.0 * 76.8e-6 + 200e-6, "{delay:?}");
    assert!(delay.min <= delay.mean && delay.p99 <= delay.max, "{delay:?}");
    assert!(outcome.dropped.is_empty() && outcome.carried >= 4 * 10 * 105, "{outcome:?}");
}

#[test]
fn a_contract_holds_beside_an_overload_a_failed_switch_loses_cells_and_expectations_tell_both() {
    let outcome = here(OVERLOAD, 1);
    assert!(outcome.expectations.iter().all(|expectation| expectation.met), "{outcome:#?}");
    let [voice, bulk] = [&outcome.sources[0], &outcome.sources[1]];
    assert!(voice.lost > 0 && voice.lost < voice.sent / 2, "30 of 200 ms are lost: {voice:?}");
    assert!(bulk.lost > bulk.sent / 4, "{bulk:?}");
    let reasons: Vec<&str> = outcome.dropped.iter().map(|row| row.reason.as_str()).collect();
    assert!(reasons.contains(&"link_down"), "{reasons:?}");
    // The same expectation over the failure is not met.
    let missed = here(&OVERLOAD.replace("until = \"99 ms\"", "until = \"120 ms\""), 1);
    assert!(!missed.expectations[0].met, "{missed:#?}");
}

#[test]
fn the_same_seed_gives_the_same_result_to_the_octet_and_another_seed_another() {
    let short = OVERLOAD.replace("duration = \"200 ms\"", "duration = \"40 ms\"");
    let [one, again, other] = [7, 7, 8].map(|seed| here(&short, seed));
    assert_eq!(serde_json::to_string(&one).unwrap(), serde_json::to_string(&again).unwrap());
    assert_ne!(one.trace, other.trace);
}

#[test]
fn a_change_of_the_description_is_applied_while_traffic_passes() {
    let folder = tempfile::tempdir().unwrap();
    // Without the circuit of best effort; the other one is not touched.
    let second = NETWORK.rsplit_once("[[circuit]]").unwrap().0;
    std::fs::write(folder.path().join("second.toml"), second).unwrap();
    let bulk =
        "[[source]]\nname = \"bulk\"\nfrom = \"alpha 0.101\"\nkind = \"poisson\"\nrate = \"2 Mbit/s\"\noctets = 300\n";
    let scenario = format!(
        "duration = \"200 ms\"\n{}{bulk}[[change]]\nat = \"100 ms\"\ndescription = \"second.toml\"\n",
        source("cbr", "rate = \"4 Mbit/s\"\noctets = 472")
    );
    let outcome = simulate(NETWORK, &scenario, folder.path(), 3).unwrap();
    let [constant, bulk] = [&outcome.sources[0], &outcome.sources[1]];
    assert_eq!(constant.lost + constant.refused, 0, "{constant:?}");
    assert!(bulk.received > 10 && bulk.received < bulk.sent + bulk.refused, "{bulk:?}");
}

#[test]
fn a_file_says_when_sdus_are_sent_and_of_what_size() {
    let folder = tempfile::tempdir().unwrap();
    let write = |text: &str| std::fs::write(folder.path().join("sizes"), text).unwrap();
    write("# seconds octets\n0.001 100\n0.002 2000\n0.050 64\n");
    let scenario = format!("duration = \"20 ms\"\n{}", source("file", "file = \"sizes\""));
    let outcome = simulate(NETWORK, &scenario, folder.path(), 1).unwrap();
    assert_eq!((outcome.sources[0].sent, outcome.sources[0].received), (2, 2), "the third comes after the end");
    assert!((outcome.sources[0].bits_per_s - 8.0 * 2100.0 / 0.02).abs() < 1e-6);
    for bad in ["x 100\n", "1\n", "0.1 1\n", "0.2 100\n0.1 100\n", "-1 100\n", "NaN 100\n"] {
        write(bad);
        let says = simulate(NETWORK, &scenario, folder.path(), 1).unwrap_err().to_string();
        assert!(says.contains("line"), "{bad:?}: {says}");
    }
}

#[test]
fn sources_have_the_rates_that_they_are_given() {
    let of = |kind: &str, more: &str| {
        let text =
            format!("duration = \"100 s\"\n{}", source(kind, &format!("rate = \"1000 cell/s\"\noctets = 40\n{more}")));
        let scenario = Scenario::parse(&text).unwrap();
        let mut generator = Generator::new(&scenario.source[0], 5, Path::new(""), scenario.duration()).unwrap();
        let mut times = Vec::new();
        while let Some((at, octets)) = generator.peek() {
            assert_eq!(octets, 40);
            times.push(at);
            generator.advance();
        }
        assert!(times.is_sorted());
        times
    };
    assert_eq!(of("cbr", "").len(), 100_000);
    let poisson = of("poisson", "");
    assert!((98_000..102_000).contains(&poisson.len()), "{}", poisson.len());
    let gaps: Vec<f64> = poisson.windows(2).map(|pair| pair[1].since(pair[0]).as_secs_f64()).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
    // The deviation of an exponential distribution is its mean.
    assert!((deviation / mean - 1.0).abs() < 0.03, "{deviation} {mean}");
    let on_off = of("on-off", "on = \"10 ms\"\noff = \"30 ms\"").len();
    assert!((22_000..28_000).contains(&on_off), "a quarter of the time: {on_off}");
    assert_eq!([cells(40), cells(41), cells(88)], [1, 2, 2]);
}

#[test]
fn what_does_not_fit_is_named_with_its_part() {
    let says = |scenario: &str| match Scenario::parse(scenario) {
        Ok(_) => simulate(NETWORK, scenario, Path::new(""), 1).unwrap_err().to_string(),
        Err(e) => e.to_string(),
    };
    let cbr = source("cbr", "rate = \"1 Mbit/s\"\noctets = 100");
    let with = |more: &str| format!("duration = \"1 ms\"\n{cbr}{more}");
    for (scenario, part) in [
        ("duration = \"1\"".to_owned(), "unit"),
        ("duration = \"0 s\"".to_owned(), "duration"),
        ("duration = \"1 s\"\nspeed = 1".to_owned(), "speed"),
        (with("[[change]]\nat = \"0 s\"\nlink = \"a\"\n"), "change 1"),
        (with("[[change]]\nat = \"0 s\"\nstation = \"s9\"\nup = false\n"), "s9"),
        (with("[[expect]]\nsays = \"x\"\nsource = \"t\"\nloss = 0.0\n"), "no source t"),
        (with("[[expect]]\nsays = \"x\"\n"), "lost_cells"),
        (with("[[expect]]\nsays = \"x\"\ncategory = \"fast\"\nloss = 0.0\n"), "fast"),
        (with(&cbr), "another source"),
        (with("").replace("0.100", "0.999"), "no circuit"),
        (with("").replace("100\n", "8\n"), "octets"),
        (with("").replace("1 Mbit/s", "1 Mbits"), "source s"),
        (with("").replace("octets = 100", ""), "`octets`"),
        (with("").replace("octets = 100", "octets = 100\non = \"1 s\""), "`on`"),
    ] {
        let says = says(&scenario);
        assert!(says.contains(part), "{scenario}\n{says}");
    }
    let outside = include_str!("../../../examples/udp-cells.toml");
    let refused = simulate(outside, "duration = \"1 ms\"", Path::new(""), 1);
    assert!(matches!(refused, Err(SimulationError::Outside(_))), "{refused:?}");
}

#[test]
fn an_expectation_of_what_was_never_sent_is_not_met() {
    let scenario = format!(
        "duration = \"1 ms\"\n{}[[expect]]\nsays = \"x\"\ncategory = \"ubr\"\nlost_cells = 0\n",
        source("cbr", "rate = \"4 Mbit/s\"\noctets = 100")
    );
    let outcome = here(&scenario, 1);
    assert!(!outcome.expectations[0].met && outcome.sources[0].received > 0, "{outcome:?}");
}
