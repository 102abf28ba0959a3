//! A daemon with hosts and switches that signal.

use control::audit::Who;
use control::calls::call_controller::CallController;
use control::calls::report::CallsStatus;
use control::config::parse;
use control::controller::Applying;
use control::daemon::Daemon;
use net::{End, SwitchElement};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use wire::Time;
use wire::aesa::Aesa;

/// Two hosts at one switch.
pub(crate) const STAR: &str = r#"
[host.alpha]
[host.beta]
[switch.s1]
prefix = "47000580ffe100000000000001"
[[link]]
ends = ["alpha", "s1:0"]
rate = "OC-3c"
signalling = { version = "uni31" }
[[link]]
ends = ["beta", "s1:1"]
rate = "OC-3c"
signalling = { version = "uni40" }
"#;

/// Two switches by two links of IISP, with hosts at both.
pub(crate) const TWO: &str = r#"
[host.alpha]
[host.gamma]
[switch.s1]
prefix = "47000580ffe100000000000001"
[[link]]
ends = ["alpha", "s1:0"]
signalling = { version = "uni31" }
[[link]]
ends = ["gamma", "s1:1"]
signalling = { version = "uni31" }
# s2
[host.beta]
[switch.s2]
prefix = "47000580ffe100000000000002"
[[link]]
ends = ["beta", "s2:0"]
signalling = { version = "uni31" }
[[link]]
ends = ["s1:2", "s2:2"]
signalling = { version = "iisp", side = "user" }
[[link]]
ends = ["s1:3", "s2:3"]
signalling = { version = "iisp" }
"#;

pub(crate) struct Ground {
    pub(crate) socket: PathBuf,
    daemon: Daemon,
    _folder: tempfile::TempDir,
}

