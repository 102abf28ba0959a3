//! All circuits of an application: which handler runs for what comes, areas of memory, bulk transfers.
//!
//! In: requests of the application, messages that came on a circuit, the time. Out: messages for circuits, calls of
//! handlers with the application's state. Nothing here reads a clock or waits.

use crate::Error;
use crate::bulk::{Area, AreaId, Rights, Transfer, TransferId, What, range};
use crate::message::{Kind, Message};
use crate::peer::{Config, Peer, PeerId};
use std::collections::{HashMap, VecDeque};
use wire::{Counters, DropReason, Time};

/// What runs when a message has come: the application's state, and the message.
pub type Handler<S> = fn(&mut S, &mut Call<'_>);

/// In a put's fourth word: not its last piece.
const MORE: u32 = u32::MAX;

/// A message in its handler's hands.
#[derive(Debug)]
pub struct Call<'a> {
    /// Whom it is from.
    pub from: PeerId,
    words: &'a [u32],
    /// Its octets; of a put, all that was stored.
    pub payload: &'a [u8],
    /// Its circuit, as long as a reply is possible.
    peer: Option<&'a mut Peer>,
}

impl Call<'_> {
    /// Its words; of a put, area, offset and octets.
    pub const fn words(&self) -> &[u32] {
        self.words
    }

    /// Word `n`; zero, if it has not so many.
    pub fn word(&self, n: usize) -> u32 {
        self.words.get(n).copied().unwrap_or(0)
    }

    /// Replies. There is always room for a request's one reply.
    ///
    /// # Errors
    /// No request, or one that has been replied to; too many words or octets.
    pub fn reply(&mut self, handler: u8, words: &[u32], payload: &[u8]) -> Result<(), Error> {
        let peer = self.peer.as_mut().ok_or(Error::NoReply)?;
        peer.push(Kind::Reply, handler, words, [payload, &[]])?;
        self.peer = None;
        Ok(())
    }
}

/// See the module's head.
#[derive(Debug)]
pub struct Node<S> {
    peers: Vec<Peer>,
    handlers: Box<[Option<Handler<S>>]>,
    areas: HashMap<AreaId, Area>,
    transfers: VecDeque<Transfer>,
    ended: VecDeque<(TransferId, Result<(), Error>)>,
    next_transfer: u32,
    config: Config,
    counters: Counters,
}

impl<S> Node<S> {
    /// A node with so many circuits, on which nothing has been sent yet.
    pub fn new(peers: usize, config: Config) -> Self {
        let config = config.checked();
        Node {
            peers: (0..peers).map(|_| Peer::new(config)).collect(),
            handlers: vec![None; 256].into(),
            areas: HashMap::new(),
            transfers: VecDeque::with_capacity(config.transfers),
            ended: VecDeque::with_capacity(config.transfers),
            next_transfer: 0,
            config,
            counters: Counters::default(),
        }
    }

    /// Sets what runs for messages of this number.
    pub fn handle_with(&mut self, number: u8, handler: Handler<S>) {
        self.handlers[usize::from(number)] = Some(handler);
    }

    /// Circuits.
    pub fn peers(&self) -> impl Iterator<Item = PeerId> + use<S> {
        (0..self.peers.len()).map(PeerId)
    }

    /// One circuit's state.
    pub fn peer(&self, peer: PeerId) -> Option<&Peer> {
        self.peers.get(peer.0)
    }

    fn peer_mut(&mut self, peer: PeerId) -> Result<&mut Peer, Error> {
        self.peers.get_mut(peer.0).ok_or(Error::NoPeer(peer.0))
    }

    /// Sends a request: the peer's handler of this number will run, once.
    ///
    /// # Errors
    /// [`Error::Busy`] without a grant: handle what comes, and ask again. Too many words or octets; the peer is lost.
    #[inline]
    pub fn request(&mut self, peer: PeerId, handler: u8, words: &[u32], payload: &[u8]) -> Result<(), Error> {
        self.peer_mut(peer)?.push(Kind::Request, handler, words, [payload, &[]])
    }

    /// Registers memory that others may put into or get from, instead of what had this number.
    pub fn register(&mut self, area: AreaId, octets: Vec<u8>, rights: Rights) {
        self.areas.insert(area, Area { octets, rights });
    }

    /// What an area has.
    pub fn area(&self, area: AreaId) -> Option<&[u8]> {
        self.areas.get(&area).map(|area| &area.octets[..])
    }

    /// The same to write.
    pub fn area_mut(&mut self, area: AreaId) -> Option<&mut [u8]> {
        self.areas.get_mut(&area).map(|area| &mut area.octets[..])
    }

