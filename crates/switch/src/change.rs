//! Changes of the table: transactions, checked whole, prepared aside and applied in bounded slices.
//!
//! A transaction passes three phases. *Check*: each change is held against the table as the changes before it will
//! leave it. *Prepare*: lines, pages, profiles and windows are reserved; no cell can reach them. *Link*: labels are
//! set, one change after another; nothing can fail any more. An error in the first two phases undoes what was prepared,
//! and the table is as it was. What a transaction removes makes room for later transactions only.

mod link;
mod profile;

use crate::Switch;
use crate::circuit::{Circuit, NONE, flag, label_word};
use crate::profile::Profile;
use std::collections::HashMap;
use wire::Label;

/// A port and a label there.
type Point = (u16, Label);

/// Why a change cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// The switch has fewer ports.
    #[error("no port {0}")]
    NoPort(u16),
    /// A path cannot become a channel, nor a channel a path.
    #[error("a path goes out as a path, a channel as a channel")]
    Mixed,
    /// The route goes to this port and label already.
    #[error("goes to port {0} as {1} already")]
    Exists(u16, Label),
    /// There is no such route or leaf.
    #[error("no route of {1} at port {0}")]
    NotFound(u16, Label),
    /// The system has no memory for other bounds.
    #[error("there is no memory for such bounds")]
    NoMemory,
    /// The bound of the configuration on circuits.
    #[error("no more than {0} circuits")]
    Full(u32),
    /// The bound of the configuration on pages of the label table.
    #[error("the label table has no more than {0} pages")]
    IndexFull(u32),
    /// The bound of the configuration on profiles.
    #[error("no more than {0} different profiles")]
    ProfilesFull(u16),
    /// The bound of the configuration on the sum of all windows.
    #[error("a window of {0} cells does not fit beside those of other circuits")]
    NoWindow(u16),
    /// A link that carries no credits back.
    #[error(
        "the link at port {0} carries no credits: flow = \"credit\" needs cell links, inside a network or to another Cellway by tcp or by udp with form = \"batch\""
    )]
    NoCredit(u16),
    /// Another circuit with credits leaves there under this label.
    #[error("another circuit with credits leaves by port {0} as {1}")]
    LabelTaken(u16, Label),
    /// Point-to-multipoint with credits.
    #[error("a circuit with credits has one branch only")]
    CreditMultipoint,
    /// A circuit with credits sends what it has credit for.
    #[error("a circuit with credits cannot be shaped")]
    CreditShaped,
    /// A profile of which no PDU or cell could pass.
    #[error("a queue of {queue_cells} cells has no room for a PDU of {pdu_cells} cells")]
    QueueTooShort {
        /// The shorter of the circuit's and the port's bounds, or the window.
        queue_cells: u32,
        /// The longest PDU, 1 where cells are dropped one by one.
        pdu_cells: u16,
    },
    /// A branch keeps its credits, or its want of them, and its kind of cells.
    #[error("credits and PDUs of the branch to port {0} as {1} are fixed: remove it and add it again")]
    Fixed(u16, Label),
    /// Another transaction is being applied.
    #[error("another change of the table is under way")]
    Busy,
}

/// A transaction that was not applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("change {index}: {error}")]
pub struct Failed {
    /// Which of its changes could not be made, from 0.
    pub index: usize,
    /// Why.
    pub error: ChangeError,
}

/// How far a transaction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// There is more to do, or to undo.
    More,
    /// It is applied, or none is under way.
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Add,
    Remove,
    RemoveLeaf,
}

#[derive(Debug, Clone, Copy)]
struct Change {
    kind: Kind,
    from: Point,
    to: Point,
    profile: u32,
}

/// Changes to be made together or not at all, in their order.
#[derive(Debug, Clone, Default)]
pub struct Transaction {
    changes: Vec<Change>,
    profiles: Vec<Profile>,
    numbers: HashMap<Profile, u32>,
}

impl Transaction {
    /// A transaction without changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Changes in it.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether it has no changes.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Lets cells that come in at port and label `from` leave at port and label `to`. Where `from` is in use already,
    /// `to` becomes a further leaf: the route is point-to-multipoint then. A leaf that is added within a PDU begins
    /// with the next one. The first branch's profile says how the route is policed.
    pub fn add(&mut self, from: (u16, Label), to: (u16, Label), profile: &Profile) {
        let number = match self.profiles.last() {
            Some(last) if last == profile => self.profiles.len() as u32 - 1,
            _ => *self.numbers.entry(*profile).or_insert_with(|| {
                self.profiles.push(*profile);
                self.profiles.len() as u32 - 1
            }),
        };
        self.changes.push(Change { kind: Kind::Add, from, to, profile: number });
    }

