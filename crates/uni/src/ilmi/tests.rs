//! Registration, connectivity and change of identity, between two sides and against what a stock `ilmid` says.

use super::*;
use objects::forum;

const PREFIX: [u8; 13] = [0x47, 0, 5, 0x80, 0xff, 0xde, 0, 0, 0, 0, 0, 0, 1];
const ESI: [u8; 6] = [2, 0, 0, 0, 0, 1];

fn config(side: Side, interface: u32) -> Config {
    let config = Config::new(side, Identity { system: [0, 0x20, 0x48, 0, 0, interface as u8], interface });
    match side {
        Side::User => Config { esis: vec![ESI], ..config },
        Side::Network => Config { prefixes: vec![PREFIX], ..config },
    }
}

/// Two sides whose messages arrive at once, and a clock.
struct Pair {
    now: Time,
    user: Ilmi,
    network: Ilmi,
    cut: bool,
}

impl Pair {
    fn new() -> Self {
        let mut pair = Pair {
            now: Time::ZERO,
            user: Ilmi::new(config(Side::User, 7)),
            network: Ilmi::new(config(Side::Network, 9)),
            cut: false,
        };
        pair.user.start(pair.now);
        pair.network.start(pair.now);
        pair.exchange();
        pair
    }

    fn exchange(&mut self) {
        loop {
            let (up, down) = (self.user.poll_transmit(), self.network.poll_transmit());
            if up.is_none() && down.is_none() {
                return;
            }
            if !self.cut {
                up.into_iter().for_each(|sdu| self.network.handle_sdu(&sdu, self.now));
                down.into_iter().for_each(|sdu| self.user.handle_sdu(&sdu, self.now));
            }
        }
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(at) =
            [self.user.poll_timeout(), self.network.poll_timeout()].into_iter().flatten().min().filter(|at| *at <= end)
        {
            self.now = at;
            for side in [&mut self.user, &mut self.network] {
                if side.poll_timeout().is_some_and(|at| at <= self.now) {
                    side.handle_timeout(self.now);
                }
            }
            self.exchange();
        }
        self.now = end;
    }
}

fn events(ilmi: &mut Ilmi) -> Vec<Event> {
    std::iter::from_fn(|| ilmi.poll()).collect()
}

fn address() -> Aesa {
    Aesa::new(PREFIX, ESI, 0)
}

#[test]
fn a_user_registers_an_address_of_the_networks_prefix() {
    let mut pair = Pair::new();
    pair.run_for(Duration::from_secs(1));
    assert!(events(&mut pair.user).contains(&Event::Registered(address())));
    assert!(events(&mut pair.network).contains(&Event::Registered(address())));
    assert_eq!(pair.user.peer(), Some(pair.network.config.identity));
    pair.run_for(Duration::from_secs(3600));
    assert_eq!((events(&mut pair.user), events(&mut pair.network)), (Vec::new(), Vec::new()), "nothing changes");
    assert_eq!(pair.network.addresses().collect::<Vec<_>>(), [&address()]);
}

#[test]
fn a_line_that_is_cut_takes_the_addresses_with_it_and_brings_them_back() {
    let mut pair = Pair::new();
    pair.run_for(Duration::from_secs(1));
    events(&mut pair.network);
    events(&mut pair.user);
    pair.cut = true;
    pair.run_for(Duration::from_secs(30));
    assert_eq!(events(&mut pair.network), [Event::Withdrawn(address()), Event::Lost]);
    assert_eq!(events(&mut pair.user), [Event::Withdrawn(address()), Event::Lost]);
    pair.cut = false;
    pair.run_for(Duration::from_secs(30));
    assert!(events(&mut pair.network).contains(&Event::Registered(address())));
    assert!(events(&mut pair.user).contains(&Event::Registered(address())));
}

