//! ATM over TCP as Linux's `atmtcp` speaks it: a frame link over one TCP connection.
//!
//! [`Machine`] holds the protocol: octets in, frames out, and back. `tcp::Shell` puts it on a socket. What a circuit's
//! octets are, AAL5 SDUs or AAL0 cells, nothing on the wire says: the circuit's configuration does
//! ([`Machine::set_aal`]).

mod peer;
mod told;

pub use crate::connection::LinkError;

use crate::connection::{Judgement, Out, begins_tls};
use net::external::{CircuitNotice, PeerCircuit};
use net::frame::{AAL0_FRAME_OCTETS, Frame, FrameAal};
use net::node::NodeIo;
use peer::PeerCircuits;
use sar::SduMeta;
use std::collections::BTreeSet;
use told::Told;
use wire::atmtcp::{Control, HEAD_OCTETS, Head, MAX_OCTETS, MAX_TEXT_OCTETS, qos_aal};
use wire::{CircuitId, DropReason};

/// Control texts and dropped frames of one [`Machine::receive`] at most: the link's room bounds them no more than a
/// peer does.
const MESSAGES: usize = 512;

/// Circuits that one [`Machine::transmit`] tells the peer of at most: a connection that comes and goes costs little of
/// a round.
const TOLD: usize = 64;

/// Octets of a frame after its head that show that a candidate speaks.
const CONVINCING: usize = 256;

/// What the first octets of a connection show: a text that is in order, or the beginning of a frame.
pub(crate) fn judge(octets: &[u8]) -> Judgement {
    let Some((head, rest)) = octets.split_first_chunk() else { return Judgement::Open };
    let head = match Head::parse(head) {
        Ok(head) => head,
        Err(_) if begins_tls(head) => return Judgement::Nonsense(LinkError::Tls),
        Err(error) => return Judgement::Nonsense(LinkError::BadHead(error)),
    };
    let there = rest.len() >= head.octets.min(CONVINCING);
    let speaks = there && if head.is_control() { is_text(head, rest) } else { head.octets > 0 };
    if speaks { Judgement::Speaks } else { Judgement::Open }
}

fn is_text(head: Head, rest: &[u8]) -> bool {
    rest.get(..head.octets).is_some_and(|text| Control::parse(text).is_ok())
}

#[derive(Debug)]
enum Input {
    Head {
        got: usize,
    },
    /// A control text; what exceeds the buffer is passed over.
    Text {
        got: usize,
        octets: usize,
    },
    Frame {
        frame: Frame,
        got: usize,
    },
    /// Octets of a frame that is dropped already.
    Skip {
        left: usize,
    },
    /// A whole frame for which the link has no room yet.
    Ready {
        frame: Frame,
    },
}

/// One connection's protocol. See the module's head.
#[derive(Debug)]
pub struct Machine {
    input: Input,
    head: [u8; HEAD_OCTETS],
    text: [u8; MAX_TEXT_OCTETS],
    out: Out,
    /// Frames and texts in order that have come whole on this connection.
    heard: u64,
    aal0: BTreeSet<CircuitId>,
    /// The octets are SDUs as AAL5's are; only what frames are called differs.
    aal34: BTreeSet<CircuitId>,
    told: Told,
    peer: PeerCircuits,
    /// See [`Machine::relaying`].
    relays: bool,
}

impl Default for Machine {
    fn default() -> Self {
        Machine::new()
    }
}

impl Machine {
    /// A connection on which nothing has passed.
    pub fn new() -> Self {
        Machine {
            input: Input::Head { got: 0 },
            head: [0; HEAD_OCTETS],
            text: [0; MAX_TEXT_OCTETS],
            out: Out::new(HEAD_OCTETS + MAX_OCTETS),
            heard: 0,
            aal0: BTreeSet::new(),
            aal34: BTreeSet::new(),
            told: Told::new(),
            peer: PeerCircuits::default(),
            relays: false,
        }
    }

    /// A connection at a [`crate::Relay`]: control texts that are in order pass as frames of circuit 0.0, both ways,
    /// and the machine itself says and keeps nothing of circuits; data pass whatever they are, without octets too.
    pub fn relaying() -> Self {
        Machine { relays: true, ..Machine::new() }
    }

