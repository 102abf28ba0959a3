//! `cellway run`: Debian's own tools, unmodified, between themselves and with Cellway's commands.

use interop::frames::free_port;
use interop::guest::aread_sdu;
use interop::peer::Peer;
use interop::up::Up;
use interop::{have, pattern};
use std::io::{Read as _, Write as _};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const WAIT: Duration = Duration::from_secs(30);

const NETWORK: &str = r#"
[host.alpha]
[host.beta]
[switch.s1]
[[link]]
ends = ["alpha", "s1:0"]
[[link]]
ends = ["beta", "s1:1"]
[[circuit]]
ends = ["alpha 0.5", "beta 0.5"]
[[circuit]]
ends = ["alpha 0.100", "beta 0.100"]
[[circuit]]
ends = ["alpha 0.101", "beta 0.101"]
[[circuit]]
ends = ["alpha 0.102", "beta 0.102"]
"#;

fn tools() -> bool {
    have(&[("aread", "atm-tools"), ("awrite", "atm-tools"), ("ttcp_atm", "atm-tools"), ("atmdiag", "atm-tools")])
}

/// `cellway run --host HOST -- COMMAND`.
fn on(up: &Up, host: &str, command: &str) -> Command {
    up.command(&format!("run --host {host} -- {command}"))
}

fn start(up: &Up, host: &str, command: &str) -> Peer {
    Peer::start(&mut on(up, host, command)).unwrap()
}

fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn aread_and_awrite_work_between_themselves_and_with_send_and_receive() {
    if !tools() {
        return;
    }
    let up = Up::new(NETWORK);
    // Its lines come one by one only where standard output is told so.
    let mut aread = start(&up, "beta", "stdbuf -oL aread 0.0.100");
    up.wait_for_endpoints(1, WAIT);
    for text in ["short", "longer-than-the-forty-octets-that-travel-inside-a-descriptor"] {
        succeeded(&on(&up, "alpha", &format!("awrite 0.0.100 {text}")).output().unwrap());
        // The socket knows the length; the tool prints 1000 octets at most.
        let line = aread.wait_for(&format!("{}:", text.len()), WAIT).unwrap();
        assert_eq!(aread_sdu(&line).unwrap(), text.as_bytes());
    }
    std::fs::write(up.path("note"), "of cellway send").unwrap();
    succeeded(&up.run("send alpha 0.100 note"));
    assert_eq!(aread_sdu(&aread.wait_for("15:", WAIT).unwrap()).unwrap(), b"of cellway send");
    drop(aread);

    let mut receive = up.start_command("receive beta 0.101 got --count 1");
    up.wait_for_endpoints(1, WAIT);
    succeeded(&on(&up, "alpha", "awrite 0.0.101 of-awrite").output().unwrap());
    assert!(receive.wait(WAIT).unwrap().0.success());
    assert_eq!(std::fs::read(up.path("got")).unwrap(), b"of-awrite");
}

#[test]
fn ttcp_atm_loses_nothing_and_a_file_arrives_octet_for_octet() {
    if !tools() {
        return;
    }
    let up = Up::new(NETWORK);
    let mut sink = start(&up, "beta", "ttcp_atm -r -s -a -l 8192 0.0.100");
    up.wait_for_endpoints(1, WAIT);
    let sent = on(&up, "alpha", "ttcp_atm -t -s -a -l 8192 -n 20480 0.0.100").output().unwrap();
    assert!(sent.status.success());
    let (status, said) = sink.wait(WAIT).unwrap();
    assert!(status.success());
    let octets = 8192 * 20_480;
    assert!(said.iter().any(|line| line.contains(&format!("{octets} bytes"))), "{said:?}");

    let file = pattern(1_000_000);
    std::fs::write(up.path("file"), &file).unwrap();
    std::fs::write(up.path("sink"), "exec ttcp_atm -r -a -l 9180 0.0.101 > copy").unwrap();
    let mut sink = start(&up, "beta", "sh sink");
    up.wait_for_endpoints(1, WAIT);
    let mut source = on(&up, "alpha", "ttcp_atm -t -a -l 9180 0.0.101");
    source.stdin(std::fs::File::open(up.path("file")).unwrap());
    assert!(source.output().unwrap().status.success());
    // It writes the end marks too, and does not end by itself.
    let copy = || std::fs::read(up.path("copy")).unwrap();
    let begin = Instant::now();
    while copy().len() < file.len() {
        assert!(begin.elapsed() < WAIT, "{} octets came", copy().len());
        std::thread::sleep(Duration::from_millis(20));
    }
    sink.kill();
    assert!(copy()[..file.len()] == file, "the file came changed");

    // Each side against Cellway's own.
    let mut sink = up.start_command("ttcp -r beta 0.102 -l 8192 -n 500");
    up.wait_for_endpoints(1, WAIT);
    assert!(on(&up, "alpha", "ttcp_atm -t -s -a -l 8192 -n 500 0.0.102").output().unwrap().status.success());
    let (_, said) = sink.wait(WAIT).unwrap();
    assert!(said.iter().any(|line| line.contains("0 of 500 lost")), "{said:?}");
}

