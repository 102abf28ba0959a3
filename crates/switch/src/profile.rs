//! Profiles: what circuits of one kind have in common, held once and named by number in each circuit's line.

use crate::frames::FramePolice;
use crate::police::{Gate, Police, Ticks, Verdict};
use crate::policy::Discard;
use crate::shape::Shape;
use std::collections::HashMap;
use traffic::{Category, Contract};

/// The order in which circuits of a port are served: strict priority between classes, round robin within one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum Class {
    /// Low latency: before all others.
    LowLatency,
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
    pub const COUNT: usize = 5;
    /// All of them, by falling priority.
    pub const ALL: [Class; Self::COUNT] =
        [Class::LowLatency, Class::Cbr, Class::RtVbr, Class::Guaranteed, Class::BestEffort];
}

/// What a circuit does where there is no room for its cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Flow {
    /// Cells are dropped and counted.
    #[default]
    BestEffort,
    /// Nothing is dropped: the neighbour that sends to this switch has credits for at most so many cells in the
    /// circuit's queue here, and this switch sends only what its own neighbour has granted.
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
    /// What is tested of frames instead (GFR); of channels with `pdu_cells` only.
    pub frames: Option<FramePolice>,
    /// When cells are due where they leave.
    pub shape: Option<Shape>,
    /// What is dropped where the port's queue grows.
    pub discard: Discard,
    /// Cells queued at the port from which on cells and PDUs of CLP 1 are refused.
    pub low_priority_cells: Option<u32>,
    /// Cells queued at the port from which on accepted user cells are marked as having met congestion (EFCI).
    pub congestion_cells: Option<u32>,
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
            frames: None,
            shape: None,
            discard: Discard::Whole,
            low_priority_cells: None,
            congestion_cells: None,
        }
    }
}

/// Of a circuit that discards by its share of the queue: the share in hundredths of the mean (Z = 0.8 of Heinanen and
/// Kilkki).
const SHARE_PERCENT: u16 = 80;

/// How late whoever runs the network may be on a loaded machine: meanwhile cells of a contract wait.
const LATE_SECONDS: f64 = 0.3;

/// Cells that a circuit with a contract may have queued: what its rate brings in 300 ms, and no fewer than best effort.
fn queue_of(contract: &Contract) -> u16 {
    let cells = contract.reserved().map_or(0.0, |rate| rate.cells_per_s() * LATE_SECONDS);
    (cells as u16).max(Profile::default().queue_cells)
}

impl Profile {
    /// The profile of a contract in a switch with a queue of `queue_cells` at each port; `aal5`: cells are those of
    /// PDUs. Beyond half of the queue, shares count and cells of low priority are refused; beyond a quarter, cells are
    /// marked as having met congestion. Circuits that ask for nothing are not. What a contract says of credits is left
    /// out.
    pub fn of(contract: &Contract, aal5: bool, queue_cells: u32) -> Self {
        let class = match contract.category {
            _ if contract.low_latency => Class::LowLatency,
            Category::Cbr => Class::Cbr,
            Category::RtVbr => Class::RtVbr,
            Category::NrtVbr | Category::Abr => Class::Guaranteed,
            // What they send beyond their share takes turns with all others.
            Category::Gfr | Category::Ubr => Class::BestEffort,
        };
        let longest = contract.mfs.map_or(192, |mfs| u16::try_from(mfs).unwrap_or(u16::MAX));
        let of_pdus = aal5 && contract.discard != traffic::Discard::Cells;
        let plain = Profile { class, pdu_cells: of_pdus.then_some(longest), ..Profile::default() };
        if contract.is_plain() {
            return plain;
        }
        let (threshold, percent) = (queue_cells / 2, SHARE_PERCENT);
        Profile {
            police: Police::of(contract),
            frames: FramePolice::of(contract),
            shape: Shape::of(contract, contract.cdvt.into()),
            discard: match contract.discard {
                // Frames within a minimum rate must not find the room taken by those beyond another's.
                traffic::Discard::Early if contract.category == Category::Gfr => Discard::Fair { threshold, percent },
                traffic::Discard::Early | traffic::Discard::Cells => Discard::Whole,
                traffic::Discard::Partial => Discard::Partial,
                traffic::Discard::Selective => Discard::Selective { threshold, percent },
                traffic::Discard::Fair => Discard::Fair { threshold, percent },
            },
            queue_cells: queue_of(contract),
            low_priority_cells: Some(threshold),
            congestion_cells: Some(queue_cells / 4),
            ..plain
        }
    }

