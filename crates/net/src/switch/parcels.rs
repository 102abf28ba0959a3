//! Cells that come in, and parcels in their places among them ([`crate::parcel`]).

use super::SwitchElement;
use super::visit::{Mark, Visit};
use crate::node::NodeIo;
use crate::parcel::Parcel;
use wire::{CircuitId, Time};

impl SwitchElement {
    /// Takes cells that came in at `port`, `left` at most, and parcels in their places among them. Gives how many more
    /// it might take.
    pub(super) fn take_cells(
        &mut self,
        port: usize,
        io: &mut NodeIo<'_>,
        now: Time,
        visit: Visit,
        mut left: usize,
    ) -> usize {
        while left > 0 && !visit.is_over(io) {
            let mark = Mark::now(io, &self.cells);
            let most = left.min(visit.at_once(io, &self.cells));
            let mut taken = 0;
            io.forward(port, |cells, out| {
                taken = cells.len().min(most);
                if taken > 0 {
                    self.cells.handle_cells(port as u16, &cells[..taken], now, out);
                }
                taken
            });
            mark.count(taken, io, &self.cells);
            left -= taken;
            if taken == most {
                continue;
            }
            let Some(parcel) = io.take_parcel(port) else { break };
            let (mark, cells) = (Mark::now(io, &self.cells), parcel.cells());
            left = left.saturating_sub(cells);
            self.pass_parcel(port, parcel, io, now);
            mark.count(cells, io, &self.cells);
        }
        left
    }

    /// Passes a parcel on, or the cells that it stands for.
    fn pass_parcel(&mut self, port: usize, mut parcel: Parcel, io: &mut NodeIo<'_>, now: Time) {
        let (header_word, cells, pdus) = (parcel.header_word(), parcel.cells(), parcel.pdus());
        let room = |port: u16| io.parcel_room(port.into()).unwrap_or_default();
        let passed = self.cells.pass_whole(port as u16, switch::Whole { header_word, cells, pdus }, now, room);
        if let Some((out, word)) = passed {
            parcel.circuit = CircuitId::from_key(word >> 4);
            // There is room, which was asked for.
            let put = io.put_parcel(out.into(), parcel);
            debug_assert!(put.is_ok(), "no room for a parcel at port {out}");
            return;
        }
        self.scratch.clear();
        parcel.cut(&mut self.scratch);
        io.recycle(parcel);
        self.cells.handle_cells(port as u16, &self.scratch, now, io);
    }
}
