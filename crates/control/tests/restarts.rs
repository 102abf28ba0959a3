//! Random changes of a network in virtual time, with failures, crashes and restarts, while traffic passes on circuits that no
//! change names. It ends in what is wanted or in what was; nothing is left over, and no PDU of that traffic is lost.
//!
//! `scripts/test long`, or `CELLWAY_LONG=1 cargo test --release -p cellway-control --test all restarts::`, runs ten thousand sequences;
//! `CELLWAY_SEED=N` repeats one.

use crate::chance::{Failing, Random};
use control::adapters::Adapters;
use control::audit::Who;
use control::config::{Circuit, Config, Link, parse};
use control::execution::{Execution, Progress};
use control::intent::{Intent, Prepared};
use control::network_target::{Links, NetworkTarget};
use control::objects::{LinkSpec, ObjectId, Spec};
use control::sources::commands::{Kept, Written};
use control::sources::waiting::Understood;
use control::state::StateFolder;
use control::state_writer::StateWriter;
use endpoint::layout::{Descriptor, Geometry, Head};
use endpoint::segment::Segment;
use endpoint::{Aal, DataPath, Events, Local};
use host::{EndpointId, HostEndpoint, HostInterface};
use net::topology::{Fabric, Router};
use net::{FramePool, Network, SwitchElement};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use wire::{CircuitId, Time};

/// Every description has this: two hosts that talk over two switches that others use too. The last link is slow and short, so
/// that cells wait in the switch before it.
const WITNESS: &str = "[host.w1]\n[host.w2]\n\
    [[link]]\nends = [\"w1\", \"s1:0\"]\n[[link]]\nends = [\"s1:1\", \"s2:1\"]\n[[link]]\nends = [\"s2:0\", \"w2\"]\n\
    rate = \"100000 cell/s\"\nqueue_cells = 16\n\
    [[circuit]]\nends = [\"w1 0.900\", \"w2 0.901\"]\n";

/// So many PDUs at once, and as many rounds until the next ones: as fast as the witness's link is.
const BURST: u32 = 24;

/// Two applications that talk all the time.
struct Witness {
    rounds: u32,
    ends: [(Local, EndpointId); 2],
    sent: u64,
    received: u64,
}

/// A network with its daemon's knowledge, until it dies.
struct World {
    network: Network,
    fabric: Fabric<HostInterface>,
    links: Links,
    adapters: Adapters,
    intent: Intent,
    state_writer: Arc<StateWriter>,
    witness: Option<Witness>,
    now: Time,
    /// What did not fit into the description that was applied last.
    dropped: Vec<String>,
}

/// What is to go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mishap {
    None,
    /// This step fails.
    Step(usize),
    /// The daemon dies after so many slices.
    Crash(usize),
}

/// What came of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Came {
    Done,
    Undone,
    Died,
}

impl World {
    fn start(folder: &Path) -> Self {
        let state_writer = Arc::new(StateWriter::of(StateFolder::open(folder).unwrap(), false).unwrap());
        World {
            network: Network::new(FramePool::new(8, 2048)),
            fabric: Fabric::new(),
            links: Links::default(),
            adapters: Adapters::default(),
            intent: Intent::new(state_writer.clone()),
            state_writer,
            witness: None,
            now: Time::ZERO,
            dropped: Vec::new(),
        }
    }

    fn host(&mut self, name: &str) -> &mut HostInterface {
        let id = self.fabric.node(name).unwrap();
        self.network.node_mut::<HostInterface>(id).unwrap()
    }

    /// The applications of the witness open their circuit.
    fn attach_witness(&mut self) {
        let ends = [("w1", 900), ("w2", 901)].map(|(name, vci)| {
            let geometry = Geometry { send_ring: 64, receive_ring: 256, ..Geometry::default() };
            let segment = Arc::new(Segment::anonymous(geometry).unwrap());
            let local = Local::new(&segment);
            let host = self.host(name);
            let id = host.attach(HostEndpoint::new(segment, Events::Interrupt, DataPath::Shared, None)).unwrap();
            host.open(id, CircuitId::new(0, vci).unwrap(), Aal::Aal5).unwrap();
            (local, id)
        });
        self.witness = Some(Witness { rounds: 0, ends, sent: 0, received: 0 });
    }

