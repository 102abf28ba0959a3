//! LAN emulation at a host: the machines of [`crate::lane`], each with a session that calls, answers and releases as it
//! says, and an endpoint for the circuits.
//!
//! [`Servers`] is a LAN's LECS, LES and BUS under selectors of one host's address; [`Station`] is a client, whose
//! Ethernet frames are the caller's or a TAP device's.

mod servers;
mod shell;
mod station;

pub use servers::Servers;
pub use station::Station;

use crate::lane::{Action, Client, Configuration, Link, Server, Service, Unknown};
use std::collections::VecDeque;
use wire::aesa::Aesa;
use wire::{DropReason, Time};

/// Ethernet frames that wait for whoever takes them.
const MAX_INBOX: usize = 256;

/// What a shell drives. Ethernet frames that come out are put into `inbox`.
trait Machine {
    fn handle_incoming(&mut self, link: Link, from: Option<Aesa>, service: Service, now: Time);
    fn handle_up(&mut self, link: Link, now: Time);
    fn handle_party(&mut self, link: Link, party: Aesa, joined: bool);
    fn handle_released(&mut self, link: Link, now: Time);
    fn handle_frame(&mut self, link: Link, frame: &[u8], now: Time);
    fn handle_timeout(&mut self, now: Time);
    fn next_action(&mut self) -> Option<Action>;
    fn next_frame(&mut self) -> Option<(Link, Box<[u8]>)>;
    fn deadline(&self) -> Option<Time>;
}

/// What all machines have alike.
macro_rules! outputs {
    ($machine:ident) => {
        fn next_action(&mut self) -> Option<Action> {
            $machine::poll(self)
        }

        fn next_frame(&mut self) -> Option<(Link, Box<[u8]>)> {
            $machine::poll_frame(self)
        }
    };
}

impl Machine for Configuration {
    fn handle_incoming(&mut self, link: Link, from: Option<Aesa>, service: Service, now: Time) {
        Configuration::handle_incoming(self, link, from, service, now);
    }

    fn handle_up(&mut self, _: Link, _: Time) {}

    fn handle_party(&mut self, _: Link, _: Aesa, _: bool) {}

    fn handle_released(&mut self, link: Link, _: Time) {
        Configuration::handle_released(self, link);
    }

    fn handle_frame(&mut self, link: Link, frame: &[u8], _: Time) {
        Configuration::handle_frame(self, link, frame);
    }

    fn handle_timeout(&mut self, now: Time) {
        Configuration::handle_timeout(self, now);
    }

    fn deadline(&self) -> Option<Time> {
        self.poll_timeout()
    }

    outputs!(Configuration);
}

impl Machine for Server {
    fn handle_incoming(&mut self, link: Link, from: Option<Aesa>, service: Service, now: Time) {
        Server::handle_incoming(self, link, from, service, now);
    }

    fn handle_up(&mut self, link: Link, _: Time) {
        Server::handle_up(self, link);
    }

    fn handle_party(&mut self, link: Link, party: Aesa, joined: bool) {
        Server::handle_party(self, link, party, joined);
    }

    fn handle_released(&mut self, link: Link, now: Time) {
        self.set_time(now);
        Server::handle_released(self, link);
    }

    fn handle_frame(&mut self, link: Link, frame: &[u8], now: Time) {
        self.set_time(now);
        Server::handle_frame(self, link, frame);
    }

    fn handle_timeout(&mut self, now: Time) {
        Server::handle_timeout(self, now);
    }

    fn deadline(&self) -> Option<Time> {
        self.poll_timeout()
    }

    outputs!(Server);
}

impl Machine for Unknown {
    fn handle_incoming(&mut self, link: Link, from: Option<Aesa>, service: Service, _: Time) {
        Unknown::handle_incoming(self, link, from, service);
    }

    fn handle_up(&mut self, link: Link, _: Time) {
        Unknown::handle_up(self, link);
    }

    fn handle_party(&mut self, link: Link, party: Aesa, joined: bool) {
        Unknown::handle_party(self, link, party, joined);
    }

    fn handle_released(&mut self, link: Link, _: Time) {
        Unknown::handle_released(self, link);
    }

    fn handle_frame(&mut self, link: Link, frame: &[u8], now: Time) {
        self.set_time(now);
        Unknown::handle_frame(self, link, frame);
    }

    fn handle_timeout(&mut self, now: Time) {
        Unknown::handle_timeout(self, now);
    }

    fn deadline(&self) -> Option<Time> {
        Unknown::poll_timeout(self)
    }

    outputs!(Unknown);
}

/// A client, and the Ethernet frames that it has given.
#[derive(Debug)]
struct Inbox {
    client: Client,
    frames: VecDeque<Box<[u8]>>,
    /// Frames that nobody took in time.
    dropped: wire::Counters,
}

impl Machine for Inbox {
    fn handle_incoming(&mut self, link: Link, from: Option<Aesa>, service: Service, now: Time) {
        self.client.handle_incoming(link, from, service, now);
    }

    fn handle_up(&mut self, link: Link, now: Time) {
        self.client.handle_up(link, now);
    }

    fn handle_party(&mut self, _: Link, _: Aesa, _: bool) {}

    fn handle_released(&mut self, link: Link, now: Time) {
        self.client.handle_released(link, now);
    }

    fn handle_frame(&mut self, link: Link, frame: &[u8], now: Time) {
        let Some(frame) = self.client.handle_frame(link, frame, now) else { return };
        if self.frames.len() < MAX_INBOX {
            self.frames.push_back(frame.into());
        } else {
            self.dropped.drop_one(DropReason::QueueFull);
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.client.handle_timeout(now);
    }

    fn next_action(&mut self) -> Option<Action> {
        self.client.poll()
    }

    fn next_frame(&mut self) -> Option<(Link, Box<[u8]>)> {
        self.client.poll_frame()
    }

    fn deadline(&self) -> Option<Time> {
        self.client.poll_timeout()
    }
}
