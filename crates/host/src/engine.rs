//! The thread that runs a network on this machine's clock.
//!
//! It runs rounds while there is work or an endpoint's strategy wants it awake, then sleeps until a doorbell, a socket, a
//! command or the next timeout. Where it is to stay awake without work it gives its processor away between two looks
//! ([`endpoint::waiting`]). It wakes applications as futexes in their segments, and hears them by `doorbell.rs`: it calls the
//! system on nothing that one of them holds. Doorbells are heard through an epoll, and with them sockets that stay the same: a sleep costs the same for one as for thousands. Commands are closures that it runs between two rounds, one a round;
//! what takes longer is a job, which has a slice of each round. Whoever gives one waits for its result, and no lock is held on
//! the way of data.

mod pressure;

use crate::channels::EndpointId;
use crate::doorbell::{Doorbell, Doorbells};
use crate::endpoints::Pressure;
use crate::interface::HostInterface;
pub use crate::rounds::processor_time;
use endpoint::waiting;
use net::topology::Fabric;
use net::{External, LinkId, Network, NodeId};
use rustix::event::epoll::{self, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wire::Time;

/// Rounds that found nothing between two looks at doorbells, sockets and commands; each gives the processor away.
const LOOKS: u32 = 4;
/// Rounds between two looks at doorbells, sockets and commands, ...
const ROUNDS: u32 = 32;
/// ... and the time after which no more rounds follow before such a look, ...
const ROUNDS_LAST: Duration = Duration::from_micros(200);
/// ... which a thread that does not sleep makes this often at most: each is a system call.
const HEAR_EVERY: Duration = Duration::from_micros(10);
/// Doorbells and sockets that are heard at once.
const BELLS: usize = 64;
/// What tells the number of a watched link from a doorbell's.
const LINK: u64 = 1 << 63;
const NO_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// A timeout nearer than this is waited for awake: a sleep would come back too late.
const TOO_NEAR: Duration = Duration::from_micros(80);

/// What the engine's thread owns; commands get it.
pub struct Core {
    /// The network.
    pub network: Network,
    /// Its names, links and circuits.
    pub fabric: Fabric<HostInterface>,
    hosts: Vec<NodeId>,
    doorbells: Doorbells,
    /// Where the doorbells ring, and the commands' bell, whose number is 0.
    bells: Arc<OwnedFd>,
    /// Which this thread runs on, as the hosts were told last.
    processor: u32,
    /// Links whose sockets are heard there too, by number, and for what.
    watched: Vec<(LinkId, EventFlags)>,
    /// How the applications of all hosts get on, as all hosts were told last.
    pressure: Option<Pressure>,
    /// Hosts have come or gone since they were told who is behind.
    hosts_changed: bool,
    epoch: Instant,
    /// When doorbells and sockets were looked at last.
    heard: Time,
    stats: EngineStats,
    meter: crate::rounds::Rounds,
    /// Each has a slice of a round in turn.
    jobs: VecDeque<(&'static str, Job)>,
}

/// What the engine's thread has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EngineStats {
    /// Rounds over the network.
    pub rounds: u64,
    /// Sleeps.
    pub sleeps: u64,
    /// Time asleep.
    pub slept: Duration,
    /// Commands carried out between rounds.
    pub commands: u64,
    /// Processor time of the longest of them, slices of jobs included.
    pub longest_command: Duration,
    /// Processor time of the longest round, with the command or the slice before it.
    pub longest_round: Duration,
    /// Whose command or slice had most of it ([`EngineHandle::named`]); `network`: none had.
    pub longest_round_work: &'static str,
    /// The longest of the last one to two minutes.
    pub longest_round_lately: Duration,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("network", &self.network).finish_non_exhaustive()
    }
}

impl Core {
    /// The network's time.
    pub fn now(&self) -> Time {
        Time::ZERO + self.epoch.elapsed()
    }

    /// What this thread has done so far.
    pub fn stats(&self) -> EngineStats {
        let (longest_round, longest_round_lately) = (self.meter.longest(), self.meter.longest_lately());
        let longest_round_work = self.meter.longest_work();
        EngineStats { longest_round, longest_round_work, longest_round_lately, ..self.stats }
    }

