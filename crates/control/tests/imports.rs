//! Descriptions from what other software has. Each is one that a network can be made of.

use control::config::{Config, parse};
use control::description::rehearse;
use control::import::{Format, Imported, import};

fn imported(files: &[(&str, &str)]) -> (Imported, Config) {
    let files: Vec<(String, String)> = files.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect();
    let imported = import(&files, None).unwrap();
    let config = parse(&imported.description, "x").unwrap_or_else(|e| panic!("{e}\n{}", imported.description));
    rehearse(&config).unwrap_or_else(|e| panic!("{e}\n{}", imported.description));
    (imported, config)
}

fn circuits(config: &Config) -> Vec<String> {
    let text = |c: &control::config::Circuit| format!("{} via {}", c.ends.join(" - "), c.via.join(", "));
    config.file.circuit.iter().map(text).collect()
}

/// The three-switch exercise as dynagen has it.
const DYNAGEN: &str = "
# the exercise
[localhost]
    [[7200]]
    image = /images/c7200.bin
    [[ROUTER R1]]
        model = 7200
        A1/0 = A 1
        F0/0 = LAN 1
    [[ROUTER R2]]
        A1/0 = C 1    # the far end
    [[ATMSW A]]
        1:100:101 = 3:100:150
        1:7 = 4:8
        3 = B 2
    [[ATMSW B]]
        2:100:150 = 3:100:50
        3 = C 3
    [[ATMSW C]]
        3:100:50 = 1:100:201
";

#[test]
fn the_switches_of_a_dynagen_file_are_described_with_their_tables() {
    let (imported, config) = imported(&[("lab.net", DYNAGEN)]);
    let all = circuits(&config);
    assert!(all.contains(&"R1 100.101 - R2 100.201 via B:2 100.150, C:3 100.50".into()), "{all:?}");
    assert!(all.contains(&"A:1 7.* - A:4 8.* via ".into()), "{all:?}");
    assert!(imported.remarks.iter().any(|remark| remark.contains("port 4 of A")), "{:?}", imported.remarks);
    assert_eq!(config.file.switch.len(), 3);
}

const GNS3: &str = r#"{
  "name": "lab", "type": "topology", "version": "2.2.0",
  "topology": {
    "nodes": [
      {"node_id": "1", "name": "R 1", "node_type": "dynamips", "properties": {"platform": "c7200", "slot1": "PA-A1"}},
      {"node_id": "2", "name": "R2", "node_type": "dynamips", "properties": {}},
      {"node_id": "3", "name": "ATM1", "node_type": "atm_switch", "properties": {"mappings": {"1:8:35": "2:0:50", "2:0:50": "1:8:35"}}},
      {"node_id": "4", "name": "ATM2", "node_type": "atm_switch", "properties": {"mappings": {"10:0:50": "20:0:32"}}},
      {"node_id": "5", "name": "FR1", "node_type": "frame_relay_switch", "properties": {"mappings": {"1:101": "2:102"}}}
    ],
    "links": [
      {"nodes": [{"node_id": "1", "adapter_number": 1, "port_number": 0}, {"node_id": "3", "adapter_number": 0, "port_number": 1}]},
      {"nodes": [{"node_id": "3", "adapter_number": 0, "port_number": 2}, {"node_id": "4", "adapter_number": 0, "port_number": 10}]},
      {"nodes": [{"node_id": "4", "adapter_number": 0, "port_number": 20}, {"node_id": "2", "adapter_number": 1, "port_number": 0}]},
      {"nodes": [{"node_id": "1", "adapter_number": 0, "port_number": 0}, {"node_id": "2", "adapter_number": 0, "port_number": 0}]}
    ]
  }
}"#;

#[test]
fn the_switches_of_a_gns3_project_are_described_with_their_tables() {
    let (imported, config) = imported(&[("lab.gns3", GNS3)]);
    assert_eq!(circuits(&config), ["R-1 8.35 - R2 0.32 via ATM2:10 0.50"]);
    assert_eq!((config.file.host.len(), config.file.link.len()), (2, 3));
    assert!(imported.remarks.iter().any(|remark| remark.contains("FR1")), "{:?}", imported.remarks);
}

const HOSTS: &str = "\
47.000580ffde00000000000001.020000000001.00 server server.example # by ATM\n\
47.000580ffde00000000000001.020000000002.00 client\n\
39.246f00000000000000000002.020000000003.00 other\n\
+15551234567 far\n0.8.35 line\n";

const ATMSIGD: &str = "debug { level warn dump /var/tmp }\nsig uni31 uni40 # the newer\nsig mode user\n\
    policy reject from 47.0005/24\nentity 0.0.5 { mode user route 47/8 default }\n";

#[test]
fn a_site_of_linux_atm_is_described_with_its_addresses() {
    let lecs = "# ours\n47000580ffde0000000000000102000000000905\n[tut-lane1]\nLES:=47000580ffde0000000000000102000000000901\n\
        Type:=802_3\nMax_Frame:=1516\n47000580ffde0000000000000102000000x00\nDEFAULT\n";
    let (imported, config) =
        imported(&[("/etc/atmsigd.conf", ATMSIGD), ("/etc/hosts.atm", HOSTS), ("lecs.conf", lecs)]);
    assert_eq!(config.file.switch.len(), 3, "one for each prefix: {}", imported.description);
    assert_eq!(config.file.host["server"].esi.as_deref(), Some("020000000001"));
    assert_eq!(config.file.host["lecs"].esi.as_deref(), Some("020000000009"));
    let versions: Vec<&str> =
        config.file.link.iter().filter_map(|link| Some(link.signalling.as_ref()?.version.as_str())).collect();
    assert_eq!(versions.iter().filter(|version| **version == "uni40").count(), config.file.host.len());
    for remark in ["policy reject from", "circuit 8.35", "lane serve", "--lan tut-lane1", "is the host `lecs`"] {
        assert!(imported.description.contains(remark), "{remark}: {}", imported.description);
    }
}

#[test]
fn what_is_none_of_these_is_refused_with_what_would_be() {
    let one = |name: &str, text: &str| import(&[(name.into(), text.into())], None).map(drop).unwrap_err();
    let e = one("x", "hello").to_string();
    assert!(e.contains("--format"), "{e}");
    for (name, text, says) in [
        ("lab.gns3", "{\"topology\": {\"nodes\": []}}", "no ATM switch"),
        ("lab.gns3", "{", "no project"),
        ("atmsigd.conf", "sig {", "no closing brace"),
        ("atmsigd.conf", "signalling uni31", "no group"),
        ("lecs.conf", "what\n", "no address"),
    ] {
        let e = format!("{:#}", one(name, text));
        assert!(e.contains(says), "{e}");
    }
    assert_eq!(Format::of("/etc/hosts.atm", ""), Some(Format::Hosts));
    let two = [("a.net".to_owned(), DYNAGEN.to_owned()), ("b.net".to_owned(), DYNAGEN.to_owned())];
    assert!(import(&two, None).is_err());
}