    /// Some time passes; the witness talks.
    fn pass(&mut self, rounds: u32, talks: bool) {
        for _ in 0..rounds {
            if let Some(mut witness) = self.witness.take() {
                witness.rounds += 1;
                let bursts = talks && witness.rounds.is_multiple_of(BURST);
                for (name, (local, id)) in ["w1", "w2"].into_iter().zip(&mut witness.ends) {
                    for _ in 0..if bursts { BURST } else { 0 } {
                        let mut descriptor = Descriptor::from(Head::of_buffer(Descriptor::INLINE));
                        descriptor.head.octets = 40;
                        local.send.push(descriptor);
                        witness.sent += 1;
                    }
                    if bursts {
                        self.host(name).handle_doorbell(*id);
                    }
                    while local.receive.pop().is_some() {
                        witness.received += 1;
                    }
                }
                self.witness = Some(witness);
            }
            self.now += Duration::from_micros(10);
            self.network.run(self.now);
        }
    }

    /// Carries a prepared change out, a few steps to a slice.
    fn carry_out(&mut self, mut prepared: Prepared, mishap: Mishap) -> Came {
        let mut execution = Execution::new(prepared.work());
        let mut left = if let Mishap::Step(step) = mishap { step } else { usize::MAX };
        for slice in 0.. {
            if mishap == Mishap::Crash(slice) {
                return Came::Died;
            }
            let live = NetworkTarget {
                network: &mut self.network,
                fabric: &mut self.fabric,
                links: &mut self.links,
                adapters: &self.adapters,
                placement: &Default::default(),
                now: self.now,
                dropped: Vec::new(),
            };
            let mut target = Failing { live, left };
            let mut steps = 3;
            let progress = execution.run(&mut target, || {
                steps -= 1;
                steps > 0
            });
            left = target.left;
            self.pass(1, true);
            match progress {
                Progress::More => {}
                Progress::Make(need) => execution.give(Ok(control::shells::make(&need, &self.adapters).unwrap())),
                Progress::Done => {
                    self.dropped = self.intent.commit(prepared, &Who::Operator).dropped;
                    assert_eq!(self.state_writer.wait(Duration::from_secs(60)), None);
                    return Came::Done;
                }
                Progress::Undone(_) => {
                    self.intent.abandon(prepared);
                    return Came::Undone;
                }
            }
        }
        unreachable!("a plan ends")
    }

    /// Everything that can be told of the network, by name; what is taken of links is told apart.
    fn fingerprint(&mut self) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        let names: Vec<String> = self.fabric.stations().map(|(name, _)| name.to_owned()).collect();
        for name in names {
            let Some(id) = self.fabric.node(&name) else { continue };
            if let Some(host) = self.network.node_mut::<HostInterface>(id) {
                let circuits: Vec<_> = host.circuits().into_iter().map(|c| (c.circuit, c.config)).collect();
                all.insert(name, format!("{} {circuits:?}", host.max_endpoints()));
            } else if let Some(switch) = self.network.node_mut::<SwitchElement>(id) {
                let routes = switch.routes().map(|r| {
                    let mut to: Vec<_> = r.branches.iter().map(|b| (b.port, b.label)).collect();
                    to.sort_unstable();
                    format!("{} {} {to:?}", r.port, r.label)
                });
                let mut routes: Vec<String> = routes.collect();
                routes.sort();
                all.insert(name, format!("{:?} {routes:?}", switch.config()));
            }
        }
        let ids: Vec<_> = self.fabric.links().map(|(id, ..)| id).collect();
        for id in ids {
            let (info, key) = (self.network.link_info(id).unwrap(), self.fabric.link_key(id).unwrap());
            let (promised, labels) = self.fabric.router().link_use(key).unwrap();
            let (config, enabled) = (info.config.clone(), info.enabled);
            let text = format!("{config:?} {enabled} {:?} {labels}", promised.map(f64::round));
            all.insert(self.fabric.link_name(id).unwrap(), text);
        }
        all.extend(ways(self.fabric.router()));
        all
    }

    /// The objects that there are, as they are described: what does not depend on how the network came to be so.
    fn objects(&self) -> BTreeMap<ObjectId, String> {
        let text = |spec: &Spec| match spec {
            Spec::Link(link) => format!("{:?} {}", link.description, link.enabled),
            other => format!("{other:?}"),
        };
        self.intent.applied().iter().map(|(id, object)| (id.clone(), text(&object.spec))).collect()
    }

    fn agrees(&mut self, seed: u64) {
        let model = &self.intent.model().router;
        assert_eq!(ways(self.fabric.router()), ways(model), "seed {seed}: what is thought and what is");
        let circuits = self.intent.applied().keys().filter(|id| matches!(id, ObjectId::Circuit(_))).count();
        assert_eq!(circuits, model.circuit_count(), "seed {seed}");
    }

    /// Cells that wait in a switch, if it is there.
    fn queued(&mut self, switch: &str) -> usize {
        let Some(id) = self.fabric.node(switch) else { return 0 };
        let switch = self.network.node_mut::<SwitchElement>(id).unwrap();
        (0..switch.config().ports).map(|port| switch.queued(port)).sum()
    }

    /// The witness's applications have got all that they sent each other.
    fn nothing_is_lost(&mut self, seed: u64) {
        self.pass(4 * BURST, false);
        for switch in ["s1", "s2"] {
            // Alarms that are told again each second may pass at this moment: they leave, a cell in 2 ms on the slowest link.
            let is_empty = (0..100 * BURST).any(|_| {
                let left = self.queued(switch);
                self.pass(1, false);
                left == 0
            });
            assert!(is_empty, "seed {seed}: cells are left in a switch");
        }
        let Some(witness) = &self.witness else { return };
        assert!(witness.received == witness.sent, "seed {seed}: {} of {}", witness.received, witness.sent);
    }
}

