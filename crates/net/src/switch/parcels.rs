//! Cells that come in, and parcels in their places among them ([`crate::parcel`]).

use super::{CELLS_PER_RUN, Links, Switch};
use crate::node::NodeIo;
use crate::parcel::Parcel;
use wire::{CircuitId, Time};

impl Switch {
    /// Takes cells that came in at `port`, and parcels in their places among them. True if there were any.
    pub(super) fn take_cells(&mut self, port: usize, io: &mut NodeIo<'_>, now: Time) -> bool {
        let mut left = CELLS_PER_RUN;
        loop {
            io.forward(port, |cells, out| {
                let n = cells.len().min(left);
                if n > 0 {
                    self.cells.handle_cells(port as u16, &cells[..n], now, &mut Links::Beside(out));
                    left -= n;
                }
                n
            });
            let parcel = if left > 0 { io.take_parcel(port) } else { None };
            let Some(parcel) = parcel else { return left < CELLS_PER_RUN };
            left = left.saturating_sub(parcel.cells());
            self.pass_parcel(port, parcel, io, now);
        }
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
        self.cells.handle_cells(port as u16, &self.scratch, now, &mut Links::At(io));
    }
}
