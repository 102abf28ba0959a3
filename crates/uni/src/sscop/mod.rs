//! SSCOP (ITU-T Q.2110): messages in order over a link that loses PDUs, by selective retransmission.
//!
//! The machine of the standard's ten states with its five timers. `machine` holds the states, `transfer` what happens
//! in state 10. Names are the standard's: VT(..) for the sender's variables, VR(..) for the receiver's.
//!
//! Sequence numbers have 24 bits and are compared relative to VT(A), VT(PA) and VR(R). An SD, POLL or credit from the
//! half of the number space behind its base is old: an SD is counted and dropped, where the standard's arithmetic would
//! take it for one far ahead.

mod machine;
mod transfer;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;
use wire::Time;
use wire::sscop::{Pdu, Sequence, Source};

/// Timers and limits. The defaults are those of Q.2130 for signalling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Timer_CC: between two BGN, END, ER or RS.
    pub connection_control: Duration,
    /// Timer_POLL: between two POLLs while data is under way.
    pub poll: Duration,
    /// Timer_KEEP-ALIVE: between two POLLs while none is.
    pub keep_alive: Duration,
    /// Timer_NO-RESPONSE: without a STAT for so long, the peer is gone.
    pub no_response: Duration,
    /// Timer_IDLE: from the last STAT to the next POLL when there is no data at all.
    pub idle: Duration,
    /// MaxCC: how often BGN, END, ER or RS is sent.
    pub max_connection_control: u32,
    /// MaxPD: SDs between two POLLs.
    pub max_data: u32,
    /// MaxSTAT: list elements of a STAT; odd, at least 3.
    pub max_stat: usize,
    /// How many SDs the peer may send ahead of what was taken: at most so many wait for one that is missing.
    pub window: u32,
    /// The most messages that wait to be sent or acknowledged.
    pub queue: usize,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            connection_control: Duration::from_secs(1),
            poll: Duration::from_millis(750),
            keep_alive: Duration::from_secs(2),
            no_response: Duration::from_secs(7),
            idle: Duration::from_secs(15),
            max_connection_control: 4,
            max_data: 25,
            max_stat: 67,
            window: 128,
            queue: 1024,
        }
    }
}

/// The ten states of Q.2110.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// 1: no connection.
    Idle,
    /// 2: a connection was asked for, and the peer has not answered.
    OutgoingConnection,
    /// 3: the peer asks for a connection, and the user has not answered.
    IncomingConnection,
    /// 4: the connection is released, and the peer has not confirmed it.
    OutgoingDisconnection,
    /// 5: resynchronisation was asked for.
    OutgoingResync,
    /// 6: the peer asks for resynchronisation.
    IncomingResync,
    /// 7: recovery was asked for.
    OutgoingRecovery,
    /// 8: recovery is agreed upon, and the user has not answered.
    RecoveryResponse,
    /// 9: the peer asks for recovery.
    IncomingRecovery,
    /// 10: data is transferred.
    Ready,
}

/// What SSCOP tells its user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signal {
    /// AA-ESTABLISH.indication: answer with [`Sscop::establish_response`] or [`Sscop::release`].
    EstablishIndication,
    /// AA-ESTABLISH.confirm.
    EstablishConfirm,
    /// AA-RELEASE.indication, and whether the layer above the peer asked for it.
    ReleaseIndication(Source),
    /// AA-RELEASE.confirm.
    ReleaseConfirm,
    /// AA-RESYNC.indication: answer with [`Sscop::resync_response`].
    ResyncIndication,
    /// AA-RESYNC.confirm.
    ResyncConfirm,
    /// AA-RECOVER.indication: answer with [`Sscop::recover_response`].
    RecoverIndication,
    /// AA-DATA.indication: a message, in order.
    Data(Vec<u8>),
    /// AA-UNITDATA.indication: a message without assurance.
    UnitData(Vec<u8>),
}

