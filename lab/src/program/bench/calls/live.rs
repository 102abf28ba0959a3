//! Calls through a running daemon, in real time: hosts, switches, cells, the engine's thread and the thread of calls as a user has them.
//!
//! Two drivers: one asks the daemon in this process, which is what signalling itself can do; the other is two applications
//! by the service's socket, each with a thread.

use super::{levels, resident_octets};
use crate::bench::median;
use anyhow::{Context as _, Result, anyhow, bail};
use control::calls::applications::User;
use control::calls::setup::Wanted;
use control::config;
use control::daemon::Daemon;
use endpoint::calls::{Answer, Event, Sap, Session, Step, StepOutcome, Traffic};
use endpoint::{Aal, Endpoint, EndpointConfig, OpenOptions};
use serde_json::{Value, json};
use stack::oam::{PingConfig, Pinger};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use wire::aesa::Aesa;
use wire::oam::Flow;
use wire::q2931::CauseValue;
use wire::{CircuitId, Time};

/// What one switch is to reach live, set-ups (and releases) a second.
pub(super) const GOAL: f64 = 10_000.0;
/// How long nothing may happen.
const PATIENCE: Duration = Duration::from_secs(20);
/// The sessions of the driver in this process: no connection has such numbers.
const CALLER: u64 = u64::MAX;
const CALLEE: u64 = u64::MAX - 1;
const USER: User = User::unlimited(0);

/// Callers and whom they call, each with a port of its own: a port has labels for 64 512 calls.
const PAIRS: [[&str; 2]; 2] = [["a", "b"], ["c", "d"]];
/// Calls that applications keep up at most: they are one pair.
const OF_APPLICATIONS: usize = 50_000;

/// A daemon with callers at one end of a row of switches and whom they call at the other, and a permanent circuit for pings.
struct Ground {
    daemon: Daemon,
    socket: PathBuf,
    /// Where the second of each pair is.
    to: [Aesa; PAIRS.len()],
    folder: PathBuf,
}

impl Drop for Ground {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn network(switches: usize) -> String {
    let mut text =
        "[host.a]\n[host.b]\n[host.c]\n[host.d]\n[[circuit]]\nends = [\"a 0.100\", \"b 0.100\"]\n".to_owned();
    for s in 0..switches {
        text += &format!("[switch.s{s}]\nprefix = \"47000580ffe1000000000000{s:02x}\"\nmax_routes = 262144\n");
        if s > 0 {
            let end = s - 1;
            text += &format!(
                "[[link]]\nends = [\"s{end}:1\", \"s{s}:0\"]\nsignalling = {{ version = \"iisp\", labels = \"0.1024-65535\", max_calls = 60000 }}\n"
            );
        }
    }
    let last = switches - 1;
    let ends = ["s0:0".to_owned(), format!("s{last}:1"), "s0:2".to_owned(), format!("s{last}:3")];
    for (host, port) in PAIRS.as_flattened().iter().zip(ends) {
        text += &format!(
            "[[link]]\nends = [\"{host}\", \"{port}\"]\nsignalling = {{ version = \"uni40\", labels = \"0.1024-65535\", max_calls = 60000 }}\n"
        );
    }
    text
}

impl Ground {
    fn new(switches: usize) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("cellway-bench-calls-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let socket = folder.join("socket");
        let daemon = Daemon::start(config::parse(&network(switches), "the benchmark's network")?, &socket)?;
        let begin = Instant::now();
        let to = loop {
            let up = daemon.controller().calls().with(|exchange, now| exchange.report(now)).interfaces;
            let first = |host| Ok(daemon.controller().calls().with(|e, _| e.addresses(host))?.first().copied());
            let all: Vec<Option<Aesa>> = PAIRS.as_flattened().iter().map(|host| first(host)).collect::<Result<_>>()?;
            if up.iter().all(|interface| interface.up)
                && let [Some(_), Some(b), Some(_), Some(d)] = all[..]
            {
                break [b, d];
            }
            if begin.elapsed() > PATIENCE {
                bail!("the signalling links are not up");
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        Ok(Ground { daemon, socket, to, folder })
    }
}

/// Calls one after another and many at a time: some stay up.
trait Driver {
    /// Begins so many calls.
    fn begin(&mut self, calls: usize) -> Result<()>;
    /// Serves what has happened, and releases calls that are up if it is told to; how many came up, and how many are gone.
    fn serve(&mut self, release: bool) -> Result<[usize; 2]>;
}

/// The driver in this process.
struct Inside<'a> {
    ground: &'a Ground,
    traffic: Traffic,
    /// Calls that have begun: pairs call in turn.
    begun: usize,
}

impl<'a> Inside<'a> {
    fn new(ground: &'a Ground) -> Result<Self> {
        let calls = ground.daemon.controller().calls();
        for [_, host] in PAIRS {
            calls.with(|exchange, _| exchange.listen(CALLEE, USER, host, None, Sap::ANY))?;
        }
        Ok(Inside { ground, traffic: Traffic::default(), begun: 0 })
    }
}

impl Driver for Inside<'_> {
    fn begin(&mut self, n: usize) -> Result<()> {
        let wanted = Wanted { sap: Sap::LLC, forward: &self.traffic, backward: &self.traffic, multipoint: false };
        let (to, begun) = (self.ground.to, self.begun);
        self.begun += n;
        self.ground.daemon.controller().calls().with(|exchange, now| {
            (begun..begun + n).try_for_each(|call| {
                let pair = call % PAIRS.len();
                exchange.call(CALLER, USER, PAIRS[pair][0], to[pair], wanted, now).map(drop)
            })
        })?;
        Ok(())
    }

