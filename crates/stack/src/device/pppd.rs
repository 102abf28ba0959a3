//! PPP over ATM for the system's `pppd`: its asynchronous line (a pseudo-terminal, or any pair of descriptors) on one
//! side, a circuit on the other. `pppd` itself does all of PPP and makes the network device.

use crate::ppp::{Encapsulation, Line, MAX_LINE_OCTETS, to_line};
use endpoint::{ChannelId, Endpoint, Loan};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;
use wire::{Counters, DropReason};

const MAX_WAIT: Duration = Duration::from_millis(100);

/// What passed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Passed {
    /// To the circuit.
    pub sent: Counters,
    /// From the circuit.
    pub received: Counters,
}

/// Waits until there is room to send, or `stop` says so.
fn await_room(endpoint: &mut Endpoint, stop: &mut impl FnMut() -> bool) -> io::Result<()> {
    while !endpoint.wait_send(Some(MAX_WAIT)).map_err(io::Error::other)? && !stop() {}
    Ok(())
}

/// Moves frames until `pppd` closes the line or `stop` says so.
///
/// # Errors
/// The line or the service has broken.
pub fn run(
    endpoint: &mut Endpoint,
    channel: ChannelId,
    encapsulation: Encapsulation,
    input: &impl AsFd,
    output: &impl AsFd,
    mut stop: impl FnMut() -> bool,
) -> io::Result<Passed> {
    let mut passed = Passed::default();
    let mut line = Line::default();
    let mut to_pppd: Vec<u8> = Vec::with_capacity(2 * MAX_LINE_OCTETS);
    let mut octets = [0; 4096];
    let mut loan: Option<Loan> = None;
    while !stop() {
        endpoint.arm();
        while to_pppd.len() < MAX_LINE_OCTETS {
            let Some(sdu) = endpoint.try_receive() else { break };
            match encapsulation.parse(&sdu) {
                Ok(frame) => {
                    passed.received.pdus += 1;
                    passed.received.octets += frame.len() as u64;
                    to_line(frame, &mut to_pppd);
                }
                Err(reason) => passed.received.drop_one(reason),
            }
        }
        let wait = Timespec { tv_sec: 0, tv_nsec: i64::from(MAX_WAIT.subsec_nanos()) };
        let writing = if to_pppd.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        let mut fds = [
            PollFd::from_borrowed_fd(input.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(output.as_fd(), writing),
            PollFd::from_borrowed_fd(endpoint.as_fd(), PollFlags::IN),
        ];
        match poll(&mut fds, Some(&wait)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        let (readable, writable) = (!fds[0].revents().is_empty(), fds[1].revents().contains(PollFlags::OUT));
        endpoint.disarm().map_err(io::Error::other)?;
        if writable {
            match rustix::io::write(output, &to_pppd[..to_pppd.len().min(octets.len())]) {
                Ok(n) => drop(to_pppd.drain(..n)),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        if !readable {
            continue;
        }
        let n = match rustix::io::read(input, &mut octets) {
            // A pseudo-terminal whose other side has gone says EIO.
            Ok(0) | Err(Errno::IO) => return Ok(passed),
            Ok(n) => n,
            Err(Errno::AGAIN | Errno::INTR) => continue,
            Err(e) => return Err(e.into()),
        };
        for octet in &octets[..n] {
            if loan.is_none() {
                await_room(endpoint, &mut stop)?;
                loan = endpoint.loan();
            }
            let Some(sdu) = &mut loan else { continue };
            match line.push(*octet, encapsulation, sdu) {
                Ok(None) => {}
                Ok(Some(octets)) => {
                    await_room(endpoint, &mut stop)?;
                    if let Some(sdu) = loan.take()
                        && endpoint.send(channel, sdu, octets).is_ok()
                    {
                        passed.sent.pdus += 1;
                        passed.sent.octets += octets as u64;
                    } else {
                        passed.sent.drop_one(DropReason::QueueFull);
                    }
                }
                Err(reason) => passed.sent.drop_one(reason),
            }
        }
    }
    Ok(passed)
}
