//! From which MAC addresses each station sends by the BUS: the first one to send from an address has it, until it has
//! sent nothing from it for 20 minutes. What is registered with the LES comes before that. Bounded, with a share for
//! each station; a frame costs the logarithm of the table.

use crate::reservations::SILENCE;
use crate::shares::Shares;
use std::collections::BTreeMap;
use std::time::Duration;
use wire::Time;
use wire::aesa::Aesa;

/// Addresses at most. Beyond that the station with most loses its oldest to one with at least two fewer; else a frame
/// passes, and its address is nobody's.
const MAX_ADDRESSES: usize = 4096;
/// An address that was put in order within this time is not put in order again: frames of a stream cost one look-up.
const REFRESH: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy)]
struct Entry {
    station: Aesa,
    /// When it was heard last, and as it is in order.
    heard: Time,
    ordered: Time,
}

/// The table.
#[derive(Debug, Default)]
pub(super) struct Speakers {
    registered: BTreeMap<[u8; 6], Aesa>,
    heard: BTreeMap<[u8; 6], Entry>,
    shares: Shares<Aesa, (Time, [u8; 6])>,
}

impl Speakers {
    /// All that is registered.
    pub(super) fn register(&mut self, all: impl Iterator<Item = ([u8; 6], Aesa)>) {
        self.registered = all.collect();
    }

    /// Whether a station may send from an address; from now on it is the station's if so.
    pub(super) fn may_speak(&mut self, address: [u8; 6], station: Aesa, now: Time) -> bool {
        if let Some(owner) = self.registered.get(&address) {
            return *owner == station;
        }
        // A group address is nobody's.
        if address[0] & 1 == 1 {
            return true;
        }
        if let Some(entry) = self.heard.get_mut(&address) {
            if entry.station != station && now < entry.heard + SILENCE {
                return false;
            }
            if entry.station == station && now < entry.ordered + REFRESH {
                entry.heard = now;
                return true;
            }
            self.remove(address);
        } else if self.heard.len() >= MAX_ADDRESSES && !self.makes_room(station) {
            return true;
        }
        self.heard.insert(address, Entry { station, heard: now, ordered: now });
        self.shares.insert(station, (now, address));
        true
    }

    fn remove(&mut self, address: [u8; 6]) {
        if let Some(Entry { station, ordered, .. }) = self.heard.remove(&address) {
            self.shares.remove(station, (ordered, address));
        }
    }

    fn makes_room(&mut self, station: Aesa) -> bool {
        let yields = self.shares.who_yields(station);
        let oldest = yields.and_then(|most| self.shares.entries(most).next());
        oldest.map(|(_, address)| self.remove(address)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn station(n: u8) -> Aesa {
        Aesa([n; 20])
    }

    fn mac(n: u32) -> [u8; 6] {
        let [a, b, c, d] = n.to_be_bytes();
        [2, 0, a, b, c, d]
    }

    fn seconds(s: u64) -> Time {
        Time::from_millis(s * 1000)
    }

    #[test]
    fn who_sends_first_from_an_address_has_it_until_twenty_minutes_of_silence() {
        let mut speakers = Speakers::default();
        assert!(speakers.may_speak(mac(7), station(1), seconds(0)));
        assert!(speakers.may_speak(mac(7), station(1), seconds(100)));
        for second in (101..1300).step_by(100) {
            assert!(!speakers.may_speak(mac(7), station(2), seconds(second)), "{second} s");
        }
        assert!(speakers.may_speak(mac(7), station(2), seconds(1300)));
        assert!(!speakers.may_speak(mac(7), station(1), seconds(1301)), "whose it was waits as well");
        assert!(
            speakers.may_speak([0xff; 6], station(1), seconds(0))
                && speakers.may_speak([0xff; 6], station(2), seconds(0))
        );
    }

    #[test]
    fn what_is_registered_comes_before_what_was_heard() {
        let mut speakers = Speakers::default();
        assert!(speakers.may_speak(mac(7), station(2), seconds(0)));
        speakers.register([(mac(7), station(1))].into_iter());
        assert!(
            !speakers.may_speak(mac(7), station(2), seconds(1)) && speakers.may_speak(mac(7), station(1), seconds(1))
        );
        speakers.register(std::iter::empty());
        assert!(speakers.may_speak(mac(7), station(2), seconds(2)), "silence is of what was heard");
    }

    #[test]
    fn a_station_that_sends_from_ever_other_addresses_takes_no_other_stations() {
        let mut speakers = Speakers::default();
        assert!(speakers.may_speak(mac(1), station(1), seconds(0)));
        (100..10_000).for_each(|n| assert!(speakers.may_speak(mac(n), station(2), seconds(1))));
        assert!(!speakers.may_speak(mac(1), station(2), seconds(2)));
        assert!(
            speakers.may_speak(mac(2), station(1), seconds(2)) && !speakers.may_speak(mac(2), station(2), seconds(3))
        );
        assert_eq!(speakers.heard.len(), MAX_ADDRESSES);
    }
}
