//! `cellway-lab bench am`: Active Messages of one cell between two threads, by circuits of cells through a switch and by a
//! direct circuit. Beside them, in the same run and interleaved, the same octets by the endpoint itself.
//!
//! Out: a round trip's time and its ratio to the endpoint's, and the parameters of LogP: what a send and a receipt cost the
//! processor, what remains of the way, and the time between two messages of a flood.

use super::{median, number};
use crate::results::am::{AmRow, BenchAm};
use active_messages::message::MAX_HEAD_OCTETS;
use active_messages::{Call, Circuits, Config, DirectCircuits, MAX_WORDS, PeerId, Port, Transport};
use anyhow::{Context as _, Result, anyhow, bail, ensure};
use cellway::context::Context;
use cellway::output;
use control::config;
use control::daemon::Daemon;
use control::processors::Processors;
use endpoint::direct::{Direct, DirectConfig};
use endpoint::{ChannelId, Endpoint, EndpointConfig, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wire::CircuitId;

/// A round trip is to take at most so many of the endpoint's.
const GOAL: f64 = 1.2;
/// Nobody answers for so long: the other thread has gone.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a server waits before it looks whether the measurement is over.
const LOOK: Duration = Duration::from_millis(10);
/// Requests whose sending is timed together: fewer than are granted at once.
const BURST: usize = 16;
/// What came meanwhile is all there after so long.
const SETTLED: Duration = Duration::from_millis(2);

const ECHO: u8 = 1;
const ANSWER: u8 = 2;
const COUNT: u8 = 3;

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct AmOptions {
    /// Runs of each case, interleaved; the medians are given
    #[arg(long, default_value_t = 9)]
    runs: usize,
    /// Round trips of each run
    #[arg(long, default_value_t = 5000)]
    trips: usize,
}

impl super::QuickOptions for AmOptions {
    fn quick(self) -> Self {
        AmOptions { runs: 1, trips: 100 }
    }
}

/// Messages that were handled.
type Handled = u64;

fn echo(handled: &mut Handled, call: &mut Call<'_>) {
    *handled += 1;
    let words = [0, 1, 2, 3].map(|n| call.word(n));
    // A request's one reply always has room.
    let _ = call.reply(ANSWER, &words, &[]);
}

fn count(handled: &mut Handled, _: &mut Call<'_>) {
    *handled += 1;
}

fn port<T: Transport>(transport: T) -> Port<Handled, T> {
    let mut port = Port::new(transport, Config::default());
    for (handler, run) in [(ECHO, echo as active_messages::Handler<Handled>), (ANSWER, count), (COUNT, count)] {
        port.node.handle_with(handler, run);
    }
    port
}

/// Octets to and from the other thread, by the endpoint itself.
trait Raw: Send {
    fn send(&mut self, octets: &[u8]) -> Result<()>;
    /// False, if nothing came within `timeout`.
    fn receive(&mut self, timeout: Duration) -> Result<bool>;

    fn trips(&mut self, count: usize) -> Result<Duration> {
        let message = [7; MAX_HEAD_OCTETS];
        let begin = Instant::now();
        for _ in 0..count {
            self.send(&message)?;
            ensure!(self.receive(PATIENCE)?, "no answer in {PATIENCE:?}");
        }
        Ok(begin.elapsed())
    }

    fn serve(&mut self, over: &AtomicBool) -> Result<()> {
        while !over.load(Ordering::Relaxed) {
            if self.receive(LOOK)? {
                self.send(&[7; MAX_HEAD_OCTETS])?;
            }
        }
        Ok(())
    }
}

struct RawEndpoint(Endpoint, ChannelId);

impl Raw for RawEndpoint {
    fn send(&mut self, octets: &[u8]) -> Result<()> {
        Ok(self.0.send_copy(self.1, octets)?)
    }

    fn receive(&mut self, timeout: Duration) -> Result<bool> {
        Ok(self.0.receive(Some(timeout))?.is_some())
    }
}

impl Raw for Direct {
    fn send(&mut self, octets: &[u8]) -> Result<()> {
        Ok(self.sender.send_copy(octets)?)
    }

    fn receive(&mut self, timeout: Duration) -> Result<bool> {
        Ok(self.receiver.receive(Some(timeout)).map_err(|_| anyhow!("the other side has gone"))?.is_some())
    }
}

/// What one side measures.
trait Ping {
    fn trips(&mut self, count: usize) -> Result<Duration>;
    /// Seconds of a send, of a receipt, and between two messages of a flood.
    fn costs(&mut self, count: usize) -> Result<[f64; 3]>;
}

impl<T: Transport> Ping for (Port<Handled, T>, Handled) {
    fn trips(&mut self, count: usize) -> Result<Duration> {
        let (port, handled) = self;
        let begin = Instant::now();
        for n in 0..count {
            let until = *handled + 1;
            let words = [n as u32; MAX_WORDS];
            port.request_within(handled, PeerId(0), ECHO, (&words, &[]), PATIENCE)?;
            let come = port.wait_until(handled, PATIENCE, |handled, _| *handled >= until)?;
            ensure!(come, "no reply in {PATIENCE:?}");
        }
        Ok(begin.elapsed())
    }

    fn costs(&mut self, count: usize) -> Result<[f64; 3]> {
        let (port, handled) = self;
        let (mut sends, mut receipts) = (Duration::ZERO, Duration::ZERO);
        let bursts = (count / BURST / 8).max(2);
        for _ in 0..bursts {
            let until = *handled + BURST as u64;
            let begin = Instant::now();
            for n in 0..BURST {
                port.request(PeerId(0), ECHO, &[n as u32; MAX_WORDS], &[])?;
            }
            sends += begin.elapsed();
            std::thread::sleep(SETTLED);
            let begin = Instant::now();
            while *handled < until {
                if !port.poll(handled)? && begin.elapsed() > PATIENCE {
                    bail!("no reply in {PATIENCE:?}");
                }
            }
            receipts += begin.elapsed();
            // Acknowledged before the next burst: it has all grants.
            let all = |node: &active_messages::Node<Handled>| {
                node.peer(PeerId(0)).is_some_and(|peer| usize::from(peer.credits()) >= BURST)
            };
            ensure!(port.wait_until(handled, PATIENCE, |_, node| all(node))?, "no grants in {PATIENCE:?}");
        }
        let begin = Instant::now();
        for n in 0..count {
            port.request_within(handled, PeerId(0), COUNT, (&[n as u32; MAX_WORDS], &[]), PATIENCE)?;
        }
        let empty =
            |node: &active_messages::Node<Handled>| node.peer(PeerId(0)).is_some_and(|peer| peer.outstanding() == 0);
        ensure!(port.wait_until(handled, PATIENCE, |_, node| empty(node))?, "no acknowledgement in {PATIENCE:?}");
        let each = |time: Duration, n: usize| time.as_secs_f64() / n as f64;
        Ok([each(sends, bursts * BURST), each(receipts, bursts * BURST), each(begin.elapsed(), count)])
    }
}

/// Two ways between the threads, with what answers at their other ends.
struct Case {
    path: &'static str,
    raw: Box<dyn Raw>,
    ping: Box<dyn Ping>,
    servers: Vec<JoinHandle<Result<()>>>,
    raw_ns: Vec<f64>,
    trip_ns: Vec<f64>,
    costs_ns: [Vec<f64>; 3],
}

/// A thread on the other processor.
fn server(processor: Option<usize>, serve: impl FnOnce() -> Result<()> + Send + 'static) -> JoinHandle<Result<()>> {
    std::thread::spawn(move || {
        processor.map_or(Ok(()), super::pin)?;
        serve()
    })
}

fn case<T: Transport + Send + 'static>(
    path: &'static str,
    [raw, raw_there]: [Box<dyn Raw>; 2],
    [here, there]: [T; 2],
    over: &Arc<AtomicBool>,
    processor: Option<usize>,
) -> Case
where
    (Port<Handled, T>, Handled): Ping,
{
    let ended = over.clone();
    let mut raw_there = raw_there;
    let raw_server = server(processor, move || raw_there.serve(&ended));
    let ended = over.clone();
    let am_server = server(processor, move || {
        let (mut port, mut handled) = (port(there), 0);
        while !ended.load(Ordering::Relaxed) {
            port.wait(&mut handled, LOOK)?;
        }
        Ok(())
    });
    Case {
        path,
        raw,
        ping: Box::new((port(here), 0)),
        servers: vec![raw_server, am_server],
        raw_ns: Vec::new(),
        trip_ns: Vec::new(),
        costs_ns: Default::default(),
    }
}

