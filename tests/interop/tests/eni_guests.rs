//! Linux 6.1's own `eni` driver on our ENI155P, in guests under QEMU: both boards with both sizes of RAM; every size of PDU by
//! AAL5 and AAL0; 200 circuits; the rate of a CBR circuit, cell by cell.

use interop::eni::{Board, Network, exchange};
use interop::guest::{Guest, Kernel, Machine, PATIENCE};
use interop::{have, tshark};
use std::path::PathBuf;

/// An octet, a cell with and without room for the trailer, and the usual largest ones: of Ethernet, of IP over ATM, of all.
const SIZES: [u32; 6] = [1, 40, 48, 1500, 9188, 65535];

#[test]
fn the_driver_of_linux_6_1_attaches_to_both_boards_with_both_sizes_of_ram_and_lists_our_esi() {
    if !Guest::available() {
        return;
    }
    let network = Network::new(&Board::ALL, &[]);
    let sockets: Vec<PathBuf> = (0..Board::ALL.len()).map(|n| network.socket(n)).collect();
    let script = "uname -r\ndmesg | grep -E 'eni.itf|mem=[0-9]*kB' | sed 's/^.*] //'\ncat /proc/net/atm/devices\n";
    let guest = Guest::boot_kernel(Kernel::Linux6_1, Machine::Adapters(&sockets), script, &[]).unwrap();
    let console = guest.finish().unwrap().console;
    let all = console.join("\n");
    assert!(console.iter().any(|line| line.starts_with("6.1.")), "{all}");
    for (n, Board { kind, kilobytes }) in Board::ALL.into_iter().enumerate() {
        // A line of the driver's on its revision, its base and its interrupt; one on its RAM; and one on the board.
        let head = format!("eni(itf {n}): rev.");
        let said: Vec<&str> =
            console.iter().map(|line| line.trim()).skip_while(|line| !line.starts_with(&head)).collect();
        assert!(said.len() > 2 && said[1].starts_with(&format!("mem={kilobytes}kB")), "{kind}, {kilobytes} kB:\n{all}");
        assert_eq!(said[2], format!("eni(itf {n}): {},UTP", kind.to_uppercase()), "{kilobytes} kB:\n{all}");
        let listed = format!("{n} eni     {} ", network.esi(n));
        assert_eq!(console.iter().filter(|line| line.trim_start().starts_with(&listed)).count(), 1, "{all}");
    }
}

/// Each way, from a board to the other kind; what differs, or does not come, ends the guest's script.
#[test]
fn two_guests_exchange_pdus_of_every_size_by_aal5_and_aal0_octet_for_octet_and_on_200_circuits_at_once() {
    if !Guest::available() || !have(&[("cc", "gcc")]) {
        return;
    }
    let network = Network::new(&[Board::ASIC_512_KB, Board::FPGA_2_MB], &[100..102, 200..400]);
    let script = |side: &str| {
        let mut script = String::from("set -e\n");
        let mut step = 0;
        for (aal, vci, repeats) in [(5, 100, 5), (0, 101, 1)] {
            for octets in SIZES {
                step += 1;
                script += &format!("/test/exchange {side} {step} {aal} {octets} {repeats} {vci}\n");
            }
        }
        step += 1;
        // A guest that has ended gives the other an alarm on each circuit, which its driver counts as an error: neither ends before
        // the other has counted.
        script + &format!("/test/exchange {side} {step} 5 300 3 200 200\ncat /proc/net/atm/devices\nsleep 5\n")
    };
    let reports = network.run_two([&script("first"), &script("second")], &[("exchange", &exchange().unwrap())]);
    // AAL0 takes as many cells as the octets need.
    let cells: u64 = SIZES.iter().map(|octets| u64::from(octets.div_ceil(48))).sum();
    for report in reports {
        let console = report.console.join("\n");
        let mut said: Vec<String> =
            SIZES.map(|octets| format!("{octets} octets by AAL5 5 times on 1 circuits")).to_vec();
        said.extend(SIZES.map(|octets| format!("{octets} octets by AAL0 1 times on 1 circuits")));
        said.push("300 octets by AAL5 3 times on 200 circuits".to_owned());
        for line in said {
            assert!(report.console.contains(&format!("guest: exchanged {line}")), "no {line:?}:\n{console}");
        }
        let [_, tx_errors, _, rx_errors, dropped] = report.aal5_counters(0).unwrap();
        assert_eq!([tx_errors, rx_errors, dropped], [0, 0, 0], "{console}");
        let aal0 = format!(" 0 ( {cells} 0 {cells} 0 0 ) ");
        assert!(console.contains(&aal0), "no {aal0:?}:\n{console}");
    }
}

