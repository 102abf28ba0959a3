//! A device at the outside end of a frame link, on the thread of the network: a packet is read into the frame that
//! crosses the network, and written from it. No ring, no other thread is between the device and the switch.

use super::passage::{Carrier, Passage};
use super::{Device, Settings};
use crate::ip::{Config, IpInterface};
use net::{CircuitNotice, External, Frame, FrameAal, NodeIo};
use sar::SduMeta;
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use wire::{CircuitId, Counters, DropReason, Time};

/// SDUs of the link that are taken in a round.
const ROUND: usize = 256;

impl Carrier for NodeIo<'_> {
    type Buffer = Frame;

    fn take(&mut self) -> Option<Frame> {
        let octets = self.pool().buffer_octets();
        self.pool_mut().allocate(CircuitId::default(), FrameAal::Aal5, SduMeta::default(), octets)
    }

    fn octets<'a>(&'a mut self, frame: &'a mut Frame) -> &'a mut [u8] {
        self.pool_mut().octets_mut(frame).unwrap_or_default()
    }

    fn both<'a>(&'a mut self, from: &'a Frame, to: &'a mut Frame) -> (&'a [u8], &'a mut [u8]) {
        self.pool_mut().octets_of_two(from, to).unwrap_or_default()
    }

    fn give_back(&mut self, frame: Frame) {
        self.pool_mut().release(frame);
    }

    fn has_room(&mut self) -> bool {
        self.room(0) > 0
    }

    fn send(&mut self, circuit: u32, mut frame: Frame, octets: usize) -> bool {
        frame.circuit = CircuitId::from_key(circuit);
        frame.truncate(octets);
        self.put_frame(0, frame).map_err(|frame| self.pool_mut().release(frame)).is_ok()
    }
}

/// An IP interface with its device, as what is outside at a link. Its circuits are the link's.
#[derive(Debug)]
pub struct Line {
    passage: Passage<Frame>,
    name: String,
    /// Peers that the user has named.
    peers: BTreeMap<CircuitId, IpAddr>,
    /// The circuit to the ATMARP server, once it exists.
    server: Option<CircuitId>,
    now: Time,
    gone: Option<String>,
}

impl Line {
    /// Makes the device. `peers` are static; `server` is the circuit to an ATMARP server.
    ///
    /// # Errors
    /// No right to make a device (`CAP_NET_ADMIN`), no `/dev/net/tun`, no such namespace.
    pub fn new(settings: &Settings, peers: BTreeMap<CircuitId, IpAddr>, server: Option<CircuitId>) -> io::Result<Self> {
        let device = Device::new(&settings.device())?;
        let ip = &settings.ip;
        let ip = IpInterface::new(Config { offload: ip.offload && device.has_header(), ..ip.clone() });
        let passage = Passage::new(device, ip)?;
        Ok(Line { passage, name: settings.name.clone(), peers, server, now: Time::ZERO, gone: None })
    }

    /// The interface: routes, servers, peers, counters.
    pub fn ip(&mut self) -> &mut IpInterface {
        &mut self.passage.ip
    }

    /// What went to circuits and what came from them.
    pub fn counters(&self) -> (&Counters, &Counters) {
        (&self.passage.ip.sent, &self.passage.ip.received)
    }

    /// The device has gone: nothing passes any more, `status` says why, and what still comes is counted `link_down`.
    fn end(&mut self, why: &io::Error, io: &mut NodeIo<'_>) {
        tracing::error!("interface {}: {why}; SIGHUP makes it again", self.name);
        self.gone = Some(why.to_string());
        let waiting = self.passage.clear(io);
        self.passage.ip.sent.drop_n(DropReason::LinkDown, waiting);
    }
}

impl External for Line {
    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.passage.device.as_fd())
    }

    fn keeps_fd(&self) -> bool {
        true
    }

    fn wants_read(&self) -> bool {
        self.gone.is_none() && !self.passage.is_blocked()
    }

    fn wants_write(&self) -> bool {
        false
    }

    fn handle_readable(&mut self, io: &mut NodeIo<'_>, now: Time) {
        self.now = now;
        if self.gone.is_none()
            && let Err(e) = self.passage.turn(io, now)
        {
            self.end(&e, io);
        }
    }

    fn handle_writable(&mut self, _: &mut NodeIo<'_>, _: Time) {}

    fn run(&mut self, io: &mut NodeIo<'_>, now: Time) -> bool {
        self.now = now;
        if self.gone.is_some() {
            return false;
        }
        self.passage.ip.handle_timeout(now);
        let mut any = self.passage.speak(io);
        let mut has_written = false;
        for _ in 0..ROUND {
            let Some((frame, sdu)) = io.frame_in(0) else { break };
            let delivered = match frame.aal {
                FrameAal::Aal5 => self.passage.deliver(frame.circuit.key(), sdu, now),
                FrameAal::Aal0 | FrameAal::Aal34 => {
                    self.passage.ip.received.drop_one(DropReason::WrongAal);
                    Ok(())
                }
            };
            io.release_frame(0);
            has_written = true;
            if let Err(e) = delivered {
                self.passage.ip.received.drop_one(DropReason::LinkDown);
                self.end(&e, io);
                return true;
            }
        }
        if let Err(e) = self.passage.flush() {
            self.end(&e, io);
            return true;
        }
        any |= has_written;
        if (has_written && self.passage.may_answer()) || self.passage.is_blocked() || self.passage.ip.has_kept() {
            // Or room has come, or a buffer, or an address: what waits goes first.
            match self.passage.turn(io, now) {
                Ok(moved) => any |= moved,
                Err(e) => self.end(&e, io),
            }
        }
        any
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.passage.ip.poll_timeout().filter(|_| self.gone.is_none())
    }

    fn is_up(&self) -> bool {
        self.gone.is_none()
    }

    fn has_ended(&self) -> bool {
        self.gone.is_some()
    }

    fn status(&self) -> String {
        if let Some(why) = &self.gone {
            return format!("{}: {why}", self.name);
        }
        let ip = &self.passage.ip;
        let (all, known) = (ip.circuit_count(), ip.known_circuits());
        format!("{}: {}, {known} peers known on {all} circuits", self.name, ip.config().addresses_text())
    }

    fn set_circuit(&mut self, circuit: CircuitId, what: Option<CircuitNotice>) {
        let ip = &mut self.passage.ip;
        let key = circuit.key();
        let known = ip.has_circuit(key);
        match what {
            Some(notice) if notice.aal == FrameAal::Aal5 && !known => {
                ip.add_circuit_of(key, self.peers.get(&circuit).copied(), self.now);
                if self.server == Some(circuit) {
                    ip.use_server(key, self.now);
                }
            }
            None if known => ip.remove_circuit(key),
            _ => {}
        }
    }
}
