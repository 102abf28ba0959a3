//! Errors about an object that options made are said in the options' words: a description has `pcr = "20 Mbit/s"`, the
//! command line `--pcr "20 Mbit/s"`.

use crate::exit_status::Usage;
use control::fault::{Fault, Faults, Part};

/// Keys that are no words of prose: they are options wherever they stand.
const ALWAYS: [&str; 11] = [
    "pcr",
    "scr",
    "mbs",
    "mcr",
    "mfs",
    "cdvt_us",
    "max_ctd_us",
    "max_cdv_us",
    "low_latency",
    "one_way",
    "peer_circuits_to",
];

/// The option of a key.
fn option(key: &str) -> String {
    format!("--{}", key.replace('_', "-"))
}

/// The options that a command's arguments are.
pub(crate) fn options<T: clap::Args>() -> clap::Command {
    T::augment_args(clap::Command::new("options"))
}

/// What is wrong with an object, for whoever gave its keys as these options.
pub(crate) fn usage(faults: Faults, options: &clap::Command) -> anyhow::Error {
    let keys: Vec<String> = options.get_arguments().filter_map(|arg| Some(arg.get_long()?.replace('-', "_"))).collect();
    let all: Vec<String> = faults.0.iter().map(|fault| of_fault(fault, &keys)).collect();
    Usage::error(all.join("; "))
}

fn of_fault(fault: &Fault, keys: &[String]) -> String {
    // What is within --back is written as in a description.
    if matches!(fault.at.0.first(), Some(Part::Key(key)) if key == "back") && fault.at.0.len() > 1 {
        return format!("--back: {}", fault.says);
    }
    let says = in_options(&fault.says, keys);
    match fault.at.0.first() {
        Some(Part::Key(key)) if keys.contains(key) && !says.contains(&option(key)) => {
            format!("{}: {says}", option(key))
        }
        _ => says,
    }
}

/// A text with options in place of keys.
fn in_options(text: &str, keys: &[String]) -> String {
    let mut out = String::new();
    let mut rest = text;
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    while let Some(begin) = rest.find(is_part) {
        let (before, from) = rest.split_at(begin);
        let (word, after) = from.split_at(from.find(|c| !is_part(c)).unwrap_or(from.len()));
        out.push_str(before);
        let is_key = keys.iter().any(|key| key == word);
        let value = after.strip_prefix(" = ");
        match value {
            Some(value) if is_key => {
                out.push_str(&option(word));
                out.push(' ');
                rest = value;
            }
            _ => {
                out.push_str(&if is_key && ALWAYS.contains(&word) { option(word) } else { word.to_owned() });
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_speaks_of_options() {
        let keys = ["category", "pcr", "scr", "mbs", "aal"].map(str::to_owned);
        let said = |text: &str| in_options(text, &keys);
        assert_eq!(
            said("cbr needs pcr: add pcr = \"20 Mbit/s\", or a number with cell/s"),
            "cbr needs --pcr: add --pcr \"20 Mbit/s\", or a number with cell/s"
        );
        assert_eq!(
            said("remove mbs, or choose another category than cbr"),
            "remove --mbs, or choose another category than cbr"
        );
        assert_eq!(said("category = \"fast\": write cbr or ubr"), "--category \"fast\": write cbr or ubr");
        assert_eq!(said("nothing of it"), "nothing of it");
    }

    #[test]
    fn a_fault_names_its_option_unless_it_does() {
        let mut faults = Faults::default();
        faults.add("pcr", "invalid rate \"20 Mbits\"");
        faults.add(("back", "pcr"), "add pcr = \"1 Mbit/s\"");
        let options = clap::Command::new("add").arg(clap::Arg::new("pcr").long("pcr"));
        let said = usage(faults, &options).to_string();
        assert_eq!(said, "--pcr: invalid rate \"20 Mbits\"; --back: add pcr = \"1 Mbit/s\"");
    }
}