    /// Measures rounds and commands from now on anew.
    pub fn clear_longest(&mut self) {
        self.stats.longest_command = Duration::ZERO;
        self.meter.clear();
    }

    /// Carries out a command, or a slice of a job, between two rounds.
    fn carry_out(&mut self, whose: &'static str, work: impl FnOnce(&mut Core)) {
        let begun = processor_time();
        work(self);
        self.find_hosts();
        self.stats.commands += 1;
        let took = processor_time().saturating_sub(begun);
        self.stats.longest_command = self.stats.longest_command.max(took);
        self.meter.note(whose, took);
    }

    /// The host of a name.
    pub fn host(&mut self, name: &str) -> Option<(NodeId, &mut HostInterface)> {
        let id = self.fabric.node(name).or_else(|| self.network.node_named(name))?;
        Some((id, self.network.node_mut(id)?))
    }

    /// The endpoint that a doorbell is of.
    pub fn add_doorbell(&mut self, host: NodeId, endpoint: EndpointId, doorbell: Doorbell) {
        self.doorbells.insert(host, endpoint, doorbell, Instant::now());
    }

    fn ring_doorbell(&mut self, host: NodeId, endpoint: EndpointId) -> bool {
        self.network.node_mut::<HostInterface>(host).is_some_and(|host| host.handle_doorbell(endpoint))
    }

    /// Ends an endpoint and forgets its doorbell: at once, or, where its application has gone, once what waits in its send
    /// ring has left ([`HostInterface::depart`]). True if it is still there.
    pub fn remove_endpoint(&mut self, host: NodeId, endpoint: EndpointId, at_once: bool) -> bool {
        self.keep_doorbells(|h, e| (h, e) != (host, endpoint));
        let Some(host) = self.network.node_mut::<HostInterface>(host) else { return false };
        if at_once {
            host.release_endpoint(endpoint);
        } else {
            host.depart(endpoint);
        }
        host.departs(endpoint)
    }

    fn keep_doorbells(&mut self, keeps: impl Fn(NodeId, EndpointId) -> bool) {
        self.doorbells.retain(&self.bells, keeps);
    }

    /// Looks again which nodes are hosts: after each command, which may have added or removed some.
    fn find_hosts(&mut self) {
        let mut hosts: Vec<NodeId> = self.network.nodes().map(|(id, _)| id).collect();
        hosts.retain(|id| self.network.peek_node::<HostInterface>(*id).is_some());
        // A node's number is not used again, so the same numbers are the same hosts.
        if hosts != self.hosts {
            let here: HashSet<NodeId> = hosts.iter().copied().collect();
            self.keep_doorbells(|host, _| here.contains(&host));
            self.hosts = hosts;
        }
        self.watched.clear();
        self.hosts_changed = true;
        self.pressure = None;
    }

    /// Some rounds, until one has nothing to do; then doorbells and sockets are heard, or a busy network would never hear
    /// them.
    fn rounds(&mut self) -> Rounds {
        let begun = self.now();
        let mut now = begun;
        for n in 0..ROUNDS {
            self.meter.begin(now);
            self.look_at_those_behind(now);
            let worked = self.network.run(now);
            self.share_pressure(now);
            self.stats.rounds += 1;
            if !worked {
                return Rounds { worked: n > 0, settled: true };
            }
            now = self.now();
            if now.since(begun) >= ROUNDS_LAST {
                break;
            }
        }
        Rounds { worked: true, settled: false }
    }

    /// Looks at doorbells, commands and sockets without waiting, unless that was done just now.
    fn look(&mut self) {
        if self.now().since(self.heard) >= HEAR_EVERY {
            self.wait(Some(Duration::ZERO));
            self.heard = self.now();
        }
    }

