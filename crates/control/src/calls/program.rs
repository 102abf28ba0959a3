//! Hosts that leave their side of signalling to a program under `cellway run`, such as Linux's `atmsigd`: what a kernel
//! tells it of sockets for calls, and makes of what it says ([`endpoint::calls::Order`], [`endpoint::calls::Report`]).
//!
//! In: what applications ask, and reports. Out: orders for the program's session, changes of tables, events for
//! applications. The program takes an answer for that of the oldest call that it indicated to a listener: so only that
//! one is presented.

use super::applications::{Refusal, User};
use super::book::{Call, Stage, caller};
use super::call_controller::{CallController, Role};
use super::served::{Program, Waiting};
use super::setup::{self, NO_PEAK, Wanted};
use endpoint::calls::{Answer, Event, Order, Report, Sap, Traffic};
use rustix::io::Errno;
use std::collections::VecDeque;
use traffic::Contract;
use wire::aesa::Aesa;
use wire::q2931::CauseValue;
use wire::{CircuitId, Time};

/// Calls that may wait at a listener for their answer.
const MAX_WAITING: usize = 64;
/// Addresses that a host may be given.
const MAX_ADDRESSES: usize = 32;

/// What `as_indicate` says.
struct Indicated {
    circuit: String,
    from: Option<String>,
    to: Option<String>,
    sap: String,
    traffic: Box<[Traffic; 2]>,
}

/// What an `errno` of the program's means to the caller.
fn cause_of(errno: i32) -> CauseValue {
    let known = [
        (Errno::CONNRESET, CauseValue::NORMAL),
        (Errno::ADDRNOTAVAIL, CauseValue::UNALLOCATED),
        (Errno::HOSTUNREACH, CauseValue::NO_ROUTE),
        (Errno::REMCHG, CauseValue::NUMBER_CHANGED),
        (Errno::HOSTDOWN, CauseValue::OUT_OF_ORDER),
        (Errno::UNATCH, CauseValue::OUT_OF_ORDER),
        (Errno::TIMEDOUT, CauseValue::NO_RESPONSE),
    ];
    if errno == 0 {
        return CauseValue::NORMAL;
    }
    let found = known.iter().find(|(number, _)| number.raw_os_error() == errno);
    found.map_or(CauseValue::NORMAL_UNSPECIFIED, |(_, cause)| *cause)
}

/// Best effort without a peak is said as such: the program would take the link's rate for the peak, which switches hold
/// calls to.
fn explicit(traffic: &Traffic) -> Traffic {
    let pcr = if traffic.category == "ubr" { traffic.pcr.or(Some(NO_PEAK)) } else { traffic.pcr };
    Traffic { pcr, ..traffic.clone() }
}

/// What the called host may send.
fn contract(sap: Sap, [forward, backward]: &[Traffic; 2]) -> Option<Contract> {
    let wanted = Wanted { sap, forward, backward, multipoint: false };
    setup::contract(&setup::elements(None, Aesa::default(), wanted).ok()?, true).ok()
}

impl CallController {
    pub(super) fn program(&mut self, at: usize) -> Option<&mut Program> {
        match &mut self.interfaces.get_mut(at)?.as_mut()?.role {
            Role::Program(program) => Some(program),
            Role::Host(_) | Role::Switch(..) => None,
        }
    }

    /// The interface of a host whose signalling is a program's.
    fn left_to_program(&mut self, host: &str) -> Result<usize, Refusal> {
        let at = self.host(host)?;
        if self.program(at).is_some() { Ok(at) } else { Err(Refusal::NotLeft(host.to_owned())) }
    }

    /// Whether a host's signalling is a program's.
    pub fn is_left_to_program(&mut self, host: &str) -> bool {
        self.left_to_program(host).is_ok()
    }

    /// Has a session's program signal for a host.
    ///
    /// # Errors
    /// The host signals itself, or another program does it.
    pub fn serve(&mut self, session: u64, user: User, host: &str) -> Result<Answer, Refusal> {
        let at = self.left_to_program(host)?;
        self.book.session(session);
        match self.program(at) {
            Some(program) if program.is_there() => Err(Refusal::Served(host.to_owned())),
            Some(program) => {
                program.served = Some((session, user));
                Ok(Answer::Done)
            }
            None => Err(Refusal::NotLeft(host.to_owned())),
        }
    }

