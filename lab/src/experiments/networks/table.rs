//! The paper's numbers of the three networks, and the lines of its table of comparison (C-43), each with what the workloads
//! say of it.

use super::work::Made;
use super::{Found, RECEIVERS, SEGMENTS, TCP_LENGTH, WINDOW};
use crate::experiment::{Run, Test};
use crate::model::networks::{Flow, Ground, HostCosts, Myrinet, Protocol, To, run as flows, stream};
use crate::model::{Profile, ProfileError};
use core::time::Duration;

/// Of a Myrinet's TCP: what fits the interface's buffers.
const LONG_SEGMENT: usize = 8192;

/// TCP of the kernel of the host that the table names, over Myrinet, whose interface makes the checksum: Mbit/s.
fn old_host(made: &Made, host: &Profile) -> Result<Option<f64>, ProfileError> {
    let config = lanai::Config { host_mb_s: host.get("host_mb_s")?, ..made.lanai.lanai };
    let costs = HostCosts { copy: host.get("copy_ns")? * 1e-9, ..made.host };
    let protocol =
        Protocol { segment: host.get("segment_us")? * 1e-6, checksum: 0.0, octets: LONG_SEGMENT, window: WINDOW };
    let carry = || {
        let mut network = Myrinet::new(2, config, made.lanai.links, crate::model::networks::BUFFERS)?;
        let mut ground = Ground::new(&mut network, 2, costs);
        stream(&mut ground, protocol, TCP_LENGTH, 1).filter(|streamed| streamed.intact).map(|streamed| streamed.mbit_s)
    };
    Ok(carry())
}

/// Messages that an interface's control program has counted as sent and received, and those of the applications.
fn monitored(made: &Made) -> Option<[u64; 4]> {
    let mut network = Myrinet::new(2, made.lanai.lanai, made.lanai.links, crate::model::networks::BUFFERS)?;
    let mut ground = Ground::new(&mut network, 2, made.host);
    let carried = flows(&mut ground, &[Flow::stream(0, To::Host(1), 1024)], Duration::from_millis(5));
    let (taken, came) = (carried[0].taken, carried[0].came[0]);
    let sent = network.look(0)?.monitor().sent.pdus;
    Some([taken, sent, network.look(1)?.monitor().received.pdus, came])
}

impl Found {
    /// Rows of what the text says of the networks before its table.
    pub(super) fn numbers(&self, run: &mut Run<'_>, made: &Made) {
        run.anchor("C-12", "U-Net, a message of 40 octets and its answer", "us", 65.0, self.round_trips[0][1]);
        let rate = self.one_way[0][5].mbit_s;
        run.identity("C-12", "U-Net, 8192 octets one way, to the tens", "Mbit/s", 126.0, -1, rate).note(
            "a link of 140 Mbit/s, which is not in the text, carries 126.8 in cells, and nothing in the way of it is slower",
        );
        let streamed = self.tcp[0][1];
        run.number("C-13", "U-Net, TCP with segments of 1024 octets", "Mbit/s", 115.0, 0.05, streamed.mbit_s).note(
            format!(
                "the sender's processor is the bottleneck, busy for {:.1} % of the time: an acknowledgement costs it as much as a segment, which is \
                 assumed; {:.0} Mbit/s with segments of {}",
                streamed.busy * 100.0,
                self.tcp[0][3].mbit_s,
                SEGMENTS[3]
            ),
        );
        let [taken, sent, received, came] = run.ran(monitored(made), "monitoring variables of a Myrinet");
        let within = (made.lanai.lanai.queue + made.lanai.lanai.buffers()) as u64;
        let agree = sent > 50 && taken.abs_diff(sent) <= within && received.abs_diff(came) <= within;
        run.words(
            "C-30",
            "An application interface is provided for user access to the MCP's internal monitoring variables",
            Test::new(
                agree,
                "after some hundred messages the variables differ from what the applications counted by what the queue and the SRAM hold at most",
                "another count",
            ),
            format!("{taken} messages given, {sent} counted as sent; {came} had, {received} counted as received"),
        );
        run.words(
            "C-43",
            "Self mapping and monitoring",
            Test::new(
                agree && self.multicast[2].iter().all(|[rate, _]| *rate > 0.0),
                "the mapper has told all of two, four and eight hosts their routes before the first message, and the variables agree (C-30)",
                "a host without routes, or variables that count otherwise",
            ),
            "hosts have no other way to learn a route",
        );
    }

