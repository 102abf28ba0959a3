//! Measuring on this machine what experiments ask for: with the program's own service, endpoints and data paths.
//!
//! Several passes, of which the median counts, with the extremes beside it. Costs are in time on a processor.

mod costs;
mod networks;
mod paths;
pub(super) mod profile;

use crate::bench::{self, median};
use ::lab::experiment::{LOADS, Live, Load, Measured, Probe, Waiting};
use ::lab::model::Profile;
use ::lab::sys::remapping::measure_remap;
use ::lab::sys::waiting;
use anyhow::{Context as _, Result};
use cellway::output;
use control::config;
use control::daemon::Daemon;
use endpoint::Events;
use networks::Networks;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const NETWORK: &str = "[host.alpha]\n[host.beta]\n[[link]]\nends=[\"alpha\",\"beta\"]\n\
                       [[circuit]]\nends=[\"alpha 0.100\",\"beta 0.100\"]\n\
                       [[circuit]]\nends=[\"alpha 0.101\",\"beta 0.101\"]\n";

/// Strategies whose loads are measured together.
const STRATEGIES: [Events; 5] = [
    Events::Interrupt,
    Events::Polling,
    Events::Clocked { hertz: 1000 },
    Events::Hybrid { quota: 64 },
    Events::Soft { hertz: 10_000 },
];

/// Passes of the work over the three networks of seed 002, and how long each lasts, at most: there are some hundred.
const MOST_CARRIES: usize = 5;
const LONGEST_CARRY: Duration = Duration::from_millis(40);

/// This machine.
pub(super) struct Here {
    folder: PathBuf,
    daemon: Option<Daemon>,
    passes: usize,
    length: Duration,
    /// As it was given, or as it was measured when it was first asked for.
    profile: Option<Profile>,
    loads: Option<Vec<Vec<Value>>>,
    networks: Networks,
    /// What failed once is not tried again for each load.
    no_loads: bool,
    stop: Arc<AtomicBool>,
}

