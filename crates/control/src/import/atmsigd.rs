//! `/etc/atmsigd.conf`: groups of parameters, with or without braces; `#` begins a comment.

use super::site::Site;
use anyhow::{Result, bail};
use wire::PvcAddress;

/// The words of the file; braces are words.
fn words(text: &str) -> Vec<String> {
    let plain: String = text.lines().map(|line| line.split('#').next().unwrap_or_default().to_owned() + " ").collect();
    plain.replace('{', " { ").replace('}', " } ").split_whitespace().map(str::to_owned).collect()
}

pub(super) fn read(text: &str, site: &mut Site) -> Result<()> {
    let words = words(text);
    let mut at = 0;
    while let Some(group) = words.get(at) {
        at += 1;
        let mut options: Vec<String> = Vec::new();
        if group == "entity" {
            let name = words.get(at).cloned().unwrap_or_default();
            at += 1;
            entity(&name, site)?;
        }
        if words.get(at).is_some_and(|word| word == "{") {
            let Some(end) = words[at..].iter().position(|word| word == "}") else {
                bail!("`{group} {{` has no closing brace")
            };
            options.extend_from_slice(&words[at + 1..at + end]);
            at += end + 1;
        } else if group != "entity" {
            let end = words[at..].iter().position(|word| is_group(word)).map_or(words.len(), |n| at + n);
            options.extend_from_slice(&words[at..end]);
            at = end;
        }
        if !is_group(group) {
            bail!("`{group}` is no group of atmsigd.conf: debug, io, saal, sig, policy or entity");
        }
        apply(group, &options, site);
    }
    Ok(())
}

fn is_group(word: &str) -> bool {
    ["debug", "io", "saal", "sig", "policy", "entity"].contains(&word)
}

fn entity(name: &str, site: &mut Site) -> Result<()> {
    let Ok(pvc) = name.parse::<PvcAddress>() else { bail!("entity {name}: expected [itf.]vpi.vci") };
    if (pvc.circuit.vpi.get(), pvc.circuit.vci) != (0, wire::Vci::SIGNALLING) {
        site.remarks.push(format!("entity {name}: here signalling is on 0.5 of each link"));
    }
    Ok(())
}

fn apply(group: &str, options: &[String], site: &mut Site) {
    let mut options = options.iter().map(String::as_str);
    while let Some(option) = options.next() {
        match (group, option) {
            ("sig", "uni30") => {
                if site.version.is_none() {
                    site.remarks.push("sig uni30: links have uni31 here".into());
                    site.version = Some("uni31");
                }
            }
            ("sig", "uni31") => site.version = Some("uni31"),
            ("sig", "uni40") => site.version = Some("uni40"),
            ("sig" | "entity", "mode") => match options.next() {
                Some("user") | None => {}
                Some(mode) => {
                    site.remarks.push(format!("mode {mode}: the switch of this description is the network side"))
                }
            },
            ("debug" | "saal", _) | (_, "level") => _ = options.next(),
            ("policy", decision) => {
                let (direction, address) = (options.next().unwrap_or_default(), options.next().unwrap_or_default());
                site.remarks.push(format!(
                    "policy {decision} {direction} {address}: here [[allow]] with `calls` says who may call which addresses"
                ));
            }
            (_, "default") => site.remarks.push(format!("{group} {option}: calls find their way by prefixes here")),
            ("sig" | "entity", "vpci") => {
                let rest: Vec<&str> = options.by_ref().take(3).collect();
                site.remarks.push(format!("{group} vpci {}: a VPCI is the VPI here", rest.join(" ")));
            }
            (_, option) => {
                let value = options.next().unwrap_or_default();
                site.remarks.push(format!("{group} {option} {value}: not taken over"));
            }
        }
    }
}
