//! Look-ups: each cell of a batch finds its circuit, wherever in the batch it stands and however large the table is.

use proptest::prelude::*;
use std::collections::BTreeMap;
use switch::{NOWHERE, Profile, Switch, SwitchConfig, Transaction};
use wire::{Cell, CellHeader, CircuitId, Label, PayloadType, Vci, Vpi};

/// VPIs from here on are those of paths; below are those of channels.
const PATHS: u16 = 3000;

fn labels() -> impl Strategy<Value = Vec<Label>> {
    let channel = (prop_oneof![0..130u16, 0..PATHS], 32..=u16::MAX)
        .prop_map(|(vpi, vci)| Label::Vc(CircuitId::new(vpi, vci).unwrap()));
    let path = (PATHS..4096).prop_map(|vpi| Label::Vp(Vpi::new(vpi).unwrap()));
    let label = prop_oneof![15 => channel, 1 => path];
    // Most channels have a page of their own: the tables have from 3 KiB to more than half a MiB.
    prop_oneof![prop::collection::vec(label.clone(), 1..40), prop::collection::vec(label, 400..700)]
}

/// Which label a cell comes under, its VCI in a path, its payload type and loss priority.
type Draw = (prop::sample::Index, u16, u8, bool);

fn header((label, vci, bits, clp): &Draw, labels: &[Label]) -> CellHeader {
    let circuit = match labels[label.index(labels.len())] {
        Label::Vc(circuit) if vci % 16 > 0 => circuit,
        // A neighbour, which may have no entry.
        Label::Vc(circuit) => CircuitId { vci: Vci(circuit.vci.get() ^ 1), ..circuit },
        Label::Vp(vpi) => CircuitId { vpi, vci: Vci(vci % 300) },
    };
    let bits = if *bits < 60 { bits % 4 } else { bits % 8 };
    CellHeader { circuit, payload_type: PayloadType::from_bits(bits), clp: *clp }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn each_cell_of_a_batch_leaves_under_the_label_of_its_circuit(
        labels in labels(),
        cells in prop::collection::vec((any::<prop::sample::Index>(), any::<u16>(), 0u8..64, any::<bool>()), 0..900),
    ) {
        let config = SwitchConfig { ports: 3, circuits: 1000, index_pages: 4096, ..SwitchConfig::default() };
        let (mut switch, mut change, mut model) = (Switch::new(config), Transaction::new(), BTreeMap::new());
        for label in &labels {
            let number = model.len() as u16;
            let leaves = match label {
                Label::Vc(_) => Label::Vc(CircuitId::new(1, number + 32).unwrap()),
                Label::Vp(_) => Label::Vp(Vpi::new(number + PATHS).unwrap()),
            };
            model.entry(*label).or_insert_with(|| {
                change.add((0, *label), (number % 3, leaves), &Profile::default());
                (number % 3, leaves)
            });
        }
        switch.apply(change).unwrap();

        let payload = |at: usize| std::array::from_fn(|octet| (at >> (octet % 2 * 8)) as u8);
        let headers: Vec<CellHeader> = cells.iter().map(|draw| header(draw, &labels)).collect();
        let input: Vec<Cell> = headers.iter().enumerate().map(|(at, header)| Cell::new(*header, payload(at))).collect();
        let (mut out, mut ports) = (vec![Cell::default(); input.len()], vec![0; input.len()]);
        prop_assert_eq!(switch.translate(0, &input, &mut out, &mut ports), input.len());
        for (at, header) in headers.iter().enumerate() {
            let CircuitId { vpi, vci } = header.circuit;
            let data = header.payload_type.bits() < 4 && !matches!(vci.get(), 3 | 4);
            let entry = model.get(&Label::Vc(header.circuit)).or_else(|| model.get(&Label::Vp(vpi))).filter(|_| data);
            let (port, circuit) = match entry {
                Some((port, Label::Vc(circuit))) => (*port, *circuit),
                Some((port, Label::Vp(vpi))) => (*port, CircuitId { vpi: *vpi, vci }),
                None => (NOWHERE, header.circuit),
            };
            prop_assert_eq!(ports[at], port, "cell {} of {}", at, headers.len());
            prop_assert_eq!(out[at], Cell::new(CellHeader { circuit, ..*header }, payload(at)), "cell {}", at);
        }
    }
}