    fn serve(&mut self, release: bool) -> Result<[usize; 2]> {
        let calls = self.ground.daemon.controller().calls();
        let (up, gone) = calls.with(|exchange, now| -> Result<_> {
            let mut counts = [0; 2];
            let mut take = |session| match exchange.take_events(session, true) {
                Some(Answer::Events(events)) => events,
                _ => Vec::new(),
            };
            let (callee, caller) = (take(CALLEE), take(CALLER));
            for event in callee {
                if let Event::Incoming { call, .. } = event {
                    exchange.accept(CALLEE, USER, call, now)?;
                }
            }
            for event in caller {
                match event {
                    Event::Connected { call, .. } => {
                        counts[0] += 1;
                        if release {
                            exchange.release(CALLER, call, CauseValue::NORMAL, now)?;
                            counts[1] += 1;
                        }
                    }
                    Event::Released { text, .. } => bail!("a call was released: {text}"),
                    _ => {}
                }
            }
            Ok((counts[0], counts[1]))
        })?;
        if up == 0 {
            // What is under way needs the processor more.
            std::thread::yield_now();
        }
        Ok([up, gone])
    }
}

/// Two applications by the service's socket.
struct Sockets {
    caller: Session,
    to: Aesa,
    stop: std::sync::Arc<std::sync::atomic::AtomicBool>,
    callee: Option<std::thread::JoinHandle<Result<()>>>,
}

impl Sockets {
    fn new(ground: &Ground) -> Result<Self> {
        use std::sync::atomic::{AtomicBool, Ordering};
        let caller = Session::open(&ground.socket, "a")?;
        let mut session = Session::open(&ground.socket, "b")?;
        session.listen(None, Sap::ANY)?;
        let stop = std::sync::Arc::new(AtomicBool::new(false));
        let ends = stop.clone();
        let callee = std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                // Answers leave with the request for the next event: those of all calls that came together.
                let mut next = session.next_event(Some(Duration::from_millis(50)))?;
                while let Some(event) = next {
                    if let Event::Incoming { call, .. } = event {
                        session.queue(Step::Accept { call })?;
                    }
                    next = session.take_event();
                }
                check_outcomes(&mut session)?;
            }
            Ok(())
        });
        Ok(Sockets { caller, to: ground.to[0], stop, callee: Some(callee) })
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        self.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        if let Some(callee) = self.callee.take() {
            let _ = callee.join();
        }
    }
}

/// Takes the outcomes that have come; no step is to be refused.
fn check_outcomes(session: &mut Session) -> Result<()> {
    while let Some(outcome) = session.next_outcome() {
        if let StepOutcome::Refused(reason) = outcome {
            bail!("the service refuses a step of a call: {reason}");
        }
    }
    Ok(())
}

impl Driver for Sockets {
    fn begin(&mut self, n: usize) -> Result<()> {
        for _ in 0..n {
            let (to, sap) = (self.to.to_string(), Some(Sap::LLC.to_string()));
            self.caller.queue(Step::Call { to, sap, traffic: None, backward: None })?;
        }
        Ok(())
    }

    fn serve(&mut self, release: bool) -> Result<[usize; 2]> {
        let mut counts = [0; 2];
        // Releases leave with the calls that are begun next.
        let mut next = self.caller.next_event(Some(Duration::from_millis(20)))?;
        while let Some(event) = next {
            match event {
                Event::Connected { call, .. } => {
                    counts[0] += 1;
                    if release {
                        self.caller.queue(Step::Release { call, cause: CauseValue::NORMAL.0 })?;
                        counts[1] += 1;
                    }
                }
                Event::Released { text, .. } => bail!("a call was released: {text}"),
                _ => {}
            }
            next = self.caller.take_event();
        }
        check_outcomes(&mut self.caller)?;
        Ok(counts)
    }
}

