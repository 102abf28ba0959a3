//! The C library: its symbols, its echo against a daemon, and a program that tries what can be refused.

use bindings::{Daemon, c_library, c_program, run, with_library};
use std::process::Command;

#[test]
fn the_echo_in_c_sends_back_what_comes() {
    let daemon = Daemon::start().unwrap();
    c_library(daemon.folder()).unwrap();
    let echo = c_program(daemon.folder(), "examples/echo.c", &["-pedantic"]).unwrap();
    daemon.echoes(&mut with_library(daemon.folder(), &echo)).unwrap();
    // What is refused has the service's words, and the kind as its code.
    let refused =
        with_library(daemon.folder(), &echo).env("CELLWAY_SOCKET", daemon.socket()).args(["nobody", "0.1"]).output();
    let refused = refused.unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("no host `nobody`"), "{refused:?}");
}

#[test]
fn loans_batches_and_refusals_of_a_direct_circuit_are_as_the_header_says() {
    let folder = tempfile::tempdir().unwrap();
    c_library(folder.path()).unwrap();
    let program = c_program(folder.path(), "tests/direct.c", &[]).unwrap();
    assert_eq!(run(&mut with_library(folder.path(), &program)).unwrap(), "done\n");
}

#[test]
fn a_program_with_the_library_is_clean_under_valgrind() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: valgrind is not installed (apt install valgrind)");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    c_library(folder.path()).unwrap();
    let program = c_program(folder.path(), "tests/direct.c", &["-g"]).unwrap();
    let mut valgrind = with_library(folder.path(), "valgrind".as_ref());
    let options = ["--quiet", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite,indirect"];
    assert_eq!(run(valgrind.args(options).arg(program)).unwrap(), "done\n");
}

#[test]
fn each_exported_symbol_is_of_the_header_and_has_a_version() {
    let folder = tempfile::tempdir().unwrap();
    c_library(folder.path()).unwrap();
    let library = folder.path().join("lib/libcellway.so.0");
    let symbols =
        run(Command::new("nm").args(["-D", "--defined-only", "--with-symbol-versions"]).arg(&library)).unwrap();
    let header = std::fs::read_to_string(bindings::root().join("bindings/c/include/cellway.h")).unwrap();
    let mut functions = 0;
    for line in symbols.lines().filter(|line| !line.ends_with(" A CELLWAY_0.1")) {
        let symbol = line.split_whitespace().last().unwrap();
        let (name, version) = symbol.split_once("@@").unwrap_or_else(|| panic!("{symbol} has no version"));
        assert_eq!(version, "CELLWAY_0.1", "{symbol}");
        assert!(header.contains(&format!("{name}(")), "{name} is not in the header");
        functions += 1;
    }
    assert!(functions > 40, "{functions} functions");
    let dynamic = run(Command::new("readelf").arg("-d").arg(&library)).unwrap();
    assert!(dynamic.contains("[libcellway.so.0]"), "{dynamic}");
}

#[test]
fn pkg_config_tells_where_header_and_library_are() {
    let folder = tempfile::tempdir().unwrap();
    c_library(folder.path()).unwrap();
    let file = std::fs::read_to_string(folder.path().join("lib/pkgconfig/cellway.pc")).unwrap();
    let prefix = format!("prefix={}", folder.path().display());
    assert!(file.contains(&prefix) && file.contains("-lcellway") && !file.contains('@'), "{file}");
}