    /// Waits for doorbells, commands and sockets.
    fn wait(&mut self, timeout: Option<Duration>) {
        let spec = timeout.map(|d| Timespec { tv_sec: d.as_secs() as i64, tv_nsec: d.subsec_nanos().into() });
        let mut links = Vec::new();
        let ready: Vec<PollFlags> = {
            let mut fds = Vec::new();
            let mut number = 0;
            for (link, external) in self.network.externals() {
                if external.keeps_fd() {
                    number += 1;
                    if watch_link(&self.bells, &mut self.watched, number - 1, link, external) {
                        continue;
                    }
                }
                let mut flags = PollFlags::empty();
                flags.set(PollFlags::IN, external.wants_read());
                flags.set(PollFlags::OUT, external.wants_write());
                if let (Some(fd), false) = (external.as_fd(), flags.is_empty()) {
                    fds.push(PollFd::from_borrowed_fd(fd, flags));
                    links.push(link);
                }
            }
            if links.is_empty() {
                drop(fds);
                return self.hear(spec.as_ref());
            }
            fds.insert(0, PollFd::new(&self.bells, PollFlags::IN));
            // An error here is EINTR or lack of memory; either way the next round looks at everything.
            let _ = poll(&mut fds, spec.as_ref());
            fds.iter().map(PollFd::revents).collect()
        };
        self.meter.resume(self.epoch);
        if !ready[0].is_empty() {
            self.hear(Some(&NO_TIME));
        }
        let now = self.now();
        for (link, flags) in links.into_iter().zip(&ready[1..]) {
            if !flags.is_empty() {
                let broken = flags.intersects(PollFlags::HUP | PollFlags::ERR);
                let readable = broken || flags.contains(PollFlags::IN);
                self.network.handle_ready(link, readable, broken || flags.contains(PollFlags::OUT), now);
            }
        }
    }

    /// Waits for doorbells and watched sockets, and hands those that have rung to their hosts, and to the network.
    fn hear(&mut self, timeout: Option<&Timespec>) {
        let mut events = [epoll::Event { flags: EventFlags::empty(), data: epoll::EventData::new_u64(0) }; BELLS];
        // As above, an error is EINTR or lack of memory.
        let rung = epoll::wait(&self.bells, &mut events[..], timeout).unwrap_or(0);
        self.meter.resume(self.epoch);
        for event in events.into_iter().take(rung) {
            let (number, flags) = (event.data.u64(), event.flags);
            if number & LINK != 0 {
                let Some((link, _)) = self.watched.get((number & !LINK) as usize).copied() else { continue };
                let broken = flags.intersects(EventFlags::HUP | EventFlags::ERR);
                let readable = broken || flags.contains(EventFlags::IN);
                let writable = broken || flags.contains(EventFlags::OUT);
                let now = self.now();
                self.network.handle_ready(link, readable, writable, now);
            } else if let Some((node, endpoint)) = self.doorbells.find(number)
                && !self.ring_doorbell(node, endpoint)
            {
                self.doorbells.handle_idle(&self.bells, number, Instant::now());
            }
        }
    }

    /// Hears doorbells again that rang too often.
    fn unmute(&mut self) {
        while let Some((node, endpoint)) = self.doorbells.poll_unmuted(&self.bells, Instant::now()) {
            self.ring_doorbell(node, endpoint);
        }
    }

    /// Tells the hosts which processor this thread runs on.
    fn publish_processor(&mut self) {
        let processor = waiting::processor();
        if std::mem::replace(&mut self.processor, processor) != processor {
            for id in &self.hosts {
                if let Some(host) = self.network.peek_node::<HostInterface>(*id) {
                    host.set_processor(processor);
                }
            }
        }
    }

    /// Sleeps until something happens. False if it was not worth sleeping.
    fn sleep(&mut self) -> bool {
        let left = self.network.poll_timeout().map(|t| t.since(self.now()));
        let left = left.into_iter().chain(self.doorbells.timeout(Instant::now())).min();
        let near = left.is_some_and(|d| d < TOO_NEAR);
        if near || !self.is_quiet() || !self.prepare_sleep() {
            return false;
        }
        let begun = Instant::now();
        self.meter.pause(Time::ZERO + begun.duration_since(self.epoch));
        self.wait(left);
        self.stats.sleeps += 1;
        self.stats.slept += begun.elapsed();
        true
    }

