//! The machine's limit beside memcpy, measured in the same run: the plainest relay that takes a system call for each message.

use anyhow::Result;
use stack::flood::sum;
use std::hint::black_box;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

/// The plainest relay there is, as the limit of whatever takes a system call for each message: UNIX datagrams from one
/// thread by a second to a third. PDUs a second.
pub(super) fn relay(pdu_octets: usize, length: Duration) -> Result<f64> {
    let (mut from_sender, mut to_relay) = UnixDatagram::pair()?;
    let (mut from_relay, mut to_receiver) = UnixDatagram::pair()?;
    for socket in [&mut from_sender, &mut to_relay, &mut from_relay, &mut to_receiver] {
        socket.set_read_timeout(Some(Duration::from_millis(200)))?;
    }
    let pdus = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut sdu = vec![0; pdu_octets];
            while to_relay.recv(&mut sdu).is_ok_and(|n| n == pdu_octets) && from_relay.send(&sdu).is_ok() {}
            let _ = from_relay.send(&[0]);
        });
        let counting = scope.spawn(|| {
            let (mut sdu, mut pdus, mut total) = (vec![0; pdu_octets], 0u64, 0u64);
            while to_receiver.recv(&mut sdu).is_ok_and(|n| n == pdu_octets) {
                total = total.wrapping_add(sum(&sdu));
                pdus += 1;
            }
            black_box(total);
            pdus
        });
        let (begin, mut sdu) = (Instant::now(), vec![0; pdu_octets]);
        let mut sent = 0u64;
        while begin.elapsed() < length {
            sdu.fill(sent as u8);
            from_sender.send(&sdu)?;
            sent += 1;
        }
        let seconds = begin.elapsed().as_secs_f64();
        let _ = from_sender.send(&[0]);
        let pdus = counting.join().map_err(|_| anyhow::anyhow!("the receiver panicked"))?;
        anyhow::Ok(pdus as f64 / seconds)
    })?;
    Ok(pdus)
}
