//! The three networks of seed 002 live: eight hosts of one daemon, with a switch of cells, a desk or a Myrinet between
//! them, and applications that send over their circuits.

use super::{of, paths};
use ::lab::experiment::{Measured, Told, Whose, Workload};
use ::lab::model::bulk::{End, HEADER_OCTETS, LLC_OCTETS, stream};
use ::lab::model::networks::Kind;
use anyhow::{Context as _, Result, bail, ensure};
use cellway::kinds::kinds;
use control::config;
use control::daemon::Daemon;
use endpoint::{ChannelId, DataPath, Endpoint, EndpointConfig, Events, Geometry, OpenOptions, SendError};
use lanai::MulticastBy;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use wire::{CircuitId, Time};

/// Hosts, by their numbers.
const HOSTS: [&str; 8] = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"];
/// Circuits by their VCIs: from host 0 to host 1; from others to host 0; from host 0 to groups; the paced stream without
/// low latency and with it; what is beside.
const PAIR: u16 = 100;
const TO_FIRST: u16 = 110;
const GROUPS: u16 = 120;
const PACED: [u16; 2] = [130, 131];
const BESIDE: u16 = 140;
/// Senders of streams beside the paced one, in their order, and the receiver of all.
const BULK: [usize; 3] = [1, 2, 0];
const RECEIVER: usize = 3;
/// Octets of messages.
const MESSAGE: usize = 4096;
const BULK_MESSAGE: usize = 8192;
const PACED_MESSAGE: usize = 1024;
/// From one message of the paced stream to the next, and what a slow receiver takes for one.
const INTERVAL: Duration = Duration::from_micros(500);
/// Messages of a burst.
const BURST: usize = 16;
/// Octets of TCP's window.
const WINDOW: usize = 65_535;
/// After so long without a message, what has not come is lost.
const QUIET: Duration = Duration::from_millis(100);
/// How often a receiver looks whether all has come.
const LOOK: Duration = Duration::from_millis(1);
/// Messages that a flow gives while it is not at its end.
const GIVING: u64 = u64::MAX;
/// A network is ready within this, and a circuit that takes nothing for so long has failed.
const PATIENCE: Duration = Duration::from_secs(10);
/// Octets that a message begins with: its number, and when it was given.
const HEAD: usize = 12;

/// The network that is up, and what was carried.
#[derive(Default)]
pub(super) struct Networks {
    up: Option<(Kind, Daemon)>,
    carried: Vec<((Kind, Workload), Vec<Carried>)>,
}

/// What came of a workload in one pass; what does not come of it is `None`.
#[derive(Debug, Clone, Copy, Default)]
struct Carried {
    rate: Option<f64>,
    least: Option<f64>,
    lost: Option<f64>,
    mean: Option<f64>,
    most: Option<f64>,
    processor: Option<f64>,
}

impl Networks {
    /// A number of a workload: the median of passes, with the extremes. All numbers of a workload are of the same passes.
    pub(super) fn number(
        &mut self,
        folder: &Path,
        (over, work, what): (Kind, Workload, Told),
        (passes, length): (usize, Duration),
    ) -> Result<Measured> {
        if !self.carried.iter().any(|(asked, _)| *asked == (over, work)) {
            let socket = self.up(folder, over)?;
            let all = (0..passes).map(|_| once(&socket, work, length)).collect::<Result<Vec<_>>>()?;
            self.carried.push(((over, work), all));
        }
        let told = |carried: &Carried| match what {
            Told::Rate => carried.rate,
            Told::Least => carried.least,
            Told::Lost => carried.lost,
            Told::Mean => carried.mean,
            Told::Most => carried.most,
            Told::Processor => carried.processor,
        };
        let passes = self.carried.iter().find(|(asked, _)| *asked == (over, work)).map(|(_, all)| all);
        let mut values: Vec<f64> = passes.into_iter().flatten().filter_map(told).collect();
        ensure!(!values.is_empty(), "{what:?} is nothing that comes of {work:?}");
        Ok(of(&mut values))
    }