    /// Applications that are waited for are asked to ring. False if one of them has made room meanwhile.
    fn prepare_sleep(&mut self) -> bool {
        let network = &mut self.network;
        let asked = self.hosts.iter().fold(false, |asked, id| {
            asked | network.peek_node::<HostInterface>(*id).is_some_and(HostInterface::prepare_sleep)
        });
        if !asked {
            return true;
        }
        // The requests must be visible before the rings are looked at: an application publishes its index, then looks for them.
        std::sync::atomic::fence(Ordering::SeqCst);
        let now = self.now();
        let worked = self.network.run(now);
        self.stats.rounds += 1;
        self.share_pressure(now);
        !worked && self.is_quiet()
    }

    fn is_quiet(&mut self) -> bool {
        let network = &mut self.network;
        self.hosts.iter().all(|id| network.peek_node::<HostInterface>(*id).is_none_or(HostInterface::is_quiet))
    }
}

/// An eventfd into an epoll: each write to it is an event, and nobody has to read it empty.
fn watch(bells: &OwnedFd, bell: &OwnedFd, number: u64) -> std::io::Result<()> {
    let flags = EventFlags::IN | EventFlags::ET;
    Ok(epoll::add(bells, bell, epoll::EventData::new_u64(number), flags)?)
}

/// Lets a link's socket be heard through the epoll under a number, for what its shell wants now. False if it cannot.
fn watch_link(
    bells: &OwnedFd,
    watched: &mut Vec<(LinkId, EventFlags)>,
    number: usize,
    link: LinkId,
    external: &dyn External,
) -> bool {
    let mut wanted = EventFlags::empty();
    wanted.set(EventFlags::IN, external.wants_read());
    wanted.set(EventFlags::OUT, external.wants_write());
    if watched.get(number) == Some(&(link, wanted)) {
        return true;
    }
    let Some(fd) = external.as_fd() else { return false };
    let data = epoll::EventData::new_u64(LINK | number as u64);
    let done = if wanted.is_empty() {
        // An error would be heard even where nothing is asked for.
        epoll::delete(bells, fd).or_else(|e| if e == Errno::NOENT { Ok(()) } else { Err(e) })
    } else {
        // It is there already, under whatever number, if the shell has been on a link before.
        epoll::add(bells, fd, data, wanted)
            .or_else(|e| if e == Errno::EXIST { epoll::modify(bells, fd, data, wanted) } else { Err(e) })
    };
    watched.resize(watched.len().max(number + 1), (link, EventFlags::empty()));
    watched[number] = (link, if done.is_ok() { wanted } else { EventFlags::empty() });
    done.is_ok()
}

/// What some rounds have done.
#[derive(Clone, Copy)]
struct Rounds {
    worked: bool,
    /// The last one found nothing to do.
    settled: bool,
}

