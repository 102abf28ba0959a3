//! Cameras, displays and stores at a desk, in virtual time.

use apic::desk::Shape;
use apic::desk::device::{
    Camera, CameraSettings, Device, Display, DisplaySettings, Shell, Store, StoreSettings, Writer, make,
};
use apic::desk::video::{Part, pattern};
use apic::desk::{Desk, Layout, device};
use apic::{Config, Port, Switches};
use net::random::Random;
use net::{
    CircuitNotice, End, FaultConfig, FrameAal, FramePool, Label, LinkConfig, LinkId, Network, Node, NodeId, NodeIo,
    RouteOptions, RouteTable,
};
use std::collections::BTreeMap;
use std::time::Duration;
use traffic::{Category, Contract};
use wire::{Cell, CellHeader, CellRate, CircuitId, Counters, DropReason, PayloadType, Time};

fn vc(vci: u16) -> CircuitId {
    CircuitId::new(0, vci).unwrap()
}

struct World {
    network: Network,
    desk: NodeId,
    links: BTreeMap<usize, LinkId>,
    now: Time,
    /// Moments at which something was to be done.
    wakes: u64,
}

impl World {
    fn new(shape: Shape, chips: usize, chip: Config) -> Self {
        World::visited(shape, chips, chip, Duration::ZERO)
    }

    /// A desk that is visited once in a while, as that of a daemon.
    fn visited(shape: Shape, chips: usize, chip: Config, grain: Duration) -> Self {
        let mut network = Network::new(FramePool::new(4, 256));
        let layout = Layout { shape, chips, chip, ..Layout::default() };
        let desk = network.add_node("desk", Box::new(Desk::new(layout).unwrap().with_grain(grain)));
        World { network, desk, links: BTreeMap::new(), now: Time::ZERO, wakes: 0 }
    }

    fn attach(&mut self, port: usize, device: impl Device + 'static, config: LinkConfig) {
        let link = self.network.connect(End::External, End::Port(self.desk, port as u16), config).unwrap();
        assert!(self.network.attach(link, Box::new(Shell::new(device))));
        self.links.insert(port, link);
    }

    /// A circuit between devices, whose ends are told of it.
    fn connect(&mut self, vci: u16, from: usize, to: &[usize], category: Category) {
        // Above what any device sends: devices keep to contracts.
        let pcr = CellRate::from_cells_per_s(1e6);
        let contract = Contract { category, pcr, cdvt: Duration::from_millis(1), ..Contract::default() };
        let options = RouteOptions { contract, ..RouteOptions::default() };
        let label = Label::Vc(vc(vci));
        for port in to {
            let desk: &mut Desk = self.network.node_mut(self.desk).unwrap();
            desk.add_route((from as u16, label), (*port as u16, label), options).unwrap();
        }
        for port in to.iter().chain([&from]) {
            if let Some(link) = self.links.get(port) {
                self.network.set_circuit(*link, vc(vci), Some(CircuitNotice { aal: FrameAal::Aal5, contract }));
            }
        }
    }

    fn run_until(&mut self, end: Time) {
        loop {
            while self.network.run(self.now) {}
            match self.network.poll_timeout().filter(|next| *next <= end) {
                Some(next) => {
                    self.wakes += u64::from(next > self.now);
                    self.now = next.max(self.now);
                }
                None => break,
            }
        }
        self.now = end;
    }

    fn counters(&mut self, port: usize) -> BTreeMap<&'static str, Counters> {
        let link = self.links[&port];
        let (_, device) = self.network.externals().find(|(id, _)| *id == link).unwrap();
        device.counters().into_iter().collect()
    }

    fn frames(&mut self, port: usize, name: &str) -> u64 {
        self.counters(port)[name].pdus
    }
}

fn camera(size: [u16; 2], frames_per_s: f64) -> Camera {
    Camera::new(CameraSettings { size, frames_per_s, ..CameraSettings::default() }, Vec::new())
}

fn display(deadline: Duration) -> Display {
    Display::new(DisplaySettings { deadline, ..DisplaySettings::default() })
}

/// Sends single cells on one circuit as fast as they can go.
struct Flood(CircuitId, Random);

