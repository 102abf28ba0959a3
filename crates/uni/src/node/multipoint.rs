//! Point-to-multipoint calls through a switch (Q.2971, UNI 3.1 section 5.6): a tree of the root's call and one branch
//! for each port. Parties behind one port share its branch: the first comes by SETUP, the others by ADD PARTY.
//!
//! A party that fails for a reason of the network goes by the next best route. The tree ends with the root's call, and
//! the root's call with its last party.

use super::{Command, End, Entry, Leg, Node, is_of_the_network};
use crate::call::{CallId, ElementList, Event, PartyId, Refused, State};
use std::collections::BTreeMap;
use traffic::Contract;
use wire::Time;
use wire::aesa::Aesa;
use wire::q2931::{Cause, CauseValue, ElementId};

/// The way to the parties behind one port.
#[derive(Debug)]
struct Branch {
    leg: Leg,
    /// The root's circuit and the branch's, once the first party has answered.
    ends: Option<[End; 2]>,
    /// The root's endpoint references, by those of the branch.
    parties: BTreeMap<u16, u16>,
    /// Parties that the branch can take once it stands, by the root's endpoint references.
    waiting: Vec<u16>,
}

/// A party as the root named it.
#[derive(Debug)]
struct Leaf {
    called: Aesa,
    /// What is asked of the next hop, until the party has answered.
    asked: Option<Box<ElementList>>,
    tried: Vec<usize>,
}

/// A point-to-multipoint call.
#[derive(Debug)]
pub(super) struct Tree {
    incoming: Leg,
    contracts: [Contract; 2],
    /// What SETUP said, for new branches.
    setup: ElementList,
    /// The root's reference of SETUP's party.
    first: u16,
    branches: Vec<Branch>,
    leaves: BTreeMap<u16, Leaf>,
}

impl Tree {
    /// The branch with these ends.
    pub(super) fn leg_of(&self, ends: &[End; 2]) -> Option<Leg> {
        self.branches.iter().find(|branch| branch.ends.as_ref() == Some(ends)).map(|branch| branch.leg)
    }

    /// The root's port, and the contracts.
    pub(super) const fn root(&self) -> (usize, [Contract; 2]) {
        (self.incoming.0, self.contracts)
    }

    /// The ports and ends of the branches.
    pub(super) fn branch_ends(&self) -> impl Iterator<Item = (usize, Option<[End; 2]>)> + '_ {
        self.branches.iter().map(|branch| (branch.leg.0, branch.ends))
    }

    fn branch_of(&self, leg: Leg) -> Option<usize> {
        self.branches.iter().position(|branch| branch.leg == leg)
    }

    /// The root's reference of a branch's party.
    fn root_reference(&self, leg: Leg, reference: u16) -> Option<u16> {
        self.branches[self.branch_of(leg)?].parties.get(&reference).copied()
    }

    /// Takes the party off its branch, and says where it was: the branch, and its reference there if it was sent on.
    fn unhook(&mut self, root: u16) -> Option<(usize, Option<u16>)> {
        self.branches.iter_mut().enumerate().find_map(|(at, branch)| {
            if let Some(i) = branch.waiting.iter().position(|waiting| *waiting == root) {
                branch.waiting.remove(i);
                return Some((at, None));
            }
            let reference = branch.parties.iter().find(|(_, r)| **r == root).map(|(reference, _)| *reference)?;
            branch.parties.remove(&reference);
            Some((at, Some(reference)))
        })
    }
}

/// Elements without those that belong to one message of one interface.
fn passed_on(mut elements: ElementList) -> ElementList {
    elements.remove(ElementId::ENDPOINT_REFERENCE);
    elements.remove(ElementId::CONNECTION_ID);
    elements
}

