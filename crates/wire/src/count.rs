//! What is counted: cells, PDUs and octets that passed, and what was dropped, by reason.
//!
//! A drop is not an error: it is a counter with a reason. This list is the one that code, `status`, metrics and
//! documentation share.

/// Declares the reasons once: variant, name in output, meaning, cure.
macro_rules! reasons {
    ($($variant:ident $name:literal $meaning:literal $cure:literal;)+) => {
        /// Why something was dropped.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum DropReason { $(#[doc = $meaning] $variant),+ }

        impl DropReason {
            /// All reasons, in the order of their counters.
            pub const ALL: &'static [DropReason] = &[$(DropReason::$variant),+];

            /// The name in output: `status`, metrics, JSON.
            pub const fn name(self) -> &'static str {
                match self { $(DropReason::$variant => $name),+ }
            }

            /// One sentence for people.
            pub const fn meaning(self) -> &'static str {
                match self { $(DropReason::$variant => $meaning),+ }
            }

            /// What one can do about it, in a sentence.
            pub const fn cure(self) -> &'static str {
                match self { $(DropReason::$variant => $cure),+ }
            }
        }
    };
}

reasons! {
    HeaderError "header_error" "A cell header's HEC does not match and cannot be corrected (I.432.1)."
        "Test the line with `cellway doctor`; on a link with `faults`, lower `corruption`; check that both ends use the same header (`uni`, `nni`).";
    UnknownCircuit "unknown_circuit" "No circuit of this VPI and VCI exists here."
        "Add the circuit (`cellway circuit add`), or correct the VPI and VCI at the sender; `cellway circuit list` shows what exists.";
    WrongPort "wrong_port" "The circuit is on another port of the host than the one that this came in at."
        "Connect the circuit to the port that the cells come in at, or move the link: `cellway circuit list` shows the way of each circuit.";
    NotOpen "not_open" "The circuit exists, and no endpoint has opened it."
        "Start the application that is to receive (`cellway receive`) before the sender.";
    WrongAal "wrong_aal" "A cell or PDU of another adaptation layer than the circuit's."
        "Open both ends of the circuit with the same adaptation layer (`aal`).";
    Malformed "malformed" "A frame, cell or PDU that its format does not allow."
        "Check that the peer speaks the protocol and form that this link is configured for (`form`, `header`).";
    Crc "crc" "A PDU's or cell's CRC does not match."
        "Cells of the PDU were lost or changed on the way: look for drops at the switches and links before this one.";
    Length "length" "A PDU's length field contradicts the cells that came."
        "Cells of the PDU were lost on the way: look for drops at the switches and links before this one.";
    Oversize "oversize" "A PDU longer than the circuit's maximum SDU or than its buffer."
        "Send shorter SDUs, or raise the circuit's `max_sdu` or the receiver's buffer size.";
    Aborted "aborted" "The sender gave the PDU up (AAL5 length 0, AAL3/4 EOM with LI 63)."
        "Find out from the sending application why it gave the PDU up; nothing is wrong with the network.";
    Timeout "timeout" "A PDU's next cell did not come in time."
        "The sender stopped within a PDU, or cells were lost: look for drops before this place.";
    Sequence "sequence" "A sequence number shows loss or repetition within a PDU."
        "Datagrams or cells were lost, repeated or late on the way: use `cells_tcp`, or a path with less loss, between the machines.";
    Tag "tag" "A PDU ends with another tag than it began with: cells of two PDUs (AAL3/4 BTag, ETag)."
        "Cells between two PDUs were lost on the way: look for drops at the switches and links before this one.";
    TooManyOpen "too_many_open" "A PDU began while as many were open as may be at once (AAL3/4 MIDs of a circuit)."
        "Let the sender interleave fewer PDUs (MIDs) on the circuit.";
    NoBuffer "no_buffer" "The endpoint had no free buffer."
        "The application is slow: give its endpoint more buffers, let it read faster, or use `flow = \"credit\"`.";
    RingFull "ring_full" "The endpoint's receive ring was full."
        "The application is slow: give its endpoint a longer receive ring, let it read faster, or use `flow = \"credit\"`.";
    SocketFull "socket_full" "The system dropped datagrams at a socket: its buffer was full, because this program was late to read."
        "Let the socket have a larger buffer: `cellway doctor` says what `net.core.rmem_max` should be.";
    QueueFull "queue_full" "A link's or switch port's queue was full."
        "Raise the link's `queue_cells` or its rate, give the circuit a contract, or use `flow = \"credit\"`.";
    ManagementFull "management_full" "The room that OAM cells of a circuit or port have in a queue was full."
        "Send OAM cells less often on the circuit: lower the rate of `ping`, or use larger blocks of monitoring.";
    EarlyDiscard "early_discard" "A whole PDU for which a queue had no room when it began (EPD)."
        "Best-effort senders offer more than the output carries: raise its rate or `queue_cells`, or use `flow = \"credit\"`.";
    PartialDiscard "partial_discard" "The rest of a PDU that had lost a cell (PPD)."
        "A cell of the PDU was dropped before: mend the cause of that drop, shown at the same place.";
    TableFull "table_full" "No entry was free for a new circuit or PDU."
        "Raise the bound in the description that is reached (`max_routes`, `max_endpoints`, ...), or remove circuits.";
    NonConforming "non_conforming" "Beyond the circuit's traffic contract (GCRA)."
        "Send at the contract's rate; where cells arrive in bursts (between machines), raise the circuit's `cdvt_us`.";
    NotPermitted "not_permitted" "A descriptor or message that its sender has no right to."
        "Ask for the right in `[access]` of the description, or run the program as a user who has it.";
    BadDescriptor "bad_descriptor" "A descriptor that points outside the segment or names no channel."
        "Mend the application: it passes buffers outside its segment, or a channel that it has closed.";
    LinkDown "link_down" "The link was down."
        "Bring the link up (`cellway link up`), or start its far end; `cellway status` says what it waits for.";
    Lost "lost" "Lost on purpose, by a fault that the test world or the user asked for."
        "Remove the link's `faults` if the loss is not wanted.";
    Closed "closed" "The circuit or endpoint was closed before delivery."
        "Keep the circuit or endpoint open until everything has arrived.";
}