fn network() -> String {
    let mut text = String::from(
        "[host.alpha]\n[host.beta]\n[switch.s1]\n[[link]]\nends=[\"alpha\",\"s1:0\"]\n[[link]]\nends=[\"beta\",\"s1:1\"]\n",
    );
    for vci in 100..104 {
        text.push_str(&format!("[[circuit]]\nends=[\"alpha 0.{vci}\",\"beta 0.{vci}\"]\n"));
    }
    text
}

fn circuit(vci: u16) -> Result<CircuitId> {
    CircuitId::new(0, vci).context("a circuit")
}

fn endpoints(socket: &Path, vci: u16) -> Result<[(Endpoint, ChannelId); 2]> {
    let open = |host: &str| {
        let config = EndpointConfig { host: host.to_owned(), ..EndpointConfig::default() };
        let mut endpoint = Endpoint::create(socket, &config)?;
        let channel = endpoint.open(circuit(vci)?, OpenOptions::default())?;
        anyhow::Ok((endpoint, channel))
    };
    Ok([open("alpha")?, open("beta")?])
}

fn directs(socket: &Path, vci: u16) -> Result<[Direct; 2]> {
    let config = DirectConfig { patience: Some(PATIENCE), ..DirectConfig::default() };
    let there = {
        let (socket, circuit) = (socket.to_path_buf(), circuit(vci)?);
        std::thread::spawn(move || Direct::open(&socket, "beta", circuit, &config))
    };
    let here = Direct::open(socket, "alpha", circuit(vci)?, &config)?;
    Ok([here, there.join().map_err(|_| anyhow!("the other thread panicked"))??])
}

