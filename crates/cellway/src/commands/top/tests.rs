//! Frames of a network that is made up, compared with stored ones, and the rates in them.
//!
//! `CELLWAY_WRITE=1` writes the frames anew: look at the difference before it is committed.

use super::draw::{Frame, Palette};
use super::rates::{Told, sample};
use super::view::{Tab, View};
use super::{Size, interval, picture};
use control::calls::report::{CallStatus, CallsStatus};
use control::results::top::TopSample;
use control::status::EngineStatus;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::{Color, Modifier};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

fn counter(cells: u64, pdus: u64, dropped: u64) -> Value {
    let dropped = if dropped > 0 { json!({ "queue_full": dropped }) } else { json!({}) };
    json!({ "cells": cells, "pdus": pdus, "octets": 1000 * pdus, "dropped": dropped })
}

fn link(name: &str, n: u64, dropped: u64, up: bool) -> Value {
    let direction = |cells: u64, dropped: u64, queued: u64| {
        json!({ "sent": counter(cells + dropped, cells / 10, dropped), "delivered": counter(cells, cells / 10, 0),
                "queued": queued, "promised_cells_per_s": 0.0 })
    };
    json!({ "name": name, "carries": "cells", "rate_cells_per_s": 10_000.0, "delay_s": 0.0, "queue_cells": 100,
            "up": up, "enabled": true, "outside": null, "ends": ["a", "b"], "circuits": 1,
            "from_a": direction(n, dropped, dropped), "from_b": direction(n / 4, 0, 0) })
}

fn hop(forward: bool, sent: u64) -> Value {
    json!({ "switch": "s1", "to_port": u16::from(forward), "forward": forward, "offered": sent, "conformed": sent, "tagged": 0,
            "policed": sent / 100, "queue_dropped": 0, "pdu_dropped": 0, "sent": sent, "queued": 3,
            "rate_cells_per_s": null, "contract_cells_per_s": 5000.0, "jitter_s": null })
}

fn end(end: &str, endpoint: u64, sent: u64, received: u64, alarms: Value) -> Value {
    json!({ "end": end, "open": "aal5", "endpoint": endpoint,
            "opener": { "uid": 1000, "pid": 42, "program": "send\u{1b}[2Jer" },
            "sent": counter(0, sent, 0), "received": counter(0, received, 0), "alarms": alarms })
}

fn endpoint(host: &str, endpoint: u64, sent: u64, received: u64) -> Value {
    json!({ "host": host, "endpoint": endpoint, "events": "hybrid",
            "event_counts": { "bells": 0, "doorbells": 0, "ticks": 0, "rests": 0 }, "path": "copying", "channels": 1,
            "waiting_sdus": 7, "segment_octets": 0, "sent": counter(0, sent, 0), "received": counter(0, received, 0) })
}

