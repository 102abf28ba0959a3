//! What a connection's octets are: frames of ATM over TCP, or cells.

use crate::connection::{Judge, LinkError, Out};
use crate::{atmtcp, cells};
use net::node::NodeIo;

/// A connection's protocol.
#[derive(Debug)]
pub(super) enum Speech {
    Frames(Box<atmtcp::Machine>),
    Cells(Box<cells::Machine>),
}

impl Speech {
    /// How a candidate is judged.
    pub(super) fn judge(&self) -> Judge {
        match self {
            Speech::Frames(_) => atmtcp::judge,
            Speech::Cells(_) => cells::judge,
        }
    }

    pub(super) fn out(&self) -> &Out {
        match self {
            Speech::Frames(machine) => machine.out(),
            Speech::Cells(machine) => machine.out(),
        }
    }

    pub(super) fn out_mut(&mut self) -> &mut Out {
        match self {
            Speech::Frames(machine) => machine.out_mut(),
            Speech::Cells(machine) => machine.out_mut(),
        }
    }

    pub(super) fn receive(&mut self, octets: &[u8], io: &mut NodeIo<'_>) -> Result<usize, LinkError> {
        match self {
            Speech::Frames(machine) => machine.receive(octets, io),
            Speech::Cells(machine) => machine.receive(octets, io),
        }
    }

    pub(super) fn is_blocked(&self) -> bool {
        match self {
            Speech::Frames(machine) => machine.is_blocked(),
            Speech::Cells(machine) => machine.is_blocked(),
        }
    }

    /// Whole messages that have come on this connection.
    pub(super) fn heard(&self) -> u64 {
        match self {
            Speech::Frames(machine) => machine.heard(),
            Speech::Cells(machine) => machine.heard(),
        }
    }

    pub(super) fn transmit(&mut self, io: &mut NodeIo<'_>) -> bool {
        match self {
            Speech::Frames(machine) => machine.transmit(io),
            Speech::Cells(machine) => machine.transmit(io),
        }
    }

    /// Nothing of what comes now goes to the network any more; it is counted as lost.
    pub(super) fn lose(&mut self, octets: &[u8], io: &mut NodeIo<'_>) {
        match self {
            Speech::Frames(machine) => machine.lose(octets, io),
            Speech::Cells(machine) => machine.lose(octets, io),
        }
    }

    pub(super) fn disconnect(&mut self, io: &mut NodeIo<'_>) {
        match self {
            Speech::Frames(machine) => machine.disconnect(io),
            Speech::Cells(machine) => machine.disconnect(io),
        }
    }
}
