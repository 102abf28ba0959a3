//! Whose turn it is to send: endpoints take turns at a host, channels at an endpoint, within bounds for each and for a
//! round.

use crate::channels::EndpointId;
use crate::circuit::{Credits, Leaver};
use crate::circuits::Circuits;
use crate::events::machine::{PRESSED_QUOTA, REST};
use crate::host_endpoint::{Bounds, HostEndpoint, Run};
use crate::interface::HostInterface;
use crate::outbound::Class;
use crate::outward::{send_cells, send_frame};
use endpoint::Aal;
use net::{Carries, NodeIo};
use wire::{DropReason, Time, aal5};

/// Cells that one endpoint may send before it is the next one's turn.
const TURN_CELLS: usize = 1024;
/// Cells that one of its channels may send before it is the next one's turn; a parcel with which it begins may have
/// more.
const CHANNEL_CELLS: usize = 512;
/// Descriptors that one endpoint may have looked at in a turn.
const TURN_DESCRIPTORS: usize = 256;
/// Cells that all endpoints together may send in one round, about: a round has a bound, however many want to send.
const ROUND_SENT: usize = 16 * TURN_CELLS;

impl HostInterface {
    /// The turns of one round: all endpoints' circuits of a reserved rate, then the others. True if anything left.
    pub(crate) fn send_turns(&mut self, io: &mut NodeIo<'_>, now: Time) -> bool {
        let (first, n) = self.endpoints.turn();
        let (mut sent, mut landed) = (0, false);
        for i in 0..n {
            landed |= self.take_up((first + i) % n, now);
            sent += self.send_turn((first + i) % n, Class::Reserved, io, now);
        }
        for i in 0..n {
            sent += self.send_turn((first + i) % n, Class::Rest, io, now);
            if sent >= ROUND_SENT {
                self.endpoints.end_turn(i + 1);
                break;
            }
        }
        sent > 0 || landed
    }

    /// One endpoint's descriptors move into the queues of their channels. True if some that had left were given back.
    fn take_up(&mut self, at: usize, now: Time) -> bool {
        let Some((_, endpoint)) = self.endpoints.at(at) else { return false };
        let landed = endpoint.land();
        endpoint.outbound.handle_due(now);
        if endpoint.is_pressed() {
            endpoint.strategy.machine.handle_pressure();
        }
        // What waits in the queues of channels for the line or for pacers is no part of the quota: others are behind
        // it.
        if endpoint.quota() > 0 {
            endpoint.take_up(TURN_DESCRIPTORS);
        }
        landed
    }

    /// One endpoint's turn: its channels of a class take turns in it. Gives how many cells left.
    fn send_turn(&mut self, at: usize, class: Class, io: &mut NodeIo<'_>, now: Time) -> usize {
        let Some((id, endpoint)) = self.endpoints.at(at) else { return 0 };
        if endpoint.outbound.ready(class) == 0 {
            return 0;
        }
        let mut cells_left = TURN_CELLS;
        let mut sent = 0;
        // Channels that could not use their turn, one after another: once that is all of them, the others' turn has
        // come.
        let mut idle = 0;
        // Where all are behind to which it sends, the endpoint rests as a whole; else the channels of those who are.
        let rests = !endpoint.is_pressed() && !endpoint.is_departing() && endpoint.strategy.machine.pauses();
        while cells_left > 0 && idle < endpoint.outbound.ready(class) {
            let Some(channel) = endpoint.outbound.next_ready(class) else { break };
            let pressed = rests && endpoint.channels.at(channel).is_some_and(|open| open.pressed);
            if pressed && endpoint.strategy.machine.tells_at_ticks() && endpoint.outbound.leaving(channel).is_none() {
                endpoint.outbound.wait_until(channel, now + REST);
                continue;
            }
            match channel_turn(
                id,
                endpoint,
                channel,
                (&mut self.circuits, &mut self.credits),
                io,
                (cells_left.min(CHANNEL_CELLS), pressed),
                now,
            ) {
                Turn::Sent(0) => idle += 1,
                Turn::Sent(cells) => {
                    sent += cells;
                    idle = 0;
                    cells_left = cells_left.saturating_sub(cells);
                    if pressed && endpoint.outbound.leaving(channel).is_none() {
                        endpoint.outbound.wait_until(channel, now + REST);
                        continue;
                    }
                }
                Turn::Paced { until, cells } => {
                    sent += cells;
                    endpoint.outbound.wait_until(channel, until);
                    continue;
                }
                Turn::Unfunded { cells } => {
                    sent += cells;
                    cells_left = cells_left.saturating_sub(cells);
                    endpoint.outbound.wait_for_credit(channel);
                    continue;
                }
            }
            endpoint.outbound.again(channel);
        }
        sent
    }
}

