//! Look-up with policing and without queues: each cell is judged as the definition of the algorithm judges it, whatever the
//! contract of its circuit is.

use proptest::prelude::*;
use switch::{Bucket, Excess, NOWHERE, Police, Profile, Switch, SwitchConfig, Transaction};
use traffic::{Fine, Gcra};
use wire::{Cell, CellHeader, CircuitId, Label, Time};

/// Nanoseconds between cells, and of tolerance.
type Rate = (u64, u64);

/// The contract of a circuit.
#[derive(Debug, Clone, Copy)]
struct Terms {
    peak: Option<Rate>,
    sustainable: Option<Rate>,
    high_priority_only: bool,
    tags: bool,
    /// It goes out at two ports.
    root: bool,
}

impl Terms {
    fn profile(self) -> Profile {
        let bucket = |(t, l)| Bucket::new(Fine::from_nanos(t), Fine::from_nanos(l));
        let police = self.peak.map(|peak| Police {
            peak: bucket(peak),
            sustainable: self.sustainable.map(bucket),
            high_priority_only: self.high_priority_only,
            excess: if self.tags { Excess::Tag } else { Excess::Discard },
        });
        Profile { police, ..Profile::default() }
    }
}

/// What the definitions say of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Judged {
    Conforms,
    Tagged,
    Discarded,
}

struct Model {
    terms: Terms,
    peak: Option<Gcra>,
    sustainable: Option<Gcra>,
    received: u64,
    excess: u32,
}

impl Model {
    fn new(terms: Terms) -> Self {
        let gcra = |(t, l)| Gcra::new(Fine::from_nanos(t), Fine::from_nanos(l));
        let sustainable = terms.sustainable.filter(|_| terms.peak.is_some()).map(gcra);
        Model { terms, peak: terms.peak.map(gcra), sustainable, received: 0, excess: 0 }
    }

    fn judge(&mut self, clp: bool, now: Time) -> Judged {
        self.received += 1;
        let (mut peak, mut sustainable) = (self.peak, self.sustainable);
        let below = peak.as_mut().is_none_or(|peak| peak.arrive(now));
        let exempt = clp && self.terms.high_priority_only;
        let sustained = exempt || sustainable.as_mut().is_none_or(|sustainable| sustainable.arrive(now));
        let judged = match (below, sustained) {
            (true, true) => Judged::Conforms,
            (true, false) if self.terms.tags => Judged::Tagged,
            _ => Judged::Discarded,
        };
        // Only a test that is passed moves its schedule.
        if judged != Judged::Discarded {
            self.peak = peak;
        }
        if judged == Judged::Conforms && !exempt {
            self.sustainable = sustainable;
        }
        self.excess += u32::from(judged != Judged::Conforms);
        judged
    }
}

fn terms() -> impl Strategy<Value = Terms> {
    let rate = |longest: u64| (1..longest, 0..longest * 4);
    let (peak, sustainable) = (prop::option::weighted(0.8, rate(3_000)), prop::option::weighted(0.4, rate(12_000)));
    (peak, sustainable, any::<bool>(), any::<bool>(), prop::bool::weighted(0.1)).prop_map(
        |(peak, sustainable, high_priority_only, tags, root)| Terms {
            peak,
            sustainable,
            high_priority_only,
            tags,
            root,
        },
    )
}

fn incoming(nth: usize) -> CircuitId {
    CircuitId::new(nth as u16 / 200, nth as u16 % 200 + 32).unwrap()
}

fn leaving(nth: usize) -> CircuitId {
    CircuitId::new(7, nth as u16 + 100).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn each_cell_of_a_batch_is_judged_by_its_circuits_contract(
        terms in prop::collection::vec(terms(), 1..300),
        batches in prop::collection::vec((0u64..9_000, prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..200)), 1..20),
    ) {
        let config = SwitchConfig { ports: 3, circuits: 1000, index_pages: 4096, ..SwitchConfig::default() };
        let (mut switch, mut change) = (Switch::new(config), Transaction::new());
        for (nth, terms) in terms.iter().enumerate() {
            let (from, profile) = ((0, Label::Vc(incoming(nth))), terms.profile());
            change.add(from, (nth as u16 % 3, Label::Vc(leaving(nth))), &profile);
            if terms.root {
                change.add(from, ((nth as u16 + 1) % 3, Label::Vc(leaving(nth))), &profile);
            }
        }
        switch.apply(change).unwrap();
        let mut model: Vec<Model> = terms.iter().map(|terms| Model::new(*terms)).collect();
        let mut now = 0;
        for (gap, cells) in batches {
            now += gap;
            let now = Time::from_nanos(now);
            let cells: Vec<(usize, bool)> = cells.into_iter().map(|(draw, clp)| (draw.index(terms.len()), clp)).collect();
            let header = |circuit, clp| CellHeader { circuit, clp, ..CellHeader::default() };
            let input: Vec<Cell> = cells.iter().map(|(nth, clp)| Cell::new(header(incoming(*nth), *clp), [*nth as u8; 48])).collect();
            let (mut out, mut ports) = (vec![Cell::default(); input.len()], vec![0; input.len()]);
            prop_assert_eq!(switch.translate_policed(0, &input, now, &mut out, &mut ports), input.len());
            for (at, (nth, clp)) in cells.into_iter().enumerate() {
                let model = &mut model[nth];
                if model.terms.root {
                    prop_assert_eq!((ports[at], out[at]), (NOWHERE, input[at]));
                    continue;
                }
                let judged = model.judge(clp, now);
                let port = if judged == Judged::Discarded { NOWHERE } else { nth as u16 % 3 };
                prop_assert_eq!(ports[at], port, "cell {} of {:?}: {:?}", at, model.terms, judged);
                let expected = header(leaving(nth), clp | (judged == Judged::Tagged));
                prop_assert_eq!(out[at], Cell::new(expected, [nth as u8; 48]));
            }
        }
        for (nth, model) in model.iter().enumerate() {
            let route = switch.route((0, Label::Vc(incoming(nth)))).unwrap();
            prop_assert_eq!((route.counters.received, route.counters.excess), (model.received, model.excess));
        }
    }
}
