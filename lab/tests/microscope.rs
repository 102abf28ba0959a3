//! A traced run is the experiment's own run: its results, and the sums of its units.

use lab::experiment::{ExperimentOutcome, run};
use lab::experiments::named;
use lab::microscope::{SCENES, View, ViewError, scene, svg};
use lab::model::Profile;
use lab::model::pair::{self, Scenario, Transport};
use serde_json::Value;

/// ttcp's Mbit.
const MEBI: f64 = 1.048_576;

fn outcome(name: &str) -> ExperimentOutcome {
    run(named(name).unwrap(), 1, true, None).unwrap()
}

/// Whether an experiment draws or prints this number.
fn shows(outcome: &ExperimentOutcome, number: f64) -> bool {
    let near = |other: f64| (other - number).abs() < 1e-9 * number.abs();
    let drawn = outcome.figures.iter().flat_map(|f| &f.series).flat_map(|s| &s.points).any(|p| near(p[1]));
    drawn || outcome.rows.iter().filter_map(|row| row.modelled).any(near)
}

#[test]
fn what_a_traced_run_gives_is_what_its_experiment_prints() {
    for (experiment, scenes, results, unit) in [
        ("seed001-writes", &["user-buffer", "kernel-buffer"][..], &["rate"][..], 1.0),
        ("seed003-tables", &["udp-checksum", "udp", "raw"], &["received"], MEBI),
        ("seed000-one-way", &["single-copy"], &["received"], MEBI),
    ] {
        let whole = outcome(experiment);
        for name in scenes {
            let looked = scene(experiment, Some(name)).unwrap().run(&[], true).unwrap();
            for (what, _, number) in looked.results.iter().filter(|(what, ..)| results.contains(what)) {
                assert!(shows(&whole, number / unit), "{experiment}, {name}, {what}: {}", number / unit);
            }
        }
    }
}

#[test]
fn what_the_copying_receiver_gives_is_what_its_experiment_says() {
    let looked = scene("seed000-one-way", Some("copying")).unwrap().run(&[], true).unwrap();
    let received = looked.results.iter().find(|(what, ..)| *what == "received").unwrap().2 / MEBI;
    let said = format!("{received:.1} received");
    let whole = outcome("seed000-one-way");
    assert!(whole.rows.iter().any(|row| row.note.contains(&said)), "no row says {said}");
}

#[test]
fn the_busy_times_of_all_spans_are_the_machines_own_account() {
    let machine = Profile::named("pentium90-neptune").unwrap();
    let plain = Scenario::new(&machine, &machine, Transport::Raw, 60);
    for (transport, single_copy, loopback, beside) in [
        (Transport::Raw, false, false, None),
        (Transport::Raw, true, true, None),
        (Transport::Raw, false, true, Some(3)),
        (Transport::Udp { checksum: true }, false, false, Some(5)),
        (Transport::Tcp, false, false, None),
    ] {
        let scenario = Scenario { transport, single_copy, loopback, beside, ..plain.clone() };
        let recorded = pair::run_recorded(&scenario).unwrap();
        assert_eq!(recorded.outcome, pair::run(&scenario).unwrap(), "recording changes nothing");
        let units: &[[&[usize]; 3]] =
            if loopback { &[[&[1], &[0, 8, 9], &[2]]] } else { &[[&[1], &[0, 9], &[2]], [&[7], &[8, 10], &[6]]] };
        for (busy, units) in recorded.busy.iter().zip(units) {
            for (own, units) in busy.iter().zip(units) {
                let spans: f64 = units.iter().map(|unit| recorded.timeline.busy[*unit]).sum();
                assert!((own - spans).abs() < 1e-9, "{transport:?}, loopback {loopback}: {own} s, {spans} s in spans");
            }
        }
        if transport != Transport::Tcp {
            assert_eq!(recorded.timeline.cells[4], recorded.outcome.cells);
            assert_eq!(recorded.timeline.pdus(), 61);
        }
    }
}

#[test]
fn a_pdu_passes_its_units_in_order_and_its_shares_add_up_to_the_run() {
    for scene in &SCENES {
        let looked = scene.run(&[], true).unwrap();
        let view = View::new(scene, &looked, 20).unwrap();
        let at = |unit: &str| view.events.iter().find(|event| event.unit == unit).map(|event| event.from_us);
        let order = ["sender: application", "sender: I/O bus", "line", "receiver: I/O bus", "receiver: interrupts"];
        let moments: Vec<f64> = order.iter().filter_map(|unit| at(unit)).collect();
        assert!(moments.is_sorted(), "{} {}: {moments:?}", scene.experiment, scene.name);
        assert!(view.events.len() >= 3 && view.lasts_us > 100.0, "{view:?}");
        // Of each unit that serves PDUs: the shares of all PDUs are its whole time.
        let all: Vec<View> = (0..view.pdus).filter_map(|pdu| View::new(scene, &looked, pdu).ok()).collect();
        let shares = |unit: &str| -> f64 {
            all.iter().flat_map(|v| &v.totals).filter(|t| t.unit == unit).map(|t| t.pdu_us).sum()
        };
        for total in view.totals.iter().filter(|total| total.pdu_us > 0.0) {
            let sum = shares(&total.unit);
            let unnamed = looked.timeline.spans.iter().filter(|s| s.pdus.is_none());
            let unnamed: f64 = unnamed
                .filter(|s| looked.timeline.units[s.unit] == total.unit)
                .map(|s| s.to.since(s.from).as_secs_f64() * 1e6)
                .sum();
            let run = total.run_us;
            assert!((sum + unnamed - run).abs() < 1e-3 * run, "{}: {sum} and {unnamed} of {run} us", total.unit);
            assert!(unnamed < 0.02 * run, "{}: {unnamed} us of {run} are of no PDU", total.unit);
        }
    }
}

#[test]
fn a_view_is_a_picture_a_trace_and_a_table_and_a_pdu_that_is_not_there_is_an_error() {
    let scene = scene("seed000-one-way", None).unwrap();
    let looked = scene.run(&[], true).unwrap();
    let view = View::new(scene, &looked, 7).unwrap();
    let trace: Value = view.perfetto();
    let events = trace["traceEvents"].as_array().unwrap();
    let works = events.iter().filter(|e| e["ph"] == "X");
    assert!(works.clone().count() > 5 && works.clone().all(|e| e["dur"].as_f64().is_some_and(|us| us >= 0.0)));
    let (begins, ends) = (events.iter().filter(|e| e["ph"] == "b"), events.iter().filter(|e| e["ph"] == "e"));
    assert_eq!((begins.clone().count(), ends.count()), (3, 3), "two adapters and the line hold it");
    let named = |e: &&Value| e["ph"] == "M" && e["name"] == "thread_name";
    assert_eq!(events.iter().filter(named).count(), view.totals.len());
    let picture = svg(&view);
    assert!(view.totals.iter().all(|total| picture.contains(&total.unit)) && picture.ends_with("</svg>\n"));
    assert!(picture.matches("<rect").count() > view.events.len());
    assert_eq!(view.text().lines().filter(|line| line.contains("DMA, memory to adapter")).count(), 1);
    let last = looked.timeline.pdus() - 1;
    assert_eq!(View::new(scene, &looked, last + 1), Err(ViewError::Pdu { pdu: last + 1, last }));
}
