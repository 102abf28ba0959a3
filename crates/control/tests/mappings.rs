//! Circuits that are written switch by switch, as exercise sheets and other emulators have them.

use control::audit::Who;
use control::config::{Circuit, parse};
use control::controller::Controller;
use control::daemon::Daemon;
use control::description::rehearse;
use control::objects::Spec;
use control::sources::commands::Written;

const LINKS: &str = r#"
[host.r1]
[host.r2]
[switch.A]
[switch.B]
[switch.C]
[[link]]
ends = ["r1", "A:1"]
[[link]]
ends = ["A:3", "B:2"]
[[link]]
ends = ["B:3", "C:3"]
[[link]]
ends = ["C:1", "r2"]
"#;

/// The table of an exercise: each switch's ports and labels.
const TABLE: [[&str; 2]; 3] =
    [["A:1 100.101", "A:3 100.150"], ["B:2 100.150", "B:3 100.50"], ["C:3 100.50", "C:1 100.201"]];

fn described(mappings: &[[&str; 2]], keys: &str) -> String {
    let circuits = mappings.iter().map(|[a, b]| format!("[[circuit]]\nends = [\"{a}\", \"{b}\"]\n{keys}\n"));
    LINKS.to_owned() + &circuits.collect::<String>()
}

fn text_of(circuit: &Circuit) -> String {
    format!("{} via {}", circuit.ends.join(" - "), circuit.via.join(", "))
}

const WHOLE: &str = "r1 100.101 - r2 100.201 via B:2 100.150, C:3 100.50";

#[test]
fn mappings_that_meet_on_links_are_one_circuit_with_their_labels_in_whatever_order() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        for turned in 0..8 {
            let mappings = order.map(|n| if turned >> n & 1 == 1 { [TABLE[n][1], TABLE[n][0]] } else { TABLE[n] });
            let config = parse(&described(&mappings, "pcr = 1000\ncategory = \"cbr\""), "x").unwrap();
            let circuits: Vec<String> = config.file.circuit.iter().map(text_of).collect();
            let back = "r2 100.201 - r1 100.101 via ";
            assert!(circuits.len() == 1 && (circuits[0].starts_with(back) || circuits[0] == WHOLE), "{circuits:?}");
            let labels: Vec<String> =
                config.description.circuits[0].via.iter().map(|via| via.label().to_string()).collect();
            let mut sorted = labels.clone();
            sorted.sort();
            assert_eq!(sorted, ["100.150", "100.50"]);
            rehearse(&config).unwrap();
        }
    }
}

#[test]
fn a_circuit_with_a_label_for_each_link_is_the_same() {
    let one = "[[circuit]]\nends = [\"r1 100.101\", \"r2 100.201\"]\nvia = [\"A:3 100.150\", \"B:3 100.50\"]\n";
    let config = parse(&(LINKS.to_owned() + one), "x").unwrap();
    rehearse(&config).unwrap();
    let e = parse(&(LINKS.to_owned() + &one.replace("B:3", "E:3")), "x").unwrap_err().to_string();
    assert!(e.contains("no station `E`"), "{e}");
}

#[test]
fn a_mapping_that_meets_none_stays_and_a_path_is_joined_as_a_channel_is() {
    let config = parse(&described(&TABLE[..1], ""), "x").unwrap();
    assert_eq!(text_of(&config.file.circuit[0]), "r1 100.101 - A:3 100.150 via ");
    let paths = [["A:1 7.*", "A:3 8.*"], ["B:2 8.*", "B:3 9.*"], ["C:3 9.*", "C:1 10.*"]];
    let config = parse(&described(&paths, ""), "x").unwrap();
    assert_eq!(text_of(&config.file.circuit[0]), "A:1 7.* - C:1 10.* via B:2 8.*, C:3 9.*");
    rehearse(&config).unwrap();
}

#[test]
fn mappings_that_cannot_be_one_circuit_are_refused_at_their_lines() {
    let text = described(&TABLE[..2], "") + "category = \"cbr\"\npcr = 1000\n";
    let e = parse(&text, "net.toml").unwrap_err().to_string();
    assert!(e.contains("net.toml:19:") && e.contains("the same keys"), "{e}");
    let e = parse(&described(&[TABLE[0], [TABLE[1][1], TABLE[1][0]]], "one_way = true"), "x").unwrap_err().to_string();
    assert!(e.contains("in the other order"), "{e}");
    let ring = "[switch.A]\n[switch.B]\n[[link]]\nends = [\"A:1\", \"B:1\"]\n[[link]]\nends = [\"A:2\", \"B:2\"]\n\
        [[circuit]]\nends = [\"A:1 0.50\", \"A:2 0.51\"]\n[[circuit]]\nends = [\"B:1 0.50\", \"B:2 0.51\"]\n";
    let e = parse(ring, "x").unwrap_err().to_string();
    assert!(e.contains("in a circle"), "{e}");
}

fn add(controller: &Controller, ends: [&str; 2]) {
    let circuit = Circuit { ends: ends.map(str::to_owned).to_vec(), ..Circuit::default() };
    let spec = Spec::Circuit(circuit.describe().unwrap());
    let written = Some(Written::Circuit(Box::new(circuit)));
    controller.add(spec, None, written, &Who::Operator, &|_| Ok(())).unwrap();
}

fn exported(controller: &Controller) -> Vec<String> {
    controller.with_intent(|intent| control::export::file(intent).circuit.iter().map(text_of).collect())
}

#[test]
fn mappings_that_commands_add_join_what_is_there_and_are_exported_as_one() {
    let folder = tempfile::tempdir().unwrap();
    // One is described, the others come one by one.
    let config = parse(&described(&TABLE[..1], ""), "x").unwrap();
    let daemon = Daemon::start(config, &folder.path().join("s")).unwrap();
    let controller = daemon.controller();
    add(controller, TABLE[2]);
    assert_eq!(exported(controller).len(), 2);
    add(controller, TABLE[1]);
    assert_eq!(exported(controller), [WHOLE]);
    // It is found by the ends that the table has for it, and by its own.
    let ends = ["A:1 100.101", "C:1 100.201"].map(|end| end.parse().unwrap());
    let id = controller.find_circuit(&ends).unwrap();
    controller.remove(&id, &Who::Operator, &|_| Ok(())).unwrap();
    assert_eq!(exported(controller), Vec::<String>::new());
}
