//! The report's page: one HTML file with everything in it.

use super::data::Data;
use super::{deviation, measured, modelled, paper_name, published, summary};
use ::lab::choices::CHOICES;
use ::lab::evidence::papers;
use ::lab::experiment::{ExperimentOutcome, Published, Row, Verdict};
use ::lab::model::Profile;
use anyhow::Result;

const STYLE: &str = "
:root{color-scheme:light dark;--ink:#1a2330;--paper:#fcfcfa;--soft:#66717f;--line:#d9dde2;--accent:#0b6e99;--good:#1a7f4b;--bad:#b3411e}
@media(prefers-color-scheme:dark){:root{--ink:#e4e8ec;--paper:#14181d;--soft:#98a2ad;--line:#333b44;--accent:#5bb8e0;--good:#5fc98f;--bad:#ef8a62}}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:72rem;margin:3rem auto;padding:0 1rem}
h1{font-size:1.9rem;margin-bottom:.2rem}h2{margin-top:2.6rem;font-size:1.3rem}h3{font-size:1rem;margin-bottom:.3rem}p.lead,small{color:var(--soft)}
table{border-collapse:collapse;width:100%;font-size:.88rem;font-variant-numeric:tabular-nums}th,td{padding:.3rem .5rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}
td.n{text-align:right}td,th{overflow-wrap:anywhere}.rows{table-layout:fixed}.rows col.s{width:4.2rem}.rows col.v{width:7.5rem}.rows col.d{width:9.5rem}tr.evidence td{border-bottom:1px solid var(--line);padding:0 .5rem .45rem}tr.row td{border-bottom:0;padding-bottom:.1rem}.scroll{overflow-x:auto}nav a{margin-right:.8rem}a{color:var(--accent)}
.prediction{color:var(--good);font-weight:600}.words,.arithmetic,.identity{color:var(--ink)}.contradicted{color:var(--bad)}.anchor,.re-anchored,.absent,.unaudited{color:var(--soft)}.today{color:var(--accent)}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(26rem,1fr));gap:1rem}figure{margin:0}figure svg{width:100%;height:auto;background:#fff;border-radius:6px}
.counts{display:flex;flex-wrap:wrap;gap:.6rem;margin:1.2rem 0}.counts b{border:1px solid var(--line);border-radius:6px;padding:.3rem .7rem;font-weight:500}
";

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn row(row: &Row) -> String {
    let words = matches!(&row.published, Published::Words(words) if !words.is_empty());
    let verdict = row.verdict.name();
    let bound =
        row.bound.filter(|b| *b > 0.0).map_or(String::new(), |b| format!(" <small>of {:.0} %</small>", b * 100.0));
    let what = if words { escape(&published(row)) } else { escape(&row.what) };
    let what = if words && row.what != "in words" { format!("{}: {what}", escape(&row.what)) } else { what };
    let unit = if row.unit.is_empty() { String::new() } else { format!(", {}", escape(&row.unit)) };
    let number = if words { String::new() } else { published(row) };
    let test = row.test.as_ref().map_or(String::new(), |test| {
        format!("<b>Test:</b> {}. <b>Otherwise:</b> {}. ", escape(&test.threshold), escape(&test.otherwise))
    });
    let because =
        if row.because.is_empty() { String::new() } else { format!("<br><small>{}</small>", escape(&row.because)) };
    let bound = match (row.to_the_digit, bound.is_empty()) {
        (Some(false), false) => format!("{bound} <small>not to the digit</small>"),
        (Some(true), _) => " <small>to the digit</small>".to_owned(),
        _ => bound,
    };
    // The evidence has a line of its own below: beside the numbers it would be out of sight on a narrow page.
    let evidence = format!("{test}{}", escape(&row.note));
    let evidence = if evidence.is_empty() {
        String::new()
    } else {
        format!("<tr class=evidence><td><td colspan=6><small>{evidence}</small></tr>\n")
    };
    format!(
        "<tr{}><td>{}<td>{what}{unit}<td class=n>{}<td class=n>{}<td class=n>{}<td class=n>{}{bound}<td class={verdict}>{verdict}{because}</tr>\n{evidence}",
        if evidence.is_empty() { "" } else { " class=row" },
        escape(&row.id),
        escape(&number),
        modelled(row),
        measured(row),
        deviation(row),
    )
}

fn section(outcome: &ExperimentOutcome, figures: &[(String, String)]) -> String {
    let drawn: String = outcome
        .figures
        .iter()
        .filter_map(|f| figures.iter().find(|(name, _)| *name == f.name))
        .map(|(name, svg)| format!("<figure id=\"{}\">{svg}</figure>", escape(name)))
        .collect();
    let rows: String = outcome.rows.iter().map(row).collect();
    format!(
        "<h2 id=\"{0}\">{1}</h2><p class=lead><code>cellway-lab run {0}</code> · {2}</p>\
         <div class=figures>{drawn}</div><table class=rows><colgroup><col class=s><col><col class=v><col class=v><col class=v><col class=d><col class=v></colgroup>\
         <tr><th>source<th>what<th>published<th>modelled<th>measured here<th>deviation<th>verdict</tr>{rows}</table>",
        escape(&outcome.experiment),
        escape(&outcome.title),
        outcome.happened(),
    )
}

/// Which constants were calibrated, and on what.
fn anchors(profiles: &[Profile]) -> String {
    let mut text = String::new();
    for profile in profiles {
        let rows: String = profile
            .constants
            .iter()
            .map(|(name, c)| {
                let (kind, origin) = match (&c.anchor, &c.assumed, &c.source) {
                    (Some(anchor), ..) => ("calibrated on", anchor.as_str()),
                    (_, Some(assumed), _) => ("assumed,", assumed.as_str()),
                    (.., source) => ("from", source.as_deref().unwrap_or_default()),
                };
                format!(
                    "<tr><td><code>{}</code><td class=n>{}<td>{}<td>{kind} {}{}</tr>",
                    escape(name),
                    c.value,
                    escape(&c.unit),
                    escape(origin),
                    c.why.as_ref().map_or(String::new(), |why| format!("<br><small>{}</small>", escape(why))),
                )
            })
            .collect();
        text.push_str(&format!(
            "<h3>{}</h3><div class=scroll><table><tr><th>constant<th>value<th>unit<th>origin</tr>{rows}</table></div>",
            escape(&profile.title)
        ));
    }
    text
}

/// Program, commit and constants of a report.
fn origin(data: &Data) -> String {
    data.provenance.as_ref().map_or(String::new(), |from| {
        format!(
            " cellway-lab {}, commit {}, program {}, constants {}.",
            escape(&from.version),
            escape(from.commit.as_deref().unwrap_or("unknown")),
            escape(&from.binary),
            escape(&from.constants)
        )
    })
}

/// Predictions against degrees of freedom, and the choices of structure among these.
fn evidence(data: &Data) -> Result<String> {
    let rows: String = papers(&data.outcomes)?
        .iter()
        .map(|p| {
            format!(
                "<tr><td>{}<td class=n>{}<td class=n>{}<td class=n>{}<td class=n>{}<td class=n>{}<td class=n>{}<td class=n>{}<td class=n>{}</tr>",
                escape(&paper_name(p)),
                p.predictions,
                p.to_the_digit,
                p.contradicted,
                p.freedom(),
                p.calibrated,
                p.assumed,
                p.choices,
                p.behind_predictions
            )
        })
        .collect();
    let choices: String = CHOICES
        .iter()
        .map(|choice| format!("<li>{}: {} <small>({})</small>", choice.id, escape(choice.what), choice.commit))
        .collect();
    Ok(format!(
        "<h2>Distinct published facts foretold, against what could be turned</h2><div class=scroll><table><tr><th>paper<th>predicted<th>to the digit\
         <th>contradicted<th>degrees of freedom<th>calibrated<th>assumed<th>choices after a result<th>constants behind predictions</tr>{rows}</table></div><details><summary>Choices of \
         structure made after a result had been seen</summary><ul>{choices}</ul></details>"
    ))
}

/// The page.
pub(super) fn html(data: &Data, figures: &[(String, String)]) -> Result<String> {
    let counts: String = summary(&data.outcomes).iter().map(|(v, n)| format!("<b>{n} {v}</b>")).collect();
    let evidence = evidence(data)?;
    let profiles = match &data.provenance {
        Some(from) => from.profiles.clone(),
        None => Profile::built_in()?,
    };
    let links: String =
        data.outcomes.iter().map(|o| format!("<a href=\"#{0}\">{0}</a> ", escape(&o.experiment))).collect();
    let sections: String = data.outcomes.iter().map(|o| section(o, figures)).collect();
    Ok(format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\"><title>Cellway's laboratory</title><style>{STYLE}</style>
<h1>Published, modelled, measured</h1><p class=lead>The experiments of five papers on ATM host interfaces, 1993 to 2002: the paper's number, what the real code gives on a modelled machine in virtual time, and this machine's. Seed {}{}.{}{}</p>
{evidence}<div class=counts>{counts}</div>
<p>{}</p>
<nav>{links}<a href=\"#machines\">machines</a></nav>{sections}<h2 id=machines>The machines' constants</h2>{}</html>\n",
        data.seed,
        if data.quick { ", quick" } else { "" },
        data.measured_on.as_ref().map_or(String::new(), |on| format!(" Measured on: {}.", escape(on))),
        origin(data),
        Verdict::ALL.map(|verdict| format!("<b>{}</b>: {}.", verdict.name(), verdict.meaning())).join(" "),
        anchors(&profiles),
    ))
}
