//! What is told of calls: those of applications, those through switches, addresses, and the last that failed.

use super::book::Call;
use super::call_controller::{CallController, Interface, Role, circuit_of};
use super::setup;
use crate::hops::{FEW, HopStatus};
use net::Label;
use net::topology::SwitchHop;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use traffic::Contract;
use uni::call::{Side, Version};
use uni::node::{CallInfo, End};
use wire::Time;
use wire::aesa::Aesa;

/// Failures that are told at most.
const FAILURES: usize = 100;

/// All calls of a network.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallsStatus {
    /// Ends of links that have signalling.
    pub interfaces: Vec<InterfaceStatus>,
    /// Calls of applications at hosts of this network.
    pub calls: Vec<CallStatus>,
    /// Calls through its switches.
    pub through: Vec<ThroughStatus>,
    /// The last that failed in switches, the latest last, a hundred at most.
    pub failures: Vec<FailureStatus>,
}

/// An interface.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InterfaceStatus {
    /// The host or switch.
    pub station: String,
    /// Its port.
    pub port: u16,
    /// `uni31`, `uni40` or `iisp`.
    pub version: String,
    /// `user` or `network`.
    pub side: String,
    /// Whether the signalling link is up.
    pub up: bool,
    /// Whether a program signals for the host; the link is up while it runs.
    #[serde(default)]
    pub program: bool,
    /// Of a host its end system identifier, 12 hexadecimal digits.
    #[serde(default)]
    pub esi: Option<String>,
    /// Of a host its addresses, of a switch's port those of its user.
    pub addresses: Vec<String>,
    /// Calls, those that are being cleared included.
    pub calls: usize,
    /// Labels in use.
    pub labels: usize,
    /// Messages that came.
    pub received: u64,
    /// Messages that were sent.
    pub sent: u64,
    /// Messages that were ignored: no Q.2931, too short, or for nobody.
    pub ignored: u64,
    /// Errors of the peer's that it was told of.
    pub reported: u64,
    /// Calls that were refused for a limit.
    pub limited: u64,
    /// Messages that were dropped because too many waited for the peer to take them.
    #[serde(default)]
    pub unsent: u64,
    /// SetRequests of ILMI that were refused, such as the registration of an address that another port has.
    #[serde(default)]
    pub refused_registrations: u64,
    /// PDUs of the signalling link that were wrong or not expected, and were dropped.
    #[serde(default)]
    pub link_errors: u64,
    /// Cells and SDUs of the signalling channels that were dropped before anybody read them: damaged, or for want of
    /// room.
    #[serde(default)]
    pub dropped: u64,
}

/// A call of an application.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CallStatus {
    /// Its number.
    pub call: u64,
    /// The host.
    pub host: String,
    /// Whether the host calls.
    pub outgoing: bool,
    /// `offered`, `calling`, `alerting`, `answered` or `up`.
    pub state: String,
    /// Who calls.
    pub from: Option<String>,
    /// Who is called.
    pub to: Option<String>,
    /// VPI and VCI at the host, once they are known.
    pub circuit: Option<String>,
    /// The user whose application it is.
    pub user: u32,
    /// Since it began.
    pub seconds: f64,
}

/// A call through a switch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThroughStatus {
    /// The switch.
    pub switch: String,
    /// Where it came in: port, and circuit once it is answered.
    pub from: String,
    /// Where it goes out, once that is known.
    pub to: Option<String>,
    /// Who is called, until it is answered.
    pub called: Option<String>,
    /// Its category.
    pub category: String,
    /// What the switch makes of its cells, in each direction that it has. Without a contract it is told only while
    /// calls are few.
    #[serde(default)]
    pub counters: Vec<HopStatus>,
}

/// A call that failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FailureStatus {
    /// The switch.
    pub switch: String,
    /// Seconds since then.
    pub seconds: f64,
    /// Who was called, if that much was understood.
    pub called: Option<String>,
    /// The cause's number (Q.850).
    pub cause: u8,
    /// What it means.
    pub text: String,
}

impl CallController {
    /// All that is told.
    pub fn report(&self, now: Time) -> CallsStatus {
        let seconds = |since: Time| now.since(since).as_secs_f64();
        let calls = self.book.calls.iter().map(|(number, call)| self.report_call(*number, call, now));
        let through = self.switches.iter().flatten().flat_map(|switch| {
            switch.node.calls().into_iter().map(|call| {
                let place = |port: usize, end: usize| {
                    let circuit = call.ends.and_then(|ends| circuit_of(ends[end].connection));
                    let port = switch.ports.get(port).copied().unwrap_or_default();
                    circuit.map_or_else(|| format!("{}:{port}", switch.name), |c| format!("{}:{port} {c}", switch.name))
                };
                ThroughStatus {
                    switch: switch.name.clone(),
                    from: place(call.incoming, 0),
                    to: call.outgoing.map(|port| place(port, 1)),
                    called: text(call.called),
                    category: call.contracts[0].category.name().to_owned(),
                    counters: Vec::new(),
                }
            })
        });
        let mut failures: Vec<_> = self.failures().collect();
        failures.sort_by_key(|(_, failure)| failure.at);
        let last = failures.iter().skip(failures.len().saturating_sub(FAILURES));
        let failures = last.map(|(switch, failure)| FailureStatus {
            switch: (*switch).to_owned(),
            seconds: seconds(failure.at),
            called: text(failure.called),
            cause: failure.cause.value.0,
            text: failure.cause.value.text().unwrap_or_default().to_owned(),
        });
        CallsStatus {
            interfaces: self.report_interfaces(),
            calls: calls.collect(),
            through: through.collect(),
            failures: failures.collect(),
        }
    }

