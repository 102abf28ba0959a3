//! Frames of circuits as messages between interfaces.

use super::counted::{PortSums, of_circuits};
use super::layout::{CIRCUITS, Layout, Region, SLOTS, place};
use super::table::{Table, Way};
use crate::network::{Network, Station};
use crate::packet::tag::{Layer, TAG_OCTETS, Tag};
use crate::{Destination, Event, LanaiSums};
use bus::memory::HostMemory;
use net::{Frame, FrameAal, NodeIo};
use sar::SduMeta;
use wire::{Counters, DropReason};

/// Frames of one port that one run takes at most.
const FRAMES_PER_RUN: usize = 64;

/// A host's port: what of its circuits is under way.
#[derive(Debug, Default)]
pub(super) struct Port {
    sending: Vec<Message>,
    pub(super) sent: Counters,
    pub(super) received: Counters,
    pub(super) sums: PortSums,
}

/// A message that is under way: its number, its place in the copy block (none for one that was sent immediately), the octets of
/// its SDU.
#[derive(Debug)]
struct Message {
    number: u32,
    slot: Option<u8>,
    octets: u64,
}

impl Port {
    pub(super) fn under_way(&self) -> usize {
        self.sending.len()
    }

    /// Its interface is another, and what the old one had under way is lost.
    pub(super) fn forget(&mut self, old: LanaiSums) {
        self.sent.drop_n(DropReason::LinkDown, self.sending.len() as u64);
        self.sending.clear();
        let untold = of_circuits(&old.untold);
        self.received.drop_n(DropReason::LinkDown, untold);
        self.sums.former.add(&old.ended());
    }

    fn free_slot(&self) -> Option<u8> {
        (0..SLOTS as u8).find(|slot| self.sending.iter().all(|message| message.slot != Some(*slot)))
    }

    /// Takes frames off the link as long as the interface has room; others wait on the link. True if there were any.
    pub(super) fn take_frames(&mut self, n: usize, network: &mut Network, table: &Table, io: &mut NodeIo<'_>) -> bool {
        let mut any = false;
        let Some(station) = network.station(n) else { return false };
        for _ in 0..FRAMES_PER_RUN {
            if self.sending.len() >= 2 * SLOTS {
                break;
            }
            let Some((frame, sdu)) = io.frame_in(n) else { break };
            let (circuit, octets) = (frame.circuit, sdu.len() as u64);
            let way = table.way(n as u16, circuit);
            let to = match way {
                Some((Way::Port(port), _)) => Ok(Destination::Host(Layout::address(port.into()), CIRCUITS as u8)),
                Some((Way::Group(group), _)) => Ok(Destination::Group(group)),
                None => Err(DropReason::UnknownCircuit),
            };
            let route = way.map_or(0, |(_, route)| route);
            let mapped = |to: &Destination| match to {
                Destination::Host(address, _) => station.lanai.mapping().route(*address).is_some(),
                Destination::Group(_) => true,
            };
            let message = match to {
                Ok(to) if mapped(&to) => send(station, to, &tag(frame, route).emit(), sdu, self.free_slot()),
                Ok(_) => Err(DropReason::LinkDown),
                Err(reason) => Err(reason),
            };
            match message {
                Ok(Some((number, slot))) => self.sending.push(Message { number, slot, octets }),
                Ok(None) => break,
                Err(reason) => self.sent.drop_one(reason),
            }
            io.release_frame(n);
            self.sums.taken += 1;
            any = true;
        }
        any
    }
}

fn tag(frame: &Frame, route: u16) -> Tag {
    let layer = match frame.aal {
        FrameAal::Aal0 => Layer::Aal0,
        FrameAal::Aal34 => Layer::Aal34,
        FrameAal::Aal5 => Layer::Aal5,
    };
    let SduMeta { uu, cpi, clp, congestion } = frame.meta;
    Tag { layer, uu, cpi, clp, congestion, circuit: frame.circuit, route }
}

/// Queues a message, written into the SRAM if it is short enough for that, else by way of the copy block; `None` if there is no room.
fn send(
    station: &mut Station,
    to: Destination,
    tag: &[u8; TAG_OCTETS],
    sdu: &[u8],
    slot: Option<u8>,
) -> Result<Option<(u32, Option<u8>)>, DropReason> {
    use crate::Refused;
    let queued = |result: Result<u32, Refused>, slot| match result {
        Ok(number) => Ok(Some((number, slot))),
        Err(Refused::Full) => Ok(None),
        Err(_) => Err(DropReason::Oversize),
    };
    if station.lanai.takes_immediately(TAG_OCTETS + sdu.len()) {
        return queued(station.lanai.send_immediate(CIRCUITS, to, &[&tag[..], sdu].concat()), None);
    }
    let Some(slot) = slot else { return Ok(None) };
    let address = place(Region::Send, slot.into());
    let written =
        station.memory.write(address, tag).and_then(|()| station.memory.write(address + tag.len() as u64, sdu));
    if written.is_err() {
        return Err(DropReason::Oversize);
    }
    queued(station.lanai.send(CIRCUITS, to, address, (tag.len() + sdu.len()) as u32), Some(slot))
}

/// What has happened to a circuit's message.
pub(super) fn handle(
    number: usize,
    event: Event,
    station: &mut Station,
    ports: &mut [Port],
    table: &Table,
    io: &mut NodeIo<'_>,
) {
    let Some(port) = ports.get_mut(number) else { return };
    match event {
        Event::Sent { number: message, whole, .. } => {
            let Some(at) = port.sending.iter().position(|sending| sending.number == message) else { return };
            let Message { octets, .. } = port.sending.remove(at);
            if whole {
                port.sent.pass([0, 1, octets]);
            } else {
                // Its way was lost since it was queued.
                port.sent.drop_one(DropReason::LinkDown);
            }
        }
        Event::Received { from, buffer, octets, .. } => {
            let message = station.memory.slice(buffer.address, octets as usize).unwrap_or_default();
            match deliver(number, from, message, table, io) {
                Ok(octets) => {
                    port.received.pdus += 1;
                    port.received.octets += octets as u64;
                }
                Err(reason) => port.received.drop_one(reason),
            }
            // It was posted before, so there is room for it.
            let _ = station.lanai.post(CIRCUITS, buffer);
        }
    }
}

/// A message becomes a frame on the link of its receiver.
fn deliver(port: usize, from: u64, message: &[u8], table: &Table, io: &mut NodeIo<'_>) -> Result<usize, DropReason> {
    let (tag, sdu) = Tag::parse(message).map_err(|_| DropReason::Malformed)?;
    let from = from.checked_sub(Layout::address(0)).and_then(|n| u16::try_from(n).ok());
    let from = from.ok_or(DropReason::UnknownCircuit)?;
    let circuit = table.out(from, tag.circuit, tag.route, port as u16)?;
    let aal = match tag.layer {
        Layer::Aal0 => FrameAal::Aal0,
        Layer::Aal34 => FrameAal::Aal34,
        Layer::Aal5 => FrameAal::Aal5,
    };
    let Tag { uu, cpi, clp, congestion, .. } = tag;
    let meta = SduMeta { uu, cpi, clp, congestion };
    let frame = io.pool_mut().copy_in(circuit, aal, meta, sdu).ok_or(DropReason::NoBuffer)?;
    match io.put_frame(port, frame) {
        Ok(()) => Ok(sdu.len()),
        Err(frame) => {
            io.pool_mut().release(frame);
            Err(DropReason::QueueFull)
        }
    }
}
