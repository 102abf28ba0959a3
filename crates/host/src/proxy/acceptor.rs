//! The acceptor: a process that accepts connections for the service and gives each to its user's proxy.
//!
//! It never receives from a connection and closes one only after another process has it too, or when nothing waits in
//! it that could hold it up. Connections with descriptors inside that no user proxy can have are closed by processes
//! that do nothing else. A user proxy that takes no more connections is killed, and another one begins.

use super::bell_table::BellTable;
use super::messages::{Arrival, ToAcceptor, ToService};
use super::slot::COUNT;
use super::slots::{MAP_OCTETS, Slots};
use super::stuck::Stuck;
use super::{frame, user_proxy};
use crate::sys::{self, Child};
use endpoint::seqpacket::Packets;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::sockopt;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Connections that are accepted in one turn.
const TURN: usize = 32;
/// Users that have user proxies at the same time.
const MAX_USERS: usize = 512;
/// A user whose user proxy has nobody any more keeps it for so long.
const IDLE: Duration = Duration::from_secs(5);
/// User proxies of one user that were killed and have not ended: something of the user's holds them in the kernel.
const MAX_STUCK: usize = 4;
/// The system had no descriptor, or no memory: it is asked again after this.
const PAUSE: Duration = Duration::from_millis(50);
/// Room on the way to a user proxy, as the system counts: for some dozens of connections.
const CHANNEL_OCTETS: usize = 16 << 10;
/// Connections of a user that wait for a slot.
const MAX_WAITING: usize = 128;
/// A user proxy that has taken no connection for so long, while one waits that there is no room for on the way, is
/// stuck.
const PATIENCE: Duration = Duration::from_secs(1);
/// A user proxy that another acceptor has begun has so long to tell which places are taken.
const COUNT_PATIENCE: Duration = Duration::from_secs(10);
/// How often such a user proxy is looked at, and whether a process has closed what it was given.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// How often a user's connections are looked at that nobody tells of ...
const TICK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// ... and those that wait, whether descriptors lie in them.
const LOOK_INSIDE: Duration = Duration::from_secs(1);

/// One user's proxy.
struct UserProxy {
    uid: u32,
    number: u64,
    child: Child,
    channel: OwnedFd,
    board: OwnedFd,
    slots: Slots,
    /// Another acceptor has begun it: since when, and whether it has been asked which places are taken.
    adopted: Option<(Instant, bool)>,
    /// Connections that have no slot yet (those that say nothing give theirs back soon), or that the user proxy has no
    /// room for.
    waiting: VecDeque<OwnedFd>,
    /// There is no room on the way to it: since when nothing has been taken there, and how much there was then.
    full: Option<(Instant, usize)>,
    idle_since: Option<Instant>,
    /// The service has admitted a connection of the user's.
    admitted: bool,
}

/// What the service is to hear of connections: in turn, and once there is room.
struct News<'a> {
    service: &'a OwnedFd,
    /// What has not gone yet, with its descriptors.
    late: VecDeque<(Vec<u8>, Vec<OwnedFd>)>,
    /// The system had no room, of which nothing tells when it has: until then nothing is tried.
    paused: Option<Instant>,
}

/// What a user's place depends on where all are taken.
#[derive(Debug, Clone, Copy)]
struct Standing {
    is_idle: bool,
    admitted: bool,
    /// The greater, the later it came.
    number: u64,
}

/// Which user's proxy ends for another user's: one that has nobody, else one of whose connections none has been
/// admitted; the first of those. Who has many numbers (`/etc/subuid`) keeps nobody out so.
fn who_yields(user_proxies: impl Iterator<Item = Standing>) -> Option<usize> {
    let may = user_proxies.enumerate().filter(|(_, user_proxy)| user_proxy.is_idle || !user_proxy.admitted);
    may.min_by_key(|(_, user_proxy)| (!user_proxy.is_idle, user_proxy.number)).map(|(at, _)| at)
}