/// Circuits with their ways.
fn ways(router: &Router) -> BTreeMap<String, String> {
    let hop = |hop: &net::topology::Hop| format!("{} {}", router.link_name(hop.link).unwrap(), hop.label);
    let way = |p: &net::topology::RoutedCircuit| {
        format!("{:?} {:?}", p.description.contract, p.route.hops.iter().map(hop).collect::<Vec<_>>())
    };
    router.circuits().map(|p| (p.description.name(), way(p))).collect()
}

const HOSTS: [&str; 3] = ["a", "b", "c"];

fn link(random: &mut Random, ends: [String; 2]) -> Link {
    let rate = ["unlimited", "1000 cell/s", "500 cell/s"][random.below(3) as usize];
    let text = format!(
        "ends = {ends:?}\nrate = \"{rate}\"\ndelay_us = {}\nqueue_cells = {}\n",
        random.below(3) * 100,
        16 << random.below(2)
    );
    toml::from_str(&text).unwrap()
}

fn circuit(random: &mut Random) -> Circuit {
    let label = 32 + random.below(5);
    let mut hosts: Vec<&str> = HOSTS.to_vec();
    hosts.swap(0, random.below(3) as usize);
    let n = if random.one_in(5) { 3 } else { 2 };
    let ends: Vec<String> = hosts[..n].iter().map(|host| format!("{host} 0.{label}")).collect();
    let contract = if random.one_in(2) { "category = \"cbr\"\npcr = \"100 cell/s\"\n" } else { "" };
    toml::from_str(&format!("ends = {ends:?}\n{contract}")).unwrap()
}

/// A description that somebody might write: not all of them can be.
fn description(random: &mut Random) -> String {
    let mut text = String::new();
    for switch in ["s1", "s2"] {
        let (ports, routes) = (6 + random.below(6), 20 + random.below(30));
        let _ = writeln!(text, "[switch.{switch}]\nports = {ports}\nmax_routes = {routes}");
    }
    let hosts: Vec<&str> = HOSTS.into_iter().filter(|_| !random.one_in(6)).collect();
    for host in &hosts {
        let _ = writeln!(text, "[host.{host}]\nmax_endpoints = {}", 1 + random.below(4));
    }
    text.push_str(WITNESS);
    for (place, host) in hosts.iter().enumerate() {
        let ends = [(*host).to_owned(), format!("s{}:{}", 1 + random.below(2), 2 + place)];
        let _ = writeln!(text, "[[link]]\n{}", toml::to_string(&link(random, ends)).unwrap());
    }
    let mut named = Vec::new();
    for _ in 0..random.below(5) {
        let circuit = circuit(random);
        let known = |end: &String| hosts.iter().any(|host| end.starts_with(host));
        let taken = circuit.ends.iter().any(|end| named.contains(end));
        if circuit.ends.iter().all(known) && !taken {
            named.extend(circuit.ends.clone());
            let _ = writeln!(text, "[[circuit]]\n{}", toml::to_string(&circuit).unwrap());
        }
    }
    text
}