impl Device for Flood {
    fn kind(&self) -> &'static str {
        "flood"
    }
    fn set_circuit(&mut self, _: CircuitId, _: bool) {}
    fn handle_cells(&mut self, _: &[Cell], _: Time) {}
    fn poll_cells(&mut self, out: &mut [Cell], _: Time) -> usize {
        for cell in &mut *out {
            let payload_type = PayloadType::User { congestion: false, end: self.1.happens(0.1) };
            *cell = Cell::new(CellHeader { circuit: self.0, payload_type, clp: false }, [0x55; 48]);
        }
        out.len()
    }
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
    fn status(&self) -> String {
        String::new()
    }
    fn counters(&self) -> Vec<(&'static str, Counters)> {
        Vec::new()
    }
}

#[test]
fn each_frame_of_a_camera_is_on_each_display_in_time() {
    let mut world = World::new(Shape::Chain, 16, Config::default());
    let plain = LinkConfig::default;
    world.attach(0, camera([160, 120], 25.0), plain());
    for port in [7, 15] {
        world.attach(port, display(Duration::from_millis(40)), plain());
    }
    world.connect(100, 0, &[7, 15], Category::Cbr);
    world.run_until(Time::from_millis(2000));
    assert_eq!(world.frames(0, "frames"), 51 - 1, "25 a second, the last one of them under way");
    for port in [7, 15] {
        let shown = world.frames(port, "shown");
        assert!((49..=50).contains(&shown), "{shown}");
        for bad in ["late", "broken", "missing", "damaged", "refused"] {
            assert_eq!(world.frames(port, bad), 0, "{bad}");
        }
    }
    // The last cell leaves at 80 % of a frame's time: a deadline of less cannot be kept, and the display says so.
    let mut world = World::new(Shape::Ring, 4, Config::default());
    world.attach(0, camera([160, 120], 25.0), plain());
    world.attach(2, display(Duration::from_millis(31)), plain());
    world.connect(100, 0, &[2], Category::Cbr);
    world.run_until(Time::from_millis(1000));
    assert_eq!((world.frames(2, "shown"), world.frames(2, "late")), (0, 25));
}

#[test]
fn a_camera_wakes_a_desk_for_groups_of_cells_and_not_for_each() {
    let mut world = World::visited(Shape::Chain, 4, Config::default(), Duration::from_micros(10));
    world.attach(0, camera([160, 120], 25.0), LinkConfig::default());
    world.attach(3, display(Duration::from_micros(32_100)), LinkConfig::default());
    world.connect(100, 0, &[3], Category::Cbr);
    world.run_until(Time::from_millis(1000));
    // A group leaves in advance: the last one of a frame is there by 80 % of its time.
    assert_eq!((world.frames(3, "shown"), world.frames(3, "late")), (25, 0));
    let cells = world.counters(0)["frames"].cells;
    assert!(cells > 10_000, "{cells}");
    // 64 groups a frame, each with the camera's wake-up and some visits of the desk.
    assert!(world.wakes < 6_000, "{} wake-ups for {cells} cells", world.wakes);
}

#[test]
fn a_group_is_what_is_due_within_half_a_millisecond_and_the_rate_is_as_before() {
    let mut camera = camera([160, 120], 25.0);
    camera.set_circuit(vc(100), true);
    let mut cells = vec![Cell::new(CellHeader::default(), [0; 48]); 4096];
    let (mut now, mut sent, mut groups) = (Time::ZERO, 0, Vec::new());
    while now < Time::from_millis(200) {
        let n = camera.poll_cells(&mut cells, now);
        sent += n;
        groups.push(n);
        // Four parts of 101 cells in 32 ms: one each 79 us.
        let due = (now.as_nanos() as f64 % 40e6 / 32e6).min(1.0) * 404.0 + (now.as_nanos() / 40_000_000) as f64 * 404.0;
        assert!((-1.0..8.0).contains(&(sent as f64 - due)), "{sent} sent at {now}, {due} due");
        now = camera.poll_timeout().unwrap().max(now);
    }
    assert!(groups.iter().all(|n| *n <= 8), "{groups:?}");
    assert!(groups.len() < 5 * 75, "{} groups for 5 frames", groups.len());
}