/// The acceptor's whole life.
pub(super) fn run(listener: &OwnedFd, service: &OwnedFd) {
    let mut user_proxies: Vec<UserProxy> = Vec::new();
    let mut stuck = Stuck::default();
    let mut news = News::new(service);
    let missing = sys::confine(sys::Role::Acceptor);
    if !missing.is_empty() {
        news.tell(&ToService::Unconfined { missing }, Vec::new());
    }
    // Until the service says so, there may be user proxies that this does not know of.
    let mut number = None;
    let mut looked = Instant::now();
    loop {
        if looked.elapsed() >= LOOK_INSIDE {
            looked = Instant::now();
            user_proxies.iter_mut().for_each(|user_proxy| user_proxy.dismiss_holding(&mut stuck));
        }
        news.go_on();
        let pauses = news.pauses();
        let busy = pauses || !is_writable(service);
        let events = if busy || number.is_none() { PollFlags::empty() } else { PollFlags::IN };
        let wanted = if !pauses && busy { PollFlags::OUT } else { PollFlags::empty() };
        let mut fds = vec![PollFd::new(service, wanted | PollFlags::IN), PollFd::new(listener, events)];
        let of_user_proxy =
            |p: &UserProxy| if p.full.is_some() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        fds.extend(user_proxies.iter().map(|p| PollFd::new(&p.channel, of_user_proxy(p))));
        let looks = user_proxies.iter().any(|p| p.full.is_some() || p.is_counting()) || stuck.closes();
        let tick = if pauses {
            Some(Timespec { tv_sec: 0, tv_nsec: PAUSE.as_nanos() as i64 })
        } else if looks {
            Some(LOOK)
        } else if user_proxies.is_empty() && !stuck.has_children() {
            // Without users there is nothing to look after.
            None
        } else {
            Some(TICK)
        };
        let _ = poll(&mut fds, tick.as_ref());
        let ready: Vec<PollFlags> = fds.iter().map(PollFd::revents).collect();
        drop(fds);
        if ready[0].intersects(PollFlags::HUP | PollFlags::ERR) {
            break;
        }
        while let frame::ReceiveResult::Frame(frame) = frame::receive(service, 0) {
            obey(frame, &mut user_proxies, &mut number);
        }
        let mut place = 2;
        user_proxies.retain_mut(|user_proxy| {
            // One that was adopted a moment ago has not been polled.
            let ready = ready.get(place).copied().unwrap_or(PollFlags::empty());
            user_proxy.ask_count();
            let lives = (ready.is_empty() || user_proxy.hear(ready)) && !user_proxy.is_stuck() && !user_proxy.is_over();
            place += 1;
            if !lives {
                user_proxy.end(&mut stuck, &mut news);
            }
            lives
        });
        stuck.look_again();
        for at in 0..user_proxies.len() {
            // A user proxy that was replaced meanwhile has moved.
            while let Some(user_proxy) =
                user_proxies.get_mut(at).filter(|p| !news.pauses() && p.slots.has_free() && p.full.is_none())
                && let Some(client) = user_proxy.waiting.pop_front()
            {
                admit(client, &mut news, &mut user_proxies, &mut stuck, &mut number);
            }
        }
        if !ready[1].is_empty() && !events.is_empty() {
            for _ in 0..TURN {
                match Packets::accept(listener) {
                    Ok(Some(client)) => admit(client.into(), &mut news, &mut user_proxies, &mut stuck, &mut number),
                    Ok(None) => break,
                    Err(_) => {
                        news.pause();
                        break;
                    }
                }
                if news.pauses() || !is_writable(service) {
                    break;
                }
            }
        }
    }
    for user_proxy in &mut user_proxies {
        user_proxy.child.kill();
    }
    for user_proxy in &mut user_proxies {
        user_proxy.child.end(Duration::from_millis(200));
    }
    // The connections among these end with this process, which nothing holds up then.
    std::mem::forget((user_proxies, stuck));
}

fn is_writable(fd: &OwnedFd) -> bool {
    let none = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut [PollFd::new(fd, PollFlags::OUT)], Some(&none)), Ok(1..))
}

