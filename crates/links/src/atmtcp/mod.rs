//! ATM over TCP as Linux's `atmtcp` speaks it: a frame link over one TCP connection.
//!
//! [`Machine`] holds the protocol: octets in, frames out, and back. [`Shell`] puts it on a socket. What a circuit's octets
//! are, AAL5 SDUs or AAL0 cells, nothing on the wire says: the circuit's configuration does ([`Machine::set_aal`]).

mod shell;
mod stream;
mod tls;

pub use shell::{Role, Shell};
pub use tls::{Tls, TlsError, TlsTexts};

use net::external::{CircuitNotice, PeerCircuit};
use net::frame::{AAL0_FRAME_OCTETS, Aal, Frame};
use net::node::NodeIo;
use sar::SduMeta;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wire::atmtcp::{Control, HEAD_OCTETS, Head, MAX_OCTETS, MAX_TEXT_OCTETS, qos_aal};
use wire::{CircuitId, DropReason};

/// Octets that wait for the connection at most, beyond the frame that goes over the mark.
const OUT_MARK: usize = 128 * 1024;
/// Circuits of the peer that are remembered at most.
const MAX_PEER_CIRCUITS: usize = 4096;

/// Why a peer's connection is given up. Its octets cannot be brought into step again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// A head that no `atmtcp` sends: a giant PDU, a VPI beyond the standard's.
    #[error("the peer speaks no atmtcp: {0}")]
    BadHead(wire::Error),
    /// A TLS handshake where atmtcp was expected.
    #[error("the peer speaks TLS: this link needs `tls` too, or the peer's none")]
    Tls,
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
    out: Vec<u8>,
    sent: usize,
    /// Where in `out` the frame begins of which octet `sent` is a part.
    frame_at: usize,
    aal0: BTreeSet<CircuitId>,
    /// The octets are SDUs as AAL5's are; only what frames are called differs.
    aal34: BTreeSet<CircuitId>,
    opened: BTreeMap<CircuitId, String>,
    /// Circuits whose state the peer has not been told yet.
    untold: BTreeSet<CircuitId>,
    peer: BTreeMap<CircuitId, Option<u8>>,
    /// What the peer said and nobody has fetched.
    events: VecDeque<PeerCircuit>,
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
            out: Vec::with_capacity(2 * (OUT_MARK + HEAD_OCTETS + MAX_OCTETS)),
            sent: 0,
            frame_at: 0,
            aal0: BTreeSet::new(),
            aal34: BTreeSet::new(),
            opened: BTreeMap::new(),
            untold: BTreeSet::new(),
            peer: BTreeMap::new(),
            events: VecDeque::new(),
            relays: false,
        }
    }

    /// A connection at a [`crate::Relay`]: control texts that are in order pass as frames of circuit 0.0, both ways, and the machine
    /// itself says and keeps nothing of circuits; data pass whatever they are, without octets too.
    pub fn relaying() -> Self {
        Machine { relays: true, ..Machine::new() }
    }

    /// Sets what a circuit's octets are: AAL0 cells, or SDUs of AAL5 (unless said otherwise) or AAL3/4.
    pub fn set_aal(&mut self, circuit: CircuitId, aal: Aal) {
        for (set, of) in [(&mut self.aal0, Aal::Aal0), (&mut self.aal34, Aal::Aal34)] {
            if aal == of {
                set.insert(circuit);
            } else {
                set.remove(&circuit);
            }
        }
    }

    fn aal(&self, circuit: CircuitId) -> Aal {
        if self.aal0.contains(&circuit) {
            Aal::Aal0
        } else if self.aal34.contains(&circuit) {
            Aal::Aal34
        } else {
            Aal::Aal5
        }
    }

    /// Tells the peer, as soon as there is room and after each new connection, that a circuit is open here. `qos` as
    /// `qos2text` prints it.
    pub fn open(&mut self, circuit: CircuitId, qos: &str) {
        if self.opened.get(&circuit).is_none_or(|told| told != qos) {
            self.opened.insert(circuit, qos.to_owned());
            self.untold.insert(circuit);
        }
    }

    /// Tells the peer that a circuit is closed here.
    pub fn close(&mut self, circuit: CircuitId) {
        if self.opened.remove(&circuit).is_some() {
            self.untold.insert(circuit);
        }
    }

    /// Writes what is to be told, as far as there is room. True if anything was.
    fn tell(&mut self) -> bool {
        let mut any = false;
        while self.has_room()
            && let Some(circuit) = self.untold.pop_first()
        {
            let text = match self.opened.get(&circuit) {
                Some(qos) => Control::Open { circuit, qos }.to_string(),
                None => Control::Close { circuit }.to_string(),
            };
            self.write_text(&text);
            any = true;
        }
        any
    }

    /// The oldest opening or closing by the peer that has not been fetched.
    pub fn poll_peer(&mut self) -> Option<PeerCircuit> {
        self.events.pop_front()
    }

    fn event(&mut self, circuit: CircuitId, opened: Option<Option<u8>>) {
        if self.events.len() < MAX_PEER_CIRCUITS {
            self.events.push_back(PeerCircuit { circuit, opened });
        }
    }

    /// Circuits that the peer has told to be open, with their AAL where the text named one.
    pub fn peer_circuits(&self) -> impl Iterator<Item = (CircuitId, Option<u8>)> + '_ {
        self.peer.iter().map(|(circuit, aal)| (*circuit, *aal))
    }

    /// The connection has ended: PDUs that have not gone or come whole are lost and counted, the peer's circuits closed. On
    /// the next connection all begins anew.
    pub fn disconnect(&mut self, io: &mut NodeIo<'_>) {
        self.drop_input(io);
        let lost = self.frames_unsent();
        if lost > 0 {
            io.count_lost(0, DropReason::LinkDown, lost);
        }
        self.out.clear();
        (self.sent, self.frame_at) = (0, 0);
        self.end_peer_circuits();
        self.untold = self.opened.keys().copied().collect();
    }

    /// PDUs of which the connection has not taken the last octet.
    fn frames_unsent(&self) -> u64 {
        let (mut at, mut n) = (self.frame_at, 0);
        while let Some((octets, is_control)) = frame_of_out(&self.out[at..]) {
            n += u64::from(!is_control);
            at += octets;
        }
        n
    }

    /// With its connection a peer's circuits are closed.
    fn end_peer_circuits(&mut self) {
        for circuit in std::mem::take(&mut self.peer).into_keys() {
            self.event(circuit, None);
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

    /// Takes the peer's octets, in pieces of any size; gives how many it took. Fewer than all: the link is full.
    ///
    /// # Errors
    /// [`LinkError`]: drop the connection.
    pub fn receive(&mut self, octets: &[u8], io: &mut NodeIo<'_>) -> Result<usize, LinkError> {
        let mut rest = octets;
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
                    if got + n == HEAD_OCTETS { self.begin(io)? } else { Input::Head { got: got + n } }
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
            if rest.is_empty() && !self.is_blocked() {
                return Ok(octets.len());
            }
        }
    }

    /// A head is whole.
    fn begin(&mut self, io: &mut NodeIo<'_>) -> Result<Input, LinkError> {
        // A TLS record of a handshake, version 3.something (RFC 8446 5.1): the VPI would be beyond the standard's.
        let wrong = |error| if self.head[..2] == [0x16, 3] { LinkError::Tls } else { LinkError::BadHead(error) };
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
        if head.octets == 0 && !self.relays || aal == Aal::Aal0 && head.octets != AAL0_FRAME_OCTETS {
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
        if frame.aal == Aal::Aal0
            && let Some([a, b, c, d, ..]) = io.pool_mut().octets_mut(&frame)
        {
            // The header word is in the order of the sender's machine, which is little-endian.
            std::mem::swap(a, d);
            std::mem::swap(b, c);
        }
        Input::Ready { frame }
    }

    fn control(&mut self, octets: usize, io: &mut NodeIo<'_>) -> Input {
        match Control::parse(&self.text[..octets]) {
            Ok(_) if self.relays => {
                let text = &self.text[..octets];
                match io.pool_mut().copy_in(CircuitId::default(), Aal::Aal5, SduMeta::default(), text) {
                    Some(frame) => return Input::Ready { frame },
                    None => io.count_drops(0, DropReason::NoBuffer, 1),
                }
            }
            Ok(Control::Open { circuit, qos }) => {
                if self.peer.len() < MAX_PEER_CIRCUITS || self.peer.contains_key(&circuit) {
                    let aal = qos_aal(qos);
                    self.peer.insert(circuit, aal);
                    self.event(circuit, Some(aal));
                }
            }
            Ok(Control::Close { circuit }) => {
                if self.peer.remove(&circuit).is_some() {
                    self.event(circuit, None);
                }
            }
            // As `atmtcp` does: an unknown text is passed over, the link stays.
            Err(_) => io.count_drops(0, DropReason::Malformed, 1),
        }
        Input::Head { got: 0 }
    }

    /// Whether a frame can be given to [`Machine::transmit`].
    pub fn has_room(&self) -> bool {
        self.out.len() - self.sent < OUT_MARK
    }

    /// Takes the oldest frame of the link; false if there is none or no room for it.
    pub fn transmit(&mut self, io: &mut NodeIo<'_>) -> bool {
        // Before the circuit's data.
        let told = self.tell();
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
            self.make_room();
            self.out.extend_from_slice(&head);
            match (aal, octets) {
                (Aal::Aal0, [a, b, c, d, payload @ ..]) => {
                    self.out.extend_from_slice(&[*d, *c, *b, *a]);
                    self.out.extend_from_slice(payload);
                }
                _ => self.out.extend_from_slice(octets),
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
            self.make_room();
            self.out.extend_from_slice(&Head { circuit: CircuitId::default(), octets: text.len() }.to_octets());
            self.out.extend_from_slice(text.as_bytes());
        }
    }

    /// Octets for the peer.
    pub fn poll_transmit(&self) -> &[u8] {
        &self.out[self.sent..]
    }

    /// The first `n` octets of [`Machine::poll_transmit`] are on their way.
    pub fn transmitted(&mut self, n: usize) {
        self.sent = (self.sent + n).min(self.out.len());
        while let Some((octets, _)) = frame_of_out(&self.out[self.frame_at..])
            && self.frame_at + octets <= self.sent
        {
            self.frame_at += octets;
        }
        if self.sent == self.out.len() {
            self.out.clear();
            (self.sent, self.frame_at) = (0, 0);
        }
    }

    /// Moves what is unsent to the front, from the head of the frame that is half sent, so that appending one never allocates.
    fn make_room(&mut self) {
        if self.out.capacity() - self.out.len() < HEAD_OCTETS + MAX_OCTETS {
            self.out.copy_within(self.frame_at.., 0);
            self.out.truncate(self.out.len() - self.frame_at);
            self.sent -= self.frame_at;
            self.frame_at = 0;
        }
    }
}

/// Octets of the first frame of `out`, with its head, and whether it is a control text. What is there was written here.
fn frame_of_out(out: &[u8]) -> Option<(usize, bool)> {
    let head = Head::parse(out.first_chunk()?).ok()?;
    Some((HEAD_OCTETS + head.octets, head.is_control()))
}

/// A circuit's quality of service as `qos2text` prints it. `vbr` is no word of `atmtcp`'s: it is said as `ubr` with a peak.
pub fn qos_text(notice: &CircuitNotice) -> String {
    use traffic::Category::{Abr, Cbr};
    let category = match notice.contract.category {
        Cbr => "cbr",
        Abr => "abr",
        _ => "ubr",
    };
    let aal = notice.aal.name();
    let max_sdu = match notice.aal {
        Aal::Aal5 | Aal::Aal34 => MAX_OCTETS,
        Aal::Aal0 => AAL0_FRAME_OCTETS,
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