    /// Takes a route away, with all its leaves. Cells that wait are dropped as `closed`; a PDU that was sent in part is
    /// ended by an abort (AAL5 with length 0).
    pub fn remove(&mut self, from: (u16, Label)) {
        self.changes.push(Change { kind: Kind::Remove, from, to: from, profile: 0 });
    }

    /// Takes one leaf away, as [`Transaction::remove`] does a route; with the last leaf the route.
    pub fn remove_leaf(&mut self, from: (u16, Label), to: (u16, Label)) {
        self.changes.push(Change { kind: Kind::RemoveLeaf, from, to, profile: 0 });
    }
}

/// A route as the changes so far will leave it.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    branches: u32,
    root: bool,
    /// Where it leaves, if it has credits.
    credit: Option<Point>,
    /// The branch that this transaction added while there was none.
    first: Option<Point>,
    /// How often it was removed in this transaction: the table's branches count in its first life only.
    life: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Check,
    Prepare,
    Link,
    Undo(ChangeError),
}

/// A line for a branch, and one for a root if this change makes the route point-to-multipoint.
#[derive(Debug, Clone, Copy)]
struct Prepared {
    at: u32,
    line: u32,
    root: u32,
}

/// The transaction that is being applied.
#[derive(Debug)]
pub(crate) struct Pending {
    changes: Vec<Change>,
    profiles: Vec<Profile>,
    /// The switch's number of each profile, once held.
    held: Vec<u16>,
    phase: Phase,
    at: usize,
    known: HashMap<Point, Known>,
    branches: HashMap<(Point, Point), (u32, bool)>,
    leaving: HashMap<Point, bool>,
    /// Additions that make a route point-to-multipoint, as the check found them.
    makes_root: Vec<u32>,
    next_root: usize,
    prepared: Vec<Prepared>,
    next_prepared: usize,
}

impl Switch {
    /// Begins to apply a transaction; [`Switch::advance`] does the work.
    ///
    /// # Errors
    /// [`ChangeError::Busy`] while another one is under way.
    pub fn begin(&mut self, transaction: Transaction) -> Result<(), Failed> {
        if self.changes.is_some() {
            return Err(Failed { index: 0, error: ChangeError::Busy });
        }
        let Transaction { changes, profiles, .. } = transaction;
        let n = changes.len();
        self.changes = Some(Box::new(Pending {
            phase: Phase::Check,
            at: 0,
            held: Vec::with_capacity(profiles.len()),
            known: HashMap::with_capacity(n),
            branches: HashMap::new(),
            leaving: HashMap::new(),
            makes_root: Vec::new(),
            next_root: 0,
            prepared: Vec::with_capacity(n),
            next_prepared: 0,
            changes,
            profiles,
        }));
        Ok(())
    }

    /// Does at most `steps` steps of the transaction that is under way; each change takes three. Between two calls
    /// cells pass by the table as it is.
    ///
    /// # Errors
    /// Which change could not be made; nothing of the transaction is applied then.
    pub fn advance(&mut self, steps: usize) -> Result<Progress, Failed> {
        let Some(mut pending) = self.changes.take() else { return Ok(Progress::Done) };
        for _ in 0..steps {
            match self.step(&mut pending) {
                Ok(true) => {}
                Ok(false) => return Ok(Progress::Done),
                Err(failed) => return Err(failed),
            }
        }
        self.changes = Some(pending);
        Ok(Progress::More)
    }

    /// Applies a transaction at once.
    ///
    /// # Errors
    /// Which change could not be made; nothing is applied then.
    pub fn apply(&mut self, transaction: Transaction) -> Result<(), Failed> {
        self.begin(transaction)?;
        while self.advance(usize::MAX)? == Progress::More {}
        Ok(())
    }