/// A daemon's life, and its next ones.
struct Life {
    seed: u64,
    random: Random,
    folder: tempfile::TempDir,
    /// The description that its operator has at hand.
    file: String,
    world: World,
    /// What was kept of commands, the last generation last.
    kept: Vec<Kept>,
    /// What this daemon has written.
    written: Option<Kept>,
    done: usize,
    undone: usize,
    restarts: usize,
}

impl Life {
    fn begin(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        // Where writing through to the disk costs nothing, if there is such a place.
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let world = World::start(folder.path());
        let file = format!("[switch.s1]\n[switch.s2]\n{WITNESS}");
        random.below(2);
        let (kept, written, done, undone, restarts) = Default::default();
        let mut life = Life { seed, random, folder, file, world, kept, written, done, undone, restarts };
        assert!(life.describe(&life.file.clone(), Mishap::None) == Some(Came::Done), "seed {seed}");
        life.world.attach_witness();
        life
    }

    fn config(text: &str) -> Config {
        parse(text, "net.toml").unwrap()
    }

    /// Applies a description; `None` if it cannot be.
    fn describe(&mut self, text: &str, mishap: Mishap) -> Option<Came> {
        let links = Understood::of(self.world.intent.waiting_links());
        let prepared = self.world.intent.prepare_description(Self::config(text), &links).ok()?;
        let came = self.world.carry_out(prepared, mishap);
        if came == Came::Done {
            self.file = text.to_owned();
            self.note_kept();
        }
        Some(came)
    }

    /// The state folder writes what is new only.
    fn note_kept(&mut self) {
        let kept = Some(self.world.intent.commands().kept());
        if self.written != kept {
            self.kept.extend(kept.clone());
            self.written = kept;
        }
    }

    /// Some command; `None` if there is nothing to do, or it cannot be.
    fn command(&mut self, mishap: Mishap) -> Option<Came> {
        let random = &mut self.random;
        let intent = &mut self.world.intent;
        let named = |id: &&ObjectId, wanted: &str| {
            id.to_string().starts_with(wanted) && !id.to_string().contains("w1 ") && !id.to_string().contains(" w2")
        };
        let pick = |random: &mut Random, intent: &Intent, wanted: &str| {
            let all: Vec<ObjectId> = intent.applied().keys().filter(|id| named(id, wanted)).cloned().collect();
            // The link between the switches carries the witness.
            let all: Vec<ObjectId> = all.into_iter().filter(|id| id.to_string() != "link s1:1 - s2:1").collect();
            (!all.is_empty()).then(|| all[random.below(all.len() as u64) as usize].clone())
        };
        let prepared = match random.below(6) {
            0 | 1 => {
                let circuit = circuit(random);
                let spec = Spec::Circuit(circuit.describe().ok()?);
                intent.prepare_added(spec, None, Some(Written::Circuit(Box::new(circuit)))).ok()?.1
            }
            2 => {
                let host = HOSTS[random.below(3) as usize];
                let switch = format!("s{}", 1 + random.below(2));
                let link = link(random, [host.to_owned(), switch]);
                let (description, shell) = link.describe(Path::new("")).ok()?;
                let spec = LinkSpec { description, shell, follows: None, enabled: true, signalling: None };
                let written = Some(Written::Link(Box::new(link)));
                intent.prepare_added(Spec::Link(Box::new(spec)), None, written).ok()?.1
            }
            3 => {
                let id = pick(random, intent, "circuit")?;
                intent.prepare_removed(&id).ok()?.1
            }
            4 => {
                let id = pick(random, intent, "link")?;
                intent.prepare_removed(&id).ok()?.1
            }
            _ => {
                let (id, up) = (pick(random, intent, "link")?, random.one_in(2));
                intent.prepare_up(&id, up).ok()?
            }
        };
        let came = self.world.carry_out(prepared, mishap);
        if came == Came::Done {
            self.note_kept();
        }
        Some(came)
    }

