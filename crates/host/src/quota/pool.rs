//! Memory that all users of a service have together: what they have, and may have.

use super::{Amounts, Kind};
use std::sync::atomic::{AtomicU64, Ordering};

/// What host and service keep for an endpoint beside its segment: its queues, the tables of its channels and buffers, the
/// pages of its maps. Rounded up.
const ENDPOINT_OCTETS: u64 = 64 << 10;
/// What they keep for an open circuit. Rounded up.
const CHANNEL_OCTETS: u64 = 4 << 10;

/// Memory of all users. The service's thread counts; others look.
#[derive(Debug)]
pub struct Pool {
    has: AtomicU64,
    limit: AtomicU64,
    refused: AtomicU64,
}

impl Default for Pool {
    fn default() -> Self {
        Pool { has: AtomicU64::new(0), limit: AtomicU64::new(u64::MAX), refused: AtomicU64::new(0) }
    }
}

/// All users together have as much memory as they may, or one user has a share of it that leaves something for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "all users together have {has} of the {limit} octets of memory that this daemon gives them; {asked} more are asked \
     for, and user {user}, who has {own}, may have {share} beside the others: end some endpoints, give the daemon more \
     memory (memory.max of its control group), or raise max_users_octets in [engine] of the description"
)]
pub struct PoolExhausted {
    /// Who asks.
    pub user: u32,
    /// What the user has.
    pub own: u64,
    /// What the user may have, with what others have now.
    pub share: u64,
    /// How much more is asked for.
    pub asked: u64,
    /// What all have.
    pub has: u64,
    /// What all may have.
    pub limit: u64,
}

impl Pool {
    /// Octets of memory that all users have.
    pub fn has(&self) -> u64 {
        self.has.load(Ordering::Relaxed)
    }

    /// Octets that they may have.
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Requests that were refused for want of it.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// What they may have from now on. Nobody loses anything that they have.
    pub(super) fn set_limit(&self, octets: u64) {
        self.limit.store(octets, Ordering::Relaxed);
    }

    /// A user has other amounts now.
    pub(super) fn change(&self, from: &Amounts, to: &Amounts) {
        let has = self.has().saturating_sub(octets_of(from)).saturating_add(octets_of(to));
        self.has.store(has, Ordering::Relaxed);
    }

    /// Whether a user may have other amounts. A user who is `bounded` has at most three quarters of what the others
    /// leave: nobody can keep the next user out.
    pub(super) fn check(
        &self,
        user: u32,
        (from, to): (&Amounts, &Amounts),
        bounded: bool,
    ) -> Result<(), PoolExhausted> {
        let (own, wanted) = (octets_of(from), octets_of(to));
        let (has, limit) = (self.has(), self.limit());
        let left = limit.saturating_sub(has.saturating_sub(own));
        let share = if bounded && limit != u64::MAX { left / 4 * 3 } else { left };
        if wanted <= own || wanted <= share {
            return Ok(());
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        Err(PoolExhausted { user, own, share, asked: wanted - own, has, limit })
    }
}

/// Octets of memory that amounts stand for.
fn octets_of(amounts: &Amounts) -> u64 {
    let of = |kind, each: u64| amounts.get(kind).saturating_mul(each);
    let tables = of(Kind::Endpoints, ENDPOINT_OCTETS).saturating_add(of(Kind::Channels, CHANNEL_OCTETS));
    amounts.get(Kind::Octets).saturating_add(tables)
}

#[cfg(test)]
mod tests {
    use super::super::{Account, Ledger, Limits, TakeError};
    use super::*;

    const MIB: u64 = 1 << 20;

    fn bounded() -> Limits {
        Kind::ALL.into_iter().fold(Limits::default(), |limits, kind| limits.with(kind, 1 << 40))
    }

    #[test]
    fn all_users_together_have_no_more_than_they_may_and_the_error_names_cause_and_cure() {
        let mut ledger = Ledger::default();
        ledger.set_octets(100 * MIB);
        let mut users: Vec<Account> = (0..8).map(|uid| Account::new(uid, bounded())).collect();
        let mut last = None;
        for n in 0..1000 {
            if let Err(e) = users[n % 8].take(&mut ledger, Kind::Octets, MIB) {
                last = Some(e);
            }
        }
        let pool = ledger.pool().clone();
        assert!(pool.has() <= 100 * MIB && pool.has() > 90 * MIB, "{}", pool.has());
        let Some(TakeError::Pool(exhausted)) = last else { panic!("{last:?}") };
        assert_eq!((exhausted.limit, exhausted.asked, exhausted.has), (100 * MIB, MIB, pool.has()));
        let said = exhausted.to_string();
        assert!(said.contains("memory.max") && said.contains("max_users_octets"), "{said}");
        assert!(pool.refused() > 0);
        users.iter_mut().for_each(|account| account.end(&mut ledger));
        assert_eq!(pool.has(), 0);
    }

    #[test]
    fn one_user_leaves_something_for_the_next_and_the_services_own_user_has_all() {
        let mut ledger = Ledger::default();
        ledger.set_octets(64 * MIB);
        let mut greedy = Account::new(1, bounded());
        while greedy.take(&mut ledger, Kind::Octets, MIB / 4).is_ok() {}
        assert_eq!(greedy.has(Kind::Octets), 48 * MIB);
        let mut next = Account::new(2, bounded());
        next.take(&mut ledger, Kind::Octets, 12 * MIB).unwrap();
        assert!(next.take(&mut ledger, Kind::Octets, 1).is_err());
        greedy.end(&mut ledger);
        next.end(&mut ledger);
        let mut own = Account::new(0, Limits::UNLIMITED);
        own.take(&mut ledger, Kind::Octets, 64 * MIB).unwrap();
        assert!(own.take(&mut ledger, Kind::Octets, 1).is_err(), "the kernel does not ask whose it is");
    }

    #[test]
    fn endpoints_and_channels_cost_memory_and_connections_are_never_refused_for_it() {
        let mut ledger = Ledger::default();
        ledger.set_octets(MIB);
        let mut user = Account::new(1, bounded());
        while user.take(&mut ledger, Kind::Endpoints, 1).is_ok() {}
        assert_eq!(user.has(Kind::Endpoints), MIB / 4 * 3 / ENDPOINT_OCTETS);
        user.take(&mut ledger, Kind::Connections, 1).unwrap();
        user.give_back(&mut ledger, Kind::Endpoints, 1);
        user.take(&mut ledger, Kind::Channels, ENDPOINT_OCTETS / CHANNEL_OCTETS).unwrap();
        assert!(user.take(&mut ledger, Kind::Channels, 1).is_err());
    }

    #[test]
    fn a_smaller_bound_takes_nothing_away_and_gives_nothing_more() {
        let mut ledger = Ledger::default();
        let mut user = Account::new(1, bounded());
        user.take(&mut ledger, Kind::Octets, 10 * MIB).unwrap();
        ledger.set_octets(5 * MIB);
        assert_eq!(user.has(Kind::Octets), 10 * MIB);
        assert!(user.take(&mut ledger, Kind::Octets, 1).is_err());
        user.give_back(&mut ledger, Kind::Octets, 9 * MIB);
        user.take(&mut ledger, Kind::Octets, MIB).unwrap();
    }
}
