//! Linux's own `eni` driver drives our ENI155P, in guests under QEMU, by way of vfio-user.

use interop::guest::{Guest, Machine, PATIENCE, Report, aread_sdu};
use interop::pattern;
use interop::up::Up;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const SIZES: [usize; 3] = [1500, 9188, 65535];

/// Two guests, each with an adapter, and a switch between them; `more` is added to the description.
fn two_guests(first: &str, second: &str, vcis: std::ops::Range<u16>, more: &str) -> Up {
    let mut text = String::from("[switch.s1]\n");
    for (n, settings) in [first, second].into_iter().enumerate() {
        text += &format!(
            r#"
[adapter.eni{n}]
host = "guest{n}"
socket = "eni{n}.sock"
esi = "02:20:ea:00:00:0{n}"
{settings}
[[link]]
ends = ["guest{n}", "s1:{n}"]
"#
        );
    }
    for vci in vcis {
        text += &format!("[[circuit]]\nends = [\"guest0 0.{vci}\", \"guest1 0.{vci}\"]\n");
    }
    Up::new(&(text + more))
}

fn sockets(up: &Up) -> [PathBuf; 2] {
    [up.path("eni0.sock"), up.path("eni1.sock")]
}

/// Runs a script in each guest: the second boots when the first says that it is ready.
fn run(sockets: [PathBuf; 2], scripts: [&str; 2], files: &[(&str, &[u8])]) -> [Report; 2] {
    let boot = |n: usize| Guest::boot_on(Machine::Adapter(&sockets[n]), scripts[n], files).unwrap();
    let mut first = boot(0);
    first.wait_for("guest: ready").unwrap();
    let second = boot(1).finish().unwrap();
    [first.finish().unwrap(), second]
}

/// Sizes on either side of a cell's end, an Ethernet frame's, IP over ATM's, and the largest there is; each way, from a
/// board to the other kind.
#[test]
fn two_guests_exchange_aal5_pdus_of_every_size_octet_for_octet() {
    if !Guest::available() {
        return;
    }
    let up = two_guests("board = \"asic\"\nram = \"512 kB\"", "board = \"fpga\"\nram = \"2 MB\"", 100..120, "");
    let short = ["x".to_owned(), "y".repeat(40), "z".repeat(48)];
    // As many PDUs as a ring of the driver's holds, so that nothing is lost however late a guest looks.
    let files: Vec<(String, Vec<u8>)> =
        SIZES.iter().map(|size| (size.to_string(), pattern(if *size > 20_000 { *size } else { 3 * size }))).collect();
    let files: Vec<(&str, &[u8])> = files.iter().map(|(name, octets)| (name.as_str(), &octets[..])).collect();
    let receive = |vci: u16| {
        let mut script = format!("aread 0.{vci} &\n");
        let vcis: Vec<String> = (vci..=vci + 3).map(|vci| vci.to_string()).collect();
        for (n, size) in SIZES.iter().enumerate() {
            let vci = usize::from(vci) + 1 + n;
            script += &format!("ttcp_atm -r -a -l {size} 0.{vci} > /tmp/{size} 2> /dev/null &\n");
        }
        script + &format!("opened {}\n", vcis.join(" "))
    };
    let send = |vci: u16| {
        let mut script: String = short.iter().map(|text| format!("awrite 0.{vci} {text}\nsleep 0.2\n")).collect();
        for (n, size) in SIZES.iter().enumerate() {
            let vci = usize::from(vci) + 1 + n;
            script +=
                &format!("ttcp_atm -t -a -l {size} 0.{vci} < /test/{size} 2> /tmp/log || cat /tmp/log\nsleep 0.5\n");
        }
        script
    };
    // ttcp writes its marks of the end as well, and does not end.
    let compare = r#"
        for size in 1500 9188 65535; do
            octets=$(stat -c %s /test/$size)
            while [ "$(stat -c %s /tmp/$size)" -lt $octets ]; do sleep 0.2; done
            head -c $octets /tmp/$size | cmp /test/$size - && say same $size
        done
        "#;
    let devices = "cat /proc/net/atm/devices\n";
    // The first stays until the second has it all.
    let first = format!(
        "ttcp_atm -r -a -l 100 0.105 > /tmp/end 2> /dev/null &\nopened 105\n{}say ready\n{compare}{}\
         while [ ! -s /tmp/end ]; do sleep 0.2; done\n{devices}",
        receive(100),
        send(110)
    );
    let second = format!("{}{}{compare}{devices}awrite 0.105 'that was all'\nsleep 1\n", receive(110), send(100));
    let reports = run(sockets(&up), [&first, &second], &files);
    for (n, report) in reports.iter().enumerate() {
        let console = report.console.join("\n");
        for size in SIZES {
            assert!(report.console.contains(&format!("guest: same {size}")), "PDUs of {size} octets:\n{console}");
        }
        let read: Vec<Vec<u8>> = report.console.iter().filter_map(|line| aread_sdu(line)).collect();
        assert!(read.iter().eq(short.iter().map(|text| text.as_bytes())), "aread:\n{console}");
        assert!(console.contains(&format!("0220ea00000{n}")), "the ESI:\n{console}");
        let [_, tx_errors, _, rx_errors, dropped] = report.aal5_counters(0).unwrap();
        assert_eq!([tx_errors, dropped], [0, 0], "{console}");
        // The kernel counts OAM cells so: a guest that ends takes its link down, and AIS goes to the other one.
        assert!(rx_errors < 200, "{console}");
    }
}