/// A constant bit rate is the adapter's business: its prescaler and rate as the driver sets them. Each cell is seen at the port.
#[test]
fn a_guests_cbr_circuits_leave_the_adapter_at_the_rate_of_its_prescaler_cell_by_cell() {
    if !Guest::available() || !have(tshark::TOOLS) {
        return;
    }
    // Cells per second asked for; prescaler and divisor of the 25 MHz clock that come nearest from below. The rates of
    // an adapter are 25 MHz / (4, 16, 128, 2048) / (1 to 64).
    let rates = [(1000, 2048, 13), (5000, 128, 40), (10_000, 128, 20)];
    const SECONDS: u32 = 5;
    const CELLS_OF_PDU: u32 = 192;
    // The adapter's thread may be so late without a cost in rate (2 ms, seven cells of other channels, and a margin), and the
    // engine's thread, which sees the cells, may be held up by the machine's other programs: then some come in a burst.
    const TOLERANCE_NS: f64 = 2.1e6 + 50e6;

    let network = Network::new(&[Board::ASIC_512_KB], &[]);
    let mut script = String::from("set -e\n");
    for (n, (asked, ..)) in rates.into_iter().enumerate() {
        let pdus = asked * SECONDS / CELLS_OF_PDU;
        script += &format!("ttcp_atm -t -s -a -P {asked} -l 9180 -n {pdus} 0.{} 2>&1\n", 100 + n);
    }
    let link = network.up.run("link list");
    let link = String::from_utf8_lossy(&link.stdout);
    let link = link.lines().find_map(|line| line.split_once(" ->")).expect("a link").0.to_owned();
    let mut capture = network.up.command("capture");
    capture.arg(&link).args(["cells.pcapng", "--what", "cells"]);
    let mut capture = interop::peer::Peer::start(&mut capture).unwrap();
    capture.wait_for("capturing", PATIENCE).unwrap();
    let socket = network.socket(0);
    let guest = Guest::boot_kernel(Kernel::Linux6_1, Machine::Adapter(&socket), &script, &[]).unwrap();
    let console = guest.finish().unwrap().console.join("\n");
    let pid = rustix::process::Pid::from_raw(capture.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    capture.wait(PATIENCE).unwrap();

    let cells = tshark::fields(&network.up.path("cells.pcapng"), &["frame.time_epoch", "atm.vci"]).unwrap();
    for (n, (asked, prescaler, divisor)) in rates.into_iter().enumerate() {
        let vci = (100 + n).to_string();
        let interval = f64::from(prescaler * divisor) * 40.0;
        let at: Vec<f64> = cells.iter().filter(|cell| cell[1] == vci).map(|cell| nanoseconds(&cell[0])).collect();
        assert!(at.len() > (asked * SECONDS) as usize * 9 / 10, "{} cells at {asked}/s:\n{console}", at.len());
        // GCRA (I.371): no cell comes before its time by more than the tolerance.
        let (mut due, mut earliest) = (at[0], 0.0_f64);
        for at in &at {
            earliest = earliest.max(due - at);
            due = due.max(*at) + interval;
        }
        assert!(earliest <= TOLERANCE_NS, "{asked}/s: a cell came {earliest} ns before its time");
        // That the rate is reached: a machine that has no time for us sends later, but what was due within the tolerance makes
        // up for it, so that some window of 0.1 s is as it must be. None can be shorter by more than the tolerance; the median
        // is as long as the machine's other programs make it (seen: 1.13 at a load of 7).
        let window = asked as usize / 10;
        let windows = at.windows(window + 1).step_by(window / 4);
        let mut ratios: Vec<f64> = windows.map(|at| (at[window] - at[0]) / window as f64 / interval).collect();
        ratios.sort_by(f64::total_cmp);
        let median = ratios[ratios.len() / 2];
        assert!(
            (0.98..1.5).contains(&median),
            "{asked}/s: {median} times the interval in the median of tenths of a second"
        );
        let best = ratios.into_iter().min_by(|a, b| (a - 1.0).abs().total_cmp(&(b - 1.0).abs())).unwrap();
        println!("{asked}/s asked: interval {interval} ns, at best {best:.4} times that for a tenth of a second");
        assert!((0.98..1.03).contains(&best), "{asked}/s: {best} times the interval");
    }
}

/// Nanoseconds of a day, of `1795260563.749659360`: a double has not the digits for all of it.
fn nanoseconds(epoch: &str) -> f64 {
    let (seconds, fraction) = epoch.split_once('.').unwrap();
    let seconds: u64 = seconds.parse().unwrap();
    let nanoseconds: u64 = format!("{fraction:0<9}").parse().unwrap();
    (seconds % 86_400 * 1_000_000_000 + nanoseconds) as f64
}
