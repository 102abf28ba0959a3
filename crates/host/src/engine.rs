//! The thread that runs a network on this machine's clock.
//!
//! It runs rounds while there is work or an endpoint's strategy wants it awake, then sleeps until a doorbell, a socket, a
//! command or the next timeout. Doorbells are heard through an epoll: a sleep costs the same for one as for thousands. Commands are closures that it runs between two rounds: whoever
//! gives one waits for its result, and no lock is held on the way of data.

use crate::interface::{EndpointId, HostInterface};
use net::topology::Fabric;
use net::{Network, NodeId};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};
use rustix::fd::{AsFd, OwnedFd};
use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wire::Time;

/// Rounds between two looks at doorbells, sockets and commands.
const ROUNDS: u32 = 32;
/// Doorbells that are heard at once.
const BELLS: usize = 64;
/// A timeout nearer than this is waited for awake: a sleep would come back too late.
const TOO_NEAR: Duration = Duration::from_micros(80);

/// What the engine's thread owns; commands get it.
pub struct Core {
    /// The network.
    pub network: Network,
    /// Its names, links and circuits.
    pub fabric: Fabric<HostInterface>,
    hosts: Vec<NodeId>,
    doorbells: HashMap<u64, (NodeId, EndpointId, OwnedFd)>,
    /// Where the doorbells ring, and the commands' bell, whose number is 0.
    bells: OwnedFd,
    next_bell: u64,
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

    /// Hears an endpoint's doorbell from now on.
    ///
    /// # Errors
    /// The system has no room for it.
    pub fn add_doorbell(&mut self, host: NodeId, endpoint: EndpointId, bell: OwnedFd) -> std::io::Result<()> {
        let number = self.next_bell;
        watch(&self.bells, &bell, number)?;
        self.next_bell += 1;
        self.doorbells.insert(number, (host, endpoint, bell));
        Ok(())
    }

    /// Ends an endpoint and forgets its doorbell.
    pub fn remove_endpoint(&mut self, host: NodeId, endpoint: EndpointId) {
        self.keep_doorbells(|h, e| (h, e) != (host, endpoint));
        if let Some(host) = self.network.node_mut::<HostInterface>(host) {
            host.detach(endpoint);
        }
    }

    fn keep_doorbells(&mut self, keeps: impl Fn(NodeId, EndpointId) -> bool) {
        let bells = &self.bells;
        self.doorbells.retain(|_, (host, endpoint, bell)| {
            let stays = keeps(*host, *endpoint);
            if !stays {
                // The client has a copy of it: closing ours alone would leave it in the epoll.
                let _ = epoll::delete(bells, &*bell);
            }
            stays
        });
    }

    /// Looks again which nodes are hosts: after each command, which may have added or removed some.
    fn find_hosts(&mut self) {
        let nodes: Vec<NodeId> = self.network.nodes().map(|(id, _)| id).collect();
        self.hosts = nodes.into_iter().filter(|id| self.network.node_mut::<HostInterface>(*id).is_some()).collect();
        let hosts = std::mem::take(&mut self.hosts);
        self.keep_doorbells(|host, _| hosts.contains(&host));
        self.hosts = hosts;
    }

    /// Some rounds; then doorbells and sockets are heard, or a busy network would never hear them. True if there was work.
    fn rounds(&mut self) -> bool {
        let mut any = false;
        for _ in 0..ROUNDS {
            let now = self.now();
            if !self.network.run(now) && !any {
                break;
            }
            any = true;
        }
        any
    }

    /// Waits for doorbells, commands and sockets.
    fn wait(&mut self, timeout: Option<Duration>) {
        let spec = timeout.map(|d| Timespec { tv_sec: d.as_secs() as i64, tv_nsec: d.subsec_nanos().into() });
        let mut links = Vec::new();
        let ready: Vec<PollFlags> = {
            let mut fds = vec![PollFd::new(&self.bells, PollFlags::IN)];
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
        if !ready[0].is_empty() {
            self.hear();
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

    /// Hands the doorbells that have rung to their hosts.
    fn hear(&mut self) {
        let mut events =
            [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; BELLS];
        let rung = epoll::wait(&self.bells, &mut events[..], Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap_or(0);
        for event in &events[..rung] {
            let data = event.data;
            if let Some((node, endpoint, _)) = self.doorbells.get(&data.u64())
                && let Some(host) = self.network.node_mut::<HostInterface>(*node)
            {
                host.handle_doorbell(*endpoint);
            }
        }
    }

    /// Sleeps until something happens. False if it was not worth sleeping.
    fn sleep(&mut self) -> bool {
        let left = self.network.poll_timeout().map(|t| t.since(self.now()));
        let near = left.is_some_and(|d| d < TOO_NEAR);
        if near || !self.is_quiet() {
            return false;
        }
        self.wait(left);
        true
    }

    fn is_quiet(&mut self) -> bool {
        let network = &mut self.network;
        self.hosts.iter().all(|id| network.node_mut::<HostInterface>(*id).is_none_or(HostInterface::is_quiet))
    }
}

/// An eventfd into an epoll: each write to it is an event, and nobody has to read it empty.
fn watch(bells: &OwnedFd, bell: &OwnedFd, number: u64) -> std::io::Result<()> {
    let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
    Ok(epoll::add(bells, bell, epoll::EventData::new_u64(number), flags)?)
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
    let bells = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    watch(&bells, &wake, 0)?;
    let (commands, receiver) = channel::<Command>();
    let thread = std::thread::Builder::new().name("engine".into()).spawn(move || {
        let core = Core {
            network,
            fabric: Fabric::new(),
            hosts: Vec::new(),
            doorbells: HashMap::new(),
            bells,
            next_bell: 1,
            epoch: Instant::now(),
        };
        run(core, &receiver);
    })?;
    Ok(EngineHandle(Arc::new(Shared { commands: Mutex::new(Some(commands)), wake, thread: Mutex::new(Some(thread)) })))
}

fn run(mut core: Core, commands: &Receiver<Command>) {
    let mut idle = 0;
    loop {
        loop {
            match commands.try_recv() {
                Ok(command) => {
                    command(&mut core);
                    core.find_hosts();
                }
                Err(std::sync::mpsc::TryRecvError::Empty) => break,
                Err(std::sync::mpsc::TryRecvError::Disconnected) => return,
            }
        }
        if core.rounds() {
            core.wait(Some(Duration::ZERO));
            idle = 0;
        } else if !core.sleep() {
            idle += 1;
            if idle % ROUNDS == 0 {
                core.wait(Some(Duration::ZERO));
            }
            std::hint::spin_loop();
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
