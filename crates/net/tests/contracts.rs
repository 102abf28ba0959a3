//! Contracts in a network: admission by direction and delay, and what switches make of them on links of cells and of frames.

use net::topology::{CircuitDescription, LinkDescription, Router, StationKind, TopologyError};
use net::{
    Carries, End, FrameAal, FramePool, Label, LinkConfig, LinkId, Network, NodeId, RouteOptions, SwitchElement,
    SwitchElementConfig,
};
use sar::SduMeta;
use std::time::Duration;
use traffic::{Category, Contract, Refused};
use wire::{Cell, CellHeader, CellRate, CircuitId, Time};

fn rate(cells_per_s: f64) -> Option<CellRate> {
    CellRate::from_cells_per_s(cells_per_s)
}

fn cbr(cells_per_s: f64) -> Contract {
    Contract { category: Category::Cbr, pcr: rate(cells_per_s), ..Contract::default() }
}

fn circuit(ends: &[&str], contract: Contract, back: Option<Contract>) -> CircuitDescription {
    let ends = ends.iter().map(|end| end.parse().unwrap()).collect();
    CircuitDescription { ends, contract, back, ..CircuitDescription::default() }
}

/// alpha - s1 - s2 - beta, each link of 1000 cells/s and 5 ms.
fn router() -> Router {
    router_of([Carries::Cells; 3])
}

fn router_of(carries: [Carries; 3]) -> Router {
    let mut router = Router::new();
    for host in ["alpha", "beta"] {
        router.add_station(host, StationKind::Host).unwrap();
    }
    for switch in ["s1", "s2"] {
        router.add_station(switch, StationKind::Switch(SwitchElementConfig::default())).unwrap();
    }
    for ([a, b], carries) in [["alpha", "s1"], ["s1", "s2"], ["s2", "beta"]].into_iter().zip(carries) {
        let delay = Duration::from_millis(5);
        let config = LinkConfig { carries, rate: rate(1000.0), delay, ..LinkConfig::default() };
        router.add_link(&LinkDescription { ends: [a, b].map(|end| end.parse().unwrap()), config }).unwrap();
    }
    router
}

#[test]
fn each_direction_takes_what_its_own_contract_reserves() {
    let mut router = router();
    router.add_circuit(&circuit(&["alpha 0.40", "beta 0.40"], cbr(900.0), Some(cbr(100.0)))).unwrap();
    let refused = router.add_circuit(&circuit(&["alpha 0.41", "beta 0.41"], cbr(200.0), Some(cbr(100.0)))).unwrap_err();
    let TopologyError::Admission { from, cause: Refused::Rate { left_cells_per_s, .. }, .. } = &refused else {
        panic!("{refused}")
    };
    assert_eq!((from.as_str(), left_cells_per_s.round()), ("alpha", 100.0));
    assert!(
        refused.to_string().contains("alpha:0 - s1:0, from alpha: ") && refused.to_string().contains("100.0 too few")
    );
    router.add_circuit(&circuit(&["alpha 0.41", "beta 0.41"], cbr(100.0), Some(cbr(900.0)))).unwrap();
    assert!(router.add_circuit(&circuit(&["alpha 0.42", "beta 0.42"], cbr(1.0), None)).is_err());
    // The other way round it fits no more; the same contracts do.
    let ends: Vec<_> = ["alpha 0.41", "beta 0.41"].map(|end| end.parse().unwrap()).into();
    assert!(router.change_contract(&ends, cbr(900.0), Some(cbr(100.0))).is_err());
    let had = router.change_contract(&ends, cbr(50.0), Some(cbr(900.0))).unwrap();
    assert_eq!((had.description.contract, had.description.back), (cbr(100.0), Some(cbr(900.0))));
    router.add_circuit(&circuit(&["alpha 0.42", "beta 0.42"], cbr(50.0), Some(Contract::default()))).unwrap();
}

