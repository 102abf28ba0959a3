//! The echo in Rust, against a daemon.

use bindings::{Daemon, programs};
use std::process::Command;

#[test]
fn the_echo_in_rust_sends_back_what_comes() {
    let daemon = Daemon::start().unwrap();
    daemon.echoes(&mut Command::new(programs().unwrap().join("examples/echo"))).unwrap();
}

#[test]
fn the_echoes_in_loops_of_mio_and_tokio_send_back_what_comes() {
    for example in ["mio_echo", "tokio_echo"] {
        let daemon = Daemon::start().unwrap();
        daemon.echoes(&mut Command::new(programs().unwrap().join("examples").join(example))).unwrap();
    }
}