    /// The table of section 5, line by line.
    pub(super) fn table(&self, run: &mut Run<'_>, made: &Made, old: &Profile) -> Result<(), ProfileError> {
        self.bandwidths(run, made);
        let kernel = old_host(made, old)?;
        let kernel = run.ran(kernel, "TCP of a SPARCstation 2");
        run.anchor("C-43", "Optimized TCP Bandwidth, Myrinet on a SPARC/2", "Mbit/s", 70.0, kernel)
            .note("what the kernel's TCP takes for a segment is fitted to this number");
        run.absent(
            "C-43",
            "Optimized TCP Bandwidth, APIC",
            "N/A",
            &format!(
                "the paper has no number; the hosts that U-Net has get {:.0} Mbit/s with segments of {} octets in this model",
                self.tcp[1][3].mbit_s, SEGMENTS[3]
            ),
        );
        self.advantages(run);
        self.disadvantages(run);
        for (line, reason) in JUDGEMENTS {
            run.absent("C-43", "in words", line, reason);
        }
        Ok(())
    }

    fn bandwidths(&self, run: &mut Run<'_>, made: &Made) {
        let (link, symbol) = (made.chip.link_bits_per_s, made.lanai.links.symbol_ps as f64);
        run.identity("C-43", "Bandwidth, U-Net: C-12 again", "Mbit/s", 126.0, 0, 15.0 * 1.048_576 * 8.0)
            .note(format!("the model's is {:.1} at 8192 octets", self.one_way[0][5].mbit_s));
        run.identity("C-43", "Bandwidth, APIC: C-15 again", "Gbit/s", 2.4, 1, 2.0 * link / 1e9);
        run.identity("C-43", "Bandwidth, Myrinet: C-24 again", "Gbit/s", 1.28, 2, 2.0 * 8e3 / symbol);
        let tcp = self.tcp[0].map(|streamed| streamed.mbit_s);
        run.words(
            "C-43",
            "115 Mbps for more than 1000 bytes messages",
            Test::new(
                tcp[0] < 109.0 && tcp[1..].iter().all(|rate| *rate > 109.0),
                "segments of 512 octets get less than 109 Mbit/s, those of 1024 and more get more",
                "109 Mbit/s with 512 octets, or less with one of the others",
            ),
            format!(
                "{:.0}, {:.0}, {:.0} and {:.0} Mbit/s with 512, 1024, 2048 and 8192 octets",
                tcp[0], tcp[1], tcp[2], tcp[3]
            ),
        );
    }

    fn advantages(&self, run: &mut Run<'_>) {
        let [unet, apic, myrinet] = [0, 1, 2].map(|n| self.round_trips[n][1]);
        run.words(
            "C-43",
            "Low small message latency",
            Test::new(
                unet < 100.0 && apic < unet && myrinet > 0.0,
                "by U-Net a message of 40 octets and its answer take less than 100 us, where one message of 16 octets takes 246 us by Mt \
                 over Myrinet (C-31)",
                "100 us or more",
            ),
            format!("{unet:.0} us by U-Net; as directly used, the APIC takes {apic:.0} and the Myrinet {myrinet:.0}"),
        );
        let crossings = [0, 1, 2].map(|n| self.one_way[n][5].crossings);
        run.words(
            "C-43",
            "The only approach that overcome physical limitations placed by I/O bus bandwidth",
            Test::new(
                crossings[1] < 1.1 && crossings[0] > 2.9 && crossings[2] > 2.9,
                "an octet of 8192 crosses a host's memory bus less than 1.1 times with the APIC, and about three times with the others; \
                 from device to device it does not at all (C-16)",
                "as often with each",
            ),
            format!("{:.2} times by U-Net, {:.2} by the APIC, {:.2} by Myrinet", crossings[0], crossings[1], crossings[2]),
        );
        let [one, all] = [self.multicast[1][0], self.multicast[1][2]];
        run.words(
            "C-43",
            "Allows multicasting within the bus",
            Test::new(
                all[0] > 0.95 * one[0] && all[1] < 1.1,
                "each of seven receivers gets 95 % of what one gets, and the sender's memory is read once",
                "less, or read more than once",
            ),
            format!(
                "{:.0} Mbit/s to one, {:.0} to each of {}; {:.2} octets read for one",
                one[0], all[0], RECEIVERS[2], all[1]
            ),
        );
    }

