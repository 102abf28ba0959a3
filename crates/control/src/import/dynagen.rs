//! A network file of dynagen (`.net`): the sections `[[ATMSW NAME]]` with lines such as `1:10:100 = 2:20:200`, and the
//! links of other sections to these, `A1/0 = NAME 1`.

use super::tables::{Entry, Tables};
use anyhow::{Result, bail};
use std::collections::BTreeSet;

/// Lines with a key: the kind and name of the section, the key, the value.
fn lines(text: &str) -> impl Iterator<Item = (String, String, &str, &str)> {
    let mut section = (String::new(), String::new());
    text.lines().filter_map(move |line| {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(head) = line.strip_prefix('[') {
            let head = head.trim_start_matches('[').trim_end_matches(']').trim();
            let (kind, name) = head.split_once(char::is_whitespace).unwrap_or(("", head));
            section = (kind.to_ascii_lowercase(), name.trim().to_owned());
            return None;
        }
        let (key, value) = line.split_once('=')?;
        Some((section.0.clone(), section.1.clone(), key.trim(), value.trim()))
    })
}

pub(super) fn read(text: &str) -> Result<Tables> {
    let mut tables = Tables::default();
    let switches: BTreeSet<String> =
        lines(text).filter(|(kind, ..)| kind == "atmsw").map(|(_, name, ..)| name).collect();
    if switches.is_empty() {
        bail!("the file has no [[ATMSW ...]] with mappings");
    }
    for (kind, name, key, value) in lines(text) {
        let far = value.split_once(char::is_whitespace).map(|(far, port)| (far, port.trim().parse::<u16>()));
        match (kind.as_str(), Entry::parse(key), far) {
            ("atmsw", Some(from), _) => match Entry::parse(value) {
                Some(to) => tables.map(&name, from, to),
                None => tables.remarks.push(format!("{name}: the mapping {key} = {value} is none: left out")),
            },
            (_, _, Some((far, Ok(port)))) if switches.contains(far) => {
                let own = if kind == "atmsw" { key.parse().ok() } else { None };
                tables.links.push([(name, own), (far.to_owned(), Some(port))]);
            }
            _ => {}
        }
    }
    for switch in &switches {
        tables.switches.entry(switch.clone()).or_default();
    }
    Ok(tables)
}
