//! What each user of a service has, and may have: connections, endpoints, memory, channels, polling endpoints.
//!
//! A ledger without a clock: the service takes before it makes something, and gives back when that ends. What ends
//! later than its connection (an endpoint that still sends what was pushed) is given back at a moment.

mod pool;

pub use pool::{Pool, PoolExhausted};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Instant;

/// What is counted for each user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Connections to the service, and with each its file descriptors.
    Connections,
    /// Endpoints at all hosts together.
    Endpoints,
    /// Octets of segments, registered memory and memory of direct circuits.
    Octets,
    /// Open channels.
    Channels,
    /// Endpoints whose strategy is `polling`, or a clock of more than 4000 Hz: the engine's thread does not sleep while
    /// there is one.
    Polling,
    /// Cells each second that the contracts of open circuits reserve.
    Bandwidth,
    /// Calls that are up, being set up or being cleared, and parties.
    Calls,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 7] =
        [Kind::Connections, Kind::Endpoints, Kind::Octets, Kind::Channels, Kind::Polling, Kind::Bandwidth, Kind::Calls];

    /// In the plural, as messages write it.
    fn name(self) -> &'static str {
        match self {
            Kind::Connections => "connections",
            Kind::Endpoints => "endpoints",
            Kind::Octets => "octets of memory",
            Kind::Channels => "open circuits",
            Kind::Polling => "polling endpoints (those with clocks of more than 4000 Hz count)",
            Kind::Bandwidth => "cells/s of contracts",
            Kind::Calls => "calls",
        }
    }

    /// The key of a description that bounds it.
    pub fn key(self) -> &'static str {
        match self {
            Kind::Connections => "max_connections",
            Kind::Endpoints => "max_endpoints",
            Kind::Octets => "max_octets",
            Kind::Channels => "max_channels",
            Kind::Polling => "max_polling",
            Kind::Bandwidth => "max_bandwidth",
            Kind::Calls => "max_calls",
        }
    }
}

/// An amount of each kind: what somebody has, or may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amounts([u64; Kind::ALL.len()]);

/// What one user may have.
pub type Limits = Amounts;

impl Amounts {
    /// No bound: for the user who runs the service, and can stop it anyway.
    pub const UNLIMITED: Limits = Amounts([u64::MAX; Kind::ALL.len()]);

    /// So much of one kind.
    pub fn get(&self, kind: Kind) -> u64 {
        self.0[kind as usize]
    }

    /// The same with another amount of one kind.
    #[must_use]
    pub fn with(mut self, kind: Kind, amount: u64) -> Self {
        self.0[kind as usize] = amount;
        self
    }

    /// The larger amount of each kind: what two rules give together.
    #[must_use]
    pub fn max(self, other: &Amounts) -> Self {
        let mut most = self;
        for (mine, theirs) in most.0.iter_mut().zip(other.0) {
            *mine = (*mine).max(theirs);
        }
        most
    }

    fn is_nothing(&self) -> bool {
        *self == Amounts::default()
    }

    fn subtract(&mut self, other: &Amounts) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine = mine.saturating_sub(theirs);
        }
    }
}

/// A user has as much as they may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "user {user} may have {limit} {} and has {has}: end some, or raise {} in the [[allow]] of the description",
    kind.name(),
    kind.key()
)]
pub struct Exceeded {
    /// Who.
    pub user: u32,
    /// Of what.
    pub kind: Kind,
    /// How much they have.
    pub has: u64,
    /// How much they may have.
    pub limit: u64,
}