impl Drop for Here {
    fn drop(&mut self) {
        self.daemon.take();
        self.networks = Networks::default();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Live for Here {
    fn profile(&mut self) -> Option<Profile> {
        if self.profile.is_none() && !self.stop.load(Ordering::Relaxed) {
            self.profile = profile::profile(self, 3)
                .map_err(|e| output::note(format_args!("cellway: not calibrated: {e:#}")))
                .ok();
        }
        self.profile.clone()
    }

    fn lacks(&mut self, waiting: Waiting) -> Option<String> {
        let tried = waiting::round_trips(32, waiting, Duration::from_millis(1));
        tried.err().map(|e| format!("this kernel does not offer it to this process: {e}"))
    }

    fn xdp(&mut self) -> String {
        match waiting::xdp() {
            Ok(()) => format!("this kernel has it and lets this process open a socket; {XDP}"),
            Err(e) => format!("this kernel lets this process open no such socket ({e}); {XDP}"),
        }
    }

    fn measure(&mut self, probe: Probe) -> Option<Measured> {
        if self.stop.load(Ordering::Relaxed) || self.no_loads && matches!(probe, Probe::Load { .. }) {
            return None;
        }
        match self.try_measure(probe) {
            Ok(measured) => Some(measured),
            Err(e) => {
                self.no_loads |= matches!(probe, Probe::Load { .. });
                output::note(format_args!("cellway: not measured: {e:#}"));
                None
            }
        }
    }
}

/// What AF_XDP would need besides a socket.
const XDP: &str = "what comes reaches such a socket only by an XDP program on an interface of its own, and the laboratory loads no program \
    into a kernel";

fn of(values: &mut [f64]) -> Measured {
    let least = values.iter().copied().fold(f64::MAX, f64::min);
    let greatest = values.iter().copied().fold(f64::MIN, f64::max);
    Measured { median: median(values), least, greatest }
}

impl Here {
    pub(super) fn new(quick: bool, profile: Option<Profile>) -> Self {
        let folder = std::env::temp_dir().join(format!("cellway-lab-{}", std::process::id()));
        let (passes, millis) = if quick { (3, 20) } else { (9, 100) };
        let length = Duration::from_millis(millis);
        let (networks, stop) = (Networks::default(), Arc::default());
        Here { folder, daemon: None, passes, length, profile, loads: None, networks, no_loads: false, stop }
    }

    /// Measures nothing more once this is set.
    pub(super) fn stop_at(&mut self, stop: Arc<AtomicBool>) {
        self.stop = stop;
    }

    fn socket(&mut self) -> Result<PathBuf> {
        let socket = self.folder.join("service.sock");
        if self.daemon.is_none() {
            self.daemon = Some(Daemon::start(config::parse(NETWORK, "the laboratory's network")?, &socket)?);
        }
        Ok(socket)
    }

    pub(super) fn try_measure(&mut self, probe: Probe) -> Result<Measured> {
        match probe {
            Probe::Load { events, load, what } => return self.load(events, load, what),
            Probe::Carry { over, work, what } => {
                let how = (self.passes.min(MOST_CARRIES), self.length.min(LONGEST_CARRY));
                return self.networks.number(&self.folder, (over, work, what), how);
            }
            Probe::Echo { events, loaded } => {
                let socket = self.socket()?;
                let mut runs = (0..self.passes.min(5))
                    .map(|_| paths::echoes(&socket, events, loaded))
                    .collect::<Result<Vec<_>>>()?;
                runs.sort_by(|a, b| a[0].total_cmp(&b[0]));
                let [mean, least, greatest] = runs[runs.len() / 2];
                return Ok(Measured { median: mean, least, greatest });
            }
            _ => {}
        }
        let mut values = (0..self.passes).map(|_| self.once(probe)).collect::<Result<Vec<_>>>()?;
        Ok(of(&mut values))
    }

    /// One pass.
    pub(super) fn once(&mut self, probe: Probe) -> Result<f64> {
        let length = self.length;
        match probe {
            Probe::Path { octets, path } => paths::flood(&self.socket()?, octets, path, 2 * length),
            Probe::Windows { octets, sends, receives } => {
                bench::windows_mbit_s(&self.socket()?, octets, [sends, receives], 2 * length)
            }
            Probe::RoundTrip { octets, events } => paths::round_trip(&self.socket()?, octets, events, length),
            Probe::Cost { octets, path, events, burst, whose } => {
                paths::cost(&self.socket()?, (octets, path, events, burst), whose, length)
            }
            Probe::Datagrams { octets, waiting } => {
                let mut times = waiting::round_trips(octets, waiting, length)?;
                Ok(median(&mut times))
            }
            Probe::Copy { octets } => costs::copy(octets, length / 2),
            Probe::Checksum { octets, copied } => costs::checksum(octets, copied, length / 4),
            Probe::Layer { octets } => costs::layer(octets, length / 4),
            Probe::SystemCall => costs::system_call(length / 4),
            Probe::Write { octets } => costs::write(octets, length / 8),
            Probe::Tick => costs::tick(length),
            Probe::Lookup => costs::lookup(length / 4),
            Probe::Lists => costs::lists(length / 2),
            Probe::Move { octets, mapped } => {
                let costs = measure_remap(octets);
                Ok(if mapped { costs.remap_ns } else { costs.copy_ns } / 1e3)
            }
            Probe::Echo { .. } | Probe::Load { .. } | Probe::Carry { .. } => self.try_measure(probe).map(|m| m.median),
        }
    }

    fn load(&mut self, events: Events, load: f64, what: Load) -> Result<Measured> {
        if self.loads.is_none() {
            std::fs::create_dir_all(&self.folder).with_context(|| format!("making {}", self.folder.display()))?;
            // The other service would be in the way.
            self.daemon.take();
            let runs = self.passes.clamp(3, 5);
            self.loads = Some(bench::events::sweep(&self.folder, &STRATEGIES, &LOADS, runs, 2 * self.length)?);
        }
        let place = STRATEGIES.iter().position(|s| *s == events).zip(LOADS.iter().position(|l| *l == load));
        let case = place.and_then(|(s, l)| self.loads.as_ref()?.get(s * LOADS.len() + l));
        let key = match what {
            Load::Offered => "offered_per_s",
            Load::Done => "done_per_s",
            Load::Latency => "p50_us",
        };
        let mut values: Vec<f64> = case.into_iter().flatten().filter_map(|row| row[key].as_f64()).collect();
        anyhow::ensure!(!values.is_empty(), "{events} at {load} of the saturating load: nothing was done");
        Ok(of(&mut values))
    }
}