    /// Sets what a circuit's octets are: AAL0 cells, or SDUs of AAL5 (unless said otherwise) or AAL3/4.
    pub fn set_aal(&mut self, circuit: CircuitId, aal: FrameAal) {
        for (set, of) in [(&mut self.aal0, FrameAal::Aal0), (&mut self.aal34, FrameAal::Aal34)] {
            if aal == of {
                set.insert(circuit);
            } else {
                set.remove(&circuit);
            }
        }
    }

    fn aal(&self, circuit: CircuitId) -> FrameAal {
        if self.aal0.contains(&circuit) {
            FrameAal::Aal0
        } else if self.aal34.contains(&circuit) {
            FrameAal::Aal34
        } else {
            FrameAal::Aal5
        }
    }

    /// Tells the peer, as soon as there is room and after each new connection, that a circuit is open here. `qos` as
    /// `qos2text` prints it.
    pub fn open(&mut self, circuit: CircuitId, qos: &str) {
        self.told.open(circuit, qos);
    }

    /// Tells the peer that a circuit is closed here.
    pub fn close(&mut self, circuit: CircuitId) {
        self.told.close(circuit);
    }

    /// Writes what is to be told, as far as there is room and up to [`TOLD`] texts. Whether any was; `None` if there
    /// may be more.
    fn tell(&mut self) -> Option<bool> {
        for n in 0..TOLD {
            if !self.has_room() {
                return None;
            }
            let text = match self.told.next() {
                None => return Some(n > 0),
                Some((circuit, Some(qos))) => Control::Open { circuit, qos }.to_string(),
                Some((circuit, None)) => Control::Close { circuit }.to_string(),
            };
            self.write_text(&text);
        }
        None
    }

    /// The oldest opening or closing by the peer that has not been fetched.
    pub fn poll_peer(&mut self) -> Option<PeerCircuit> {
        self.peer.poll()
    }