/// The network after so many seconds: everything counts at a steady rate.
fn told(seconds: u64) -> Told {
    let n = 1000 * seconds;
    let rdi = json!([{ "alarm": "rdi", "defect": "link", "location": "s1", "since_s": 2.0 }]);
    let circuit = |name: [&str; 2], sent: u64, alarms: &Value| {
        json!({ "name": name.join(" - "), "category": "cbr", "pcr_cells_per_s": null, "aal": "aal5", "one_way": false,
                "ends": [end(name[0], 1, sent, sent / 2, json!([])), end(name[1], 2, sent / 2, sent, alarms.clone())],
                "way": ["alpha:0 - s1:0 0.100", "beta:0 - s1:1 0.100"], "hops": [hop(true, sent), hop(false, sent / 2)] })
    };
    let status = json!({
        "version": 2, "revision": 4,
        "stations": { "alpha": "host", "beta": "host", "gamma": "host", "s1": "switch" },
        "hosts": {}, "circuit_count": 2, "stray": {}, "adapters": [],
        "switches": [{ "name": "s1", "ports": 8, "max_routes": 8, "routes": 2, "queued": 6, "port_queued": { "1": 6 },
                       "dropped": {}, "port_drops": { "1": { "non_conforming": n / 100 } },
                       "alarms": [{ "port": 2, "path": null, "defect": "link", "location": "s1", "since_s": 2.0,
                                    "circuits": 1 }] }],
        "links": [link("alpha:0 - s1:0", n, 0, true), link("beta:0 - s1:1", n / 2, 10 * seconds, true),
                  link("gamma:0 - s1:2", 500, 0, false)],
        "circuits": [circuit(["alpha 0.100", "beta 0.100"], n, &json!([])),
                     circuit(["alpha 0.101", "gamma 0.101"], 0, &rdi)],
        "endpoints": [endpoint("alpha", 1, n, n / 2), endpoint("beta", 2, n / 2, n)],
        "engine": EngineStatus { uptime_s: seconds as f64, busy_share: 0.5, ..EngineStatus::default() },
    });
    let status = serde_json::from_value(status).unwrap_or_else(|e| panic!("{e}"));
    let call = CallStatus {
        call: 9,
        host: "alpha".into(),
        outgoing: true,
        state: "up".into(),
        from: Some("47.alpha".into()),
        to: Some("47.beta".into()),
        circuit: Some("1.100".into()),
        user: 1000,
        seconds: 75.0,
    };
    Told { status, calls: CallsStatus { calls: vec![call], ..CallsStatus::default() } }
}

fn between(circuit: Option<&str>) -> TopSample {
    sample(Some(&told(8)), &told(10), circuit)
}

fn names(uid: u32) -> String {
    if uid == 1000 { "ada".to_owned() } else { uid.to_string() }
}

fn drawn(sample: &TopSample, view: &View, palette: Palette, trouble: Option<&str>, size: (u16, u16)) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
    let frame = Frame { sample, view, names: &names, palette, trouble, has_keys: true };
    terminal.draw(|to| frame.draw(to.buffer_mut())).unwrap();
    terminal.backend().buffer().clone()
}

/// Compares a frame with the stored one of this name.
fn golden(name: &str, buffer: &Buffer) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("src/commands/top/golden/{name}.txt"));
    let text = super::to_text(buffer);
    if std::env::var_os("CELLWAY_WRITE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &text).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(stored == text, "{name}: the stored frame differs (CELLWAY_WRITE=1 writes it anew):\n{stored}\n{text}");
}

#[test]
fn rates_are_what_was_counted_between_the_samples_by_the_services_own_clock() {
    let sample = between(None);
    assert_eq!(sample.seconds, 2.0);
    let link = &sample.links[0];
    assert_eq!((link.from_a.cells_per_s, link.from_a.pdus_per_s, link.from_b.cells_per_s), (1000.0, 100.0, 250.0));
    assert_eq!(link.from_a.utilization, Some(0.1));
    assert_eq!(sample.links[1].from_a.dropped_per_s, 10.0);
    let circuit = &sample.circuits[0];
    assert_eq!((circuit.pdus_per_s, circuit.bits_per_s), (1500.0, 1500.0 * 8000.0));
    assert_eq!(circuit.dropped_per_s, 15.0, "what switches policed, both ways");
    let endpoint = &sample.endpoints[0];
    assert_eq!((endpoint.sent_pdus_per_s, endpoint.received_pdus_per_s), (1000.0, 500.0));
    assert_eq!(endpoint.opener.as_ref().map(|opener| (opener.uid, opener.pid)), Some((1000, 42)));
    let policed = sample.drops.iter().find(|drop| drop.reason == "non_conforming" && drop.circuit.is_some()).unwrap();
    assert_eq!((policed.count, policed.per_s), (100, 10.0));
}

#[test]
fn without_an_earlier_sample_of_the_same_engine_there_are_no_rates() {
    for sample in [sample(None, &told(10), None), sample(Some(&told(10)), &told(8), None)] {
        assert_eq!(sample.seconds, 0.0);
        assert_eq!((sample.links[0].from_a.cells_per_s, sample.circuits[0].pdus_per_s), (0.0, 0.0));
        assert!(sample.drops.iter().all(|drop| drop.per_s == 0.0 && drop.count > 0));
    }
}