#[test]
fn frames_keep_their_deadline_beside_bulk_and_not_without_the_bypass() {
    let run = |bypass: bool| {
        let switches = Switches { bypass, ..Config::default().switches };
        let mut world = World::new(Shape::Chain, 6, Config { switches, ..Config::default() });
        world.attach(0, camera([320, 240], 50.0), LinkConfig::default());
        // The last group of a frame leaves half a millisecond before 80 % of its time; and a tenth for the way.
        world.attach(5, display(Duration::from_micros(15_600)), LinkConfig::default());
        world.connect(100, 0, &[5], Category::Cbr);
        for port in 1..5 {
            let rate = CellRate::from_line_bits_per_s(1.2e9);
            let link = LinkConfig { rate, queue_cells: 64, ..LinkConfig::default() };
            world.attach(port, Flood(vc(200 + port as u16), Random::new(port as u64)), link);
            let desk: &mut Desk = world.network.node_mut(world.desk).unwrap();
            let label = Label::Vc(vc(200 + port as u16));
            desk.add_route((port as u16, label), (5, label), RouteOptions::default()).unwrap();
        }
        world.run_until(Time::from_millis(100));
        (world.frames(5, "shown"), world.frames(5, "broken") + world.frames(5, "missing") + world.frames(5, "late"))
    };
    assert_eq!(run(true), (5, 0));
    let (shown, lost) = run(false);
    assert!(shown == 0 && lost > 0, "{shown} shown, {lost} lost");
}

#[test]
fn a_chip_that_is_off_takes_frames_from_displays_behind_it_and_from_no_others() {
    let mut world = World::new(Shape::Chain, 5, Config::default());
    world.attach(1, camera([64, 48], 100.0), LinkConfig::default());
    for port in [2, 4] {
        world.attach(port, display(Duration::from_millis(40)), LinkConfig::default());
    }
    world.connect(100, 1, &[2, 4], Category::Cbr);
    world.run_until(Time::from_millis(1000));
    let desk: &mut Desk = world.network.node_mut(world.desk).unwrap();
    let layout = Layout { off: [3].into(), ..desk.layout().clone() };
    desk.set_layout(layout.clone()).unwrap();
    world.run_until(Time::from_millis(2000));
    let desk: &mut Desk = world.network.node_mut(world.desk).unwrap();
    desk.set_layout(Layout { off: [].into(), ..layout }).unwrap();
    world.run_until(Time::from_millis(3000));
    assert!((299..=300).contains(&world.frames(2, "shown")));
    let [shown, broken, missing] = ["shown", "broken", "missing"].map(|name| world.frames(4, name));
    assert!((198..=200).contains(&shown) && shown + broken + missing >= 299, "{shown} {broken} {missing}");
}

#[test]
fn lost_and_damaged_cells_cost_the_frames_that_they_were_of() {
    let faults = Some(FaultConfig { seed: 5, loss: 0.0005, corruption: 0.0005, ..FaultConfig::default() });
    let mut world = World::new(Shape::Chain, 2, Config::default());
    world.attach(0, camera([160, 120], 25.0), LinkConfig { faults, ..LinkConfig::default() });
    world.attach(1, display(Duration::from_millis(40)), LinkConfig::default());
    world.connect(100, 0, &[1], Category::Cbr);
    world.run_until(Time::from_millis(20_000));
    let sent = world.frames(0, "frames");
    let [shown, broken, missing, damaged] = ["shown", "broken", "missing", "damaged"].map(|name| world.frames(1, name));
    assert!(shown < sent && broken > 0 && damaged == 0, "{shown} of {sent} shown, {broken} broken");
    assert!((sent - 1..=sent).contains(&(shown + broken + missing)), "{sent} sent: {shown} {broken} {missing}");
}

#[test]
fn a_display_survives_any_cells_and_shows_no_frame_that_is_not_whole() {
    let mut random = Random::new(11);
    let mut screen = display(Duration::from_millis(40));
    screen.set_circuit(vc(100), true);
    let mut cells = vec![Cell::new(CellHeader::default(), [0; 48]); 8];
    for round in 0..20_000u64 {
        for cell in &mut cells {
            let payload_type = PayloadType::User { congestion: false, end: random.happens(0.3) };
            let circuit = if random.happens(0.9) { vc(100) } else { vc(101) };
            let mut payload = [0; 48];
            payload.iter_mut().for_each(|octet| *octet = random.bits() as u8);
            *cell = Cell::new(CellHeader { circuit, payload_type, clp: false }, payload);
        }
        screen.handle_cells(&cells, Time::from_micros(round));
    }
    assert_eq!((screen.seen().shown, screen.seen().late), (0, 0));
    // SDUs that are whole, with heads whose numbers are anything near to right.
    for frame in 0..5000u32 {
        let part = Part {
            is_pattern: random.happens(0.5),
            frame: frame / 3,
            size: [8, random.below(4) as u16],
            part: random.below(3) as u16,
            parts: random.below(4) as u16,
            offset: random.below(3) as u32 * 8,
            ..Part::default()
        };
        let sdu = [&part.emit()[..], &[7; 8]].concat();
        let mut cells = vec![Cell::new(CellHeader::default(), [0; 48]); 4];
        let mut segmentation = sar::Segmentation::new(vc(100), sdu.len(), sar::SduMeta::default()).unwrap();
        let n = segmentation.fill(&sdu, &mut cells);
        screen.handle_cells(&cells[..n], Time::ZERO);
    }
    let seen = screen.seen();
    assert!(seen.refused > 0 && seen.broken > 0, "{seen:?}");
    // A frame of 8 octets each is a part: those are whole, and no pattern's.
    assert!(seen.shown + seen.damaged > 0 && seen.shown < 2000, "{seen:?}");
}

