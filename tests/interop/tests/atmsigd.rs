//! Calls between our machines and a stock `atmsigd`, without a kernel that has ATM. tshark reads every PDU of both sides.

use interop::signalling::{Daemon, KernelMessage, TOOLS};
use interop::{have, tshark};
use std::time::{Duration, Instant};
use uni::call::{Config, ElementList, Event, Side, State, Version};
use uni::port::Port;
use wire::CircuitId;
use wire::aesa::Aesa;
use wire::q2931::{AalParameters, Bearer, Cause, CauseValue, Element, Location, LowLayer, Number, Party, Qos, Traffic};
use wire::sscop::Pdu;

const CONNECT: u32 = 2;
const ACCEPT: u32 = 3;
const LISTEN: u32 = 5;
const OKAY: u32 = 6;
const ERROR: u32 = 7;
const INDICATE: u32 = 8;
const CLOSE: u32 = 9;

fn address(last: u8) -> Aesa {
    format!("47000580ffde00000000000001 02000000000{last} 00").replace(' ', "").parse().unwrap()
}

/// A daemon, our port at the other end, and what both have said.
struct World {
    folder: tempfile::TempDir,
    daemon: Daemon,
    port: Port,
    events: Vec<Event>,
    kernel: Vec<KernelMessage>,
}

impl World {
    /// The daemon in `mode`, and we on the other side; the link is up.
    fn new(mode: &str) -> World {
        let folder = tempfile::tempdir().unwrap();
        let daemon = Daemon::atmsigd(folder.path(), mode, address(1)).unwrap();
        let side = if mode == "user" { Side::Network } else { Side::User };
        let mut port = Port::new(Config::new(side, Version::Uni31));
        port.start(daemon.now());
        let mut world = World { folder, daemon, port, events: Vec::new(), kernel: Vec::new() };
        // Its first STAT says that the daemon knows too; a call that it makes before is lost.
        world.until("the link is up", |w| w.port.is_up() && w.daemon.record.iter().any(|r| is_stat(w, r)));
        world
    }

    /// Carries PDUs both ways until `done`, at most ten seconds.
    fn until(&mut self, what: &str, done: impl Fn(&World) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let now = self.daemon.now();
            if self.port.poll_timeout().is_some_and(|at| at <= now) {
                self.port.handle_timeout(now);
            }
            while let Some(sdu) = self.port.poll_transmit(now) {
                self.daemon.transmit(sdu).unwrap();
            }
            while let Some(event) = self.port.poll() {
                self.events.push(event);
            }
            if done(self) {
                return;
            }
            let seen = (&self.events, &self.kernel);
            assert!(Instant::now() < deadline, "not within ten seconds: {what}; {seen:?} {:?}", self.daemon.peer.log());
            let (sdu, said) = self.daemon.receive(Duration::from_millis(20)).unwrap();
            if let Some(sdu) = sdu {
                self.port.handle_pdu(&sdu, self.daemon.now());
            }
            self.kernel.extend(said);
        }
    }

    fn told(&self, kind: u32, vcc: u64) -> Option<KernelMessage> {
        self.kernel.iter().copied().find(|m| m.kind == kind && m.vcc == vcc)
    }

    /// The daemon listens for calls to its address.
    fn listen(&mut self) {
        self.daemon.tell(LISTEN, 0x1111, 0, address(1)).unwrap();
        self.until("listening", |w| w.told(OKAY, 0x1111).is_some());
    }

    /// tshark reads all of it: these message types, in this order, and nothing malformed. But for the daemon's CONNECT:
    /// tshark 4.0 reads an octet too many where AAL parameters end a message.
    fn judge(&self, messages: &[&str]) {
        let path = self.folder.path().join("said.pcap");
        self.daemon.capture(&path).unwrap();
        assert_eq!(tshark::count(&path, "_ws.malformed && !(q2931.message_type == 0x07)").unwrap(), 0);
        let seen = tshark::fields(&path, &["q2931.message_type"]).unwrap();
        let seen: Vec<&str> = seen.iter().map(|row| row[0].as_str()).filter(|code| !code.is_empty()).collect();
        assert_eq!(seen, messages);
    }
}

/// A STAT of the daemon's.
fn is_stat(w: &World, (from_user, _, sdu): &(bool, CircuitId, Vec<u8>)) -> bool {
    let is_daemons = *from_user == (w.port.calls().config().side == Side::Network);
    is_daemons && matches!(Pdu::parse(sdu), Ok(Pdu::Stat { .. }))
}

fn setup() -> ElementList {
    ElementList::from([
        Element::Aal(AalParameters::aal5(9188)),
        Element::Traffic(Traffic::best_effort(353_207, 353_207)),
        Element::Bearer(Bearer::X),
        Element::LowLayer(LowLayer::LLC),
        Element::Called(Number::aesa(address(1))),
        Element::Calling(Party::aesa(address(2))),
        Element::Qos(Qos::default()),
    ])
}