/// Sets up so many calls, with so many under way at a time; they stay up, or each is released once it is.
fn load(driver: &mut dyn Driver, calls: usize, under_way: usize, release: bool) -> Result<()> {
    let (mut begun, mut up) = (0, 0);
    let mut last = Instant::now();
    while up < calls {
        let more = (calls - begun).min(under_way.saturating_sub(begun - up));
        if more > 0 {
            driver.begin(more)?;
            begun += more;
        }
        let [came, _] = driver.serve(release)?;
        up += came;
        if came > 0 {
            last = Instant::now();
        } else if last.elapsed() > PATIENCE {
            bail!("{up} of {calls} calls are up, and nothing happens any more");
        }
    }
    Ok(())
}

/// Set-ups and releases a second, with so many calls up meanwhile.
fn rates(driver: &mut dyn Driver, calls: usize, under_way: usize, runs: usize) -> Result<Vec<f64>> {
    let mut rates = Vec::new();
    for _ in 0..runs.max(1) {
        let begin = Instant::now();
        load(driver, calls, under_way, true)?;
        rates.push(calls as f64 / begin.elapsed().as_secs_f64());
    }
    Ok(rates)
}

/// The rows: through one switch by both drivers, with 1, 1000 and more calls up.
pub(super) fn rows(calls: usize, under_way: usize, runs: usize, most: usize) -> Result<Vec<Value>> {
    let mut rows = Vec::new();
    for sockets in [false, true] {
        let ground = Ground::new(1)?;
        let mut driver: Box<dyn Driver> =
            if sockets { Box::new(Sockets::new(&ground)?) } else { Box::new(Inside::new(&ground)?) };
        let most = if sockets { most.min(OF_APPLICATIONS) } else { most };
        let (mut up, mut octets) = (0, None);
        for wanted in levels(most) {
            let before = resident_octets();
            load(&mut *driver, wanted - up, under_way, false)?;
            if wanted - up >= 10_000 {
                octets = Some((resident_octets() - before) / (wanted - up) as f64);
            }
            up = wanted;
            let mut rates = rates(&mut *driver, calls, under_way, runs)?;
            let middle = median(&mut rates);
            rows.push(json!({
                "driver": if sockets { "applications" } else { "in process" }, "switches": 1, "up": up,
                "setups_per_s": middle, "least": rates.first(), "greatest": rates.last(),
                "octets_a_call": octets.filter(|_| up == most), "reaches_goal": middle >= GOAL,
            }));
        }
    }
    Ok(rows)
}

/// The round trip of a set-up through five switches, and five of a segment's loopback, medians in microseconds.
pub(super) fn round_trips(count: u32) -> Result<Value> {
    let ground = Ground::new(5)?;
    let mut driver = Inside::new(&ground)?;
    let mut setups = Vec::new();
    for _ in 0..count {
        let begin = Instant::now();
        driver.begin(1)?;
        let mut up = 0;
        while up == 0 {
            up = driver.serve(false)?[0];
            if begin.elapsed() > PATIENCE {
                bail!("a call through five switches is not set up");
            }
        }
        setups.push(begin.elapsed().as_secs_f64() * 1e6);
    }
    let setup = median(&mut setups);
    let ping = ping_us(&ground, count)?;
    Ok(json!({ "switches": 5, "setup_us": setup, "five_segment_pings_us": 5.0 * ping, "ratio": setup / (5.0 * ping) }))
}

fn ping_us(ground: &Ground, count: u32) -> Result<f64> {
    let circuit = CircuitId::new(0, 100).context("circuit 0.100")?;
    let mut endpoint =
        Endpoint::create(&ground.socket, &EndpointConfig { host: "a".into(), ..EndpointConfig::default() })?;
    let channel = endpoint.open(circuit, OpenOptions { aal: Aal::Oam, ..OpenOptions::default() })?;
    let epoch = Instant::now();
    let now = || Time::ZERO + epoch.elapsed();
    let config = PingConfig {
        circuit,
        flow: Flow::F5Segment,
        count,
        interval: Duration::from_millis(2),
        timeout: Duration::from_secs(1),
        first_tag: 1,
    };
    let mut pinger = Pinger::new(config, now());
    while !pinger.is_done() {
        while let Some(cell) = pinger.poll_transmit(now()) {
            endpoint.send_copy(channel, &sar::aal0::to_message(&cell)).map_err(|e| anyhow!(e))?;
        }
        let wait = pinger.poll_timeout().map_or(Duration::ZERO, |t| t.since(now()));
        if let Some(message) = endpoint.receive(Some(wait))?
            && let Some(cell) = sar::aal0::to_cell(&message, circuit)
        {
            pinger.handle_cell(&cell, now());
        }
        pinger.handle_timeout(now());
        while pinger.poll_outcome().is_some() {}
    }
    let statistics = pinger.statistics();
    if statistics.received == 0 {
        bail!("no answer to a segment's loopback");
    }
    Ok(statistics.median_us)
}
