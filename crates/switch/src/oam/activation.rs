//! The side of the activation protocol that asks: a request, sent again while nothing answers, and what came of it.

use std::time::Duration;
use wire::Time;
use wire::oam::{Activation, BlockCode, Directions, Message, Subject};

/// How long an answer may take (I.610).
const PATIENCE: Duration = Duration::from_secs(5);
/// How often a request is sent.
const TRIES: u8 = 3;

/// What the other end is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Begin it, or end it.
    pub activate: bool,
    /// Of what.
    pub subject: Subject,
    /// In which directions; the one that asks is A.
    pub directions: Directions,
    /// Cells of a block, both ways; none for continuity check.
    pub block: BlockCode,
}

impl Request {
    /// Continuity check both ways.
    pub const fn continuity(activate: bool) -> Self {
        Request { activate, subject: Subject::ContinuityCheck, directions: Directions::Both, block: BlockCode::NONE }
    }

    /// Performance monitoring both ways.
    pub const fn monitoring(activate: bool, block: BlockCode) -> Self {
        Request { activate, subject: Subject::Monitoring, directions: Directions::Both, block }
    }
}

/// What came of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestOutcome {
    /// No answer yet.
    Asking,
    /// It is so.
    Confirmed,
    /// The other end refused.
    Denied,
    /// Nothing was answered, three times.
    TimedOut,
}

impl RequestOutcome {
    /// As `status` writes it.
    pub const fn name(self) -> &'static str {
        match self {
            RequestOutcome::Asking => "asking",
            RequestOutcome::Confirmed => "confirmed",
            RequestOutcome::Denied => "denied",
            RequestOutcome::TimedOut => "timed out",
        }
    }
}

/// Why a request cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// One at a time.
    #[error("another request of this circuit waits for its answer")]
    Busy,
    /// The description has it.
    #[error("the description has it on this circuit: change it there")]
    Managed,
    /// Performance monitoring counts cells one by one.
    #[error("performance monitoring needs a cell link here, and a circuit without credits that sends and receives")]
    NoCells,
    /// Blocks have four sizes.
    #[error("performance monitoring needs blocks of 128, 256, 512 or 1024 cells")]
    NoBlock,
    /// The bound of the configuration.
    #[error("no more circuits can have OAM state here")]
    Full,
}

/// A request under way, or the last one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) request: Request,
    pub(super) outcome: RequestOutcome,
    tag: u8,
    tries: u8,
    due: Time,
}

impl Asked {
    pub(super) const fn new(request: Request, tag: u8, now: Time) -> Self {
        Asked { request, outcome: RequestOutcome::Asking, tag, tries: 0, due: now }
    }

    pub(super) fn is_open(&self) -> bool {
        self.outcome == RequestOutcome::Asking
    }

    pub(super) const fn tag(&self) -> u8 {
        self.tag
    }

    /// The cell that is due.
    pub(super) fn poll_transmit(&mut self, now: Time) -> Option<Activation> {
        if !self.can_send() || now < self.due {
            return None;
        }
        self.tries += 1;
        self.due = now + PATIENCE;
        let Request { activate, subject, directions, block } = self.request;
        let message = if activate { Message::Activate } else { Message::Deactivate };
        Some(Activation { subject, message, directions, tag: self.tag, blocks: [block; 2] })
    }

    /// Whether the request may still be sent.
    pub(super) fn can_send(&self) -> bool {
        self.is_open() && self.tries < TRIES
    }

    /// Takes an answer; true if it is ours and confirms.
    pub(super) fn handle_answer(&mut self, answer: &Activation) -> bool {
        let Request { activate, subject, directions, .. } = self.request;
        let is_ours =
            self.is_open() && (answer.tag, answer.subject, answer.directions) == (self.tag, subject, directions);
        self.outcome = match (answer.message, activate) {
            (Message::ActivationConfirmed, true) | (Message::DeactivationConfirmed, false) if is_ours => {
                RequestOutcome::Confirmed
            }
            (Message::ActivationDenied, true) | (Message::DeactivationDenied, false) if is_ours => {
                RequestOutcome::Denied
            }
            _ => return false,
        };
        self.outcome == RequestOutcome::Confirmed
    }

    /// Gives up once the last try is overdue.
    pub(super) fn handle_timeout(&mut self, now: Time) {
        if self.is_open() && self.tries >= TRIES && self.due <= now {
            self.outcome = RequestOutcome::TimedOut;
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.is_open().then_some(self.due)
    }
}