/// What came of a channel's turn.
enum Turn {
    /// So many cells left (none: no room); it may have another turn.
    Sent(usize),
    /// After some cells its contract allows no more until then.
    Paced { until: Time, cells: usize },
    /// After some cells its circuit has no credit.
    Unfunded { cells: usize },
}

/// Sends whole SDUs of a channel, up to `most` cells: what becomes cells of AAL5, as far as the circuit's contract and credits allow
/// now. These, the link and the counters hear of all of them at once. What it leaves is for [`channel_turn`]. Returns `None` if
/// parcels in flight must be read first.
fn run_turn(
    id: EndpointId,
    endpoint: &mut HostEndpoint,
    channel: u32,
    (circuits, credits): (&mut Circuits, &mut Credits),
    io: &mut NodeIo<'_>,
    (most, pressed): (usize, bool),
    now: Time,
) -> Option<usize> {
    let open = endpoint.channels.at(channel).filter(|open| open.aal == Aal::Aal5);
    let Some(circuit) = open.and_then(|open| circuits.get_mut(open.circuit.key())) else { return Some(0) };
    let waits = circuit.points.is_some() || circuit.waits_behind(id, channel);
    let port = usize::from(circuit.config.port);
    let granted = circuit.credit.as_ref().map_or(usize::MAX, |credit| credit.sender.room() as usize);
    let parcels = io.parcel_room(port);
    let allowed = |most: usize| circuit.pacer.as_ref().map_or(most, |pacer| pacer.allowed(now, most));
    let most_pdus = if pressed { endpoint.quota().min(PRESSED_QUOTA) } else { endpoint.quota() };
    let first = if parcels.is_some() && !waits { endpoint.begins_parcel(channel) } else { None };
    let run = if waits {
        Run::default()
    } else if let (Some(room), Some(first)) = (parcels, first) {
        let (aboard, cells) = (endpoint.outbound.room_aboard(channel), aal5::cells(first.octets.into()));
        // What is under way makes room on the link, and brings credit, once it has been read.
        let soon = aboard < cells || (room < cells && !io.is_drained(port)) || (granted < cells && aboard < usize::MAX);
        if soon {
            return None;
        }
        // Its turn does not bound a parcel: all that may be aboard goes in one, since each costs a round at everybody
        // whom it passes.
        let bounds = Bounds { cells: allowed(room.min(granted)).min(aboard), pdus: most_pdus };
        endpoint.load_parcel((channel, first), circuit.id, (io, port), bounds)
    } else {
        let out = io.cells_out(port);
        let room = allowed(out.len().min(most).min(granted));
        let run = endpoint.segment_run(channel, circuit.id, &mut out[..room], (most_pdus, parcels.is_some()));
        if run.cells > 0 {
            io.commit_pdus(port, run.cells, run.pdus.into());
        }
        run
    };
    let Run { cells, pdus, octets } = run;
    if cells == 0 {
        return Some(0);
    }
    endpoint.outbound.set_class(channel, circuit.class());
    if let Some(credit) = &mut circuit.credit {
        credits.sent(circuit.id.key(), credit, cells, now);
    }
    if let Some(pacer) = &mut circuit.pacer {
        pacer.sent(cells, now);
    }
    let counted = [cells as u64, pdus.into(), octets];
    circuit.sent.pass(counted);
    endpoint.sent.pass(counted);
    Some(cells)
}