#[test]
fn delay_and_its_variation_add_up_over_hops_and_a_refusal_names_what_each_takes() {
    let mut router = router();
    // Three links: 5 ms, a cell of 1 ms, and up to 203 cells that queue.
    let hop = Duration::from_millis(5 + 1 + 203);
    let within = |ctd: Duration| Contract { max_ctd: Some(ctd), ..cbr(10.0) };
    let refused = router.add_circuit(&circuit(&["alpha 0.40", "beta 0.40"], within(hop * 3 - hop / 2), None));
    let says = refused.unwrap_err().to_string();
    assert!(says.contains("max_ctd from alpha to beta is 522500 us, and the hops take 627000 us"), "{says}");
    assert!(says.contains("s1:1 - s2:0 209000 us") && says.contains("104500 us too few"), "{says}");
    router.add_circuit(&circuit(&["alpha 0.40", "beta 0.40"], within(hop * 3), None)).unwrap();
    let steady = |cdv_ms| Contract { max_cdv: Some(Duration::from_millis(cdv_ms)), ..cbr(10.0) };
    let back = Some(steady(600));
    let says = router.add_circuit(&circuit(&["alpha 0.41", "beta 0.41"], steady(609), back)).unwrap_err().to_string();
    assert!(says.contains("max_cdv from beta to alpha is 600000 us"), "{says}");
    // A live network adds a round at each hop.
    router.set_round(Duration::from_millis(1));
    assert!(router.add_circuit(&circuit(&["alpha 0.41", "beta 0.41"], steady(609), None)).is_err());
    router.add_circuit(&circuit(&["alpha 0.41", "beta 0.41"], steady(612), None)).unwrap();
}

#[test]
fn a_link_of_frames_delays_by_two_long_frames_more_than_one_of_cells() {
    let mut router = router_of([Carries::Cells, Carries::Frames, Carries::Cells]);
    let steady = |cdv_ms| Contract { max_cdv: Some(Duration::from_millis(cdv_ms)), ..cbr(10.0) };
    let says = router.add_circuit(&circuit(&["alpha 0.40", "beta 0.40"], steady(992), None)).unwrap_err().to_string();
    // Each link 203 cells that queue, and that of frames two of 192: one that leaves, and one that is the next.
    assert!(says.contains("the hops take 993000 us") && says.contains("s1:1 - s2:0 587000 us"), "{says}");
    router.add_circuit(&circuit(&["alpha 0.40", "beta 0.40"], steady(993), None)).unwrap();
}

struct Bench {
    network: Network,
    switch: NodeId,
    links: [LinkId; 2],
    now: Time,
}

fn id() -> CircuitId {
    "0.40".parse().unwrap()
}

impl Bench {
    /// A switch with a route from port 0 to port 1.
    fn new(carries: [Carries; 2], contract: Contract) -> Self {
        let mut network = Network::new(FramePool::new(64, 9188));
        let switch = network.add_node("s1", Box::new(SwitchElement::new(SwitchElementConfig::default())));
        let mut port = 0;
        let links = carries.map(|carries| {
            port += 1;
            let config = LinkConfig { carries, ..LinkConfig::default() };
            network.connect(End::External, End::Port(switch, port - 1), config).unwrap()
        });
        let mut bench = Bench { network, switch, links, now: Time::from_millis(100) };
        let options = RouteOptions { aal: FrameAal::Aal5, contract };
        bench.switch().add_route((0, Label::Vc(id())), (1, Label::Vc(id())), options).unwrap();
        bench
    }

    fn switch(&mut self) -> &mut SwitchElement {
        self.network.node_mut(self.switch).unwrap()
    }

    fn frame(&mut self, octets: usize) {
        self.network.external(self.links[0], self.now, |io| {
            let frame = io.pool_mut().copy_in(id(), FrameAal::Aal5, SduMeta::default(), &vec![7; octets]).unwrap();
            io.put_frame(0, frame).unwrap();
        });
        self.run();
    }

    fn run(&mut self) {
        while self.network.run(self.now) {}
    }

    /// Lets time pass; when frames or cells came out at port 1.
    fn until(&mut self, end: Time) -> Vec<u64> {
        let mut came = Vec::new();
        loop {
            self.run();
            let n = self.network.external(self.links[1], self.now, |io| {
                let cells = io.cells_in(0).len();
                io.consume(0, cells);
                let frames = std::iter::from_fn(|| io.take_frame(0)).collect::<Vec<_>>();
                let n = cells + frames.len();
                frames.into_iter().for_each(|frame| io.pool_mut().release(frame));
                n
            });
            came.extend(std::iter::repeat_n(self.now.as_nanos() / 1000, n.unwrap_or_default()));
            match self.network.poll_timeout().filter(|at| *at <= end) {
                Some(at) => self.now = self.now.max(at),
                None => break,
            }
        }
        self.now = end;
        came
    }
}