impl Node {
    /// SETUP of a root, whose elements are checked and whose bandwidth is reserved.
    pub(super) fn plant(
        &mut self,
        incoming: Leg,
        called: Aesa,
        elements: ElementList,
        contracts: [Contract; 2],
        now: Time,
    ) {
        let (calls, id) = self.control(incoming);
        let _ = calls.proceed(id, now);
        let first = elements.endpoint_reference().map_or(0, |reference| reference.value);
        let mut tree = Box::new(Tree {
            incoming,
            contracts,
            setup: passed_on(elements.clone()),
            first,
            branches: Vec::new(),
            leaves: BTreeMap::new(),
        });
        tree.leaves.insert(first, self.leaf(incoming.0, called, elements));
        let index = self.calls.insert(Entry::Growing);
        self.ports[incoming.0].legs.insert(incoming.1, index);
        self.route_leaf(index, &mut tree, first, self.cause(CauseValue::NO_ROUTE), now);
        self.settle_tree(index, tree, self.cause(CauseValue::NO_ROUTE), now);
    }

    fn leaf(&self, port: usize, called: Aesa, elements: ElementList) -> Leaf {
        Leaf { called, asked: Some(Box::new(passed_on(elements))), tried: vec![port] }
    }

    /// What happened to a leg of a tree.
    pub(super) fn on_tree_event(&mut self, index: u32, mut tree: Box<Tree>, leg: Leg, event: Event, now: Time) {
        let mut why = self.cause(CauseValue::NORMAL);
        let is_root = tree.incoming == leg;
        match event {
            Event::AddParty { party, elements } if is_root => self.on_add(index, &mut tree, party, elements, now),
            Event::PartyDropped { party, cause } if is_root => {
                tree.leaves.remove(&party.reference);
                self.drop_leaf(index, &mut tree, party.reference, cause, now);
                why = cause;
            }
            Event::Released { cause, .. } if is_root => why = cause,
            Event::Notified { elements, .. } if is_root => {
                for branch in &tree.branches {
                    let (calls, id) = self.control(branch.leg);
                    let _ = calls.notify(id, &elements);
                }
            }
            Event::Alerting(_) => {
                if let Some(root) = tree.root_reference(leg, 0) {
                    self.alert_root(&tree, root, now);
                }
                self.send_waiting(index, &mut tree, leg, now);
            }
            Event::PartyAlerting(party) => {
                if let Some(root) = tree.root_reference(leg, party.reference) {
                    self.alert_root(&tree, root, now);
                }
            }
            Event::Connected { elements, connection, .. } => {
                let root_end = tree.incoming;
                let (calls, id) = self.control(root_end);
                let ends = calls
                    .connection(id)
                    .map(|at| [End { port: root_end.0, connection: at }, End { port: leg.0, connection }]);
                if let (Some(ends), Some(at)) = (ends, tree.branch_of(leg)) {
                    tree.branches[at].ends = Some(ends);
                    self.commands.push_back(Command::AddLeaf(ends, tree.contracts[0]));
                }
                self.on_answer(&mut tree, leg, 0, elements, now);
                self.send_waiting(index, &mut tree, leg, now);
            }
            Event::PartyAdded { party, elements } => self.on_answer(&mut tree, leg, party.reference, elements, now),
            Event::PartyDropped { party, cause } => {
                let root = tree.branch_of(leg).and_then(|at| tree.branches[at].parties.remove(&party.reference));
                if let Some(root) = root {
                    self.leaf_failed(index, &mut tree, root, cause, now);
                }
                why = cause;
            }
            Event::Released { cause, .. } => {
                self.branch_fell(index, &mut tree, leg, cause, now);
                why = cause;
            }
            _ => {}
        }
        self.settle_tree(index, tree, why, now);
    }

    /// Puts the tree back, or takes it down where the root's call is over.
    fn settle_tree(&mut self, index: u32, tree: Box<Tree>, why: Cause, now: Time) {
        let (calls, id) = self.control(tree.incoming);
        if !matches!(calls.state(id), None | Some(State::Releasing)) {
            if let Some(entry) = self.calls.get_mut(index) {
                *entry = Entry::Tree(tree);
            }
            return;
        }
        self.calls.remove(index);
        self.ports[tree.incoming.0].legs.remove(tree.incoming.1);
        self.give_back(tree.incoming.0, tree.contracts, true);
        for branch in tree.branches {
            self.cut(&branch, tree.contracts, why, now);
        }
    }

