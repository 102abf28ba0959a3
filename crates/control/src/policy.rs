//! Who may open which circuits: the rules of a description (`[[allow]]`), and what they say about a caller.
//!
//! The circuits belong to the user who runs the network. That user and root may open all of them and manage the
//! network; everybody else only what a rule names. The kernel says who calls (`SO_PEERCRED`, `SO_PEERGROUPS`).

use crate::fault::{Faults, PartPath};
use crate::quantity;
use anyhow::{Context as _, Result, anyhow};
use endpoint::seqpacket::Peer;
use host::quota::{Kind, Limits};
use net::topology::parse_circuit_bound;
use serde::{Deserialize, Serialize};
use wire::aesa::{Aesa, Prefix};
use wire::{CellRate, CircuitId};

/// `[[allow]]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Allow {
    /// Users, by name or number.
    pub users: Vec<Name>,
    /// Groups, by name or number.
    pub groups: Vec<Name>,
    /// The host at which; without one, at all hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// `"0.100"`, `"0.200-299"`, `"1.*"`, or `"*"`.
    pub circuits: Vec<String>,
    /// What they may do besides opening these circuits: nothing (`open`), look (`watch`), or change the network too
    /// (`manage`).
    pub role: Role,
    /// Connections to the service that each of the users may have.
    pub max_connections: u64,
    /// Endpoints, at all hosts together.
    pub max_endpoints: u64,
    /// Octets of the endpoints' segments, of registered memory and of memory of direct circuits.
    pub max_octets: u64,
    /// Circuits that are open at once.
    pub max_channels: u64,
    /// Endpoints with the strategy `polling` or a clock of more than 4000 Hz. Each keeps the engine's thread awake.
    pub max_polling: u64,
    /// What the contracts of the circuits that they have open, and of the calls that they begin in both directions, may
    /// reserve together, as a rate of circuits; without, no bound.
    #[serde(deserialize_with = "quantity::rate", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<quantity::RateText>")]
    pub max_bandwidth: Option<String>,
    /// Whom they may call from the host: prefixes of addresses, or `"*"`. Who may call may also listen there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<String>,
    /// Calls at a time, and parties that were added to them, until the network has released them.
    pub max_calls: u64,
}

/// What a user may do; each may do what those before it may.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Open the circuits that rules give.
    #[default]
    Open,
    /// Look at the whole network: status, with all counters.
    Watch,
    /// Change it, and record what passes. Descriptions name files, devices and sockets: this is as much as the user may
    /// who runs the network.
    Manage,
}

impl Default for Allow {
    /// For nobody and nothing, with bounds that ordinary programs do not reach.
    fn default() -> Self {
        Allow {
            users: Vec::new(),
            groups: Vec::new(),
            host: None,
            circuits: Vec::new(),
            role: Role::Open,
            max_connections: 64,
            max_endpoints: 32,
            max_octets: 1 << 29,
            max_channels: 1024,
            max_polling: 0,
            max_bandwidth: None,
            calls: Vec::new(),
            max_calls: 64,
        }
    }
}

/// A user or group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum Name {
    /// As the system numbers it.
    Number(u32),
    /// As the system names it.
    Text(String),
}

/// VPIs and VCIs from, to.
type Range = [(u16, u16); 2];

/// A rule understood.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    users: Vec<u32>,
    groups: Vec<u32>,
    host: Option<String>,
    circuits: Vec<Range>,
    role: Role,
    calls: Vec<Prefix>,
    limits: Limits,
}

/// Who the system's users and groups are: its resolver (nsswitch: files, LDAP, sssd, ...), or a test's.
trait Names {
    /// The number of a user, or of a group.
    fn number(&self, who: Who, name: &str) -> Result<Option<u32>>;
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    User,
    Group,
}

/// This system's resolver.
struct System;

impl Names for System {
    fn number(&self, who: Who, name: &str) -> Result<Option<u32>> {
        use nix::unistd::{Group, User};
        let found = match who {
            Who::User => User::from_name(name).map(|user| user.map(|user| user.uid.as_raw())),
            Who::Group => Group::from_name(name).map(|group| group.map(|group| group.gid.as_raw())),
        };
        found.with_context(|| format!("looking `{name}` up"))
    }
}

