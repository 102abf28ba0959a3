//! Descriptions that are in order, and that are not.

use super::*;
use proptest::prelude::*;

const GOOD: &str = "[host.alpha]\n[host.beta]\nip = \"10.0.0.2/24\"\n[switch.s1]\n\n[[link]]\nends = [\"alpha\", \"s1:0\"]\nrate = \"OC-3c\"\n[[link]]\nends = [\"beta\", \"s1:1\"]\n\n[[circuit]]\nends = [\"alpha 0.100\", \"beta 0.100\"]\ncategory = \"cbr\"\npcr = \"20 Mbit/s\"\n";

fn error(text: &str) -> String {
    format!("{:#}", parse(text, "net.toml").unwrap_err())
}

#[test]
fn the_designs_example_is_understood() {
    let config = parse(GOOD, "x").unwrap();
    assert_eq!(config.description.links.len(), 2);
    let circuit = &config.description.circuits[0];
    assert_eq!(circuit.contract.pcr.unwrap().payload_bits_per_s().round(), 20e6);
}

#[test]
fn errors_name_file_line_and_cure() {
    let e = error(&GOOD.replace("rate =", "rat ="));
    assert!(e.starts_with("net.toml:8:1: unknown key `rat`") && e.contains("is it `rate`?"), "{e}");
    let e = error(&GOOD.replace("\"beta\", ", "\"bata\", "));
    assert!(e.starts_with("net.toml:10:9: ") && e.contains("no station `bata` (is it `beta`?)"), "{e}");
    let e = error(&GOOD.replace("20 Mbit/s", "fast"));
    assert!(e.starts_with("net.toml:15:7: ") && e.contains("fast"), "{e}");
    let e = error(&GOOD.replace("OC-3c", "OC-3d"));
    assert!(e.contains("OC-3d") && e.contains("write"), "{e}");
    assert!(error("[host.a]\n[switch.a]\n").contains("two stations"));
    assert!(error("[host.a]\nip = \"10.0.0/8\"\n").starts_with("net.toml:2:6: "));
}

#[test]
fn what_is_wrong_with_tens_of_thousands_of_names_is_told_in_little_time() {
    let mut text = String::new();
    (0..10_000).for_each(|n| text.push_str(&format!("[host.station{n:05}]\n")));
    (0..20_000).for_each(|n| text.push_str(&format!("[[link]]\nends = [\"stattion{n:05}\", \"statoin{n:05}\"]\n")));
    let long = ["a", "b"].map(|letter| letter.repeat(1 << 20));
    text.push_str(&format!("[outside.{}]\n[[link]]\nends = [\"{}\", \"station00001\"]\n", long[0], long[1]));
    let begin = host::engine::processor_time();
    let wrong = understand(&Kinds::none(), &text, "net.toml", Path::new("")).1;
    let took = host::engine::processor_time().saturating_sub(begin);
    assert_eq!(wrong.len(), 40_001);
    assert!(wrong[0].message.contains("is it `station00000`?"), "{}", wrong[0].message);
    // While each name was compared with all there are, it took minutes.
    assert!(took < std::time::Duration::from_secs(4), "{took:?}");
}

#[test]
fn a_switch_with_signalling_has_room_for_one_port_more() {
    let with = |ports: u16| format!("[switch.s1]\nports = {ports}\nprefix = \"47000580ffe100000000000001\"\n");
    let e = error(&with(u16::MAX));
    assert!(e.starts_with("net.toml:2:9: ") && e.contains("write 65534 at most"), "{e}");
    let refused = crate::description::read(&Kinds::none(), &with(u16::MAX), "net.toml", Path::new(""));
    assert!(refused.is_err());
    parse(&with(u16::MAX - 1), "net.toml").unwrap();
    parse("[switch.s1]\nports = 65535\n", "net.toml").unwrap();
    let e = error(&format!("{}[host.a]\n[[link]]\nends = [\"a\", \"s1:8\"]\n", with(8)));
    assert!(e.contains("`s1` has the ports 0 to 7"), "{e}");
}