    fn disadvantages(&self, run: &mut Run<'_>) {
        let touches = [0, 1].map(|n| self.one_way[n][5].touches);
        run.words(
            "C-43",
            "Zero Copy although provided by the model cannot be supported with off-the-shelf components",
            Test::new(
                touches[0] >= 2.0 && touches[1] == 0.0,
                "into U-Net's segment and out of it the processor reads and writes each octet once; with the APIC it does neither",
                "no copy by U-Net, or one with the APIC",
            ),
            format!("{:.1} and {:.1} octets read or written for each, on either side", touches[0], touches[1]),
        );
        let [cycle, repeated] = [2, 3].map(|n| [self.multicast[n][0][0], self.multicast[n][2][0]]);
        let unet = [self.multicast[0][0][0], self.multicast[0][2][0]];
        run.words(
            "C-43",
            "No inherent multicasting",
            Test::new(
                repeated[1] < repeated[0] / 3.0 && unet[1] > 0.95 * unet[0],
                "repeated for seven receivers, a message gets to each at less than a third of the rate to one; the switch of cells, which \
                 copies, keeps 95 %",
                "a third or more, or less than 95 % by the switch",
            ),
            format!(
                "Myrinet: {:.0} and {:.0} Mbit/s repeated, {:.0} and {:.0} around a cycle; cells: {:.0} and {:.0}",
                repeated[0], repeated[1], cycle[0], cycle[1], unet[0], unet[1]
            ),
        );
    }
}

/// Lines of the table that nothing here can decide, and why.
const JUDGEMENTS: [(&str, &str); 14] = [
    (
        "Entire protocol stack can be placed at user with minimum help from hardware and OS",
        "so it is in all three models, and in the daemon's endpoints: a way to build, not a result",
    ),
    (
        "Off-the-shelf hardware components; Custom I/O Bus; Custom network switches",
        "what is to be built of is a decision, not a result",
    ),
    ("Main Consideration for End to End Performance", "what the authors had in mind is a judgement of the text"),
    ("Off-the-shelf platforms", "that hardware was to be bought is not in what a model can say"),
    ("Flexible architectural model", "a judgement of the text, and no test could decide it"),
    (
        "Allows remote controlling of devices residing on custom bus",
        "the text says no more; control cells read and write another chip's registers in adapters/apic/tests/apic_control.rs",
    ),
    (
        "Allows hardware Coding Decoding Schemes with minimal CPU interference",
        "no coder and no decoder is described in the text",
    ),
    ("Single chip host network interface", "what fits on a chip is no question to a model of what it does"),
    ("Integrated h/w support for protocols", "which protocols, and what of them, is not said"),
    ("Very high cost/performance factor", "no price is given, neither of this nor of the others"),
    (
        "LANai processor can be programmed to support user-defined protocols based on user needs",
        "a control program of our own runs on the model; how hard another would be is a judgement",
    ),
    ("Low error rates", "how often a bit is wrong is configured, not found"),
    ("Requires a whole new host architecture", "a judgement of the text, and no test could decide it"),
    ("Very expensive hardware", "no price is given, neither of this nor of the others"),
];