#[test]
fn what_is_new_has_no_rate_and_what_counts_less_has_begun_anew() {
    let (mut before, now) = (told(8), told(10));
    before.status.links.remove(0);
    before.status.circuits.remove(0);
    before.status.links[0].from_a.delivered.cells = 1_000_000;
    let sample = sample(Some(&before), &now, None);
    assert_eq!(sample.links[0].from_a.cells_per_s, 0.0, "it may have counted long before it was told of");
    assert_eq!(sample.circuits[0].pdus_per_s, 0.0);
    assert!(sample.drops.iter().filter(|drop| drop.circuit.is_some()).all(|drop| drop.per_s == 0.0));
    assert_eq!(sample.links[1].from_a.cells_per_s, 2500.0, "5000 cells in 2 s since it began anew");
}

#[test]
fn a_circuit_is_followed_from_its_first_end_through_links_and_switches_to_its_last() {
    let sample = between(Some("beta 0.100"));
    let path = sample.path.unwrap();
    let hops: Vec<(&str, f64, f64)> =
        path.hops.iter().map(|hop| (hop.place.as_str(), hop.forward_per_s, hop.backward_per_s)).collect();
    let wanted = [
        ("alpha 0.100", 1000.0, 500.0),
        ("alpha:0 - s1:0 0.100", 1000.0, 250.0),
        ("s1", 1000.0, 500.0),
        // The link is written from beta: away from alpha is against its direction.
        ("beta:0 - s1:1 0.100", 125.0, 500.0),
        ("beta 0.100", 1000.0, 500.0),
    ];
    assert_eq!(hops, wanted);
    assert!(between(Some("nowhere 0.1")).path.is_none());
}

#[test]
fn each_view_is_as_it_was_at_80_by_24() {
    for tab in Tab::ALL {
        let view = View::new(tab, None);
        golden(tab.name(), &drawn(&between(None), &view, Palette::Plain, None, (80, 24)));
    }
}

#[test]
fn a_followed_circuit_the_keys_and_trouble_are_as_they_were() {
    let follows = "alpha 0.100 - beta 0.100".to_owned();
    let view = View::new(Tab::Circuits, Some(follows.clone()));
    golden("follow", &drawn(&between(Some(&follows)), &view, Palette::Plain, None, (80, 24)));
    let mut view = View::new(Tab::Links, None);
    view.handle_key(KeyEvent::new(KeyCode::Char('?'), KeyModifiers::NONE), &[], 3);
    golden("help", &drawn(&between(None), &view, Palette::Plain, Some("the service at S has ended"), (80, 24)));
}

#[test]
fn a_wide_terminal_has_more_columns_and_a_tiny_one_says_so() {
    let view = View::new(Tab::Endpoints, None);
    golden("endpoints-wide", &drawn(&between(None), &view, Palette::Plain, None, (160, 10)));
    let tiny = super::to_text(&drawn(&between(None), &view, Palette::Plain, None, (20, 3)));
    assert!(tiny.starts_with("too small"), "{tiny}");
    for (columns, lines) in [(1, 1), (24, 6), (25, 7), (500, 6), (24, 200)] {
        for tab in Tab::ALL {
            drawn(&between(None), &View::new(tab, None), Palette::Colours, Some("trouble"), (columns, lines));
        }
    }
}