impl Allow {
    /// Looks the names up as this system does.
    ///
    /// # Errors
    /// All that is wrong with the rule.
    pub fn describe(&self) -> Result<Rule, Faults> {
        self.describe_with(&System)
    }

    fn describe_with(&self, names: &impl Names) -> Result<Rule, Faults> {
        let mut faults = Faults::default();
        if self.users.is_empty() && self.groups.is_empty() {
            let says = "a rule without users and groups allows nobody: name some, such as users = [\"alice\"]";
            faults.add(PartPath::default(), says);
        }
        if self.circuits.is_empty() && self.calls.is_empty() && self.role == Role::Open {
            let says = "a rule without circuits and calls allows nothing: name some, such as circuits = [\"0.100-199\"] or [\"*\"]";
            faults.add(PartPath::default(), says);
        }
        let mut numbers = |key: &str, all: &[Name], who| -> Vec<u32> {
            let found = all.iter().enumerate().map(|(n, name)| faults.take((key, n), number(name, names, who)));
            found.flatten().collect()
        };
        let (users, groups) = (numbers("users", &self.users, Who::User), numbers("groups", &self.groups, Who::Group));
        let circuits = self.circuits.iter().enumerate();
        let circuits: Vec<Range> = circuits.filter_map(|(n, text)| faults.take(("circuits", n), range(text))).collect();
        let bandwidth = self.max_bandwidth.as_deref();
        let bandwidth = bandwidth.and_then(|text| faults.take("max_bandwidth", parse_circuit_bound(text))).flatten();
        let limits = Limits::default()
            .with(Kind::Connections, self.max_connections)
            .with(Kind::Endpoints, self.max_endpoints)
            .with(Kind::Octets, self.max_octets)
            .with(Kind::Channels, self.max_channels)
            .with(Kind::Polling, self.max_polling)
            .with(Kind::Bandwidth, bandwidth.map_or(u64::MAX, reserved))
            .with(Kind::Calls, if self.calls.is_empty() { 0 } else { self.max_calls });
        let calls = self.calls.iter().enumerate();
        let calls: Vec<Prefix> = calls.filter_map(|(n, text)| faults.take(("calls", n), prefix(text))).collect();
        let (host, role) = (self.host.clone(), self.role);
        faults.or(Some(Rule { users, groups, host, circuits, role, calls, limits }))
    }
}

fn number(name: &Name, names: &impl Names, who: Who) -> Result<u32> {
    let text = match name {
        Name::Number(number) => return Ok(*number),
        Name::Text(text) => text,
    };
    let what = if who == Who::User { "user" } else { "group" };
    let number = names.number(who, text)?;
    number.ok_or_else(|| anyhow!("this system knows no {what} `{text}`: correct the name, or write the number"))
}

fn prefix(text: &str) -> Result<Prefix> {
    if text == "*" {
        return Ok(Prefix::ALL);
    }
    text.parse().with_context(|| format!("calls \"{text}\": write the first digits of addresses, or *"))
}

fn range(text: &str) -> Result<Range> {
    let wrong = || anyhow!("circuits \"{text}\": write 0.100, 0.200-299, 1.* or *");
    if text == "*" {
        return Ok([(0, u16::MAX); 2]);
    }
    let (vpi, vci) = text.split_once(['.', '/']).ok_or_else(wrong)?;
    let part = |text: &str, most: u16| -> Result<(u16, u16)> {
        if text == "*" {
            return Ok((0, most));
        }
        let (from, to) = text.split_once('-').unwrap_or((text, text));
        let (from, to) = (from.parse().map_err(|_| wrong())?, to.parse().map_err(|_| wrong())?);
        if from > to || to > most { Err(wrong()) } else { Ok((from, to)) }
    };
    Ok([part(vpi, 4095)?, part(vci, u16::MAX)?])
}

impl Rule {
    fn names(&self, peer: &Peer) -> bool {
        self.users.contains(&peer.uid)
            || self.groups.contains(&peer.gid)
            || peer.groups.iter().any(|group| self.groups.contains(group))
    }