/// The other two boards. IP between the guests, and AAL5 between a guest and this machine.
#[test]
fn classical_ip_runs_between_two_guests_and_pdus_to_programs_of_this_machine() {
    if !Guest::available() {
        return;
    }
    let alpha = r#"
[host.alpha]
[[link]]
ends = ["alpha", "s1:2"]
[[circuit]]
ends = ["guest0 0.140", "alpha 0.140"]
[[circuit]]
ends = ["guest0 0.141", "alpha 0.141"]
"#;
    let up = two_guests("board = \"asic\"\nram = \"2 MB\"", "board = \"fpga\"\nram = \"512 kB\"", 130..131, alpha);
    let ip = |own: u8, other: u8| {
        format!(
            r#"
            # A window of two PDUs: the adapter's ring holds three, and a guest without hardware virtualisation is slow.
            echo 4096 49152 49152 > /proc/sys/net/ipv4/tcp_rmem
            atmarpd -b -l /tmp/atmarpd.log
            again atmarp -c atm0
            ip addr add 10.9.0.{own}/24 dev atm0
            ip link set atm0 up
            atmarp -s 10.9.0.{other} 0.130
            opened 130
            "#
        )
    };
    let first = format!(
        r#"{}
        ttcp_atm -r -a -l 1000 0.141 > /tmp/note 2> /dev/null &
        opened 141
        # nc ends when its input does: this one does not.
        mkfifo /tmp/never
        sleep 1000 > /tmp/never &
        nc -l -p 5001 < /tmp/never > /tmp/file &
        nc=$!
        say ready
        wait $nc
        say got $(stat -c %s /tmp/file) $(sha256sum < /tmp/file)
        awrite 0.140 "a PDU of the guest"
        while [ ! -s /tmp/note ]; do sleep 0.2; done
        say note $(cat /tmp/note)
        "#,
        ip(1, 2)
    );
    let second = format!(
        r#"{}
        sleep 1
        /test/pings 3 10.9.0.1 56
        /test/pings 2 10.9.0.1 9000
        head -c 10000000 /dev/urandom > /tmp/file
        nc 10.9.0.1 5001 < /tmp/file
        say got $(stat -c %s /tmp/file) $(sha256sum < /tmp/file)
        "#,
        ip(2, 1)
    );
    std::fs::write(up.path("note"), b"a PDU of the program").unwrap();
    let mut receiver = up.start_command("receive alpha 0.140 line --count 1");
    let sender = std::thread::scope(|scope| {
        let sockets = sockets(&up);
        let reports = scope.spawn(|| run(sockets, [&first, &second], &[]));
        let (status, said) = receiver.wait(2 * PATIENCE).unwrap();
        assert!(status.success(), "{said:?}");
        assert!(up.run("send alpha 0.141 note").status.success());
        reports.join()
    });
    let reports = sender.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    assert_eq!(std::fs::read(up.path("line")).unwrap(), b"a PDU of the guest");
    let consoles = reports.each_ref().map(|report| report.console.join("\n"));
    for line in ["3 of 3 answered", "2 of 2 answered"] {
        assert!(consoles[1].contains(line), "no {line:?}:\n{}", consoles[1]);
    }
    let hashes =
        reports.each_ref().map(|report| report.console.iter().find(|line| line.starts_with("guest: got 10000000 ")));
    assert!(hashes[0].is_some() && hashes[0] == hashes[1], "{}\n{}", consoles[0], consoles[1]);
    assert!(consoles[0].contains("guest: note a PDU of the program"), "{}", consoles[0]);
}