    /// Brings a network up in the place of another one; where its service is.
    fn up(&mut self, folder: &Path, over: Kind) -> Result<PathBuf> {
        let socket = folder.join("network.sock");
        if self.up.as_ref().is_none_or(|(kind, _)| *kind != over) {
            self.up.take();
            let daemon =
                Daemon::start(config::parse_with(&kinds(), &description(over), "the laboratory's network")?, &socket)?;
            self.up = Some((over, daemon));
            ready(&socket).with_context(|| format!("{} does not get ready", over.name()))?;
        }
        Ok(socket)
    }
}

/// Waits until what every host sends arrives: a Myrinet draws its map first.
fn ready(socket: &Path) -> Result<()> {
    let begin = Instant::now();
    let group = HOSTS.len() - 1;
    for pair in [Flow::stream(0, vec![1], PAIR, MESSAGE), Flow::stream(0, (1..=group).collect(), GROUPS + 7, MESSAGE)]
        .into_iter()
        .chain((1..=4).map(to_first))
        .chain(BULK.map(beside))
    {
        while carry(socket, std::slice::from_ref(&pair), Duration::from_millis(1), Duration::ZERO)?[0].came.contains(&0)
        {
            ensure!(begin.elapsed() < PATIENCE, "nothing arrives from {} on 0.{}", HOSTS[pair.from], pair.vci);
        }
    }
    Ok(())
}

/// A network as `cellway up` reads it.
fn description(over: Kind) -> String {
    let mut text: String = HOSTS.map(|host| format!("[host.{host}]\n")).concat();
    let links = |to: &str| -> String {
        let link = |(n, host)| format!("[[link]]\nends = [\"{host}\", \"{to}:{n}\"]\n");
        HOSTS.iter().enumerate().map(link).collect()
    };
    text += &match over {
        Kind::Unet => format!("[switch.s]\n{}", links("s")),
        Kind::Apic => format!("[desk.d]\nchips = {}\n{}", HOSTS.len(), links("d")),
        Kind::Myrinet(by) => {
            let cable = |(n, host)| format!("{{ ends = [\"{host}\", \"m1:{n}\"] }}");
            let cables: Vec<String> = HOSTS.iter().enumerate().map(cable).collect();
            let by = if by == MulticastBy::Cycle { "cycle" } else { "repetition" };
            let hosts = HOSTS.map(|host| format!("\"{host}\"")).join(", ");
            format!(
                "[myrinet.m]\nhosts = [{hosts}]\nswitches = {{ m1 = 16 }}\nmulticast = \"{by}\"\n\
                 cables = [{}]\n",
                cables.join(", ")
            )
        }
    };
    let mut circuit = |ends: &[usize], vci: u16, more: &str| {
        let ends: Vec<String> = ends.iter().map(|host| format!("\"{} 0.{vci}\"", HOSTS[*host])).collect();
        text += &format!("[[circuit]]\nends = [{}]\n{more}", ends.join(", "));
    };
    circuit(&[0, 1], PAIR, "");
    (1..=4).for_each(|from| circuit(&[from, 0], TO_FIRST + from as u16, ""));
    for last in [1, 3, 7] {
        circuit(&(0..=last).collect::<Vec<_>>(), GROUPS + last as u16, "");
    }
    circuit(&[0, RECEIVER], PACED[0], "");
    if !matches!(over, Kind::Myrinet(_)) {
        // More than the stream needs: its cells leave the host one after another at this rate.
        circuit(&[0, RECEIVER], PACED[1], "category = \"cbr\"\npcr = \"600 Mbit/s\"\nlow_latency = true\n");
    }
    BULK.into_iter().for_each(|from| circuit(&[from, RECEIVER], BESIDE + from as u16, ""));
    text
}

/// Messages of one application.
#[derive(Debug, Clone)]
struct Flow {
    from: usize,
    to: Vec<usize>,
    vci: u16,
    octets: usize,
    /// From one message to the next; none: as fast as the interface takes them.
    every: Option<Duration>,
}