/// What layer management is told (MAA-ERROR), by the standard's letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// A: unexpected SD.
    Data,
    /// B: unexpected BGN.
    Begin,
    /// C: unexpected BGAK.
    BeginAck,
    /// D: unexpected BGREJ.
    BeginReject,
    /// E: unexpected END.
    End,
    /// F: unexpected ENDAK.
    EndAck,
    /// G: unexpected POLL.
    Poll,
    /// H: unexpected STAT.
    Stat,
    /// I: unexpected USTAT.
    UnsolicitedStat,
    /// J: unexpected RS.
    Resync,
    /// K: unexpected RSAK.
    ResyncAck,
    /// L: unexpected ER.
    Recover,
    /// M: unexpected ERAK.
    RecoverAck,
    /// O: the peer does not answer BGN, END, ER or RS.
    NoAnswer,
    /// P: Timer_NO-RESPONSE has expired.
    NoResponse,
    /// Q: a sequence number of SD or POLL is wrong.
    Sequence,
    /// R: N(PS) of a STAT is wrong.
    PollSequence,
    /// S: N(R) or the list of a STAT is wrong.
    StatList,
    /// T: N(R) or the list of a USTAT is wrong.
    UnsolicitedList,
    /// U: a PDU of the wrong length or type.
    Length,
    /// V: SDs are sent again.
    Retransmission,
    /// W: no credit is left.
    NoCredit,
    /// X: there is credit again.
    Credit,
    /// Not of the standard: an SD that had already been delivered came again.
    Old,
    /// Not of the standard: PDUs were dropped because nobody took them from the machine.
    Overrun,
}

impl Fault {
    /// How many there are.
    pub const COUNT: usize = Fault::Overrun as usize + 1;

    /// PDUs that were wrong or not expected; the others are time-outs and what this side does about loss.
    const ERRORS: [Fault; 20] = [
        Fault::Data,
        Fault::Begin,
        Fault::BeginAck,
        Fault::BeginReject,
        Fault::End,
        Fault::EndAck,
        Fault::Poll,
        Fault::Stat,
        Fault::UnsolicitedStat,
        Fault::Resync,
        Fault::ResyncAck,
        Fault::Recover,
        Fault::RecoverAck,
        Fault::Sequence,
        Fault::PollSequence,
        Fault::StatList,
        Fault::UnsolicitedList,
        Fault::Length,
        Fault::Old,
        Fault::Overrun,
    ];
}

/// More messages wait than the configuration allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} messages wait to be acknowledged, which is the limit")]
pub struct Full(pub usize);

/// An SD that has been sent and not acknowledged.
#[derive(Debug)]
struct Sent {
    /// The message; `None` once it is acknowledged out of order.
    data: Option<Vec<u8>>,
    /// VT(PS) when it was last sent.
    stamp: Sequence,
    /// Whether it waits to be sent again.
    queued: bool,
}

/// One end of an assured link.
#[derive(Debug)]
pub struct Sscop {
    config: Config,
    state: State,
    /// VT(S), VT(PS), VT(A), VT(PA), VT(MS): the sender's variables.
    vt_s: Sequence,
    vt_ps: Sequence,
    vt_a: Sequence,
    vt_pa: Sequence,
    vt_ms: Sequence,
    vt_pd: u32,
    vt_cc: u32,
    vt_sq: u8,
    /// VR(R), VR(H), VR(MR): the receiver's.
    vr_r: Sequence,
    vr_h: Sequence,
    vr_mr: Sequence,
    vr_sq: u8,
    /// Clear-buffers: what was not sent need not survive recovery.
    clear_buffers: bool,
    credit: bool,
    /// Whether END says that SSCOP itself ended the connection.
    end_source: Source,
    queue: VecDeque<Vec<u8>>,
    /// SDs from VT(A) to VT(S).
    sent: VecDeque<Sent>,
    again: VecDeque<Sequence>,
    /// SDs from VR(R) to VR(H).
    received: VecDeque<Option<Vec<u8>>>,
    cc_timer: Option<Time>,
    poll_timer: Option<Time>,
    keep_alive_timer: Option<Time>,
    no_response_timer: Option<Time>,
    idle_timer: Option<Time>,
    out: VecDeque<Vec<u8>>,
    signals: VecDeque<Signal>,
    faults: [u64; Fault::COUNT],
}

