//! What a program does with the interface of a Myrinet: post buffers, send, learn what has come. Two hosts at one switch, in virtual time.
//!
//! `cargo run -p adapter --example myrinet_api`

use bus::HostMemory;
use lanai::fabric::mapper::Settings;
use lanai::fabric::{Config as Links, End, Fabric};
use lanai::network::Network;
use lanai::{Config, Destination, Event, Posted};
use std::time::Duration;

/// User interface 0 is the IP driver's; programs have 1 and 2.
const INTERFACE: usize = 1;
const ALPHA: u64 = 0x0060_dd00_0001;
const BETA: u64 = 0x0060_dd00_0002;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A switch of eight ports, and a cable of ten metres to each host.
    let mut fabric = Fabric::new(Links::default());
    let switch = fabric.add_switch(8)?;
    let hosts = [fabric.add_host(), fabric.add_host()];
    for (port, host) in hosts.iter().enumerate() {
        fabric.connect(End::Host(*host), End::Port(switch, port), 10.0)?;
    }
    let mut network = Network::new(fabric);
    let [alpha, beta] = [ALPHA, BETA].map(|address| {
        let host = hosts[usize::from(address == BETA)];
        network.add(host, address, Config::default(), Settings::default(), 1 << 20)
    });

    // The interfaces' control programs find out who is there. Nobody tells them.
    let until = network.now() + Duration::from_millis(250);
    network.run(until, |_, _, _, _| false);
    let mapping = network.stations()[alpha].lanai.mapping();
    let route: Vec<i8> = mapping.route(BETA).ok_or("no route")?.iter().map(|turn| turn.ports()).collect();
    println!("the mapper is {:x}; from {ALPHA:x} to {BETA:x} by {route:?}", mapping.mapper());

    // Beta posts a buffer; alpha sends a long message from its memory and a short one straight into its interface.
    for n in 0..2 {
        let buffer = Posted { address: 0x1_0000 * n, octets: 0x1_0000 };
        network.station(beta).ok_or("no station")?.lanai.post(INTERFACE, buffer)?;
    }
    let station = network.station(alpha).ok_or("no station")?;
    station.memory.write(0, &[0x5a; 20_000])?;
    station.lanai.send(INTERFACE, Destination::Host(BETA, INTERFACE as u8), 0, 20_000)?;
    station.lanai.send_immediate(INTERFACE, Destination::Host(BETA, INTERFACE as u8), b"and this")?;

    let (begun, mut came) = (network.now(), 0);
    network.run(begun + Duration::from_secs(1), |_, event, station, now| {
        match event {
            Event::Sent { number, .. } => println!("{:>9.1?} message {number} has left", now - begun),
            Event::Received { from, buffer, octets, .. } => {
                came += 1;
                let first = station.memory.slice(buffer.address, 8).unwrap_or_default();
                println!(
                    "{:>9.1?} {octets} octets from {from:x}: {:?} ...",
                    now - begun,
                    String::from_utf8_lossy(first)
                );
            }
        }
        came == 2
    });
    let monitor = network.stations()[beta].lanai.monitor();
    println!("beta's control program: {} messages, {} transfers", monitor.received.pdus, monitor.transfers);
    Ok(())
}
