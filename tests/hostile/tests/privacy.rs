//! Nobody reads another's data: a pattern is sent on one circuit, and looked for in all that others can reach.

use endpoint::control::{Request, Response};
use endpoint::layout::{Descriptor, Head};
use endpoint::segment::Segment;
use endpoint::seqpacket::Packets;
use endpoint::{DataPath, Events, Geometry, Local, OpenOptions};
use hostile::{Field, Ground, circuit, frames};
use net::LinkConfig;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use traffic::Contract;

const SECRET: [u8; 8] = [0xc5, 0x3e, 0x91, 0x7a, 0xe4, 0x58, 0xb6, 0x2d];
const GEOMETRY: Geometry =
    Geometry { send_ring: 64, receive_ring: 64, free_ring: 64, buffers: 32, buffer_octets: 16_384 };

/// A client that looks at all of its memory.
struct Curious {
    _packets: Packets,
    memory: File,
    local: Local,
    channel: u32,
}

impl Curious {
    fn new(ground: &Ground, host: &str, vci: u16, path: DataPath) -> Self {
        let packets = Packets::connect(ground.socket()).unwrap();
        let ask = |request: &Request| {
            packets.send(request, &[]).unwrap();
            let answer = packets.receive::<Response>().unwrap().expect("an answer");
            assert!(!matches!(answer.0, Response::Refused { .. }), "{:?}", answer.0);
            answer
        };
        ask(&Request::hello());
        let create = Request::CreateEndpoint { host: host.into(), geometry: GEOMETRY, events: Events::Polling, path };
        let (_, fds) = ask(&create);
        let memory = fds.into_iter().next().unwrap();
        let segment = Arc::new(Segment::open(&memory, GEOMETRY).unwrap());
        let Response::Opened { channel } = ask(&Request::open(circuit(vci), OpenOptions::default())).0 else {
            panic!("the circuit does not open");
        };
        let mut local = Local::new(&segment);
        (0..GEOMETRY.buffers / 2).for_each(|buffer| assert!(local.free.push(Head::of_buffer(buffer))));
        Curious { _packets: packets, memory: memory.into(), local, channel: channel.0 }
    }

    fn all(&self) -> Vec<u8> {
        let mut octets = vec![0; GEOMETRY.octets()];
        self.memory.read_exact_at(&mut octets, 0).unwrap();
        octets
    }

    /// Whether four octets of the pattern, one after another, are anywhere in its memory.
    fn knows_the_secret(&self) -> bool {
        let all = self.all();
        (0..SECRET.len()).any(|from| {
            let part: Vec<u8> = (from..from + 4).map(|at| SECRET[at % SECRET.len()]).collect();
            all.windows(4).any(|window| window == part)
        })
    }

    fn send(&mut self, octets: usize) {
        let buffer = GEOMETRY.buffers - 1;
        let mut d = Descriptor::from(Head::of_buffer(if octets <= 40 { Descriptor::INLINE } else { buffer }));
        (d.head.channel, d.head.octets) = (self.channel, octets as u32);
        let at = GEOMETRY.buffer_at(buffer).unwrap();
        self.local.segment.copy_in(at, &vec![1; octets]);
        d.inline[..octets.min(40)].fill(1);
        assert!(self.local.send.push(d));
    }

    fn receive(&mut self, octets: usize) {
        let patience = Instant::now() + Duration::from_secs(5);
        let d = loop {
            if let Some(d) = self.local.receive.pop() {
                break d;
            }
            assert!(Instant::now() < patience, "{octets} octets did not come");
            std::thread::yield_now();
        };
        assert_eq!(d.head.octets as usize, octets);
        if d.head.buffer != Descriptor::INLINE {
            assert!(self.local.free.push(Head::of_buffer(d.head.buffer)));
        }
    }
}

/// Sends the pattern both ways, in PDUs of many sizes; both endpoints go afterwards.
fn share_a_secret(ground: &Ground) {
    let (mut a, there) = ground.open("alpha", 100);
    let (mut b, back) = ground.open("beta", 100);
    let patience = Some(Duration::from_secs(5));
    for octets in [8, 40, 48, 400, 1500, 9180, 65_528] {
        let sdu: Vec<u8> = SECRET.iter().copied().cycle().take(octets).collect();
        a.send_copy(there, &sdu).unwrap();
        assert!(b.receive(patience).unwrap().is_some_and(|got| got[..] == sdu));
        b.send_copy(back, &sdu).unwrap();
        assert!(a.receive(patience).unwrap().is_some_and(|got| got[..] == sdu));
    }
}

#[test]
fn no_memory_of_a_client_holds_what_another_has_sent_or_received() {
    for (config, path) in [
        (LinkConfig::default(), DataPath::Shared),
        (LinkConfig::default(), DataPath::Copying),
        (frames(), DataPath::Shared),
        (frames(), DataPath::Copying),
    ] {
        let ground = Ground::build()
            .host("alpha")
            .host("beta")
            .switch("s1")
            .link("alpha", "s1:0", config.clone())
            .link("beta", "s1:1", config)
            .circuit("alpha 0.100", "beta 0.100", Contract::default())
            .circuit("alpha 0.200", "beta 0.200", Contract::default())
            .up();
        let mut eve = Curious::new(&ground, "alpha", 200, path);
        let mut mallory = Curious::new(&ground, "beta", 200, path);
        for octets in [1, 3, 39, 40, 41, 47, 100, 1499, 9000, 16_384] {
            share_a_secret(&ground);
            eve.send(octets);
            mallory.receive(octets);
            mallory.send(octets);
            eve.receive(octets);
        }
        for (name, client) in [("eve", &eve), ("mallory", &mallory)] {
            assert!(!client.knows_the_secret(), "{name} has read the other circuit ({path:?})");
        }
    }
}

#[test]
fn the_memory_of_a_new_endpoint_holds_nothing_of_those_that_are_gone() {
    let ground = Ground::build()
        .host("alpha")
        .host("beta")
        .link("alpha", "beta", LinkConfig::default())
        .circuit("alpha 0.100", "beta 0.100", Contract::default())
        .circuit("alpha 0.200", "beta 0.200", Contract::default())
        .up();
    for _ in 0..20 {
        share_a_secret(&ground);
        let client = Curious::new(&ground, "alpha", 200, DataPath::Shared);
        let all = client.all();
        let buffers = &all[GEOMETRY.buffers_at()..];
        assert!(buffers.iter().all(|octet| *octet == 0), "a new buffer is not empty");
        assert!(!client.knows_the_secret());
    }
}
