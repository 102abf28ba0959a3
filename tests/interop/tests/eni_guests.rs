//! Linux 6.1's own `eni` driver on our ENI155P, in guests under QEMU: every board, and what a guest's protocols make of it.

use interop::guest::{Guest, Kernel, Machine};
use interop::up::Up;
use std::path::PathBuf;

const BOARDS: [(&str, u32); 4] = [("asic", 512), ("asic", 2048), ("fpga", 512), ("fpga", 2048)];

#[test]
fn the_driver_of_linux_6_1_attaches_to_both_boards_with_both_sizes_of_ram_and_lists_our_esi() {
    if !Guest::available() {
        return;
    }
    let mut description = String::from("[switch.s1]\n");
    for (n, (board, kilobytes)) in BOARDS.into_iter().enumerate() {
        let ram = if kilobytes == 512 { "512 kB" } else { "2 MB" };
        description += &format!(
            r#"
[adapter.eni{n}]
host = "guest{n}"
socket = "eni{n}.sock"
esi = "02:20:ea:61:00:0{n}"
board = "{board}"
ram = "{ram}"
[[link]]
ends = ["guest{n}", "s1:{n}"]
"#
        );
    }
    let up = Up::new(&description);
    let sockets: Vec<PathBuf> = (0..BOARDS.len()).map(|n| up.path(&format!("eni{n}.sock"))).collect();
    let script = "uname -r\ndmesg | grep -E 'eni.itf|mem=[0-9]*kB' | sed 's/^.*] //'\ncat /proc/net/atm/devices\n";
    let guest = Guest::boot_kernel(Kernel::Linux6_1, Machine::Adapters(&sockets), script, &[]).unwrap();
    let console = guest.finish().unwrap().console;
    let all = console.join("\n");
    assert!(console.iter().any(|line| line.starts_with("6.1.")), "{all}");
    for (n, (board, kilobytes)) in BOARDS.into_iter().enumerate() {
        // A line of the driver's on its revision, its base and its interrupt; one on its RAM; and one on the board.
        let head = format!("eni(itf {n}): rev.");
        let said: Vec<&str> =
            console.iter().map(|line| line.trim()).skip_while(|line| !line.starts_with(&head)).collect();
        assert!(
            said.len() > 2 && said[1].starts_with(&format!("mem={kilobytes}kB")),
            "{board}, {kilobytes} kB:\n{all}"
        );
        assert_eq!(said[2], format!("eni(itf {n}): {},UTP", board.to_uppercase()), "{kilobytes} kB:\n{all}");
        let listed = format!("{n} eni     0220ea61000{n} ");
        assert_eq!(console.iter().filter(|line| line.trim_start().starts_with(&listed)).count(), 1, "{all}");
    }
}