/// Sends up to `most` cells of a channel; where its receiver is behind (`pressed`), a few SDUs.
fn channel_turn(
    id: EndpointId,
    endpoint: &mut HostEndpoint,
    channel: u32,
    (circuits, credits): (&mut Circuits, &mut Credits),
    io: &mut NodeIo<'_>,
    (most, pressed): (usize, bool),
    now: Time,
) -> Turn {
    let mut left = 0;
    for _ in 0..TURN_DESCRIPTORS {
        if left >= most || (pressed && left > 0 && !endpoint.outbound.is_leaving(channel)) {
            break;
        }
        let bounds = (most - left, pressed);
        let Some(cells) = run_turn(id, endpoint, channel, (circuits, credits), io, bounds, now) else { break };
        if cells > 0 {
            left += cells;
            continue;
        }
        let begins = endpoint.quota().min(TURN_DESCRIPTORS as u32) as usize;
        if !endpoint.begin(channel, begins) {
            endpoint.used_up |= begins == 0;
            break;
        }
        let key = endpoint.outbound.leaving(channel).map(|leaving| leaving.channel.circuit.key());
        let Some(circuit) = key.and_then(|key| circuits.get_mut(key)) else {
            endpoint.sent.drop_one(DropReason::UnknownCircuit);
            endpoint.done(channel);
            left += 1;
            continue;
        };
        endpoint.outbound.set_class(channel, circuit.class());
        let Some(leaving) = endpoint.outbound.leaving(channel) else { break };
        if leaving.channel.aal != Aal::Oam && circuit.waits_behind(id, channel) {
            // Who had the circuit before is in the middle of a PDU.
            break;
        }
        let port = usize::from(circuit.config.port);
        let sent = match io.carries(port) {
            // A host without a link is like an unplugged fibre.
            None => {
                circuit.sent.drop_one(DropReason::LinkDown);
                endpoint.sent.drop_one(DropReason::LinkDown);
                endpoint.done(channel);
                left += 1;
                continue;
            }
            Some(Carries::Cells) => {
                let granted = circuit.credit.as_ref().map_or(usize::MAX, |credit| credit.sender.room() as usize);
                if granted == 0 {
                    return Turn::Unfunded { cells: left };
                }
                let most = granted.min(most - left);
                send_cells(leaving, &endpoint.path, &endpoint.segment, circuit, io, most, now)
            }
            Some(Carries::Frames) => send_frame(leaving, &endpoint.path, &endpoint.segment, circuit, io, now),
        };
        if let Some(until) = sent.paced {
            return Turn::Paced { until, cells: left };
        }
        if sent.cells == 0 {
            break;
        }
        left += sent.cells;
        if let Some(credit) = &mut circuit.credit {
            credits.sent(circuit.id.key(), credit, sent.cells, now);
        }
        endpoint.sent.cells = endpoint.sent.cells.wrapping_add(sent.cells as u64);
        circuit.sent.cells = circuit.sent.cells.wrapping_add(sent.cells as u64);
        let monitoring = circuit.has_oam_output(now).then_some(circuit.id.key());
        if sent.done {
            let (octets, aborted) = (leaving.octets as u64, leaving.aborted);
            let is_oam = leaving.channel.aal == Aal::Oam && !aborted;
            if is_oam {
                endpoint.note_oam_sent();
            }
            if aborted {
                circuit.sent.drop_one(DropReason::Closed);
                endpoint.sent.drop_one(DropReason::Closed);
            } else if !is_oam {
                circuit.sent.pass([0, 1, octets]);
                endpoint.sent.pass([0, 1, octets]);
            }
            if aborted {
                circuit.departing.retain(|leaver| *leaver != Leaver { endpoint: id, place: Some(channel) });
            }
            endpoint.done(channel);
        }
        if let Some(key) = monitoring {
            circuits.wake_point(key);
        }
    }
    Turn::Sent(left)
}
