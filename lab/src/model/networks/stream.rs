//! TCP between two hosts, by the stack in process: its segments, acknowledgements and window on the real network.

use super::super::bulk::{End, HEADER_OCTETS, LLC_OCTETS, stream as octets_of};
use super::{BUFFER_OCTETS, Event, Ground, To};
use core::time::Duration;

/// What TCP takes of a host's processor, in seconds, beside what a PDU takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Protocol {
    /// For a segment that leaves or comes, acknowledgements too.
    pub segment: f64,
    /// For each octet's checksum, where the interface does not make it.
    pub checksum: f64,
    /// Octets of data in a segment at most.
    pub octets: usize,
    /// Octets of the window.
    pub window: usize,
}

/// What came of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Streamed {
    /// Mbit/s that the receiving application has read, in the second half of the time.
    pub mbit_s: f64,
    /// Whether all of it is as it was written.
    pub intact: bool,
    /// The share of the time that the busier processor worked.
    pub busy: f64,
}

/// PDUs of a host that its processor is at: TCP makes the next when one of them has been given to the interface.
const AHEAD: usize = 2;

/// A connection from host 0 to host 1 for a time.
pub fn stream(ground: &mut Ground<'_>, protocol: Protocol, length: Duration, seed: u64) -> Option<Streamed> {
    let packet = protocol.octets + HEADER_OCTETS;
    let mut ends = [true, false].map(|sends| End::new(sends, packet, protocol.window, seed));
    let text = octets_of();
    let begin = ground.now();
    let (since, end) = (begin + length / 2, begin + length);
    let (mut ahead, mut sdu, mut before) = ([0; 2], vec![0; BUFFER_OCTETS], None);
    let takes = |octets: usize| {
        let data = octets.saturating_sub(HEADER_OCTETS + LLC_OCTETS);
        protocol.segment + protocol.checksum * data as f64
    };
    while ground.now() < end {
        let now = ground.now();
        let mut timer = end;
        for (host, own) in ends.iter_mut().enumerate() {
            let own = own.as_mut()?;
            own.run(&text, now);
            while ahead[host] < AHEAD
                && let Some(octets) = own.poll_pdu(&mut sdu, now)
            {
                ahead[host] += 1;
                ground.send(host, To::Host(1 - host), sdu[..octets].to_vec(), false, 0, takes(octets));
            }
            if ahead[host] < AHEAD {
                // A time that has come already is that of what cannot be done yet.
                let later = now + Duration::from_micros(1);
                timer = timer.min(own.poll_timeout(now).map_or(end, |at| at.max(later)));
            }
        }
        let read = ends[1].as_ref()?.octets;
        if now >= since && before.is_none() {
            before = Some((now, read));
        }
        match ground.next(timer, takes) {
            Some(Event::Taken { host, .. }) => ahead[host] -= 1,
            Some(Event::Delivered { host, pdu }) => ends[host].as_mut()?.handle_pdu(&pdu, &text, ground.now()),
            None => {}
        }
    }
    let receiver = ends[1].as_ref()?;
    let (from, read) = before?;
    let seconds = ground.now().since(from).as_secs_f64();
    let busy = ground.worked(0).max(ground.worked(1)) / ground.now().since(begin).as_secs_f64();
    let mbit_s = (receiver.octets - read) as f64 * 8.0 / seconds.max(1e-9) / 1e6;
    Some(Streamed { mbit_s, intact: receiver.intact, busy })
}
