//! All that is wrong with a description is told at once, each at its line and column.

use control::description::{explained, load, read, rehearse};
use control::diagnostic::Diagnostics;
use control::kinds::Kinds;
use std::path::Path;

/// A description whose wrong places stand between `«` and `»`: the text without these marks, and what is marked.
fn marked(text: &str) -> (String, Vec<(usize, usize, usize, usize)>) {
    let (mut plain, mut places, mut open) = (String::new(), Vec::new(), Vec::new());
    let (mut line, mut column) = (1, 1);
    for letter in text.chars() {
        match letter {
            '«' => open.push((line, column)),
            '»' => {
                let (from_line, from_column) = open.pop().unwrap();
                places.push((from_line, from_column, line, column));
            }
            '\n' => {
                plain.push(letter);
                (line, column) = (line + 1, 1);
            }
            _ => {
                plain.push(letter);
                column += 1;
            }
        }
    }
    places.sort_unstable();
    (plain, places)
}

fn wrong(text: &str) -> Diagnostics {
    match read(&Kinds::none(), text, "net.toml", Path::new("")) {
        Err(wrong) => wrong,
        Ok(config) => explained(&config, rehearse(&config).expect_err("nothing is wrong").into()).downcast().unwrap(),
    }
}

fn assert_marked(text: &str, messages: &[&str]) {
    let (plain, places) = marked(text);
    let wrong = wrong(&plain);
    let told: Vec<String> = wrong.all().iter().map(ToString::to_string).collect();
    let found: Vec<_> = wrong.all().iter().map(|d| (d.line, d.column, d.end_line, d.end_column)).collect();
    assert_eq!(found, places, "{}", told.join("\n"));
    assert_eq!(messages.len(), told.len(), "{}", told.join("\n"));
    for (told, message) in told.iter().zip(messages) {
        assert!(told.contains(message), "{message}: {told}");
    }
}

#[test]
fn ten_planted_errors_in_one_file_are_ten_answers_at_the_right_line_and_column() {
    assert_marked(
        r#"
[host.alpha]
ip = «"10.0.0.1"»
[host.beta]
«max_endpoint» = 3
[switch.s1]
ports = 4
[switch.«alpha»]

[[link]]
ends = ["alpha", "s1:0"]
rate = «"fast"»
[[link]]
ends = ["beta", «"s1:0"»]
carries = «"packets"»

[[circuit]]
ends = [«"alpha 0.70000"», "beta 0.100"]
[[circuit]]
ends = ["alpha 0.101", «"gamma 0.101"»]
category = "cbr"
pcr = «true»
[[circuit]]
ends = ["alpha 0.102", "beta 0.102"]
category = "nrt-vbr"
pcr = "10 Mbit/s"
scr = «"20 Mbit/s"»
mbs = 10
"#,
        &[
            "write such as 10.0.0.1/24",
            "is it `max_endpoints`?",
            "two stations are called `alpha`",
            "\"fast\" is no rate",
            "port 0 of s1 has a link already",
            "write cells or frames",
            "VCI 70000 is beyond 65535",
            "no station `gamma` (is it `alpha`?)",
            "expected a rate",
            "scr is greater than pcr",
        ],
    );
}

#[test]
fn errors_of_syntax_are_told_all_at_once_and_do_not_hide_the_others() {
    let (plain, _) = marked("[host.alpha]\nip = = \"x\"\n[switch.s1]\nports = 1 2\nsize = 3\n[[link]\nends = []\n");
    let wrong = wrong(&plain);
    let lines: Vec<usize> = wrong.all().iter().map(|d| d.line).collect();
    for line in [2, 4, 5, 6] {
        assert!(lines.contains(&line), "line {line}: {wrong}");
    }
}

#[test]
fn what_only_the_model_knows_is_told_at_the_key_or_end_that_it_is_about() {
    assert_marked(
        r#"
[host.alpha]
[host.beta]
[host.lonely]
[switch.s1]
ports = 2
[[link]]
ends = ["alpha", "s1:0"]
rate = "OC-3c"
[[link]]
ends = ["beta", "s1"]
[[link]]
ends = ["beta", «"s1:7"»]
[[circuit]]
ends = ["alpha 0.100", "beta 0.100"]
[[circuit]]
ends = [«"alpha 0.100"», "beta 0.200"]
[[circuit]]
ends = ["alpha 0.101", "beta 0.101"]
category = "cbr"
pcr = «"1 Gbit/s"»
[[circuit]]
ends = ["alpha 0.102", «"lonely 0.102"»]
"#,
        &["no port 7", "0.100", "s1", "no way from alpha to lonely"],
    );
}

#[test]
fn what_follows_from_something_wrong_is_not_told() {
    // A link whose end is misspelt, and what depends on it.
    assert_marked(
        "[host.a]\n[host.b]\n[[link]]\nends = [«\"aa\"», \"b\"]\n[[circuit]]\nends = [\"a 0.100\", \"b 0.100\"]\n",
        &["no station `aa`"],
    );
    // A circuit whose rate has the wrong type still needs one.
    assert_marked(
        "[host.a]\n[host.b]\n[[link]]\nends = [\"a\", \"b\"]\n[[circuit]]\nends = [\"a 0.100\", \"b 0.100\"]\ncategory = \"cbr\"\npcr = «true»\n",
        &["expected a rate"],
    );
}

#[test]
fn every_section_tells_its_errors_at_their_values() {
    assert_marked(
        r#"
«hots» = {}
[engine]
processor = «"first"»
[host.a]
[host.b]
[outside.far]
[outside.near]
[interface.i]
host = "c"
address = «"10.0.0.1"»
mtu = «5»
peers = { "0.1" = "10.0.0.2", "x" = «"10.0.0.3"» }
[[link]]
ends = ["a", "b"]
queue_cells = «3»
faults = { loss = «1.5» }
[[link]]
ends = ["a:1", "far"]
cells_udp = { local = «"here"», peer = "127.0.0.1:1" }
[[link]]
ends = ["a:2", «"near"»]
[[circuit]]
ends = «["a 0.1"]»
[[circuit]]
ends = ["a 0.100", "b 0.100"]
aal = «"aal9"»
flow = «"wet"»
[[circuit]]
ends = «["a 0.100", "b 0.100"]»
[[allow]]
users = [0, «"no-such-user-here"»]
circuits = ["0.100", «"0.9-3"»]
host = «"d"»
"#,
        &[
            "unknown section `hots` (is it `host`?)",
            "expected",
            "10.0.0.1/24",
            "576 to 65000",
            "circuit \"x\"",
            "16 to 1048576",
            "0 to 1",
            "an IP address and a port, or localhost:PORT",
            "leads outside",
            "two ends at least",
            "write aal5, aal0 or aal34",
            "write best-effort or credit",
            "described above",
            "no user `no-such-user-here`",
            "0.9-3",
            "no station `d`",
        ],
    );
}

#[test]
fn the_text_shows_the_line_with_a_caret() {
    let (plain, _) = marked("[host.a]\nip = «\"10\"»\n");
    let text = wrong(&plain).rendered(false);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("error: \"10\" is no address"), "{text}");
    assert!(lines.iter().any(|line| line.contains("--> net.toml:2:6")), "{text}");
    assert!(lines.iter().any(|line| line.ends_with("ip = \"10\"")) && text.contains("^^^^"), "{text}");
}

#[test]
fn a_file_that_is_not_there_is_told_by_its_name() {
    let e = load(&Kinds::none(), Path::new("/no/such/net.toml")).unwrap_err();
    assert!(format!("{e:#}").contains("/no/such/net.toml"), "{e:#}");
}