    /// Takes a branch down: its circuit, its bandwidth, its call.
    fn cut(&mut self, branch: &Branch, contracts: [Contract; 2], why: Cause, now: Time) {
        let (port, call) = branch.leg;
        self.ports[port].legs.remove(call);
        self.give_back(port, contracts, false);
        if let Some(ends) = branch.ends {
            self.commands.push_back(Command::DropLeaf(ends));
        }
        // It may be gone already.
        let _ = self.ports[port].port.calls_mut().release(call, why, now);
    }

    fn on_add(&mut self, index: u32, tree: &mut Tree, party: PartyId, mut elements: ElementList, now: Time) {
        let called = elements.called().and_then(|number| number.as_aesa());
        let port = tree.incoming.0;
        let checked = self.check_hop(port, &mut elements).and(called.ok_or(CauseValue::INVALID_NUMBER));
        match checked {
            Ok(called) => {
                tree.leaves.insert(party.reference, self.leaf(port, called, elements));
                self.route_leaf(index, tree, party.reference, self.cause(CauseValue::NO_ROUTE), now);
            }
            Err(value) => {
                let cause = self.cause(value);
                self.record_failure(called, cause, now);
                let _ = self.ports[port].port.calls_mut().drop_party(party, cause, now);
            }
        }
    }

    /// Sends a party on by the best route that has not been tried.
    fn route_leaf(&mut self, index: u32, tree: &mut Tree, root: u16, mut why: Cause, now: Time) {
        let Some(leaf) = tree.leaves.get(&root) else { return };
        let (called, Some(asked)) = (leaf.called, leaf.asked.clone()) else { return };
        let candidates: Vec<usize> = self.routes.lookup(&called).collect();
        for port in candidates {
            let Some(leaf) = tree.leaves.get_mut(&root).filter(|leaf| !leaf.tried.contains(&port)) else { continue };
            leaf.tried.push(port);
            let refused = match tree.branches.iter_mut().find(|branch| branch.leg.0 == port) {
                Some(branch) => match self.join(branch, root, &asked, now) {
                    Ok(()) => return,
                    Err(refused) => refused,
                },
                None if self.reserve(port, tree.contracts, false) => {
                    let mut elements = tree.setup.clone();
                    asked.0.iter().for_each(|element| elements.set(*element));
                    match self.ports[port].port.calls_mut().setup(elements, now) {
                        Ok(call) => {
                            self.ports[port].legs.insert(call, index);
                            let parties = BTreeMap::from([(0, root)]);
                            tree.branches.push(Branch { leg: (port, call), ends: None, parties, waiting: Vec::new() });
                            return;
                        }
                        Err(refused) => {
                            self.give_back(port, tree.contracts, false);
                            refused
                        }
                    }
                }
                None => Refused::Limit(CauseValue::CELL_RATE),
            };
            why = self.cause(refused.cause());
        }
        self.lose_leaf(tree, root, why, now);
    }

    /// Adds a party to a branch that stands; one that does not has it wait.
    fn join(&mut self, branch: &mut Branch, root: u16, asked: &ElementList, now: Time) -> Result<(), Refused> {
        let (calls, id) = self.control(branch.leg);
        if !matches!(calls.state(id), Some(State::Active | State::OutgoingDelivered)) {
            branch.waiting.push(root);
            return Ok(());
        }
        let party = calls.add_party(id, asked, now)?;
        branch.parties.insert(party.reference, root);
        Ok(())
    }