fn processor_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// An SDU of a cell: a part with so many octets of the image.
fn one_cell(part: Part, image: &[u8]) -> Cell {
    let sdu = [&part.emit()[..], image].concat();
    let mut cell = [Cell::default()];
    let mut segmentation = sar::Segmentation::new(vc(100), sdu.len(), sar::SduMeta::default()).unwrap();
    assert_eq!((segmentation.fill(&sdu, &mut cell), segmentation.is_done()), (1, true));
    cell[0]
}

#[test]
fn a_part_costs_what_it_has_and_not_what_it_says_of_its_frame() {
    let parts = |part, parts| Part { size: [2048, 2048], part, parts, ..Part::default() };
    let frames = |range: std::ops::Range<u32>| range.map(|frame| Part { frame, ..parts(0, 1) });
    let cells: Vec<Cell> = frames(0..4096).map(|part| one_cell(part, &[1])).collect();
    let mut screen = display(Duration::from_millis(40));
    screen.set_circuit(vc(100), true);
    let begin = processor_time();
    screen.handle_cells(&cells, Time::ZERO);
    let used = processor_time() - begin;
    assert!(used < Duration::from_millis(20), "{used:?} of processor for 4096 cells");
    assert_eq!((screen.seen().broken, screen.seen().shown), (4095, 0));
    // The last part of a frame that is whole costs no more than the others.
    let octets = 2048 * 2048;
    let mut screen = display(Duration::from_millis(40));
    screen.set_circuit(vc(100), true);
    let mut longest = Duration::ZERO;
    let mut cells = vec![Cell::default(); 1366];
    for (n, at) in (0..octets).step_by(65_000).enumerate() {
        let image: Vec<u8> = (at..octets.min(at + 65_000)).map(|at| pattern(7, at % 2048, at / 2048)).collect();
        let part = Part { is_pattern: true, frame: 7, offset: at as u32, ..parts(n as u16, 65) };
        let sdu = [&part.emit()[..], &image].concat();
        let mut segmentation = sar::Segmentation::new(vc(100), sdu.len(), sar::SduMeta::default()).unwrap();
        let filled = segmentation.fill(&sdu, &mut cells);
        let begin = processor_time();
        screen.handle_cells(&cells[..filled], Time::ZERO);
        longest = longest.max(processor_time() - begin);
    }
    assert_eq!((screen.seen().shown, screen.seen().damaged), (1, 0));
    assert!(longest < Duration::from_millis(10), "{longest:?} of processor for a part");
}

/// Counts the most cells that it was given at once.
struct Most(usize);

impl Device for Most {
    fn kind(&self) -> &'static str {
        "most"
    }
    fn set_circuit(&mut self, _: CircuitId, _: bool) {}
    fn handle_cells(&mut self, cells: &[Cell], _: Time) {
        self.0 = self.0.max(cells.len());
    }
    fn poll_cells(&mut self, _: &mut [Cell], _: Time) -> usize {
        0
    }
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
    fn status(&self) -> String {
        self.0.to_string()
    }
    fn counters(&self) -> Vec<(&'static str, Counters)> {
        Vec::new()
    }
}

/// Puts cells on its link.
struct Spring(usize);

impl Node for Spring {
    fn run(&mut self, io: &mut NodeIo<'_>, _: Time) -> bool {
        let n = io.cells_out(0).len().min(self.0);
        io.commit(0, n);
        self.0 -= n;
        n > 0
    }
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
    fn as_any_mut(&mut self) -> &mut dyn std::any::Any {
        self
    }
}