impl Ground {
    /// A daemon whose signalling links are up, and whose hosts have addresses.
    pub(crate) fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("cellway.sock");
        let daemon = Daemon::start(parse(text, "net.toml").unwrap(), &socket).unwrap();
        let ground = Ground { socket, daemon, _folder: folder };
        ground.await_links();
        ground
    }

    fn await_links(&self) {
        self.until("the signalling links are up", |status| {
            let registered =
                |i: &control::calls::report::InterfaceStatus| i.version == "iisp" || !i.addresses.is_empty();
            status.interfaces.iter().all(|interface| interface.up && registered(interface))
        });
    }

    pub(crate) fn try_apply(&self, text: &str) -> anyhow::Result<()> {
        let how = Applying::default();
        self.daemon.controller().apply(parse(text, "net.toml")?, &Who::Operator, &|_| Ok(()), how).map(drop)
    }

    pub(crate) fn apply(&self, text: &str) {
        self.try_apply(text).unwrap();
        self.await_links();
    }

    pub(crate) fn status(&self) -> CallsStatus {
        self.daemon.controller().calls().report()
    }

    /// What call control does at one moment: nothing else is signalled before it is over.
    pub(crate) fn controller<R>(&self, does: impl FnOnce(&mut CallController, Time) -> R) -> R {
        self.daemon.controller().calls().with(does)
    }

    pub(crate) fn until(&self, what: &str, mut is: impl FnMut(&CallsStatus) -> bool) {
        let begin = Instant::now();
        while !is(&self.status()) {
            assert!(begin.elapsed() < Duration::from_secs(30), "{what}: {:#?}", self.status());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends cells of a circuit from the host at port 0 of a switch at once, past its pacers; how many the switch polices.
    pub(crate) fn overload(&self, (host, switch): (&str, &str), circuit: wire::CircuitId, cells: usize) -> u64 {
        let (host, switch) = (host.to_owned(), switch.to_owned());
        let policed = self.daemon.engine.with(move |core| {
            let policed = |core: &mut host::engine::Core| {
                let node = core.fabric.node(&switch).unwrap();
                let switch = core.network.node_mut::<SwitchElement>(node).unwrap();
                let route = switch.routes().find(|r| (r.port, r.label) == (0, wire::Label::Vc(circuit))).unwrap();
                let to = (route.branches[0].port, route.branches[0].label);
                switch.circuit_counters((route.port, route.label), to).unwrap().policed
            };
            let (before, now) = (policed(core), core.now());
            let node = core.fabric.node(&host).unwrap();
            core.network.with_node::<host::HostInterface, _>(node, now, |_, io| {
                let header = wire::CellHeader { circuit, ..wire::CellHeader::default() };
                (0..cells).for_each(|_| assert!(io.put_cell(0, &wire::Cell::new(header, [7; 48]))));
            });
            while core.network.run(now) {}
            policed(core) - before
        });
        policed.unwrap()
    }

    /// The addresses of a host.
    pub(crate) fn addresses<const N: usize>(&self, host: &str) -> [Aesa; N] {
        let all = self.daemon.controller().calls().with(|controller, _| controller.addresses(host)).unwrap();
        all.try_into().unwrap_or_else(|all| panic!("{host} has {all:?}"))
    }

    /// Until no call, label or route of a call is left.
    pub(crate) fn await_quiet(&self) {
        self.until("all calls are gone", |status| {
            let idle = status.interfaces.iter().all(|interface| interface.calls == 0 && interface.labels == 0);
            status.calls.is_empty() && status.through.is_empty() && idle
        });
        let left = self.daemon.engine.with(|core| {
            let names: Vec<String> = core.fabric.stations().map(|(name, _)| name.to_owned()).collect();
            let mut left = Vec::new();
            for name in names {
                let Some(node) = core.fabric.node(&name) else { continue };
                if let Some(switch) = core.network.node_mut::<SwitchElement>(node) {
                    let labels = switch.routes().map(|route| route.label);
                    left.extend(labels.filter(|label| matches!(label, wire::Label::Vc(c) if c.vci.get() >= 1024)));
                }
                if let Some((_, host)) = core.host(&name) {
                    let circuits = host.circuits().into_iter().map(|circuit| wire::Label::Vc(circuit.circuit));
                    left.extend(circuits.filter(|label| matches!(label, wire::Label::Vc(c) if c.vci.get() >= 1024)));
                }
            }
            left
        });
        assert_eq!(left.unwrap(), [], "circuits are left");
    }

    /// Garbage on the signalling channel of a port that has no user: a million PDUs a minute.
    pub(crate) fn flood(&self, switch: &str, port: u16) -> Flood {
        let text = STAR.to_owned()
            + &format!(
                "[outside.far]\n[[link]]\nends = [\"far\", \"{switch}:{port}\"]\nrate = \"25 Mbit/s\"\ncells_udp = {{ local = \"127.0.0.1:0\", peer = \"127.0.0.1:9\" }}\n\
                 signalling = {{ version = \"uni31\", ilmi = false }}\n"
            );
        self.try_apply(&text).unwrap();
        let switch = switch.to_owned();
        // Where the socket was, the flood is.
        let link = self.daemon.engine.with(move |core| {
            let node = core.fabric.node(&switch).unwrap();
            let at = |link: &net::LinkInfo<'_>| link.ends.contains(&End::Port(node, port));
            let link = core.network.links().find(at).unwrap().id;
            let shell = core.network.detach(link);
            core.network.attach(link, Box::new(external::Garbage::default()));
            (link, shell.is_some())
        });
        let (link, had) = link.unwrap();
        assert!(had);
        Flood { engine: self.daemon.engine.clone(), link }
    }
}

pub(crate) struct Flood {
    engine: host::engine::EngineHandle,
    link: net::LinkId,
}

impl Flood {
    /// Ends it: PDUs sent, and cells or PDUs of them that were dropped and counted.
    pub(crate) fn stop(self) -> (u64, u64) {
        let link = self.link;
        let ended = self.engine.with(move |core| {
            let (_, shell) = core.network.externals().find(|(id, _)| *id == link).unwrap();
            let sent = shell.counters().iter().map(|(_, counters)| counters.pdus).sum();
            let node = core.network.node_named("s1 signalling").unwrap();
            let host = core.network.node_mut::<host::HostInterface>(node).unwrap();
            let dropped: u64 = host.circuits().iter().map(|circuit| circuit.received.dropped_total()).sum();
            core.network.detach(link);
            (sent, dropped)
        });
        ended.unwrap()
    }
}

mod external {
    use net::NodeIo;
    use net::external::External;
    use sar::{SduMeta, Segmentation};
    use std::time::Duration;
    use wire::{Cell, CircuitId, Counters, Time};

    /// PDUs of octets that mean nothing, or nearly something, on VPI 0, VCI 5.
    #[derive(Debug, Default)]
    pub(super) struct Garbage {
        counters: Counters,
        random: u64,
        due: Time,
    }

    impl External for Garbage {
        fn run(&mut self, io: &mut NodeIo<'_>, now: Time) -> bool {
            let taken = io.cells_in(0).len();
            io.consume(0, taken);
            let mut any = false;
            self.due = now + Duration::from_micros(200);
            for _ in 0..64 {
                self.random =
                    self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let octets = 4 + (self.random >> 33) as usize % 200;
                let mut sdu: Vec<u8> = (0..octets).map(|i| (self.random >> (i % 57)) as u8).collect();
                // Every other one ends as an SSCOP PDU does.
                sdu[octets - 4] = if self.random & 1 << 40 == 0 { (self.random >> 41) as u8 & 0xf } else { 1 };
                let mut cells = vec![Cell::default(); wire::aal5::cells(octets)];
                let circuit = CircuitId::new(0, 5).unwrap();
                Segmentation::new(circuit, octets, SduMeta::default()).unwrap().fill(&sdu, &mut cells);
                if io.room(0) < cells.len() {
                    break;
                }
                for cell in &cells {
                    io.put_cell(0, cell);
                }
                any = true;
                self.counters.pdus += 1;
            }
            any
        }

        fn status(&self) -> String {
            "floods".into()
        }

        fn is_up(&self) -> bool {
            true
        }

        fn poll_timeout(&self) -> Option<Time> {
            Some(self.due)
        }

        fn counters(&self) -> Vec<(&'static str, Counters)> {
            vec![("garbage", self.counters)]
        }
    }
}
