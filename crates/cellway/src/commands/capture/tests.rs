//! The stream, the PDUs that are put together from it, and the pump with a recorder that goes step by step.

use super::assemble::Recorder;
use super::{Records, What, Written};
use control::capture::pump;
use control::capture::stream::{Item, Reader, write};
use host::engine;
use net::tap::Tapped;
use net::{
    Carries, End, FrameAal, FramePool, LinkConfig, LinkId, Network, Node, NodeIo, Side, TapBuffer, TapConfig, TapRecord,
};
use sar::SduMeta;
use std::any::Any;
use std::io::{BufReader, Read};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use wire::{Cell, CircuitId, Time};

const GENEROUS: Duration = Duration::from_secs(60);

fn circuit() -> CircuitId {
    CircuitId::new(0, 100).unwrap()
}

fn cells_of(sdu: &[u8]) -> Vec<Cell> {
    let mut segmentation = sar::Segmentation::new(circuit(), sdu.len(), SduMeta::default()).unwrap();
    let mut cells = vec![Cell::default(); segmentation.cells_left()];
    segmentation.fill(sdu, &mut cells);
    cells
}

/// Sends what it has; takes all that comes; counts its rounds.
#[derive(Default)]
struct Source {
    cells: Vec<Cell>,
    sdus: Vec<Vec<u8>>,
    rounds: Arc<AtomicU64>,
}

