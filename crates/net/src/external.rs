//! Link ends outside the process: what a socket shell offers to a network and to the thread that waits for it.

use crate::frame::FrameAal;
use crate::node::NodeIo;
use std::os::fd::BorrowedFd;
use traffic::Contract;
use wire::{CellRate, CircuitId, Counters, Time};

/// A shell at the external end of a link. Nothing in it blocks.
///
/// [`crate::Network::attach`] gives it to its link; [`crate::Network::run`] then calls [`External::run`] in each round
/// and keeps the link up or down as [`External::is_up`] says, if it may be up. The waiting thread polls
/// [`External::as_fd`] for reading if [`External::wants_read`], for writing if [`External::wants_write`], and passes
/// what it saw to [`crate::Network::handle_ready`]. A shell without a file descriptor leaves these as they are here.
pub trait External: Send {
    /// What to wait for now; it may be another, or none, after any other call.
    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Whether [`External::as_fd`] is one and the same from the shell's beginning to its end, at which it is closed:
    /// the waiting thread may then register it instead of asking for it at each sleep. Whoever takes such a shell off
    /// its link drops it or attaches it again.
    fn keeps_fd(&self) -> bool {
        false
    }

    /// Whether the shell can take octets in.
    fn wants_read(&self) -> bool {
        false
    }

    /// Whether octets, or a connection, wait for the socket.
    fn wants_write(&self) -> bool {
        false
    }

    /// The socket can be read: octets become cells or frames at port 0 of `io`.
    fn handle_readable(&mut self, _io: &mut NodeIo<'_>, _now: Time) {}

    /// The socket can be written, or a connection has been made or refused.
    fn handle_writable(&mut self, _io: &mut NodeIo<'_>, _now: Time) {}

    /// Takes cells or frames from port 0 of `io` to the socket; timers. True if it did anything.
    fn run(&mut self, io: &mut NodeIo<'_>, now: Time) -> bool;

    /// When to run next even if nothing happens.
    fn poll_timeout(&self) -> Option<Time>;

    /// Whether cells or frames can pass at present.
    fn is_up(&self) -> bool;

    /// The shell is finished and may be replaced: it will never be up again.
    fn has_ended(&self) -> bool {
        false
    }

    /// One line for people: to whom connected, or why not.
    fn status(&self) -> String;

    /// A circuit of the link now exists, or exists no more (`None`). Comes for each circuit, also long after the shell
    /// was attached; a shell to which that makes no difference does nothing.
    fn set_circuit(&mut self, _circuit: CircuitId, _what: Option<CircuitNotice>) {}

    /// The line brings a signal, or does not: the link has been taken down, leads nowhere, or follows one that is down.
    /// Comes in every round, before a shell's [`External::run`] or after it; a shell to which that makes no difference
    /// does nothing.
    fn set_signal(&mut self, _signal: bool) {}

    /// The rate of the link, `None` for an unlimited one: how much a socket may have to hold follows from it. Comes when
    /// the shell is attached, and with each change.
    fn set_rate(&mut self, _rate: Option<CellRate>) {}

    /// What the shell counts itself, by name, beside the link's own counters.
    fn counters(&self) -> Vec<(&'static str, Counters)> {
        Vec::new()
    }

    /// The oldest opening or closing of a circuit by the peer that has not been fetched.
    fn poll_peer(&mut self) -> Option<PeerCircuit> {
        None
    }
}

/// What a shell is told about a circuit of its link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CircuitNotice {
    /// Adaptation layer.
    pub aal: FrameAal,
    /// Traffic contract.
    pub contract: Contract,
}

/// What a peer says about a circuit at its side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerCircuit {
    /// The circuit.
    pub circuit: CircuitId,
    /// Opened, with an adaptation layer if one was named (0 or 5); or closed.
    pub opened: Option<Option<u8>>,
}
