//! The thread of calls: it takes SDUs from the interfaces, lets the exchange decide, carries its changes out, and sends
//! what it says.
//!
//! All of it is under one lock, which the service's thread takes too for what applications ask; nobody who holds it
//! waits for a client. An interface that floods its channel fills its own ring, of which `TURN` SDUs are taken at a
//! time.

use super::call_controller::{CallController, Channel};
use super::channel::{self, Channels};
use super::layout::Layout;
use super::report::CallsStatus;
use super::tables::{self, Installed};
use crate::ended::Ended;
use crate::hops;
use endpoint::times::timespec;
use host::engine::EngineHandle;
use net::CircuitCounters;
use net::topology::SwitchHop;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};
use wire::Time;

/// SDUs of one interface that are taken before it is the next one's turn.
const TURN: usize = 16;
/// Circuits whose counters are asked for in one command.
const COUNTED: usize = 256;
/// Changes of tables that are made in one command.
const CARRIED: usize = 64;
/// Rounds without a look at anybody else who wants the lock.
const ROUNDS: usize = 4;

struct Line {
    /// `None`: a program's.
    channels: Option<Channels>,
    installed: Installed,
}

struct Inner {
    controller: CallController,
    layout: Layout,
    lines: HashMap<usize, Line>,
    /// The same by place, as the tables' changes name them.
    places: Arc<HashMap<(String, u16), Installed>>,
    /// Until when the thread sleeps; `None`: until it is woken.
    sleeps_until: Option<Time>,
}

struct Shared {
    engine: EngineHandle,
    /// Where the counters go of circuits in switches whose calls end.
    ended: Ended,
    inner: Mutex<Inner>,
    bell: Arc<Bell>,
    news: OwnedFd,
    stop: AtomicBool,
    epoch: Instant,
}

/// Wakes the thread.
struct Bell(OwnedFd);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // A count that is full wakes all the same.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

/// Calls of a running network.
pub struct Service {
    shared: Arc<Shared>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl Drop for Service {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.bell.wake_by_ref();
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // A panic there has been reported by its own message.
            let _ = thread.join();
        }
    }
}