#[test]
fn a_peer_that_starts_anew_registers_again() {
    let mut pair = Pair::new();
    pair.run_for(Duration::from_secs(100));
    events(&mut pair.network);
    pair.user = Ilmi::new(config(Side::User, 7));
    pair.user.start(pair.now);
    pair.exchange();
    pair.run_for(Duration::from_secs(1));
    let seen = events(&mut pair.network);
    assert_eq!(seen[..2], [Event::Withdrawn(address()), Event::Changed]);
    assert!(seen.contains(&Event::Registered(address())));
}

#[test]
fn another_user_behind_the_same_line_is_noticed_without_a_cold_start() {
    let mut pair = Pair::new();
    pair.run_for(Duration::from_secs(100));
    events(&mut pair.network);
    pair.user.config.identity.system = [9; 6];
    pair.run_for(Duration::from_secs(10));
    let seen = events(&mut pair.network);
    assert_eq!(seen[..2], [Event::Withdrawn(address()), Event::Changed]);
    assert!(matches!(seen[2], Event::Connected(Identity { system: [9, ..], .. })));
}

#[test]
fn rows_that_are_left_at_the_network_are_taken_back() {
    let mut pair = Pair::new();
    let stale = Aesa::new(PREFIX, [9; 6], 0);
    pair.network.addresses.insert(stale);
    pair.user.steps.push_back(Step::Walk(address_column()));
    pair.run_for(Duration::from_secs(10));
    assert_eq!(pair.network.addresses().collect::<Vec<_>>(), [&address()]);
    assert!(events(&mut pair.network).contains(&Event::Withdrawn(stale)));
}

