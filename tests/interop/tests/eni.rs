//! Linux's own `eni` driver drives our ENI155P, in guests under QEMU, by way of vfio-user.

use interop::guest::{Guest, Machine, Report, aread_sdu};
use interop::pattern;
use interop::up::Up;

const SIZES: [usize; 3] = [1500, 9188, 65535];

/// Two guests, each with an adapter, and a switch between them.
fn two_guests(first: &str, second: &str, vcis: std::ops::Range<u16>) -> Up {
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
    Up::new(&text)
}

/// Runs a script in each guest: the second boots when the first says that it is ready.
fn run(up: &Up, scripts: [&str; 2], files: &[(&str, &[u8])]) -> [Report; 2] {
    let boot =
        |n: usize| Guest::boot_on(Machine::Adapter(&up.path(&format!("eni{n}.sock"))), scripts[n], files).unwrap();
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
    let up = two_guests("board = \"asic\"\nram = \"512 kB\"", "board = \"fpga\"\nram = \"2 MB\"", 100..120);
    let short = ["x".to_owned(), "y".repeat(40), "z".repeat(48)];
    // As many PDUs as a ring of the driver's holds, so that nothing is lost however late a guest looks.
    let files: Vec<(String, Vec<u8>)> =
        SIZES.iter().map(|size| (size.to_string(), pattern(if *size > 20_000 { *size } else { 3 * size }))).collect();
    let files: Vec<(&str, &[u8])> = files.iter().map(|(name, octets)| (name.as_str(), &octets[..])).collect();
    let receive = |vci: u16| {
        let mut script = format!("aread 0.{vci} &\n");
        for (n, size) in SIZES.iter().enumerate() {
            let vci = usize::from(vci) + 1 + n;
            script += &format!("ttcp_atm -r -a -l {size} 0.{vci} > /tmp/{size} 2> /dev/null &\n");
        }
        script + "sleep 1\n"
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
    let first = format!("{}say ready\n{compare}{}sleep 5\n{devices}", receive(100), send(110));
    let second = format!("{}{}{compare}{devices}", receive(110), send(100));
    let reports = run(&up, [&first, &second], &files);
    for (n, report) in reports.iter().enumerate() {
        let console = report.console.join("\n");
        for size in SIZES {
            assert!(report.console.contains(&format!("guest: same {size}")), "PDUs of {size} octets:\n{console}");
        }
        let read: Vec<Vec<u8>> = report.console.iter().filter_map(|line| aread_sdu(line)).collect();
        assert!(read.iter().eq(short.iter().map(|text| text.as_bytes())), "aread:\n{console}");
        assert!(console.contains(&format!("0220ea00000{n}")), "the ESI:\n{console}");
        let [_, tx_errors, _, rx_errors, dropped] = report.aal5_counters(0).unwrap();
        assert_eq!([tx_errors, rx_errors, dropped], [0, 0, 0], "{console}");
    }
}
