//! The thread that runs a network on this machine's clock.
//!
//! It runs rounds while there is work or an endpoint's strategy wants it awake, then sleeps until a doorbell, a socket,
//! a command or the next timeout. Where it is to stay awake without work it gives its processor away between two looks
//! ([`endpoint::waiting`]). It wakes applications as futexes in their segments, and hears them by `doorbell.rs`: it
//! calls the system on nothing that one of them holds. Doorbells are heard through an epoll, and with them sockets that
//! stay the same: a sleep costs the same for one as for thousands. Commands are closures that it runs between two
//! rounds, one a round; what takes longer is a job, which has a slice of each round. Whoever gives one waits for its
//! result, and the data path takes no lock.

mod handoff;
mod pressure;
mod pressure_board;
mod shard_loop;
#[cfg(test)]
pub(crate) mod virtual_time;

use crate::channels::EndpointId;
use crate::doorbell::Doorbell;
use crate::interface::{HostInterface, OpenError};
use crate::lent::Lent;
pub use crate::rounds::processor_time;
use endpoint::ChannelId;
use handoff::{ShardHandoff, ShardLease};
use net::topology::Fabric;
use net::{Network, NodeId};
use pressure_board::PressureBoard;
use rustix::event::epoll::{self, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use rustix::thread::Pid;
use shard_loop::ShardLoop;
use std::any::Any;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::task::Wake;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wire::Time;

/// What the engine's thread owns; commands get it.
pub struct Core {
    /// The network.
    pub network: Network,
    /// Its names, links and circuits.
    pub fabric: Fabric<HostInterface>,
    /// What the thread of each shard has beside it, while it is here.
    loops: Vec<Option<Box<ShardLoop>>>,
    /// By which the threads of other shards hand these over; the first is the second shard's.
    handoffs: Vec<Arc<ShardHandoff>>,
    /// The hosts of all shards.
    hosts: Vec<NodeId>,
    /// Lenders that had ended when their borrowers' hosts were told last.
    ended_lenders: u64,
    epoch: Instant,
    /// Each has a slice of a round in turn.
    jobs: VecDeque<(&'static str, Job)>,
    /// The threads, the engine's first.
    threads: Vec<Pid>,
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

impl EngineStats {
    /// The sums of two, and the longest of either.
    fn merged(self, other: EngineStats) -> EngineStats {
        let longer = if other.longest_round > self.longest_round { &other } else { &self };
        EngineStats {
            rounds: self.rounds + other.rounds,
            sleeps: self.sleeps + other.sleeps,
            slept: self.slept + other.slept,
            commands: self.commands + other.commands,
            longest_command: self.longest_command.max(other.longest_command),
            longest_round: longer.longest_round,
            longest_round_work: longer.longest_round_work,
            longest_round_lately: self.longest_round_lately.max(other.longest_round_lately),
        }
    }
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

    /// What the threads have done so far: the sums, and the longest of each.
    pub fn stats(&self) -> EngineStats {
        self.shard_stats().into_iter().reduce(EngineStats::merged).unwrap_or_default()
    }

    /// What the thread of each shard has done so far.
    pub fn shard_stats(&self) -> Vec<EngineStats> {
        self.loops.iter().flatten().map(|shard_loop| shard_loop.stats()).collect()
    }

    /// Measures rounds and commands from now on anew.
    pub fn clear_longest(&mut self) {
        for shard_loop in self.loops.iter_mut().flatten() {
            shard_loop.stats.longest_command = Duration::ZERO;
            shard_loop.meter.clear();
        }
    }

    /// Most of a processor that each thread uses while it carries nothing but SDUs of which so many are turned away by
    /// applications whose rings are full that the rest needs no more: a share from 0.1 to 1, which is no limit. It is
    /// 0.5 until it is set.
    pub fn limit_cycles(&mut self, share: f64) {
        self.loops.iter_mut().flatten().for_each(|shard_loop| shard_loop.cycle_limit.set_limit(share));
    }

    /// That of each shard's thread.
    pub fn cycle_limits(&self) -> Vec<f64> {
        self.loops.iter().flatten().map(|shard_loop| shard_loop.cycle_limit.limit()).collect()
    }

    /// The threads that run the shards, in their order.
    pub fn threads(&self) -> &[Pid] {
        &self.threads
    }

    /// Carries out a command, or a slice of a job, between two rounds of each shard.
    fn carry_out(&mut self, whose: &'static str, work: impl FnOnce(&mut Core)) {
        self.gather();
        let begun = processor_time();
        work(self);
        self.find_hosts();
        self.forget_ended_loans();
        let took = processor_time().saturating_sub(begun);
        if let Some(shard_loop) = self.loops.first_mut().and_then(Option::as_mut) {
            shard_loop.stats.commands += 1;
            shard_loop.stats.longest_command = shard_loop.stats.longest_command.max(took);
            shard_loop.meter.note(whose, took);
        }
        self.scatter();
    }

    /// Fetches the shards of other threads, each after the round that it is in.
    fn gather(&mut self) {
        for (handoff, bell) in self.handoffs.iter().zip(&self.network.bells()[1..]) {
            handoff.ask();
            bell.rouse();
        }
        for (number, handoff) in (1..).zip(&self.handoffs) {
            let ShardLease { shard, shard_loop } = handoff.receive();
            self.network.take_back(shard);
            self.loops[number] = Some(shard_loop);
        }
    }

    /// Gives them back.
    fn scatter(&mut self) {
        for (number, handoff) in (1..).zip(&self.handoffs) {
            if let (Some(shard), Some(shard_loop)) = (self.network.lend(number), self.loops[number].take()) {
                handoff.give(ShardLease { shard, shard_loop });
            }
        }
    }

    /// The host of a name.
    pub fn host(&mut self, name: &str) -> Option<(NodeId, &mut HostInterface)> {
        let id = self.fabric.node(name).or_else(|| self.network.node_named(name))?;
        Some((id, self.network.node_mut(id)?))
    }

    /// The shard of a host.
    pub fn shard_of(&self, host: &str) -> Option<usize> {
        let id = self.fabric.node(host).or_else(|| self.network.node_named(host))?;
        self.network.shard_of(id)
    }

    /// Whether a doorbell is heard by the thread that a host is run by: it was made for the shard that the host is in.
    pub fn hears(&self, host: NodeId, doorbell: &Doorbell) -> bool {
        self.network.shard_of(host) == Some(doorbell.shard())
    }

    fn loop_of(&mut self, host: NodeId) -> Option<&mut ShardLoop> {
        self.loops.get_mut(self.network.shard_of(host)?)?.as_deref_mut()
    }

    /// The endpoint that a doorbell is of.
    pub fn add_doorbell(&mut self, host: NodeId, endpoint: EndpointId, doorbell: Doorbell) {
        if let Some(shard_loop) = self.loop_of(host) {
            shard_loop.doorbells.insert(host, endpoint, doorbell, Instant::now());
        }
    }

    /// Ends an endpoint and forgets its doorbell: at once, or, where its application has gone, once what waits in its
    /// send ring has left ([`HostInterface::depart`]). True if it is still there.
    pub fn remove_endpoint(&mut self, host: NodeId, endpoint: EndpointId, at_once: bool) -> bool {
        if let Some(shard_loop) = self.loop_of(host) {
            shard_loop.keep_doorbells(|h, e| (h, e) != (host, endpoint));
        }
        let Some(node) = self.network.node_mut::<HostInterface>(host) else { return false };
        if at_once {
            node.release_endpoint(endpoint);
        } else {
            node.depart(endpoint);
        }
        node.departs(endpoint)
    }

    /// Closes a channel. `None`: there is no such host.
    pub fn close(&mut self, host: NodeId, id: EndpointId, channel: ChannelId) -> Option<Result<(), OpenError>> {
        let node = self.network.node_mut::<HostInterface>(host)?;
        Some(node.close(id, channel))
    }

    /// Whatever has ended a lender, its endpoint, channel or circuit: a host where it is borrowed may rest, and is
    /// told.
    fn forget_ended_loans(&mut self) {
        let ended = Lent::ended();
        if std::mem::replace(&mut self.ended_lenders, ended) == ended {
            return;
        }
        for host in &self.hosts {
            if let Some(host) = self.network.node_mut::<HostInterface>(*host) {
                host.forget_ended_loans();
            }
        }
    }

    fn find_hosts(&mut self) {
        self.hosts.clear();
        for (number, shard_loop) in self.loops.iter_mut().enumerate() {
            if let (Some(shard_loop), Some(shard)) = (shard_loop, self.network.shard_mut(number)) {
                shard_loop.find_hosts(shard);
                self.hosts.extend(&shard_loop.hosts);
            }
        }
    }

    /// A turn of the engine's own shard.
    fn turn(&mut self, at_work: bool) {
        if let (Some(Some(shard_loop)), Some(shard)) = (self.loops.first_mut(), self.network.shard_mut(0)) {
            shard_loop.turn(shard, Some((&self.fabric, &self.hosts)), at_work);
        }
    }
}

/// An eventfd into an epoll: each write to it is an event, and nobody has to read it empty.
fn watch(bells: &OwnedFd, bell: &OwnedFd, number: u64) -> std::io::Result<()> {
    let flags = EventFlags::IN | EventFlags::ET;
    Ok(epoll::add(bells, bell, epoll::EventData::new_u64(number), flags)?)
}

enum Command {
    Once(&'static str, Box<dyn FnOnce(&mut Core) + Send>),
    Job(&'static str, Job),
}

/// Does a slice of its work; true if there is more.
type Job = Box<dyn FnMut(&mut Core) -> bool + Send>;

/// A command's result, in a place that whoever gave the command made. Without its type: a channel for each type of result would be
/// an eighth of what `control` compiles to.
type Answer = Box<dyn Any + Send>;
/// Does a slice of its work; its result at the end.
type Slices = Box<dyn FnMut(&mut Core) -> Option<Answer> + Send>;

fn result_of<R: 'static>(answer: Answer) -> Result<R, Stopped> {
    answer.downcast::<Option<R>>().ok().and_then(|place| *place).ok_or(Stopped)
}

/// The engine is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the engine has stopped")]
pub struct Stopped;

#[derive(Debug)]
struct Shared {
    commands: Mutex<Option<Sender<Command>>>,
    wake: Arc<Eventfd>,
    /// Of each shard's thread.
    bells: Vec<Arc<OwnedFd>>,
    next_bell: AtomicU64,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// The way to a running engine; clones lead to the same one.
#[derive(Debug, Clone)]
pub struct EngineHandle {
    shared: Arc<Shared>,
    user: &'static str,
}

/// Wakes a thread that listens to it.
#[derive(Debug)]
struct Eventfd(OwnedFd);

impl Eventfd {
    fn new() -> std::io::Result<Self> {
        Ok(Eventfd(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    fn ring(&self) {
        let _ = rustix::io::write(self.0.as_fd(), &1u64.to_ne_bytes());
    }
}

impl Wake for Eventfd {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}

/// An epoll for the doorbells of a shard's thread, which hears `wake` there too.
fn listen(wake: &Eventfd) -> std::io::Result<Arc<OwnedFd>> {
    let bells = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    watch(&bells, &wake.0, 0)?;
    Ok(Arc::new(bells))
}

/// Starts an engine over an empty or prepared network: a thread for each of its shards, of which the first carries out
/// commands.
///
/// # Errors
/// No thread or no eventfd to be had.
pub fn start(mut network: Network) -> std::io::Result<EngineHandle> {
    let epoch = Instant::now();
    let shards = network.shards();
    let wakes = (0..shards).map(|_| Eventfd::new().map(Arc::new)).collect::<std::io::Result<Vec<_>>>()?;
    let bells = wakes.iter().map(|wake| listen(wake)).collect::<std::io::Result<Vec<_>>>()?;
    for (bell, wake) in network.bells().iter().zip(&wakes) {
        bell.set_waker(wake.clone().into());
    }
    let board = (shards > 1).then(|| Arc::new(PressureBoard::new(network.bells().to_vec())));
    let (mut handoffs, mut threads, mut started) = (Vec::new(), Vec::new(), Vec::new());
    let (tell, told) = channel();
    for (number, bells) in bells.iter().enumerate().skip(1) {
        let handoff = Arc::new(ShardHandoff::default());
        let shard_loop = ShardLoop::new(bells.clone(), board.clone(), Some(handoff.wanted().clone()), epoch);
        if let Some(shard) = network.lend(number) {
            handoff.give(ShardLease { shard, shard_loop: Box::new(shard_loop) });
        }
        let (ours, tell) = (handoff.clone(), tell.clone());
        handoffs.push(handoff);
        let life = move || {
            let _ = tell.send((number, rustix::thread::gettid()));
            crate::panics::essential("engine", || handoff::work(&ours));
        };
        match std::thread::Builder::new().name(format!("engine {number}")).spawn(life) {
            Ok(thread) => threads.push(thread),
            Err(e) => {
                // Those that have begun give their shards back and end.
                handoffs.pop();
                end(&handoffs, &network);
                return Err(e);
            }
        }
    }
    for _ in &handoffs {
        started.extend(told.recv());
    }
    started.sort_unstable_by_key(|(number, _)| *number);
    let (commands, receiver) = channel::<Command>();
    let ours = bells[0].clone();
    let engine = move || {
        let mut fabric = Fabric::new();
        fabric.set_round(crate::ROUND);
        let mut loops: Vec<_> = (0..shards).map(|_| None).collect();
        loops[0] = Some(Box::new(ShardLoop::new(ours, board, None, epoch)));
        let threads = std::iter::once(rustix::thread::gettid()).chain(started.into_iter().map(|(_, thread)| thread));
        let core = Core {
            network,
            fabric,
            loops,
            handoffs,
            hosts: Vec::new(),
            ended_lenders: 0,
            epoch,
            jobs: VecDeque::new(),
            threads: threads.collect(),
        };
        crate::panics::essential("engine", || run(core, &receiver));
    };
    threads.insert(0, std::thread::Builder::new().name("engine".into()).spawn(engine)?);
    let shared = Shared {
        commands: Mutex::new(Some(commands)),
        wake: wakes[0].clone(),
        bells,
        next_bell: AtomicU64::new(1),
        threads: Mutex::new(threads),
    };
    Ok(EngineHandle { shared: Arc::new(shared), user: "command" })
}

/// Ends the threads of other shards; what they had is dropped here.
fn end(handoffs: &[Arc<ShardHandoff>], network: &Network) {
    for (handoff, bell) in handoffs.iter().zip(&network.bells()[1..]) {
        handoff.ask();
        bell.rouse();
        drop(handoff.receive());
        handoff.stop();
    }
}

fn run(mut core: Core, commands: &Receiver<Command>) {
    // The network may have come with hosts.
    core.gather();
    core.find_hosts();
    core.scatter();
    if let Some(shard_loop) = core.loops.first_mut().and_then(Option::as_mut) {
        shard_loop.meter.resume(shard_loop.now());
    }
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
            Err(std::sync::mpsc::TryRecvError::Disconnected) => return end(&core.handoffs, &core.network),
        };
        if let Some((whose, mut job)) = core.jobs.pop_front() {
            core.carry_out(whose, |core| {
                if job(core) {
                    core.jobs.push_back((whose, job));
                }
            });
        }
        // More commands may have come with the bell that was heard for this one.
        let at_work = commanded || !core.jobs.is_empty();
        core.turn(at_work);
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
        // The caller makes the place for the result: the engine's thread allocates nothing for it.
        let mut place = Box::new(None);
        let once = move |core: &mut Core| -> Answer {
            *place = Some(f(core));
            place
        };
        result_of(self.answer_once(Box::new(once))?)
    }

    fn answer_once(&self, f: Box<dyn FnOnce(&mut Core) -> Answer + Send>) -> Result<Answer, Stopped> {
        let (answer, result) = sync_channel(1);
        self.give(Command::Once(
            self.user,
            Box::new(move |core| {
                let _ = answer.send(f(core));
            }),
        ))?;
        result.recv().map_err(|_| Stopped)
    }

    /// Runs `slice` on the engine's thread once in each round until it gives a result. What it holds at its end is
    /// dropped by that thread: whatever takes time to drop belongs into the result.
    ///
    /// # Errors
    /// The engine has stopped.
    pub fn in_slices<R: Send + 'static>(
        &self,
        mut slice: impl FnMut(&mut Core) -> Option<R> + Send + 'static,
    ) -> Result<R, Stopped> {
        let mut place = Some(Box::new(None));
        let job = move |core: &mut Core| -> Option<Answer> {
            let done = slice(core)?;
            let mut place = place.take()?;
            *place = Some(done);
            Some(place)
        };
        result_of(self.answer_of_job(Box::new(job))?)
    }

    fn answer_of_job(&self, mut job: Slices) -> Result<Answer, Stopped> {
        let (answer, result) = sync_channel(1);
        self.give(Command::Job(
            self.user,
            Box::new(move |core| match job(core) {
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

    /// A doorbell that the thread of a host hears, and the copy of whoever rings it. Not for the engine's own threads.
    ///
    /// # Errors
    /// The system has no room for it, or the engine has stopped.
    pub fn doorbell(&self, host: &str) -> std::io::Result<(Doorbell, OwnedFd)> {
        let shard = match self.shared.bells.len() {
            1 => 0,
            _ => {
                let host = host.to_owned();
                // For a host that is not there the doorbell is not used.
                self.with(move |core| core.shard_of(&host)).map_err(std::io::Error::other)?.unwrap_or(0)
            }
        };
        Doorbell::new(&self.shared.bells[shard], shard, self.shared.next_bell.fetch_add(1, Ordering::Relaxed))
    }

    fn ring(&self) {
        self.shared.wake.ring();
    }

    /// Stops the engine and waits for its thread; endpoints, links and memory go with it.
    pub fn stop(&self) {
        self.shared.commands.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        self.ring();
        let threads =
            std::mem::take(&mut *self.shared.threads.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        for thread in threads {
            // A panic there has been reported by its own message.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
