//! A port: call control on its signalling link. In: SDUs of VPI 0, VCI 5. Out: SDUs, and call control's events.

use crate::call::{self, Calls, Event};
use crate::saal::{self, Saal};
use crate::sscop;
use std::time::Duration;
use wire::Time;
use wire::q2931::CauseValue;

/// Messages that may wait in SSCOP; more stay with call control.
const BACKLOG: usize = 256;
/// How long a link that could not be established rests.
const RETRY: Duration = Duration::from_secs(1);

/// A signalling link and the calls on it.
#[derive(Debug)]
pub struct Port {
    saal: Saal,
    calls: Calls,
    link_up: bool,
    retry: Option<Time>,
    /// When something was left that [`Self::handle_timeout`] is to do at once.
    due: Option<Time>,
}

impl Port {
    /// A port whose link is down; [`Self::start`] brings it up.
    pub fn new(config: call::Config) -> Self {
        let saal = Saal::new(sscop::Config::default());
        Port { saal, calls: Calls::new(config), link_up: false, retry: None, due: None }
    }

    /// Establishes the signalling link, and again whenever it is lost.
    pub fn start(&mut self, now: Time) {
        self.saal.establish(now);
        self.settle(now);
    }

    /// Whether the signalling link is up.
    pub const fn is_up(&self) -> bool {
        self.link_up
    }

    /// Call control.
    pub const fn calls(&self) -> &Calls {
        &self.calls
    }

    /// Call control, for requests; then take what [`Self::poll_transmit`] gives.
    pub const fn calls_mut(&mut self) -> &mut Calls {
        &mut self.calls
    }

    /// The signalling link.
    pub const fn saal(&self) -> &Saal {
        &self.saal
    }

    /// The link is no more: all calls are cleared at once.
    pub fn abandon(&mut self, value: CauseValue) {
        self.saal = Saal::new(sscop::Config::default());
        (self.link_up, self.retry, self.due) = (false, None, None);
        self.calls.abandon(value);
    }

    /// An SDU of the signalling channel.
    pub fn handle_pdu(&mut self, octets: &[u8], now: Time) {
        self.saal.handle_pdu(octets, now);
        self.settle(now);
    }

    /// The time has come that [`Self::poll_timeout`] gave.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.retry.take_if(|at| *at <= now).is_some() {
            self.saal.establish(now);
        }
        self.saal.handle_timeout(now);
        self.settle(now);
        self.calls.handle_timeout(now);
        if self.due.take_if(|at| *at <= now).is_some() && self.link_up {
            self.calls.resume_enquiries(now);
        }
        self.give_up_overrun_link(now);
    }

    /// When [`Self::handle_timeout`] is to be called.
    pub fn poll_timeout(&self) -> Option<Time> {
        [self.due, self.retry, self.saal.poll_timeout(), self.calls.poll_timeout()].into_iter().flatten().min()
    }

    /// The next SDU for the signalling channel.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Vec<u8>> {
        while self.link_up && self.saal.sscop().backlog() < BACKLOG {
            let Some(message) = self.calls.poll_transmit().or_else(|| {
                self.calls.resume_enquiries(now);
                self.calls.poll_transmit()
            }) else {
                break;
            };
            // It fits: the backlog was asked for, and call control's messages are no longer than an SDU.
            let _ = self.saal.send(message, now);
        }
        let can_ask = self.link_up && self.calls.has_enquiries() && self.saal.sscop().backlog() < BACKLOG;
        // Calls of a link that is given up are cleared by events, which nobody takes here.
        if can_ask || self.calls.is_overrun() {
            self.due = Some(now);
        }
        self.saal.poll_transmit()
    }

    /// The next event of call control.
    pub fn poll(&mut self) -> Option<Event> {
        loop {
            let event = self.calls.poll()?;
            // The port looks after its link itself.
            if event != Event::EstablishLink {
                return Some(event);
            }
        }
    }

    fn settle(&mut self, now: Time) {
        while let Some(event) = self.saal.poll() {
            match event {
                saal::Event::Established(_) => {
                    self.link_up = true;
                    self.retry = None;
                    self.calls.link_established(now);
                }
                saal::Event::Released(_) => {
                    if std::mem::take(&mut self.link_up) {
                        self.calls.link_released(now);
                    }
                    self.retry = Some(now + RETRY);
                }
                saal::Event::Data(message) => self.calls.handle_message(&message, now),
                // The UNI's call control uses no messages without assurance.
                saal::Event::UnitData(_) => {}
            }
        }
        self.give_up_overrun_link(now);
    }

    /// A peer that takes no messages has no link; it may establish a new one.
    fn give_up_overrun_link(&mut self, now: Time) {
        if self.calls.is_overrun() {
            self.saal.release(now);
            self.link_up = false;
            self.calls.link_released(now);
        }
    }
}