/// Why nothing more is to be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TakeError {
    /// The user's own bound.
    #[error(transparent)]
    User(#[from] Exceeded),
    /// The memory of all users.
    #[error(transparent)]
    Pool(#[from] PoolExhausted),
}

/// Who has what.
#[derive(Debug, Default)]
pub struct Ledger {
    users: BTreeMap<u32, Amounts>,
    pool: Arc<Pool>,
    /// What ends later.
    later: Vec<(Instant, u32, Amounts)>,
}

impl Ledger {
    /// What a user has.
    pub fn of(&self, user: u32) -> Amounts {
        self.users.get(&user).copied().unwrap_or_default()
    }

    /// The memory of all users.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Octets of memory that all users may have together.
    pub fn set_octets(&self, octets: u64) {
        self.pool.set_limit(octets);
    }

    /// Counts `amount` more for a user.
    ///
    /// # Errors
    /// It would be more than they, or all together, may have; nothing has changed.
    pub fn take(&mut self, user: u32, kind: Kind, amount: u64, limits: &Limits) -> Result<(), TakeError> {
        let before = self.of(user);
        let (has, limit) = (before.get(kind), limits.get(kind));
        let sum = has.checked_add(amount).filter(|sum| *sum <= limit);
        let amounts = before.with(kind, sum.ok_or(Exceeded { user, kind, has, limit })?);
        self.pool.check(user, (&before, &amounts), limits.get(Kind::Octets) != u64::MAX)?;
        self.pool.change(&before, &amounts);
        if !amounts.is_nothing() {
            self.users.insert(user, amounts);
        }
        Ok(())
    }

    /// What a user had has ended.
    pub fn give_back(&mut self, user: u32, amounts: &Amounts) {
        if let Entry::Occupied(mut entry) = self.users.entry(user) {
            let before = *entry.get();
            entry.get_mut().subtract(amounts);
            self.pool.change(&before, entry.get());
            if entry.get().is_nothing() {
                entry.remove();
            }
        }
    }

    /// What a user has ends at a moment.
    pub fn give_back_at(&mut self, at: Instant, user: u32, amounts: Amounts) {
        self.later.push((at, user, amounts));
    }

    /// Gives back what has ended by now.
    pub fn handle_timeout(&mut self, now: Instant) {
        let (due, later) = std::mem::take(&mut self.later).into_iter().partition(|(at, ..)| *at <= now);
        self.later = later;
        let due: Vec<(Instant, u32, Amounts)> = due;
        for (_, user, amounts) in due {
            self.give_back(user, &amounts);
        }
    }

    /// Whether nobody has anything.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }
}

/// One connection's part of the ledger: what it took, to be given back when it ends.
#[derive(Debug, Default)]
pub struct Account {
    user: u32,
    limits: Limits,
    has: Amounts,
}

impl Account {
    /// A connection of a user.
    pub fn new(user: u32, limits: Limits) -> Self {
        Account { user, limits, has: Amounts::default() }
    }

    /// How much it has.
    pub fn has(&self, kind: Kind) -> u64 {
        self.has.get(kind)
    }

    /// Other bounds, for what is taken from now on.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Takes `amount` more.
    ///
    /// # Errors
    /// The user has as much as they may.
    pub fn take(&mut self, ledger: &mut Ledger, kind: Kind, amount: u64) -> Result<(), TakeError> {
        self.take_beside(ledger, kind, amount, 0)
    }

    /// The same where the user has so much `beside` that this ledger does not count.
    ///
    /// # Errors
    /// The user has as much as they may.
    pub fn take_beside(&mut self, ledger: &mut Ledger, kind: Kind, amount: u64, beside: u64) -> Result<(), TakeError> {
        let limits = self.limits.with(kind, self.limits.get(kind).saturating_sub(beside));
        ledger.take(self.user, kind, amount, &limits)?;
        self.has = self.has.with(kind, self.has.get(kind) + amount);
        Ok(())
    }

    /// Gives `amount` back, at most what it has.
    pub fn give_back(&mut self, ledger: &mut Ledger, kind: Kind, amount: u64) {
        let amount = amount.min(self.has.get(kind));
        self.has = self.has.with(kind, self.has.get(kind) - amount);
        ledger.give_back(self.user, &Amounts::default().with(kind, amount));
    }

    /// Gives everything but the connection itself back: at once, or at a moment.
    pub fn close(&mut self, ledger: &mut Ledger, at: Option<Instant>) {
        let connections = self.has.get(Kind::Connections);
        let rest = std::mem::take(&mut self.has).with(Kind::Connections, 0);
        self.has = Amounts::default().with(Kind::Connections, connections);
        match at {
            Some(at) if !rest.is_nothing() => ledger.give_back_at(at, self.user, rest),
            _ => ledger.give_back(self.user, &rest),
        }
    }

    /// The connection has ended.
    pub fn end(&mut self, ledger: &mut Ledger) {
        self.close(ledger, None);
        let connections = self.has.get(Kind::Connections);
        self.give_back(ledger, Kind::Connections, connections);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    fn limits(of_each: u64) -> Limits {
        Kind::ALL.into_iter().fold(Amounts::default(), |limits, kind| limits.with(kind, of_each))
    }

    #[test]
    fn a_user_has_as_much_as_they_may_and_another_user_loses_nothing_by_it() {
        let mut ledger = Ledger::default();
        for _ in 0..4 {
            ledger.take(1001, Kind::Endpoints, 1, &limits(4)).unwrap();
        }
        let exceeded = ledger.take(1001, Kind::Endpoints, 1, &limits(4)).unwrap_err();
        assert_eq!(exceeded, Exceeded { user: 1001, kind: Kind::Endpoints, has: 4, limit: 4 }.into());
        assert!(exceeded.to_string().contains("max_endpoints"), "{exceeded}");
        ledger.take(1002, Kind::Endpoints, 4, &limits(4)).unwrap();
        ledger.take(1001, Kind::Channels, 4, &limits(4)).unwrap();
        ledger.give_back(1001, &Amounts::default().with(Kind::Endpoints, 1));
        ledger.take(1001, Kind::Endpoints, 1, &limits(4)).unwrap();
    }

    #[test]
    fn what_still_departs_is_counted_until_it_has_gone() {
        let (mut ledger, now) = (Ledger::default(), Instant::now());
        let mut account = Account::new(1001, limits(1));
        account.take(&mut ledger, Kind::Endpoints, 1).unwrap();
        account.close(&mut ledger, Some(now + Duration::from_millis(600)));
        account.end(&mut ledger);
        let mut next = Account::new(1001, limits(1));
        ledger.handle_timeout(now);
        assert!(next.take(&mut ledger, Kind::Endpoints, 1).is_err());
        ledger.handle_timeout(now + Duration::from_millis(600));
        next.take(&mut ledger, Kind::Endpoints, 1).unwrap();
        next.end(&mut ledger);
        assert!(ledger.is_empty());
    }

    #[test]
    fn an_amount_that_no_number_holds_is_refused() {
        let mut ledger = Ledger::default();
        ledger.take(0, Kind::Octets, 5, &Limits::UNLIMITED).unwrap();
        assert!(ledger.take(0, Kind::Octets, u64::MAX, &Limits::UNLIMITED).is_err());
    }

    proptest! {
        /// Whatever accounts take and give back, nobody exceeds their limit, and in the end nobody has anything.
        #[test]
        fn the_ledger_is_the_sum_of_the_accounts(steps in proptest::collection::vec((0usize..6, 0usize..6, 0u64..7, 0u8..4), 0..200)) {
            let mut ledger = Ledger::default();
            let mut accounts: Vec<Account> = (0..6).map(|n| Account::new(n / 2, limits(10))).collect();
            let now = Instant::now();
            for (who, kind, amount, what) in steps {
                let kind = Kind::ALL[kind];
                match what {
                    0 | 1 => drop(accounts[who].take(&mut ledger, kind, amount)),
                    2 => accounts[who].give_back(&mut ledger, kind, amount),
                    _ => accounts[who].close(&mut ledger, None),
                }
                for user in 0..3u32 {
                    for kind in Kind::ALL {
                        let sum: u64 = accounts.iter().filter(|a| a.user == user).map(|a| a.has.get(kind)).sum();
                        prop_assert_eq!(ledger.of(user).get(kind), sum);
                        prop_assert!(sum <= 10);
                    }
                }
            }
            accounts.iter_mut().for_each(|account| account.end(&mut ledger));
            ledger.handle_timeout(now);
            prop_assert!(ledger.is_empty());
        }
    }
}
