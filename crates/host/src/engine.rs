//! The thread that runs a network on this machine's clock.
//!
//! It runs rounds while there is work, then looks a little longer, then asks all endpoints to ring and sleeps until a
//! doorbell, a socket, a command or the next timeout. Commands are closures that it runs between two rounds: whoever
//! gives one waits for its result, and no lock is held on the way of data.

use crate::interface::{EndpointId, HostInterface};
use net::topology::Fabric;
use net::{Network, NodeId};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wire::Time;

/// Rounds without work before the thread sleeps.
const IDLE_ROUNDS: u32 = 300;
/// Rounds between two looks at sockets and commands.
const ROUNDS: u32 = 32;
/// A timeout nearer than this is waited for awake: a sleep would come back too late.
const TOO_NEAR: Duration = Duration::from_micros(80);

/// What the engine's thread owns; commands get it.
pub struct Core {
    /// The network.
    pub network: Network,
    /// Its names, links and circuits.
    pub fabric: Fabric<HostInterface>,
    hosts: Vec<NodeId>,
    doorbells: Vec<(NodeId, EndpointId, OwnedFd)>,
    epoch: Instant,
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

    /// The host of a name.
    pub fn host(&mut self, name: &str) -> Option<(NodeId, &mut HostInterface)> {
        let id = self.network.node_named(name)?;
        Some((id, self.network.node_mut(id)?))
    }

    /// Watches an endpoint's doorbell.
    pub fn add_doorbell(&mut self, host: NodeId, endpoint: EndpointId, bell: OwnedFd) {
        self.doorbells.push((host, endpoint, bell));
    }

    /// Ends an endpoint and forgets its doorbell.
    pub fn remove_endpoint(&mut self, host: NodeId, endpoint: EndpointId) {
        self.doorbells.retain(|(h, e, _)| (*h, *e) != (host, endpoint));
        if let Some(host) = self.network.node_mut::<HostInterface>(host) {
            host.detach(endpoint);
        }
    }

    /// Looks again which nodes are hosts: after each command, which may have added or removed some.
    fn find_hosts(&mut self) {
        let nodes: Vec<NodeId> = self.network.nodes().map(|(id, _)| id).collect();
        self.hosts = nodes.into_iter().filter(|id| self.network.node_mut::<HostInterface>(*id).is_some()).collect();
        self.doorbells.retain(|(host, ..)| self.hosts.contains(host));
    }

    fn rounds(&mut self) -> bool {
        let mut any = false;
        for _ in 0..ROUNDS {
            let now = self.now();
            if !self.network.run(now) {
                break;
            }
            any = true;
        }
        // Sockets are looked at between sleeps too, or a busy network would never hear them.
        if any && self.network.externals().next().is_some() {
            self.wait(&[], Some(Duration::ZERO));
        }
        any
    }

