//! `cellway relay`: `net`'s relay on sockets and files, in a process of its own, with what passed said at the end.

mod files;
mod words;

use crate::certificates::Certificates;
use crate::client::{ends_in_order, goes_on};
use crate::context::Context;
use crate::exit_status::OrUsage;
use crate::outfile::Overwriting;
use crate::output;
use crate::{units, usage};
use anyhow::{Context as _, Result};
use clap::Args;
use control::results::relay::{Frames, Recorded, Relayed, RelayedLink};
use files::{Player, Recorder};
use host::engine::{self, Core, EngineHandle};
use links::tcp::{Shell, Tls};
use net::tap::Tapped;
use net::{Carries, End, External, FramePool, LinkConfig, LinkId, Network, NodeId, TapBuffer, TapConfig};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wire::CircuitId;
use words::Link;

/// Links in one relay.
const MAX_LINKS: usize = 64;
/// Frames that wait for a link at most, and as many from it.
const QUEUE_FRAMES: usize = 64;
/// Buffers for each link, 64 KiB each: both its queues, one frame on its way in, and so twice over.
const BUFFERS_A_LINK: usize = 4 * QUEUE_FRAMES;
/// What a recording holds of one link until it is written.
const TAP: TapConfig = TapConfig { circuits: Vec::new(), records: 16_384, octets: 16 << 20 };
/// Between two looks at the links, and at what is to be recorded.
const LOOK: Duration = Duration::from_millis(20);

const LINKS: &str = "\
A link is a URL, or words of atmtcp's command line:
  atmtcp://HOST:PORT, atmtcp-tls://HOST:PORT     connects, and reconnects when the connection ends
  atmtcp-listen://ADDRESS:PORT, atmtcp-tls-listen://...
                                                 accepts one connection at a time
  connect HOST [PORT], listen [[ADDRESS:]PORT]   the same (port 2812; all addresses)
  read FILE [STREAM]                             plays a recording when all others are connected
  write FILE                                     records all links' traffic, for `read`, `atmtcp read`, `cellway replay`
  print                                          prints the PDUs";

/// Joins links of ATM over TCP, as Linux's `atmtcp` does with several links. Links 0 and 1 send to all others; further
/// links send to all others except link 0. All circuits pass without a description, and no service needs to run.
///
/// `cellway relay listen 2812 connect 192.0.2.1 write rec` joins two machines and records their traffic. It runs until
/// Ctrl-C and then prints counters of traffic and drops. A full link that shares its source with others loses frames,
/// counted `queue_full`. If it is the only listener, its sender waits, as with `atmtcp`: until the link takes more, its
/// connection ends (after 30 s in which its machine takes nothing), or --patience is over.
#[derive(Debug, Args)]
#[command(after_help = LINKS)]
pub(crate) struct Relay {
    /// The links, link 0 first
    #[arg(required = true, value_name = "LINK")]
    links: Vec<String>,
    #[command(flatten)]
    certificates: Certificates,
    /// Seconds that a sender, or a recording that is played, waits for a link that takes nothing; then the link loses
    /// frames, counted `queue_full`, until it reads again. 0: no sender waits
    #[arg(long, value_name = "SECONDS", value_parser = units::seconds)]
    patience: Option<Duration>,
    #[command(flatten)]
    overwriting: Overwriting,
}

/// A link of the running relay.
struct RunningLink {
    /// As the user wrote it.
    what: String,
    /// None for a link that only listens in.
    link: Option<LinkId>,
    is_socket: bool,
    said: String,
    connections: u64,
    up: bool,
}

/// `cellway relay`
pub(crate) fn run(context: &Context, relay: &Relay) -> Result<()> {
    let stop = ends_in_order()?;
    let tls = relay.certificates.given();
    let links = words::parse(&relay.links, tls.as_ref()).or_usage()?;
    if links.len() > MAX_LINKS {
        usage!("{} links: a relay has {MAX_LINKS} at most", links.len());
    }
    if !links.iter().any(|link| matches!(link, Link::Socket { .. })) {
        usage!("no link has a peer: name one that connects or listens");
    }
    if context.json && links.contains(&Link::Print) {
        usage!("`print` and --json would both write to standard output: choose one, or `write FILE`");
    }
    let begins = Arc::new(AtomicBool::new(false));
    let mut running = Running::start(links, relay, &begins)?;
    let mut result = Ok(());
    while goes_on(&stop) && result.is_ok() {
        std::thread::sleep(LOOK);
        result = running.look(&begins);
    }
    let report = running.report();
    running.engine.stop();
    result?;
    let report = report?;
    output::print(context, &report, || text(&report))
}

