//! SSCF at the UNI (ITU-T Q.2130) on SSCOP: a signalling link that is established, released, and carries messages.

use crate::sscop::{self, Full, Signal, Sscop};
use std::collections::VecDeque;
use wire::Time;

/// The states of the signalling link, as its user sees it and as SSCOP is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// 1/1: released.
    Released,
    /// 2/2: being established at the user's request.
    AwaitingEstablishment,
    /// 3/4: being released at the user's request.
    AwaitingRelease,
    /// 4/10: messages are carried.
    Established,
    /// 4/5: being resynchronised at the user's request.
    Resynchronising,
}

/// What the link tells its user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// AAL-ESTABLISH: the link carries messages. What was under way before may be lost. `true`: the user had asked.
    Established(bool),
    /// AAL-RELEASE: the link is down. `true`: the user had asked.
    Released(bool),
    /// AAL-DATA: a message.
    Data(Vec<u8>),
    /// AAL-UNIT-DATA: a message without assurance.
    UnitData(Vec<u8>),
}

/// A signalling link.
#[derive(Debug)]
pub struct Saal {
    sscop: Sscop,
    state: State,
    events: VecDeque<Event>,
}

impl Saal {
    /// A link that is released.
    pub fn new(config: sscop::Config) -> Self {
        Saal { sscop: Sscop::new(config), state: State::Released, events: VecDeque::new() }
    }

    /// The state.
    pub const fn state(&self) -> State {
        self.state
    }

    /// Whether messages are carried.
    pub fn is_established(&self) -> bool {
        self.state == State::Established
    }

    /// SSCOP below.
    pub const fn sscop(&self) -> &Sscop {
        &self.sscop
    }

    /// AAL-ESTABLISH.request. On an established link it resynchronises: what is under way is dropped.
    pub fn establish(&mut self, now: Time) {
        match self.state {
            State::Released | State::AwaitingRelease => {
                self.sscop.establish(true, now);
                self.state = State::AwaitingEstablishment;
            }
            State::Established => {
                self.sscop.resync(now);
                self.state = State::Resynchronising;
            }
            State::AwaitingEstablishment | State::Resynchronising => {}
        }
        self.settle(now);
    }

    /// AAL-RELEASE.request.
    pub fn release(&mut self, now: Time) {
        match self.state {
            State::Released => self.events.push_back(Event::Released(true)),
            State::AwaitingRelease => {}
            State::AwaitingEstablishment | State::Established | State::Resynchronising => {
                self.sscop.release(now);
                self.state = State::AwaitingRelease;
            }
        }
        self.settle(now);
    }

    /// AAL-DATA.request; dropped where the link is not established.
    pub fn send(&mut self, message: Vec<u8>, now: Time) -> Result<(), Full> {
        if self.state == State::Established { self.sscop.send(message, now) } else { Ok(()) }
    }

    /// AAL-UNIT-DATA.request.
    pub fn send_unit(&mut self, message: &[u8]) {
        self.sscop.send_unit(message);
    }

    /// An SDU of the signalling channel.
    pub fn handle_pdu(&mut self, octets: &[u8], now: Time) {
        self.sscop.handle_pdu(octets, now);
        self.settle(now);
    }

    /// The time has come that [`Self::poll_timeout`] gave.
    pub fn handle_timeout(&mut self, now: Time) {
        self.sscop.handle_timeout(now);
        self.settle(now);
    }

    /// When [`Self::handle_timeout`] is to be called.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.sscop.poll_timeout()
    }

    /// The next SDU for the signalling channel.
    pub fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        self.sscop.poll_transmit()
    }

    /// The next event for the user.
    pub fn poll(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Takes SSCOP's signals through the table of Q.2130.
    fn settle(&mut self, now: Time) {
        while let Some(signal) = self.sscop.poll() {
            match signal {
                Signal::EstablishIndication => {
                    self.sscop.establish_response(true, now);
                    self.state = State::Established;
                    self.events.push_back(Event::Established(false));
                }
                Signal::EstablishConfirm | Signal::ResyncConfirm => {
                    self.state = State::Established;
                    self.events.push_back(Event::Established(true));
                }
                Signal::ResyncIndication => {
                    self.sscop.resync_response(now);
                    self.state = State::Established;
                    self.events.push_back(Event::Established(false));
                }
                Signal::RecoverIndication => {
                    self.sscop.recover_response(now);
                    self.events.push_back(Event::Established(false));
                }
                // The peer was started anew: for the user the link was never down.
                Signal::ReleaseIndication(_) if self.sscop.begins_anew() => {}
                Signal::ReleaseIndication(_) => {
                    let asked = self.state == State::AwaitingRelease;
                    self.state = State::Released;
                    self.events.push_back(Event::Released(asked));
                }
                Signal::ReleaseConfirm => {
                    self.state = State::Released;
                    self.events.push_back(Event::Released(true));
                }
                Signal::Data(message) => self.events.push_back(Event::Data(message)),
                Signal::UnitData(message) => self.events.push_back(Event::UnitData(message)),
            }
        }
    }
}
