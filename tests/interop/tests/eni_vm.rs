//! The walk-through of `docs/virtual-adapters.md`: two guests that `cellway vm` starts, on the adapters of `examples/two-guests.toml`,
//! ping each other by Classical IP over our switch.

use interop::guest::{Guest, PATIENCE};
use interop::peer::Peer;
use interop::up::Up;
use interop::{initramfs, program};
use std::os::unix::fs::PermissionsExt as _;

#[test]
fn two_guests_that_cellway_vm_runs_ping_each_other_as_the_documentation_has_it() {
    if !Guest::available() {
        return;
    }
    let up = Up::new(&std::fs::read_to_string(program::root().join("examples/two-guests.toml")).unwrap());
    let (kernel, base) = program::prepare("prepare-guest", &["6.1"]).unwrap();
    let words = program::prepared("prepare-qemu", &[]).unwrap().lines().collect::<Vec<_>>().join(" ");
    std::fs::write(up.path("qemu11"), format!("#!/bin/sh\nexec {words} \"$@\"\n")).unwrap();
    std::fs::set_permissions(up.path("qemu11"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let guests = [(1, 2), (2, 1)].map(|(own, other)| {
        let script = format!(
            "cat /proc/net/atm/devices\natmarpd -b\nuntil atmarp -c atm0; do sleep 0.2; done\nip addr add 10.9.0.{own}/24 dev atm0\n\
             ip link set atm0 up\natmarp -s 10.9.0.{other} 0.100\n\
             until ping -c 1 -W 5 10.9.0.{other}; do sleep 1; done\necho guest: pinged 10.9.0.{other}\nsleep 10000\n"
        );
        let name = format!("{own}.img");
        let mut octets = initramfs::archive(&[("test/script", script.as_bytes())]);
        octets.extend(std::fs::read(&base).unwrap());
        std::fs::write(up.path(&name), octets).unwrap();
        let command = format!("vm net.toml eni{} --qemu ./qemu11 --kernel {kernel} --initramfs {name}", own - 1);
        // What it prints is what it runs.
        let printed = up.run(&command);
        let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
        assert!(printed.contains(&format!("eni{}.sock", own - 1)) && printed.contains("vfio-user-pci"), "{printed}");
        (up.start_command(&format!("{command} --run")), other)
    });
    let mut guests: [(Peer, i32); 2] = guests;
    for (guest, other) in &mut guests {
        guest.wait_for(&format!("guest: pinged 10.9.0.{other}"), PATIENCE).unwrap();
    }
    let consoles = guests.each_mut().map(|(guest, _)| guest.log().join("\n"));
    for console in consoles {
        assert!(console.contains("1 packets transmitted, 1 packets received"), "{console}");
    }
}
