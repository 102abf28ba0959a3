//! How parcels come in ([`net::parcel`]): as SDUs to who has their circuit open, or as the cells that they stand for.

use crate::circuit::{LOOK_AGAIN, MOMENT, WINDOW};
use crate::interface::HostInterface;
use endpoint::Aal;
use net::{NodeIo, Parcel};
use wire::Time;

/// What has become of a parcel.
enum Taken {
    /// All its SDUs are delivered, or dropped and counted.
    Done(Parcel),
    /// Some wait for room.
    Kept,
    /// Nothing: its cells are needed.
    Untouched(Parcel),
}

impl HostInterface {
    /// A parcel from a link.
    pub(crate) fn receive_parcel(&mut self, port: u16, parcel: Parcel, io: &mut NodeIo<'_>, now: Time) {
        match self.take_parcel(port, parcel, now) {
            Taken::Kept => {}
            Taken::Done(parcel) => io.recycle(parcel),
            Taken::Untouched(parcel) => {
                let mut cells = std::mem::take(&mut self.cut);
                cells.clear();
                parcel.cut(&mut cells);
                io.recycle(parcel);
                self.receive_cells(port, &cells, now);
                self.cut = cells;
            }
        }
    }

    /// Delivers or keeps a parcel.
    fn take_parcel(&mut self, port: u16, parcel: Parcel, now: Time) -> Taken {
        let (id, cells) = (parcel.circuit, parcel.cells());
        let Ok(circuit) = self.circuits.at(id, port) else { return Taken::Untouched(parcel) };
        let user = circuit.receiver.filter(|user| user.aal == Aal::Aal5);
        let endpoint = user.and_then(|user| Some((user, self.endpoints.find(user.endpoint)?)));
        let Some((user, endpoint)) = endpoint else { return Taken::Untouched(parcel) };
        if circuit.points.is_some() || !circuit.is_between() {
            return Taken::Untouched(parcel);
        }
        let lossless = circuit.credit.is_some();
        let (first, left, by) = match circuit.credit.take() {
            None => (!circuit.keeps_parcels(), circuit.receive_or_keep(user, endpoint, parcel, now), now + MOMENT),
            // A neighbour that sends beyond its credit loses cells, not parcels.
            Some(credit) if credit.kept() + cells > usize::from(WINDOW) => {
                circuit.credit = Some(credit);
                return Taken::Untouched(parcel);
            }
            Some(mut credit) => {
                let first = credit.kept() == 0;
                let left = circuit.receive_with_credit(user, endpoint, &mut credit, parcel, now);
                if first {
                    self.credits.notice_limit(id.key(), &mut credit);
                }
                circuit.credit = Some(credit);
                (first, left, now + LOOK_AGAIN)
            }
        };
        circuit.received.cells = circuit.received.cells.wrapping_add(cells as u64);
        endpoint.received.cells = endpoint.received.cells.wrapping_add(cells as u64);
        self.intake.note_cells(port, cells, Ok(()));
        self.endpoints.handle_delivered(user.endpoint, lossless, now);
        match left {
            Some(parcel) => Taken::Done(parcel),
            None => {
                if first {
                    self.backlogs.begin(id.key(), by, now);
                }
                Taken::Kept
            }
        }
    }
}