    /// Waits for sockets and for `others`; gives which of `others` are ready.
    fn wait(&mut self, others: &[BorrowedFd<'_>], timeout: Option<Duration>) -> Vec<bool> {
        let spec = timeout.map(|d| Timespec { tv_sec: d.as_secs() as i64, tv_nsec: d.subsec_nanos().into() });
        let mut links = Vec::new();
        let ready: Vec<PollFlags> = {
            let mut fds: Vec<_> = others.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
            for (link, external) in self.network.externals() {
                let mut flags = PollFlags::empty();
                flags.set(PollFlags::IN, external.wants_read());
                flags.set(PollFlags::OUT, external.wants_write());
                if let (Some(fd), false) = (external.as_fd(), flags.is_empty()) {
                    fds.push(PollFd::from_borrowed_fd(fd, flags));
                    links.push(link);
                }
            }
            // An error here is EINTR or lack of memory; either way the next round looks at everything.
            let _ = poll(&mut fds, spec.as_ref());
            fds.iter().map(PollFd::revents).collect()
        };
        let (others, sockets) = ready.split_at(others.len());
        let now = self.now();
        for (link, flags) in links.into_iter().zip(sockets) {
            if !flags.is_empty() {
                let broken = flags.intersects(PollFlags::HUP | PollFlags::ERR);
                let readable = broken || flags.contains(PollFlags::IN);
                self.network.handle_ready(link, readable, broken || flags.contains(PollFlags::OUT), now);
            }
        }
        others.iter().map(|flags| !flags.is_empty()).collect()
    }

    fn arm(&mut self) -> bool {
        let mut quiet = true;
        for id in &self.hosts {
            if let Some(host) = self.network.node_mut::<HostInterface>(*id) {
                quiet &= host.arm();
            }
        }
        quiet
    }

    fn disarm(&mut self) {
        for id in &self.hosts {
            if let Some(host) = self.network.node_mut::<HostInterface>(*id) {
                host.disarm();
            }
        }
    }

    /// Sleeps until something happens. False if it was not worth sleeping.
    fn sleep(&mut self, wake: &OwnedFd) -> bool {
        let left = self.network.poll_timeout().map(|t| t.since(self.now()));
        if left.is_some_and(|d| d < TOO_NEAR) || !self.arm() {
            self.disarm();
            return false;
        }
        let bells = std::mem::take(&mut self.doorbells);
        let fds: Vec<_> = std::iter::once(wake.as_fd()).chain(bells.iter().map(|(_, _, b)| b.as_fd())).collect();
        let rung = self.wait(&fds, left);
        for (fd, _) in fds.iter().zip(rung).filter(|(_, rung)| *rung) {
            let _ = rustix::io::read(fd, &mut [0; 8]);
        }
        drop(fds);
        self.doorbells = bells;
        self.disarm();
        true
    }
}

type Command = Box<dyn FnOnce(&mut Core) + Send>;

/// The engine is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the engine has stopped")]
pub struct Stopped;

#[derive(Debug)]
struct Shared {
    commands: Mutex<Option<Sender<Command>>>,
    wake: OwnedFd,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The way to a running engine; clones lead to the same one.
#[derive(Debug, Clone)]
pub struct EngineHandle(Arc<Shared>);

/// Starts an engine over an empty or prepared network.
///
/// # Errors
/// No thread or no eventfd to be had.
pub fn start(network: Network) -> std::io::Result<EngineHandle> {
    let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let thread_wake = wake.try_clone()?;
    let (commands, receiver) = channel::<Command>();
    let thread = std::thread::Builder::new().name("engine".into()).spawn(move || {
        let core =
            Core { network, fabric: Fabric::new(), hosts: Vec::new(), doorbells: Vec::new(), epoch: Instant::now() };
        run(core, &receiver, &thread_wake);
    })?;
    Ok(EngineHandle(Arc::new(Shared { commands: Mutex::new(Some(commands)), wake, thread: Mutex::new(Some(thread)) })))
}

fn run(mut core: Core, commands: &Receiver<Command>, wake: &OwnedFd) {
    let mut idle = 0;
    loop {
        loop {
            match commands.try_recv() {
                Ok(command) => {
                    command(&mut core);
                    core.find_hosts();
                    idle = 0;
                }
                Err(std::sync::mpsc::TryRecvError::Empty) => break,
                Err(std::sync::mpsc::TryRecvError::Disconnected) => return,
            }
        }
        if core.rounds() {
            idle = 0;
        } else if idle < IDLE_ROUNDS {
            idle += 1;
            std::hint::spin_loop();
        } else if core.sleep(wake) {
            idle = IDLE_ROUNDS / 2;
        }
    }
}

impl EngineHandle {
    /// Runs `f` on the engine's thread between two rounds and gives its result.
    ///
    /// # Errors
    /// The engine has stopped.
    pub fn with<R: Send + 'static>(&self, f: impl FnOnce(&mut Core) -> R + Send + 'static) -> Result<R, Stopped> {
        let (answer, result) = sync_channel(1);
        let command: Command = Box::new(move |core| {
            let _ = answer.send(f(core));
        });
        match &*self.0.commands.lock().unwrap_or_else(std::sync::PoisonError::into_inner) {
            Some(commands) => commands.send(command).map_err(|_| Stopped)?,
            None => return Err(Stopped),
        }
        self.ring();
        result.recv().map_err(|_| Stopped)
    }

    fn ring(&self) {
        let _ = rustix::io::write(self.0.wake.as_fd(), &1u64.to_ne_bytes());
    }

    /// Stops the engine and waits for its thread; endpoints, links and memory go with it.
    pub fn stop(&self) {
        self.0.commands.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        self.ring();
        if let Some(thread) = self.0.thread.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take() {
            // A panic there has been reported by its own message.
            let _ = thread.join();
        }
    }
}
