//! LAN emulation, version 1 (ATM Forum af-lane-0021) over 802.3: a [`Client`] makes an Ethernet of calls,
//! [`Configuration`] (LECS) tells it its server, [`Server`] (LES) knows who is where, and [`Unknown`] (BUS) carries
//! what goes to all or to nobody known.
//!
//! Each is a state machine. In: what becomes of calls and parties, frames on their circuits, `now`. Out: [`Action`]s,
//! frames and deadlines. A shell maps each [`Link`] to a call: control calls have service access point SNAP
//! 00A03E-0001, direct calls -0002 and calls to and from the BUS -0004. A machine that asks for a release has forgotten
//! the call: it is not told again.

mod bus;
mod client;
mod configuration;
mod frames;
mod server;
mod speakers;
mod tree;

pub use bus::Unknown;
pub use client::{Client, Config, MAX_FRAME_OCTETS};
pub use configuration::{Configuration, Lan};
pub use server::Server;

use frames::Frames;
use std::collections::{BTreeMap, VecDeque};
use wire::aesa::Aesa;
use wire::lane::{CONTROL_OCTETS, Control};
use wire::{Counters, DropReason};

/// The well-known address of a LECS.
pub const LECS: Aesa = Aesa([0x47, 0, 0x79, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xa0, 0x3e, 0, 0, 1, 0]);
/// The address that frames to all stations have.
pub const BROADCAST: [u8; 6] = [0xff; 6];
mod flag {
    /// The address is behind a proxy.
    pub(super) const REMOTE: u16 = 1;
    /// The client answers for addresses that it has not registered.
    pub(super) const PROXY: u16 = 0x80;
    /// The bridges' topology changes.
    pub(super) const TOPOLOGY: u16 = 0x100;
    /// All that version 1 knows.
    pub(super) const ALL: u16 = REMOTE | PROXY | TOPOLOGY;
}

/// The response to a request, with a status. A flag of version 2 in it would be a promise.
fn response_to(request: &Control, status: u16) -> Control {
    Control { operation: request.operation.response(), status, flags: request.flags & flag::ALL, ..*request }
}

/// What a call is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Service {
    /// Control frames.
    Control,
    /// Data frames between two clients.
    Direct,
    /// Data frames to the BUS, and from it.
    Multicast,
}

impl Service {
    /// The protocol identifier under OUI 00A03E (for 802.3).
    pub const fn pid(self) -> u16 {
        match self {
            Service::Control => 1,
            Service::Direct => 2,
            Service::Multicast => 4,
        }
    }

    /// The service of a protocol identifier.
    pub const fn of_pid(pid: u16) -> Option<Self> {
        match pid {
            1 => Some(Service::Control),
            2 => Some(Service::Direct),
            4 => Some(Service::Multicast),
            _ => None,
        }
    }
}

/// A call of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Link {
    /// One that the machine has asked for, by its own number.
    Made(u32),
    /// One that was presented to it, by the caller's number.
    Taken(u64),
}

/// What a machine wants of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Set up; then `handle_up` or `handle_released`.
    Call {
        /// Its name from now on.
        link: Link,
        /// Whom.
        to: Aesa,
        /// What for.
        service: Service,
        /// As the root of a point-to-multipoint call with this first party.
        multipoint: bool,
    },
    /// Add a party; then `handle_party`.
    AddParty {
        /// The root's call.
        link: Link,
        /// Whom.
        to: Aesa,
    },
    /// Drop a party.
    DropParty {
        /// The root's call.
        link: Link,
        /// Whom.
        to: Aesa,
    },
    /// Answer a call; then `handle_up` or `handle_released`.
    Answer(Link),
    /// Release a call, or refuse it.
    Release(Link),
}

/// What waits for the shell.
#[derive(Debug, Default)]
struct Outbox {
    actions: VecDeque<Action>,
    frames: Frames,
    calls: u32,
    counters: Counters,
}

impl Outbox {
    fn call(&mut self, to: Aesa, service: Service, multipoint: bool) -> Link {
        self.calls = self.calls.wrapping_add(1);
        let link = Link::Made(self.calls);
        self.actions.push_back(Action::Call { link, to, service, multipoint });
        link
    }

    fn act(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    fn frame(&mut self, link: Link, frame: &[u8]) {
        if !self.frames.push(link, frame) {
            self.counters.drop_one(DropReason::QueueFull);
        }
    }

    /// Whose call the next frames come of: they take a share of the room that is this station's.
    fn act_for(&mut self, station: Option<Aesa>) {
        self.frames.act_for(station);
    }

    fn control(&mut self, link: Link, control: &Control) {
        let mut frame = [0; CONTROL_OCTETS];
        let octets = control.emit(&[], &mut frame);
        self.frame(link, &frame[..octets]);
    }

    /// Nothing is sent on a call that has gone.
    fn forget(&mut self, link: Link) {
        self.counters.drop_n(DropReason::Closed, self.frames.forget(link));
    }

    /// Releases the calls of a server's clients that are `lost` to it, and forgets these.
    fn release_where<C>(&mut self, clients: &mut BTreeMap<Link, C>, lost: impl Fn(&C) -> bool) {
        clients.retain(|link, client| {
            let stays = !lost(client);
            if !stays {
                self.forget(*link);
                self.act(Action::Release(*link));
            }
            stays
        });
    }
}

/// What all machines give their shell.
macro_rules! outputs {
    ($machine:ty) => {
        impl $machine {
            /// What is to be done next.
            pub fn poll(&mut self) -> Option<$crate::lane::Action> {
                self.out.actions.pop_front()
            }

            /// The next frame to be sent, and on which call.
            pub fn poll_frame(&mut self) -> Option<($crate::lane::Link, Box<[u8]>)> {
                self.out.frames.pop()
            }

            /// Frames that were dropped, by reason.
            pub const fn counters(&self) -> &wire::Counters {
                &self.out.counters
            }
        }
    };
}
use outputs;

#[cfg(test)]
mod tests;
