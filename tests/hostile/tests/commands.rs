//! Looking and changing cost the network nothing.

use hostile::{Class, Field, Program, Trial};
use std::fmt::Write as _;
use std::time::Duration;

const CIRCUITS: u32 = 2000;

/// An innocent circuit and many others.
fn description(circuits: u32) -> String {
    let mut text = String::from("[host.alpha]\n[host.beta]\n[[link]]\nends = [\"alpha\", \"beta\"]\n");
    for vci in (0..circuits).map(|n| 100 + n) {
        let _ = writeln!(text, "[[circuit]]\nends = [\"alpha 0.{vci}\", \"beta 0.{vci}\"]");
    }
    text
}

#[test]
fn status_of_many_circuits_holds_up_nobody() {
    let trial = Trial::new(Class::Other, || Program::up(&description(CIRCUITS)));
    trial.withstand(|field, attack| {
        while attack.goes_on() {
            field.run("status --json");
        }
    });
}

#[test]
fn a_reload_of_many_circuits_holds_up_nobody() {
    let trial = Trial::new(Class::Other, || Program::up(&description(CIRCUITS)));
    trial.length(Duration::from_millis(2500)).withstand(|field, attack| {
        field.reload(&description(CIRCUITS + 100));
        attack.rest();
    });
}

#[test]
fn a_reload_that_cannot_be_leaves_everything_as_it_was() {
    let network = |ports: u32, second: &str| {
        format!(
            "[host.alpha]\n[host.beta]\n[host.gamma]\n[switch.s1]\nports = {ports}\n\
             [[link]]\nends = [\"alpha\", \"s1:0\"]\n[[link]]\nends = [\"beta\", \"s1:1\"]\n{second}\
             [[circuit]]\nends = [\"alpha 0.100\", \"beta 0.100\"]\n"
        )
    };
    let program = Program::up(&network(4, "[[circuit]]\nends = [\"alpha 0.101\", \"beta 0.101\"]\n"));
    let before = program.run("circuit list");
    program.reload(&network(8, "[[link]]\nends = [\"gamma\", \"s1:6\"]\n"));
    std::thread::sleep(Duration::from_millis(500));
    let after = program.run("circuit list");
    // Applied as a whole, or not at all.
    let applied = !after.contains("0.101") && program.run("link list").contains("s1:6");
    assert!(after == before || applied, "before:\n{before}\nafter:\n{after}");
    // Either way it still works.
    drop(program.open("alpha", 100));
}
