//! Profiles: what circuits of one kind have in common, held once and named by number in each circuit's line.

use crate::police::{Police, Ticks, Verdict};
use std::collections::HashMap;

/// The order in which circuits of a port are served: strict priority between classes, round robin within one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum Class {
    /// Constant bit rate.
    Cbr,
    /// Variable bit rate, real time.
    RtVbr,
    /// Guaranteed shares: variable bit rate, not real time; available bit rate; guaranteed frame rate.
    Guaranteed,
    /// The rest.
    #[default]
    BestEffort,
}

impl Class {
    /// How many there are.
    pub const COUNT: usize = 4;
    /// All of them, by falling priority.
    pub const ALL: [Class; Self::COUNT] = [Class::Cbr, Class::RtVbr, Class::Guaranteed, Class::BestEffort];
}

/// What a circuit does where there is no room for its cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Flow {
    /// Cells are dropped and counted.
    #[default]
    BestEffort,
    /// Nothing is dropped: the neighbour that sends to this switch has credits for at most so many cells in the circuit's
    /// queue here, and this switch sends only what its own neighbour has granted.
    Credit {
        /// Cells that the queue has room for, reserved while the circuit exists.
        window: u16,
    },
}

/// What circuits of one kind have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Profile {
    /// Priority at the output.
    pub class: Class,
    /// Cells of one turn in the round robin of the class, at least 1.
    pub weight: u16,
    /// Cells that a circuit may have queued. A circuit with credits goes by its window instead.
    pub queue_cells: u16,
    /// Cells of the longest PDU, if cells are those of AAL5 PDUs: the switch then drops whole PDUs. `None`: cells are
    /// dropped one by one.
    pub pdu_cells: Option<u16>,
    /// Best effort, or credits.
    pub flow: Flow,
    /// What is tested where the circuit's cells come in.
    pub police: Option<Police>,
}

impl Default for Profile {
    /// Best effort, AAL5 PDUs of up to 9188 octets, a queue of 4096 cells.
    fn default() -> Self {
        Profile {
            class: Class::BestEffort,
            weight: 1,
            queue_cells: 4096,
            pdu_cells: Some(192),
            flow: Flow::BestEffort,
            police: None,
        }
    }
}

impl Profile {
    pub(crate) const fn window(&self) -> Option<u16> {
        match self.flow {
            Flow::Credit { window } => Some(window),
            Flow::BestEffort => None,
        }
    }
}

/// The profiles in use, and how many circuits use each.
#[derive(Debug)]
pub(crate) struct Profiles {
    list: Vec<(Profile, u32)>,
    numbers: HashMap<Profile, u16>,
    max: usize,
}

impl Profiles {
    pub(crate) fn new(max: u16) -> Self {
        Profiles { list: Vec::new(), numbers: HashMap::new(), max: max.into() }
    }

    #[inline(always)]
    pub(crate) fn get(&self, number: u16) -> &Profile {
        &self.list[usize::from(number)].0
    }

    /// Tests a cell of a circuit of this profile.
    #[inline(always)]
    pub(crate) fn police(&self, number: u16, times: &mut [Ticks; 2], clp: bool, now: Ticks) -> Verdict {
        match &self.list[usize::from(number)].0.police {
            Some(police) => police.arrive(times, clp, now),
            None => Verdict::Conforms,
        }
    }

    /// The number of `profile`, with one more user; `None` if there is no place for another profile.
    pub(crate) fn hold(&mut self, profile: &Profile) -> Option<u16> {
        let number = match self.numbers.get(profile) {
            Some(number) => *number,
            None => {
                let unused = || self.list.iter().position(|(_, users)| *users == 0);
                let number = if self.list.len() < self.max {
                    self.list.push((*profile, 0));
                    self.list.len() - 1
                } else {
                    let number = unused()?;
                    self.numbers.remove(&self.list[number].0);
                    self.list[number].0 = *profile;
                    number
                };
                self.numbers.insert(*profile, number as u16);
                number as u16
            }
        };
        self.list[usize::from(number)].1 += 1;
        Some(number)
    }

    /// One more user.
    pub(crate) fn share(&mut self, number: u16) {
        self.list[usize::from(number)].1 += 1;
    }

    /// One user fewer.
    pub(crate) fn release(&mut self, number: u16) {
        let users = &mut self.list[usize::from(number)].1;
        *users = users.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_profiles_are_held_once_and_unused_ones_make_room() {
        let mut profiles = Profiles::new(2);
        let of = |weight| Profile { weight, ..Profile::default() };
        let (a, b) = (profiles.hold(&of(1)).unwrap(), profiles.hold(&of(2)).unwrap());
        assert_eq!(profiles.hold(&of(1)), Some(a));
        assert_eq!(profiles.hold(&of(3)), None);
        profiles.release(b);
        assert_eq!(profiles.hold(&of(3)), Some(b));
        assert_eq!(profiles.get(b).weight, 3);
        profiles.release(a);
        assert_eq!(profiles.hold(&of(4)), None);
        profiles.release(a);
        assert_eq!(profiles.hold(&of(4)), Some(a));
    }
}
