//! Whether the peer of a batched UDP link lives ([`wire::heartbeat`]). In: datagrams that came, and the time. Out:
//! heartbeats that are due, and whether the link is up.
//!
//! An end offers heartbeats when it begins, [`OFFERS`] times. A peer that answers is watched from then on: without a
//! heartbeat for [`SILENCE`] the link is down, until one comes. A peer of the version before never answers; nobody
//! watches it, the offers end, and the link stays up as it always did.

use std::time::Duration;
use wire::Time;
use wire::heartbeat::Heartbeat;

/// From one heartbeat to the next.
pub const INTERVAL: Duration = Duration::from_millis(400);
/// A peer that was heard is taken for gone after so long without a heartbeat: five are missing. With the time that a
/// loaded machine needs to notice it, an alarm stands within three seconds.
pub const SILENCE: Duration = Duration::from_millis(2100);
/// Heartbeats that are offered to a peer that has shown none. Each counts as malformed at one of the version before.
pub const OFFERS: u32 = 8;

/// What is known of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerState {
    /// No heartbeat has come: it speaks the version before, or is not there yet.
    Unknown,
    /// It was heard.
    Alive,
    /// It lives, and its end of the link has been taken down.
    TakenDown,
    /// It was heard, and is silent.
    Silent,
}

/// See the module's head.
#[derive(Debug)]
pub struct Heartbeats {
    run: u32,
    peer: PeerState,
    /// The peer's run, and when it was heard last.
    heard: Option<(u32, Time)>,
    /// It says that it hears this end.
    is_heard: bool,
    /// Offers that are left to a peer that has shown no heartbeat.
    offers: u32,
    next: Option<Time>,
    signal: bool,
    /// How often the peer fell silent.
    silences: u64,
}

impl Heartbeats {
    /// An end that begins; `run` is another number at each start.
    pub fn new(run: u32) -> Self {
        Heartbeats {
            run,
            peer: PeerState::Unknown,
            heard: None,
            is_heard: false,
            offers: OFFERS,
            next: Some(Time::ZERO),
            signal: true,
            silences: 0,
        }
    }

    /// A heartbeat came. True if it is the first of a peer that has begun anew.
    pub fn handle_heartbeat(&mut self, heartbeat: &Heartbeat, now: Time) -> bool {
        let anew = self.heard.is_some_and(|(run, _)| run != heartbeat.run);
        let known = self.heard.is_some_and(|(run, _)| run == heartbeat.run) && self.peer != PeerState::Silent;
        let told = heartbeat.hears != self.is_heard;
        self.heard = Some((heartbeat.run, now));
        self.is_heard = heartbeat.hears;
        self.peer = if heartbeat.signal { PeerState::Alive } else { PeerState::TakenDown };
        // One that begins, or does not hear us, learns of us at once; two that hear each other send on their own time.
        if !known || told && !heartbeat.hears {
            self.next = Some(now);
        }
        anew
    }

    /// Cells came, which are as good as a heartbeat: where more comes than the socket holds, heartbeats are lost too. A
    /// peer that sends them and has stopped its heartbeats has been replaced by the version before.
    pub fn handle_cells(&mut self, now: Time) {
        match (self.peer, &mut self.heard) {
            (PeerState::Alive, Some((_, at))) => *at = now,
            (PeerState::Silent, _) => {
                (self.peer, self.heard, self.offers) = (PeerState::Unknown, None, 0);
                self.next = None;
            }
            _ => {}
        }
    }

    /// Datagrams of the peer wait unread, for lack of room on the link: it is not missed.
    pub fn handle_unread(&mut self, now: Time) {
        if let Some((_, at)) = &mut self.heard {
            *at = now;
        }
    }

    /// The link may pass data at this end, or has been taken down. The peer learns of a change at once.
    pub fn set_signal(&mut self, signal: bool) {
        if std::mem::replace(&mut self.signal, signal) != signal && (self.heard.is_some() || self.offers > 0) {
            self.next = Some(Time::ZERO);
        }
    }

