//! `cellway up`: the network of a description, in the foreground, until Ctrl-C. SIGHUP reads the file again and applies
//! the difference.

use crate::client;
use crate::context::Context;
use crate::kinds::kinds;
use crate::output;
use crate::supervisor::Supervisor;
use anyhow::{Result, anyhow};
use clap::Args;
use control::config::Config;
use control::daemon::{Daemon, DaemonOptions, Metrics};
use control::description::load;
use control::diagnostic::Diagnostics;
use control::metrics::MAX_ROWS;
use control::protocol;
use control::sources::waiting::{Understood, Waiting};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

/// A description that is not read within this time is given up when the next signal comes.
const PATIENCE: Duration = Duration::from_secs(5);
/// A daemon that starts and is told to end has so long to be up before.
const START_PATIENCE: Duration = Duration::from_millis(500);

/// Brings up a network and runs it in the foreground. Ctrl-C ends it and removes all that it made; SIGHUP reads the
/// file again, and opens the log of changes anew. Unchanged objects then keep running undisturbed, and what commands added, removed, took down or up stays
/// so. An interface's deleted device is restored. A file that has become empty is not applied.
///
/// A supervisor is told as systemd's are (`sd_notify`): `Type=notify`, `NotifyAccess=main`, `WatchdogSec`.
#[derive(Debug, Args)]
pub(crate) struct Up {
    /// The description (see `examples/`)
    file: PathBuf,
    /// A folder that keeps objects added, removed or taken down by commands over a restart, and the log of changes
    #[arg(long, value_name = "FOLDER")]
    state: Option<PathBuf>,
    /// Rename a state that is damaged or of another version, and start without it
    #[arg(long, requires = "state")]
    state_reset: bool,
    /// Serve metrics for Prometheus at this address by HTTP, at /metrics: anybody who reaches the address may read them
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
    /// The most circuits, and endpoints, that have rows in the metrics
    #[arg(long, value_name = "N", default_value_t = MAX_ROWS, requires = "metrics")]
    metrics_rows: usize,
    /// The log level: error, warn, info, debug
    #[arg(long, default_value = "info")]
    log: String,
}

/// `cellway up`
pub(crate) fn run(context: &Context, up: &Up) -> Result<()> {
    // The allocator asks for huge pages, and the kernel clears 2 MB at the first touch of one: milliseconds within a
    // round of the engine, on memory that a virtual machine has not seen yet.
    let small_pages = rustix::thread::disable_transparent_huge_pages(true);
    let _log = crate::log::start(&up.log)?;
    if let Err(e) = small_pages {
        tracing::warn!("huge pages stay on, and rounds of the engine may be longer: {e}");
    }
    let stop = client::ends_in_order()?;
    let hangup = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGHUP, hangup.clone())?;
    let starting = Starting::begin(stop.clone())?;
    let config = load(&kinds(), &up.file)?;
    let d = &config.description;
    let counts = (d.stations.len(), d.links.len(), d.circuits.len());
    let metrics = up.metrics.map(|address| Metrics { address, max_rows: up.metrics_rows });
    let options =
        DaemonOptions { state: up.state.clone(), reset_state: up.state_reset, metrics, ..DaemonOptions::default() };
    let daemon = Daemon::start_with(config, &context.socket, &options)?;
    drop(starting);
    tracing::info!(
        "up: {} stations, {} links, {} circuits; socket {}",
        counts.0,
        counts.1,
        counts.2,
        context.socket.display()
    );
    if let Some(address) = daemon.metrics() {
        tracing::info!("metrics: http://{address}/metrics");
    }
    if context.json {
        let (up, socket, metrics) = (up.file.clone(), context.socket.clone(), daemon.metrics());
        output::say(&protocol::Up { up, socket, metrics })?;
    }
    let status = format!("{} stations, {} links, {} circuits", counts.0, counts.1, counts.2);
    let mut supervisor = Supervisor::ready(&daemon.engine, &status)?;
    let mut reading = None::<Reading>;
    for look in 0u64.. {
        if !client::goes_on(&stop) {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
        daemon.serve_peers();
        daemon.undo_unconfirmed();
        supervisor.turn();
        if look.is_multiple_of(20) {
            daemon.log_alarms();
            daemon.log_ended();
        }
        let may_begin = reading.as_ref().is_none_or(|reading| reading.begun.elapsed() >= PATIENCE);
        if may_begin && hangup.swap(false, Ordering::Relaxed) {
            daemon.controller().reopen_log();
            let begun = Reading::begin(&up.file, daemon.controller().waiting_links());
            reading = begun.inspect_err(|e| tracing::error!("not applied: {e}")).ok();
        }
        if let Some(read) = reading.as_ref().and_then(Reading::take) {
            reading = None;
            apply(&daemon, read, &up.file);
        }
    }
    supervisor.stopping();
    tracing::info!("down");
    drop(daemon);
    Ok(())
}