    /// The branch stands: what waited for it goes out.
    fn send_waiting(&mut self, index: u32, tree: &mut Tree, leg: Leg, now: Time) {
        let Some(at) = tree.branch_of(leg) else { return };
        for root in std::mem::take(&mut tree.branches[at].waiting) {
            let Some(asked) = tree.leaves.get(&root).and_then(|leaf| leaf.asked.clone()) else { continue };
            if let Err(refused) = self.join(&mut tree.branches[at], root, &asked, now) {
                self.route_leaf(index, tree, root, self.cause(refused.cause()), now);
            }
        }
    }

    /// A party has answered: CONNECT for the first, ADD PARTY ACKNOWLEDGE for the others.
    fn on_answer(&mut self, tree: &mut Tree, leg: Leg, reference: u16, elements: ElementList, now: Time) {
        let Some(root) = tree.root_reference(leg, reference) else { return };
        if let Some(leaf) = tree.leaves.get_mut(&root) {
            leaf.asked = None;
            leaf.tried = Vec::new();
        }
        let elements = passed_on(elements);
        let (calls, id) = self.control(tree.incoming);
        if root != tree.first || calls.connect(id, &elements, now).is_err() {
            let _ = calls.accept_party(PartyId { call: id, reference: root }, &elements);
        }
    }

    fn alert_root(&mut self, tree: &Tree, root: u16, now: Time) {
        let (calls, id) = self.control(tree.incoming);
        if root != tree.first || calls.alert(id, now).is_err() {
            let _ = calls.alert_party(PartyId { call: id, reference: root });
        }
    }

    /// The root has dropped a party: so does its branch, which goes with its last.
    fn drop_leaf(&mut self, index: u32, tree: &mut Tree, root: u16, cause: Cause, now: Time) {
        let Some((at, Some(reference))) = tree.unhook(root) else { return };
        if tree.branches[at].parties.is_empty() {
            let branch = tree.branches.remove(at);
            self.cut(&branch, tree.contracts, cause, now);
            self.route_again(index, tree, &branch, cause, now);
        } else {
            let (calls, call) = self.control(tree.branches[at].leg);
            let _ = calls.drop_party(PartyId { call, reference }, cause, now);
        }
    }

    /// A branch is gone, with all its parties.
    fn branch_fell(&mut self, index: u32, tree: &mut Tree, leg: Leg, cause: Cause, now: Time) {
        let Some(at) = tree.branch_of(leg) else { return };
        let branch = tree.branches.remove(at);
        self.cut(&branch, tree.contracts, cause, now);
        for root in branch.parties.values() {
            self.leaf_failed(index, tree, *root, cause, now);
        }
        self.route_again(index, tree, &branch, cause, now);
    }

    /// Parties that waited for a branch which is gone: what its first party failed for need not hold for them.
    fn route_again(&mut self, index: u32, tree: &mut Tree, branch: &Branch, cause: Cause, now: Time) {
        for root in &branch.waiting {
            if let Some(leaf) = tree.leaves.get_mut(root) {
                leaf.tried.retain(|port| *port != branch.leg.0);
            }
            self.route_leaf(index, tree, *root, cause, now);
        }
    }

    fn leaf_failed(&mut self, index: u32, tree: &mut Tree, root: u16, cause: Cause, now: Time) {
        let unanswered = tree.leaves.get(&root).is_some_and(|leaf| leaf.asked.is_some());
        if unanswered && is_of_the_network(cause.value) {
            self.route_leaf(index, tree, root, cause, now);
        } else {
            self.lose_leaf(tree, root, cause, now);
        }
    }

    /// A party is lost: the root hears it. With the last, its call ends.
    fn lose_leaf(&mut self, tree: &mut Tree, root: u16, cause: Cause, now: Time) {
        let Some(leaf) = tree.leaves.remove(&root) else { return };
        if leaf.asked.is_some() {
            self.record_failure(Some(leaf.called), cause, now);
        }
        let (calls, call): (_, CallId) = self.control(tree.incoming);
        let _ = if tree.leaves.is_empty() {
            calls.release(call, cause, now)
        } else {
            calls.drop_party(PartyId { call, reference: root }, cause, now)
        };
    }
}