/// PDUs that wait for somebody to take them; more are dropped, as a link drops them.
const OUT_LIMIT: usize = 1024;

impl Sscop {
    /// An end in state Idle.
    pub fn new(config: Config) -> Self {
        let zero = Sequence::ZERO;
        Sscop {
            config: Config { max_stat: config.max_stat.max(3) | 1, window: config.window.clamp(1, 1 << 20), ..config },
            state: State::Idle,
            vt_s: zero,
            vt_ps: zero,
            vt_a: zero,
            vt_pa: zero,
            vt_ms: zero,
            vt_pd: 0,
            vt_cc: 0,
            vt_sq: 0,
            vr_r: zero,
            vr_h: zero,
            vr_mr: zero,
            vr_sq: 0,
            clear_buffers: true,
            credit: true,
            end_source: Source::User,
            queue: VecDeque::new(),
            sent: VecDeque::new(),
            again: VecDeque::new(),
            received: VecDeque::new(),
            cc_timer: None,
            poll_timer: None,
            keep_alive_timer: None,
            no_response_timer: None,
            idle_timer: None,
            out: VecDeque::new(),
            signals: VecDeque::new(),
            faults: [0; Fault::COUNT],
        }
    }

    /// The state.
    pub const fn state(&self) -> State {
        self.state
    }

    /// How often `fault` was reported.
    pub fn faults(&self, fault: Fault) -> u64 {
        self.faults[fault as usize]
    }

    /// PDUs that were wrong or not expected.
    pub fn errors(&self) -> u64 {
        Fault::ERRORS.iter().fold(0, |sum, fault| sum.wrapping_add(self.faults(*fault)))
    }

    /// Messages that wait to be sent or acknowledged.
    pub fn backlog(&self) -> usize {
        self.queue.len() + self.sent.len()
    }

    /// Everything that is kept for the peer: messages waiting, sent, received out of order, PDUs and signals not taken.
    pub fn held(&self) -> usize {
        self.backlog() + self.received.len() + self.out.len() + self.signals.len() + self.again.len()
    }

    /// The next PDU to be sent, if there is one.
    pub fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        self.out.pop_front()
    }

    /// The next signal to the user, if there is one. Taking a message gives the peer credit for another.
    pub fn poll(&mut self) -> Option<Signal> {
        let signal = self.signals.pop_front()?;
        if matches!(signal, Signal::Data(_)) && self.vr_mr.since(self.vr_r) < self.config.window {
            self.vr_mr = self.vr_mr.plus(1);
        }
        Some(signal)
    }

    /// Whether the next signal is that the peer asks for a connection.
    pub(crate) fn begins_anew(&self) -> bool {
        matches!(self.signals.front(), Some(Signal::EstablishIndication))
    }

    /// When [`Self::handle_timeout`] is to be called.
    pub fn poll_timeout(&self) -> Option<Time> {
        let timers = [self.cc_timer, self.poll_timer, self.keep_alive_timer, self.no_response_timer, self.idle_timer];
        timers.into_iter().flatten().min()
    }

    fn transmit(&mut self, pdu: Pdu<'_>) {
        if self.out.len() >= OUT_LIMIT {
            self.fault(Fault::Overrun);
            return;
        }
        let mut octets = vec![0; pdu.buffer_len()];
        pdu.emit(&mut octets);
        self.out.push_back(octets);
    }

    fn signal(&mut self, signal: Signal) {
        self.signals.push_back(signal);
    }

    fn fault(&mut self, fault: Fault) {
        self.count(fault, 1);
    }

    fn count(&mut self, fault: Fault, n: u64) {
        let counter = &mut self.faults[fault as usize];
        *counter = counter.wrapping_add(n);
    }
}

/// Whether `number` lies in the half of the number space behind `base`.
fn is_behind(number: Sequence, base: Sequence) -> bool {
    number.since(base) >= 1 << 23
}