/// Does what the service says.
fn obey(frame: frame::Frame, user_proxies: &mut Vec<UserProxy>, number: &mut Option<u64>) {
    match serde_json::from_slice::<ToAcceptor>(&frame.octets) {
        Ok(ToAcceptor::Admit { uid }) => user_proxies
            .iter_mut()
            .filter(|user_proxy| user_proxy.uid == uid)
            .for_each(|user_proxy| user_proxy.admitted = true),
        Ok(ToAcceptor::Adopt { user_proxy, uid, admitted }) => {
            user_proxies.extend(UserProxy::adopt(user_proxy, uid, admitted, frame.fds));
        }
        Ok(ToAcceptor::Accept { next }) => *number = Some(next),
        Err(_) => {}
    }
}

/// Gives a connection to its user's proxy, and tells the service.
fn admit(
    client: OwnedFd,
    news: &mut News<'_>,
    user_proxies: &mut Vec<UserProxy>,
    stuck: &mut Stuck,
    number: &mut Option<u64>,
) {
    let client = Packets::from(client);
    let Ok(peer) = client.peer() else { return stuck.dismiss(u32::MAX, client.into()) };
    let groups = sys::peer_groups(&client);
    let client: OwnedFd = client.into();
    for _ in 0..2 {
        let at = match user_proxies.iter().position(|p| p.uid == peer.uid) {
            Some(at) => at,
            None => {
                if user_proxies.len() >= MAX_USERS
                    && let Some(at) = who_yields(user_proxies.iter().map(UserProxy::standing))
                {
                    user_proxies.swap_remove(at).end(stuck, news);
                }
                let may = user_proxies.len() < MAX_USERS && stuck.count(peer.uid) < MAX_STUCK;
                let begun = if may { UserProxy::begin(peer.uid, number, news) } else { None };
                let Some(user_proxy) = begun else { return stuck.dismiss(peer.uid, client) };
                user_proxies.push(user_proxy);
                user_proxies.len() - 1
            }
        };
        let user_proxy = &mut user_proxies[at];
        let Ok((ours, theirs)) = frame::pair() else { return stuck.dismiss(peer.uid, client) };
        let waits = user_proxy.full.is_some() || user_proxy.is_counting();
        if waits || (!user_proxy.slots.has_free() && user_proxy.waiting.len() < MAX_WAITING) {
            return user_proxy.keep_waiting(client, stuck);
        }
        let slot = user_proxy.slots.take();
        // First the user proxy: a connection that the service hears of has one.
        let word = slot.unwrap_or(user_proxy::NO_SLOT).to_ne_bytes();
        match frame::send(&user_proxy.channel, &[&word], &[client.as_fd(), ours.as_fd()]) {
            Ok(()) => {}
            Err(e) if frame::is_out_of_room(e) => {
                slot.into_iter().for_each(|slot| user_proxy.slots.give_back(slot));
                news.pause();
                return user_proxy.keep_waiting(client, stuck);
            }
            // It has not taken those before.
            Err(Errno::AGAIN) => {
                slot.into_iter().for_each(|slot| user_proxy.slots.give_back(slot));
                user_proxy.full = Some((Instant::now(), sys::untaken(&user_proxy.channel)));
                return user_proxy.keep_waiting(client, stuck);
            }
            Err(_) => {
                user_proxies.swap_remove(at).end(stuck, news);
                continue;
            }
        }
        user_proxy.idle_since = None;
        if let Some(slot) = slot {
            let arrival =
                Arrival { pid: peer.pid, uid: peer.uid, gid: peer.gid, groups, user_proxy: user_proxy.number, slot };
            // If the service does not get it, the user proxy sees its end gone, and ends the connection.
            if let Ok(board) = user_proxy.board.try_clone() {
                news.tell(&ToService::Arrival(arrival), vec![theirs, board]);
            }
        }
        return;
    }
    stuck.dismiss(peer.uid, client);
}

impl<'a> News<'a> {
    fn new(service: &'a OwnedFd) -> Self {
        News { service, late: VecDeque::new(), paused: None }
    }

    /// Tells of something, at once if there is room.
    fn tell(&mut self, what: &ToService, fds: Vec<OwnedFd>) {
        self.late.push_back((serde_json::to_vec(what).unwrap_or_default(), fds));
        self.go_on();
    }