/// Cells that have left a guest's adapter for its link.
fn cells_sent(up: &Up) -> u64 {
    let status: serde_json::Value = serde_json::from_slice(&up.run("status --json").stdout).unwrap();
    let links = status["links"].as_array().unwrap();
    let link = links.iter().find(|link| link.to_string().contains("guest0")).unwrap();
    link["from_a"]["sent"]["cells"].as_u64().unwrap_or_else(|| panic!("{link}"))
}

/// A constant bit rate is the adapter's business: its prescaler and rate, as the driver sets them.
#[test]
fn a_guests_cbr_circuit_leaves_at_its_rate_and_after_a_kill_another_guest_finds_a_fresh_adapter() {
    if !Guest::available() {
        return;
    }
    let up = two_guests("board = \"asic\"", "board = \"fpga\"", 100..102, "");
    let file = pattern(2_000_000);
    // 1000 cells per second: 2 MB take 40 s.
    let script = "say ready\nttcp_atm -t -a -P 1000 -l 9180 0.100 < /test/file";
    let [socket, _] = sockets(&up);
    let mut guest = Guest::boot_on(Machine::Adapter(&socket), script, &[("file", &file)]).unwrap();
    guest.wait_for("guest: ready").unwrap();
    let deadline = Instant::now() + PATIENCE;
    while cells_sent(&up) == 0 {
        assert!(Instant::now() < deadline, "no cell has left the guest");
        std::thread::sleep(Duration::from_millis(20));
    }
    let (begin, from) = (Instant::now(), cells_sent(&up));
    std::thread::sleep(Duration::from_secs(5));
    let rate = (cells_sent(&up) - from) as f64 / begin.elapsed().as_secs_f64();
    // The driver rounds down to what its clock can divide: 939 cells/s. A machine that has no time for us sends later; that
    // the rate is reached is for `eni_guests` to show.
    assert!(rate > 0.0 && rate <= 960.0, "{rate} cells/s");
    // In the middle of a PDU, and of whatever else.
    drop(guest);
    let script = "cat /proc/net/atm/devices\nawrite 0.101 again\n\
        until grep -q '5 ( 1 ' /proc/net/atm/devices; do sleep 0.2; done\ncat /proc/net/atm/devices";
    let before = cells_sent(&up);
    let report = Guest::boot_on(Machine::Adapter(&socket), script, &[]).unwrap().finish().unwrap();
    assert_eq!(report.aal5_counters(0).unwrap(), [1, 0, 0, 0, 0]);
    assert!(cells_sent(&up) > before, "{}", report.console.join("\n"));
}
