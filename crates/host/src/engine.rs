//! The thread that runs a network on this machine's clock.
//!
//! It runs rounds while there is work, then looks a little longer, then asks all endpoints to ring and sleeps until a
//! doorbell, a socket, a command or the next timeout. Commands are closures that it runs between two rounds: whoever
//! gives one waits for its result, and no lock is held on the way of data.

use crate::interface::{EndpointId, HostInterface};
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

/// A link's end outside: a socket. Runs on the engine's thread and must not block.
pub trait External: Send {
    /// Moves what can be moved between the socket and the network. True if it did anything.
    fn run(&mut self, network: &mut Network, now: Time) -> bool;

    /// Names the descriptors to wait for, and what for.
    fn poll_fds<'a>(&'a self, add: &mut dyn FnMut(BorrowedFd<'a>, PollFlags));

    /// When to run even if no descriptor is ready.
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
}

/// A number for an external, to remove it by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExternalId(u64);

/// What the engine's thread owns; commands get it.
pub struct Core {
    /// The network.
    pub network: Network,
    hosts: Vec<NodeId>,
    doorbells: Vec<(NodeId, EndpointId, OwnedFd)>,
    externals: Vec<(ExternalId, Box<dyn External>)>,
    next_external: u64,
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

    /// Adds a host to the network.
    pub fn add_host(&mut self, name: &str, host: HostInterface) -> NodeId {
        let id = self.network.add_node(name, Box::new(host));
        self.hosts.push(id);
        id
    }

    /// Removes a host; its endpoints end.
    pub fn remove_host(&mut self, id: NodeId) {
        self.hosts.retain(|h| *h != id);
        self.doorbells.retain(|(h, _, _)| *h != id);
        self.network.remove_node(id);
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

    /// Adds the outside of a link.
    pub fn add_external(&mut self, external: Box<dyn External>) -> ExternalId {
        let id = ExternalId(self.next_external);
        self.next_external += 1;
        self.externals.push((id, external));
        id
    }

    /// Removes the outside of a link.
    pub fn remove_external(&mut self, id: ExternalId) -> Option<Box<dyn External>> {
        let at = self.externals.iter().position(|(i, _)| *i == id)?;
        Some(self.externals.remove(at).1)
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
        for (_, external) in &mut self.externals {
            let now = Time::ZERO + self.epoch.elapsed();
            any |= external.run(&mut self.network, now);
        }
        any
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
        let due = self.externals.iter().filter_map(|(_, e)| e.poll_timeout()).chain(self.network.poll_timeout()).min();
        let left = due.map(|t| t.since(self.now()));
        if left.is_some_and(|d| d < TOO_NEAR) || !self.arm() {
            self.disarm();
            return false;
        }
        let spec = left.map(|d| Timespec { tv_sec: d.as_secs() as i64, tv_nsec: d.subsec_nanos().into() });
        let mut fds = vec![PollFd::new(wake, PollFlags::IN)];
        fds.extend(self.doorbells.iter().map(|(_, _, bell)| PollFd::new(bell, PollFlags::IN)));
        for (_, external) in &self.externals {
            external.poll_fds(&mut |fd, flags| fds.push(PollFd::from_borrowed_fd(fd, flags)));
        }
        // An error here is EINTR or lack of memory; either way the next round looks at everything.
        let _ = poll(&mut fds, spec.as_ref());
        let rung: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        let mut count = [0; 8];
        if rung.first() == Some(&true) {
            let _ = rustix::io::read(wake, &mut count);
        }
        for ((_, _, bell), rung) in self.doorbells.iter().zip(&rung[1..]) {
            if *rung {
                let _ = rustix::io::read(bell, &mut count);
            }
        }
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
        let core = Core {
            network,
            hosts: Vec::new(),
            doorbells: Vec::new(),
            externals: Vec::new(),
            next_external: 0,
            epoch: Instant::now(),
        };
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
