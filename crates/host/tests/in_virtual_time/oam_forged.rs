//! OAM cells that a peer forges on circuits of its own: a host's other circuits and paths do as they do without.

use host::HostInterface;
use net::topology::{CircuitOptions, CircuitTable, OamOptions};
use net::{End, FramePool, LinkConfig, Network};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;
use wire::oam::{Defect, DefectType, Flow, Function, Location, Loopback};
use wire::{Cell, CellHeader, CellRate, CircuitId, PayloadType, Time, Vci, Vpi};

fn id(vpi: u16, vci: u16) -> CircuitId {
    CircuitId { vpi: Vpi::new(vpi).unwrap(), vci: Vci(vci) }
}

fn oam(flow: Flow, circuit: CircuitId, function: Function) -> Cell {
    Cell::new(flow.header(CellHeader { circuit, ..CellHeader::default() }), function.emit())
}

/// What can be seen of the circuits that are not the forger's.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    sent: BTreeMap<CircuitId, Vec<(Time, [u8; 48])>>,
    events: Vec<(CircuitId, String)>,
    states: Vec<String>,
}

/// VPI 1 is the forger's, with some circuits, at the port of the others.
fn run(forged: &[([u8; 48], usize, u8)]) -> Seen {
    let mut network = Network::new(FramePool::new(16, 2048));
    let host = network.add_node("beta", Box::new(HostInterface::new(4).named("beta")));
    // Fast enough that forged cells take no time from others.
    let rate = CellRate::from_cells_per_s(1e9);
    let link =
        network.connect(End::External, End::Port(host, 0), LinkConfig { rate, ..LinkConfig::default() }).unwrap();
    let interface = network.node_mut::<HostInterface>(host).unwrap();
    let others = [id(2, 100), id(2, 101), id(3, 100)];
    for circuit in [id(1, 100), id(1, 101)].into_iter().chain(others) {
        let oam = OamOptions { continuity: circuit == others[0], monitoring: (circuit == others[2]).then_some(128) };
        let contract = traffic::Contract::default();
        let options = CircuitOptions { aal: net::FrameAal::Aal5, contract, sends: true, receives: true, oam };
        CircuitTable::add_circuit(interface, 0, circuit, &options).unwrap();
    }
    let (mut seen, mut forged) = (Seen::default(), forged.chunks(40));
    for step in 0..80u32 {
        let now = Time::from_millis(u64::from(step) * 100);
        let defect = Defect { kind: DefectType(step as u8), location: Location([step as u8; 16]) };
        let mut cells = Vec::new();
        for (payload, at, kind) in forged.next().unwrap_or_default() {
            let circuit = [id(1, 100), id(1, 101), id(1, 3), id(1, 4), id(1, 77), id(9, 4)][*at];
            let payload_type = [PayloadType::OamSegment, PayloadType::OamEndToEnd][usize::from(*kind) % 2];
            let clp = *kind > 1;
            cells.extend([Cell::new(CellHeader { circuit, payload_type, clp }, *payload); 20]);
        }
        let [watched, plain, monitored] = others;
        let ask = Function::Loopback(Loopback::request(step));
        match step {
            20..30 => cells.push(oam(Flow::F5EndToEnd, plain, Function::Ais(defect))),
            40 => cells.push(oam(Flow::F4EndToEnd, id(3, 0), Function::Ais(defect))),
            _ if step % 10 == 0 => cells.push(oam(Flow::F5EndToEnd, watched, Function::ContinuityCheck)),
            _ => {}
        }
        cells.extend([Flow::F5Segment, Flow::F5EndToEnd].map(|flow| oam(flow, plain, ask)));
        cells.extend([Flow::F4Segment, Flow::F4EndToEnd].map(|flow| oam(flow, id(2, 0), ask)));
        cells.push(Cell::new(CellHeader { circuit: monitored, ..CellHeader::default() }, [1; 48]));
        network.external(link, now, |io| cells.iter().for_each(|cell| assert!(io.put_cell(0, cell))));
        for later in [0, 50] {
            let now = now + Duration::from_millis(later);
            while network.run(now) {}
            network.external(link, now, |io| {
                let n = io.cells_in(0).len();
                for cell in io.cells_in(0).iter().filter(|cell| cell.circuit().vpi.get() > 1) {
                    seen.sent.entry(cell.circuit()).or_default().push((now, cell.payload));
                }
                io.consume(0, n);
            });
        }
        let interface = network.node_mut::<HostInterface>(host).unwrap();
        while let Some((circuit, event)) = interface.poll_alarm() {
            if circuit.vpi.get() > 1 {
                seen.events.push((circuit, format!("{event:?}")));
            }
        }
        for circuit in others {
            let counted = interface.circuit(circuit).map(|status| (status.sent, status.received));
            seen.states.push(format!("{:?} {counted:?}", interface.oam(circuit)));
        }
        // Two circuits, each with the end points of its flows, beside those that the others have.
        assert!(interface.oam_points() <= 5);
    }
    seen
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn forged_cells_change_nothing_on_circuits_and_paths_of_others(
        forged in prop::collection::vec((payload(), 0usize..6, 0u8..4), 100..1500),
    ) {
        let calm = run(&[]);
        prop_assert!(!calm.events.is_empty() && calm.sent.len() >= 4, "{:?}", calm);
        prop_assert!(run(&forged) == calm);
    }
}

/// An OAM payload whose function is most often a known one.
fn payload() -> impl Strategy<Value = [u8; 48]> {
    let known = prop::sample::select(vec![0x10u8, 0x11, 0x14, 0x18, 0x20, 0x21, 0x80, 0x81, 0x82]);
    let octets = prop::sample::select(vec![0u8, 1, 2, 3, 5, 7, 9, 0x11, 0x44, 0x6a, 0x88, 0xff]);
    let body = prop_oneof![prop::collection::vec(any::<u8>(), 45), prop::collection::vec(octets, 45)];
    (prop_oneof![8 => known, 1 => any::<u8>()], body, 0u8..20).prop_map(|(function, body, broken)| {
        let mut payload = [0; 48];
        payload[0] = function;
        payload[1..46].copy_from_slice(&body);
        [payload[46], payload[47]] = wire::crc::remainder10(&payload).to_be_bytes();
        payload[20] ^= u8::from(broken == 0);
        payload
    })
}