    fn covers(&self, host: &str, circuit: CircuitId) -> bool {
        let within = |value: u16, (from, to): (u16, u16)| (from..=to).contains(&value);
        self.host.as_deref().is_none_or(|h| h == host)
            && self.circuits.iter().any(|[vpi, vci]| within(circuit.vpi.get(), *vpi) && within(circuit.vci.get(), *vci))
    }
}

/// A rate as quotas count it: whole cells each second.
pub fn reserved(rate: CellRate) -> u64 {
    rate.cells_per_s().ceil() as u64
}

/// What a caller is to the network.
pub fn owns(peer: &Peer, owner: u32) -> bool {
    peer.uid == owner || peer.uid == 0
}

/// Whether `peer` may connect at all.
pub fn admit(rules: &[Rule], peer: &Peer, owner: u32) -> Result<(), String> {
    if owns(peer, owner) || rules.iter().any(|rule| rule.names(peer)) {
        return Ok(());
    }
    let uid = peer.uid;
    Err(format!(
        "user {uid} may not use the network of user {owner}: no [[allow]] of its description names user {uid} or a group \
         of theirs (add one and reload with SIGHUP, or run this as user {owner})"
    ))
}

/// How much of each kind `peer` may have: the most that a rule gives them. The owner and root have no bound.
pub fn limits(rules: &[Rule], peer: &Peer, owner: u32) -> Limits {
    if owns(peer, owner) {
        return Limits::UNLIMITED;
    }
    let theirs = rules.iter().filter(|rule| rule.names(peer));
    theirs.fold(Limits::default(), |most, rule| most.max(&rule.limits))
}

/// Whether `peer` may have endpoints at `host`: whoever may open a circuit there.
///
/// # Errors
/// Why not.
pub fn may_attach(rules: &[Rule], peer: &Peer, owner: u32, host: &str) -> Result<(), String> {
    let there =
        |rule: &Rule| rule.names(peer) && !rule.circuits.is_empty() && rule.host.as_deref().is_none_or(|h| h == host);
    if owns(peer, owner) || rules.iter().any(there) {
        return Ok(());
    }
    let uid = peer.uid;
    Err(format!(
        "user {uid} may have no endpoint at host {host}: no [[allow]] of the description gives them a circuit there (add \
         one and reload with SIGHUP)"
    ))
}

/// Whether `peer` may call `to` from `host`; without one, whether they may listen there.
///
/// # Errors
/// Why not.
pub fn may_call(rules: &[Rule], peer: &Peer, owner: u32, host: &str, to: Option<&Aesa>) -> Result<(), String> {
    let gives = |rule: &&Rule| {
        let here = rule.names(peer) && rule.host.as_deref().is_none_or(|h| h == host) && !rule.calls.is_empty();
        here && to.is_none_or(|to| rule.calls.iter().any(|prefix| prefix.matches(to)))
    };
    if owns(peer, owner) || rules.iter().any(|rule| gives(&rule)) {
        return Ok(());
    }
    let (uid, what) = (peer.uid, to.map_or("listen for calls".to_owned(), |to| format!("call {to}")));
    Err(format!(
        "user {uid} may not {what} at host {host}: no [[allow]] of the description gives it to them (add calls = [\"...\"] \
         for user {uid} and reload with SIGHUP)"
    ))
}

/// Whether `peer` may open `circuit` at `host`.
pub fn may_open(rules: &[Rule], peer: &Peer, owner: u32, host: &str, circuit: CircuitId) -> Result<(), String> {
    if owns(peer, owner) || rules.iter().any(|rule| rule.names(peer) && rule.covers(host, circuit)) {
        return Ok(());
    }
    let uid = peer.uid;
    Err(format!(
        "user {uid} may not open circuit {circuit} of host {host}: no [[allow]] of the description gives it to them (add \
         circuits = [\"{circuit}\"] for user {uid} and reload with SIGHUP)"
    ))
}

