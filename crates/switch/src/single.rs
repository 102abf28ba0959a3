//! A cell that is alone, with other circuits' cells before and behind it: the ways that most of these go, each with its
//! parts in one place. It is what `forward` comes to for such a cell, with a third of the instructions.

use crate::circuit::{Circuit, ends_pdu, flag};
use crate::forward::{admit_all, count_cells};
use crate::port::Port;
use crate::store::Store;
use crate::{CellPlane, Outputs};
use core::hint::select_unpredictable;
use wire::{Cell, DropReason};

impl CellPlane {
    /// Takes a cell of user data whose acceptance is certain. Otherwise nothing has changed.
    #[inline(always)]
    pub(crate) fn take_single(&mut self, id: u32, cell: &Cell, outputs: &mut impl Outputs) -> bool {
        const ASKED: u8 = flag::LIVE | flag::POLICED | flag::CREDIT | flag::ROOT | flag::MANAGED;
        let Some(circuit) = self.circuits.get(id as usize) else { return false };
        match circuit.flags & ASKED {
            flag::LIVE => self.take_plain(id, cell, outputs),
            asked if asked & !flag::POLICED == flag::LIVE | flag::MANAGED => self.take_managed(id, cell, outputs),
            _ => false,
        }
    }

    /// Of a circuit without policing, contract, credits and leaves.
    #[inline(always)]
    fn take_plain(&mut self, id: u32, cell: &Cell, outputs: &mut impl Outputs) -> bool {
        let CellPlane { circuits, ports, profiles, store, pool, .. } = self;
        let circuit = &mut circuits[id as usize];
        let port = &mut ports[usize::from(circuit.port)];
        let profile = profiles.get(circuit.profile);
        if !admit_all(circuit, port, profile, std::slice::from_ref(cell)) {
            return false;
        }
        circuit.received = circuit.received.wrapping_add(1);
        let leaves_as = circuit.translate(cell.header_word());
        if send_at_once(circuit, port, cell, leaves_as, outputs) || !append(circuit, port, store, cell, leaves_as) {
            return true;
        }
        if !circuit.is(flag::LISTED) {
            circuit.flags |= flag::LISTED;
            port.classes[profile.class as usize].queue.push(pool, id);
            port.ready += 1;
        }
        true
    }

    /// Of a circuit with a contract: below its peak rate, if it is policed, which must be all that is tested, and where
    /// the port's queue is so short that no policy asks for the cell.
    #[inline(never)]
    fn take_managed(&mut self, id: u32, cell: &Cell, outputs: &mut impl Outputs) -> bool {
        let CellPlane { circuits, ports, profiles, store, pool, contracts, batch, now, .. } = self;
        let circuit = &mut circuits[id as usize];
        let port = &mut ports[usize::from(circuit.port)];
        let (profile, gate) = (profiles.get(circuit.profile), profiles.gate(circuit.profile));
        let word = cell.header_word();
        let calm = profile.calm_cells().is_some_and(|most| port.used < most);
        // Of a frame only the first cell is tested.
        if !calm | batch.frame.is_some() {
            return false;
        }
        let mut times = circuit.times;
        if circuit.is(flag::POLICED) {
            let (passes, theoretical) = gate.test(times[0], batch.time_of(cell));
            if !passes {
                return false;
            }
            times[0] = theoretical;
        }
        if !admit_all(circuit, port, profile, std::slice::from_ref(cell)) {
            return false;
        }
        circuit.times = times;
        circuit.received = circuit.received.wrapping_add(1);
        let leaves_as = circuit.translate(word);
        let shape = profile.shape.as_ref();
        let paced = shape.is_some_and(|shape| shape.is_paced());
        if !paced && send_at_once(circuit, port, cell, leaves_as, outputs)
            || !append(circuit, port, store, cell, leaves_as)
        {
            return true;
        }
        if let Some(shape) = shape {
            port.ready += u32::from(contracts.note_backlog(circuit.side, shape, *now));
        }
        if !paced && !circuit.is(flag::LISTED) {
            circuit.flags |= flag::LISTED;
            port.classes[profile.class as usize].queue.push(pool, id);
            port.ready += 1;
        }
        true
    }
}

/// Copies the cell to the port's link, if nothing waits before it and the link has room.
#[inline(always)]
fn send_at_once(
    circuit: &mut Circuit,
    port: &mut Port,
    cell: &Cell,
    leaves_as: u32,
    outputs: &mut impl Outputs,
) -> bool {
    if circuit.queued != 0 || !port.is_idle() {
        return false;
    }
    let Some(slot) = outputs.slots(circuit.port).first_mut() else { return false };
    slot.copy_as(cell, leaves_as);
    let word = cell.header_word();
    circuit.sent_part = select_unpredictable(word & 8 == 0, !ends_pdu(word), circuit.sent_part);
    let pdus = u64::from(ends_pdu(word));
    outputs.commit_pdus(circuit.port, 1, pdus);
    count_cells(&mut port.counters.sent, 1, pdus);
    true
}

/// Appends the cell to its circuit's queue; false if the store is full, and it was dropped.
#[inline(always)]
fn append(circuit: &mut Circuit, port: &mut Port, store: &mut Store, cell: &Cell, leaves_as: u32) -> bool {
    let Some(at) = store.put(cell, leaves_as) else {
        circuit.dropped = circuit.dropped.wrapping_add(1);
        port.counters.sent.drop_one(DropReason::QueueFull);
        return false;
    };
    if circuit.queued == 0 {
        circuit.head = at;
    } else {
        store.link(circuit.tail, at);
    }
    circuit.tail = at;
    circuit.queued += 1;
    port.used += 1;
    true
}
