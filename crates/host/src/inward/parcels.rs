//! How parcels come in ([`net::parcel`]): as SDUs to who has their circuit open, or as the cells that they stand for.

use crate::circuit::WINDOW;
use crate::interface::HostInterface;
use endpoint::Aal;
use net::{NodeIo, Parcel};
use wire::Time;

impl HostInterface {
    /// A parcel from a link.
    pub(crate) fn receive_parcel(&mut self, port: u16, parcel: Parcel, io: &mut NodeIo<'_>, now: Time) {
        if let Some(parcel) = self.take_parcel(port, parcel, now) {
            let mut cells = std::mem::take(&mut self.cut);
            cells.clear();
            parcel.cut(&mut cells);
            io.recycle(parcel);
            self.receive_cells(port, &cells, now);
            self.cut = cells;
        }
    }

    /// Delivers or keeps a parcel. It comes back if its cells are needed, untouched, or if all its SDUs are done with, without any.
    fn take_parcel(&mut self, port: u16, mut parcel: Parcel, now: Time) -> Option<Parcel> {
        let (id, cells) = (parcel.circuit, parcel.cells());
        let Ok(circuit) = self.circuits.at(id, port) else { return Some(parcel) };
        let user = circuit.receiver.filter(|user| user.aal == Aal::Aal5);
        let endpoint = user.and_then(|user| Some((user, self.endpoints.find(user.endpoint)?)));
        let Some((user, endpoint)) = endpoint else { return Some(parcel) };
        if circuit.points.is_some() || !circuit.is_between() {
            return Some(parcel);
        }
        let lossless = circuit.credit.is_some();
        match circuit.credit.take() {
            None => {
                circuit.receive_parcel(user, endpoint, &parcel);
                parcel.drop_first(parcel.pdus());
            }
            // A neighbour that sends beyond its credit loses cells, not parcels.
            Some(credit) if credit.kept() + cells > usize::from(WINDOW) => {
                circuit.credit = Some(credit);
                return Some(parcel);
            }
            Some(mut credit) => {
                credit.receiver.received(cells as u32);
                let first = credit.kept() == 0;
                if first {
                    let done = circuit.receive_what_fits_of_parcel(user, endpoint, &parcel);
                    parcel.drop_first(done);
                    credit.receiver.forwarded((cells - parcel.cells()) as u32);
                    self.credits.notice_limit(id.key(), &mut credit);
                }
                if parcel.pdus() > 0 && first {
                    self.credits.hold(id.key(), now);
                }
                circuit.credit = Some(credit);
            }
        }
        circuit.received.cells = circuit.received.cells.wrapping_add(cells as u64);
        endpoint.received.cells = endpoint.received.cells.wrapping_add(cells as u64);
        self.intake.note_cells(port, cells, Ok(()));
        let left = match (&mut circuit.credit, parcel.pdus() > 0) {
            (Some(credit), true) => {
                credit.keep(parcel);
                None
            }
            _ => Some(parcel),
        };
        self.endpoints.handle_delivered(user.endpoint, lossless, now);
        left
    }
}
