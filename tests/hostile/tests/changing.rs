//! While a description of twenty thousand circuits is applied, data pass on, and new clients come in and open circuits; somebody who
//! asks for the status meanwhile keeps nobody waiting. A test program of its own: its allocator is the daemon's.

mod managed;

use control::config::{Config, parse};
use control::daemon::DaemonOptions;
use endpoint::Connection;
use hostile::{Class, Field, Trial};
use managed::Managed;
use serde_json::json;
use std::fmt::Write as _;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const CIRCUITS: u32 = 20_000;

/// The innocent circuit and that of new clients keep their rates; all others have this one.
fn network(pcr: u32) -> Config {
    let mut text = "[host.alpha]\n[host.beta]\n[switch.s1]\nmax_routes = 65536\n[[link]]\nends = [\"alpha\", \"s1:0\"]\n[[link]]\nends = [\"s1:1\", \"beta\"]\n".to_owned();
    for vci in 100..100 + CIRCUITS {
        let pcr = if vci > 101 { format!("pcr = \"{pcr} cell/s\"\n") } else { String::new() };
        let _ = writeln!(text, "[[circuit]]\nends = [\"alpha 0.{vci}\", \"beta 0.{vci}\"]\n{pcr}");
    }
    parse(&text, "net.toml").unwrap()
}

#[test]
fn neither_data_nor_who_comes_waits_while_many_circuits_change() {
    static BEFORE: LazyLock<Config> = LazyLock::new(|| network(1));
    static AFTER: LazyLock<Config> = LazyLock::new(|| network(2));
    let field = || Managed::up(BEFORE.clone(), |_| DaemonOptions::default());
    LazyLock::force(&AFTER);
    let trial = Trial::new(Class::Other, field).newcomers(101).length(Duration::from_secs(1));
    trial.withstand(|field, attack| {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let asks = Connection::open(field.socket()).unwrap();
                while attack.goes_on() && !over.load(Ordering::Relaxed) {
                    asks.manage(json!("overview")).expect("an answer");
                }
            });
            field.daemon.reload(AFTER.clone()).expect("it can be applied");
            over.store(true, Ordering::Relaxed);
        });
    });
}