    /// Stores `data` in the peer's area at `offset`. When all is there, the peer's handler of this number runs with area,
    /// offset and octets as its words; then [`Node::poll_ended`] tells of the transfer here.
    ///
    /// # Errors
    /// No such peer, one that is lost, or as many transfers as may be at once.
    pub fn put(
        &mut self,
        peer: PeerId,
        area: AreaId,
        offset: u32,
        data: Vec<u8>,
        handler: u8,
    ) -> Result<TransferId, Error> {
        self.begin(peer, area, offset, What::Put { data, handler })
    }

    /// Copies `octets` octets of the peer's area at `offset` into an area here, at `at`.
    ///
    /// # Errors
    /// As [`Node::put`]; the area here has not so much.
    pub fn get(
        &mut self,
        peer: PeerId,
        area: AreaId,
        offset: u32,
        octets: usize,
        (into, at): (AreaId, u32),
    ) -> Result<TransferId, Error> {
        let room = self.areas.get(&into).and_then(|area| range(area.octets.len(), at, octets));
        room.ok_or(Error::Area)?;
        self.begin(peer, area, offset, What::Get { octets, into, at })
    }

    fn begin(&mut self, peer: PeerId, area: AreaId, offset: u32, what: What) -> Result<TransferId, Error> {
        if self.peer_mut(peer)?.is_lost() {
            return Err(Error::Lost);
        }
        if self.transfers.len() + self.ended.len() >= self.config.transfers {
            return Err(Error::Busy);
        }
        let id = TransferId(self.next_transfer);
        self.next_transfer = self.next_transfer.wrapping_add(1);
        let transfer = Transfer { id, peer, area, offset, what, begun: 0, come: 0 };
        if transfer.octets().saturating_add(offset as usize) >= MORE as usize {
            return Err(Error::Area);
        }
        self.transfers.push_back(transfer);
        Ok(id)
    }

    /// A transfer that has ended, and how.
    pub fn poll_ended(&mut self) -> Option<(TransferId, Result<(), Error>)> {
        self.ended.pop_front()
    }

    fn end(&mut self, id: u32, from: PeerId, result: Result<(), Error>) {
        let place = self.transfers.iter().position(|t| t.id.0 == id && t.peer == from);
        if let Some(transfer) = place.and_then(|place| self.transfers.remove(place)) {
            self.ended.push_back((transfer.id, result));
        }
    }

    /// Gives transfers to their circuits, as far as there are grants.
    fn pump(&mut self) {
        let most = self.config.payload_octets;
        for transfer in &mut self.transfers {
            let Some(peer) = self.peers.get_mut(transfer.peer.0) else { continue };
            // A put of no octets has one piece.
            while !transfer.is_begun() || transfer.octets() == 0 && transfer.come == 0 {
                if peer.credits() == 0 {
                    peer.wait_for_grant();
                    break;
                }
                let piece = transfer.next_piece(most);
                let (id, area) = (transfer.id.0, transfer.area.0);
                let at = transfer.offset + piece.start as u32;
                let pushed = match &transfer.what {
                    What::Put { data, handler } => {
                        let first = if piece.end == data.len() { transfer.offset } else { MORE };
                        peer.push(Kind::Put, *handler, &[area, at, id, first], [&data[piece.clone()], &[]])
                    }
                    What::Get { .. } => peer.push(Kind::Get, 0, &[area, at, piece.len() as u32, id], [&[], &[]]),
                };
                if pushed.is_err() {
                    break;
                }
                transfer.begun = piece.end;
                // What has been sent of an empty transfer is counted here.
                transfer.come += usize::from(transfer.octets() == 0);
            }
        }
    }

    /// Takes a message that came on a circuit and runs its handler.
    #[inline]
    pub fn handle(&mut self, from: PeerId, octets: &[u8], state: &mut S, now: Time) {
        let Some(peer) = self.peers.get_mut(from.0) else { return };
        let Some(message) = peer.handle(octets, now) else { return };
        match message.kind {
            Kind::Request | Kind::Reply => {
                let Some(handler) = self.handlers[usize::from(message.handler)] else {
                    self.counters.drop_one(DropReason::NotOpen);
                    return;
                };
                let peer = (message.kind == Kind::Request).then_some(peer);
                handler(state, &mut Call { from, words: message.words(), payload: message.payload, peer });
            }
            Kind::Put => self.store(from, &message, state),
            Kind::Get => self.fetch(from, &message),
            Kind::Piece => self.keep(from, &message),
            Kind::Stored => self.end(message.word(0), from, Ok(())),
            Kind::Refused => self.end(message.word(0), from, Err(Error::Area)),
            Kind::Acknowledge | Kind::Missing | Kind::Probe => {}
        }
    }

