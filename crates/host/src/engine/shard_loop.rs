//! What the thread of a shard has, beside the shard: its hosts, their doorbells, its sockets, and when it may sleep.

use super::pressure_board::{PressureBoard, Seen};
use crate::channels::EndpointId;
use crate::cycle_limit::{CycleLimit, ReceiveOutcome};
use crate::doorbell::Doorbells;
use crate::endpoints::Pressure;
use crate::events::machine::LINGER;
use crate::interface::HostInterface;
use endpoint::times::timespec;
use endpoint::waiting;
use net::switch::SwitchElement;
use net::topology::Fabric;
use net::{External, LinkId, NodeId, Shard};
use rustix::event::epoll::{self, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::collections::HashSet;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wire::Time;

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
/// A timeout further than this is waited for by the epoll, whose timeouts are whole milliseconds: a little less than
/// it, then the rest.
const FAR: Duration = Duration::from_millis(10);
/// Rounds that found nothing between two looks at doorbells, sockets and commands; each gives the processor away.
const LOOKS: u32 = 4;

/// Names, links and circuits, where the thread has them.
pub(super) type Names<'a> = Option<(&'a Fabric<HostInterface>, &'a [NodeId])>;

/// A thread's share of an engine.
pub(super) struct ShardLoop {
    pub(super) hosts: Vec<NodeId>,
    pub(super) doorbells: Doorbells,
    /// Where the doorbells ring, and the bell of whoever calls the thread, whose number is 0.
    pub(super) bells: Arc<OwnedFd>,
    /// Which this thread runs on, as the hosts were told last.
    processor: u32,
    /// Links whose sockets are heard there too, by number, and for what.
    watched: Vec<(LinkId, EventFlags)>,
    /// How the applications of all hosts get on, as all hosts were told last.
    pub(super) pressure: Option<Pressure>,
    /// Hosts have come or gone since they were told who is behind.
    pub(super) hosts_changed: bool,
    /// Where shards tell each other how applications get on, if there are several.
    pub(super) board: Option<Arc<PressureBoard>>,
    pub(super) seen: Seen,
    /// Whether the engine asks for the shard ([`super::handoff`]); its own thread is not asked.
    wanted: Option<Arc<AtomicBool>>,
    pub(super) epoch: Instant,
    /// When doorbells and sockets were heard last.
    heard: Time,
    /// What the clock said last, if nothing that takes time has been done since.
    at: Option<Time>,
    idle: u32,
    pub(super) cycle_limit: CycleLimit,
    /// What shells had done when the effort was looked at last.
    outside_work: u64,
    /// There are hosts and switches only: whoever gets something is seen at a host.
    hosts_only: bool,
    /// When a round did something last.
    worked: Time,
    pub(super) stats: super::EngineStats,
    pub(super) meter: crate::rounds::Rounds,
}

impl ShardLoop {
    pub(super) fn new(
        bells: Arc<OwnedFd>,
        board: Option<Arc<PressureBoard>>,
        wanted: Option<Arc<AtomicBool>>,
        epoch: Instant,
    ) -> Self {
        ShardLoop {
            hosts: Vec::new(),
            doorbells: Doorbells::default(),
            bells,
            processor: 0,
            watched: Vec::new(),
            pressure: None,
            hosts_changed: true,
            board,
            seen: Seen::default(),
            wanted,
            epoch,
            heard: Time::ZERO,
            at: None,
            idle: 0,
            cycle_limit: CycleLimit::default(),
            outside_work: 0,
            hosts_only: false,
            worked: Time::ZERO,
            stats: super::EngineStats::default(),
            meter: crate::rounds::Rounds::new(super::processor_time),
        }
    }

    /// Whether the engine asks for the shard: a command waits.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted.as_ref().is_some_and(|wanted| wanted.load(Ordering::Relaxed))
    }

    pub(super) fn now(&self) -> Time {
        Time::ZERO + self.epoch.elapsed()
    }

    /// The same, if need be as the clock was read last: each reading takes as long as a look at an idle host.
    fn lately(&mut self) -> Time {
        self.at.take().unwrap_or_else(|| self.now())
    }

    /// What this thread has done so far.
    pub(super) fn stats(&self) -> super::EngineStats {
        let (longest_round, longest_round_lately) = (self.meter.longest(), self.meter.longest_lately());
        let longest_round_work = self.meter.longest_work();
        super::EngineStats { longest_round, longest_round_work, longest_round_lately, ..self.stats }
    }

    /// One turn: rounds while there is work, then a sleep, or a look at what may have come. `at_work`: the thread has
    /// something to do besides.
    pub(super) fn turn(&mut self, shard: &mut Shard, names: Names<'_>, at_work: bool) {
        self.publish_processor(shard);
        if !at_work && self.give_way(shard) {
            self.idle = 0;
            return self.unmute(shard);
        }
        let Rounds { worked, settled } = self.rounds(shard, names);
        if settled && !at_work && self.sleep(shard, names) {
            self.idle = 0;
        } else if worked || at_work {
            self.look(shard);
            self.idle = 0;
        } else {
            self.idle += 1;
            if self.idle.is_multiple_of(LOOKS) {
                self.look(shard);
            }
            // An application that is to take or to send something may want this processor.
            std::thread::yield_now();
            self.at = None;
        }
        self.unmute(shard);
    }

    fn ring_doorbell(&self, shard: &mut Shard, host: NodeId, endpoint: EndpointId) -> bool {
        shard.node_mut::<HostInterface>(host).is_some_and(|host| host.handle_doorbell(endpoint))
    }

    pub(super) fn keep_doorbells(&mut self, keeps: impl Fn(NodeId, EndpointId) -> bool) {
        self.doorbells.retain(&self.bells, keeps);
    }

    /// Looks again which nodes are hosts: after each command, which may have added or removed some.
    pub(super) fn find_hosts(&mut self, shard: &mut Shard) {
        let nodes: Vec<NodeId> = shard.nodes().map(|(id, _)| id).collect();
        let (hosts, others): (Vec<_>, Vec<_>) =
            nodes.into_iter().partition(|id| shard.peek_node::<HostInterface>(*id).is_some());
        self.hosts_only = others.into_iter().all(|id| shard.peek_node::<SwitchElement>(id).is_some());
        // A node's number is not used again, so the same numbers are the same hosts.
        if hosts != self.hosts {
            let here: HashSet<NodeId> = hosts.iter().copied().collect();
            self.keep_doorbells(|host, _| here.contains(&host));
            self.hosts = hosts;
        }
        self.watched.clear();
        self.hosts_changed = true;
        self.pressure = None;
        self.at = None;
    }

    /// Some rounds, until one has nothing to do; then doorbells and sockets are heard, or a busy network would never
    /// hear them.
    fn rounds(&mut self, shard: &mut Shard, names: Names<'_>) -> Rounds {
        let begun = self.lately();
        let mut now = begun;
        for n in 0..ROUNDS {
            self.meter.begin(now);
            self.look_at_backlogged(shard, names, now);
            let worked = shard.run(now);
            self.share_pressure(shard, names, now);
            self.stats.rounds += 1;
            if !worked {
                self.at = Some(now);
                return Rounds { worked: n > 0, settled: true };
            }
            now = self.now();
            self.worked = now;
            if now.since(begun) >= ROUNDS_LAST || self.is_wanted() {
                break;
            }
        }
        Rounds { worked: true, settled: false }
    }

    /// Looks at doorbells, commands and sockets without waiting, unless that was done just now.
    fn look(&mut self, shard: &mut Shard) {
        if self.now().since(self.heard) >= HEAR_EVERY {
            self.wait(shard, Some(Duration::ZERO));
        }
    }

    /// Waits for doorbells, commands and sockets.
    fn wait(&mut self, shard: &mut Shard, timeout: Option<Duration>) {
        let far = timeout.is_none_or(|d| d.is_zero() || d > FAR);
        let mut links = Vec::new();
        let ready: Vec<PollFlags> = {
            let mut fds = Vec::new();
            let mut number = 0;
            for (link, external) in shard.externals() {
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
            if links.is_empty() && far {
                drop(fds);
                let whole = timeout.map(|d| timespec(Duration::from_millis(d.as_millis() as u64)));
                return self.hear(shard, whole.as_ref());
            }
            fds.insert(0, PollFd::new(&self.bells, PollFlags::IN));
            // An error here is EINTR or lack of memory; either way the next round looks at everything.
            let _ = poll(&mut fds, timeout.map(timespec).as_ref());
            fds.iter().map(PollFd::revents).collect()
        };
        self.handle_heard();
        if !ready[0].is_empty() {
            self.hear(shard, Some(&NO_TIME));
        }
        let now = self.now();
        for (link, flags) in links.into_iter().zip(&ready[1..]) {
            if !flags.is_empty() {
                let broken = flags.intersects(PollFlags::HUP | PollFlags::ERR);
                let readable = broken || flags.contains(PollFlags::IN);
                shard.handle_ready(link, readable, broken || flags.contains(PollFlags::OUT), now);
            }
        }
        self.at = None;
    }

    /// The system has said what has rung.
    fn handle_heard(&mut self) {
        self.heard = self.now();
        self.meter.resume(self.heard);
    }

    /// Waits for doorbells and watched sockets, and hands those that have rung to their hosts, and to the shard.
    fn hear(&mut self, shard: &mut Shard, timeout: Option<&Timespec>) {
        let mut events = [const { MaybeUninit::uninit() }; BELLS];
        // As above, an error is EINTR or lack of memory.
        let heard: &mut [epoll::Event] =
            epoll::wait(&self.bells, &mut events[..], timeout).map_or(&mut [], |(heard, _)| heard);
        self.handle_heard();
        self.at = Some(self.heard);
        for event in heard {
            let (number, flags) = (event.data.u64(), event.flags);
            if number & LINK != 0 {
                let Some((link, _)) = self.watched.get((number & !LINK) as usize).copied() else { continue };
                let broken = flags.intersects(EventFlags::HUP | EventFlags::ERR);
                let readable = broken || flags.contains(EventFlags::IN);
                let writable = broken || flags.contains(EventFlags::OUT);
                let now = self.now();
                shard.handle_ready(link, readable, writable, now);
                self.at = None;
            } else if let Some((node, endpoint)) = self.doorbells.find(number)
                && !self.ring_doorbell(shard, node, endpoint)
            {
                self.doorbells.handle_idle(&self.bells, number, Instant::now());
            }
        }
    }

    /// Hears doorbells again that rang too often.
    fn unmute(&mut self, shard: &mut Shard) {
        while self.doorbells.has_muted()
            && let Some((node, endpoint)) = self.doorbells.poll_unmuted(&self.bells, Instant::now())
        {
            self.ring_doorbell(shard, node, endpoint);
        }
    }

    /// Tells the hosts which processor this thread runs on.
    fn publish_processor(&mut self, shard: &mut Shard) {
        let processor = waiting::processor();
        if std::mem::replace(&mut self.processor, processor) != processor {
            for id in &self.hosts {
                if let Some(host) = shard.peek_node::<HostInterface>(*id) {
                    host.endpoints.set_processor(processor);
                }
            }
        }
    }

    /// Sleeps until something happens. False if it was not worth sleeping.
    fn sleep(&mut self, shard: &mut Shard, names: Names<'_>) -> bool {
        let mut now = self.lately();
        // What crosses to another shard may be answered soon.
        let lingers = shard.crosses() && now.since(self.worked) < LINGER;
        if lingers || !self.is_quiet(shard) {
            return false;
        }
        let left = self.until_due(shard, now);
        if left.is_some_and(|d| d < TOO_NEAR) || !self.prepare_sleep(shard, names, &mut now) {
            return false;
        }
        self.fall_asleep(shard, left, now)
    }

    /// How long nothing is due that nobody calls for.
    fn until_due(&self, shard: &Shard, now: Time) -> Option<Duration> {
        let left = shard.poll_timeout().map(|time| time.since(now));
        left.into_iter().chain(self.doorbells.timeout()).min()
    }

    /// Waits for whoever calls. False if somebody has called before.
    fn fall_asleep(&mut self, shard: &mut Shard, timeout: Option<Duration>, now: Time) -> bool {
        // From here on whoever calls wakes this thread; who has called before is seen.
        if !shard.bell().prepare_sleep() {
            return false;
        }
        if self.is_wanted() || self.board.as_ref().is_some_and(|board| self.seen.is_stale(board)) {
            shard.bell().awake();
            return false;
        }
        self.meter.pause(now);
        self.wait(shard, timeout);
        shard.bell().awake();
        self.stats.sleeps += 1;
        self.stats.slept += self.heard.since(now);
        true
    }

    /// Sleeps for a moment if the thread has used more than its share while what it carried was turned away, and it
    /// carried nothing for anybody else ([`crate::cycle_limit`]). True if it has slept: what has rung meanwhile is to
    /// be seen to before the next sleep.
    fn give_way(&mut self, shard: &mut Shard) -> bool {
        let now = self.at.unwrap_or_else(|| self.now());
        if !self.cycle_limit.is_due(now) {
            return false;
        }
        let owed = self.cycle_limit.owes(now, super::processor_time());
        let outside_work = shard.outside_work();
        let alone = std::mem::replace(&mut self.outside_work, outside_work) == outside_work;
        let Some(owed) = owed.filter(|_| alone && self.hosts_only && !shard.crosses()) else { return false };
        let mut outcome = ReceiveOutcome::default();
        for id in &self.hosts {
            let host = shard.peek_node::<HostInterface>(*id);
            outcome.add(host.map(|host| host.endpoints.take_receive_outcome()).unwrap_or_default());
        }
        let mut polls = |id: &NodeId| shard.peek_node::<HostInterface>(*id).is_some_and(|host| host.endpoints.polls());
        if !self.cycle_limit.is_in_vain(outcome) || self.hosts.iter().any(&mut polls) {
            return false;
        }
        let left = self.until_due(shard, now).map_or(owed, |left| left.min(owed));
        let slept = self.fall_asleep(shard, Some(left), now);
        if slept {
            self.cycle_limit.begin(self.heard, super::processor_time());
        }
        slept
    }

    /// Applications that are waited for are asked to ring. False if one of them has made room meanwhile. `now` is kept
    /// up.
    fn prepare_sleep(&mut self, shard: &mut Shard, names: Names<'_>, now: &mut Time) -> bool {
        let asked = self.hosts.iter().fold(false, |asked, id| {
            asked | shard.peek_node::<HostInterface>(*id).is_some_and(HostInterface::prepare_sleep)
        });
        if !asked {
            return true;
        }
        // The requests must be visible before the rings are looked at: an application publishes its index, then looks
        // for them.
        std::sync::atomic::fence(Ordering::SeqCst);
        *now = self.now();
        let worked = shard.run(*now);
        self.stats.rounds += 1;
        self.share_pressure(shard, names, *now);
        *now = self.now();
        !worked && self.is_quiet(shard)
    }

    pub(super) fn is_quiet(&mut self, shard: &mut Shard) -> bool {
        self.hosts.iter().all(|id| shard.peek_node::<HostInterface>(*id).is_none_or(HostInterface::is_quiet))
    }
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
