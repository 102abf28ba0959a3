//! Choices of structure that were made after a result had been seen: the degrees of freedom that are no constants.

/// A choice of structure that was made after the result of another had been seen. It is a degree of freedom as much as a constant is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// The id of the number that decided.
    pub id: &'static str,
    /// The commit that made it.
    pub commit: &'static str,
    /// What was chosen.
    pub what: &'static str,
}

/// All such choices. No row of one of these ids is a prediction.
pub const CHOICES: &[Choice] = &[
    Choice {
        id: "A-10",
        commit: "df267553",
        what: "a delay that misses the printed digit is let pass, as the paper's line rate is approximate",
    },
    Choice {
        id: "A-10",
        commit: "df267553",
        what: "the bound of the simulated delay is 5 %, wider than the printed digit",
    },
    Choice { id: "A-14", commit: "df267553", what: "a delay is compared within 1 % on both sides" },
    Choice {
        id: "A-22",
        commit: "df267553",
        what: "of two streams on one PC what the line carries counts, not what ttcp prints",
    },
    Choice {
        id: "A-56",
        commit: "80d22fe0",
        what: "what ttcp sends over and over is read out of the cache; the adapter reads memory (three ways were tried)",
    },
    Choice { id: "A-56", commit: "9abad6a1", what: "sender and receiver run by equal time slices on one machine" },
    Choice {
        id: "A-56",
        commit: "9abad6a1",
        what: "what is left of the time slices differs from run to run, within ranges that were chosen",
    },
    Choice {
        id: "A-57",
        commit: "9abad6a1",
        what: "the receiver begins with up to two time slices, the sender with up to one",
    },
    Choice {
        id: "A-58",
        commit: "7b4774bf",
        what: "the cost of short receive bursts is the I/O bus's, not the processor's",
    },
    Choice {
        id: "A-58",
        commit: "e6a0da2e",
        what: "what saturates is what the network carries, not ttcp's received rate, which a late timer inflates",
    },
    Choice { id: "A-60", commit: "e6a0da2e", what: "what is sufficient is judged by what the network carries" },
    Choice { id: "B-37", commit: "7b4774bf", what: "Cell Manager and buffer are left out of the pipeline's limit" },
    Choice { id: "B-40", commit: "7b4774bf", what: "the set-up of a transfer is hidden in the IOCC's load" },
    Choice { id: "E-5", commit: "8bb2f6cd", what: "copying and streaming do not overlap" },
    Choice { id: "C-31", commit: "c57e9b32", what: "messages of some 50 octets and less are moved by a processor" },
    Choice { id: "C-31", commit: "cc14c4dd", what: "a message of more than 8192 octets takes a second buffer" },
    Choice { id: "C-42", commit: "df267553", what: "two phrases of one table became one fact under another name" },
    Choice { id: "C-15", commit: "76d4ffe9", what: "an APIC's links hold 16 cells where 256 were tried first" },
    Choice { id: "C-20", commit: "76d4ffe9", what: "the load beside the paced stream" },
    Choice { id: "C-30", commit: "76d4ffe9", what: "how near the modelled figure has to come" },
    Choice {
        id: "C-43",
        commit: "76d4ffe9",
        what: "runs of TCP are longer, and what is under way at their end is waited for",
    },
    Choice { id: "D-10", commit: "cf263f27", what: "half of what a PDU costs on arrival is spent in interrupts" },
    Choice { id: "D-6", commit: "e6a0da2e", what: "a copy out of the cache takes half of a copy at least" },
    Choice {
        id: "D-6",
        commit: "cf263f27",
        what: "the Triton has the Neptune's costs for a PDU, and its rate of received bursts",
    },
    Choice { id: "D-7", commit: "cf263f27", what: "the Triton has the Neptune's costs of IP and of summing" },
    Choice { id: "D-8", commit: "cf263f27", what: "the Triton has the Neptune's costs of IP" },
    Choice {
        id: "E-14",
        commit: "568205a2",
        what: "rates are those of the steady state: the first second's order is another",
    },
    Choice {
        id: "E-16",
        commit: "568205a2",
        what: "the board with the real TCP decides the sentences about figures 4 and 5, and no longer the queues",
    },
    Choice { id: "E-17", commit: "c57e9b32", what: "what waits before an echo is drawn evenly between two anchors" },
    Choice { id: "E-17", commit: "7b4774bf", what: "ping is woken by its host's clock" },
    Choice {
        id: "F-1",
        commit: "df306858",
        what: "one phrase became two rows: that throughput is low at some place, and (F-11) that it is so at certain ones",
    },
    Choice { id: "F-1", commit: "df306858", what: "low is below half of the line, and below 0.8 of a packet switch" },
    Choice { id: "F-3", commit: "df306858", what: "an order holds where it is missed by less than 0.05 of the line" },
    Choice { id: "F-7", commit: "df306858", what: "a fall by less than 0.05 from one queue to the next is let pass" },
    Choice {
        id: "F-9",
        commit: "df306858",
        what: "a sender pauses for up to an eighth of a PDU, and connections begin within 3532 cell times",
    },
    Choice {
        id: "F-10",
        commit: "df306858",
        what: "the thresholds of both accounts: half of the queue, and 80 % of the mean",
    },
];