    /// A heartbeat that is due.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Heartbeat> {
        self.next.filter(|next| *next <= now)?;
        if self.heard.is_none() {
            self.offers = self.offers.saturating_sub(1);
        }
        self.next = (self.heard.is_some() || self.offers > 0).then_some(now + INTERVAL);
        let hears = matches!(self.peer, PeerState::Alive | PeerState::TakenDown);
        Some(Heartbeat { run: self.run, interval_ms: INTERVAL.as_millis() as u16, signal: self.signal, hears })
    }

    /// The time has come at which the peer is missed. For who has read all that is at the socket: a heartbeat may be
    /// among it.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.missed_at().is_some_and(|at| at <= now) {
            self.peer = PeerState::Silent;
            self.silences += 1;
        }
    }

    /// When the peer is missed unless it is heard.
    pub fn missed_at(&self) -> Option<Time> {
        let (_, at) = self.heard.filter(|_| matches!(self.peer, PeerState::Alive | PeerState::TakenDown))?;
        Some(at + SILENCE)
    }

    /// When to call again if nothing comes.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.next.into_iter().chain(self.missed_at()).min()
    }

    /// Whether data can pass, as far as it is known.
    pub fn is_up(&self) -> bool {
        matches!(self.peer, PeerState::Unknown | PeerState::Alive)
    }

    /// What is known of the peer.
    pub fn peer(&self) -> PeerState {
        self.peer
    }

    /// For people; `None` where all is well or nothing is known.
    pub fn trouble(&self, now: Time) -> Option<String> {
        match (self.peer, self.heard) {
            (PeerState::Silent, Some((_, at))) => {
                Some(format!("no heartbeat for {:.0} s", now.since(at).as_secs_f64()))
            }
            (PeerState::TakenDown, _) => Some("taken down at the far end".to_owned()),
            (PeerState::Alive, _) if !self.is_heard => Some("the far end does not hear this one".to_owned()),
            _ => None,
        }
    }

    /// How often the peer fell silent.
    pub fn silences(&self) -> u64 {
        self.silences
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two ends, of which each may run or be dead, in steps of virtual time.
    struct Pair {
        ends: [Option<Heartbeats>; 2],
        now: Time,
        lossy: bool,
        sent: u32,
    }

    impl Pair {
        fn new() -> Self {
            Pair { ends: [1, 2].map(|run| Some(Heartbeats::new(run))), now: Time::ZERO, lossy: false, sent: 0 }
        }

        fn run(&mut self, length: Duration) {
            let until = self.now + length;
            while self.now < until {
                for n in [0, 1] {
                    let now = self.now;
                    let Some(due) = self.ends[n].as_mut().and_then(|end| end.poll_transmit(now)) else { continue };
                    self.sent += 1;
                    let lost = self.lossy && self.sent.is_multiple_of(3);
                    if let Some(other) = self.ends[1 - n].as_mut().filter(|_| !lost) {
                        other.handle_heartbeat(&Heartbeat::parse(&due.emit()).unwrap(), now);
                    }
                }
                let now = self.now;
                self.ends.iter_mut().flatten().for_each(|end| end.handle_timeout(now));
                self.now += Duration::from_millis(1);
            }
        }

        fn end(&mut self, n: usize) -> &mut Heartbeats {
            self.ends[n].as_mut().unwrap()
        }
    }

    #[test]
    fn a_killed_peer_is_missed_within_three_seconds_and_found_again_at_once() {
        let mut pair = Pair::new();
        pair.run(Duration::from_secs(10));
        assert_eq!([0, 1].map(|n| pair.end(n).peer()), [PeerState::Alive; 2]);
        pair.ends[1] = None;
        pair.run(Duration::from_millis(1500));
        assert!(pair.end(0).is_up(), "a peer is not given up for a heartbeat or two");
        pair.run(Duration::from_millis(1500));
        assert_eq!(pair.end(0).peer(), PeerState::Silent);
        assert!(!pair.end(0).is_up() && pair.end(0).silences() == 1);
        let now = pair.now;
        assert_eq!(pair.end(0).trouble(now).unwrap(), "no heartbeat for 3 s");
        pair.run(Duration::from_secs(3600));
        pair.ends[1] = Some(Heartbeats::new(3));
        pair.run(Duration::from_millis(10));
        assert_eq!([0, 1].map(|n| pair.end(n).peer()), [PeerState::Alive; 2]);
        let now = pair.now;
        assert_eq!([0, 1].map(|n| pair.end(n).trouble(now)), [None, None]);
    }

    #[test]
    fn a_third_of_the_heartbeats_lost_raises_no_alarm() {
        let mut pair = Pair { lossy: true, ..Pair::new() };
        pair.run(Duration::from_secs(600));
        assert_eq!([0, 1].map(|n| pair.end(n).silences()), [0, 0]);
        assert!([0, 1].iter().all(|n| pair.end(*n).is_up()));
    }

    #[test]
    fn a_peer_of_the_version_before_gets_few_offers_and_is_not_watched() {
        let mut pair = Pair::new();
        pair.ends[1] = None;
        pair.run(Duration::from_secs(60));
        assert_eq!((pair.sent, pair.end(0).is_up()), (OFFERS, true));
        assert_eq!(pair.end(0).poll_timeout(), None, "nothing to wake up for");
        // It is replaced by this version, which offers by itself.
        pair.ends[1] = Some(Heartbeats::new(9));
        pair.run(Duration::from_millis(10));
        assert_eq!([0, 1].map(|n| pair.end(n).peer()), [PeerState::Alive; 2]);
        // And back: heartbeats end, cells come.
        pair.ends[1] = None;
        pair.run(Duration::from_secs(3));
        assert!(!pair.end(0).is_up());
        let now = pair.now;
        pair.end(0).handle_cells(now);
        assert!(pair.end(0).is_up());
        let sent = pair.sent;
        pair.run(Duration::from_secs(60));
        assert_eq!((pair.sent, pair.end(0).is_up()), (sent, true));
    }

    #[test]
    fn an_end_taken_down_is_told_to_the_other_at_once() {
        let mut pair = Pair::new();
        pair.run(Duration::from_secs(1));
        pair.end(1).set_signal(false);
        pair.run(Duration::from_millis(2));
        assert_eq!((pair.end(0).peer(), pair.end(0).is_up(), pair.end(1).is_up()), (PeerState::TakenDown, false, true));
        pair.end(1).set_signal(true);
        pair.run(Duration::from_millis(2));
        assert_eq!(pair.end(0).peer(), PeerState::Alive);
    }

    #[test]
    fn a_peer_that_does_not_hear_this_end_is_named() {
        let mut end = Heartbeats::new(1);
        let heartbeat = Heartbeat { run: 5, interval_ms: 400, signal: true, hears: false };
        end.handle_heartbeat(&heartbeat, Time::from_millis(1));
        assert!(end.trouble(Time::from_millis(2)).unwrap().contains("does not hear"));
    }
}
