//! Ports that come and go while a switch runs, circuits that could not be made, and what is told of calls.

use super::{End, Entry, Node, NodePort, PortConfig};
use crate::call::Event;
use crate::port::Port;
use traffic::{Admission, Contract};
use wire::Time;
use wire::aesa::{Aesa, Prefix};
use wire::q2931::CauseValue;

/// A call through the switch, as it is told.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CallInfo {
    /// The port at which it came in.
    pub incoming: usize,
    /// The port at which it goes out, once that is known.
    pub outgoing: Option<usize>,
    /// Who is called, until the call is answered.
    pub called: Option<Aesa>,
    /// Its two ends, once it is answered.
    pub ends: Option<[End; 2]>,
    /// Forward and backward.
    pub contracts: [Contract; 2],
}

impl NodePort {
    pub(super) fn new(config: PortConfig) -> Self {
        NodePort {
            port: Port::new(config.call),
            bandwidth: [Admission::new(config.rate), Admission::new(config.rate)],
            config,
            legs: Default::default(),
        }
    }
}

impl Node {
    /// One port more, whose link is down until [`Self::start_port`]; gives its number, which may be that of one that is
    /// gone.
    pub fn add_port(&mut self, config: PortConfig) -> usize {
        let addresses = config.addresses.clone();
        let port = match self.vacant.pop() {
            Some(port) => {
                self.ports[port] = NodePort::new(config);
                port
            }
            None => {
                self.ports.push(NodePort::new(config));
                self.ports.len() - 1
            }
        };
        for address in addresses {
            self.routes.add(Prefix::new(address, 152), port);
        }
        port
    }

    /// Establishes a port's signalling link.
    pub fn start_port(&mut self, port: usize, now: Time) {
        if let Some(p) = self.ports.get_mut(port) {
            p.port.start(now);
            self.settle(now);
        }
    }

    /// A port is gone: its calls are cleared at their other ports, and nothing is routed there any more.
    pub fn remove_port(&mut self, port: usize, now: Time) {
        if port >= self.ports.len() || self.vacant.contains(&port) {
            return;
        }
        self.routes.remove_port(port);
        self.ports[port].port.abandon(CauseValue::OUT_OF_ORDER);
        self.settle(now);
        let config = self.ports[port].config.clone();
        self.ports[port] = NodePort::new(config);
        self.vacant.push(port);
    }

    /// The circuit of a call, or of a branch of one, could not be made: what needs it is cleared on both sides.
    pub fn fail_call(&mut self, ends: &[End; 2], value: CauseValue, now: Time) {
        let cause = self.cause(value);
        let found = self.calls.iter().find_map(|(index, entry)| match entry {
            Entry::Through(call) if call.ends.as_ref() == Some(ends) => Some((index, call.incoming, call.outgoing)),
            Entry::Tree(tree) => tree.leg_of(ends).map(|leg| (index, leg, None)),
            _ => None,
        });
        let Some((index, leg, outgoing)) = found else { return };
        if matches!(self.calls.get(index), Some(Entry::Tree(_))) {
            let (calls, id) = self.control(leg);
            // As if the branch had said so itself.
            let _ = calls.release(id, cause, now);
            self.on_event(leg.0, Event::Released { call: leg.1, cause }, now);
        } else {
            self.forget(index);
            self.refuse(leg, None, cause, now);
            if let Some(outgoing) = outgoing {
                let (calls, id) = self.control(outgoing);
                // It may be gone by itself.
                let _ = calls.release(id, cause, now);
            }
        }
        self.settle(now);
    }

    /// The addresses of the user at a port.
    pub fn addresses(&self, port: usize) -> &[Aesa] {
        self.ports.get(port).map_or(&[], |p| &p.config.addresses)
    }

    /// The calls that pass through or are being set up; of a point-to-multipoint call, each branch.
    pub fn calls(&self) -> Vec<CallInfo> {
        let mut all = Vec::with_capacity(self.len());
        for (_, entry) in self.calls.iter() {
            match entry {
                Entry::Through(call) => all.push(CallInfo {
                    incoming: call.incoming.0,
                    outgoing: call.outgoing.map(|(port, _)| port),
                    called: call.search.as_ref().map(|search| search.called),
                    ends: call.ends,
                    contracts: call.contracts,
                }),
                Entry::Tree(tree) => {
                    let (incoming, contracts) = tree.root();
                    let branch =
                        |(port, ends)| CallInfo { incoming, outgoing: Some(port), called: None, ends, contracts };
                    all.extend(tree.branch_ends().map(branch));
                }
                Entry::Growing => {}
            }
        }
        all
    }
}
