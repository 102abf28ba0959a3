//! An hour of virtual time: random calls and trees through switches that die and start anew, and links that are cut.

use super::multipoint::{leaf, normal, one_way};
use super::*;

const SWITCHES: usize = 4;
const HOSTS: usize = 2 * SWITCHES;
const HOUR: Duration = Duration::from_secs(3600);

struct World {
    net: Simulation,
    book: Book,
    tables: BTreeMap<usize, Vec<[End; 2]>>,
    random: Random,
    /// Calls and parties that were asked for.
    begun: Vec<(usize, CallId)>,
    asked: Vec<(usize, PartyId)>,
    roots: Vec<(usize, CallId)>,
    /// What is broken, and until when.
    dead: Option<(usize, Time)>,
    cut: Option<(WireEnd, Time)>,
    deaths: usize,
    cuts: usize,
}

impl World {
    fn below(&mut self, n: usize) -> usize {
        self.random.below(n as u64) as usize
    }

    fn some_address(&mut self) -> Aesa {
        // One switch more than there are: nobody is there.
        address(self.below(SWITCHES + 1), self.below(2))
    }

    fn act(&mut self) {
        let now = self.net.now();
        let (host, to) = (self.below(HOSTS), self.some_address());
        match self.below(16) {
            0..=5 => {
                let elements = setup(address(host / 2, host % 2), to, cbr(self.below(60_000) as u32 + 1));
                let begun = self.net.host_mut(host).calls_mut().setup(elements, now);
                self.begun.extend(begun.ok().map(|call| (host, call)));
            }
            6 => {
                let elements = leaf(host, to, one_way());
                if let Ok(call) = self.net.host_mut(host).calls_mut().setup(elements, now) {
                    self.begun.push((host, call));
                    self.roots.push((host, call));
                }
            }
            7..=9 if !self.roots.is_empty() => {
                let at = self.below(self.roots.len());
                let (root, call) = self.roots[at];
                let elements = leaf(root, to, one_way());
                let asked = self.net.host_mut(root).calls_mut().add_party(call, &elements, now);
                self.asked.extend(asked.ok().map(|party| (root, party)));
                self.net.flush(root);
            }
            10..=13 => {
                let mine: Vec<CallId> = self.book.up.iter().filter(|(h, _)| *h == host).map(|(_, id)| *id).collect();
                if !mine.is_empty() {
                    let id = mine[self.below(mine.len())];
                    self.book.up.remove(&(host, id));
                    self.book.ended.insert((host, id), normal());
                    // It may have been cleared in this very moment.
                    let _ = self.net.host_mut(host).calls_mut().release(id, normal(), now);
                }
            }
            14 if self.dead.is_none() && self.below(40) == 0 => {
                let switch = self.below(SWITCHES);
                self.net.kill(switch);
                // Short absences and long ones: before and after the neighbours have noticed.
                self.dead = Some((switch, now + Duration::from_millis(self.random.below(90_000))));
                self.deaths += 1;
            }
            15 if self.cut.is_none() && self.below(40) == 0 => {
                let place = match self.below(2) {
                    0 => WireEnd::Host(host),
                    _ => WireEnd::Switch(self.below(SWITCHES - 1), 3),
                };
                self.net.set_cut(place, true);
                self.cut = Some((place, now + Duration::from_millis(self.random.below(60_000))));
                self.cuts += 1;
            }
            _ => {}
        }
        self.net.flush(host);
    }

    fn mend(&mut self, all: bool) {
        let now = self.net.now();
        if let Some((switch, _)) = self.dead.take_if(|(_, until)| all || *until <= now) {
            // Its table went with it.
            self.tables.remove(&switch);
            self.net.revive(switch, node_of_row(switch, SWITCHES));
        }
        if let Some((place, _)) = self.cut.take_if(|(_, until)| all || *until <= now) {
            self.net.set_cut(place, false);
        }
    }

    fn serve(&mut self, time: Duration) {
        self.book.serve(&mut self.net, time);
        tables(&mut self.net, &mut self.tables);
    }
}

#[test]
fn after_an_hour_of_calls_with_switches_that_die_and_links_that_are_cut_nothing_is_left_and_all_were_told() {
    let net = row(SWITCHES);
    let (book, tables) = (Book::default(), BTreeMap::new());
    let (begun, asked, roots) = (Vec::new(), Vec::new(), Vec::new());
    let random = Random(20);
    let mut world = World { net, book, tables, random, begun, asked, roots, dead: None, cut: None, deaths: 0, cuts: 0 };
    while world.net.now() < Time::ZERO + HOUR {
        world.act();
        world.mend(false);
        let World { net, roots, .. } = &mut world;
        roots.retain(|(host, call)| !matches!(net.host(*host).calls().state(*call), None | Some(State::Releasing)));
        let pause = Duration::from_millis(world.random.below(400));
        world.serve(pause);
    }
    world.mend(true);
    // Longer than T309 and what SSCOP takes; then nobody calls any more, and what is up is ended by those who have it.
    world.serve(Duration::from_secs(120));
    for (host, call) in std::mem::take(&mut world.book.up) {
        let now = world.net.now();
        world.book.ended.insert((host, call), normal());
        let _ = world.net.host_mut(host).calls_mut().release(call, normal(), now);
        world.net.flush(host);
    }
    world.serve(Duration::from_secs(200));
    assert!(world.deaths > 5 && world.cuts > 5, "{} deaths, {} cuts", world.deaths, world.cuts);
    assert!(world.begun.len() > 3000 && world.asked.len() > 500, "{} {}", world.begun.len(), world.asked.len());
    assert_clean(&world.net, SWITCHES);
    assert!(world.tables.values().all(Vec::is_empty), "{:?}", world.tables);
    for (host, call) in &world.begun {
        assert!(world.book.ended.contains_key(&(*host, *call)), "host {host} never heard of {call:?}");
    }
    for (host, party) in &world.asked {
        let told = world.book.dropped.contains_key(&(*host, *party))
            || world.book.added.contains(&(*host, *party))
            || world.book.ended.contains_key(&(*host, party.call));
        assert!(told, "host {host} never heard of {party:?}");
    }
}
