//! Manual pages: every command has one.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output};

fn man(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cellway")).arg("man").args(words).output().unwrap()
}

/// The names of the pages of a command and of those below it.
fn pages(command: &clap::Command, name: &str, all: &mut BTreeSet<String>) {
    all.insert(format!("{name}.1"));
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        pages(below, &format!("{name}-{}", below.get_name()), all);
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("man1");
    let output = man(&["--to", to.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut expected = BTreeSet::new();
    pages(&cellway::command(), "cellway", &mut expected);
    let names = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let written: BTreeSet<String> = fs::read_dir(&to).unwrap().map(names).collect();
    assert!(expected.contains("cellway-circuit-add.1") && expected.len() > 60, "{expected:?}");
    assert_eq!(written, expected);
    for name in written {
        let page = fs::read_to_string(to.join(&name)).unwrap();
        let sections = [".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION"];
        assert!(sections.iter().all(|section| page.contains(section)), "{name}: {page}");
    }
}

#[test]
fn a_commands_page_is_printed_by_its_words() {
    let page = man(&["circuit", "add"]);
    let text = String::from_utf8(page.stdout).unwrap();
    assert!(page.status.success() && text.contains("cellway\\-circuit\\-add"), "{text}");
    let wrong = man(&["circuit", "tear"]);
    assert_eq!(wrong.status.code(), Some(2));
    let said = String::from_utf8(wrong.stderr).unwrap();
    assert!(said.contains("no command `tear` of `cellway circuit`"), "{said}");
}