#[test]
fn atmdiag_and_the_files_of_proc_tell_of_the_interfaces() {
    if !tools() {
        return;
    }
    let up = Up::new(NETWORK);
    let mut aread = start(&up, "beta", "stdbuf -oL aread 0.0.100");
    up.wait_for_endpoints(1, WAIT);
    succeeded(&on(&up, "alpha", "awrite 0.0.100 counted").output().unwrap());
    aread.wait_for("7:", WAIT).unwrap();
    let row = |text: &str, begin: &str| -> Vec<String> {
        let line = text.lines().find(|line| line.trim_start().starts_with(begin));
        line.unwrap_or_else(|| panic!("no {begin} in {text}")).split_whitespace().map(str::to_owned).collect()
    };
    // Without --host, interfaces are all hosts in the order of their names.
    let diag = succeeded(&up.run("run -- atmdiag 0"));
    assert_eq!(row(&diag, "AAL5"), ["AAL5", "1", "0", "0", "0", "0"]);
    let diag = succeeded(&up.run("run -- atmdiag 1"));
    assert_eq!(row(&diag, "AAL5"), ["AAL5", "0", "0", "1", "0", "0"]);
    let files = succeeded(&up.run("run -- cat /proc/net/atm/devices /proc/net/atm/pvc"));
    assert!(row(&files, "0 cellway").join(" ").ends_with("5 ( 1 0 0 0 0 ) [1]"), "{files}");
    assert!(row(&files, "1 cellway").join(" ").ends_with("5 ( 0 0 1 0 0 ) [2]"), "{files}");
    assert_eq!(row(&files, "1   0   100")[..4], ["1", "0", "100", "5"]);
    assert!(!up.run("run -- cat /proc/net/atm/no-such-file").status.success());
    // The folder by its paths: as tools and shells list it, look at it and go through it.
    let listed = succeeded(&up.run("run -- ls -l /proc/net/atm"));
    for name in ["cellway:0", "cellway:1", "devices", "pvc", "svc", "vc"] {
        assert!(listed.lines().any(|line| line.starts_with("-r--r--r--") && line.ends_with(name)), "{name}: {listed}");
    }
    assert!(succeeded(&up.run("run -- stat -c %F,%a /proc/net/atm")).starts_with("directory,555"));
    let all = up
        .command("run -- bash -c")
        .arg("test -d /proc/net/atm -a -r /proc/net/atm/pvc && cat /proc/net/atm/*")
        .output();
    let all = succeeded(&all.unwrap());
    assert_eq!(all.matches("cells/s").count(), 2, "{all}");
    assert!(row(&all, "1   0   100")[..4] == ["1", "0", "100", "5"] && all.contains("Remote"), "{all}");
    assert!(!up.run("run -- ls /proc/net/atm/arp").status.success());
    assert!(!succeeded(&up.run("run -- ls /proc/net")).contains("cellway"));
}

