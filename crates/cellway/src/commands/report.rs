//! The demo's report: one HTML page with everything in it.

use anyhow::{Result, anyhow};
use plotters::prelude::*;
use serde_json::Value;

const STYLE: &str = "
:root{color-scheme:light dark;--ink:#1a2330;--paper:#fcfcfa;--soft:#66717f;--line:#d9dde2;--accent:#0b6e99}
@media(prefers-color-scheme:dark){:root{--ink:#e4e8ec;--paper:#14181d;--soft:#98a2ad;--line:#333b44;--accent:#5bb8e0}}
body{font:16px/1.55 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:52rem;margin:3rem auto;padding:0 1rem}
h1{font-size:1.9rem;margin-bottom:.2rem}h2{margin-top:2.4rem;font-size:1.2rem}p.lead,figcaption,small{color:var(--soft)}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}th,td{padding:.35rem .6rem;border-bottom:1px solid var(--line);text-align:right}
th:first-child,td:first-child{text-align:left}th{font-weight:600}code{font-size:.9em;overflow-wrap:anywhere}
figure{margin:1rem 0}figure svg{width:100%;height:auto;background:#fff;border-radius:6px}
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

fn number(v: &Value) -> f64 {
    v.as_f64().unwrap_or_default()
}

/// Throughput over PDU size, with memcpy's, on logarithmic axes.
fn throughput(rows: &[Value]) -> Result<String> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (760, 380)).into_drawing_area();
        let failed = |e: &dyn std::fmt::Display| anyhow!("drawing the figure: {e}");
        root.fill(&WHITE).map_err(|e| failed(&e))?;
        let points = |key: &str| -> Vec<(f64, f64)> {
            rows.iter().map(|r| (number(&r["pdu_octets"]), number(&r[key]).max(1e-3))).collect()
        };
        let (here, limit) = (points("gbit_s"), points("memcpy_gbit_s"));
        let top = limit.iter().chain(&here).map(|p| p.1).fold(1.0, f64::max) * 1.5;
        let bottom = here.iter().map(|p| p.1).fold(top, f64::min) / 2.0;
        let mut chart = ChartBuilder::on(&root)
            .margin(12)
            .x_label_area_size(42)
            .y_label_area_size(64)
            .build_cartesian_2d((60f64..70_000f64).log_scale(), (bottom..top).log_scale())
            .map_err(|e| failed(&e))?;
        chart
            .configure_mesh()
            .x_desc("octets of a PDU")
            .y_desc("Gbit/s")
            .light_line_style(WHITE)
            .x_label_formatter(&|x| format!("{x:.0}"))
            .y_label_formatter(&|y| if *y >= 1.0 { format!("{y:.0}") } else { format!("{y:.2}") })
            .draw()
            .map_err(|e| failed(&e))?;
        for (label, line, colour) in [
            ("application to application", here, RGBColor(11, 110, 153)),
            ("memcpy, one core", limit, RGBColor(150, 150, 150)),
        ] {
            chart
                .draw_series(LineSeries::new(line, colour.stroke_width(2)).point_size(3))
                .map_err(|e| failed(&e))?
                .label(label)
                .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], colour.stroke_width(2)));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerRight)
            .border_style(RGBColor(200, 200, 200))
            .background_style(WHITE)
            .draw()
            .map_err(|e| failed(&e))?;
        root.present().map_err(|e| failed(&e))?;
    }
    Ok(svg)
}