#[test]
fn rows_are_sorted_and_filtered_and_the_chosen_one_is_in_sight() {
    let mut one = between(None);
    let link = one.links[0].clone();
    one.links = (0..100_u32)
        .map(|n| {
            let mut link = link.clone();
            link.link = format!("link{n:03}");
            link.from_a.cells_per_s = f64::from(n);
            link
        })
        .collect();
    let mut view = View::new(Tab::Links, None);
    let keys = |view: &View| -> Vec<String> {
        let frame = Frame { sample: &one, view, names: &names, palette: Palette::Plain, trouble: None, has_keys: true };
        frame.table().1.into_iter().map(|row| row.key).collect()
    };
    let press = |code, view: &mut View| {
        let rows = keys(view);
        view.handle_key(KeyEvent::new(code, KeyModifiers::NONE), &rows, 9);
    };
    press(KeyCode::Char('s'), &mut view);
    assert_eq!(keys(&view)[0], "link099", "by cells, the largest first");
    press(KeyCode::End, &mut view);
    let text = super::to_text(&drawn(&one, &view, Palette::Plain, None, (80, 24)));
    assert!(text.contains("link000") && !text.contains("link099"), "{text}");
    let view = view.filtered("LINK04");
    assert_eq!(keys(&view).len(), 10);
}

#[test]
fn without_colours_nothing_but_bold_dim_and_reverse_is_used() {
    use std::ffi::OsStr;
    assert_eq!(Palette::of(Some(OsStr::new("1"))), Palette::Plain);
    assert_eq!([Palette::of(None), Palette::of(Some(OsStr::new("")))], [Palette::Colours; 2]);
    let colours = |palette| {
        let buffers = Tab::ALL.map(|tab| drawn(&between(None), &View::new(tab, None), palette, Some("x"), (80, 24)));
        let cells = buffers.iter().flat_map(|buffer| &buffer.content);
        cells.filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset).count()
    };
    assert_eq!(colours(Palette::Plain), 0);
    assert!(colours(Palette::Colours) > 100);
}

#[test]
fn what_a_program_calls_itself_does_not_reach_the_terminal_as_a_command() {
    let view = View::new(Tab::Endpoints, None);
    let text = super::to_text(&drawn(&between(None), &view, Palette::Plain, None, (160, 10)));
    assert!(text.contains("send[2Jer[42]") && !text.contains('\u{1b}'), "{text}");
}

#[test]
fn a_picture_is_well_formed_and_has_the_characters_in_colours_for_light_and_dark() {
    let buffer = drawn(&between(None), &View::new(Tab::Circuits, None), Palette::Colours, None, (80, 24));
    let svg = picture::svg(&buffer, "a <network> & more");
    let document = roxmltree::Document::parse(&svg).unwrap_or_else(|e| panic!("{e}\n{svg}"));
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
    let texts: Vec<&str> =
        document.descendants().filter(|node| node.has_tag_name("text")).filter_map(|node| node.text()).collect();
    assert_eq!(words(&texts.join(" ")), words(&super::to_text(&buffer)));
    assert!(texts.len() > 10 && svg.contains("prefers-color-scheme:dark"));
    assert!(buffer.content.iter().any(|cell| cell.modifier.contains(Modifier::REVERSED)));
}

/// The contrast of two colours by WCAG 2.
fn contrast(one: &str, two: &str) -> f64 {
    let luminance = |colour: &str| {
        let part = |at: usize| {
            let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    };
    let [a, b] = [luminance(one), luminance(two)];
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

#[test]
fn every_colour_of_a_picture_is_legible_on_a_light_page_and_on_a_dark_one() {
    let (_, light, dark) = picture::COLOURS[0];
    for (name, on_light, on_dark) in &picture::COLOURS[1..] {
        // WCAG 2, success criterion 1.4.3: 4.5 for text.
        assert!(contrast(on_light, light) >= 4.5, "{name} on a light page");
        assert!(contrast(on_dark, dark) >= 4.5, "{name} on a dark page");
    }
    assert!((contrast("#000000", "#ffffff") - 21.0).abs() < 1e-9);
}

#[test]
fn sizes_and_intervals_have_bounds() {
    assert_eq!("80x24".parse(), Ok(Size { columns: 80, lines: 24 }));
    for bad in ["80", "80x", "x24", "10x24", "80x1", "501x24", "80x24x2"] {
        assert!(bad.parse::<Size>().is_err(), "{bad}");
    }
    assert_eq!(interval("250ms"), Ok(Duration::from_millis(250)));
    assert!(interval("1ms").is_err() && interval("0").is_err() && interval("2h").is_err());
}