#[test]
fn contracts_are_of_each_direction_and_what_is_wrong_names_key_value_and_cure() {
    const GFR: &str = "category = \"gfr\"\nconformance = \"gfr.2\"\npcr = \"10000 cell/s\"\nmcr = \"1000 cell/s\"\nmfs = 32\nmbs = 64\n";
    let with = |text: &str| GOOD.replace("category = \"cbr\"\npcr = \"20 Mbit/s\"\n", text);
    let config = parse(&with(&format!("{GFR}back = {{ pcr = \"1 Mbit/s\", discard = \"fair\" }}\n")), "x").unwrap();
    let circuit = &config.description.circuits[0];
    assert_eq!((circuit.contract.mfs, circuit.contract.conformance().name()), (Some(32), "gfr.2"));
    let back = circuit.contract_back();
    assert_eq!((back.category, back.discard), (::traffic::Category::Ubr, ::traffic::Discard::Fair));
    let again = parse(&toml::to_string_pretty(&config.file).unwrap(), "y").unwrap();
    assert_eq!(again.description, config.description);
    for (text, says) in [
        ("category = \"abr\"\n", "net.toml:14:12: category = \"abr\": there is no ABR yet; write nrt-vbr"),
        ("category = \"cbx\"\n", "write cbr, rt-vbr, nrt-vbr, gfr or ubr"),
        ("category = \"nrt-vbr\"\npcr = \"1 Mbit/s\"\n", "nrt-vbr needs scr: add scr = "),
        (
            "pcr = \"9 cell/s\"\nscr = \"1 cell/s\"\n",
            "net.toml:15:7: ubr has no scr: remove scr, or choose another category",
        ),
        ("pcr = \"9 cell/s\"\nmcr = \"10 cell/s\"\n", "mcr = \"10 cell/s\" must be at most pcr = \"9 cell/s\""),
        (
            &GFR.replace("mbs = 64", "mbs = 31"),
            "net.toml:19:7: mbs must be at least 32: mbs = 31 is too small, write 32 or more",
        ),
        (&GFR.replace("gfr.2", "vbr.3"), "conformance = \"vbr.3\" is of another category, write gfr.1 or gfr.2"),
        (&format!("{GFR}aal = \"aal0\"\n"), "aal = \"aal0\": write aal5"),
        ("back = { category = \"cbr\" }\n", "cbr needs pcr: add pcr = "),
        ("back = { scr = \"fast\" }\n", "\"fast\" is no rate"),
        ("back = { }\none_way = true\n", "nothing goes to the first end"),
        ("back = { rate = 3 }\n", "unknown key `rate`"),
        ("low_latency = true\n", "ubr has no low_latency"),
    ] {
        let e = error(&with(text));
        assert!(e.contains(says), "{e}");
    }
}

#[test]
fn what_show_prints_means_the_same() {
    let config = parse(GOOD, "x").unwrap();
    let again = parse(&toml::to_string_pretty(&config.file).unwrap(), "y").unwrap();
    assert_eq!(again.description, config.description);
}

proptest! {
    #[test]
    fn no_text_panics(text in "[\\[\\]a-z.=\"0-9 \n:{},/-]{0,200}", cut in 0usize..250) {
        let _ = parse(&text, "x");
        let _ = parse(&GOOD[..cut.min(GOOD.len())], "x");
    }
}

#[test]
fn keys_by_old_names_are_read_with_a_warning_and_an_upgrade_writes_the_new_ones() {
    let text = "[host.a]\n[outside.b]\n[outside.c] # tcp = real\n\
                [[link]]\nends = [\"a:1\", \"b\"]\n  tcp   = \"connect 127.0.0.1:9\" # real\n\
                [[link]]\nends = [\"a:2\", \"c\"]\natmtcp = \"connect 127.0.0.1:9\"\nreal = \"a\"\n";
    let old = parse(text, "net").unwrap();
    let [tcp, real] = &old.renamed[..] else { panic!("{:?}", old.renamed) };
    assert_eq!(((tcp.line, tcp.column), (real.line, real.column)), ((6, 11), (10, 8)));
    assert!(
        tcp.message.contains("write `cells_tcp`") && real.message.contains("write `peer_circuits_to`"),
        "{tcp} {real}"
    );
    let (upgraded, keys) = upgrade(&Kinds::none(), text, "net", Path::new("")).unwrap();
    assert_eq!(keys, 2);
    let by_hand = text.replace("  tcp   =", "  cells_tcp   =").replace("\nreal = \"a\"", "\npeer_circuits_to = \"a\"");
    assert_eq!(upgraded, by_hand);
    let new = parse(&upgraded, "net").unwrap();
    assert!(new.renamed.is_empty());
    assert_eq!((&new.file.link, format!("{:?}", new.shells)), (&old.file.link, format!("{:?}", old.shells)));
    assert_eq!(upgrade(&Kinds::none(), &upgraded, "net", Path::new("")).unwrap(), (upgraded.clone(), 0));
    let both = parse(&upgraded.replace("# real\n", "# real\ntcp = \"listen 127.0.0.1:0\"\n"), "net").unwrap_err();
    assert!(both.to_string().contains("net:7:7: `tcp` is the old name of `cells_tcp`: leave it out"), "{both}");
}

#[test]
fn sections_of_kinds_that_are_not_registered_are_unknown() {
    for section in ["desk", "adapter"] {
        let e = error(&format!("[host.a]\n[{section}.x]\n"));
        assert!(e.starts_with("net.toml:2:2: ") && e.contains(&format!("unknown section `{section}`")), "{e}");
        assert!(!e.contains(&format!("is it `{section}`")), "{e}");
    }
}