    /// The system has closed what a dead daemon had open, and another one starts.
    fn start_again(&mut self) {
        self.world.state_writer.end();
        self.world = World::start(self.folder.path());
    }

    /// The daemon has died. It starts again with the description as it is; true if its last write was torn.
    fn restart(&mut self) -> bool {
        self.restarts += 1;
        self.world.nothing_is_lost(self.seed);
        let path = self.folder.path().join("state.json");
        let torn = self.random.one_in(3) && self.kept.len() > 1 && path.exists();
        if torn {
            let whole = std::fs::read(&path).unwrap();
            let cut = self.random.below(whole.len() as u64) as usize;
            std::fs::write(&path, &whole[..cut]).unwrap();
            self.kept.pop();
        }
        if self.random.one_in(4) {
            // It died while it wrote the next one.
            std::fs::write(self.folder.path().join("state.new"), b"cellway-state 1 99").unwrap();
        }
        self.start_again();
        self.written = None;
        let file = self.file.clone();
        let kept = self.kept.last().cloned().unwrap_or_default();
        assert_eq!(self.describe(&file, Mishap::None), Some(Came::Done), "seed {}: it starts again", self.seed);
        // What was kept is wanted again, but for what does not fit the description any more.
        let again = self.world.intent.commands().kept();
        assert!(again.added.iter().all(|added| kept.added.contains(added)), "seed {}", self.seed);
        // What was kept before the last description may have removed what that one needs.
        assert!(again.removed.iter().all(|id| kept.removed.contains(id)), "seed {}", self.seed);
        assert!(torn || again.removed == kept.removed, "seed {}", self.seed);
        self.world.attach_witness();
        torn
    }

    fn step(&mut self) {
        let (seed, before, objects) = (self.seed, self.world.fingerprint(), self.world.objects());
        let mishap = match self.random.below(6) {
            0 | 1 => Mishap::Step(self.random.below(8) as usize),
            2 => Mishap::Crash(self.random.below(4) as usize),
            _ => Mishap::None,
        };
        let came = if self.random.one_in(3) {
            let text = description(&mut self.random);
            self.describe(&text, mishap)
        } else {
            self.command(mishap)
        };
        match came {
            None | Some(Came::Undone) => {
                self.undone += 1;
                assert_eq!(self.world.fingerprint(), before, "seed {seed}: not as it was");
                assert_eq!(self.world.objects(), objects, "seed {seed}");
            }
            Some(Came::Done) => self.done += 1,
            Some(Came::Died) => {
                // Nothing had been kept of what it died in. On a way that was found anew, less may fit.
                if !self.restart() {
                    let mut expected = objects;
                    expected.retain(|id, _| !self.world.dropped.contains(&id.to_string()));
                    assert_eq!(self.world.objects(), expected, "seed {seed}: another state than before");
                }
            }
        }
        self.world.agrees(seed);
        self.world.pass(3, true);
    }
}

fn sequence(seed: u64) {
    let mut life = Life::begin(seed);
    for _ in 0..10 {
        life.step();
    }
    if life.random.one_in(2) {
        life.restart();
        life.world.pass(3, true);
    }
    assert!(life.done + life.undone + life.restarts >= 10);
    life.world.nothing_is_lost(seed);
    // All of it can go again, and leaves nothing.
    let nothing = Config::default();
    let prepared = life.world.intent.prepare_description(nothing, &Understood::default()).unwrap();
    life.world.witness = None;
    assert_eq!(life.world.carry_out(prepared, Mishap::None), Came::Done, "seed {seed}");
    let left = life.world.fingerprint();
    assert!(left.is_empty(), "seed {seed}: {left:?}");
    assert_eq!(life.world.network.nodes().count() + life.world.network.links().count(), 0, "seed {seed}");
    assert_eq!(life.world.network.pool().in_use(), 0, "seed {seed}");
}