impl Node for Source {
    fn run(&mut self, io: &mut NodeIo<'_>, _: Time) -> bool {
        self.rounds.fetch_add(1, Ordering::Relaxed);
        let came = io.cells_in(0).len();
        io.consume(0, came);
        let sent = self.cells.iter().take_while(|cell| io.put_cell(0, cell)).count();
        self.cells.drain(..sent);
        let mut any = came + sent > 0;
        while io.frame_in(0).is_some() {
            io.release_frame(0);
            any = true;
        }
        while let (Some(sdu), true) = (self.sdus.first(), io.carries(0) == Some(Carries::Frames) && io.room(0) > 0) {
            let meta = SduMeta { uu: 7, cpi: 1, clp: true, congestion: true };
            let frame = io.pool_mut().copy_in(circuit(), FrameAal::Aal5, meta, sdu).unwrap();
            io.put_frame(0, frame).unwrap();
            self.sdus.remove(0);
            any = true;
        }
        any
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

fn network(carries: Carries, source: Source, tap: &TapConfig) -> (Network, LinkId) {
    let mut network = Network::new(FramePool::new(64, 65_536));
    let a = network.add_node("a", Box::new(source));
    let b = network.add_node("b", Box::<Source>::default());
    let config = LinkConfig { carries, ..LinkConfig::default() };
    let link = network.connect(End::Port(a, 0), End::Port(b, 0), config).unwrap();
    network.set_tap(link, Some(tap.clone()));
    (network, link)
}

fn seen(carries: Carries, source: Source, tap: &TapConfig) -> TapBuffer {
    let (mut network, link) = network(carries, source, tap);
    while network.run(Time::from_millis(3)) {}
    let mut buffer = TapBuffer::new(tap);
    assert!(network.drain_tap(link, &mut buffer));
    buffer
}

/// What a recorder makes of stretches, between any two of which something was missed.
fn recorded(stretches: &[&[Cell]]) -> Written {
    let mut recorder = Recorder::new(Vec::new(), "link", What::Pdus, Duration::ZERO).unwrap();
    for (n, stretch) in stretches.iter().enumerate() {
        if n > 0 {
            recorder.gap();
        }
        for cell in *stretch {
            let what = Tapped::Cell(cell);
            recorder.take(&TapRecord { at: Time::ZERO, from: Side::A, what }).unwrap();
        }
    }
    recorder.finish(0).unwrap()
}

#[test]
fn the_stream_says_what_the_tap_has_seen() {
    let few = TapConfig { records: 3, ..TapConfig::default() };
    let cells = cells_of(&[0x33; 200]);
    let sdus = vec![vec![1; 1], (0..60_000).map(|n| n as u8).collect(), vec![9; 48], vec![8; 8]];
    for (carries, missed) in [(Carries::Cells, 2), (Carries::Frames, 1)] {
        let buffer = seen(carries, Source { cells: cells.clone(), sdus: sdus.clone(), ..Source::default() }, &few);
        let mut octets = Vec::new();
        let halves = [buffer, TapBuffer::default()];
        write(&halves, &mut octets).unwrap();
        let mut reader = Reader::new(&octets[..]);
        for record in halves[0].records() {
            assert_eq!(reader.read().unwrap(), Some(Item::Record(record)));
        }
        assert_eq!(reader.read().unwrap(), Some(Item::Mark { missed }));
        assert_eq!(reader.read().unwrap(), None);
        let cut = octets.len() - 30;
        let mut reader = Reader::new(&octets[..cut]);
        while let Ok(Some(_)) = reader.read() {}
    }
}

#[test]
fn a_stream_of_nonsense_is_refused() {
    let mut nonsense = [77; 40];
    assert!(Reader::new(&nonsense[..]).read().is_err());
    nonsense[0] = 3;
    assert!(Reader::new(&nonsense[..]).read().is_err(), "a frame of a gigabyte");
}

#[test]
fn a_pdu_across_a_gap_is_left_out_and_no_two_become_one() {
    let (a, b, c) = (cells_of(&[1; 400]), cells_of(&[2; 400]), cells_of(&[3; 400]));
    let all = [&a[..], &b, &c].concat();
    let whole = recorded(&[&all]);
    assert_eq!((whole.records, whole.incomplete), (3, 0));
    // The first half of one, then the second half of another: as many cells as one PDU has.
    let half = a.len() / 2;
    let torn = recorded(&[&all[..half], &all[half + a.len()..]]);
    assert_eq!((torn.records, torn.incomplete), (1, 1));
    let between = recorded(&[&all[..a.len()], &all[2 * a.len()..]]);
    assert_eq!((between.records, between.incomplete), (2, 0));
    let late = recorded(&[&all[3..]]);
    assert_eq!((late.records, late.incomplete), (2, 1), "a capture that begins within a PDU");
}

#[test]
fn a_capture_that_is_read_only_when_all_has_passed_has_all_of_it() {
    // Half a second of OC-3c, and a recorder that stands still meanwhile.
    let sdu = vec![0x42; 9188];
    let one = cells_of(&sdu);
    let pdus = 353_207 / 2 / one.len();
    let tap = TapConfig::default();
    let (network, link) = network(Carries::Cells, Source { cells: one.repeat(pdus), ..Source::default() }, &tap);
    let engine = engine::start(network).unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    pump::start(engine.clone(), link, &tap, theirs).unwrap();
    let end = Instant::now() + GENEROUS;
    let sent = || engine.with(move |core| core.network.link_info(link).unwrap().from_a.sent.cells).unwrap();
    while sent() < (pdus * one.len()) as u64 {
        assert!(Instant::now() < end, "{} cells sent", sent());
        std::thread::sleep(Duration::from_millis(1));
    }
    ours.shutdown(Shutdown::Write).unwrap();
    let mut recorder = Recorder::new(Vec::new(), "link", What::Pdus, Duration::ZERO).unwrap();
    assert_eq!(super::take_all(&mut recorder, &ours).unwrap(), 0);
    let written = recorder.finish(0).unwrap();
    assert_eq!((written.records, written.incomplete), (pdus as u64, 0));
    engine.stop();
}

#[test]
fn a_capture_of_a_quiet_link_wakes_nobody_and_has_the_first_cell_that_passes() {
    let source = Source::default();
    let rounds = source.rounds.clone();
    let tap = TapConfig::default();
    let (network, link) = network(Carries::Cells, source, &tap);
    let engine = engine::start(network).unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    pump::start(engine.clone(), link, &tap, theirs).unwrap();
    let mut reader = Reader::new(BufReader::new(&ours));
    for n in 0..3 {
        let before = rounds.load(Ordering::Relaxed);
        // A pump that looks by itself, as often as it may, would make some hundred rounds.
        std::thread::sleep(Duration::from_secs(1));
        let quiet = rounds.load(Ordering::Relaxed) - before;
        assert!(quiet < 20, "{quiet} rounds in a second");
        let mut sent = Cell::default();
        sent.payload = [n; 48];
        let send = move |core: &mut engine::Core| {
            let node = core.network.node_named("a").unwrap();
            core.network.node_mut::<Source>(node).unwrap().cells.push(sent);
        };
        engine.with(send).unwrap();
        match reader.read().unwrap() {
            Some(Item::Record(TapRecord { what: Tapped::Cell(cell), .. })) => assert_eq!(*cell, sent),
            other => panic!("{other:?}"),
        }
        assert_eq!(reader.read().unwrap(), Some(Item::Mark { missed: 0 }));
    }
    engine.stop();
    assert_eq!(reader.read().unwrap(), None, "with the network the capture ends");
}

#[test]
fn what_the_tap_has_no_room_for_is_counted_and_a_recorder_that_goes_ends_the_capture() {
    let tap = TapConfig { records: 100, ..TapConfig::default() };
    let (network, link) =
        network(Carries::Cells, Source { cells: vec![Cell::default(); 1000], ..Source::default() }, &tap);
    let engine = engine::start(network).unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    pump::start(engine.clone(), link, &tap, theirs).unwrap();
    let (mut records, mut missed) = (0, 0);
    let mut reader = Reader::new(BufReader::new(&ours));
    while records + missed < 1000 {
        match reader.read().unwrap().expect("the capture goes on") {
            Item::Record(_) => records += 1,
            Item::Mark { missed: more } => missed += more,
        }
    }
    assert!(records >= 100);
    drop(ours);
    let end = Instant::now() + GENEROUS;
    while engine.with(move |core| core.network.has_tap(link)).unwrap() {
        assert!(Instant::now() < end, "the tap stays");
        std::thread::sleep(Duration::from_millis(1));
    }
    engine.stop();
}

#[test]
fn when_the_link_goes_the_capture_ends() {
    let tap = TapConfig::default();
    let (network, link) = network(Carries::Frames, Source { sdus: vec![vec![5; 50]; 9], ..Source::default() }, &tap);
    let engine = engine::start(network).unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    pump::start(engine.clone(), link, &tap, theirs).unwrap();
    ours.set_read_timeout(Some(GENEROUS)).unwrap();
    let mut first = [0];
    (&ours).read_exact(&mut first).unwrap();
    engine.with(move |core| core.network.remove_link(link)).unwrap();
    let mut rest = Vec::new();
    (&ours).read_to_end(&mut rest).unwrap();
    engine.stop();
}