struct Running {
    engine: EngineHandle,
    node: NodeId,
    places: Vec<RunningLink>,
    recorders: Vec<Recorder>,
    buffers: Vec<TapBuffer>,
    missed: u64,
}

impl Running {
    fn start(links: Vec<Link>, options: &Relay, begins: &Arc<AtomicBool>) -> Result<Self> {
        let mut network = Network::new(FramePool::new(BUFFERS_A_LINK * links.len(), 65_536));
        let mut relay = links::Relay::new(links.len());
        relay.set_patience(options.patience);
        (0..links.len()).filter(|n| matches!(links[*n], Link::Read { .. })).for_each(|n| relay.set_patient(n));
        let node = network.add_node("relay", Box::new(relay));
        let config = LinkConfig { carries: Carries::Frames, queue_cells: QUEUE_FRAMES, ..LinkConfig::default() };
        let (mut places, mut recorders) = (Vec::new(), Vec::new());
        for (n, link) in links.into_iter().enumerate() {
            let is_socket = matches!(link, Link::Socket { .. });
            let (what, external): (String, Option<Box<dyn External>>) = match link {
                Link::Socket { name, role, tls } => {
                    let tls = tls.as_ref().map(Tls::new).transpose().context("tls")?;
                    let name = if tls.is_some() { format!("{name} by TLS") } else { name };
                    let shell = Shell::with_tls(role, tls).with_context(|| format!("link {n}, {name}"))?;
                    (name, Some(Box::new(shell.relaying())))
                }
                Link::Read { file, stream } => {
                    let player = Player::new(&file, stream, begins.clone())?;
                    (format!("read {}", file.display()), Some(Box::new(player)))
                }
                Link::Write(file) => {
                    recorders.push(Recorder::to_file(&file, options.overwriting)?);
                    (format!("write {}", file.display()), None)
                }
                Link::Print => {
                    recorders.push(Recorder::Print);
                    ("print".into(), None)
                }
            };
            let link = match external {
                Some(external) => {
                    let link = network.connect(End::Port(node, n as u16), End::External, config.clone())?;
                    network.attach(link, external);
                    Some(link)
                }
                None => None,
            };
            places.push(RunningLink { what, link, is_socket, said: String::new(), connections: 0, up: false });
        }
        let mut buffers = Vec::new();
        if !recorders.is_empty() {
            for link in places.iter().filter_map(|place| place.link) {
                network.set_tap(link, Some(TAP));
                buffers.push(TapBuffer::new(&TAP));
            }
        }
        let engine = engine::start(network).context("starting the engine")?;
        let mut running = Running { engine, node, places, recorders, buffers, missed: 0 };
        running.look(begins)?;
        Ok(running)
    }

    /// Says which links have come and gone, and records what they have said.
    fn look(&mut self, begins: &AtomicBool) -> Result<()> {
        let links: Vec<LinkId> = self.places.iter().filter_map(|place| place.link).collect();
        let mut buffers = std::mem::take(&mut self.buffers);
        let (states, buffers) = self.engine.with(move |core| {
            let state = |core: &Core, link| {
                let found = core.network.externals().find(|(id, _)| *id == link);
                found.map_or((false, String::new()), |(_, external)| (external.is_up(), external.status()))
            };
            let states: Vec<(bool, String)> = links.iter().map(|link| state(core, *link)).collect();
            for (link, buffer) in links.iter().zip(&mut buffers) {
                core.network.drain_tap(*link, buffer);
            }
            (states, buffers)
        })?;
        self.buffers = buffers;
        self.record()?;
        let with_links = self.places.iter_mut().enumerate().filter(|(_, place)| place.link.is_some());
        for ((n, place), (up, state)) in with_links.zip(states) {
            place.connections += u64::from(up && !place.up);
            place.up = up;
            if place.said != state && place.is_socket {
                output::note(format_args!("link {n}: {state}"));
            }
            place.said = state;
        }
        if self.places.iter().all(|place| !place.is_socket || place.up) && !begins.swap(true, Ordering::Relaxed) {
            // A recording may begin; its shell is asked in the next round, which this brings about.
            self.engine.with(|_| ())?;
        }
        Ok(())
    }