#[test]
fn what_cannot_be_served_is_refused_with_a_sentence() {
    if !tools() {
        return;
    }
    let up = Up::new(NETWORK);
    let refused = |line: &str, what: &str| {
        let output = up.run(line);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(what), "{line}: {said}");
    };
    refused("run --host alpha -- awrite 0.0.999 x", "no circuit 0.999 ends at this host");
    refused("run --host alpha -- awrite 1.0.100 x", "No such device");
    refused("run --host gamma -- awrite 0.0.100 x", "no host `gamma`");
    refused("run -- no-such-program", "no program `no-such-program`");
    let mut aread = start(&up, "beta", "aread 0.0.100");
    up.wait_for_endpoints(1, WAIT);
    refused("run --host beta -- aread 0.0.100", "in use");
    aread.kill();
    let calls = "signalled circuits (AF_ATMSVC) are not served: use permanent ones";
    refused("run -- svc_recv", calls);
    refused("run -- svc_send 47.0005.80FFE1000000F21A26D8.0020EA000EE0.00", calls);
    // The doors of the kernel's own protocols and daemons.
    refused("run -- atmsigd", "no host of this program leaves its signalling to one");
    refused("run -- atmtcp virtual listen 0", "use `cellway link add atmtcp://HOST:PORT`");
    refused("run -- atmarpd -b", "the kernel's Classical IP is not served: use `cellway ip tun`");
    if let Some(busybox) = interop::find("busybox") {
        refused(&format!("run -- {} true", busybox.display()), "linked statically");
    }
}

/// The contract of a permanent circuit is its description's: what a program asks for beyond it is said, and the program
/// goes on.
#[test]
fn a_contract_beyond_the_circuit_s_is_said_on_standard_error() {
    if !tools() {
        return;
    }
    let up = Up::new(&format!(
        "{NETWORK}[[circuit]]\nends = [\"alpha 0.170\", \"beta 0.170\"]\ncategory = \"cbr\"\npcr = \"200 cell/s\"\n"
    ));
    let sent = |vci: u16, asks: &str| {
        let mut sink = start(&up, "beta", &format!("ttcp_atm -r -a -s 0.0.{vci}"));
        up.wait_for_endpoints(1, WAIT);
        let output = on(&up, "alpha", &format!("ttcp_atm -t -a -s -n 5 -l 100{asks} 0.0.{vci}")).output().unwrap();
        sink.kill();
        up.wait_for_endpoints(0, WAIT);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "0.0.{vci}{asks}: {said}");
        said
    };
    let said = sent(100, " -P cbr:max_pcr=64kbps");
    assert!(said.contains("cbr at") && said.contains("the circuit is best effort (ubr)"), "{said}");
    assert!(!sent(100, "").contains("SO_ATMQOS"), "best effort asks for nothing");
    assert!(!sent(170, " -P cbr:max_pcr=64kbps").contains("SO_ATMQOS"), "the circuit keeps it");
    assert!(sent(170, " -P cbr:max_pcr=1Mbps").contains("the circuit has cbr at 200 cell/s"));
}

