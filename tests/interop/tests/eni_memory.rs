//! Linux's `eni` driver has a table of 1024 circuits in one page, which holds 512 pointers of eight octets: on a 64-bit machine it
//! reads and writes the page behind for VCIs from 512 on. Why `docs/virtual-adapters.md` says to leave these out.

use interop::eni::{Board, Network};
use interop::guest::{Guest, Kernel, Machine};

/// VCIs that the table holds, and VCIs that it does not.
const INSIDE: [u16; 4] = [32, 200, 400, 511];
const BEYOND: [u16; 4] = [512, 600, 800, 1023];

/// The kernel fills free pages with a pattern, which the driver takes for circuits that are in use already.
#[test]
fn linuxs_driver_reaches_beyond_its_table_of_circuits_from_vci_512_on() {
    if !Guest::available() {
        return;
    }
    let network = Network::new(&[Board::ASIC_2_MB], &[]);
    let open = |vcis: [u16; 4]| {
        let vcis = vcis.map(|vci| vci.to_string()).join(" ");
        format!("for vci in {vcis}; do aread 0.$vci & done\nopened {vcis}\ndmesg | grep 'already in use'\n")
    };
    let script = format!("{}say beyond\n{}say opened\n", open(INSIDE), open(BEYOND));
    let socket = network.socket(0);
    let mut guest =
        Guest::boot_words(Kernel::Linux6_1, "page_poison=1", Machine::Adapter(&socket), &script, &[]).unwrap();
    // What the driver does when these circuits close, nobody needs to see.
    guest.wait_for("guest: opened").unwrap();
    let console = guest.log();
    let (inside, beyond) = console.split_at(console.iter().position(|line| line == "guest: beyond").unwrap());
    let in_use = |lines: &[String]| lines.iter().filter(|line| line.contains("BUG - VCI")).count();
    assert_eq!(in_use(inside), 0, "{inside:#?}");
    assert!(in_use(beyond) > 0, "{beyond:#?}");
}