    /// What the links have said, oldest first, to the files.
    fn record(&mut self) -> Result<()> {
        let numbers = self.places.iter().enumerate().filter(|(_, place)| place.link.is_some()).map(|(n, _)| n);
        let mut heard: Vec<(wire::Time, usize, CircuitId, &[u8])> = Vec::new();
        for (n, buffer) in numbers.zip(&self.buffers) {
            self.missed += buffer.dropped();
            // Side A is the relay's own.
            heard.extend(buffer.records().filter(|record| record.from == net::Side::B).filter_map(|record| {
                match record.what {
                    Tapped::Frame { circuit, octets, .. } => Some((record.at, n, circuit, octets)),
                    Tapped::Cell(_) => None,
                }
            }));
        }
        if heard.is_empty() {
            return Ok(());
        }
        heard.sort_by_key(|(at, ..)| *at);
        for recorder in &mut self.recorders {
            for (_, n, circuit, octets) in &heard {
                recorder.take(*n, *circuit, octets)?;
            }
            recorder.flush()?;
        }
        Ok(())
    }

    fn report(&self) -> Result<Relayed> {
        let node = self.node;
        let links: Vec<Option<LinkId>> = self.places.iter().map(|place| place.link).collect();
        let counts = self.engine.with(move |core| {
            let of = |core: &mut Core, n: usize, link: LinkId| {
                let opened = core.network.node_mut::<links::Relay>(node).map_or(0, |relay| relay.opened(n));
                let info = core.network.link_info(link)?;
                Some((Frames::from(&info.from_b.sent), Frames::from(&info.from_a.sent), opened))
            };
            links.iter().enumerate().map(|(n, link)| of(core, n, (*link)?)).collect::<Vec<_>>()
        })?;
        let links = self.places.iter().zip(counts).enumerate().map(|(n, (place, counts))| {
            let (from, to, circuits) = counts.map_or((None, None, None), |(f, t, c)| (Some(f), Some(t), Some(c)));
            RelayedLink {
                link: n,
                what: place.what.clone(),
                state: place.link.map(|_| place.said.clone()),
                connections: place.is_socket.then_some(place.connections),
                from,
                to,
                circuits,
            }
        });
        let of_file = |recorder: &Recorder| if let Recorder::File { records, .. } = recorder { *records } else { 0 };
        let records = self.recorders.iter().map(of_file).sum();
        let recorded = (!self.recorders.is_empty()).then_some(Recorded { records, missed: self.missed });
        Ok(Relayed { links: links.collect(), recorded })
    }
}

fn text(report: &Relayed) -> String {
    let number = |n: Option<u64>| n.map_or_else(String::new, |n| n.to_string());
    let row = |link: &RelayedLink| {
        let (from, to) = (link.from.as_ref(), link.to.as_ref());
        let lost = |frames: Option<&Frames>| frames.map_or_else(String::new, |f| output::drops(&f.dropped));
        vec![
            format!("{} {}", link.link, link.what),
            number(from.map(|f| f.frames)),
            lost(from),
            number(to.map(|f| f.frames)),
            lost(to),
            link.state.clone().unwrap_or_default(),
        ]
    };
    let rows: Vec<Vec<String>> = report.links.iter().map(row).collect();
    let mut text = output::table(&["link", "frames from it", "dropped", "frames to it", "dropped", "state"], &rows);
    if let Some(recorded) = &report.recorded {
        text.push_str(&format!("{} records, {} frames missed\n", recorded.records, recorded.missed));
    }
    text
}