/// What the network side answers to a request of a user that is not ours.
fn answer(kind: Kind, bindings: &[Binding<'_>]) -> (ErrorStatus, u8, Vec<String>) {
    let mut network = Ilmi::new(config(Side::Network, 9));
    let mut sdu = [0; MAX_OCTETS];
    let n = emit(&Head::Request { kind, id: 77, status: ErrorStatus::NONE, index: 0 }, bindings, &mut sdu).unwrap();
    network.handle_sdu(&sdu[..n], Time::from_millis(1230));
    let sdu = network.poll_transmit().unwrap();
    let message = Message::parse(&sdu).unwrap();
    let Head::Request { kind: Kind::Response, id: 77, status, index } = message.head else { panic!("{message:?}") };
    (status, index, message.bindings().map(|b| format!("{:?}", b.value)).collect())
}

#[test]
fn requests_of_a_stock_ilmid_are_answered() {
    // It fills the values of a Get with whatever was in memory.
    let junk = |name| Binding { name, value: Value::Integer(0x7f12_3456_789a) };
    let identity = [junk(forum(&[1, 1, 1, 8, 0])), junk(forum(&[1, 4, 0])), junk(objects::system(&[3, 0]))];
    let (status, _, values) = answer(Kind::Get, &identity);
    assert_eq!((status, values.len(), values[2].as_str()), (ErrorStatus::NONE, 3, "Ticks(123)"));
    let uni = [9, 6, 7, 8, 10].map(|n| junk(forum(&[2, 1, 1, n, 0])));
    let (status, _, values) = answer(Kind::Get, &uni);
    assert_eq!(status, ErrorStatus::NONE);
    assert_eq!(values, [4, 8, 14, 2, 2].map(|n| format!("Integer({n})")));
    let (status, index, _) = answer(Kind::GetNext, &[junk(forum(&[99]))]);
    assert_eq!((status, index), (ErrorStatus::NO_SUCH_NAME, 1));
    let (status, _, values) = answer(Kind::GetNext, &[junk(forum(&[2, 1, 1, 9]))]);
    assert_eq!((status, values), (ErrorStatus::NONE, vec!["Integer(4)".to_owned()]));
}

#[test]
fn what_may_not_be_set_is_not() {
    let set = |name, value| answer(Kind::Set, &[Binding { name, value }]).0;
    let good = address_row(&address());
    assert_eq!(set(good, Value::Integer(1)), ErrorStatus::NONE);
    assert_eq!(set(good, Value::Integer(2)), ErrorStatus::NONE);
    assert_eq!(set(good, Value::Integer(3)), ErrorStatus::BAD_VALUE);
    assert_eq!(set(good, Value::Null), ErrorStatus::BAD_VALUE);
    let strange = address_row(&Aesa::new([0x39; 13], ESI, 0));
    assert_eq!(set(strange, Value::Integer(1)), ErrorStatus::BAD_VALUE, "not of the network's prefix");
    assert_eq!(set(forum(&[1, 1, 1, 8, 0]), Value::Integer(1)), ErrorStatus::NO_SUCH_NAME);
    assert_eq!(set(prefix_row(&PREFIX), Value::Integer(1)), ErrorStatus::NO_SUCH_NAME);
}

#[test]
fn a_user_registers_only_so_many_addresses() {
    let mut network = Ilmi::new(Config { max_addresses: 3, ..config(Side::Network, 9) });
    for n in 0..10 {
        let name = address_row(&Aesa::new(PREFIX, [n; 6], 0));
        let head = Head::Request { kind: Kind::Set, id: 1, status: ErrorStatus::NONE, index: 0 };
        let mut sdu = [0; MAX_OCTETS];
        let n = emit(&head, &[Binding { name, value: Value::Integer(1) }], &mut sdu).unwrap();
        network.handle_sdu(&sdu[..n], Time::ZERO);
    }
    assert_eq!(network.addresses().count(), 3);
}

/// A Set of these variables.
fn set(names: &[(Oid, i64)]) -> Vec<u8> {
    let bindings: Vec<_> =
        names.iter().map(|(name, value)| Binding { name: *name, value: Value::Integer(*value) }).collect();
    let mut sdu = vec![0; 4 * MAX_OCTETS];
    let head = Head::Request { kind: Kind::Set, id: 1, status: ErrorStatus::NONE, index: 0 };
    let n = emit(&head, &bindings, &mut sdu).unwrap();
    sdu.truncate(n);
    sdu
}

/// Takes all SDUs of a side, and answers each of its questions by "no error".
fn answer_all(ilmi: &mut Ilmi, now: Time) {
    while let Some(sdu) = ilmi.poll_transmit() {
        let message = Message::parse(&sdu).unwrap();
        let Head::Request { kind, id, .. } = message.head else { continue };
        if kind != Kind::Response {
            let bindings: Vec<_> = message.bindings().collect();
            let head = Head::Request { kind: Kind::Response, id, status: ErrorStatus::NONE, index: 0 };
            let mut answer = vec![0; 4 * MAX_OCTETS];
            let n = emit(&head, &bindings, &mut answer).unwrap();
            ilmi.handle_sdu(&answer[..n], now);
        }
    }
}

#[test]
fn prefixes_that_come_and_go_without_end_leave_neither_steps_nor_addresses() {
    let prefix = |n: u16, k: u8| {
        let mut prefix = PREFIX;
        prefix[2..4].copy_from_slice(&n.to_be_bytes());
        prefix[4] = k;
        prefix_row(&prefix)
    };
    let mut user = Ilmi::new(Config { max_addresses: 4, ..config(Side::User, 7) });
    user.start(Time::ZERO);
    for n in 0..1000 {
        // Two prefixes that go at once, and one that stays for a message.
        let [a, b, c] = [0, 1, 2].map(|k| prefix(n, k));
        user.handle_sdu(&set(&[(a, VALID), (a, INVALID), (b, VALID), (b, INVALID), (c, VALID)]), Time::ZERO);
        assert!(user.steps.len() <= 8, "{} steps", user.steps.len());
        if n % 3 == 0 {
            answer_all(&mut user, Time::ZERO);
        }
        user.handle_sdu(&set(&[(c, INVALID)]), Time::ZERO);
        assert!(user.steps.len() <= 8 && user.addresses.len() <= 4);
        if n % 7 == 0 {
            answer_all(&mut user, Time::ZERO);
            assert_eq!((user.steps.len(), user.addresses.len(), user.prefixes.len()), (0, 0, 0));
        }
    }
    // The user still registers.
    user.handle_sdu(&set(&[(prefix_row(&PREFIX), VALID)]), Time::ZERO);
    answer_all(&mut user, Time::ZERO);
    assert_eq!(user.addresses().collect::<Vec<_>>(), [&address()]);
}

#[test]
fn an_address_whose_prefix_goes_while_it_is_being_registered_is_taken_back() {
    let mut user = Ilmi::new(config(Side::User, 7));
    user.start(Time::ZERO);
    answer_all(&mut user, Time::ZERO);
    user.handle_sdu(&set(&[(prefix_row(&PREFIX), VALID)]), Time::ZERO);
    let asked = std::iter::from_fn(|| user.poll_transmit()).last().unwrap();
    user.handle_sdu(&set(&[(prefix_row(&PREFIX), INVALID)]), Time::ZERO);
    while user.poll_transmit().is_some() {}
    let message = Message::parse(&asked).unwrap();
    let Head::Request { kind: Kind::Set, id, .. } = message.head else { panic!("{message:?}") };
    let head = Head::Request { kind: Kind::Response, id, status: ErrorStatus::NONE, index: 0 };
    let mut sdu = vec![0; MAX_OCTETS];
    let n = emit(&head, &message.bindings().collect::<Vec<_>>(), &mut sdu).unwrap();
    user.handle_sdu(&sdu[..n], Time::ZERO);
    assert_eq!(user.addresses().count(), 0);
    assert!(matches!(user.asked, Some((_, Step::SetAddress(a, false), _)) if a == address()));
}

#[test]
fn an_address_of_another_port_is_refused_and_counted() {
    let mut network = Ilmi::new(config(Side::Network, 9));
    let row = address_row(&address());
    let mut answer = |is_taken: bool, value| {
        network.handle_sdu_beside(&set(&[(row, value)]), Time::ZERO, |a| is_taken && *a == address());
        let sdu = std::iter::from_fn(|| network.poll_transmit()).last().unwrap();
        let message = Message::parse(&sdu).unwrap();
        let Head::Request { kind: Kind::Response, status, .. } = message.head else { panic!("{message:?}") };
        (status, network.addresses().count(), network.refused())
    };
    assert_eq!(answer(true, VALID), (ErrorStatus::BAD_VALUE, 0, 1));
    assert_eq!(answer(true, INVALID), (ErrorStatus::NONE, 0, 1));
    assert_eq!(answer(false, VALID), (ErrorStatus::NONE, 1, 1));
    network.withdraw(&address());
    assert_eq!(events(&mut network), [Event::Registered(address()), Event::Withdrawn(address())]);
    assert_eq!(network.addresses().count(), 0);
}

#[test]
fn the_variables_of_one_request_are_bounded_together() {
    let mut network = Ilmi::new(Config { max_addresses: 3, ..config(Side::Network, 9) });
    let rows: Vec<_> = (0..10).map(|n| (address_row(&Aesa::new(PREFIX, [n; 6], 0)), VALID)).collect();
    network.handle_sdu(&set(&rows), Time::ZERO);
    assert_eq!(network.addresses().count(), 0, "all or nothing");
    network.handle_sdu(&set(&rows[..3]), Time::ZERO);
    assert_eq!(network.addresses().count(), 3);
}

#[test]
fn what_is_not_ilmi_is_counted_and_ignored() {
    let mut network = Ilmi::new(config(Side::Network, 9));
    network.handle_sdu(b"nonsense", Time::ZERO);
    assert_eq!((network.ignored(), network.poll_transmit()), (1, None));
}
