//! One sender, many receivers: trees of calls through switches.

use super::*;

const SWITCHES: usize = 3;
const RATE: u32 = 1000;

pub(super) fn one_way() -> Traffic {
    let none = Direction { pcr: Some(0), ..Direction::default() };
    Traffic { forward: Direction { pcr: Some(RATE), ..Direction::default() }, backward: none, best_effort: false }
}

/// What SETUP or ADD PARTY says to call `to`.
pub(super) fn leaf(from: usize, to: Aesa, traffic: Traffic) -> ElementList {
    let mut elements = setup(address(from / 2, from % 2), to, traffic);
    elements.set(Element::Bearer(Bearer { multipoint: true, ..Bearer::X }));
    elements
}

struct World {
    net: Simulation,
    book: Book,
    tables: BTreeMap<usize, Vec<[End; 2]>>,
}

impl World {
    fn new() -> Self {
        World { net: row(SWITCHES), book: Book::default(), tables: BTreeMap::new() }
    }

    fn serve(&mut self, time: Duration) {
        self.book.serve(&mut self.net, time);
        tables(&mut self.net, &mut self.tables);
    }

    fn root(&mut self, host: usize, to: Aesa) -> CallId {
        let now = self.net.now();
        let call = self.net.host_mut(host).calls_mut().setup(leaf(host, to, one_way()), now).unwrap();
        self.net.flush(host);
        self.serve(Duration::from_secs(1));
        call
    }

    /// Asks for parties all at once, then lets the answers come.
    fn add(&mut self, host: usize, call: CallId, to: &[Aesa]) -> Vec<PartyId> {
        let now = self.net.now();
        let mut add = |to: &Aesa| {
            let elements = leaf(host, *to, one_way());
            self.net.host_mut(host).calls_mut().add_party(call, &elements, now).unwrap()
        };
        let parties = to.iter().map(&mut add).collect();
        self.net.flush(host);
        self.serve(Duration::from_secs(1));
        parties
    }

    fn drop_party(&mut self, host: usize, party: PartyId) {
        let now = self.net.now();
        self.net.host_mut(host).calls_mut().drop_party(party, normal(), now).unwrap();
        self.net.flush(host);
        self.serve(Duration::from_secs(1));
    }

    fn release(&mut self, host: usize, call: CallId) {
        let now = self.net.now();
        self.net.host_mut(host).calls_mut().release(call, normal(), now).unwrap();
        self.book.up.remove(&(host, call));
        self.net.flush(host);
        self.serve(Duration::from_secs(1));
    }

    /// Leaves in each switch's table.
    fn leaves(&self) -> [usize; SWITCHES] {
        std::array::from_fn(|s| self.tables.get(&s).map_or(0, Vec::len))
    }

    /// The call by which this host hears.
    fn heard_by(&self, host: usize) -> Option<CallId> {
        self.book.up.iter().find(|(h, _)| *h == host).map(|(_, call)| *call)
    }
}

pub(super) fn normal() -> Cause {
    Cause::new(Location::USER, CauseValue::NORMAL)
}

#[test]
fn a_tree_has_one_branch_a_port_and_grows_and_shrinks() {
    let mut world = World::new();
    let root = world.root(0, address(0, 1));
    assert_eq!(world.leaves(), [1, 0, 0]);
    let parties = world.add(0, root, &[address(1, 0), address(1, 1), address(2, 0)]);
    assert_eq!(world.book.added.len(), 3, "{:?}", world.book.dropped);
    // Ports 1 and 3 of the first switch, 0, 1 and 3 of the second, 0 of the third: the trunk carries one copy.
    assert_eq!(world.leaves(), [2, 3, 1]);
    assert_eq!(world.net.switch(0).port(3).unwrap().calls().len(), 1);
    assert_eq!(world.net.switch(0).promised(3), Some([0.0, f64::from(RATE)]));
    assert_eq!(world.net.switch(0).promised(0), Some([f64::from(RATE), 0.0]));
    // All circuits of a switch's tree begin at one end, and that is where the branch before leads.
    let trunk = world.tables[&0].iter().find(|ends| ends[1].port == 3).unwrap()[1].connection;
    assert!(world.tables[&1].iter().all(|ends| ends[0] == End { port: 2, connection: trunk }));
    let calling = |(_, elements): &(usize, ElementList)| elements.calling().unwrap().number.as_aesa();
    assert!(world.book.setups.iter().all(|setup| calling(setup) == Some(address(0, 0))));

    world.drop_party(0, parties[0]);
    assert_eq!(world.leaves(), [2, 2, 1]);
    assert_eq!(world.heard_by(2), None, "the leaf heard that it was dropped");
    world.drop_party(0, parties[2]);
    assert_eq!(world.leaves(), [2, 1, 0], "the second trunk went with its last party");
    // A leaf goes by itself; the trunk has no other.
    let heard = world.heard_by(3).unwrap();
    world.release(3, heard);
    assert_eq!(world.leaves(), [1, 0, 0]);
    assert_eq!(world.book.dropped.get(&(0, parties[1])), Some(&CauseValue::NORMAL));
    world.release(0, root);
    assert_eq!(world.heard_by(1), None);
    assert_clean(&world.net, SWITCHES);
    assert_eq!(world.leaves(), [0; SWITCHES]);
}