    /// Whether the program of a host is there for one thing more.
    pub(super) fn check_program(&mut self, at: usize, host: &str) -> Result<(), Refusal> {
        let served = self.program(at).and_then(|program| program.served);
        let (session, _) = served.ok_or_else(|| Refusal::NoProgram(host.to_owned()))?;
        if self.book.is_behind(session) {
            let cause = CauseValue::TEMPORARY_FAILURE;
            return Err(Refusal::Limit { host: host.to_owned(), cause });
        }
        Ok(())
    }

    pub(super) fn order(&mut self, at: usize, order: Order) {
        let Some(program) = self.program(at) else { return };
        let Some((session, _)) = program.served else { return };
        program.orders += 1;
        self.book.tell(session, Event::Order(Box::new(order)));
    }

    pub(super) fn order_listen(&mut self, at: usize, listener: u64, address: Option<Aesa>, sap: Sap) {
        let address = address.map(|address| address.to_string());
        self.order(at, Order::Listen { listener, address, sap: sap.to_string() });
    }

    pub(super) fn order_call(&mut self, at: usize, call: u64, to: Aesa, wanted: Wanted<'_>) {
        let traffic = Box::new([explicit(wanted.forward), explicit(wanted.backward)]);
        self.order(at, Order::Connect { call, to: to.to_string(), sap: wanted.sap.to_string(), traffic });
    }

    /// Whether a call is one that is to be answered next.
    pub(super) fn may_accept(&mut self, at: usize, call: u64) -> bool {
        self.program(at).is_some_and(|program| program.listener_of_oldest(call).is_some())
    }

    pub(super) fn order_accept(&mut self, at: usize, call: u64) {
        let Some(program) = self.program(at) else { return };
        let Some(listener) = program.listener_of_oldest(call) else { return };
        program.waiting.get_mut(&listener).map(VecDeque::pop_front);
        self.order(at, Order::Accept { call, listener });
        self.advance(at, listener);
    }

    /// A call that is not in the book any more ends.
    pub(super) fn order_end(&mut self, at: usize, number: u64, stage: Stage) {
        if stage != Stage::Offered {
            return self.order(at, Order::Close { socket: number });
        }
        if let Some(listener) = self.program(at).and_then(|program| program.refuse(number)) {
            self.advance(at, listener);
        }
    }

    /// The listenings of a session end.
    pub(super) fn close_listenings(&mut self, session: u64) {
        let of_session = self.book.listens.iter().filter(|listen| listen.session == session);
        let closed: Vec<_> = of_session.map(|listen| (listen.interface, listen.number)).collect();
        for (at, listener) in closed {
            self.order(at, Order::Close { socket: listener });
        }
        self.book.listens.retain(|listen| listen.session != session);
    }

    /// Refuses and presents what has become the oldest at a listener.
    fn advance(&mut self, at: usize, listener: u64) {
        loop {
            let Some(program) = self.program(at) else { return };
            let Some(queue) = program.waiting.get_mut(&listener) else { return };
            match queue.front_mut() {
                None => return drop(program.waiting.remove(&listener)),
                Some(Waiting { call: None, .. }) => {
                    queue.pop_front();
                    self.order(at, Order::Reject { listener });
                }
                Some(Waiting { call: Some(call), event }) => {
                    let (call, event) = (*call, event.take());
                    let session = self.book.calls.get(&call).map(|call| call.session);
                    if let (Some(session), Some(event)) = (session, event) {
                        self.book.tell(session, event);
                    }
                    return;
                }
            }
        }
    }

    /// What the program of a host says, by a session of its user.
    ///
    /// # Errors
    /// It is not this user's program that signals for the host.
    pub fn report_of_program(&mut self, user: User, host: &str, report: Report, now: Time) -> Result<Answer, Refusal> {
        let at = self.left_to_program(host)?;
        let program = self.program(at).filter(|p| p.served.is_some_and(|(_, its)| its.uid == user.uid));
        program.ok_or_else(|| Refusal::NoProgram(host.to_owned()))?.reports += 1;
        let heard = match report {
            Report::Okay { socket, circuit } => self.on_okay(at, socket, circuit, now),
            Report::Failed { socket, errno } => self.on_failed(at, socket, errno),
            Report::Closed { socket, errno } => {
                let ended = self.forget_call(at, socket, cause_of(errno));
                if ended {
                    self.order(at, Order::Close { socket });
                }
                // It may be the answer to an order.
                true
            }
            Report::Indicate { listener, circuit, from, to, sap, traffic } => {
                self.on_indicated(at, listener, Indicated { circuit, from, to, sap, traffic }, now);
                true
            }
        };
        if let (false, Some(program)) = (heard, self.program(at)) {
            program.ignored += 1;
        }
        Ok(Answer::Done)
    }

