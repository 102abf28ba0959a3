//! What the explorer asks of the models is what the experiments ask: the same numbers come out.

use lab::experiment::run;
use lab::experiments::named;
use lab::explorer::{Netperf, Receiver, Way, delay_ms, delivered, netperf};
use lab::model::Profile;
use lab::model::signal::{self, Guard};

#[test]
fn netperf_in_the_explorer_gives_the_points_of_figures_4_and_5() {
    let m = Profile::named("hp9000-755").unwrap();
    let of = |name| m.get(name).unwrap();
    let plain = Netperf {
        notice: 0,
        hertz: 500.0,
        interrupt_us: of("interrupt_us"),
        look_us: of("poll_us"),
        switch_us: of("switch_us"),
        throughput_mbit_s: of("throughput_mbit_s"),
        segment_octets: of("segment_octets"),
        process_share: of("process_share"),
        echo_ms: of("echo_ms"),
        wire_us: of("wire_us"),
        time_slice_ms: of("time_slice_ms"),
        window_octets: 0.0,
        computes: false,
        seconds: 1.0,
    };
    let outcome = run(named("seed004-clocks").unwrap(), 1, true, None).unwrap();
    let mut compared = 0;
    for (name, computes) in [("seed004-figure-04", false), ("seed004-figure-05", true)] {
        let figure = outcome.figures.iter().find(|figure| figure.name == name).unwrap();
        for (label, notice) in [("interrupts", 0), ("Poll 0.5 kHz", 1), ("polling process", 2)] {
            let series = figure.series.iter().find(|series| series.label == label).unwrap();
            for [window_octets, drawn, ..] in &series.points {
                let here = netperf(&Netperf { notice, computes, window_octets: *window_octets, ..plain });
                assert!((here / drawn - 1.0).abs() < 1e-6, "{name}, {label}, {window_octets}: {here} and {drawn}");
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 54);
}

#[test]
fn a_receiver_and_a_way_over_buses_are_those_of_the_experiments() {
    let r = Receiver {
        guard: 1,
        parameter: 5.0,
        interrupt_us: 60.0,
        process_us: 140.0,
        queue: 32.0,
        offered: 9000.0,
        seconds: 0.5,
    };
    assert_eq!(delivered(&r), signal::delivered(Guard::Quota(5), 60e-6, 140e-6, 32, 9000.0, 0.5));
    assert!(delivered(&Receiver { guard: 0, ..r }) < delivered(&r), "interrupts alone deliver less beyond saturation");
    let mib = 1_048_576.0;
    let way = Way { octets: 65_536.0, units: 1.0, bus_octets_s: 50.0 * mib, line_octets_s: 16.0 * mib };
    let outcome = run(named("seed000-arithmetic").unwrap(), 1, true, None).unwrap();
    let row = outcome.rows.iter().find(|row| row.id == "A-10" && row.what.contains("both sides")).unwrap();
    assert!((delay_ms(&way) / row.modelled.unwrap() - 1.0).abs() < 1e-3, "{} ms", delay_ms(&way));
}