/// While this lives the daemon is not up. A signal to end waits a little for that, so that what was made is removed in
/// order, and then ends the program: the description may be a FIFO, and a disk may stall.
struct Starting {
    _is_up: SyncSender<()>,
}

impl Starting {
    fn begin(stop: Arc<AtomicBool>) -> Result<Self> {
        let (is_up, waits) = sync_channel::<()>(0);
        let waits_in_vain = move |time| waits.recv_timeout(time) == Err(RecvTimeoutError::Timeout);
        let watch = move || {
            while waits_in_vain(Duration::from_millis(50)) {
                if !client::goes_on(&stop) && waits_in_vain(START_PATIENCE) {
                    signal_hook::low_level::exit(130);
                }
            }
        };
        std::thread::Builder::new().name("starting".into()).spawn(watch)?;
        Ok(Starting { _is_up: is_up })
    }
}

/// A description that is read again, and links of commands that wait for it, on a thread of its own. The file may be a
/// FIFO by now, or on a disk that stalls, and a name server may be slow: peers are served and signals are heard
/// meanwhile.
struct Reading {
    begun: Instant,
    read: Receiver<Result<(Config, Understood)>>,
}

impl Reading {
    fn begin(file: &Path, waiting: Waiting) -> std::io::Result<Self> {
        let (done, read) = sync_channel(1);
        let file = file.to_path_buf();
        std::thread::Builder::new().name("description".into()).spawn(move || {
            // Nobody waits for it any more if the program ends, or if another one has begun. A panic over what it says
            // leaves the network as it is.
            let load = || load(&kinds(), &file).map(|config| (config, Understood::of(waiting)));
            if let Some(read) = host::panics::caught(load) {
                let _ = done.send(read);
            }
        })?;
        Ok(Reading { begun: Instant::now(), read })
    }

    /// What it is, once it is read.
    fn take(&self) -> Option<Result<(Config, Understood)>> {
        match self.read.try_recv() {
            Ok(read) => Some(read),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(anyhow!("reading the description has failed"))),
        }
    }
}

/// Applies what was read, and says what has become of it.
fn apply(daemon: &Daemon, read: Result<(Config, Understood)>, file: &Path) {
    match read.and_then(|(config, links)| daemon.reload_with(config, &links)) {
        Ok(a) => tracing::info!(
            "applied {}: {} added, {} changed, {} removed; circuits {} interrupted, {} unchanged",
            file.display(),
            a.summary.added,
            a.summary.changed,
            a.summary.removed,
            a.summary.interrupted,
            a.unchanged_circuits,
        ),
        Err(e) => match e.downcast_ref::<Diagnostics>() {
            Some(wrong) => wrong.all().iter().for_each(|wrong| tracing::error!("not applied: {wrong}")),
            None => tracing::error!("not applied: {e:#}"),
        },
    }
}