    /// Whether something is promised to its circuits, so that others leave room at their port.
    pub(crate) fn is_promised(&self) -> bool {
        (self.class != Class::BestEffort || self.shape.is_some()) && self.flow == Flow::BestEffort
    }

    /// How many eighths of a port's queue its circuits leave to others, where something is promised at the port.
    #[inline(always)]
    pub(crate) fn eighths_left(&self) -> u32 {
        match self.class {
            Class::BestEffort if self.shape.is_none() => 2,
            Class::BestEffort | Class::Guaranteed => 1,
            Class::LowLatency | Class::Cbr | Class::RtVbr => 0,
        }
    }

    /// Whether its circuits have more than the queues and turns of best effort.
    pub(crate) fn is_managed(&self) -> bool {
        let policed = self.police.is_some() || self.frames.is_some();
        policed || self.shape.is_some() || self.has_policy() || self.class == Class::LowLatency
    }

    /// Whether its cells are dropped or marked by the length of a queue.
    #[inline]
    pub(crate) fn has_policy(&self) -> bool {
        self.discard != Discard::Whole || self.low_priority_cells.is_some() || self.congestion_cells.is_some()
    }

    /// Cells that may be queued at the port, one that is accepted included, without a cell dropped or marked for it.
    /// `None`: there is no such number.
    #[inline]
    pub(crate) fn calm_cells(&self) -> Option<u32> {
        let shares = match self.discard {
            Discard::Whole => u32::MAX,
            Discard::Selective { threshold, .. } | Discard::Fair { threshold, .. } => threshold,
            Discard::Partial => return None,
        };
        let marks = self.low_priority_cells.unwrap_or(u32::MAX).min(self.congestion_cells.unwrap_or(u32::MAX));
        Some(shares.min(marks))
    }

    /// Cells of room that a PDU under way keeps at its port.
    #[inline]
    pub(crate) fn kept_cells(&self) -> u16 {
        if self.discard == Discard::Partial { 0 } else { self.pdu_cells.unwrap_or_default() }
    }

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
    /// Of each in `list`.
    gates: Vec<Gate>,
    numbers: HashMap<Profile, u16>,
    max: usize,
}

impl Profiles {
    pub(crate) fn new(max: u16) -> Self {
        Profiles { list: Vec::new(), gates: Vec::new(), numbers: HashMap::new(), max: max.into() }
    }

    #[inline(always)]
    pub(crate) fn get(&self, number: u16) -> &Profile {
        &self.list[usize::from(number)].0
    }

    /// The only test of cells of a profile, where it has but a peak rate. Of other profiles one that no cell passes.
    #[inline(always)]
    pub(crate) fn gate(&self, number: u16) -> Gate {
        self.gates[usize::from(number)]
    }

    /// Tests a cell of a circuit of this profile.
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
                    self.gates.push(Gate::CLOSED);
                    self.list.len() - 1
                } else {
                    let number = unused()?;
                    self.numbers.remove(&self.list[number].0);
                    self.list[number].0 = *profile;
                    number
                };
                self.gates[number] = profile.police.as_ref().map_or(Gate::CLOSED, Police::gate);
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
    use crate::police::{Bucket, Excess};

    #[test]
    fn equal_profiles_are_held_once_and_unused_ones_make_room() {
        let mut profiles = Profiles::new(2);
        // The fourth has a peak rate.
        let peak = Bucket::new(traffic::Fine::from_nanos(5), traffic::Fine::from_nanos(1));
        let police = Police { peak, sustainable: None, high_priority_only: false, excess: Excess::Discard };
        let of = |weight| Profile { weight, police: (weight == 4).then_some(police), ..Profile::default() };
        // Whether the only test lets pass what comes on time, and what comes 3 ns early.
        let passed = |profiles: &Profiles, number| [0, 3 << 16].map(|early| profiles.gate(number).test(early, 0).0);
        let (a, b) = (profiles.hold(&of(1)).unwrap(), profiles.hold(&of(2)).unwrap());
        assert_eq!(profiles.hold(&of(1)), Some(a));
        assert_eq!(profiles.hold(&of(3)), None);
        profiles.release(b);
        assert_eq!(profiles.hold(&of(3)), Some(b));
        assert_eq!(profiles.get(b).weight, 3);
        assert_eq!(passed(&profiles, b), [false, false]);
        profiles.release(a);
        assert_eq!(profiles.hold(&of(4)), None);
        profiles.release(a);
        assert_eq!(profiles.hold(&of(4)), Some(a));
        assert_eq!(passed(&profiles, a), [true, false]);
    }
}