#[test]
fn what_a_command_removed_is_there_again_where_another_description_needs_it() {
    let mut life = Life::begin(1);
    let describe = |circuit: &str| {
        format!(
            "[switch.s1]\n[switch.s2]\n{WITNESS}[host.a]\n[host.b]\n[[link]]\nends = [\"a\", \"s1:2\"]\n[[link]]\nends = [\"b\", \"s1:3\"]\n\
             [[circuit]]\nends = [\"a {circuit}\", \"b {circuit}\"]\n[[circuit]]\nends = [\"a 0.50\", \"b 0.50\"]\n"
        )
    };
    assert_eq!(life.describe(&describe("0.40"), Mishap::None), Some(Came::Done));
    for name in ["a 0.50 - b 0.50", "a - s1:2"] {
        let intent = &mut life.world.intent;
        let id = intent.applied().keys().find(|id| id.to_string().ends_with(name)).unwrap().clone();
        let prepared = intent.prepare_removed(&id).unwrap().1;
        assert_eq!(life.world.carry_out(prepared, Mishap::None), Came::Done);
    }
    life.start_again();
    assert_eq!(life.describe(&describe("0.41"), Mishap::None), Some(Came::Done));
    let names: Vec<String> = life.world.intent.applied().keys().map(ToString::to_string).collect();
    let has = |name: &str| names.iter().any(|known| known.ends_with(name));
    assert!(has("a - s1:2") && has("a 0.41 - b 0.41") && !has("a 0.50 - b 0.50"), "{names:?}");
}

#[test]
fn what_a_command_added_in_the_place_of_the_description_s_stays_until_that_is_applied_exactly() {
    let mut life = Life::begin(1);
    let text = format!(
        "[switch.s1]\n[switch.s2]\n{WITNESS}[host.a]\n[host.b]\n[[link]]\nends = [\"a\", \"s1:2\"]\n[[link]]\nends = [\"b\", \"s1:3\"]\n\
         [[circuit]]\nends = [\"a 0.40\", \"b 0.40\"]\n"
    );
    assert_eq!(life.describe(&text, Mishap::None), Some(Came::Done));
    let id = life.world.intent.applied().keys().find(|id| id.to_string().ends_with("a 0.40 - b 0.40")).unwrap().clone();
    let removed = life.world.intent.prepare_removed(&id).unwrap().1;
    assert_eq!(life.world.carry_out(removed, Mishap::None), Came::Done);
    let circuit: Circuit =
        toml::from_str("ends = [\"a 0.40\", \"b 0.40\"]\ncategory = \"cbr\"\npcr = \"9 cell/s\"").unwrap();
    let spec = Spec::Circuit(circuit.describe().unwrap());
    let added = life.world.intent.prepare_added(spec, None, Some(Written::Circuit(Box::new(circuit)))).unwrap().1;
    assert_eq!(life.world.carry_out(added, Mishap::None), Came::Done);
    let objects = life.world.objects();
    assert!(objects[&id].contains("Cbr"));
    life.start_again();
    assert_eq!(life.describe(&text, Mishap::None), Some(Came::Done));
    assert_eq!(life.world.objects(), objects);
    assert_eq!(life.describe(&text, Mishap::None), Some(Came::Done));
    assert_eq!(life.world.objects(), objects, "reading it again keeps what commands did");
    let exactly = life.world.intent.prepare_exactly(Life::config(&text)).unwrap();
    assert_eq!(life.world.carry_out(exactly, Mishap::None), Came::Done);
    assert!(!life.world.objects()[&id].contains("Cbr"));
    assert!(life.world.intent.deviations().is_empty());
}

/// Files of a certificate that is its own authority.
fn certificates(folder: &Path) -> [std::path::PathBuf; 2] {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(["far.example".to_owned()]).unwrap();
    let paths = ["own.pem", "key.pem"].map(|name| folder.join(name));
    std::fs::write(&paths[0], params.self_signed(&key).unwrap().pem()).unwrap();
    std::fs::write(&paths[1], key.serialize_pem()).unwrap();
    paths
}