    /// A piece of a put has come.
    fn store(&mut self, from: PeerId, message: &Message<'_>, state: &mut S) {
        let [area, at, id, first] = [0, 1, 2, 3].map(|n| message.word(n));
        let stored = self.areas.get_mut(&AreaId(area)).filter(|area| area.rights.write).and_then(|area| {
            let place = range(area.octets.len(), at, message.payload.len())?;
            area.octets[place.clone()].copy_from_slice(message.payload);
            (first == MORE || first as usize <= place.end).then_some(place.end)
        });
        let Some(end) = stored else {
            self.counters.drop_one(DropReason::NotPermitted);
            self.answer(from, Kind::Refused, id, &[]);
            return;
        };
        if first == MORE {
            return;
        }
        if let (Some(handler), Some(area)) =
            (self.handlers[usize::from(message.handler)], self.areas.get(&AreaId(area)))
        {
            let whole = first as usize..end;
            let words = [message.word(0), first, whole.len() as u32];
            let mut call = Call { from, words: &words, payload: &area.octets[whole], peer: None };
            handler(state, &mut call);
        }
        self.answer(from, Kind::Stored, id, &[]);
    }

    /// A piece is asked for.
    fn fetch(&mut self, from: PeerId, message: &Message<'_>) {
        let [area, at, octets, id] = [0, 1, 2, 3].map(|n| message.word(n));
        let most = self.config.payload_octets;
        let area = self.areas.get(&AreaId(area)).filter(|area| area.rights.read && octets as usize <= most);
        let piece = area.and_then(|area| Some(&area.octets[range(area.octets.len(), at, octets as usize)?]));
        let pushed = match (piece, self.peers.get_mut(from.0)) {
            (Some(piece), Some(peer)) => peer.push(Kind::Piece, 0, &[id], [piece, &[]]),
            _ => {
                self.counters.drop_one(DropReason::NotPermitted);
                self.answer(from, Kind::Refused, id, &[]);
                return;
            }
        };
        debug_assert!(pushed.is_ok(), "a request's reply has a slot: {pushed:?}");
    }

    /// What was asked for has come: replies are in the order of their requests.
    fn keep(&mut self, from: PeerId, message: &Message<'_>) {
        let id = message.word(0);
        let Some(transfer) = self.transfers.iter_mut().find(|t| t.id.0 == id && t.peer == from) else { return };
        let (come, begun, total) = (transfer.come, transfer.begun, transfer.octets());
        let What::Get { into, at, .. } = transfer.what else { return };
        let piece = message.payload;
        // Not more than was asked for, and into the area that was checked, if it is as it was.
        let place = (come + piece.len() <= begun).then(|| at + come as u32);
        let area = self.areas.get_mut(&into);
        let kept = place.zip(area).and_then(|(place, area)| {
            let place = range(area.octets.len(), place, piece.len())?;
            area.octets[place].copy_from_slice(piece);
            Some(())
        });
        if kept.is_none() {
            self.counters.drop_one(DropReason::NotPermitted);
            return self.end(id, from, Err(Error::Area));
        }
        transfer.come += piece.len();
        if transfer.come >= total {
            self.end(id, from, Ok(()));
        }
    }

    fn answer(&mut self, to: PeerId, kind: Kind, id: u32, payload: &[u8]) {
        if let Some(peer) = self.peers.get_mut(to.0) {
            let pushed = peer.push(kind, 0, &[id], [payload, &[]]);
            debug_assert!(pushed.is_ok(), "a request's reply has a slot: {pushed:?}");
        }
    }

    /// The next octets for a circuit; the same ones, until [`Node::sent`] says that they have left.
    #[inline]
    pub fn poll_transmit(&mut self, peer: PeerId, now: Time) -> Option<&[u8]> {
        if !self.transfers.is_empty() {
            self.pump();
        }
        self.peers.get_mut(peer.0)?.poll_transmit(now)
    }

    /// What [`Node::poll_transmit`] gave has left.
    #[inline]
    pub fn sent(&mut self, peer: PeerId, now: Time) {
        if let Some(peer) = self.peers.get_mut(peer.0) {
            peer.sent(now);
        }
    }

    /// When [`Node::handle_timeout`] is to be called.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.peers.iter().filter_map(Peer::poll_timeout).min()
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Time) {
        for n in 0..self.peers.len() {
            let peer = &mut self.peers[n];
            peer.handle_timeout(now);
            if peer.is_lost() {
                self.end_lost(PeerId(n));
            }
        }
    }

    /// Transfers with a peer that was given up end.
    fn end_lost(&mut self, peer: PeerId) {
        while let Some(id) = self.transfers.iter().find(|t| t.peer == peer).map(|t| t.id.0) {
            self.end(id, peer, Err(Error::Lost));
        }
    }

    /// Messages that no handler was there for; transfers that an area did not allow. Each circuit has its own beside.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }
}