/// Whether `peer` may do what needs a role.
///
/// # Errors
/// Why not.
pub fn may_act(rules: &[Rule], peer: &Peer, owner: u32, needs: Role) -> Result<(), String> {
    let has = rules.iter().filter(|rule| rule.names(peer)).map(|rule| rule.role).max();
    if owns(peer, owner) || has.is_some_and(|has| has >= needs) {
        return Ok(());
    }
    let uid = peer.uid;
    Err(match (has, needs) {
        (Some(Role::Watch), _) => format!(
            "user {uid} may watch, but not manage the network of user {owner} (role = \"manage\" in an [[allow]] would let them)"
        ),
        (_, Role::Watch) => format!(
            "user {uid} may open circuits, but not watch, and not manage the network of user {owner} (role = \"watch\" in an \
             [[allow]] would let them look)"
        ),
        _ => format!(
            "user {uid} may open circuits, but not manage the network of user {owner} (role = \"manage\" in an [[allow]] \
             would let them)"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use endpoint::seqpacket::Groups;

    fn peer(uid: u32, gid: u32, groups: &[u32]) -> Peer {
        Peer { pid: 1, uid, gid, groups: Groups::new(groups) }
    }

    struct Known;

    impl Names for Known {
        fn number(&self, who: Who, name: &str) -> Result<Option<u32>> {
            Ok(match (who, name) {
                (Who::User, "alice") => Some(1001),
                (Who::Group, "users") => Some(100),
                (Who::Group, "media") => Some(44),
                _ => None,
            })
        }
    }

    #[test]
    fn this_systems_resolver_knows_root() {
        assert_eq!(System.number(Who::User, "root").unwrap(), Some(0));
        assert_eq!(System.number(Who::Group, "root").unwrap(), Some(0));
        assert_eq!(System.number(Who::User, "no-such-user-here").unwrap(), None);
    }

    fn allow(users: &[&str], groups: &[&str], host: Option<&str>, circuits: &[&str]) -> Result<Rule, Faults> {
        let names = |names: &[&str]| names.iter().map(|n| Name::Text((*n).into())).collect();
        let circuits = circuits.iter().map(|c| (*c).into()).collect();
        let host = host.map(Into::into);
        Allow { users: names(users), groups: names(groups), host, circuits, ..Allow::default() }.describe_with(&Known)
    }

    fn circuit(vpi: u16, vci: u16) -> CircuitId {
        CircuitId::new(vpi, vci).unwrap()
    }

    #[test]
    fn without_a_rule_only_the_owner_and_root_get_in() {
        for (uid, may) in [(1000, true), (0, true), (1001, false)] {
            assert_eq!(admit(&[], &peer(uid, 7, &[0, 1000]), 1000).is_ok(), may);
            assert_eq!(may_open(&[], &peer(uid, 7, &[]), 1000, "alpha", circuit(0, 100)).is_ok(), may);
        }
    }

    #[test]
    fn a_rule_gives_its_users_and_groups_its_circuits_at_its_host_and_nothing_else() {
        let rules = [
            allow(&["alice"], &[], Some("alpha"), &["0.100-199", "7.*"]).unwrap(),
            allow(&[], &["media"], None, &["0.300"]).unwrap(),
        ];
        let (alice, bob, eve) = (peer(1001, 100, &[]), peer(1002, 100, &[5, 44]), peer(1003, 100, &[100]));
        let open = |peer: &Peer, host: &str, vpi, vci| may_open(&rules, peer, 1000, host, circuit(vpi, vci)).is_ok();
        assert!(open(&alice, "alpha", 0, 100) && open(&alice, "alpha", 0, 199) && open(&alice, "alpha", 7, 5000));
        assert!(!open(&alice, "alpha", 0, 200) && !open(&alice, "beta", 0, 100) && !open(&alice, "alpha", 0, 300));
        assert!(open(&bob, "beta", 0, 300) && !open(&bob, "alpha", 0, 100));
        assert!(!open(&eve, "alpha", 0, 100) && admit(&rules, &eve, 1000).is_err());
        assert!(admit(&rules, &alice, 1000).is_ok() && admit(&rules, &bob, 1000).is_ok());
        let why = may_open(&rules, &alice, 1000, "beta", circuit(0, 100)).unwrap_err();
        assert!(why.contains("user 1001") && why.contains("0.100") && why.contains("[[allow]]"), "{why}");
    }

    #[test]
    fn a_user_has_the_larger_of_their_rules_bounds_and_endpoints_only_where_a_rule_names_them() {
        let alice = Allow { users: vec![Name::Number(1001)], circuits: vec!["*".into()], ..Allow::default() };
        let describe = |allow: Allow| allow.describe_with(&Known).unwrap();
        let rules = [
            describe(Allow { host: Some("alpha".into()), max_endpoints: 3, max_polling: 1, ..alice.clone() }),
            describe(Allow { host: Some("beta".into()), max_endpoints: 5, ..alice }),
        ];
        let (alice, eve) = (peer(1001, 100, &[]), peer(1003, 100, &[]));
        let most = limits(&rules, &alice, 1000);
        assert_eq!([Kind::Endpoints, Kind::Polling, Kind::Connections].map(|kind| most.get(kind)), [5, 1, 64]);
        assert_eq!(limits(&rules, &eve, 1000), Limits::default());
        assert_eq!(limits(&rules, &peer(1000, 7, &[]), 1000), Limits::UNLIMITED);
        let attach = |peer: &Peer, host: &str| may_attach(&rules, peer, 1000, host);
        assert!(attach(&alice, "alpha").is_ok() && attach(&alice, "beta").is_ok() && attach(&eve, "alpha").is_err());
        assert!(attach(&alice, "gamma").unwrap_err().contains("gamma"));
    }

    #[test]
    fn a_role_gives_what_those_before_it_give_and_circuits_only_where_they_are_named() {
        let of = |uid, role| Allow { users: vec![Name::Number(uid)], role, ..Allow::default() };
        let open = Allow { circuits: vec!["*".into()], ..of(1, Role::Open) };
        let rules = [open, of(2, Role::Watch), of(3, Role::Manage)].map(|a| a.describe_with(&Known).unwrap());
        let may = |uid, needs| may_act(&rules, &peer(uid, 7, &[]), 1000, needs).is_ok();
        for (uid, watch, manage) in
            [(1, false, false), (2, true, false), (3, true, true), (4, false, false), (0, true, true)]
        {
            assert_eq!((may(uid, Role::Watch), may(uid, Role::Manage)), (watch, manage), "user {uid}");
        }
        for uid in [2, 3] {
            let peer = peer(uid, 7, &[]);
            assert!(admit(&rules, &peer, 1000).is_ok() && may_attach(&rules, &peer, 1000, "alpha").is_err());
            assert!(may_open(&rules, &peer, 1000, "alpha", circuit(0, 100)).is_err());
        }
        assert!(
            may_act(&rules, &peer(2, 7, &[]), 1000, Role::Manage).unwrap_err().contains("may watch, but not manage")
        );
    }

    #[test]
    fn bandwidth_has_no_bound_unless_a_rule_says_one() {
        let rule = |most: Option<&str>| {
            let allow = Allow { users: vec![Name::Number(1)], circuits: vec!["*".into()], ..Allow::default() };
            Allow { max_bandwidth: most.map(Into::into), ..allow }.describe_with(&Known)
        };
        let most = |rule: Rule| limits(&[rule], &peer(1, 7, &[]), 1000).get(Kind::Bandwidth);
        assert_eq!(most(rule(None).unwrap()), u64::MAX);
        assert_eq!(most(rule(Some("1000 cell/s")).unwrap()), 1000);
        assert!(rule(Some("much")).unwrap_err().to_string().contains("much"));
    }

    #[test]
    fn rules_that_cannot_be_say_what_to_write() {
        let wrong = |rule: Result<Rule, Faults>| rule.unwrap_err().to_string();
        assert!(wrong(allow(&["carol"], &[], None, &["*"])).contains("no user `carol`"));
        assert!(wrong(allow(&[], &["alice"], None, &["*"])).contains("no group `alice`"));
        assert!(wrong(allow(&[], &[], None, &["*"])).contains("allows nobody"));
        assert!(wrong(allow(&["alice"], &[], None, &[])).contains("allows nothing"));
        for text in ["100", "0.200-100", "0.x", "5000.1", "0.70000"] {
            assert!(wrong(allow(&["alice"], &[], None, &[text])).contains(text));
        }
    }
}