    /// One step; false when all is done.
    fn step(&mut self, p: &mut Pending) -> Result<bool, Failed> {
        let change = p.changes.get(p.at).copied();
        match (p.phase, change) {
            (Phase::Check, Some(change)) => match self.check(p, change) {
                Ok(()) => p.at += 1,
                Err(error) => return Err(Failed { index: p.at, error }),
            },
            (Phase::Check, None) => (p.phase, p.at) = (Phase::Prepare, 0),
            (Phase::Prepare, Some(change)) => match self.prepare_change(p, change) {
                Ok(()) => p.at += 1,
                Err(error) => p.phase = Phase::Undo(error),
            },
            (Phase::Prepare, None) => (p.phase, p.at, p.next_root) = (Phase::Link, 0, 0),
            (Phase::Link, Some(change)) => {
                self.link(p, change);
                p.at += 1;
            }
            (Phase::Link, None) => {
                self.release_profiles(p);
                return Ok(false);
            }
            (Phase::Undo(error), _) => {
                if let Some(prepared) = p.prepared.pop() {
                    self.undo(p.changes[prepared.at as usize], prepared);
                } else {
                    self.release_profiles(p);
                    return Err(Failed { index: p.at, error });
                }
            }
        }
        Ok(true)
    }

    fn release_profiles(&mut self, p: &mut Pending) {
        for number in p.held.drain(..) {
            self.plane.profiles.release(number);
        }
    }

    /// The route as the table has it.
    fn known(&self, from: Point) -> Known {
        let id = self.index.get(from.0.into(), from.1);
        if id == 0 {
            return Known::default();
        }
        let circuit = &self.plane.circuits[id as usize];
        let root = circuit.is(flag::ROOT);
        let branches = if root { self.plane.roots[circuit.side as usize].len() as u32 } else { 1 };
        let credit = circuit.is(flag::CREDIT).then(|| (circuit.port, circuit.out_label()));
        Known { branches, root, credit, first: None, life: 0 }
    }

    fn has_branch(&self, from: Point, to: Point) -> bool {
        let id = self.index.get(from.0.into(), from.1);
        let circuit = &self.plane.circuits[id as usize];
        let goes = |line: &Circuit| (line.port, line.out_label()) == to;
        match circuit.is(flag::ROOT) {
            true => {
                self.plane.roots[circuit.side as usize].iter().any(|leaf| goes(&self.plane.circuits[*leaf as usize]))
            }
            false => id != 0 && goes(circuit),
        }
    }

    fn check(&self, p: &mut Pending, change: Change) -> Result<(), ChangeError> {
        let Change { kind, from, to, profile } = change;
        if let Some(port) = [from.0, to.0].into_iter().find(|port| *port >= self.config.ports) {
            return Err(ChangeError::NoPort(port));
        }
        let known = p.known.entry(from).or_insert_with(|| self.known(from));
        let has = match p.branches.get(&(from, to)) {
            Some((life, is)) if *life == known.life => *is,
            _ => known.first == Some(to) || known.life == 0 && self.has_branch(from, to),
        };
        match kind {
            Kind::Add => {
                if from.1.is_path() != to.1.is_path() {
                    return Err(ChangeError::Mixed);
                }
                if has {
                    return Err(ChangeError::Exists(to.0, to.1));
                }
                let Some(profile) = p.profiles.get(profile as usize) else {
                    return Err(ChangeError::ProfilesFull(self.config.profiles));
                };
                let credit = self.check_profile(profile, from, to)?;
                if (known.credit.is_some() || credit) && known.branches > 0 {
                    return Err(ChangeError::CreditMultipoint);
                }
                if credit {
                    let taken = p.leaving.entry(to).or_insert_with(|| self.leaving.get(to.0.into(), to.1) != 0);
                    if std::mem::replace(taken, true) {
                        return Err(ChangeError::LabelTaken(to.0, to.1));
                    }
                }
                known.credit = credit.then_some(to);
                if known.branches > 0 && !known.root {
                    known.root = true;
                    p.makes_root.push(p.at as u32);
                }
                // Most routes have one branch: only further ones are worth an entry.
                match known.branches {
                    0 => known.first = Some(to),
                    _ => _ = p.branches.insert((from, to), (known.life, true)),
                }
                known.branches += 1;
            }
            Kind::Remove if known.branches == 0 => return Err(ChangeError::NotFound(from.0, from.1)),
            Kind::RemoveLeaf if !has => return Err(ChangeError::NotFound(from.0, from.1)),
            Kind::Remove | Kind::RemoveLeaf => {
                if let Some(to) = known.credit {
                    p.leaving.insert(to, false);
                }
                if kind == Kind::RemoveLeaf && known.branches > 1 {
                    known.branches -= 1;
                    known.first = known.first.filter(|first| *first != to);
                    p.branches.insert((from, to), (known.life, false));
                } else {
                    *known = Known { life: known.life + 1, ..Known::default() };
                }
            }
        }
        Ok(())
    }