#[test]
fn a_switch_shapes_cells_and_frames_to_their_contract_on_every_kind_of_link() {
    // 1000 cells/s: a frame of 10 cells, which has come at once, takes 9 ms to leave, and 10 ms until the next may.
    for (carries, expected) in [
        ([Carries::Frames, Carries::Cells], vec![100, 101, 102, 103, 104, 105, 106, 107, 108, 109]),
        ([Carries::Frames, Carries::Frames], vec![109]),
    ] {
        let mut bench = Bench::new(carries, cbr(1000.0));
        bench.frame(470);
        let came = bench.until(Time::from_millis(200));
        assert_eq!(came.iter().map(|us| us / 1000).collect::<Vec<_>>(), expected);
        // Half a millisecond early is beyond the contract, in time is not.
        bench.frame(470);
        bench.now += Duration::from_micros(9500);
        bench.frame(470);
        bench.now += Duration::from_micros(500);
        bench.frame(470);
        let came = bench.until(Time::from_millis(300));
        assert_eq!(came.len(), 2 * expected.len());
        let route = bench.switch().routes().next().unwrap();
        assert_eq!(route.branches[0].queued, 0);
    }
}

#[test]
fn best_effort_on_frame_links_is_not_segmented_until_a_contract_shares_its_output() {
    let mut bench = Bench::new([Carries::Frames; 2], Contract::default());
    bench.frame(470);
    assert_eq!(bench.until(Time::from_millis(101)).len(), 1);
    let cells = |bench: &mut Bench| bench.switch().routes().next().unwrap().received.cells;
    assert_eq!(cells(&mut bench), 0);
    let other = Label::Vc("0.41".parse().unwrap());
    let options = RouteOptions { aal: FrameAal::Aal5, contract: cbr(100.0) };
    bench.switch().add_route((0, other), (1, other), options).unwrap();
    bench.frame(470);
    assert_eq!(bench.until(Time::from_millis(102)).len(), 1);
    assert_eq!(cells(&mut bench), 10);
}

#[test]
fn a_contract_that_changes_leaves_what_waits_and_counts_on() {
    let mut bench = Bench::new([Carries::Cells; 2], cbr(1000.0));
    let cell = |end: bool| {
        let mut header = CellHeader { circuit: id(), ..CellHeader::default() };
        header.payload_type = wire::PayloadType::from_bits(end.into());
        Cell::new(header, [7; 48])
    };
    let tolerant = Contract { cdvt: Duration::from_secs(1), ..cbr(1000.0) };
    let options = |contract| RouteOptions { aal: FrameAal::Aal5, contract };
    let (from, to) = ((0, Label::Vc(id())), (1, Label::Vc(id())));
    bench.switch().change_route(from, to, options(tolerant)).unwrap();
    let cells: Vec<Cell> = (1..=10).map(|n| cell(n == 10)).collect();
    bench.network.external(bench.links[0], bench.now, |io| assert!(cells.iter().all(|cell| io.put_cell(0, cell))));
    assert_eq!(bench.until(Time::from_micros(104_500)).len(), 5);
    // The five that wait leave at the new rate, and best effort at once.
    bench.switch().change_route(from, to, options(cbr(10_000.0))).unwrap();
    let came = bench.until(Time::from_micros(104_750));
    // The schedule begins with the last call before, half a millisecond ago.
    assert_eq!(came, [104_500, 104_500, 104_600, 104_700]);
    bench.switch().change_route(from, to, options(Contract::default())).unwrap();
    assert_eq!(bench.until(Time::from_millis(105)).len(), 1);
    let route = bench.switch().routes().next().unwrap();
    assert_eq!((route.received.cells, route.branches[0].sent.cells), (10, 10));
    let credit = Contract { flow: traffic::Flow::Credit, ..Contract::default() };
    assert!(bench.switch().change_route(from, to, options(credit)).is_err());
}