/// Standard input of a command.
fn with_input(mut command: Command, input: &[u8]) -> Output {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn cells_signalling_channels_switches_and_addresses() {
    if !tools() {
        return;
    }
    let up = Up::new(NETWORK);
    // AAL0: a cell with its priority set, as the tool makes and shows it.
    let mut dump = start(&up, "beta", "atmdump 0.0.100");
    up.wait_for_endpoints(1, WAIT);
    let cell = with_input(on(&up, "alpha", "atmdump -t 1 -c 0.0.100"), &pattern(48));
    assert!(cell.status.success(), "{}", String::from_utf8_lossy(&cell.stderr));
    let line = dump.wait_for("VCI=100", WAIT).unwrap();
    assert!(line.contains("VPI=0 VCI=100, GFC=0x0, CLP=1, Data SDU 1 (PTI 1)"), "{line}");
    drop(dump);

    // The signalling channel, below the VCIs of users.
    let mut saal = start(&up, "beta", "stdbuf -oL saaldump 0.0.5");
    up.wait_for_endpoints(1, WAIT);
    succeeded(&on(&up, "alpha", "awrite 0.0.5 hello123").output().unwrap());
    saal.wait_for("ERAK", WAIT).unwrap();
    drop(saal);

    // Two circuits with a select between them, in a process that has forked once to get into the background.
    let mut relay = start(&up, "beta", "atmswitch 0.0.101 0.0.102");
    let mut far = start(&up, "alpha", "stdbuf -oL aread 0.0.102");
    up.wait_for_endpoints(3, WAIT);
    succeeded(&on(&up, "alpha", "awrite 0.0.101 switched").output().unwrap());
    assert_eq!(aread_sdu(&far.wait_for("8:", WAIT).unwrap()).unwrap(), b"switched");
    relay.kill();
    drop(far);

    assert_eq!(succeeded(&up.run("run -- esi")).trim(), "000000000000");
    assert_eq!(succeeded(&up.run("run -- atmaddr -n")), "");
    for (refused, why) in [
        ("esi 0020EA000001", "not supported"),
        ("atmaddr -a 47.0005.80FFE1000000F21A26D8.0020EA000EE0.00", "not supported"),
        // Each with its cure.
        ("atmloop -q", "use `cellway ping HOST CIRCUIT`"),
        ("atmloop -q", "Inappropriate ioctl"),
        ("sonetdiag", "`faults` of a link makes deliberate errors"),
        ("sonetdiag", "Inappropriate ioctl"),
        ("enitune 0", "Inappropriate ioctl"),
    ] {
        let output = up.run(&format!("run -- {refused}"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(why), "{refused}: {said}");
    }
}

/// ATM over TCP's `real` links open circuits when the other end says so.
#[test]
fn stock_atmtcp_serves_a_real_interface_of_ours() {
    if !tools() {
        return;
    }
    let up = Up::new(NETWORK);
    let port = free_port();
    let mut atmtcp = start(&up, "beta", &format!("atmtcp real 0 listen {port}"));
    atmtcp.wait_for("real interface 0", WAIT).unwrap();
    let begin = Instant::now();
    let mut wire = loop {
        assert!(begin.elapsed() < WAIT, "nobody listens on {port}");
        match std::net::TcpStream::connect(("127.0.0.1", port)) {
            Ok(wire) => break wire,
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let frame = |vci: u8, octets: &[u8]| [&[0, 0, 0, vci, 0, 0, 0, octets.len() as u8], octets].concat();
    wire.write_all(&frame(0, b"O 0.100 0.0.100 ubr,aal5:max_sdu=9180")).unwrap();
    up.wait_for_endpoints(1, WAIT);
    let mut aread = start(&up, "alpha", "stdbuf -oL aread 0.0.100");
    up.wait_for_endpoints(2, WAIT);
    wire.write_all(&frame(100, b"over the wire")).unwrap();
    assert_eq!(aread_sdu(&aread.wait_for("13:", WAIT).unwrap()).unwrap(), b"over the wire");
    drop(aread);
    up.wait_for_endpoints(1, WAIT);
    succeeded(&on(&up, "alpha", "awrite 0.0.100 and-back").output().unwrap());
    let mut got = [0; 16];
    wire.set_read_timeout(Some(WAIT)).unwrap();
    wire.read_exact(&mut got).unwrap();
    assert_eq!(got[..], frame(100, b"and-back"));
    wire.write_all(&frame(0, b"C 0.100")).unwrap();
    up.wait_for_endpoints(0, WAIT);
}

#[test]
fn when_the_service_dies_programs_are_told_that_the_network_is_down() {
    if !tools() {
        return;
    }
    let mut up = Up::new(NETWORK);
    let mut sink = start(&up, "beta", "ttcp_atm -r -s -a 0.0.100");
    let mut reader = start(&up, "alpha", "aread 0.0.100");
    up.wait_for_endpoints(2, WAIT);
    up.kill();
    let (status, said) = sink.wait(WAIT).unwrap();
    assert!(!status.success() && said.iter().any(|line| line.contains("Network is down")), "{said:?}");
    // It reads on whatever it is told, until it is hung up.
    let (status, said) = reader.wait(WAIT).unwrap();
    assert!(!status.success() && said.len() < 100, "{} lines", said.len());
}

#[test]
fn other_calls_cost_the_same_with_the_library_and_without() {
    let up = Up::new(NETWORK);
    let output = up.run("bench preload --runs 3 --millis 20 --json");
    let result: serde_json::Value = serde_json::from_str(&succeeded(&output)).unwrap();
    let cases = result["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 7);
    for case in cases {
        let ratio = case["ratio"].as_f64().unwrap();
        assert!(case["limit_ns"].as_f64().unwrap() > 0.0 && case["preloaded_ns"].as_f64().unwrap() > 0.0);
        // A system call more would show; a busy machine shows as well, so that less is not asked for here. What threads
        // and processes take together says nothing on such a machine.
        let own_clock = !["rounds", "process"].contains(&case["case"].as_str().unwrap());
        assert!(!own_clock || ratio < 1.5, "{case}");
    }
}