    fn on_okay(&mut self, at: usize, socket: u64, circuit: Option<String>, now: Time) -> bool {
        if let Some(listen) = self.book.listens.iter().find(|l| (l.interface, l.number) == (at, socket)) {
            let session = listen.session;
            self.book.decide_listening(session, Ok(()));
            return true;
        }
        let Some(call) = self.book.calls.get_mut(&socket).filter(|call| call.interface == at) else { return false };
        match call.stage {
            Stage::Calling => {
                call.circuit = circuit.and_then(|circuit| circuit.parse().ok());
                if call.circuit.is_none() {
                    self.fail(socket, CauseValue::NO_SUCH_CHANNEL, now);
                    return true;
                }
                self.place(socket);
                self.up(socket);
            }
            Stage::Answered => self.up(socket),
            Stage::Offered | Stage::Alerting | Stage::Up => return false,
        }
        true
    }

    fn on_failed(&mut self, at: usize, socket: u64, errno: i32) -> bool {
        let listen = self.book.listens.iter().position(|l| (l.interface, l.number) == (at, socket));
        if let Some(listen) = listen {
            let listen = self.book.listens.swap_remove(listen);
            self.book.decide_listening(listen.session, Err(errno));
            return true;
        }
        self.forget_call(at, socket, cause_of(errno))
    }

    /// A call has ended, and the program knows it. False if there is none.
    fn forget_call(&mut self, at: usize, number: u64, cause: CauseValue) -> bool {
        let Some(call) = self.book.calls.get(&number).filter(|call| call.interface == at) else { return false };
        if call.stage == Stage::Offered {
            return false;
        }
        let session = call.session;
        self.displace(number);
        self.book.remove(number);
        self.book.tell(session, super::applications::released(number, cause));
        true
    }

    fn on_indicated(&mut self, at: usize, listener: u64, indicated: Indicated, now: Time) {
        let offered = self.offer(at, listener, indicated, now);
        let Some(program) = self.program(at) else { return };
        if offered.is_none() {
            program.limited += 1;
        }
        program.waiting.entry(listener).or_default().push_back(offered.unwrap_or_default());
        self.advance(at, listener);
    }

    /// A call for a listener; `None`: it is to be refused.
    fn offer(&mut self, at: usize, listener: u64, indicated: Indicated, now: Time) -> Option<Waiting> {
        let program = self.program(at)?;
        if program.waiting.get(&listener).is_some_and(|queue| queue.len() >= MAX_WAITING) {
            return None;
        }
        let listen = self.book.listens.iter().find(|l| (l.interface, l.number) == (at, listener))?;
        let (session, user) = (listen.session, listen.user);
        let Indicated { circuit, from, to, sap, traffic } = indicated;
        let circuit: CircuitId = circuit.parse().ok()?;
        let address = |text: &Option<String>| text.as_ref().and_then(|text| text.parse::<Aesa>().ok());
        // The program tells no more than the number.
        let caller = caller(address(&from), true);
        if self.book.is_behind(session) || !self.make_room_for_offer(user, caller, now) {
            return None;
        }
        let call = self.book.insert(Call {
            session,
            uid: user.uid,
            interface: at,
            id: None,
            stage: Stage::Offered,
            outgoing: false,
            from: address(&from),
            is_checked: true,
            to: address(&to),
            circuit: Some(circuit),
            placed: false,
            contract: Some(Box::new(contract(sap.parse().ok()?, &traffic)?)),
            root: None,
            reserved: 0,
            began: now,
        });
        Some(Waiting {
            call: Some(call),
            event: Some(Event::Incoming { call, listen: listener, from, to, sap, traffic }),
        })
    }

    /// The program of an interface is gone, or the interface: all that it knew ends.
    pub(super) fn abandon_program(&mut self, at: usize) {
        let Some(program) = self.program(at) else { return };
        let served = program.served.take();
        program.waiting.clear();
        let calls: Vec<u64> =
            self.book.calls.iter().filter(|(_, call)| call.interface == at).map(|(number, _)| *number).collect();
        for number in calls {
            self.displace(number);
            if let Some(call) = self.book.remove(number) {
                self.book.tell(call.session, super::applications::released(number, CauseValue::OUT_OF_ORDER));
            }
        }
        let listens = self.book.listens.iter().filter(|listen| listen.interface == at).map(|listen| listen.session);
        let over: Vec<u64> = listens.chain(served.map(|(session, _)| session)).collect();
        over.into_iter().for_each(|session| self.book.hang_up(session));
        self.book.forget_interface(at);
    }