fn cases(socket: &Path, over: &Arc<AtomicBool>, processor: Option<usize>) -> Result<Vec<Case>> {
    let raw = endpoints(socket, 100)?.map(|(endpoint, channel)| {
        let raw: Box<dyn Raw> = Box::new(RawEndpoint(endpoint, channel));
        raw
    });
    let am = endpoints(socket, 101)?.map(|(endpoint, channel)| Circuits::new(endpoint, vec![channel]));
    let raw_direct = directs(socket, 102)?.map(|direct| {
        let raw: Box<dyn Raw> = Box::new(direct);
        raw
    });
    let direct = directs(socket, 103)?.map(|direct| DirectCircuits::new(vec![direct]));
    Ok(vec![
        case("circuit through a switch", raw, am, over, processor),
        case("direct circuit", raw_direct, direct, over, processor),
    ])
}

fn measure(folder: &Path, options: &AmOptions) -> Result<(Vec<AmRow>, Vec<usize>)> {
    let processors: Vec<usize> = Processors::allowed()?.numbers().take(2).collect();
    let socket: PathBuf = folder.join("cellway.sock");
    let _daemon = Daemon::start(config::parse(&network(), "the benchmark's network")?, &socket)?;
    let over = Arc::new(AtomicBool::new(false));
    if let [here, _] = processors[..] {
        super::pin(here)?;
    }
    let (runs, trips) = (options.runs.max(1), options.trips.clamp(10, 1_000_000));
    let mut cases = cases(&socket, &over, processors.get(1).copied())?;
    let bar = output::progress(Some((runs * cases.len()) as u64));
    let measured = (0..runs).try_for_each(|_| {
        cases.iter_mut().try_for_each(|case| {
            bar.inc(1);
            run_once(case, trips).with_context(|| case.path)
        })
    });
    bar.finish_and_clear();
    over.store(true, Ordering::Relaxed);
    let rows = cases.iter().map(row).collect();
    for case in &mut cases {
        for server in case.servers.drain(..) {
            let served = server.join().map_err(|_| anyhow!("a server panicked"))?;
            // What ended the measurement is the first cause.
            measured.as_ref().map_or(Ok(()), |()| served)?;
        }
    }
    measured?;
    Ok((rows, processors))
}

