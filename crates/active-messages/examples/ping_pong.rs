//! Round trips of a request and its reply. Without arguments between two threads, on a direct circuit; with
//! `SOCKET HOST VPI.VCI pong` and `SOCKET HOST VPI.VCI ping`, in two shells, on a circuit of a running network
//! (`cellway up examples/two-hosts.toml`).

use active_messages::{Call, Circuits, Config, DirectCircuits, PeerId, Port, Transport};
use endpoint::direct::{Direct, DirectConfig};
use endpoint::{Endpoint, EndpointConfig, OpenOptions};
use std::error::Error;
use std::time::{Duration, Instant};

/// Runs at who answers.
const PING: u8 = 1;
/// Runs at who asks.
const PONG: u8 = 2;
/// Nobody answers for so long: the other one has gone.
const PATIENCE: Duration = Duration::from_secs(20);

/// How many messages have been handled, and the sum of their first words.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Messages.
    pub messages: u64,
    /// The sum.
    pub sum: u64,
}

fn ping(seen: &mut Seen, call: &mut Call<'_>) {
    seen.messages += 1;
    seen.sum += u64::from(call.word(0));
    // A request's one reply always has room.
    let _ = call.reply(PONG, &[call.word(0) + 1], call.payload);
}

fn pong(seen: &mut Seen, call: &mut Call<'_>) {
    seen.messages += 1;
    seen.sum += u64::from(call.word(0));
}

/// Answers `count` requests.
pub fn serve<T: Transport>(transport: T, count: u64) -> Result<Seen, Box<dyn Error + Send + Sync>> {
    let (mut port, mut seen) = (Port::new(transport, Config::default()), Seen::default());
    port.node.handle_with(PING, ping);
    let all = port.wait_until(&mut seen, PATIENCE, |seen, _| seen.messages >= count)?;
    // The last reply is kept until the other side has said that it came.
    let kept = |node: &active_messages::Node<Seen>| node.peer(PeerId(0)).is_some_and(|peer| peer.outstanding() > 0);
    let left = port.wait_until(&mut seen, Duration::from_secs(2), |_, node| !kept(node)).unwrap_or(true);
    if all && left { Ok(seen) } else { Err(format!("only {} requests came", seen.messages).into()) }
}

/// Asks `count` times with `octets` octets of payload, and waits for each answer; gives the time of a round trip.
pub fn ask<T: Transport>(
    transport: T,
    count: u64,
    octets: usize,
) -> Result<(Seen, Duration), Box<dyn Error + Send + Sync>> {
    let (mut port, mut seen) = (Port::new(transport, Config::default()), Seen::default());
    port.node.handle_with(PONG, pong);
    let payload = vec![7; octets];
    let begin = Instant::now();
    for n in 0..count {
        port.request_within(&mut seen, PeerId(0), PING, (&[n as u32], &payload), PATIENCE)?;
        if !port.wait_until(&mut seen, PATIENCE, |seen, _| seen.messages > n)? {
            return Err(format!("no answer to request {n}").into());
        }
    }
    let trip = begin.elapsed() / u32::try_from(count.max(1))?;
    // Who answers learns that its last reply has come.
    port.wait(&mut seen, Duration::from_millis(5)).ok();
    Ok((seen, trip))
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [socket, host, circuit, role] = match <[String; 4]>::try_from(arguments) {
        Ok(arguments) => arguments,
        Err(none) if none.is_empty() => {
            let (here, there) = Direct::pair(&DirectConfig::default())?;
            let server = std::thread::spawn(move || serve(DirectCircuits::new(vec![there]), 100_000));
            let (seen, trip) = ask(DirectCircuits::new(vec![here]), 100_000, 0)?;
            server.join().map_err(|_| "the other thread panicked")??;
            println!("{} round trips of {trip:?} on a direct circuit", seen.messages);
            return Ok(());
        }
        Err(_) => return Err("ping_pong [SOCKET HOST VPI.VCI ping|pong]".into()),
    };
    let mut endpoint = Endpoint::create(socket.as_ref(), &EndpointConfig { host, ..EndpointConfig::default() })?;
    let channel = endpoint.open(circuit.parse()?, OpenOptions::default())?;
    let circuits = Circuits::new(endpoint, vec![channel]);
    if role == "pong" {
        println!("{:?}", serve(circuits, 10_000)?);
    } else {
        let (seen, trip) = ask(circuits, 10_000, 0)?;
        println!("{} round trips of {trip:?}", seen.messages);
    }
    Ok(())
}
