//! Look-ups: each cell of a batch finds its circuit, wherever in the batch it stands and however large the table is.

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use switch::{NOWHERE, Profile, Switch, SwitchConfig, Transaction};
use wire::{Cell, CellHeader, CircuitId, Label, PayloadType, Time, Vci, Vpi};

/// VPIs from here on are those of paths; below are those of channels.
const PATHS: u16 = 3000;

/// A channel of the same VCI, whose VPI is another in its highest bits.
fn twin(label: Label) -> Label {
    match label {
        Label::Vc(CircuitId { vpi, vci }) if vci.get() % 4 == 0 => {
            Label::Vc(CircuitId { vpi: Vpi::new((vpi.get() + 128) % PATHS).unwrap(), vci })
        }
        label => label,
    }
}

fn labels() -> impl Strategy<Value = Vec<Label>> {
    let channel = (prop_oneof![0..130u16, 0..PATHS], 32..=u16::MAX)
        .prop_map(|(vpi, vci)| Label::Vc(CircuitId::new(vpi, vci).unwrap()));
    let path = (PATHS..4096).prop_map(|vpi| Label::Vp(Vpi::new(vpi).unwrap()));
    let label = prop_oneof![15 => channel, 1 => path];
    // Most channels have a page of their own: the tables have from 3 KiB to more than half a MiB.
    let labels = prop_oneof![prop::collection::vec(label.clone(), 1..40), prop::collection::vec(label, 400..700)];
    labels.prop_map(|labels| labels.iter().flat_map(|label| [*label, twin(*label)]).collect())
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

type Point = (u16, Label);

/// Where cells of a label leave: nowhere if it has two branches.
type Model = BTreeMap<Label, Vec<Point>>;

/// The port and the label by which a channel or a path leaves; another for each `number`. Ports and VPIs have up to 8 bits. If
/// `rare`, some have more.
fn leaves(label: Label, number: usize, rare: bool) -> Point {
    let port = if rare && number % 8 == 5 { 256 + number % 4 } else { number % 256 };
    let vpi = if rare && number % 8 == 6 { 256 + number % 2744 } else { number % 256 };
    let label = match label {
        Label::Vc(_) => Label::Vc(CircuitId::new(vpi as u16, number as u16 + 32).unwrap()),
        Label::Vp(_) => Label::Vp(Vpi::new(number as u16 % 1000 + PATHS).unwrap()),
    };
    (port as u16, label)
}

/// Cells of these headers leave as `model` says.
fn check(switch: &mut Switch, headers: &[CellHeader], model: &Model) -> Result<(), TestCaseError> {
    let payload = |at: usize| std::array::from_fn(|octet| (at >> (octet % 2 * 8)) as u8);
    let input: Vec<Cell> = headers.iter().enumerate().map(|(at, header)| Cell::new(*header, payload(at))).collect();
    let (mut out, mut ports) = (vec![Cell::default(); input.len()], vec![0; input.len()]);
    prop_assert_eq!(switch.translate(0, &input, &mut out, &mut ports), input.len());
    for (at, header) in headers.iter().enumerate() {
        let CircuitId { vpi, vci } = header.circuit;
        let data = header.payload_type.bits() < 4 && !matches!(vci.get(), 3 | 4);
        let entry = model.get(&Label::Vc(header.circuit)).or_else(|| model.get(&Label::Vp(vpi))).filter(|_| data);
        let (port, circuit) = match entry.map(Vec::as_slice) {
            Some([(port, Label::Vc(circuit))]) => (*port, *circuit),
            Some([(port, Label::Vp(vpi))]) => (*port, CircuitId { vpi: *vpi, vci }),
            _ => (NOWHERE, header.circuit),
        };
        prop_assert_eq!(ports[at], port, "cell {} of {}", at, headers.len());
        prop_assert_eq!(out[at], Cell::new(CellHeader { circuit, ..*header }, payload(at)), "cell {}", at);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn each_cell_of_a_batch_leaves_under_the_label_of_its_circuit(
        labels in labels(),
        cells in prop::collection::vec((any::<prop::sample::Index>(), any::<u16>(), 0u8..64, any::<bool>()), 0..900),
        changes in prop::collection::vec(0u8..8, 1400),
        rare: bool,
    ) {
        let config = SwitchConfig {
            ports: 260,
            circuits: 3000,
            index_pages: 4096,
            queue_cells: 200,
            management_cells: 16,
            credit_cells: 0,
            ..SwitchConfig::default()
        };
        let (mut switch, mut model) = (Switch::new(config), Model::new());
        let mut headers: Vec<CellHeader> = cells.iter().map(|draw| header(draw, &labels)).collect();
        if !rare {
            // Nothing but what the label table alone tells of: its parts are not done again by circuits' lines.
            headers.retain(|header| labels.contains(&Label::Vc(header.circuit)) && header.payload_type.bits() < 4);
        }
        let mut change = Transaction::new();
        for (number, label) in labels.iter().enumerate() {
            model.entry(*label).or_insert_with(|| {
                change.add((0, *label), leaves(*label, number, rare), &Profile::default());
                vec![leaves(*label, number, rare)]
            });
        }
        switch.apply(change).unwrap();
        check(&mut switch, &headers, &model)?;

        // Some go, come again elsewhere, have a second branch, or lose their first one.
        let mut change = Transaction::new();
        for (number, (label, change_of)) in labels.iter().zip(changes).enumerate() {
            let Some(had) = model.get(label).cloned() else { continue };
            let [first] = had[..] else { continue };
            let to = leaves(*label, number + 1001, rare);
            let from = (0, *label);
            match change_of {
                0 | 2 | 3 if !rare => {}
                0 => {
                    change.remove(from);
                    model.remove(label);
                }
                1 => {
                    change.remove_leaf(from, first);
                    change.add(from, to, &Profile::default());
                    model.insert(*label, vec![to]);
                }
                2 => {
                    change.add(from, to, &Profile::default());
                    model.insert(*label, vec![first, to]);
                }
                3 => {
                    change.add(from, to, &Profile::default());
                    change.remove_leaf(from, first);
                    change.remove_leaf(from, to);
                    model.remove(label);
                }
                _ => {}
            }
        }
        switch.apply(change).unwrap();
        check(&mut switch, &headers, &model)?;
    }

    #[test]
    fn what_is_policed_leaves_by_the_same_labels(
        labels in labels(),
        cells in prop::collection::vec((any::<prop::sample::Index>(), any::<u16>(), 0u8..64, any::<bool>()), 0..900),
    ) {
        let config = SwitchConfig { ports: 260, queue_cells: 200, management_cells: 16, ..SwitchConfig::default() };
        let (mut switch, mut change, mut seen) = (Switch::new(config), Transaction::new(), BTreeSet::new());
        for (number, label) in labels.iter().enumerate().filter(|(_, label)| seen.insert(**label)) {
            change.add((0, *label), leaves(*label, number, true), &Profile::default());
        }
        switch.apply(change).unwrap();
        let input: Vec<Cell> = cells.iter().map(|draw| Cell::new(header(draw, &labels), [3; 48])).collect();
        let (mut plain, mut plain_ports) = (vec![Cell::default(); input.len()], vec![0; input.len()]);
        let (mut out, mut ports) = (plain.clone(), plain_ports.clone());
        switch.translate(0, &input, &mut plain, &mut plain_ports);
        switch.translate_policed(0, &input, Time::ZERO, &mut out, &mut ports);
        prop_assert_eq!(out, plain);
        prop_assert_eq!(ports, plain_ports);
    }
}