    /// Nothing more is tried for a while.
    fn pause(&mut self) {
        self.paused = Some(Instant::now() + PAUSE);
    }

    /// Whether no more connections are taken now, since the system has no room, or had none a moment ago.
    fn pauses(&self) -> bool {
        !self.late.is_empty() || self.paused.is_some_and(|until| until > Instant::now())
    }

    /// Tells of what waits, as far as there is room.
    fn go_on(&mut self) {
        while let Some((text, fds)) = self.late.front() {
            let fds: Vec<_> = fds.iter().map(OwnedFd::as_fd).collect();
            match frame::send(self.service, &[text], &fds) {
                Err(e) if e == Errno::AGAIN || frame::is_out_of_room(e) => return,
                // It has gone there, or there is no service any more.
                _ => drop(self.late.pop_front()),
            }
        }
    }
}

impl UserProxy {
    fn begin(uid: u32, number: &mut Option<u64>, news: &mut News<'_>) -> Option<Self> {
        let (channel, theirs) = frame::pair().ok()?;
        // What waits there counts as this process's descriptors in transit, which the users have in common.
        sockopt::set_socket_send_buffer_size(&channel, CHANNEL_OCTETS).ok()?;
        let (board, board_fd) = BellTable::create().ok()?;
        let keep = [theirs.as_raw_fd()];
        let child = sys::fork_child(c"cellway-proxy", &keep, || user_proxy::run(uid, theirs, board)).ok()?;
        let its = number.as_mut()?;
        let user_proxy = UserProxy::with(uid, *its, child, [channel, board_fd]);
        *its += 1;
        // The service keeps it for the next acceptor. One that it does not hear of ends with this acceptor.
        if let Some(fds) = user_proxy.kept() {
            news.tell(&ToService::Begun { user_proxy: user_proxy.number, uid }, fds);
        }
        Some(user_proxy)
    }

    /// One that another acceptor has begun.
    fn adopt(number: u64, uid: u32, admitted: bool, fds: Vec<OwnedFd>) -> Option<Self> {
        let [channel, board, process] = <[OwnedFd; 3]>::try_from(fds).ok()?;
        let of_another = UserProxy::with(uid, number, Child::adopted(process), [channel, board]);
        let adopted = Some((Instant::now(), false));
        Some(UserProxy { slots: Slots::unknown(), adopted, admitted, ..of_another })
    }

    fn with(uid: u32, number: u64, child: Child, [channel, board]: [OwnedFd; 2]) -> Self {
        UserProxy {
            uid,
            number,
            child,
            channel,
            board,
            slots: Slots::all_free(),
            adopted: None,
            waiting: VecDeque::new(),
            full: None,
            idle_since: None,
            admitted: false,
        }
    }

    /// What another acceptor needs of it: its channel, its board, its process.
    fn kept(&self) -> Option<Vec<OwnedFd>> {
        Some(vec![self.channel.try_clone().ok()?, self.board.try_clone().ok()?, self.child.process()?])
    }

    /// Whether it has not told which places are taken.
    fn is_counting(&self) -> bool {
        !self.slots.is_known()
    }

    /// Asks one of another acceptor's which places are taken, once there is room.
    fn ask_count(&mut self) {
        if let Some((_, asked)) = self.adopted.as_mut().filter(|(_, asked)| !*asked) {
            let words = [COUNT, std::process::id()].map(u32::to_ne_bytes).concat();
            *asked = frame::send(&self.channel, &[&words], &[]).is_ok();
        }
    }

    fn standing(&self) -> Standing {
        Standing { is_idle: self.idle_since.is_some(), admitted: self.admitted, number: self.number }
    }

    /// Keeps a connection until the user proxy has a place, and room, for it; or ends it, if many wait.
    fn keep_waiting(&mut self, client: OwnedFd, stuck: &mut Stuck) {
        if self.waiting.len() < MAX_WAITING {
            self.waiting.push_back(client);
        } else {
            stuck.dismiss(self.uid, client);
        }
    }