impl DropReason {
    /// How many reasons there are.
    pub const COUNT: usize = Self::ALL.len();

    /// The reason of this name in output.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|reason| reason.name() == name)
    }
}

impl core::fmt::Display for DropReason {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

/// Counters of one direction of a link, circuit or endpoint. They wrap after 2^64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Cells that passed.
    pub cells: u64,
    /// PDUs that passed whole.
    pub pdus: u64,
    /// Octets of SDU in those PDUs; of cell payload where only cells are seen.
    pub octets: u64,
    dropped: [u64; DropReason::COUNT],
}

impl Counters {
    /// Counts `n` drops (cells where cells are handled, PDUs where PDUs are).
    pub fn drop_n(&mut self, reason: DropReason, n: u64) {
        let counter = &mut self.dropped[reason as usize];
        *counter = counter.wrapping_add(n);
    }

    /// Counts one drop.
    pub fn drop_one(&mut self, reason: DropReason) {
        self.drop_n(reason, 1);
    }

    /// Counts cells, PDUs and octets that passed.
    #[inline]
    pub fn pass(&mut self, [cells, pdus, octets]: [u64; 3]) {
        self.cells = self.cells.wrapping_add(cells);
        self.pdus = self.pdus.wrapping_add(pdus);
        self.octets = self.octets.wrapping_add(octets);
    }

    /// How many were dropped for `reason`.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.dropped[reason as usize]
    }

    /// How many were dropped for any reason.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.iter().fold(0, |sum, n| sum.wrapping_add(*n))
    }

    /// The reasons that have occurred, with their counts.
    pub fn drops(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL.iter().copied().zip(self.dropped).filter(|(_, n)| *n > 0)
    }

    /// Adds what `other` has counted.
    pub fn add(&mut self, other: &Counters) {
        self.pass([other.cells, other.pdus, other.octets]);
        for (mine, theirs) in self.dropped.iter_mut().zip(other.dropped) {
            *mine = mine.wrapping_add(theirs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_reason_has_a_name_of_its_own() {
        let names: BTreeSet<_> = DropReason::ALL.iter().map(|r| r.name()).collect();
        assert_eq!(names.len(), DropReason::COUNT);
        for (i, r) in DropReason::ALL.iter().enumerate() {
            assert_eq!(*r as usize, i);
        }
    }

    #[test]
    fn every_reason_has_a_meaning_and_a_cure_of_its_own() {
        let mut said = BTreeSet::new();
        for reason in DropReason::ALL {
            for sentence in [reason.meaning(), reason.cure()] {
                assert!(sentence.len() > 15 && sentence.ends_with('.'), "{reason}: {sentence:?}");
                assert!(sentence.starts_with(|c: char| c.is_ascii_uppercase()), "{reason}: {sentence:?}");
            }
            assert!(said.insert(reason.meaning()), "{reason} means what another reason does");
            assert_ne!(reason.meaning(), reason.cure());
            assert_eq!(DropReason::named(reason.name()), Some(*reason));
        }
        assert_eq!(DropReason::named("no_such_reason"), None);
    }

    #[test]
    fn drops_are_kept_apart_by_reason() {
        let mut c = Counters::default();
        c.drop_one(DropReason::Crc);
        c.drop_n(DropReason::NoBuffer, 3);
        let mut sum = c;
        sum.add(&c);
        assert_eq!(sum.dropped(DropReason::Crc), 2);
        assert_eq!(sum.dropped_total(), 8);
        assert_eq!(sum.drops().count(), 2);
    }
}