    /// What a user is told who may not look at everything: the user's own calls, and the hosts where `may` lets them be
    /// called. Others' calls cost nothing here.
    pub fn report_of(&self, uid: u32, may: impl Fn(&str) -> bool, now: Time) -> CallsStatus {
        let hosts = self.interfaces.iter().flatten().filter(|i| i.config.host.is_some() && may(&i.config.station));
        let interface = |interface: &Interface| InterfaceStatus {
            up: match &interface.role {
                Role::Host(port) => port.is_up(),
                Role::Program(program) => program.is_there(),
                Role::Switch(..) => false,
            },
            addresses: texts(&interface.addresses),
            ..shape(interface)
        };
        let calls = self.book.calls_of_user(uid).map(|(number, call)| self.report_call(number, call, now));
        CallsStatus { interfaces: hosts.map(interface).collect(), calls: calls.collect(), ..CallsStatus::default() }
    }

    fn report_call(&self, number: u64, call: &Call, now: Time) -> CallStatus {
        let interface = self.interfaces.get(call.interface).and_then(Option::as_ref);
        CallStatus {
            call: number,
            host: interface.map(|i| i.config.station.clone()).unwrap_or_default(),
            outgoing: call.outgoing,
            state: call.stage.name().to_owned(),
            from: text(call.from),
            to: text(call.to),
            circuit: call.circuit.map(|circuit| circuit.to_string()),
            user: call.uid,
            seconds: now.since(call.began).as_secs_f64(),
        }
    }

    /// The circuits of calls through switches, each direction apart, with its call's place among those of
    /// [`Self::report`].
    pub(super) fn hops(&self) -> Vec<(usize, SwitchHop, Contract)> {
        let few = self.switches.iter().flatten().map(|switch| switch.node.len()).sum::<usize>() <= FEW;
        let calls = self.switches.iter().flatten().flat_map(|switch| {
            let of_switch = move |call: CallInfo| {
                let place = |end: &End| Some((*switch.ports.get(end.port)?, Label::Vc(circuit_of(end.connection)?)));
                let [a, b] = call.ends?;
                Some((switch.name.clone(), [place(&a)?, place(&b)?], call.contracts.map(setup::kept)))
            };
            switch.node.calls().into_iter().map(of_switch)
        });
        let mut hops = Vec::new();
        for (at, call) in calls.enumerate() {
            let Some((switch, [a, b], contracts)) = call else { continue };
            for ((from, to, forward), contract) in [(a, b, true), (b, a, false)].into_iter().zip(contracts) {
                if few || !contract.is_plain() {
                    hops.push((at, SwitchHop { switch: switch.clone(), from, to, forward }, contract));
                }
            }
        }
        hops
    }

    fn report_interfaces(&self) -> Vec<InterfaceStatus> {
        let interfaces = self.interfaces.iter().enumerate().filter_map(|(at, interface)| {
            let interface = interface.as_ref()?;
            let blank = InterfaceStatus {
                refused_registrations: interface.ilmi.as_ref().map_or(0, uni::ilmi::Ilmi::refused),
                ..shape(interface)
            };
            let (port, addresses) = match &interface.role {
                Role::Program(program) => {
                    let calls = self.book.calls.values().filter(|call| call.interface == at);
                    return Some(InterfaceStatus {
                        up: program.is_there(),
                        addresses: texts(&interface.addresses),
                        calls: calls.clone().count(),
                        labels: calls.filter(|call| call.circuit.is_some()).count(),
                        received: program.reports,
                        sent: program.orders,
                        ignored: program.ignored,
                        limited: program.limited,
                        ..blank
                    });
                }
                Role::Host(port) => (&**port, interface.addresses.clone()),
                Role::Switch(switch, number) => {
                    let node = &self.switches.get(*switch)?.as_ref()?.node;
                    (node.port(*number)?, node.addresses(*number).to_vec())
                }
            };
            let calls = port.calls();
            Some(InterfaceStatus {
                up: port.is_up(),
                addresses: texts(&addresses),
                calls: calls.len(),
                labels: calls.labels().in_use(),
                received: calls.counts().received,
                sent: calls.counts().sent,
                ignored: calls.counts().ignored,
                reported: calls.counts().reported,
                limited: calls.counts().limited,
                unsent: calls.counts().unsent,
                link_errors: port.saal().sscop().errors(),
                ..blank
            })
        });
        interfaces.collect()
    }
}

/// What an interface is, without what it has done.
fn shape(interface: &Interface) -> InterfaceStatus {
    let config = &interface.config;
    InterfaceStatus {
        station: config.station.clone(),
        port: config.port,
        version: version_name(config.call.version).to_owned(),
        side: if config.call.side == Side::User { "user" } else { "network" }.to_owned(),
        program: config.program,
        esi: config.host.map(|host| host.esi.iter().map(|octet| format!("{octet:02x}")).collect()),
        ..InterfaceStatus::default()
    }
}

fn text(address: Option<Aesa>) -> Option<String> {
    address.map(|address| address.to_string())
}

fn texts(all: &[Aesa]) -> Vec<String> {
    all.iter().map(ToString::to_string).collect()
}

fn version_name(version: Version) -> &'static str {
    match version {
        Version::Uni31 => "uni31",
        Version::Uni40 => "uni40",
        Version::Iisp => "iisp",
    }
}