impl Flow {
    fn stream(from: usize, to: Vec<usize>, vci: u16, octets: usize) -> Self {
        Flow { from, to, vci, octets, every: None }
    }
}

fn to_first(from: usize) -> Flow {
    Flow::stream(from, vec![0], TO_FIRST + from as u16, MESSAGE)
}

fn beside(from: usize) -> Flow {
    Flow::stream(from, vec![RECEIVER], BESIDE + from as u16, BULK_MESSAGE)
}

/// What became of a flow: messages given, and of each receiver how many came, at which rate, and how long each took.
#[derive(Debug, Default)]
struct Flown {
    given: u64,
    came: Vec<u64>,
    mbit_s: Vec<f64>,
    us: Vec<f64>,
}

/// One pass of a workload.
fn once(socket: &Path, work: Workload, length: Duration) -> Result<Carried> {
    let flows = match work {
        Workload::Answered { octets } => {
            let us = paths::round_trip(socket, octets, Events::default(), length)?;
            return Ok(Carried { mean: Some(us), ..Carried::default() });
        }
        Workload::Bursts { octets } => {
            // By interrupts the host rests as soon as it has nothing to do: its lingering would count as cost.
            let how = (octets, DataPath::Copying, Events::Interrupt, BURST);
            let us = paths::cost(socket, how, Whose::All, length)?;
            return Ok(Carried { processor: Some(us), ..Carried::default() });
        }
        Workload::Tcp { octets } => {
            return Ok(Carried { rate: Some(tcp(socket, octets, 3 * length)?), ..Carried::default() });
        }
        Workload::Stream { octets } => vec![Flow::stream(0, vec![1], PAIR, octets)],
        Workload::Senders(senders) => (1..=senders).map(to_first).collect(),
        Workload::SlowReceiver => vec![to_first(1)],
        Workload::Group(last) => vec![Flow::stream(0, (1..=last).collect(), GROUPS + last as u16, MESSAGE)],
        Workload::Paced { beside: streams, low_latency } => {
            let vci = PACED[usize::from(low_latency)];
            let paced = Flow { every: Some(INTERVAL), ..Flow::stream(0, vec![RECEIVER], vci, PACED_MESSAGE) };
            std::iter::once(paced).chain(BULK.into_iter().take(streams).map(beside)).collect()
        }
    };
    let consumes = if work == Workload::SlowReceiver { INTERVAL } else { Duration::ZERO };
    let flown = carry(socket, &flows, length, consumes)?;
    let given: u64 = flown.iter().map(|flow| flow.given * flow.came.len() as u64).sum();
    let came: u64 = flown.iter().flat_map(|flow| &flow.came).sum();
    let rates = || flown.iter().flat_map(|flow| flow.mbit_s.iter().copied());
    let mut carried = Carried {
        rate: Some(rates().sum()),
        least: Some(rates().fold(f64::MAX, f64::min)),
        lost: Some(given.saturating_sub(came) as f64 / given.max(1) as f64 * 100.0),
        ..Carried::default()
    };
    if let (Workload::Paced { .. }, Some(Flown { us, .. })) = (work, flown.first()) {
        carried.mean = us.iter().copied().reduce(|sum, one| sum + one).map(|sum| sum / us.len() as f64);
        carried.most = us.iter().copied().reduce(f64::max);
    }
    Ok(carried)
}

/// What a message has behind its head: the same in each, so that what is another's is found.
fn pattern(octets: usize) -> Vec<u8> {
    (0..octets).map(|at| (at as u32).wrapping_mul(31).wrapping_add(7) as u8).collect()
}