/// The page.
pub(crate) fn html(r: &Value) -> Result<String> {
    let ping = |name: &str, v: &Value| {
        let t = &v["rtt_us"];
        let us = |k: &str| format!("{:.1}", number(&t[k]));
        vec![
            name.to_owned(),
            v["sent"].to_string(),
            v["received"].to_string(),
            us("min"),
            us("median"),
            us("p99"),
            us("max"),
        ]
    };
    let pings = table(
        &["", "sent", "answered", "min us", "median us", "p99 us", "max us"],
        &[
            ping("OAM loopback, segment (to the switch)", &r["oam"]["segment"]),
            ping("OAM loopback, end to end", &r["oam"]["end_to_end"]),
            ping("IP over ATM, 56 octets", &r["ip_ping"]["octets_56"]),
            ping("IP over ATM, 9000 octets", &r["ip_ping"]["octets_9000"]),
        ],
    );
    let rows = r["ttcp"].as_array().cloned().unwrap_or_default();
    let sizes = table(
        &["PDU octets", "Gbit/s", "memcpy Gbit/s", "of memcpy", "sent", "arrived"],
        &rows
            .iter()
            .map(|row| {
                vec![
                    row["pdu_octets"].to_string(),
                    format!("{:.2}", number(&row["gbit_s"])),
                    format!("{:.0}", number(&row["memcpy_gbit_s"])),
                    format!("{:.3}", number(&row["vs_memcpy"])),
                    row["sent"].to_string(),
                    row["arrived"].to_string(),
                ]
            })
            .collect::<Vec<_>>(),
    );
    let links: Vec<Vec<String>> = r["status"]["links"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|l| {
            [("from_a", "→"), ("from_b", "←")].map(|(direction, arrow)| {
                let d = &l[direction];
                vec![
                    format!("{} {arrow}", l["name"].as_str().unwrap_or_default()),
                    d["sent"]["cells"].to_string(),
                    d["delivered"]["cells"].to_string(),
                    d["delivered"]["pdus"].to_string(),
                    d["sent"]["dropped"].to_string(),
                ]
            })
        })
        .collect();
    let links = table(&["link", "cells in", "cells out", "PDUs out", "dropped"], &links);
    let (file, tcp) = (&r["file"], &r["tcp"]);
    let path = escape(file["path"].as_str().unwrap_or_default());
    let sha = file["sent"]["sha256"].as_str().unwrap_or_default();
    let figure = throughput(&rows)?;
    Ok(format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\"><title>Cellway: a PDU crosses the system</title><style>{STYLE}</style>
<h1>A PDU crosses the system</h1><p class=lead>What <code>cellway demo</code> did on this machine, in {:.1} s.</p>
<div class=way><b>application</b><i>shared memory</i><b>alpha</b><i>OC-3c, cells</i><b>switch s1</b><i>unlimited, cells</i><b>beta</b><i>shared memory</i><b>application</b></div>
<h2>A file, by two client processes</h2><p><code>{path}</code>, {} octets, went from alpha to beta over circuit 0.100 at {:.1} Mbit/s; {} PDUs had to be sent again. The payload rate of OC-3c is 149.76 Mbit/s, of which AAL5 leaves an SDU of 9180 octets 135.0 at most.</p><p>SHA-256 at both ends: <code>{sha}</code></p>
<h2>Round trips</h2>{pings}
<h2>TCP over IP over ATM</h2><p>{} octets by the in-process stack (RFC 2684 LLC/SNAP, InATMARP, MTU 9180) at {:.1} Mbit/s; SHA-256 equal.</p>
<h2>Throughput over PDU size</h2><figure>{figure}<figcaption>Both links unlimited: every octet is copied into the segment, made into cells, switched, and reassembled into the receiver's buffer. What the receiver had no buffer for is not counted.</figcaption></figure>{sizes}
<h2>What the links counted</h2>{links}
<h2>The capture</h2><p><code>tshark -r capture.pcapng</code> shows {} records: OAM cells, and AAL5 PDUs down to IP and TCP.</p></html>\n",
        number(&r["seconds"]),
        file["octets"],
        number(&file["sent"]["mbit_per_s"]),
        file["sent"]["pdus_repeated"],
        tcp["sent"]["octets"],
        number(&tcp["sent"]["mbit_per_s"]),
        r["capture"]["records"],
    ))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_page_is_made_of_whatever_results_there_are_and_text_is_escaped() {
        let page = super::html(&serde_json::json!({
            "file": { "path": "<b>" },
            "ttcp": [{ "pdu_octets": 64, "gbit_s": 1.0, "memcpy_gbit_s": 100.0 }],
        }))
        .unwrap();
        assert!(page.contains("&lt;b&gt;") && page.contains("<svg") && !page.contains("<script"));
    }
}
