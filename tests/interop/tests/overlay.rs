//! The kernel's own TCP through two modelled cards that are one device: a TUN device in each of two namespaces, a host with a
//! Segmenter and a Reassembler behind each, a wire between them, on this machine's clock.

use interop::namespace::{Namespace, accept, available, connect, listen};
use lab::overlay::OverlayCards;
use stack::device::tun::{Device, DeviceSettings};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wire::{Cell, Time};

const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 66, 0, 1), Ipv4Addr::new(10, 66, 0, 2)];
const PORT: u16 = 5001;
const MTU: usize = 9180;
const OCTETS: usize = 1 << 18;

/// Moves packets between each device and its cards, and cells between the cards, until `stop`.
fn pump(devices: &[Device; 2], stop: &AtomicBool) -> anyhow::Result<[OverlayCards; 2]> {
    let tick = Duration::from_millis(1);
    let mut hosts = [OverlayCards::new(1, tick)?, OverlayCards::new(2, tick)?];
    let begun = Instant::now();
    let mut packet = vec![0; 1 << 16];
    let mut cells = [Cell::default(); 64];
    while !stop.load(Ordering::Relaxed) {
        let mut moved = false;
        let now = Time::ZERO + begun.elapsed();
        for at in 0..2 {
            while hosts[at].has_room()? {
                match devices[at].read(&mut packet) {
                    Ok((_, octets)) => moved |= hosts[at].send(&packet[..octets], now)?,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error.into()),
                }
            }
            let n = hosts[at].fill(&mut cells, now);
            hosts[1 - at].handle_cells(&cells[..n], now);
            moved |= n > 0;
            hosts[at].handle_timeout(now);
            while let Some(octets) = hosts[at].receive(&mut packet)? {
                devices[at].write_whole(&packet[..octets])?;
                moved = true;
            }
        }
        if !moved {
            std::thread::sleep(Duration::from_micros(50));
        }
    }
    Ok(hosts)
}

#[test]
fn the_kernels_tcp_goes_through_two_cards_as_one_device() -> anyhow::Result<()> {
    if !available() {
        return Ok(());
    }
    let namespaces = [Namespace::new("left")?, Namespace::new("right")?];
    let device = |at: usize| {
        let device = Device::new(&DeviceSettings {
            name: "atm0".into(),
            address: Some((ADDRESSES[at], 24)),
            ipv6: None,
            mac: None,
            mtu: MTU,
            ethernet: false,
            offload: false,
            takes_long: false,
            namespace: Some(namespaces[at].path().into()),
        })?;
        device.set_nonblocking()?;
        anyhow::Ok(device)
    };
    let devices = [device(0)?, device(1)?];
    let stop = Arc::new(AtomicBool::new(false));
    let running = Arc::clone(&stop);
    let cards = std::thread::spawn(move || pump(&devices, &running));
    let data: Arc<Vec<u8>> = Arc::new((0..OCTETS).map(|i| (i * 31 + i / 251) as u8).collect());
    let expected = Arc::clone(&data);
    // An echo: what arrives goes back the other way.
    let server = namespaces[1].run(move || {
        let listener = listen(ADDRESSES[1], PORT)?;
        let (mut stream, from) = accept(&listener, Duration::from_secs(60))?;
        let mut got = Vec::new();
        stream.read_to_end(&mut got)?;
        stream.write_all(&got)?;
        Ok((from, got))
    });
    let client = namespaces[0].run(move || {
        let mut stream = connect(ADDRESSES[1], PORT)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        stream.write_all(&data)?;
        stream.shutdown(Shutdown::Write)?;
        let mut back = Vec::new();
        stream.read_to_end(&mut back)?;
        Ok(back)
    });
    let back = client.join()?;
    let (from, got) = server.join()?;
    stop.store(true, Ordering::Relaxed);
    let hosts = cards.join().map_err(|_| anyhow::anyhow!("the cards' thread has panicked"))??;
    assert_eq!(from, ADDRESSES[0]);
    assert!(got == *expected && back == *expected, "{} octets there, {} back", got.len(), back.len());
    for host in &hosts {
        let [sent, received] = host.counters();
        assert!(sent.octets as usize > OCTETS && received.octets as usize > OCTETS, "{sent:?} {received:?}");
    }
    Ok(())
}
