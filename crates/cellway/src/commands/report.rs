//! The demo's report: one HTML page with everything in it.

mod figure;

use control::results::Pinged;
use control::results::demo::{Demo, DemoThroughput};

const STYLE: &str = "
:root{color-scheme:light dark;--ink:#1a2330;--paper:#fcfcfa;--soft:#66717f;--line:#d9dde2;--accent:#0b6e99}
@media(prefers-color-scheme:dark){:root{--ink:#e4e8ec;--paper:#14181d;--soft:#98a2ad;--line:#333b44;--accent:#5bb8e0}}
body{font:16px/1.55 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:52rem;margin:3rem auto;padding:0 1rem}
h1{font-size:1.9rem;margin-bottom:.2rem}h2{margin-top:2.4rem;font-size:1.2rem}p.lead,figcaption,small{color:var(--soft)}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}th,td{padding:.35rem .6rem;border-bottom:1px solid var(--line);text-align:right}
th:first-child,td:first-child{text-align:left}th{font-weight:600}code{font-size:.9em;overflow-wrap:anywhere}
figure{margin:1rem 0}figure svg{width:100%;height:auto;border-radius:6px}
.way{display:flex;flex-wrap:wrap;gap:.4rem;align-items:center;margin:1.2rem 0}.way b{border:1px solid var(--accent);border-radius:6px;padding:.25rem .6rem;font-weight:500}.way i{color:var(--soft)}
";

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let cells = |tag: &str, cells: Vec<String>| {
        cells.iter().map(|c| format!("<{tag}>{}</{tag}>", escape(c))).collect::<String>()
    };
    let head = cells("th", head.iter().map(ToString::to_string).collect());
    let rows: String = rows.iter().map(|r| format!("<tr>{}</tr>", cells("td", r.clone()))).collect();
    format!("<table><tr>{head}</tr>{rows}</table>")
}

/// The page.
pub(crate) fn html(r: &Demo) -> String {
    let ping = |name: &str, pinged: &Pinged| {
        let us = pinged.rtt_us.map(|t| [t.min, t.median, t.p99, t.max].map(|us| format!("{us:.1}")));
        let us = us.unwrap_or_default();
        [vec![name.to_owned(), pinged.sent.to_string(), pinged.received.to_string()], us.to_vec()].concat()
    };
    let pings = table(
        &["", "sent", "answered", "min us", "median us", "p99 us", "max us"],
        &[
            ping("OAM loopback, segment (to the switch)", &r.oam.segment),
            ping("OAM loopback, end to end", &r.oam.end_to_end),
            ping("IP over ATM, 56 octets", &r.ip_ping.octets_56),
            ping("IP over ATM, 9000 octets", &r.ip_ping.octets_9000),
        ],
    );
    let size = |row: &DemoThroughput| {
        vec![
            row.pdu_octets.to_string(),
            format!("{:.2}", row.gbit_s),
            format!("{:.0}", row.memcpy_gbit_s),
            format!("{:.3}", row.vs_memcpy),
            row.sent.to_string(),
            row.arrived.to_string(),
            row.in_place.to_string(),
        ]
    };
    let sizes = table(
        &["PDU octets", "Gbit/s", "memcpy Gbit/s", "of memcpy", "sent", "arrived", "read in place"],
        &r.ttcp.iter().map(size).collect::<Vec<_>>(),
    );
    let links = r.status.links.iter().flat_map(|l| {
        [(&l.from_a, "→"), (&l.from_b, "←")].map(|(d, arrow)| {
            let (sent, delivered) = (&d.sent, &d.delivered);
            vec![
                format!("{} {arrow}", l.name),
                sent.cells.to_string(),
                delivered.cells.to_string(),
                delivered.pdus.to_string(),
                crate::output::drops(&sent.dropped),
            ]
        })
    });
    let links = table(&["link", "cells in", "cells out", "PDUs out", "dropped"], &links.collect::<Vec<_>>());
    let (file, tcp) = (&r.file, &r.tcp);
    let path = escape(&file.path);
    let sha = &file.sent.sha256;
    let figure = figure::throughput(&r.ttcp);
    let build = r.profile.as_ref().filter(|profile| *profile != "release");
    let build = build.map(|profile| {
        let profile = escape(profile);
        format!(" These figures are of a build by cargo's profile <code>{profile}</code>; <code>make build</code> makes an optimised one.")
    });
    let build = build.unwrap_or_default();
    format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\"><title>Cellway: a PDU crosses the system</title><style>{STYLE}</style>
<h1>A PDU crosses the system</h1><p class=lead>What <code>cellway demo</code> did on this machine, in {:.1} s.</p>
<div class=way><b>application</b><i>shared memory</i><b>alpha</b><i>OC-3c, cells</i><b>switch s1</b><i>unlimited, cells</i><b>beta</b><i>shared memory</i><b>application</b></div>
<h2>A file, by two client processes</h2><p><code>{path}</code>, {} octets, went from alpha to beta over circuit 0.100 at {:.1} Mbit/s; {} PDUs had to be sent again. The payload rate of OC-3c is 149.76 Mbit/s, of which AAL5 leaves an SDU of 9180 octets 135.0 at most.</p><p>SHA-256 at both ends: <code>{sha}</code></p>
<h2>Round trips</h2>{pings}
<h2>TCP over IP over ATM</h2><p>{} octets by the in-process stack (RFC 2684 LLC/SNAP, InATMARP, MTU 9180) at {:.1} Mbit/s; SHA-256 equal.</p>
<h2>Throughput over PDU size</h2><figure>{figure}<figcaption>Both links unlimited and in memory: PDUs pass them and the switch by reference, without cells. The sender lends its buffers. The receiver reads each octet, of PDUs \"read in place\" where the sender wrote it, of others from a copy. What it had no buffer for is not counted.{build}</figcaption></figure>{sizes}
<h2>What the links counted</h2>{links}
<h2>The capture</h2><p><code>tshark -r capture.pcapng</code> shows {} records: OAM cells, and AAL5 PDUs down to IP and TCP.</p></html>\n",
        r.seconds,
        file.octets,
        file.sent.mbit_per_s,
        file.sent.pdus_repeated.unwrap_or_default(),
        tcp.sent.octets,
        tcp.sent.mbit_per_s,
        r.capture.captured.records,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::daemon::Daemon;
    use control::results::demo::{DemoCapture, DemoFile, DemoIpPing, DemoOam, DemoTransfer};
    use control::results::{Captured, RoundTrips, Transferred};
    use std::time::Duration;

    #[test]
    fn a_page_is_made_of_whatever_results_there_are_and_text_is_escaped() {
        let folder = tempfile::tempdir().unwrap();
        let daemon = Daemon::start(control::config::parse("", "none").unwrap(), &folder.path().join("s")).unwrap();
        let status = control::status::collect(daemon.controller()).unwrap();
        let carried = || Transferred::new(1000, Duration::from_millis(1), "00".into());
        let rtt_us = RoundTrips { min: 1.0, mean: 2.0, median: 2.0, p99: 3.0, max: 3.0, deviation: 0.5 };
        let pinged = |received| Pinged {
            sent: 1,
            received,
            lost: 1 - received,
            rtt_us: (received > 0).then_some(rtt_us),
            last_point: None,
            pdu_test: None,
        };
        let page = html(&Demo {
            file: DemoFile { path: "<b>".into(), octets: 1000, sent: carried(), received: carried() },
            oam: DemoOam { segment: pinged(1), end_to_end: pinged(0) },
            ip_ping: DemoIpPing { octets_56: pinged(1), octets_9000: pinged(0) },
            tcp: DemoTransfer { sent: carried(), received: carried() },
            capture: DemoCapture { captured: Captured::default(), path: "c".into() },
            status,
            profile: Some("demo".into()),
            ttcp: vec![DemoThroughput {
                pdu_octets: 64,
                gbit_s: 1.0,
                memcpy_gbit_s: 100.0,
                vs_memcpy: 0.01,
                sent: 1,
                arrived: 1,
                in_place: 1,
            }],
            seconds: 1.0,
        });
        assert!(
            page.contains("&lt;b&gt;")
                && page.contains("<svg")
                && page.contains("profile <code>demo")
                && !page.contains("<script")
        );
    }
}
