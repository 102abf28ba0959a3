//! Seed 000, sections 3.1 to 3.5: receive prediction, statistical alignment, trailer repair, checksum omission.

use crate::experiment::{Experiment, Figure, Origin, Run};
use crate::model::{ProfileError, Random};

/// Headers of what shares a circuit, in octets: UDP over LLC/SNAP, the same with IP options, TCP.
const HEADERS: [usize; 3] = [36, 40, 48];

/// An application's share of a circuit's PDUs, in per cent: the first one's; the others share the rest.
fn draw(random: &mut Random, first: f64) -> usize {
    if random.uniform() * 100.0 < first { 0 } else { 1 + random.below(2) as usize }
}

/// Of `pdus`, the share whose data lands as its reader wants it: predicted from the headers (a buffering adapter looks
/// before it moves data), or from what came last on the circuit (a just-in-time adapter cannot look).
fn hits(random: &mut Random, pdus: u64, first: f64, options: f64) -> [f64; 2] {
    let (mut perfect, mut statistical, mut last) = (0u64, 0u64, 0usize);
    for _ in 0..pdus {
        let app = draw(random, first);
        let header = HEADERS[app];
        // A quick look reads protocol and port, not the length of the IP header: options make it wrong.
        let with_options = random.uniform() * 100.0 < options;
        let actual = header + if with_options { 4 } else { 0 };
        perfect += u64::from(HEADERS[app] == actual);
        statistical += u64::from(last == actual);
        last = actual;
    }
    [perfect, statistical].map(|n| 100.0 * n as f64 / pdus as f64)
}

/// Whether a trailer of `trailer` octets of a PDU of `octets` from the start of a page on crosses a page's border.
fn straddles(octets: usize, trailer: usize, page: usize) -> bool {
    octets / page != (octets + trailer - 1) / page
}

/// Where destination and next hop are, as far as the sender's routing table says.
fn may_omit(same_lis: bool, next_hop_is_destination_or_lis: bool) -> bool {
    same_lis && next_hop_is_destination_or_lis
}

/// See the module's head.
#[derive(Debug)]
pub struct Prediction;

impl Experiment for Prediction {
    fn name(&self) -> &'static str {
        "seed000-prediction"
    }

    fn title(&self) -> &'static str {
        "Receive prediction and statistical alignment over traffic mixes, trailer repair, checksum omission"
    }

    fn run(&self, run: &mut Run<'_>) -> Result<(), ProfileError> {
        let mut random = run.random();
        let pdus = run.size(200_000, 20_000);
        let mixes = [50.0, 70.0, 80.0, 90.0, 95.0, 99.0, 100.0];
        let rates: Vec<[f64; 2]> = mixes.iter().map(|first| hits(&mut random, pdus, *first, 0.1)).collect();
        let worst = rates.iter().map(|r| r[0]).fold(100.0, f64::min);
        run.words("A-37", "perfect prediction of the protocol and of the receiving application can be comparably easy with buffering adapters",
            worst > 99.0, format!("{worst:.2} % at least over all mixes, with IP options in one PDU of a thousand"));
        run.words("A-40", "alignment choices have to be based entirely on heuristics, and lists delay any reaction to changes in traffic patterns",
            rates[0][1] < 50.0 && rates[5][1] > 95.0,
            format!("the last PDU's alignment fits {:.0} % of an even mix, {:.1} % where 99 % are alike", rates[0][1], rates[5][1]));
        let page = 4096;
        let n = pdus as usize;
        let random_share =
            (0..n).filter(|_| straddles(1 + random.below(65_527) as usize, 8, page)).count() as f64 * 100.0 / n as f64;
        run.words(
            "A-43",
            "since this operation should be very infrequent, no major performance loss should occur (trailer repair)",
            random_share < 1.0,
            format!("{random_share:.2} % of PDUs of all lengths have a trailer of 8 octets on two pages"),
        );
        let systematic = (0..1000).filter(|_| straddles(2 * page - 4, 8, page)).count();
        run.words("A-43", "if trailer fragmentation occurs systematically on a VC, a different memory allocation strategy has to be chosen",
            systematic == 1000, "a circuit whose PDUs all have 8188 octets repairs every one");
        let policy = [may_omit(true, true), may_omit(false, true), may_omit(false, false)];
        run.words(
            "A-26",
            "figure 3: the checksum may be omitted within a LIS, not to another LIS, not over an IP router",
            policy == [true, false, false],
            "the rule of section 3.1 on the figure's three cases; what it gains is in seed003-tables (A-25)",
        );
        run.absent(
            "A-34",
            "hit rates of prediction",
            "none",
            "the paper proposes prediction and measures none; the mixes of traffic here are assumed",
        );
        let mut figure = Figure::new(
            "prediction",
            "PDUs whose alignment was predicted",
            ["% of PDUs of one kind", "% predicted"],
            [false, false],
        );
        figure.add(
            "from headers (buffering adapter)",
            Origin::Modelled,
            mixes.iter().zip(&rates).map(|(m, r)| (*m, r[0])),
        );
        figure.add(
            "as the last on the circuit (just in time)",
            Origin::Modelled,
            mixes.iter().zip(&rates).map(|(m, r)| (*m, r[1])),
        );
        run.figure(figure);
        Ok(())
    }

    fn today(&self, run: &mut Run<'_>) {
        super::today::prediction(run);
    }
}