/// Gives messages for a time, one at least; how many.
fn give(sender: &mut Endpoint, channel: ChannelId, flow: &Flow, begin: Instant, length: Duration) -> Result<u64> {
    let (mut message, mut given, mut due) = (pattern(flow.octets), 0u32, Instant::now());
    while begin.elapsed() < length || given == 0 {
        ensure!(begin.elapsed() < PATIENCE, "0.{} takes no message", flow.vci);
        if let Some(every) = flow.every {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            due += every;
        }
        message[..4].copy_from_slice(&given.to_be_bytes());
        message[4..HEAD].copy_from_slice(&(begin.elapsed().as_nanos() as u64).to_be_bytes());
        match sender.send_copy(channel, &message) {
            Ok(()) => given += 1,
            Err(SendError::Full) => {
                sender.wait_send(Some(Duration::from_millis(10)))?;
                std::thread::yield_now();
            }
            Err(e) => bail!(e),
        }
    }
    Ok(given.into())
}

/// A flow as its receiver has it.
struct Coming<'a> {
    channel: ChannelId,
    pattern: Vec<u8>,
    /// How many messages there are, once all have been given.
    given: &'a AtomicU64,
    next: u32,
    came: u64,
    last: Duration,
    us: Vec<f64>,
}

impl Coming<'_> {
    /// Mbit/s from the beginning to the last message.
    fn mbit_s(&self) -> f64 {
        self.came as f64 * self.pattern.len() as f64 * 8.0 / self.last.as_secs_f64().max(1e-9) / 1e6
    }

    /// Lost messages leave gaps; nothing comes twice, before its predecessor, or other than it was given.
    fn take(&mut self, message: &[u8], now: Duration) -> Result<()> {
        let (head, rest) = message.split_first_chunk::<HEAD>().context("a message without a head")?;
        let [a, b, c, d, given @ ..] = *head;
        let number = u32::from_be_bytes([a, b, c, d]);
        ensure!(number >= self.next && rest == &self.pattern[HEAD..], "a message came other than it was given");
        (self.next, self.came, self.last) = (number + 1, self.came + 1, now);
        self.us.push((now.as_nanos() as f64 - u64::from_be_bytes(given) as f64) / 1e3);
        Ok(())
    }
}

