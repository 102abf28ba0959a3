//! Each of some nodes puts a block into each other one's memory, and checks what it was given: the exchange of a parallel
//! transpose. Here the nodes are threads, with a direct circuit between each two of them: `all_to_all [NODES] [OCTETS]`.

use active_messages::{AreaId, Call, Config, DirectCircuits, PeerId, Port, Rights, Transport};
use endpoint::direct::{Direct, DirectConfig};
use std::error::Error;
use std::time::{Duration, Instant};

const BLOCKS: AreaId = AreaId(1);
const STORED: u8 = 1;
const PATIENCE: Duration = Duration::from_secs(60);

/// Blocks that have come.
#[derive(Debug, Default)]
pub struct Come(usize);

fn stored(come: &mut Come, _: &mut Call<'_>) {
    come.0 += 1;
}

/// What node `from` gives node `to`.
pub fn block(from: usize, to: usize, octets: usize) -> Vec<u8> {
    (0..octets).map(|n| (n as u8).wrapping_mul(31) ^ (from * 16 + to) as u8).collect()
}

/// Node `own` of a transport whose peers are all other nodes in their order; gives when all had come.
pub fn exchange<T: Transport>(
    transport: T,
    own: usize,
    octets: usize,
) -> Result<Duration, Box<dyn Error + Send + Sync>> {
    let (mut port, mut come) = (Port::new(transport, Config::default()), Come::default());
    let others: Vec<usize> = (0..=port.transport.peers()).filter(|node| *node != own).collect();
    port.node.handle_with(STORED, stored);
    // A place for the block of each node.
    port.node.register(BLOCKS, vec![0; (others.len() + 1) * octets], Rights::ALL);
    let begin = Instant::now();
    for (n, to) in others.iter().enumerate() {
        let place = u32::try_from(own * octets)?;
        port.node.put(PeerId(n), BLOCKS, place, block(own, *to, octets), STORED)?;
    }
    let mut ended = 0;
    let all = port.wait_until(&mut come, PATIENCE, |come, node| {
        ended += std::iter::from_fn(|| node.poll_ended()).filter(|(_, result)| result.is_ok()).count();
        come.0 == others.len() && ended == others.len()
    })?;
    let took = begin.elapsed();
    if !all {
        return Err(format!("node {own}: {} blocks came and {ended} were stored, of {}", come.0, others.len()).into());
    }
    let area = port.node.area(BLOCKS).unwrap_or_default();
    for from in &others {
        if area[from * octets..(from + 1) * octets] != block(*from, own, octets) {
            return Err(format!("node {own} has another block of node {from}").into());
        }
    }
    // Others may still wait for what says that their last block has come.
    let quiet = |node: &active_messages::Node<Come>| {
        node.peers().all(|peer| node.peer(peer).is_none_or(|peer| peer.outstanding() == 0))
    };
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(200) || !quiet(&port.node) && begin.elapsed() < PATIENCE {
        // A node that is through closes its circuits.
        if port.wait(&mut come, Duration::from_millis(5)).is_err() {
            break;
        }
    }
    Ok(took)
}

/// All nodes on direct circuits, a thread each.
pub fn on_direct_circuits(nodes: usize, octets: usize) -> Result<Duration, Box<dyn Error + Send + Sync>> {
    let mut circuits: Vec<Vec<Direct>> = (0..nodes).map(|_| Vec::new()).collect();
    for a in 0..nodes {
        for b in a + 1..nodes {
            let (here, there) = Direct::pair(&DirectConfig::default())?;
            circuits[a].push(here);
            circuits[b].push(there);
        }
    }
    let run = |(own, circuits)| std::thread::spawn(move || exchange(DirectCircuits::new(circuits), own, octets));
    let threads: Vec<_> = circuits.into_iter().enumerate().map(run).collect();
    let mut longest = Duration::ZERO;
    for thread in threads {
        longest = longest.max(thread.join().map_err(|_| "a node panicked")??);
    }
    Ok(longest)
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let number = |n: usize, default: usize| std::env::args().nth(n).map_or(Ok(default), |text| text.parse());
    let (nodes, octets) = (number(1, 4)?.clamp(2, 16), number(2, 65_536)?);
    let took = on_direct_circuits(nodes, octets)?;
    println!("{nodes} nodes exchanged blocks of {octets} octets in {took:?}");
    Ok(())
}