fn run_once(case: &mut Case, trips: usize) -> Result<()> {
    let nanos = |time: Duration| time.as_nanos() as f64 / trips as f64;
    // The first trips wake the other side.
    case.raw.trips(10)?;
    case.raw_ns.push(nanos(case.raw.trips(trips)?));
    case.ping.trips(10)?;
    case.trip_ns.push(nanos(case.ping.trips(trips)?));
    for (all, cost) in case.costs_ns.iter_mut().zip(case.ping.costs(trips)?) {
        all.push(cost * 1e9);
    }
    Ok(())
}

fn row(case: &Case) -> AmRow {
    let mut ratios: Vec<f64> = case.trip_ns.iter().zip(&case.raw_ns).map(|(am, raw)| am / raw).collect();
    let rtt_vs_raw = median(&mut ratios);
    let middle = |values: &[f64]| median(&mut values.to_vec());
    let rtt_ns = middle(&case.trip_ns);
    let [send_ns, receive_ns, gap_ns] = [0, 1, 2].map(|n| middle(&case.costs_ns[n]));
    AmRow {
        path: case.path.to_owned(),
        octets: MAX_HEAD_OCTETS,
        rtt_ns,
        raw_rtt_ns: middle(&case.raw_ns),
        rtt_vs_raw,
        reaches_goal: rtt_vs_raw <= GOAL,
        send_ns,
        receive_ns,
        // Half a round trip is a send, the way, and a receipt.
        latency_ns: (rtt_ns / 2.0 - send_ns - receive_ns).max(0.0),
        gap_ns,
    }
}

/// `cellway-lab bench am`
pub(crate) fn run(context: &Context, options: &AmOptions) -> Result<()> {
    let folder = std::env::temp_dir().join(format!("cellway-bench-am-{}", std::process::id()));
    let measured = measure(&folder, options);
    let _ = std::fs::remove_dir_all(&folder);
    let (rows, processors) = measured?;
    let json = BenchAm {
        bench: "am".into(),
        runs: options.runs.max(1),
        trips: options.trips,
        processors,
        goal_vs_raw: GOAL,
        rows,
    };
    output::print_as::<BenchAm>(context, &serde_json::to_value(&json)?, || text(&json))
}

fn text(json: &BenchAm) -> String {
    let row = |row: &AmRow| {
        let micros = |nanos: f64| number(Some(nanos / 1000.0), 2);
        vec![
            row.path.clone(),
            micros(row.rtt_ns),
            micros(row.raw_rtt_ns),
            number(Some(row.rtt_vs_raw), 2),
            micros(row.send_ns),
            micros(row.receive_ns),
            micros(row.latency_ns),
            micros(row.gap_ns),
        ]
    };
    let head = ["path", "RTT us", "endpoint's us", "ratio", "o_send us", "o_receive us", "L us", "g us"];
    output::table(&head, &json.rows.iter().map(row).collect::<Vec<_>>())
}