    /// Whether cells can pass by a profile; true if it is one with credits.
    fn check_profile(&self, profile: &Profile, from: Point, to: Point) -> Result<bool, ChangeError> {
        if let Some(window) = profile.window() {
            if let Some(port) = [from.0, to.0].into_iter().find(|port| !self.plane.ports[usize::from(*port)].credit) {
                return Err(ChangeError::NoCredit(port));
            }
            if profile.shape.is_some() {
                return Err(ChangeError::CreditShaped);
            }
            return match window {
                0 => Err(ChangeError::QueueTooShort { queue_cells: 0, pdu_cells: 1 }),
                _ => Ok(true),
            };
        }
        let pdu_cells = profile.pdu_cells.filter(|_| !to.1.is_path()).unwrap_or(1).max(1);
        let queue_cells = u32::from(profile.queue_cells).min(self.config.queue_cells);
        if u32::from(pdu_cells) > queue_cells {
            return Err(ChangeError::QueueTooShort { queue_cells, pdu_cells });
        }
        Ok(false)
    }

    fn prepare_change(&mut self, p: &mut Pending, change: Change) -> Result<(), ChangeError> {
        if change.kind != Kind::Add {
            return Ok(());
        }
        while p.held.len() <= change.profile as usize {
            let full = ChangeError::ProfilesFull(self.config.profiles);
            p.held.push(self.plane.profiles.hold(&p.profiles[p.held.len()]).ok_or(full)?);
        }
        let makes_root = p.makes_root.get(p.next_root) == Some(&(p.at as u32));
        let full = ChangeError::Full(self.config.circuits);
        let line = self.plane.take_circuit().ok_or(full)?;
        let root = match makes_root {
            false => NONE,
            true => match self.plane.take_circuit() {
                Some(root) => root,
                None => {
                    self.plane.give_circuit(line);
                    return Err(full);
                }
            },
        };
        p.next_root += usize::from(makes_root);
        let number = p.held[change.profile as usize];
        self.plane.profiles.share(number);
        let profile = &p.profiles[change.profile as usize];
        let path = change.from.1.is_path();
        let mut flags = if path { flag::PATH } else { 0 };
        flags |= if profile.pdu_cells.is_some() && !path { flag::PDUS } else { 0 };
        let frames = profile.frames.is_some() && flags & flag::PDUS != 0;
        flags |= if profile.police.is_some() || frames { flag::POLICED } else { 0 };
        // A circuit with credits has its side entry for these.
        let managed = profile.is_managed() && profile.window().is_none();
        flags |= if managed { flag::MANAGED } else { 0 };
        let (label, port) = (label_word(change.to.1), change.to.0);
        self.plane.circuits[line as usize] = Circuit { label, port, flags, profile: number, ..Circuit::default() };
        if managed {
            let side = self.plane.contracts.add(line, port, profile.class, profile.shape, self.plane.max_circuits);
            self.plane.circuits[line as usize].side = side;
        }
        p.prepared.push(Prepared { at: p.at as u32, line, root });
        let failed = self.reserve_pages(change, profile.window().is_some()).or_else(|| {
            let window = profile.window()?;
            match self.plane.credits.add(line, change.from, window) {
                Some(side) => {
                    let circuit = &mut self.plane.circuits[line as usize];
                    (circuit.side, circuit.flags) = (side, circuit.flags | flag::CREDIT);
                    None
                }
                None => Some(ChangeError::NoWindow(window)),
            }
        });
        failed.map_or(Ok(()), Err)
    }

    fn reserve_pages(&mut self, change: Change, credit: bool) -> Option<ChangeError> {
        let (from, to) = (change.from, change.to);
        let own = self.index.reserve(from.0.into(), from.1);
        let leaving = if credit { self.leaving.reserve(to.0.into(), to.1) } else { Ok(()) };
        own.and(leaving).err().map(|_| ChangeError::IndexFull(self.config.index_pages))
    }

    /// Takes back what was prepared for a change.
    fn undo(&mut self, change: Change, prepared: Prepared) {
        let circuit = self.plane.circuits[prepared.line as usize];
        if circuit.is(flag::CREDIT) {
            self.plane.credits.remove(circuit.side);
            self.leaving.trim(change.to.0.into(), change.to.1);
        } else if circuit.side != NONE {
            let shape = self.plane.profiles.get(circuit.profile).shape;
            self.plane.contracts.remove(circuit.side, shape);
        }
        self.plane.profiles.release(circuit.profile);
        if prepared.root != NONE {
            self.plane.give_circuit(prepared.root);
        }
        self.plane.give_circuit(prepared.line);
        self.index.trim(change.from.0.into(), change.from.1);
    }
}
