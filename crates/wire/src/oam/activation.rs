//! Activation cells (I.610 section 10.4): two ends agree to begin or end continuity check or performance monitoring.
//!
//! | octets behind the function | what |
//! |---|---|
//! | 0 | message (upper six bits), directions (lower two) |
//! | 1 | correlation tag: the answer has the request's |
//! | 2 | size of blocks from A to B (upper four bits), from B to A (lower four); 0 for continuity check |
//! | 3..45 | unused |
//!
//! A is the end that sent the request.

use super::Body;

/// What is to begin or to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Subject {
    /// Performance monitoring: forward monitoring and backward reports.
    Monitoring,
    /// Continuity check.
    ContinuityCheck,
    /// Forward monitoring alone.
    ForwardMonitoring,
}

/// What an activation cell says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Message {
    /// Begin.
    Activate,
    /// It has begun.
    ActivationConfirmed,
    /// It does not begin.
    ActivationDenied,
    /// End.
    Deactivate,
    /// It has ended.
    DeactivationConfirmed,
    /// It does not end.
    DeactivationDenied,
}

impl Message {
    const CODES: [(u8, Message); 6] = [
        (1, Message::Activate),
        (2, Message::ActivationConfirmed),
        (3, Message::ActivationDenied),
        (5, Message::Deactivate),
        (6, Message::DeactivationConfirmed),
        (7, Message::DeactivationDenied),
    ];

    /// Whether it asks the other end for something.
    pub const fn is_request(self) -> bool {
        matches!(self, Message::Activate | Message::Deactivate)
    }
}

/// In which directions, as seen by A, who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Directions {
    /// From B to A: the one that is asked sends.
    ToUs,
    /// From A to B: the one that asks sends.
    FromUs,
    /// Both.
    Both,
}

impl Directions {
    const CODES: [(u8, Directions); 3] = [(1, Directions::ToUs), (2, Directions::FromUs), (3, Directions::Both)];

    /// Whether A sends.
    pub const fn from_a(self) -> bool {
        matches!(self, Directions::FromUs | Directions::Both)
    }

    /// Whether B sends.
    pub const fn from_b(self) -> bool {
        matches!(self, Directions::ToUs | Directions::Both)
    }
}

/// The size of a block as four bits, one of which is set: 8 for 128 cells down to 1 for 1024; 0 where there are no
/// blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct BlockCode(u8);

impl BlockCode {
    /// No blocks.
    pub const NONE: BlockCode = BlockCode(0);

    /// The code of 128, 256, 512 or 1024 cells.
    pub const fn of_cells(cells: u16) -> Option<Self> {
        match cells {
            128 => Some(BlockCode(8)),
            256 => Some(BlockCode(4)),
            512 => Some(BlockCode(2)),
            1024 => Some(BlockCode(1)),
            _ => None,
        }
    }

    /// How many cells; `None` for no blocks and for codes that name no size.
    pub const fn cells(self) -> Option<u16> {
        match self.0 {
            8 => Some(128),
            4 => Some(256),
            2 => Some(512),
            1 => Some(1024),
            _ => None,
        }
    }
}

/// An activation cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Activation {
    /// Of what.
    pub subject: Subject,
    /// What it says.
    pub message: Message,
    /// In which directions.
    pub directions: Directions,
    /// By which A knows its answer.
    pub tag: u8,
    /// Blocks from A to B, and from B to A.
    pub blocks: [BlockCode; 2],
}

impl Activation {
    /// The answer to a request.
    pub const fn answered(self, accepted: bool) -> Self {
        let message = match (self.message, accepted) {
            (Message::Activate, true) => Message::ActivationConfirmed,
            (Message::Activate, false) => Message::ActivationDenied,
            (Message::Deactivate, true) => Message::DeactivationConfirmed,
            (Message::Deactivate, false) => Message::DeactivationDenied,
            (other, _) => other,
        };
        Activation { message, ..self }
    }

    pub(super) fn parse(function: u8, body: &Body) -> Option<Self> {
        let subject = match function {
            0x80 => Subject::Monitoring,
            0x81 => Subject::ContinuityCheck,
            _ => Subject::ForwardMonitoring,
        };
        let (_, message) = Message::CODES.into_iter().find(|(code, _)| *code == body[0] >> 2)?;
        let (_, directions) = Directions::CODES.into_iter().find(|(code, _)| *code == body[0] & 3)?;
        let blocks = [BlockCode(body[2] >> 4), BlockCode(body[2] & 15)];
        Some(Activation { subject, message, directions, tag: body[1], blocks })
    }

    pub(super) fn emit(self, body: &mut Body) -> u8 {
        let message =
            Message::CODES.into_iter().find(|(_, message)| *message == self.message).map_or(0, |(code, _)| code);
        let directions = Directions::CODES.into_iter().find(|(_, d)| *d == self.directions).map_or(0, |(code, _)| code);
        body[0] = message << 2 | directions;
        body[1] = self.tag;
        body[2] = self.blocks[0].0 << 4 | self.blocks[1].0;
        match self.subject {
            Subject::Monitoring => 0x80,
            Subject::ContinuityCheck => 0x81,
            Subject::ForwardMonitoring => 0x82,
        }
    }
}