#[test]
fn what_commands_added_and_cannot_be_understood_at_a_restart_waits_until_it_can() {
    let mut life = Life::begin(1);
    let text = format!("[switch.s1]\n[switch.s2]\n{WITNESS}[host.a]\n[[link]]\nends = [\"a\", \"s1:2\"]\n");
    assert_eq!(life.describe(&text, Mishap::None), Some(Came::Done));
    let folder = tempfile::tempdir().unwrap();
    let [own, key] = certificates(folder.path());
    let away = folder.path().join("away.pem");
    let written = format!(
        "ends = [\"s1:3\", \"far\"]\ncells_tcp = \"connect 127.0.0.1:9\"\n\
         tls = {{ certificate = {own:?}, key = {key:?}, trust = {own:?}, name = \"far.example\" }}\n"
    );
    let link: Link = toml::from_str(&written).unwrap();
    let (description, shell) = link.describe(Path::new("")).unwrap();
    let spec = LinkSpec { description, shell, follows: None, enabled: true, signalling: None };
    let (spec, written) = (Spec::Link(Box::new(spec)), Written::Link(Box::new(link)));
    let added = life.world.intent.prepare_added(spec, Some("far".into()), Some(written)).unwrap().1;
    assert_eq!(life.world.carry_out(added, Mishap::None), Came::Done);
    let circuit: Circuit = toml::from_str("ends = [\"a 0.40\", \"far 0.40\"]").unwrap();
    let (spec, written) = (Spec::Circuit(circuit.describe().unwrap()), Written::Circuit(Box::new(circuit)));
    let added = life.world.intent.prepare_added(spec, None, Some(written)).unwrap().1;
    assert_eq!(life.world.carry_out(added, Mishap::None), Came::Done);
    let (all, kept) = (life.world.objects(), life.world.intent.commands().kept());
    assert_eq!(kept.added.len(), 2);

    let again = |life: &mut Life| {
        life.start_again();
        assert_eq!(life.describe(&text, Mishap::None), Some(Came::Done));
    };
    for twice in [false, true] {
        std::fs::rename(&key, &away).unwrap();
        again(&mut life);
        if twice {
            again(&mut life);
        }
        assert_eq!(life.world.objects().len(), all.len() - 3, "neither the link nor what is at it");
        assert_eq!(life.world.intent.commands().kept(), kept);
        std::fs::rename(&away, &key).unwrap();
        if twice {
            // The same description, read again.
            assert_eq!(life.describe(&text, Mishap::None), Some(Came::Done));
        } else {
            again(&mut life);
        }
        assert_eq!(life.world.objects(), all);
    }
    // A description is applied without a look at what they name: somebody else has looked, or they wait on.
    life.start_again();
    let prepared = life.world.intent.prepare_description(Life::config(&text), &Understood::default()).unwrap();
    assert_eq!(life.world.carry_out(prepared, Mishap::None), Came::Done);
    assert_eq!(life.world.objects().len(), all.len() - 3);
    assert_eq!(life.world.intent.commands().kept(), kept);
    // What waits goes by a command.
    std::fs::rename(&key, &away).unwrap();
    again(&mut life);
    let ends = ["a 0.40", "far 0.40"].map(|end| end.parse().unwrap());
    let intent = &life.world.intent;
    let waits = [intent.find_link("s1:3 - far").unwrap().clone(), intent.find_circuit(&ends).unwrap()];
    for id in waits {
        let (gone, prepared) = life.world.intent.prepare_removed(&id).unwrap();
        assert_eq!(gone, [id]);
        assert_eq!(life.world.carry_out(prepared, Mishap::None), Came::Done);
    }
    assert_eq!(life.world.intent.commands().kept(), Kept::default());
    std::fs::rename(&away, &key).unwrap();
    again(&mut life);
    assert_eq!(life.world.objects().len(), all.len() - 3);
}

#[test]
fn random_changes_failures_and_restarts_end_in_what_is_wanted_or_in_what_was_in_the_long_run() {
    if let Some(seed) = std::env::var("CELLWAY_SEED").ok().and_then(|seed| seed.parse().ok()) {
        return sequence(seed);
    }
    let n = if std::env::var_os("CELLWAY_LONG").is_some() { 10_000 } else { 150 };
    for seed in 0..n {
        if std::panic::catch_unwind(|| sequence(seed)).is_err() {
            panic!("repeat it: CELLWAY_SEED={seed} cargo test -p cellway-control --test all restarts::");
        }
    }
}
