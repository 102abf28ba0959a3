//! A host that receives, whole: what its application reads is what was sent, whatever the driver has guessed.

use bus::crossings::Crosser;
use bus::sockets::Whose;
use lab::receiver::{Kind, Receiver, SetupError};
use proptest::prelude::*;
use remap::layers::{Flow, UDP, udp_pdu};
use sar::{SduMeta, Segmentation};
use wire::{Cell, CircuitId, Time};

const PORT: u16 = 5001;
const FLOW: Whose = Whose::Flow(Flow { protocol: UDP, port: PORT });
const KINDS: [Kind; 2] = [Kind::Eni155p, Kind::Jit];

fn circuit() -> CircuitId {
    "0.100".parse().unwrap()
}

fn cells(pdu: &[u8]) -> Vec<Cell> {
    let mut cells = vec![Cell::default(); wire::aal5::cells(pdu.len())];
    Segmentation::new(circuit(), pdu.len(), SduMeta::default()).unwrap().fill(pdu, &mut cells);
    cells
}

fn data(octets: usize, seed: usize) -> Vec<u8> {
    (0..octets).map(|i| (i as u8).wrapping_mul(31) ^ (i >> 8) as u8 ^ seed as u8).collect()
}

#[test]
fn pages_are_mapped_by_the_look_at_headers_and_by_the_last_pdus_and_memory_is_crossed_twice() {
    for kind in KINDS {
        let mut receiver = Receiver::new(kind, circuit(), FLOW).unwrap();
        for n in 0..40 {
            let sent = data(8192, n);
            receiver.handle_cells(&cells(&udp_pdu(PORT, 0, &sent)), Time::ZERO);
            assert_eq!(receiver.poll_read(), Some(sent), "{kind:?}");
        }
        let counts = receiver.counts();
        assert_eq!((counts.sdus, counts.lost, counts.unclaimed), (40, 0, 0), "{kind:?}");
        let read = counts.crossings.read(Crosser::Application);
        let by_device = counts.crossings.written(Crosser::Dma);
        assert!(read == 40 * 8192 && by_device >= 40 * (36 + 8192), "{kind:?} {counts:?}");
        match kind {
            // The look needs no PDU to learn from, and UDP's length saves what is behind the data.
            Kind::Eni155p => {
                assert_eq!((counts.predicted, counts.pages_mapped, counts.octets_copied), (40, 80, 0), "{counts:?}");
                assert_eq!(by_device, 40 * (36 + 8192));
            }
            // It learns from the first, and pages that lie in two rows of frames are copied.
            Kind::Jit => {
                assert!((36..40).contains(&counts.predicted), "{counts:?}");
                assert!(counts.pages_mapped > 60 && counts.octets_copied < 20 * 4096, "{counts:?}");
                assert_eq!(counts.predicted + counts.mispredicted, 40);
            }
        }
    }
}

#[test]
fn ip_options_go_the_slow_path_and_other_ports_go_nowhere() {
    for kind in KINDS {
        let mut receiver = Receiver::new(kind, circuit(), FLOW).unwrap();
        for n in 0..20 {
            let sent = data(5000, n);
            let options = if n % 4 == 3 { 8 } else { 0 };
            receiver.handle_cells(&cells(&udp_pdu(PORT, options, &sent)), Time::ZERO);
            assert_eq!(receiver.poll_read(), Some(sent), "{kind:?}");
            receiver.handle_cells(&cells(&udp_pdu(PORT + 1, 0, &data(64, n))), Time::ZERO);
            assert_eq!(receiver.poll_read(), None, "{kind:?}");
        }
        let counts = receiver.counts();
        assert_eq!((counts.sdus, counts.unclaimed), (20, 20), "{kind:?}");
        match kind {
            Kind::Eni155p => assert_eq!((counts.predicted, counts.mispredicted), (15, 5)),
            Kind::Jit => assert!(counts.mispredicted >= 5 && counts.octets_copied > 0, "{counts:?}"),
        }
    }
}

#[test]
fn trailers_on_two_pages_are_repaired_until_the_circuit_gets_buffers_in_a_row() {
    let mut receiver = Receiver::new(Kind::Jit, circuit(), FLOW).unwrap();
    for n in 0..64 {
        let sent = data(2 * 4096 - 36 - 4, n);
        let padded = [udp_pdu(PORT, 0, &sent), vec![0; 8]].concat();
        receiver.handle_cells(&cells(&padded), Time::ZERO);
        assert_eq!(receiver.poll_read(), Some(sent));
    }
    let counts = receiver.counts();
    // Only where a row of buffers ends are a trailer's two pages no neighbours.
    assert!(counts.repaired > 0 && counts.strategies == 1 && counts.sdus == 64, "{counts:?}");
}

#[test]
fn the_eni155p_says_which_circuits_it_has() {
    for (name, exists) in [("0.1023", true), ("0.1024", false), ("1.100", false)] {
        let circuit: CircuitId = name.parse().unwrap();
        let receiver = Receiver::new(Kind::Eni155p, circuit, Whose::Circuit(circuit.vci.get().into()));
        assert_eq!(receiver.err(), (!exists).then_some(SetupError::Circuit(circuit)), "{name}");
        assert!(Receiver::new(Kind::Jit, circuit, Whose::Circuit(circuit.vci.get().into())).is_ok());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Headers or none, options, padding, lengths, lost cells: an SDU arrives as it was sent, or not at all.
    #[test]
    fn what_is_read_is_what_was_sent(
        jit: bool,
        udp: bool,
        pdus in prop::collection::vec((1usize..20_000, 0usize..3, 0usize..60, prop::option::weighted(0.2, 0usize..500)), 1..30),
    ) {
        let kind = KINDS[usize::from(jit)];
        let whose = if udp { FLOW } else { Whose::Circuit(100) };
        let mut receiver = Receiver::new(kind, circuit(), whose).unwrap();
        let mut expected = 0;
        for (n, (octets, options, padding, lost)) in pdus.into_iter().enumerate() {
            let sent = data(octets, n);
            let pdu = if udp { [udp_pdu(PORT, 4 * options, &sent), vec![0; padding]].concat() } else { sent.clone() };
            let mut cells = cells(&pdu);
            // The last cell is not lost: it would join two PDUs, which the CRC tells as well.
            let lost = lost.filter(|at| *at + 1 < cells.len());
            lost.map(|at| cells.remove(at));
            receiver.handle_cells(&cells, Time::ZERO);
            let read = receiver.poll_read();
            prop_assert!(lost.is_none() || read.is_none());
            if lost.is_none() {
                prop_assert_eq!(read, Some(sent), "{:?} {} {}", kind, n, octets);
                expected += 1;
            }
        }
        let counts = receiver.counts();
        prop_assert_eq!(counts.sdus, expected);
    }
}