#[test]
fn a_party_that_cannot_be_reached_fails_alone() {
    let mut world = World::new();
    let root = world.root(0, address(0, 1));
    let mut elsewhere = address(1, 0);
    elsewhere.0[0] = 0x39;
    let parties = world.add(0, root, &[elsewhere, address(1, 9), address(1, 0)]);
    assert_eq!(world.book.dropped.get(&(0, parties[0])), Some(&CauseValue::NO_ROUTE));
    assert_eq!(world.book.dropped.get(&(0, parties[1])), Some(&CauseValue::NO_ROUTE));
    assert_eq!(world.book.added.iter().map(|(_, party)| *party).collect::<Vec<_>>(), [parties[2]]);
    assert_eq!(world.leaves(), [2, 1, 0]);
    let failed: Vec<_> = world.net.switch(0).failures().map(|failure| failure.called).collect();
    assert_eq!(failed, [Some(elsewhere), Some(address(1, 9))]);
}

#[test]
fn a_root_whose_only_party_fails_hears_why() {
    for (to, traffic, expected) in [
        (address(1, 9), one_way(), CauseValue::NO_ROUTE),
        // Leaves cannot answer on the circuit.
        (address(1, 0), cbr(RATE), CauseValue::TRAFFIC_COMBINATION),
    ] {
        let mut world = World::new();
        let now = world.net.now();
        let call = world.net.host_mut(0).calls_mut().setup(leaf(0, to, traffic), now).unwrap();
        world.net.flush(0);
        world.serve(Duration::from_secs(1));
        assert_eq!(world.book.ended.get(&(0, call)).map(|cause| cause.value), Some(expected));
        assert_clean(&world.net, SWITCHES);
    }
}

#[test]
fn a_link_that_goes_takes_the_parties_behind_it_and_no_others() {
    let mut world = World::new();
    let root = world.root(0, address(0, 1));
    let parties = world.add(0, root, &[address(1, 0), address(2, 0), address(2, 1)]);
    world.net.kill(2);
    // SSCOP's NO-RESPONSE, then T309.
    world.serve(Duration::from_secs(40));
    for party in &parties[1..] {
        assert_eq!(world.book.dropped.get(&(0, *party)), Some(&CauseValue::OUT_OF_ORDER));
    }
    assert!(world.book.added.contains(&(0, parties[0])) && world.heard_by(2).is_some());
    assert_eq!((world.leaves()[0], world.leaves()[1]), (2, 1));
}

#[test]
fn random_trees_leave_nothing_behind_in_the_long_run() {
    let rounds = if std::env::var_os("CELLWAY_LONG").is_some() { 20_000 } else { 600 };
    let mut world = World::new();
    let mut random = Random(19);
    let mut roots: Vec<(usize, CallId)> = Vec::new();
    let mut grown = 0;
    for _ in 0..rounds {
        let now = world.net.now();
        let host = random.below(2 * SWITCHES as u64) as usize;
        let to = address(random.below(SWITCHES as u64 + 1) as usize, random.below(2) as usize);
        roots.retain(|(host, call)| {
            !matches!(world.net.host(*host).calls().state(*call), None | Some(State::Releasing))
        });
        let chosen = roots.get(random.below(roots.len().max(1) as u64) as usize).copied();
        match (random.below(12), chosen) {
            (0..=1, _) => {
                let elements = leaf(host, to, one_way());
                if let Ok(call) = world.net.host_mut(host).calls_mut().setup(elements, now) {
                    roots.push((host, call));
                }
                world.net.flush(host);
            }
            (2..=7, Some((root, call))) => {
                let elements = leaf(root, to, one_way());
                grown += usize::from(world.net.host_mut(root).calls_mut().add_party(call, &elements, now).is_ok());
                world.net.flush(root);
            }
            (8..=9, Some((root, call))) => {
                let mut mine = world.book.added.iter().filter(|(h, party)| (*h, party.call) == (root, call));
                if let Some((_, party)) = mine.next_back().copied() {
                    world.book.added.remove(&(root, party));
                    let _ = world.net.host_mut(root).calls_mut().drop_party(party, normal(), now);
                }
                world.net.flush(root);
            }
            (10, _) => {
                if let Some(call) = world.heard_by(host) {
                    world.book.up.remove(&(host, call));
                    let _ = world.net.host_mut(host).calls_mut().release(call, normal(), now);
                }
                world.net.flush(host);
            }
            (_, Some((root, call))) if random.below(4) == 0 => {
                world.book.up.remove(&(root, call));
                let _ = world.net.host_mut(root).calls_mut().release(call, normal(), now);
                world.net.flush(root);
            }
            _ => {}
        }
        // Often before the answers are there.
        let pause = Duration::from_micros(random.below(20_000));
        world.serve(pause);
    }
    assert!(grown > rounds / 4, "{grown} parties were asked for");
    world.serve(Duration::from_secs(200));
    for host in 0..2 * SWITCHES {
        let now = world.net.now();
        let _ = world.net.host_mut(host).calls_mut().restart(wire::q2931::RestartClass::All, None, now);
        world.net.flush(host);
    }
    world.serve(Duration::from_secs(200));
    assert_clean(&world.net, SWITCHES);
    assert_eq!(world.leaves(), [0; SWITCHES]);
}