enum Command {
    Once(&'static str, Box<dyn FnOnce(&mut Core) + Send>),
    Job(&'static str, Job),
}

/// Does a slice of its work; true if there is more.
type Job = Box<dyn FnMut(&mut Core) -> bool + Send>;

/// The engine is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the engine has stopped")]
pub struct Stopped;

#[derive(Debug)]
struct Shared {
    commands: Mutex<Option<Sender<Command>>>,
    wake: OwnedFd,
    bells: Arc<OwnedFd>,
    next_bell: AtomicU64,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The way to a running engine; clones lead to the same one.
#[derive(Debug, Clone)]
pub struct EngineHandle {
    shared: Arc<Shared>,
    user: &'static str,
}

/// Starts an engine over an empty or prepared network.
///
/// # Errors
/// No thread or no eventfd to be had.
pub fn start(network: Network) -> std::io::Result<EngineHandle> {
    let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let bells = Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC)?);
    watch(&bells, &wake, 0)?;
    let (commands, receiver) = channel::<Command>();
    let ours = bells.clone();
    let thread = std::thread::Builder::new().name("engine".into()).spawn(move || {
        let mut fabric = Fabric::new();
        fabric.set_round(crate::ROUND);
        let core = Core {
            network,
            fabric,
            hosts: Vec::new(),
            doorbells: Doorbells::default(),
            bells: ours,
            processor: 0,
            watched: Vec::new(),
            pressure: None,
            hosts_changed: true,
            epoch: Instant::now(),
            heard: Time::ZERO,
            stats: EngineStats::default(),
            meter: crate::rounds::Rounds::new(processor_time),
            jobs: VecDeque::new(),
        };
        crate::sys::essential("engine", || run(core, &receiver));
    })?;
    let shared = Shared {
        commands: Mutex::new(Some(commands)),
        wake,
        bells,
        next_bell: AtomicU64::new(1),
        thread: Mutex::new(Some(thread)),
    };
    Ok(EngineHandle { shared: Arc::new(shared), user: "command" })
}

fn run(mut core: Core, commands: &Receiver<Command>) {
    let mut idle = 0;
    core.meter.resume(core.epoch);
    loop {
        let commanded = match commands.try_recv() {
            Ok(Command::Once(whose, command)) => {
                core.carry_out(whose, command);
                true
            }
            Ok(Command::Job(whose, job)) => {
                core.jobs.push_back((whose, job));
                true
            }
            Err(std::sync::mpsc::TryRecvError::Empty) => false,
            Err(std::sync::mpsc::TryRecvError::Disconnected) => return,
        };
        if let Some((whose, mut job)) = core.jobs.pop_front() {
            core.carry_out(whose, |core| {
                if job(core) {
                    core.jobs.push_back((whose, job));
                }
            });
        }
        core.publish_processor();
        let Rounds { worked, settled } = core.rounds();
        // More commands may have come with the bell that was heard for this one.
        let at_work = commanded || !core.jobs.is_empty();
        if settled && !at_work && core.sleep() {
            idle = 0;
        } else if worked || at_work {
            core.look();
            idle = 0;
        } else {
            idle += 1;
            if idle % LOOKS == 0 {
                core.look();
            }
            // An application that is to take or to send something may want this processor.
            std::thread::yield_now();
        }
        core.unmute();
    }
}

impl EngineHandle {
    /// The same way, for a part of the program with this name: [`EngineStats::longest_round_work`] says it.
    #[must_use]
    pub fn named(&self, user: &'static str) -> Self {
        EngineHandle { shared: self.shared.clone(), user }
    }

    /// Runs `f` on the engine's thread between two rounds and gives its result.
    ///
    /// # Errors
    /// The engine has stopped.
    pub fn with<R: Send + 'static>(&self, f: impl FnOnce(&mut Core) -> R + Send + 'static) -> Result<R, Stopped> {
        let (answer, result) = sync_channel(1);
        self.give(Command::Once(
            self.user,
            Box::new(move |core| {
                let _ = answer.send(f(core));
            }),
        ))?;
        result.recv().map_err(|_| Stopped)
    }

    /// Runs `slice` on the engine's thread once in each round until it gives a result. What it holds at its end is dropped by
    /// that thread: whatever takes time to drop belongs into the result.
    ///
    /// # Errors
    /// The engine has stopped.
    pub fn in_slices<R: Send + 'static>(
        &self,
        mut slice: impl FnMut(&mut Core) -> Option<R> + Send + 'static,
    ) -> Result<R, Stopped> {
        let (answer, result) = sync_channel(1);
        self.give(Command::Job(
            self.user,
            Box::new(move |core| match slice(core) {
                Some(done) => {
                    let _ = answer.send(done);
                    false
                }
                None => true,
            }),
        ))?;
        result.recv().map_err(|_| Stopped)
    }

    fn give(&self, command: Command) -> Result<(), Stopped> {
        match &*self.shared.commands.lock().unwrap_or_else(std::sync::PoisonError::into_inner) {
            Some(commands) => commands.send(command).map_err(|_| Stopped)?,
            None => return Err(Stopped),
        }
        self.ring();
        Ok(())
    }

    /// A doorbell that this engine hears, and the copy of whoever rings it. Not for the engine's own thread.
    ///
    /// # Errors
    /// The system has no room for it.
    pub fn doorbell(&self) -> std::io::Result<(Doorbell, OwnedFd)> {
        Doorbell::new(&self.shared.bells, self.shared.next_bell.fetch_add(1, Ordering::Relaxed))
    }

    fn ring(&self) {
        let _ = rustix::io::write(self.shared.wake.as_fd(), &1u64.to_ne_bytes());
    }

    /// Stops the engine and waits for its thread; endpoints, links and memory go with it.
    pub fn stop(&self) {
        self.shared.commands.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        self.ring();
        if let Some(thread) = self.shared.thread.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take() {
            // A panic there has been reported by its own message.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