    /// Ends those that wait with descriptors inside, which may be the connections whose places they wait for.
    fn dismiss_holding(&mut self, stuck: &mut Stuck) {
        for client in std::mem::take(&mut self.waiting) {
            if endpoint::passed::lie_in(&client) {
                stuck.dismiss(self.uid, client);
            } else {
                self.waiting.push_back(client);
            }
        }
    }

    /// Whether it takes nothing more: what it has holds it up.
    fn is_stuck(&mut self) -> bool {
        if let Some((since, _)) = self.adopted.filter(|_| self.is_counting())
            && since.elapsed() >= COUNT_PATIENCE
        {
            return true;
        }
        let Some((since, left)) = self.full else { return false };
        let now_left = sys::untaken(&self.channel);
        if now_left < left {
            self.full = Some((Instant::now(), now_left));
            return false;
        }
        since.elapsed() >= PATIENCE
    }

    /// Takes back slots. False if the user proxy has ended.
    fn hear(&mut self, ready: PollFlags) -> bool {
        if ready.contains(PollFlags::OUT) {
            self.full = None;
        }
        loop {
            match frame::receive(&self.channel, 0) {
                frame::ReceiveResult::Frame(frame) => {
                    self.take_back(&frame.octets);
                    if self.slots.is_unused() {
                        self.idle_since = Some(Instant::now());
                    }
                }
                frame::ReceiveResult::Nothing => return true,
                frame::ReceiveResult::End => return false,
            }
        }
    }

    /// Places that are free again, or what is taken as this acceptor has asked for it. An answer to another acceptor is
    /// not of now.
    fn take_back(&mut self, octets: &[u8]) {
        let (words, _) = octets.as_chunks::<4>();
        let mut words = words.iter().map(|word| u32::from_ne_bytes(*word));
        if words.clone().next() != Some(COUNT) {
            return words.for_each(|slot| self.slots.give_back(slot));
        }
        if words.nth(1) == Some(std::process::id())
            && let Some(map) = octets.last_chunk::<MAP_OCTETS>()
        {
            self.slots.count(map);
        }
    }

    /// Whether it has had nobody for a while: then it is to end.
    fn is_over(&self) -> bool {
        self.idle_since.is_some_and(|since| since.elapsed() >= IDLE)
    }

    /// Kills it, and ends the connections that wait for it.
    fn end(&mut self, stuck: &mut Stuck, news: &mut News<'_>) {
        news.tell(&ToService::Ended { user_proxy: self.number }, Vec::new());
        let child = std::mem::replace(&mut self.child, Child::none());
        stuck.end(self.uid, std::mem::take(&mut self.waiting), child);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_of_which_the_system_has_no_room_to_tell_waits_and_the_service_hears_of_it() {
        frame::tests::while_many_are_on_their_way(|make_room| {
            let (service, acceptor) = frame::pair().unwrap();
            let mut news = News::new(&acceptor);
            let fds = frame::pair().unwrap();
            let told = ToService::Begun { user_proxy: 7, uid: 1 };
            news.tell(&told, vec![fds.0, fds.1]);
            assert!(news.pauses());
            make_room();
            frame::tests::until(|| {
                news.go_on();
                !news.pauses()
            });
            let frame::ReceiveResult::Frame(frame) = frame::receive(&service, 0) else { panic!("nothing has come") };
            assert_eq!((frame.octets, frame.fds.len()), (serde_json::to_vec(&told).unwrap(), 2));
        });
    }

    #[test]
    fn who_has_nobody_yields_first_then_who_was_not_admitted_and_never_who_was() {
        let of = |user_proxies: &[(bool, bool, u64)]| {
            let standing = |(is_idle, admitted, number)| Standing { is_idle, admitted, number };
            who_yields(user_proxies.iter().copied().map(standing))
        };
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[(false, true, 1), (false, true, 2)]), None);
        assert_eq!(of(&[(false, true, 1), (false, false, 5), (false, false, 3)]), Some(2), "the one that came first");
        assert_eq!(of(&[(false, false, 1), (true, false, 4), (true, true, 2)]), Some(2), "nobody is there any more");
    }
}