/// Takes messages of several flows at one host until all have come, or no more do.
fn take(receiver: &mut Endpoint, flows: &mut [Coming<'_>], begin: Instant, consumes: Duration) -> Result<()> {
    let mut heard = Instant::now();
    loop {
        let Some(message) = receiver.receive(Some(LOOK))? else {
            let given = |flow: &Coming<'_>| flow.given.load(Ordering::Relaxed);
            let over = flows.iter().all(|flow| given(flow) != GIVING);
            if over && (heard.elapsed() > QUIET || flows.iter().all(|flow| flow.came >= given(flow))) {
                return Ok(());
            }
            continue;
        };
        heard = Instant::now();
        let flow = flows.iter_mut().find(|flow| flow.channel == message.channel()).context("another's message")?;
        flow.take(&message, begin.elapsed())?;
        while heard.elapsed() < consumes {
            std::hint::spin_loop();
        }
    }
}

/// Flows for a time, an application for each sender and for each host that receives.
fn carry(socket: &Path, flows: &[Flow], length: Duration, consumes: Duration) -> Result<Vec<Flown>> {
    let given: Vec<AtomicU64> = flows.iter().map(|_| AtomicU64::new(GIVING)).collect();
    let mut receivers = Vec::new();
    for host in 0..HOSTS.len() {
        let own: Vec<usize> = (0..flows.len()).filter(|n| flows[*n].to.contains(&host)).collect();
        let Some(first) = own.first() else { continue };
        let (mut endpoint, channel) = open(socket, host, flows[*first].vci)?;
        let mut coming = Vec::new();
        for n in &own {
            let circuit = CircuitId::new(0, flows[*n].vci).context("a circuit")?;
            let channel = if n == first { channel } else { endpoint.open(circuit, OpenOptions::default())? };
            let (pattern, given) = (pattern(flows[*n].octets), &given[*n]);
            coming.push(Coming { channel, pattern, given, next: 0, came: 0, last: Duration::ZERO, us: Vec::new() });
        }
        receivers.push((endpoint, coming, own));
    }
    let mut senders = flows.iter().map(|flow| open(socket, flow.from, flow.vci)).collect::<Result<Vec<_>>>()?;
    let begin = Instant::now();
    // Senders keep their endpoints until all has come: what a departed one had sent leaves for a short time only.
    std::thread::scope(|scope| {
        let receiving = receivers.iter_mut().map(|(endpoint, coming, _)| (endpoint, coming));
        let taking: Vec<_> =
            receiving.map(|(endpoint, coming)| scope.spawn(move || take(endpoint, coming, begin, consumes))).collect();
        let sending = flows.iter().zip(&mut senders).zip(&given);
        let giving: Vec<_> = sending
            .map(|((flow, (sender, channel)), given)| {
                scope.spawn(move || {
                    let all = give(sender, *channel, flow, begin, length);
                    // Receivers wait for no more than there is, whatever has failed.
                    given.store(*all.as_ref().unwrap_or(&0), Ordering::Relaxed);
                    all.map(drop)
                })
            })
            .collect();
        let mut ended = giving.into_iter().chain(taking).map(|thread| thread.join());
        ended.try_for_each(|end| end.unwrap_or_else(|_| bail!("an application panicked")))
    })?;
    let mut flown: Vec<Flown> =
        given.iter().map(|n| Flown { given: n.load(Ordering::Relaxed), ..Flown::default() }).collect();
    for (_, coming, own) in receivers {
        for (n, coming) in own.into_iter().zip(coming) {
            flown[n].came.push(coming.came);
            flown[n].mbit_s.push(coming.mbit_s());
            flown[n].us.extend(coming.us);
        }
    }
    Ok(flown)
}

fn open(socket: &Path, host: usize, vci: u16) -> Result<(Endpoint, ChannelId)> {
    let geometry = Geometry { send_ring: 64, receive_ring: 256, free_ring: 256, buffers: 96, buffer_octets: 16_384 };
    let (events, path) = (Events::default(), DataPath::Copying);
    let config = EndpointConfig { host: HOSTS[host].into(), geometry, send_buffers: Some(32), events, path };
    let mut endpoint = Endpoint::create(socket, &config)?;
    let circuit = CircuitId::new(0, vci).with_context(|| format!("0.{vci}"))?;
    let channel = endpoint.open(circuit, OpenOptions::default())?;
    Ok((endpoint, channel))
}

/// Mbit/s that the receiving application reads of a TCP connection, in the second half of a time.
fn tcp(socket: &Path, octets: usize, length: Duration) -> Result<f64> {
    // A segment that comes before there is an endpoint is lost, and TCP waits a second before it sends it again.
    let (first, second) = (open(socket, 0, PAIR)?, open(socket, 1, PAIR)?);
    let (begin, text) = (Instant::now(), stream());
    let run = |sends: bool, (mut endpoint, channel): (Endpoint, ChannelId)| -> Result<f64> {
        let packet = octets + HEADER_OCTETS;
        let mut end = End::new(sends, packet, WINDOW, 1).context("a TCP connection")?;
        let (mut sdu, mut waits) = (vec![0; packet + LLC_OCTETS], None);
        // Where this thread had no processor in the second half, all of the time counts.
        let (mut half, clock) = (None, || Time::from_nanos(begin.elapsed().as_nanos() as u64));
        while begin.elapsed() < length {
            end.run(&text, clock());
            while let Some(octets) = waits.take().or_else(|| end.poll_pdu(&mut sdu, clock())) {
                match endpoint.send_copy(channel, &sdu[..octets]) {
                    Ok(()) => {}
                    Err(SendError::Full) => {
                        waits = Some(octets);
                        break;
                    }
                    Err(e) => bail!(e),
                }
            }
            let now = clock();
            let rest = if waits.is_some() { Duration::from_micros(50) } else { Duration::from_millis(1) };
            let due = end.poll_timeout(now).map_or(rest, |at| at.since(now).min(rest));
            if let Some(pdu) = endpoint.receive(Some(due))? {
                end.handle_pdu(&pdu, &text, clock());
            }
            if begin.elapsed() >= length / 2 {
                half.get_or_insert((begin.elapsed(), end.octets));
            }
        }
        ensure!(end.intact, "what TCP brought is not what was sent");
        let (since, before) = half.unwrap_or_default();
        Ok((end.octets - before) as f64 * 8.0 / begin.elapsed().saturating_sub(since).as_secs_f64().max(1e-9) / 1e6)
    };
    std::thread::scope(|scope| {
        let sends = scope.spawn(|| run(true, first));
        let receives = scope.spawn(|| run(false, second));
        sends.join().unwrap_or_else(|_| bail!("the sender panicked"))?;
        receives.join().unwrap_or_else(|_| bail!("the receiver panicked"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of each workload.
    const TOLD: [(Workload, &[Told]); 9] = [
        (Workload::Stream { octets: 16 }, &[Told::Rate, Told::Lost]),
        (Workload::Stream { octets: 8192 }, &[Told::Rate, Told::Lost]),
        (Workload::Answered { octets: 40 }, &[Told::Mean]),
        (Workload::Bursts { octets: 1024 }, &[Told::Processor]),
        (Workload::Senders(4), &[Told::Rate, Told::Least, Told::Lost]),
        (Workload::SlowReceiver, &[Told::Rate, Told::Lost]),
        (Workload::Group(7), &[Told::Least]),
        (Workload::Paced { beside: 3, low_latency: false }, &[Told::Rate, Told::Lost]),
        (Workload::Tcp { octets: 1024 }, &[Told::Rate]),
    ];

    #[test]
    fn each_workload_is_carried_over_each_network_and_gives_what_it_says() {
        let folder = tempfile::tempdir().unwrap();
        let mut networks = Networks::default();
        let how = (1, Duration::from_millis(5));
        for over in Kind::ALL {
            let mut number = |work, told| networks.number(folder.path(), (over, work, told), how);
            for (work, all) in TOLD {
                for told in all {
                    let value = number(work, *told).unwrap_or_else(|e| panic!("{over:?}, {work:?}: {e:#}")).median;
                    let most = if *told == Told::Lost { 100.0 } else { f64::MAX };
                    // The one with the least may get nothing, and TCP may still be at its beginning.
                    assert!((0.0..=most).contains(&value), "{over:?}, {work:?}, {told:?}: {value}");
                }
            }
            let paced = Workload::Paced { beside: 0, low_latency: false };
            let (mean, longest) = (number(paced, Told::Mean).unwrap(), number(paced, Told::Most).unwrap());
            assert!(mean.median > 0.0 && mean.median <= longest.median);
            assert!(number(Workload::Answered { octets: 40 }, Told::Mean).unwrap().median > 0.0);
            let stream = Workload::Stream { octets: 8192 };
            let (rate, lost) = (number(stream, Told::Rate).unwrap().median, number(stream, Told::Lost).unwrap().median);
            assert_eq!(rate > 0.0, lost < 100.0, "{over:?}: {rate} Mbit/s, {lost} % lost");
            // What does not come of a workload is no number.
            assert!(number(stream, Told::Processor).is_err());
            let urgent = number(Workload::Paced { beside: 0, low_latency: true }, Told::Mean);
            assert_eq!(urgent.is_ok(), !matches!(over, Kind::Myrinet(_)));
        }
    }

    #[test]
    fn each_network_is_a_description_in_which_every_circuit_has_a_way() {
        for over in Kind::ALL.into_iter().chain([Kind::Myrinet(MulticastBy::Repetition)]) {
            let config = config::parse_with(&kinds(), &description(over), "x").unwrap();
            control::description::rehearse(&config).unwrap();
            let myrinet = matches!(over, Kind::Myrinet(_));
            assert_eq!(config.description.circuits.len(), if myrinet { 12 } else { 13 });
        }
    }
}