    /// A session has ended, or may not do this any more: its program signals no more, and its connection ends.
    pub fn stop_serving(&mut self, session: u64) {
        let at = (0..self.interfaces.len())
            .find(|at| self.program(*at).is_some_and(|p| p.served.is_some_and(|(its, _)| its == session)));
        if let Some(at) = at {
            self.abandon_program(at);
        }
    }

    /// Gives a host an address, or takes it away; the program is told.
    ///
    /// # Errors
    /// The host signals itself.
    pub fn set_address(&mut self, host: &str, address: Aesa, present: bool) -> Result<Answer, Refusal> {
        let at = self.left_to_program(host)?;
        let Some(Some(interface)) = self.interfaces.get_mut(at) else { return Ok(Answer::Done) };
        interface.addresses.retain(|known| *known != address);
        if present {
            if interface.addresses.len() >= MAX_ADDRESSES {
                return Err(Refusal::Limit { host: host.to_owned(), cause: CauseValue::RESOURCES });
            }
            interface.addresses.push(address);
        }
        self.order(at, Order::Readdress);
        Ok(Answer::Done)
    }

    /// Takes all addresses of a host away; the program is told.
    ///
    /// # Errors
    /// The host signals itself.
    pub fn reset_addresses(&mut self, host: &str) -> Result<Answer, Refusal> {
        let at = self.left_to_program(host)?;
        if let Some(Some(interface)) = self.interfaces.get_mut(at) {
            interface.addresses.clear();
        }
        self.order(at, Order::Readdress);
        Ok(Answer::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::call_controller::Change;
    use crate::calls::layout::{Interface, Layout};
    use crate::config::signalling::Identity;
    use uni::call::{Config, Side, Version};

    const USER: User = User { uid: 1000, max_calls: 16, max_reserved: 0 };
    const NOW: Time = Time::ZERO;
    const PROGRAM: u64 = 1;
    const APPLICATION: u64 = 2;
    const WORKER: u64 = 3;

    fn controller() -> CallController {
        let interface = Interface {
            station: "alpha".into(),
            port: 0,
            host: Some(Identity { esi: [2, 0, 0, 0, 0, 1], address: None }),
            call: Config::new(Side::User, Version::Uni31),
            rate: None,
            delay_ms: 0,
            program: true,
            ilmi: false,
            addresses: Vec::new(),
            is_inner: true,
        };
        let mut controller = CallController::default();
        controller.arrange(&Layout { interfaces: vec![interface], ..Layout::default() }, NOW);
        controller
    }

    /// One with a program.
    fn served() -> CallController {
        let mut controller = controller();
        controller.serve(PROGRAM, USER, "alpha").unwrap();
        controller
    }

    fn events(controller: &mut CallController, session: u64) -> Vec<Event> {
        match controller.take_events(session, true) {
            Some(Answer::Events(events)) => events,
            other => panic!("{other:?}"),
        }
    }

    fn orders(controller: &mut CallController) -> Vec<Order> {
        let one = |event| match event {
            Event::Order(order) => *order,
            other => panic!("{other:?}"),
        };
        events(controller, PROGRAM).into_iter().map(one).collect()
    }

    fn report(controller: &mut CallController, report: Report) {
        controller.report_of_program(USER, "alpha", report, NOW).unwrap();
    }

    fn changes(controller: &mut CallController) -> Vec<Change> {
        std::iter::from_fn(|| controller.poll_change()).collect()
    }

    fn call(controller: &mut CallController, multipoint: bool) -> Result<u64, Refusal> {
        let traffic = Traffic::default();
        let wanted = Wanted { sap: Sap::LLC, forward: &traffic, backward: &traffic, multipoint };
        match controller.call(APPLICATION, USER, "alpha", Aesa([7; 20]), wanted, NOW)? {
            Answer::Calling { call } => Ok(call),
            other => panic!("{other:?}"),
        }
    }

    fn listen(controller: &mut CallController) -> u64 {
        assert!(controller.listen(APPLICATION, USER, "alpha", None, Sap::LLC).unwrap().is_none());
        assert!(controller.take_reply(APPLICATION, false).is_none(), "the program has not decided");
        match &orders(controller)[..] {
            [Order::Listen { listener, address: None, sap }] => {
                assert_eq!(sap, "llc");
                *listener
            }
            other => panic!("{other:?}"),
        }
    }

    fn listening(controller: &mut CallController) -> u64 {
        let listener = listen(controller);
        report(controller, Report::Okay { socket: listener, circuit: None });
        let reply = controller.take_reply(APPLICATION, false).unwrap().unwrap();
        assert!(matches!(reply, Answer::Listening { listen, .. } if listen == listener));
        listener
    }

    fn indicate(controller: &mut CallController, listener: u64, vci: u16) {
        let traffic = Box::new([Traffic::default(), Traffic::default()]);
        let circuit = format!("0.{vci}");
        report(controller, Report::Indicate { listener, circuit, from: None, to: None, sap: "llc".into(), traffic });
    }

    /// The call that is presented, if one is.
    fn presented(controller: &mut CallController) -> Option<u64> {
        match &events(controller, APPLICATION)[..] {
            [] => None,
            [Event::Incoming { call, .. }] => Some(*call),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn without_its_program_a_host_calls_nobody_and_one_program_is_all() {
        let mut controller = controller();
        assert!(matches!(call(&mut controller, false), Err(Refusal::NoProgram(_))));
        let refused = controller.listen(APPLICATION, USER, "alpha", None, Sap::ANY);
        assert!(matches!(refused, Err(Refusal::NoProgram(_))));
        controller.serve(PROGRAM, USER, "alpha").unwrap();
        assert!(matches!(controller.serve(WORKER, USER, "alpha"), Err(Refusal::Served(_))));
        assert!(matches!(call(&mut controller, true), Err(Refusal::ManyByProgram(_))));
        let other = User { uid: 1001, ..USER };
        let foreign = controller.report_of_program(other, "alpha", Report::Okay { socket: 1, circuit: None }, NOW);
        assert!(matches!(foreign, Err(Refusal::NoProgram(_))), "another user's");
    }

    #[test]
    fn a_call_has_its_circuit_when_the_program_says_so_and_ends_by_either_side() {
        let mut controller = served();
        for ends_here in [true, false] {
            let number = call(&mut controller, false).unwrap();
            match &orders(&mut controller)[..] {
                [Order::Connect { call, traffic, .. }] => {
                    assert_eq!((*call, traffic[0].pcr), (number, Some(NO_PEAK)), "no peak that switches hold it to");
                }
                other => panic!("{other:?}"),
            }
            assert_eq!(changes(&mut controller), []);
            report(&mut controller, Report::Okay { socket: number, circuit: Some("0.100".into()) });
            assert!(matches!(&changes(&mut controller)[..], [Change::Add { call, .. }] if *call == number));
            let connected = events(&mut controller, APPLICATION);
            assert!(matches!(&connected[..], [Event::Connected { circuit, .. }] if circuit == "0.100"));
            assert_eq!(controller.user_of("alpha", CircuitId::new(0, 100).unwrap()), Some(USER.uid));
            if ends_here {
                controller.release(APPLICATION, number, CauseValue::NORMAL, NOW).unwrap();
                assert_eq!(orders(&mut controller), [Order::Close { socket: number }]);
                report(&mut controller, Report::Closed { socket: number, errno: 0 });
                assert_eq!((orders(&mut controller), events(&mut controller, APPLICATION)), (vec![], vec![]));
            } else {
                report(&mut controller, Report::Closed { socket: number, errno: 0 });
                assert_eq!(orders(&mut controller), [Order::Close { socket: number }], "acknowledged");
                assert!(matches!(&events(&mut controller, APPLICATION)[..], [Event::Released { cause: 16, .. }]));
            }
            assert!(matches!(&changes(&mut controller)[..], [Change::Remove { .. }]));
        }
        let number = call(&mut controller, false).unwrap();
        orders(&mut controller);
        report(&mut controller, Report::Failed { socket: number, errno: Errno::HOSTUNREACH.raw_os_error() });
        assert_eq!(orders(&mut controller), [], "the program has forgotten it");
        assert!(matches!(&events(&mut controller, APPLICATION)[..], [Event::Released { cause: 3, .. }]));
        assert_eq!(changes(&mut controller), []);
    }

    #[test]
    fn calls_are_presented_one_after_another_and_answered_in_their_order() {
        let mut controller = served();
        let listener = listening(&mut controller);
        for vci in [100, 101, 102, 103] {
            indicate(&mut controller, listener, vci);
        }
        let first = presented(&mut controller).unwrap();
        assert_eq!(orders(&mut controller), []);
        // Those behind it cannot be answered before it, whoever guesses their numbers.
        let (second, third) = (first + 1, first + 2);
        controller.take(WORKER, USER, second).unwrap();
        assert!(matches!(controller.accept(WORKER, USER, second, NOW), Err(Refusal::NoCall(_))));
        controller.release(WORKER, second, CauseValue::BUSY, NOW).unwrap();
        assert_eq!(orders(&mut controller), [], "it is not the second one's turn");
        controller.take(WORKER, USER, first).unwrap();
        controller.accept(WORKER, USER, first, NOW).unwrap();
        let accept = Order::Accept { call: first, listener };
        assert_eq!(orders(&mut controller), [accept, Order::Reject { listener }]);
        assert_eq!(presented(&mut controller), Some(third));
        report(&mut controller, Report::Okay { socket: first, circuit: None });
        assert!(matches!(&events(&mut controller, WORKER)[..], [Event::Connected { call, .. }] if *call == first));
        // The caller of the third has given up: the program says so when it is accepted.
        controller.accept(APPLICATION, USER, third, NOW).unwrap();
        assert_eq!(orders(&mut controller), [Order::Accept { call: third, listener }]);
        report(&mut controller, Report::Failed { socket: third, errno: Errno::CONNABORTED.raw_os_error() });
        let said = events(&mut controller, APPLICATION);
        assert!(
            matches!(&said[..], [Event::Incoming { .. }, Event::Released { call, .. }] if *call == third),
            "{said:?}"
        );
        // The listener ends, and with it the last one; the first one is another session's.
        controller.end_session(APPLICATION, NOW);
        assert_eq!(orders(&mut controller), [Order::Reject { listener }, Order::Close { socket: listener }]);
        assert_eq!(controller.report(NOW).calls.len(), 1);
        indicate(&mut controller, listener, 104);
        assert_eq!(orders(&mut controller), [Order::Reject { listener }], "nobody listens any more");
    }

    #[test]
    fn what_the_program_refuses_to_listen_for_and_what_is_too_much_is_told() {
        let mut controller = served();
        let listener = listen(&mut controller);
        report(&mut controller, Report::Failed { socket: listener, errno: Errno::ADDRINUSE.raw_os_error() });
        assert!(matches!(controller.take_reply(APPLICATION, false), Some(Err(Refusal::Program(_)))));
        let listener = listening(&mut controller);
        for vci in 100..100 + MAX_WAITING as u16 + 8 {
            indicate(&mut controller, listener, vci);
        }
        let status = controller.report(NOW);
        // One caller has a quarter of a user's calls that have no answer.
        assert_eq!(status.calls.len() as u64, USER.max_calls / 4);
        assert_eq!(status.interfaces[0].limited, MAX_WAITING as u64 + 8 - USER.max_calls / 4);
        report(&mut controller, Report::Okay { socket: 99, circuit: None });
        assert_eq!(controller.report(NOW).interfaces[0].ignored, 1);
    }

    #[test]
    fn all_ends_with_the_program_and_addresses_are_told_to_it() {
        let mut controller = served();
        let address = Aesa([7; 20]);
        controller.set_address("alpha", address, true).unwrap();
        assert_eq!(
            (orders(&mut controller), controller.addresses("alpha").unwrap()),
            (vec![Order::Readdress], vec![address])
        );
        controller.reset_addresses("alpha").unwrap();
        assert_eq!((orders(&mut controller), controller.addresses("alpha").unwrap()), (vec![Order::Readdress], vec![]));
        listening(&mut controller);
        let number = call(&mut controller, false).unwrap();
        report(&mut controller, Report::Okay { socket: number, circuit: Some("0.100".into()) });
        controller.end_session(PROGRAM, NOW);
        let said = events(&mut controller, APPLICATION);
        assert!(matches!(said.last(), Some(Event::Released { cause: 27, .. })), "{said:?}");
        assert!(controller.is_over(APPLICATION), "who listens hears of it by the end of the connection");
        let status = controller.report(NOW);
        assert!(status.calls.is_empty() && !status.interfaces[0].up);
        assert!(matches!(&changes(&mut controller)[..], [Change::Add { .. }, Change::Remove { .. }]));
        controller.serve(WORKER, USER, "alpha").unwrap();
    }
}