#[test]
fn our_network_takes_a_call_of_a_stock_user_and_releases_it() {
    if !have(TOOLS) {
        return;
    }
    let mut w = World::new("user");
    w.daemon.tell(CONNECT, 0x2222, 0, address(2)).unwrap();
    w.until("a SETUP", |w| !w.events.is_empty());
    let Some(Event::Setup { call, elements, connection }) = w.events.pop() else { panic!("{:?}", w.events) };
    assert_eq!(elements.called().and_then(|number| number.as_aesa()), Some(address(2)));
    assert_eq!(elements.aal(), Some(AalParameters::aal5(9188)));
    let now = w.daemon.now();
    w.port.calls_mut().proceed(call, now).unwrap();
    w.port.calls_mut().connect(call, &ElementList::default(), now).unwrap();
    w.until("the kernel's connect succeeds", |w| w.told(OKAY, 0x2222).is_some());
    let okay = w.told(OKAY, 0x2222).unwrap();
    assert_eq!(wire::q2931::ConnectionId::exactly(okay.circuit.vpi.get(), okay.circuit.vci.get()), connection);
    assert_eq!(w.port.calls().state(call), Some(State::Active));
    let now = w.daemon.now();
    w.port.calls_mut().release(call, Cause::new(Location::PRIVATE_LOCAL, CauseValue::NORMAL), now).unwrap();
    w.until("the kernel's socket is closed", |w| w.told(CLOSE, 0x2222).is_some());
    // The kernel acknowledges, and only then does the daemon answer.
    w.daemon.tell(CLOSE, 0x2222, 0, address(2)).unwrap();
    w.until("the call is gone", |w| w.port.calls().is_empty());
    w.judge(&["0x05", "0x02", "0x07", "0x0f", "0x4d", "0x5a"]);
}

#[test]
fn our_network_refuses_a_call_and_the_stock_users_kernel_hears_why() {
    if !have(TOOLS) {
        return;
    }
    let mut w = World::new("user");
    w.daemon.tell(CONNECT, 0x2222, 0, address(2)).unwrap();
    w.until("a SETUP", |w| !w.events.is_empty());
    let Some(Event::Setup { call, .. }) = w.events.pop() else { panic!("{:?}", w.events) };
    let now = w.daemon.now();
    w.port.calls_mut().release(call, Cause::new(Location::PRIVATE_LOCAL, CauseValue::NO_ROUTE), now).unwrap();
    w.until("the kernel's connect fails", |w| w.told(ERROR, 0x2222).is_some());
    assert!(w.told(ERROR, 0x2222).unwrap().reply < 0);
    assert!(w.port.calls().is_empty());
    w.judge(&["0x05", "0x5a"]);
}

#[test]
fn our_network_calls_a_stock_user_who_hangs_up() {
    if !have(TOOLS) {
        return;
    }
    let mut w = World::new("user");
    w.listen();
    let now = w.daemon.now();
    let call = w.port.calls_mut().setup(setup(), now).unwrap();
    w.until("the kernel hears of the call", |w| w.kernel.iter().any(|m| m.kind == INDICATE && m.listening == 0x1111));
    w.daemon.tell(ACCEPT, 0x3333, 0x1111, address(1)).unwrap();
    w.until("CONNECT", |w| w.events.iter().any(|e| matches!(e, Event::Connected { .. })));
    w.until("the kernel's accept is done", |w| w.told(OKAY, 0x3333).is_some());
    assert_eq!(w.port.calls().state(call), Some(State::Active));
    w.daemon.tell(CLOSE, 0x3333, 0, address(1)).unwrap();
    w.until("the call is released", |w| w.events.iter().any(|e| matches!(e, Event::Released { .. })));
    assert!(w.port.calls().is_empty());
    assert_eq!(w.port.calls().labels().in_use(), 0);
    // A stock user answers by CONNECT at once.
    w.judge(&["0x05", "0x07", "0x0f", "0x4d", "0x5a"]);
}

#[test]
fn our_user_calls_through_a_stock_network_side() {
    if !have(TOOLS) {
        return;
    }
    let mut w = World::new("network");
    w.listen();
    let now = w.daemon.now();
    let call = w.port.calls_mut().setup(setup(), now).unwrap();
    w.until("the kernel hears of the call", |w| w.kernel.iter().any(|m| m.kind == INDICATE && m.listening == 0x1111));
    w.daemon.tell(ACCEPT, 0x3333, 0x1111, address(1)).unwrap();
    w.until("CONNECT", |w| w.events.iter().any(|e| matches!(e, Event::Connected { .. })));
    assert_eq!(w.port.calls().state(call), Some(State::Active));
    assert!(w.port.calls().connection(call).is_some(), "the network chose a circuit");
    w.until("the kernel's accept is done", |w| w.told(OKAY, 0x3333).is_some());
    let now = w.daemon.now();
    w.port.calls_mut().release(call, Cause::new(Location::USER, CauseValue::NORMAL), now).unwrap();
    w.until("the kernel's socket is closed", |w| w.told(CLOSE, 0x3333).is_some());
    w.daemon.tell(CLOSE, 0x3333, 0, address(1)).unwrap();
    w.until("the call is gone", |w| w.port.calls().is_empty());
    w.judge(&["0x05", "0x02", "0x07", "0x0f", "0x4d", "0x5a"]);
}

#[test]
fn nobody_listens_at_a_stock_user_and_the_cause_arrives() {
    if !have(TOOLS) {
        return;
    }
    let mut w = World::new("user");
    let now = w.daemon.now();
    let call = w.port.calls_mut().setup(setup(), now).unwrap();
    w.until("the call is refused", |w| w.events.iter().any(|e| matches!(e, Event::Released { .. })));
    let Some(Event::Released { call: refused, cause }) = w.events.pop() else { panic!("{:?}", w.events) };
    assert_eq!((refused, cause.value), (call, CauseValue::INCOMPATIBLE));
    assert!(w.port.calls().is_empty());
}