impl Service {
    /// Starts the thread; there are no interfaces yet.
    ///
    /// # Errors
    /// The system has no thread or descriptor for it.
    pub fn start(engine: EngineHandle, ended: Ended) -> anyhow::Result<Self> {
        let event = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let inner = Inner {
            controller: CallController::default(),
            layout: Layout::default(),
            lines: HashMap::new(),
            places: Arc::default(),
            sleeps_until: None,
        };
        let shared = Arc::new(Shared {
            engine: engine.named("calls"),
            ended,
            inner: Mutex::new(inner),
            bell: Arc::new(Bell(event()?)),
            news: event()?,
            stop: AtomicBool::new(false),
            epoch: Instant::now(),
        });
        let ours = shared.clone();
        let thread = std::thread::Builder::new().name("calls".into()).spawn(move || run(&ours))?;
        Ok(Service { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Can be read when a session that waits has something to hear.
    pub fn news(&self) -> BorrowedFd<'_> {
        self.shared.news.as_fd()
    }

    /// What an application asks, with the time; what it leads to is sent at once.
    pub fn with<R>(&self, f: impl FnOnce(&mut CallController, Time) -> R) -> R {
        let mut inner = self.shared.lock();
        let now = self.shared.now();
        let result = f(&mut inner.controller, now);
        self.shared.flush(&mut inner, now);
        let timeout = inner.controller.poll_timeout();
        if timeout.is_some_and(|at| inner.sleeps_until.is_none_or(|until| at < until)) {
            self.shared.bell.wake_by_ref();
        }
        result
    }

    /// A look that leads to nothing that is to be sent or carried out.
    pub fn look<R>(&self, f: impl FnOnce(&mut CallController) -> R) -> R {
        f(&mut self.shared.lock().controller)
    }

    /// All that is told of calls, with what was dropped before this thread could read it.
    pub fn report(&self) -> CallsStatus {
        let (mut status, hops, places) = {
            let inner = self.shared.lock();
            (inner.controller.report(self.shared.now()), inner.controller.hops(), inner.places.clone())
        };
        let (of, asked): (Vec<_>, Vec<_>) =
            hops.into_iter().map(|(call, hop, contract)| ((call, contract), hop)).unzip();
        let counted = self.shared.counted(&asked);
        for (((call, contract), hop), counters) in of.into_iter().zip(asked).zip(counted) {
            if let (Some(through), Some(counters)) = (status.through.get_mut(call), counters) {
                through.counters.push(hops::status(hop, counters, &contract));
            }
        }
        let asked: Vec<_> =
            status.interfaces.iter().map(|i| places.get(&(i.station.clone(), i.port)).cloned()).collect();
        let dropped = self.shared.engine.with(move |core| {
            asked.iter().map(|installed| installed.as_ref().map_or(0, |i| tables::dropped(core, i))).collect::<Vec<_>>()
        });
        for (interface, dropped) in status.interfaces.iter_mut().zip(dropped.unwrap_or_default()) {
            interface.dropped = dropped;
        }
        status
    }

    /// The time as the exchange counts it.
    pub fn now(&self) -> Time {
        self.shared.now()
    }

    /// Makes the interfaces those of a layout: after each change of the network, for links and switches may be others
    /// of the same name.
    pub fn arrange(&self, layout: Layout) {
        let mut inner = self.shared.lock();
        let now = self.shared.now();
        inner.controller.arrange(&layout, now);
        inner.layout = layout;
        self.shared.install(&mut inner);
        self.shared.flush(&mut inner, now);
        // It arms the channels that are new.
        self.shared.bell.wake_by_ref();
    }

    /// Takes the channels of switches away that are to have another control port; [`Service::arrange`] brings them
    /// back.
    pub fn withdraw(&self, moves: impl Fn(&str) -> bool) {
        let mut inner = self.shared.lock();
        let gone: Vec<usize> = inner
            .lines
            .iter()
            .filter(|(_, line)| line.installed.control.is_some() && moves(&line.installed.station))
            .map(|(at, _)| *at)
            .collect();
        for at in gone {
            self.shared.uninstall(&mut inner, at);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Time {
        Time::ZERO + self.epoch.elapsed()
    }

    /// What switches counted of circuits, in their order: some in each command, so that none makes a long round.
    fn counted(&self, asked: &[SwitchHop]) -> Vec<Option<CircuitCounters>> {
        let mut all = Vec::with_capacity(asked.len());
        for part in asked.chunks(COUNTED) {
            let part = part.to_vec();
            let counted = self.engine.with(move |core| {
                let one = |hop: SwitchHop| {
                    let node = core.fabric.node(&hop.switch)?;
                    core.network.peek_node::<net::SwitchElement>(node)?.circuit_counters(hop.from, hop.to)
                };
                part.into_iter().map(one).collect::<Vec<_>>()
            });
            // An engine that has stopped has counted nothing.
            let Ok(counted) = counted else { break };
            all.extend(counted);
        }
        all
    }

    fn uninstall(&self, inner: &mut Inner, at: usize) {
        let Some(line) = inner.lines.remove(&at) else { return };
        let installed = line.installed;
        let last = !inner.lines.values().any(|other| other.installed.station == installed.station);
        // If the engine has stopped, all is gone anyway.
        let _ = self.engine.with(move |core| tables::uninstall(core, &installed, last));
        inner.note_places();
    }

    /// Lets the channels of all interfaces end here, of those whose station or control port is another too.
    fn install(&self, inner: &mut Inner) {
        let wanted: Vec<(usize, String, u16, Option<u16>, bool)> = inner
            .controller
            .interfaces()
            .map(|(at, config)| {
                let control = if config.host.is_some() { None } else { inner.controller.control_port(&config.station) };
                (at, config.station.clone(), config.port, control, config.program)
            })
            .collect();
        let stations: Vec<String> = inner.lines.values().map(|line| line.installed.station.clone()).collect();
        let nodes = self.engine.with(move |core| {
            stations
                .into_iter()
                .map(|name| (core.fabric.node(&name), name))
                .map(|(id, name)| (name, id))
                .collect::<HashMap<_, _>>()
        });
        let Ok(nodes) = nodes else { return };
        let stale: Vec<usize> = inner
            .lines
            .iter()
            .filter(|(at, Line { installed, channels })| {
                let same = wanted.iter().any(|(number, station, port, control, program)| {
                    number == *at
                        && (station, port, control) == (&installed.station, &installed.port, &installed.control)
                        && *program == channels.is_none()
                });
                !same || nodes.get(&installed.station).copied().flatten() != Some(installed.node)
            })
            .map(|(at, _)| *at)
            .collect();
        for at in stale {
            self.uninstall(inner, at);
        }
        let outside = inner.lines.iter().filter(|(_, line)| line.installed.leads_outside());
        let outside: Vec<(usize, Installed)> = outside.map(|(at, line)| (*at, line.installed.clone())).collect();
        for part in outside.chunks(CARRIED) {
            let mut part = part.to_vec();
            let told = self.engine.with(move |core| {
                part.iter_mut().for_each(|(_, installed)| tables::tell_again(core, installed));
                part
            });
            for (at, installed) in told.unwrap_or_default() {
                if let Some(line) = inner.lines.get_mut(&at) {
                    line.installed = installed;
                }
            }
        }
        for (at, station, port, control, program) in wanted {
            if inner.lines.contains_key(&at) {
                continue;
            }
            match self.install_one(&station, port, control, program) {
                Ok((channels, installed)) => drop(inner.lines.insert(at, Line { channels, installed })),
                Err(e) => tracing::error!("no signalling at port {port} of {station}: {e:#}"),
            }
        }
        inner.note_places();
    }

    fn install_one(
        &self,
        station: &str,
        port: u16,
        control: Option<u16>,
        program: bool,
    ) -> anyhow::Result<(Option<Channels>, Installed)> {
        let pair = || channel::pair(&self.engine, station, Waker::from(self.bell.clone()));
        let (mut channels, side) = if program { (None, None) } else { pair().map(|(c, s)| (Some(c), Some(s)))? };
        let name = station.to_owned();
        let installed = self.engine.with(move |core| tables::install(core, &name, port, control, side))?;
        let (installed, numbers) = installed.map_err(|e| anyhow::anyhow!(e))?;
        if let Some(channels) = &mut channels {
            channels.set_numbers(numbers);
        }
        Ok((channels, installed))
    }

    /// Takes what has come, some of each interface. True if there was anything.
    fn take(&self, inner: &mut Inner, now: Time) -> bool {
        let mut any = false;
        let mut sdu = Vec::with_capacity(channel::MAX_SDU_OCTETS);
        let Inner { controller, lines, .. } = inner;
        for (at, line) in lines {
            let Some(channels) = &mut line.channels else { continue };
            for _ in 0..TURN {
                let Some(channel) = channels.receive(&mut sdu) else { break };
                any = true;
                controller.handle_sdu(*at, channel, &sdu, now);
            }
        }
        any
    }

    /// Carries the exchange's changes out, and then sends what it has to send.
    fn flush(&self, inner: &mut Inner, now: Time) {
        loop {
            let changes: Vec<_> = std::iter::from_fn(|| inner.controller.poll_change()).take(CARRIED).collect();
            if changes.is_empty() {
                break;
            }
            let places = inner.places.clone();
            let done = self.engine.with(move |core| (tables::carry_out(core, &changes, &places), changes));
            let Ok(((failed, ended), changes)) = done else { return };
            self.ended.note(ended);
            for at in failed {
                inner.controller.handle_failure(&changes[at], now);
            }
        }
        let Inner { controller, lines, .. } = &mut *inner;
        for (at, line) in lines {
            let Some(channels) = &mut line.channels else { continue };
            for channel in Channel::ALL {
                while channels.has_room() {
                    let Some(sdu) = controller.poll_transmit(*at, channel, now) else { break };
                    channels.send(channel, &sdu);
                }
            }
        }
        if controller.take_news() {
            let _ = rustix::io::write(&self.news, &1u64.to_ne_bytes());
        }
    }
}

impl Inner {
    fn note_places(&mut self) {
        let installed = self.lines.values().map(|line| &line.installed);
        self.places = Arc::new(installed.map(|i| ((i.station.clone(), i.port), i.clone())).collect());
    }
}

fn run(shared: &Shared) {
    while !shared.stop.load(Ordering::Acquire) {
        let mut rests = true;
        let timeout = {
            let mut inner = shared.lock();
            for _ in 0..ROUNDS {
                let now = shared.now();
                let any = shared.take(&mut inner, now);
                if inner.controller.poll_timeout().is_some_and(|at| at <= now) {
                    inner.controller.handle_timeout(now);
                }
                shared.flush(&mut inner, now);
                rests = !any;
                if rests {
                    break;
                }
            }
            // Each is armed, also where an earlier one has something.
            for line in inner.lines.values_mut() {
                rests &= line.channels.as_mut().is_none_or(Channels::arm);
            }
            inner.sleeps_until = inner.controller.poll_timeout();
            inner.sleeps_until.map(|at| at.since(shared.now()))
        };
        if rests {
            sleep(shared, timeout);
        } else {
            std::thread::yield_now();
        }
    }
}

fn sleep(shared: &Shared, timeout: Option<Duration>) {
    let spec = timeout.map(timespec);
    // An error is EINTR: the next round looks at everything.
    let _ = poll(&mut [PollFd::new(&shared.bell.0, PollFlags::IN)], spec.as_ref());
    let _ = rustix::io::read(&shared.bell.0, &mut [0; 8]);
}