#[test]
fn a_device_takes_a_bounded_number_of_cells_in_a_round_and_all_in_the_end() {
    let mut network = Network::new(FramePool::new(4, 256));
    let spring = network.add_node("spring", Box::new(Spring(10_000)));
    let link = network.connect(End::Port(spring, 0), End::External, LinkConfig::default()).unwrap();
    assert!(network.attach(link, Box::new(Shell::new(Most(0)))));
    while network.run(Time::ZERO) {}
    assert_eq!(network.link_info(link).unwrap().from_a.delivered.cells, 10_000);
    assert_eq!(network.link_info(link).unwrap().from_a.unread, 0);
    let (_, device) = network.externals().next().unwrap();
    assert_eq!(device.status(), "most: 1024");
}

fn soon(what: &str, mut done: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(std::time::Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Cells of an SDU.
fn sdu_cells(sdu: &[u8]) -> Vec<Cell> {
    let mut cells = vec![Cell::default(); wire::aal5::cells(sdu.len())];
    let mut segmentation = sar::Segmentation::new(vc(100), sdu.len(), sar::SduMeta::default()).unwrap();
    assert_eq!(segmentation.fill(sdu, &mut cells), cells.len());
    cells
}

#[test]
fn a_file_has_as_many_records_as_its_bound_has_room_for_and_the_others_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("to");
    let rate = CellRate::from_cells_per_s(1000.0).unwrap();
    let settings = StoreSettings { play: None, record: Some(path.clone()), rate, max_octets: 65_536 };
    let mut store = Store::open(&settings).unwrap();
    store.set_circuit(vc(100), true);
    // One record does not fit between two that do.
    for n in 0..128 {
        store.handle_cells(&sdu_cells(&[n as u8; 8192]), Time::ZERO);
        let stored = store.counters()[1].1.octets;
        soon("what was taken is written", || std::fs::metadata(&path).unwrap().len() == stored);
    }
    let stored = store.counters()[1].1;
    assert_eq!((stored.pdus, stored.octets, stored.dropped(DropReason::NoBuffer)), (8, 65_536, 120));
    let written = std::fs::read(&path).unwrap();
    assert!(written.chunks(8192).enumerate().all(|(n, record)| record == [n as u8; 8192]));
    // A display's: the head of the film counts.
    let film = folder.path().join("film");
    let settings = DisplaySettings { file: Some(film.clone()), max_octets: 50, ..DisplaySettings::default() };
    let mut screen = Display::open(&settings).unwrap();
    screen.set_circuit(vc(100), true);
    for frame in 0..4 {
        screen.handle_cells(&[one_cell(Part { frame, size: [1, 1], parts: 1, ..Part::default() }, &[9])], Time::ZERO);
    }
    let head = b"YUV4MPEG2 W1 H1 F1:100 Ip A1:1 Cmono\n";
    soon("the film is written", || std::fs::read(&film).unwrap() == [&head[..], b"FRAME\n\x09"].concat());
    assert_eq!(screen.counters()[0].1.dropped(DropReason::NoBuffer), 3);
}

#[test]
fn a_record_that_is_not_written_whole_leaves_nothing_of_it() {
    const INNER: &str = "CELLWAY_SHORT_FILES";
    if std::env::var_os(INNER).is_none() {
        // In a process whose files are no longer than 20480 octets, and which hears of it by an error and no signal.
        let mut inner = std::process::Command::new("sh");
        inner.args(["-c", "trap '' XFSZ; ulimit -f 40; exec \"$@\"", "sh"]).arg(std::env::current_exe().unwrap());
        inner.args(["--exact", "desk_devices::a_record_that_is_not_written_whole_leaves_nothing_of_it", "--nocapture"]);
        let output = inner.env(INNER, "1").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.contains("1 passed"),
            "{said}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("to");
    let rate = CellRate::from_cells_per_s(1000.0).unwrap();
    let mut store = Store::new(rate, Vec::new(), Some(Writer::create(&path).unwrap()));
    store.set_circuit(vc(100), true);
    for (n, octets) in [8192, 8192, 8192, 4000].into_iter().enumerate() {
        store.handle_cells(&sdu_cells(&vec![n as u8; octets]), Time::ZERO);
    }
    let whole = [vec![0; 8192], vec![1; 8192], vec![3; 4000]].concat();
    soon("the records that fit are there and nothing else", || std::fs::read(&path).unwrap() == whole);
    assert!(store.status().ends_with("1 writes failed"), "{}", store.status());
}

#[test]
fn a_file_goes_from_a_store_to_a_store_and_frames_of_a_file_are_stored_as_a_film() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut random = Random::new(3);
    let octets: Vec<u8> = (0..300_000).map(|_| random.bits() as u8).collect();
    std::fs::write(path("from"), &octets).unwrap();
    let film: Vec<u8> = (0..3 * 32 * 24).map(|n| (n / 7) as u8).collect();
    std::fs::write(path("film"), &film).unwrap();
    let rate = CellRate::from_payload_bits_per_s(50e6).unwrap();
    let mut world = World::new(Shape::Shuffle, 8, Config::default());
    let max_octets = device::MAX_RECORDED_OCTETS;
    let from = StoreSettings { play: Some(path("from")), record: None, rate, max_octets };
    let to = StoreSettings { play: None, record: Some(path("to")), rate, max_octets };
    world.attach(0, Store::open(&from).unwrap(), LinkConfig::default());
    world.attach(5, Store::open(&to).unwrap(), LinkConfig::default());
    let filmed = CameraSettings { size: [32, 24], file: Some(path("film")), ..CameraSettings::default() };
    world.attach(3, Camera::open(&filmed).unwrap(), LinkConfig::default());
    let shown = DisplaySettings { file: Some(path("film.y4m")), ..DisplaySettings::default() };
    world.attach(6, Display::open(&shown).unwrap(), LinkConfig::default());
    world.connect(100, 0, &[5], Category::Ubr);
    world.connect(101, 3, &[6], Category::Cbr);
    // The desk waits for no writer, and drops what finds all buffers waiting: here the writer is given the time that it needs.
    let limit = std::time::Instant::now() + Duration::from_secs(30);
    for ms in 1..=200 {
        world.run_until(Time::from_millis(ms));
        let stored = world.counters(5).get("stored").map_or(0, |stored| stored.octets);
        while std::fs::metadata(path("to")).unwrap().len() < stored {
            assert!(std::time::Instant::now() < limit, "{stored} octets are not written");
            std::thread::sleep(Duration::from_micros(100));
        }
    }
    assert_eq!(world.counters(5)["stored"].octets, 300_000);
    drop(world);
    let whole = |name: &str, octets: &[u8]| {
        let end = std::time::Instant::now() + Duration::from_secs(10);
        while std::fs::read(path(name)).unwrap() != octets {
            assert!(std::time::Instant::now() < end, "{name} is not written as it should be");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    whole("to", &octets);
    let mut film_file = b"YUV4MPEG2 W32 H24 F2500:100 Ip A1:1 Cmono\n".to_vec();
    for frame in 0..5 {
        film_file.extend_from_slice(b"FRAME\n");
        film_file.extend_from_slice(&film[frame % 3 * 768..(frame % 3 + 1) * 768]);
    }
    whole("film.y4m", &film_file);

    let missing = device::Settings::Store(StoreSettings { play: Some(path("no")), record: None, rate, max_octets });
    assert!(make(&missing).err().unwrap().to_string().contains("No such file"));
    let short = CameraSettings { file: Some(path("film")), ..CameraSettings::default() };
    assert!(make(&device::Settings::Camera(short)).err().unwrap().to_string().contains("shorter than a frame"));
    assert!(Writer::create(&path("no/file")).is_err());
}

#[test]
fn a_stream_passes_no_memory_of_a_host() {
    let mut world = World::new(Shape::Chain, 3, Config::default());
    world.attach(0, camera([64, 48], 25.0), LinkConfig::default());
    world.attach(2, display(Duration::from_millis(40)), LinkConfig::default());
    world.connect(100, 0, &[2], Category::Cbr);
    world.run_until(Time::from_millis(500));
    let desk: &mut Desk = world.network.node_mut(world.desk).unwrap();
    let report = desk.report();
    assert!(report.chips.iter().all(|chip| chip.monitor.transfers == 0));
    // The chip in the middle passes all of it on, and nothing to its third port.
    let middle = &report.chips[1];
    assert!(middle.sent[Port::Right.index()].cells > 500 && middle.sent[Port::Memory.index()].cells == 0);
}
