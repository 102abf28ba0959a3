//! What a host keeps since its applications have no room for it yet: cells and parcels of circuits with credits, within
//! the window that the host grants, and for a moment parcels of best effort.

use crate::circuit::LOOK_AGAIN;
use crate::interface::HostInterface;
use net::NodeIo;
use wire::Time;

impl HostInterface {
    /// Before a sleep: asks the applications that something is kept for to ring once they have room. False if there is
    /// none.
    pub(crate) fn ask_those_held_up(&mut self) -> bool {
        for key in &self.backlogs.circuits {
            let user = self.circuits.get(*key).and_then(|circuit| circuit.receiver);
            if let Some(endpoint) = user.and_then(|user| self.endpoints.find(user.endpoint)) {
                endpoint.ask_for_catching_up();
            }
        }
        !self.backlogs.circuits.is_empty()
    }

    /// Delivers what was kept, as far as there is room by now. True if anything was, or was dropped.
    pub(crate) fn deliver_held(&mut self, io: &mut NodeIo<'_>, now: Time) -> bool {
        if self.backlogs.circuits.is_empty() {
            return false;
        }
        let mut circuits = std::mem::take(&mut self.backlogs.circuits);
        let (mut any, mut delivered, mut cut) = (false, false, false);
        self.backlogs.look_again = None;
        circuits.retain(|key| {
            let Some((look_again, [more, gone])) = self.deliver_held_of(*key, io, now, &mut cut) else { return false };
            (delivered, any) = (delivered || more, any || more || gone);
            let earlier = self.backlogs.look_again.into_iter().chain(look_again).min();
            self.backlogs.look_again = earlier;
            look_again.is_some()
        });
        if delivered {
            self.backlogs.progress = now;
        }
        self.backlogs.circuits = circuits;
        any || cut
    }

    /// The same of one circuit: when it is looked at again, if it keeps more, and whether anything was delivered or
    /// dropped. Of one circuit in a round old parcels are `cut`: they are many cells.
    fn deliver_held_of(
        &mut self,
        key: u32,
        io: &mut NodeIo<'_>,
        now: Time,
        cut: &mut bool,
    ) -> Option<(Option<Time>, [bool; 2])> {
        let circuit = self.circuits.get_mut(key)?;
        let receiver = circuit.receiver.and_then(|user| Some((user, self.endpoints.find(user.endpoint)?)));
        let Some(mut credit) = circuit.credit.take() else {
            let (user, endpoint) = receiver?;
            let [delivered, dropped] = circuit.deliver_kept(user, endpoint, io, now);
            let due = circuit.kept_until();
            self.endpoints.handle_delivered(user.endpoint, false, now);
            return Some((due, [delivered > 0, dropped > 0]));
        };
        let done = match receiver {
            // Whoever closed it has dropped and counted what was kept. The limit that this allows is to be sent yet.
            None => 0,
            Some((user, endpoint)) => {
                let done = credit.deliver(circuit, user, endpoint, io, now);
                if !*cut && credit.parcels.is_old(now) {
                    credit.cut_parcels();
                    *cut = true;
                }
                self.endpoints.handle_delivered(user.endpoint, true, now);
                done
            }
        };
        credit.receiver.forwarded(done as u32);
        self.credits.notice_limit(key, &mut credit);
        let stays = credit.kept() > 0;
        circuit.credit = Some(credit);
        Some((stays.then_some(now + LOOK_AGAIN), [done > 0, false]))
    }
}