    /// Circuits that the peer has told to be open, with their AAL where the text named one.
    pub fn peer_circuits(&self) -> impl Iterator<Item = (CircuitId, Option<u8>)> + '_ {
        self.peer.iter()
    }

    /// The connection has ended: PDUs that have not gone or come whole are lost and counted, the peer's circuits
    /// closed. On the next connection all begins anew.
    pub fn disconnect(&mut self, io: &mut NodeIo<'_>) {
        self.drop_input(io);
        let lost = self.out.end();
        if lost > 0 {
            io.count_lost(0, DropReason::LinkDown, lost);
        }
        self.heard = 0;
        self.peer.close_all();
        self.told.begin();
    }

    pub(crate) fn out(&self) -> &Out {
        &self.out
    }

    pub(crate) fn out_mut(&mut self) -> &mut Out {
        &mut self.out
    }

    pub(crate) fn heard(&self) -> u64 {
        self.heard
    }

    /// Counts frames that came and that the connection's end keeps from the network, the one that has come in part
    /// among them.
    pub(crate) fn lose(&mut self, mut octets: &[u8], io: &mut NodeIo<'_>) {
        if let Input::Frame { frame, got } = &self.input {
            let left = frame.len() - got;
            self.drop_input(io);
            self.input = Input::Skip { left };
        } else if self.is_blocked() {
            self.drop_input(io);
        }
        while !octets.is_empty() {
            self.input = match std::mem::replace(&mut self.input, Input::Head { got: 0 }) {
                Input::Head { got } => {
                    let n = take(&mut octets, &mut self.head[got..]);
                    match Head::parse(&self.head) {
                        _ if got + n < HEAD_OCTETS => Input::Head { got: got + n },
                        Ok(head) => {
                            if !head.is_control() {
                                io.count_drops(0, DropReason::LinkDown, 1);
                            }
                            if head.octets == 0 { Input::Head { got: 0 } } else { Input::Skip { left: head.octets } }
                        }
                        // Where the next frame would begin, nobody can say.
                        Err(_) => return,
                    }
                }
                Input::Text { got, octets: length } => Input::Skip { left: length - got },
                Input::Skip { left } => {
                    let n = left.min(octets.len());
                    octets = &octets[n..];
                    if left == n { Input::Head { got: 0 } } else { Input::Skip { left: left - n } }
                }
                Input::Frame { .. } | Input::Ready { .. } => Input::Head { got: 0 },
            };
        }
    }

    /// Gives back the buffer of a frame that has not arrived whole, and counts it.
    pub fn drop_input(&mut self, io: &mut NodeIo<'_>) {
        if let Input::Frame { frame, .. } | Input::Ready { frame } =
            std::mem::replace(&mut self.input, Input::Head { got: 0 })
        {
            io.pool_mut().release(frame);
            io.count_drops(0, DropReason::LinkDown, 1);
        }
    }

    /// Whether a frame waits for room on the link: read no more from the peer until it has gone.
    pub fn is_blocked(&self) -> bool {
        matches!(self.input, Input::Ready { .. })
    }

    /// Takes the peer's octets, in pieces of any size; gives how many it took. Fewer than all: the link is full
    /// ([`Machine::is_blocked`]), or there were many texts, and the next call continues.
    ///
    /// # Errors
    /// [`LinkError`]: drop the connection.
    pub fn receive(&mut self, octets: &[u8], io: &mut NodeIo<'_>) -> Result<usize, LinkError> {
        let mut rest = octets;
        let mut messages = 0;
        loop {
            self.input = match std::mem::replace(&mut self.input, Input::Head { got: 0 }) {
                Input::Ready { frame } => match io.put_frame(0, frame) {
                    Ok(()) => Input::Head { got: 0 },
                    Err(frame) => {
                        self.input = Input::Ready { frame };
                        return Ok(octets.len() - rest.len());
                    }
                },
                Input::Head { got } => {
                    let n = take(&mut rest, &mut self.head[got..]);
                    if got + n == HEAD_OCTETS {
                        let begun = self.begin(io)?;
                        messages += usize::from(!matches!(begun, Input::Frame { .. } | Input::Ready { .. }));
                        begun
                    } else {
                        Input::Head { got: got + n }
                    }
                }
                Input::Text { got, octets } => {
                    let n = take(&mut rest, &mut self.text[got..octets]);
                    if got + n == octets { self.control(octets, io) } else { Input::Text { got: got + n, octets } }
                }
                Input::Frame { frame, got } => {
                    let buffer = io.pool_mut().octets_mut(&frame).unwrap_or_default();
                    let n = take(&mut rest, buffer.get_mut(got..).unwrap_or_default());
                    if got + n >= frame.len() { self.complete(frame, io) } else { Input::Frame { frame, got: got + n } }
                }
                Input::Skip { left } => {
                    let n = left.min(rest.len());
                    rest = &rest[n..];
                    if left == n { Input::Head { got: 0 } } else { Input::Skip { left: left - n } }
                }
            };
            if rest.is_empty() && !self.is_blocked() || messages == MESSAGES {
                return Ok(octets.len() - rest.len());
            }
        }
    }

    /// A head is whole.
    fn begin(&mut self, io: &mut NodeIo<'_>) -> Result<Input, LinkError> {
        // As a head, its VPI would be beyond the standard's.
        let wrong = |error| if begins_tls(&self.head) { LinkError::Tls } else { LinkError::BadHead(error) };
        let head = Head::parse(&self.head).map_err(wrong)?;
        let skip = |io: &mut NodeIo<'_>, reason| {
            io.count_drops(0, reason, 1);
            if head.octets == 0 { Input::Head { got: 0 } } else { Input::Skip { left: head.octets } }
        };
        if head.is_control() {
            let fits = (1..=MAX_TEXT_OCTETS).contains(&head.octets);
            return Ok(if fits {
                Input::Text { got: 0, octets: head.octets }
            } else {
                skip(io, DropReason::Malformed)
            });
        }
        let aal = self.aal(head.circuit);
        if head.octets == 0 && !self.relays || aal == FrameAal::Aal0 && head.octets != AAL0_FRAME_OCTETS {
            return Ok(skip(io, DropReason::Malformed));
        }
        if head.octets > io.pool().buffer_octets() {
            return Ok(skip(io, DropReason::Oversize));
        }
        Ok(match io.pool_mut().allocate(head.circuit, aal, SduMeta::default(), head.octets) {
            Some(frame) if frame.is_empty() => Input::Ready { frame },
            Some(frame) => Input::Frame { frame, got: 0 },
            None => skip(io, DropReason::NoBuffer),
        })
    }

    fn complete(&mut self, frame: Frame, io: &mut NodeIo<'_>) -> Input {
        if frame.aal == FrameAal::Aal0
            && let Some([a, b, c, d, ..]) = io.pool_mut().octets_mut(&frame)
        {
            // The header word is in the order of the sender's machine, which is little-endian.
            std::mem::swap(a, d);
            std::mem::swap(b, c);
        }
        self.heard += 1;
        Input::Ready { frame }
    }

    fn control(&mut self, octets: usize, io: &mut NodeIo<'_>) -> Input {
        let parsed = Control::parse(&self.text[..octets]);
        self.heard += u64::from(parsed.is_ok());
        match parsed {
            Ok(_) if self.relays => {
                let text = &self.text[..octets];
                match io.pool_mut().copy_in(CircuitId::default(), FrameAal::Aal5, SduMeta::default(), text) {
                    Some(frame) => return Input::Ready { frame },
                    None => io.count_drops(0, DropReason::NoBuffer, 1),
                }
            }
            Ok(Control::Open { circuit, qos }) => {
                if !self.peer.open(circuit, qos_aal(qos)) {
                    io.count_drops(0, DropReason::TableFull, 1);
                }
            }
            Ok(Control::Close { circuit }) => self.peer.close(circuit),
            // As `atmtcp` does: an unknown text is passed over, the link stays.
            Err(_) => io.count_drops(0, DropReason::Malformed, 1),
        }
        Input::Head { got: 0 }
    }

    /// Whether a frame can be given to [`Machine::transmit`].
    pub fn has_room(&self) -> bool {
        self.out.has_room()
    }

    /// Takes the oldest frame of the link; false if there is none or no room for it. Before data the peer is told all
    /// circuits: while there are more than one call tells, false after some of them. Call again once the connection has
    /// taken octets.
    pub fn transmit(&mut self, io: &mut NodeIo<'_>) -> bool {
        let Some(told) = self.tell() else { return false };
        if !self.has_room() {
            return told;
        }
        let Some((frame, octets)) = io.frame_in(0) else { return told };
        let aal = self.aal(frame.circuit);
        let fits = octets.len() <= MAX_OCTETS && (self.relays || !octets.is_empty() && frame.circuit.key() != 0);
        let reason = if frame.aal != aal {
            // OAM cells on an AAL5 circuit, for one: atmtcp cannot carry them.
            Some(DropReason::WrongAal)
        } else if !fits {
            Some(DropReason::Malformed)
        } else {
            None
        };
        if reason.is_none() {
            let head = Head { circuit: frame.circuit, octets: octets.len() }.to_octets();
            match (aal, octets) {
                (FrameAal::Aal0, [a, b, c, d, payload @ ..]) => self.out.push(&[&head, &[*d, *c, *b, *a], payload], 1),
                _ => self.out.push(&[&head, octets], u32::from(head[..4] != [0; 4])),
            }
        }
        io.release_frame(0);
        if let Some(reason) = reason {
            io.count_lost(0, reason, 1);
        }
        true
    }

    fn write_text(&mut self, text: &str) {
        if text.len() <= MAX_TEXT_OCTETS {
            let head = Head { circuit: CircuitId::default(), octets: text.len() }.to_octets();
            self.out.push(&[&head, text.as_bytes()], 0);
        }
    }

    /// Octets for the peer.
    pub fn poll_transmit(&self) -> &[u8] {
        self.out.poll_transmit()
    }

    /// The first `n` octets of [`Machine::poll_transmit`] are on their way.
    pub fn transmitted(&mut self, n: usize) {
        self.out.transmitted(n);
    }
}

/// A circuit's quality of service as `qos2text` prints it. `vbr` is no word of `atmtcp`'s: it is said as `ubr` with a
/// peak.
pub fn qos_text(notice: &CircuitNotice) -> String {
    use traffic::Category::{Abr, Cbr};
    let category = match notice.contract.category {
        Cbr => "cbr",
        Abr => "abr",
        _ => "ubr",
    };
    let aal = notice.aal.name();
    let max_sdu = match notice.aal {
        FrameAal::Aal5 | FrameAal::Aal34 => MAX_OCTETS,
        FrameAal::Aal0 => AAL0_FRAME_OCTETS,
    };
    let pcr =
        notice.contract.pcr.map(|pcr| format!("max_pcr={},", pcr.cells_per_s().ceil() as u64)).unwrap_or_default();
    format!("{category},{aal}:{pcr}max_sdu={max_sdu}")
}

/// Copies what there is of `from` into `to`, and takes it off `from`.
fn take(from: &mut &[u8], to: &mut [u8]) -> usize {
    let n = from.len().min(to.len());
    to[..n].copy_from_slice(&from[..n]);
    *from = &from[n..];
    n
}

#[cfg(test)]
mod tests;
