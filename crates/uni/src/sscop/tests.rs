//! The table of Q.2110, row by row: each event in each state. An event that a state does not list changes nothing.

use super::*;

/// `state | event | PDUs sent, signals, faults, next state`. An apostrophe marks a PDU with the connection number that
/// the peer used last; `T_CC*` is Timer_CC when PDUs have been sent as often as allowed.
const TABLE: &str = "
1 | EST.req       | !BGN >2
1 | BGN           | ^EST.ind >3
1 | BGN'          | ^EST.ind >3
1 | END           | !ENDAK
1 | BGREJ         | E:BeginReject
1 | SD            | !END E:Data
1 | BGAK          | !END E:BeginAck
1 | POLL          | !END E:Poll
1 | STAT          | !END E:Stat
1 | USTAT         | !END E:UnsolicitedStat
1 | RS            | !END E:Resync
1 | RS'           | !END E:Resync
1 | RSAK          | !END E:ResyncAck
1 | ER            | !END E:Recover
1 | ER'           | !END E:Recover
1 | ERAK          | !END E:RecoverAck
2 | BGAK          | ^EST.conf >10
2 | BGREJ         | ^REL.ind >1
2 | BGN           | !BGAK ^EST.conf >10
2 | T_CC          | !BGN
2 | T_CC*         | !END ^REL.ind E:NoAnswer >1
2 | REL.req       | !END >4
3 | EST.resp      | !BGAK >10
3 | REL.req       | !BGREJ >1
3 | BGN           | ^REL.ind ^EST.ind
3 | END           | !ENDAK ^REL.ind >1
3 | ENDAK         | ^REL.ind E:EndAck >1
3 | BGREJ         | ^REL.ind E:BeginReject >1
3 | SD            | !END ^REL.ind E:Data >1
3 | POLL          | !END ^REL.ind E:Poll >1
3 | STAT          | !END ^REL.ind E:Stat >1
3 | USTAT         | !END ^REL.ind E:UnsolicitedStat >1
3 | BGAK          | E:BeginAck
3 | RS            | E:Resync
3 | RS'           | E:Resync
3 | RSAK          | E:ResyncAck
3 | ER            | E:Recover
3 | ER'           | E:Recover
3 | ERAK          | E:RecoverAck
4 | END           | !ENDAK ^REL.conf >1
4 | ENDAK         | ^REL.conf >1
4 | BGREJ         | ^REL.conf >1
4 | BGN           | ^REL.conf ^EST.ind >3
4 | BGN'          | !BGAK !END
4 | T_CC          | !END
4 | T_CC*         | ^REL.conf E:NoAnswer >1
4 | EST.req       | !BGN >2
5 | RSAK          | ^RESYNC.conf >10
5 | RS            | !RSAK ^RESYNC.conf >10
5 | BGN           | ^REL.ind ^EST.ind >3
5 | BGN'          | !BGAK !RS
5 | END           | !ENDAK ^REL.ind >1
5 | ENDAK         | ^REL.ind E:EndAck >1
5 | BGREJ         | ^REL.ind E:BeginReject >1
5 | T_CC          | !RS
5 | T_CC*         | !END ^REL.ind E:NoAnswer >1
5 | REL.req       | !END >4
6 | RESYNC.resp   | !RSAK >10
6 | REL.req       | !END >4
6 | BGN           | ^REL.ind ^EST.ind >3
6 | BGN'          | E:Begin
6 | RS            | E:Resync
6 | END           | !ENDAK ^REL.ind >1
6 | ENDAK         | ^REL.ind E:EndAck >1
6 | BGREJ         | ^REL.ind E:BeginReject >1
6 | SD            | !END ^REL.ind E:Data >1
6 | POLL          | !END ^REL.ind E:Poll >1
6 | STAT          | !END ^REL.ind E:Stat >1
6 | USTAT         | !END ^REL.ind E:UnsolicitedStat >1
6 | BGAK          | E:BeginAck
6 | RSAK          | E:ResyncAck
6 | ER            | E:Recover
6 | ER'           | E:Recover
6 | ERAK          | E:RecoverAck
7 | ERAK          | ^RECOVER.ind >8
7 | ER            | !ERAK ^RECOVER.ind >8
7 | ER'           | E:Recover
7 | T_CC          | !ER
7 | T_CC*         | !END ^REL.ind E:NoAnswer >1
7 | REL.req       | !END >4
7 | RESYNC.req    | !RS >5
7 | RS            | ^RESYNC.ind >6
7 | RS'           | E:Resync
7 | BGN           | ^REL.ind ^EST.ind >3
7 | BGN'          | E:Begin
7 | END           | !ENDAK ^REL.ind >1
7 | ENDAK         | ^REL.ind E:EndAck >1
7 | BGREJ         | ^REL.ind E:BeginReject >1
7 | BGAK          | E:BeginAck
7 | RSAK          | E:ResyncAck
8 | RECOVER.resp  | >10
8 | ER            | E:Recover
8 | ER'           | !ERAK
8 | STAT          | !END ^REL.ind E:Stat >1
8 | USTAT         | !END ^REL.ind E:UnsolicitedStat >1
8 | REL.req       | !END >4
8 | RESYNC.req    | !RS >5
8 | RS            | ^RESYNC.ind >6
8 | RS'           | E:Resync
8 | BGN           | ^REL.ind ^EST.ind >3
8 | BGN'          | E:Begin
8 | END           | !ENDAK ^REL.ind >1
8 | ENDAK         | ^REL.ind E:EndAck >1
8 | BGREJ         | ^REL.ind E:BeginReject >1
8 | BGAK          | E:BeginAck
8 | RSAK          | E:ResyncAck
9 | RECOVER.resp  | !ERAK >10
9 | ER            | E:Recover
9 | SD            | !END ^REL.ind E:Data >1
9 | POLL          | !END ^REL.ind E:Poll >1
9 | STAT          | !END ^REL.ind E:Stat >1
9 | USTAT         | !END ^REL.ind E:UnsolicitedStat >1
9 | ERAK          | E:RecoverAck
9 | REL.req       | !END >4
9 | RESYNC.req    | !RS >5
9 | RS            | ^RESYNC.ind >6
9 | RS'           | E:Resync
9 | BGN           | ^REL.ind ^EST.ind >3
9 | BGN'          | E:Begin
9 | END           | !ENDAK ^REL.ind >1
9 | ENDAK         | ^REL.ind E:EndAck >1
9 | BGREJ         | ^REL.ind E:BeginReject >1
9 | BGAK          | E:BeginAck
9 | RSAK          | E:ResyncAck
10 | REL.req      | !END >4
10 | RESYNC.req   | !RS >5
10 | BGN          | ^REL.ind ^EST.ind >3
10 | BGN'         | !BGAK
10 | RS           | ^RESYNC.ind >6
10 | RS'          | !RSAK
10 | ER           | ^RECOVER.ind >9
10 | ER'          | !ERAK
10 | END          | !ENDAK ^REL.ind >1
10 | ENDAK        | ^REL.ind E:EndAck >1
10 | BGREJ        | ^REL.ind E:BeginReject >1
10 | SD           | ^DATA
10 | POLL         | !STAT
10 | STAT         | !ER E:PollSequence >7
10 | USTAT        | !ER E:UnsolicitedList >7
10 | DATA.req     | !SD
10 | T_POLL       | !POLL
10 | T_NR         | !END ^REL.ind E:NoResponse >1
";

const EVENTS: &[&str] = &[
    "EST.req",
    "EST.resp",
    "REL.req",
    "RESYNC.req",
    "RESYNC.resp",
    "RECOVER.resp",
    "DATA.req",
    "BGN",
    "BGN'",
    "BGAK",
    "BGREJ",
    "END",
    "ENDAK",
    "RS",
    "RS'",
    "RSAK",
    "ER",
    "ER'",
    "ERAK",
    "SD",
    "POLL",
    "STAT",
    "USTAT",
    "MD",
    "T_CC",
    "T_CC*",
    "T_POLL",
    "T_NR",
];

const STATES: [State; 10] = [
    State::Idle,
    State::OutgoingConnection,
    State::IncomingConnection,
    State::OutgoingDisconnection,
    State::OutgoingResync,
    State::IncomingResync,
    State::OutgoingRecovery,
    State::RecoveryResponse,
    State::IncomingRecovery,
    State::Ready,
];

fn number(state: State) -> usize {
    STATES.iter().position(|s| *s == state).unwrap() + 1
}

const NOW: Time = Time::from_millis(1000);

fn n(value: u32) -> Sequence {
    Sequence::new(value)
}

fn feed(machine: &mut Sscop, pdu: Pdu<'_>) {
    let mut octets = vec![0; pdu.buffer_len()];
    pdu.emit(&mut octets);
    machine.handle_pdu(&octets, NOW);
}

fn drain(machine: &mut Sscop) {
    while machine.poll_transmit().is_some() || machine.poll().is_some() {}
    machine.faults = [0; Fault::COUNT];
}

/// A machine that came into `state` by the events that lead there.
fn machine_in(state: State) -> Sscop {
    let mut m = Sscop::new(Config::default());
    let begin = Pdu::Begin { sq: 9, mr: n(100), uu: &[] };
    match state {
        State::Idle => {}
        State::OutgoingConnection => m.establish(true, NOW),
        State::IncomingConnection => feed(&mut m, begin),
        _ => {
            feed(&mut m, begin);
            m.establish_response(true, NOW);
            match state {
                State::OutgoingDisconnection => m.release(NOW),
                State::OutgoingResync => m.resync(NOW),
                State::IncomingResync => feed(&mut m, Pdu::Resync { sq: 10, mr: n(100), uu: &[] }),
                State::IncomingRecovery => feed(&mut m, Pdu::Recover { sq: 10, mr: n(100) }),
                State::OutgoingRecovery | State::RecoveryResponse => {
                    feed(&mut m, Pdu::Stat { r: n(0), mr: n(100), ps: n(99), list: Default::default() });
                    if state == State::RecoveryResponse {
                        feed(&mut m, Pdu::RecoverAck { mr: n(100) });
                    }
                }
                _ => {}
            }
        }
    }
    assert_eq!(m.state(), state);
    drain(&mut m);
    m
}

fn apply(m: &mut Sscop, event: &str) {
    let (last, mr) = (m.vr_sq, n(100));
    let sq = if event.ends_with('\'') { last } else { last.wrapping_add(1) };
    match event.trim_end_matches('\'') {
        "EST.req" => m.establish(true, NOW),
        "EST.resp" => m.establish_response(true, NOW),
        "REL.req" => m.release(NOW),
        "RESYNC.req" => m.resync(NOW),
        "RESYNC.resp" => m.resync_response(NOW),
        "RECOVER.resp" => m.recover_response(NOW),
        "DATA.req" => m.send(vec![1, 2, 3], NOW).unwrap(),
        "BGN" => feed(m, Pdu::Begin { sq, mr, uu: &[] }),
        "BGAK" => feed(m, Pdu::BeginAck { mr, uu: &[] }),
        "BGREJ" => feed(m, Pdu::BeginReject { uu: &[] }),
        "END" => feed(m, Pdu::End { source: Source::User, uu: &[] }),
        "ENDAK" => feed(m, Pdu::EndAck),
        "RS" => feed(m, Pdu::Resync { sq, mr, uu: &[] }),
        "RSAK" => feed(m, Pdu::ResyncAck { mr }),
        "ER" => feed(m, Pdu::Recover { sq, mr }),
        "ERAK" => feed(m, Pdu::RecoverAck { mr }),
        "SD" => feed(m, Pdu::Data { s: n(0), data: &[7] }),
        "POLL" => feed(m, Pdu::Poll { s: n(0), ps: n(1) }),
        "STAT" => feed(m, Pdu::Stat { r: n(0), mr, ps: n(1), list: Default::default() }),
        "USTAT" => feed(m, Pdu::UnsolicitedStat { r: n(0), mr, from: n(0), to: n(1) }),
        "MD" => feed(m, Pdu::ManagementData { data: &[1] }),
        "T_CC" => expire(m, |m| m.cc_timer),
        "T_CC*" => {
            m.vt_cc = m.config.max_connection_control;
            expire(m, |m| m.cc_timer);
        }
        "T_POLL" => expire(m, |m| m.poll_timer),
        "T_NR" => {
            m.poll_timer = None;
            expire(m, |m| m.no_response_timer);
        }
        other => panic!("{other}"),
    }
}

fn expire(m: &mut Sscop, timer: fn(&Sscop) -> Option<Time>) {
    if let Some(at) = timer(m) {
        m.handle_timeout(at);
    }
}

fn trace(m: &mut Sscop, before: State) -> String {
    const PDUS: [&str; 16] = [
        "", "BGN", "BGAK", "END", "ENDAK", "RS", "RSAK", "BGREJ", "SD", "ER", "POLL", "STAT", "USTAT", "UD", "MD",
        "ERAK",
    ];
    let mut out = Vec::new();
    while let Some(octets) = m.poll_transmit() {
        out.push(format!("!{}", PDUS[usize::from(Pdu::parse(&octets).unwrap().code())]));
    }
    while let Some(signal) = m.poll() {
        out.push(format!(
            "^{}",
            match signal {
                Signal::EstablishIndication => "EST.ind",
                Signal::EstablishConfirm => "EST.conf",
                Signal::ReleaseIndication(_) => "REL.ind",
                Signal::ReleaseConfirm => "REL.conf",
                Signal::ResyncIndication => "RESYNC.ind",
                Signal::ResyncConfirm => "RESYNC.conf",
                Signal::RecoverIndication => "RECOVER.ind",
                Signal::Data(_) => "DATA",
                Signal::UnitData(_) => "UNITDATA",
            }
        ));
    }
    let all = [
        Fault::Data,
        Fault::Begin,
        Fault::BeginAck,
        Fault::BeginReject,
        Fault::End,
        Fault::EndAck,
        Fault::Poll,
        Fault::Stat,
        Fault::UnsolicitedStat,
        Fault::Resync,
        Fault::ResyncAck,
        Fault::Recover,
        Fault::RecoverAck,
        Fault::NoAnswer,
        Fault::NoResponse,
        Fault::Sequence,
        Fault::PollSequence,
        Fault::StatList,
        Fault::UnsolicitedList,
        Fault::Length,
        Fault::Overrun,
    ];
    out.extend(all.into_iter().filter(|f| m.faults(*f) > 0).map(|f| format!("E:{f:?}")));
    if m.state() != before {
        out.push(format!(">{}", number(m.state())));
    }
    out.join(" ")
}

#[test]
fn every_event_in_every_state_does_what_the_table_says() {
    let rows: Vec<[&str; 3]> = TABLE
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| line.split('|').map(str::trim).collect::<Vec<_>>().try_into().unwrap())
        .collect();
    let mut used = 0;
    for state in STATES {
        for event in EVENTS {
            let number = number(state).to_string();
            let row = rows.iter().find(|[s, e, _]| *s == number && e == event);
            let expected = row.map_or("", |row| row[2]);
            used += usize::from(row.is_some());
            let mut m = machine_in(state);
            apply(&mut m, event);
            assert_eq!(trace(&mut m, state), expected, "{event} in state {number}");
        }
    }
    assert_eq!(used, rows.len(), "every row names a state and an event");
}

#[test]
fn a_pdu_of_a_wrong_length_or_type_is_counted_and_dropped() {
    for state in STATES {
        let mut m = machine_in(state);
        m.handle_pdu(&[0, 0, 0, 0, 0x0a, 0, 0], NOW);
        m.handle_pdu(&[0, 0, 0, 0, 0, 0, 0, 0], NOW);
        assert_eq!((m.faults(Fault::Length), m.state()), (2, state));
        assert_eq!(m.poll_transmit(), None);
    }
}

/// The PDUs that a ready machine sends.
fn sent(m: &mut Sscop) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| m.poll_transmit()).collect()
}

fn is(octets: &[u8], pdu: Pdu<'_>) -> bool {
    Pdu::parse(octets) == Ok(pdu)
}

#[test]
fn a_gap_is_reported_at_once_and_again_in_the_answer_to_a_poll() {
    let mut m = machine_in(State::Ready);
    for s in [0, 1, 3, 6] {
        feed(&mut m, Pdu::Data { s: n(s), data: &[s as u8] });
    }
    let out = sent(&mut m);
    assert!(is(&out[0], Pdu::UnsolicitedStat { r: n(2), mr: n(128), from: n(2), to: n(3) }));
    assert!(is(&out[1], Pdu::UnsolicitedStat { r: n(2), mr: n(128), from: n(4), to: n(6) }));
    while m.poll().is_some() {}
    feed(&mut m, Pdu::Poll { s: n(9), ps: n(5) });
    let words = [2u32, 3, 4, 6, 7, 9].map(u32::to_be_bytes);
    let stat = Pdu::Stat { r: n(2), mr: n(130), ps: n(5), list: wire::sscop::StatList::new(&words) };
    assert!(is(&sent(&mut m)[0], stat));
    for s in [2, 5, 4, 8, 7] {
        feed(&mut m, Pdu::Data { s: n(s), data: &[s as u8] });
    }
    let data: Vec<Signal> = std::iter::from_fn(|| m.poll()).collect();
    assert_eq!(data, (2..9).map(|s| Signal::Data(vec![s])).collect::<Vec<_>>());
    feed(&mut m, Pdu::Poll { s: n(9), ps: n(6) });
    assert!(is(&sent(&mut m)[0], Pdu::Stat { r: n(9), mr: n(137), ps: n(6), list: Default::default() }));
}

#[test]
fn a_list_too_long_for_one_stat_goes_on_in_the_next() {
    let mut m = Sscop::new(Config { max_stat: 3, ..Config::default() });
    feed(&mut m, Pdu::Begin { sq: 9, mr: n(100), uu: &[] });
    m.establish_response(true, NOW);
    for s in [1, 3, 5] {
        feed(&mut m, Pdu::Data { s: n(s), data: &[] });
    }
    drain(&mut m);
    feed(&mut m, Pdu::Poll { s: n(6), ps: n(1) });
    let lists: Vec<Vec<u32>> = sent(&mut m)
        .iter()
        .map(|octets| match Pdu::parse(octets) {
            Ok(Pdu::Stat { list, .. }) => list.iter().map(Sequence::get).collect(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(lists, [vec![0, 1, 2], vec![2, 3, 4], vec![4, 5, 6]]);
}

#[test]
fn only_what_was_sent_before_the_poll_is_sent_again() {
    let mut m = machine_in(State::Ready);
    for i in 0..3 {
        m.send(vec![i], NOW).unwrap();
    }
    m.handle_timeout(NOW + m.config.poll);
    m.send(vec![3], NOW).unwrap();
    sent(&mut m);
    let words = [0u32, 1, 2, 4].map(u32::to_be_bytes);
    let stat = Pdu::Stat { r: n(0), mr: n(100), ps: n(1), list: wire::sscop::StatList::new(&words) };
    feed(&mut m, stat);
    let out = sent(&mut m);
    assert!(is(&out[0], Pdu::Data { s: n(0), data: &[0] }));
    assert!(is(&out[1], Pdu::Data { s: n(2), data: &[2] }));
    assert_eq!(out.len(), 2, "3 was sent after the poll, so that the answer cannot know it");
    // The same answer once more: nothing is sent a second time before the next poll.
    feed(&mut m, stat);
    assert_eq!((sent(&mut m).len(), m.state()), (0, State::Ready));
}

#[test]
fn without_credit_messages_wait_and_are_sent_when_it_comes() {
    let mut m = Sscop::new(Config { queue: 5, ..Config::default() });
    feed(&mut m, Pdu::Begin { sq: 9, mr: n(2), uu: &[] });
    m.establish_response(true, NOW);
    drain(&mut m);
    for i in 0..5 {
        m.send(vec![i], NOW).unwrap();
    }
    assert_eq!(m.send(vec![5], NOW), Err(Full(5)));
    assert_eq!(sent(&mut m).len(), 2);
    m.handle_timeout(NOW + m.config.poll);
    feed(&mut m, Pdu::Stat { r: n(2), mr: n(2), ps: n(1), list: Default::default() });
    assert_eq!(m.faults(Fault::NoCredit), 1);
    m.handle_timeout(NOW + m.config.poll + m.config.poll);
    sent(&mut m);
    feed(&mut m, Pdu::Stat { r: n(2), mr: n(9), ps: n(2), list: Default::default() });
    assert_eq!((m.faults(Fault::Credit), sent(&mut m).len()), (1, 3));
}

#[test]
fn credit_behind_what_is_acknowledged_is_none() {
    let mut m = machine_in(State::Ready);
    m.handle_timeout(NOW + m.config.poll);
    feed(&mut m, Pdu::Stat { r: n(0), mr: n(0xff_fff0), ps: n(1), list: Default::default() });
    drain(&mut m);
    m.send(vec![1], NOW).unwrap();
    assert!(!sent(&mut m).iter().any(|octets| matches!(Pdu::parse(octets), Ok(Pdu::Data { .. }))));
}

#[test]
fn sequence_numbers_wrap() {
    let mut m = machine_in(State::Ready);
    let base = n(0xff_fffe);
    (m.vr_r, m.vr_h, m.vr_mr) = (base, base, base.plus(10));
    (m.vt_s, m.vt_a, m.vt_ms) = (base, base, base.plus(10));
    for s in [0, 1, 3, 2] {
        feed(&mut m, Pdu::Data { s: base.plus(s), data: &[s as u8] });
    }
    let data: Vec<Signal> = std::iter::from_fn(|| m.poll()).collect();
    assert_eq!(data, (0..4).map(|s| Signal::Data(vec![s])).collect::<Vec<_>>());
    for i in 0..4 {
        m.send(vec![i], NOW).unwrap();
    }
    m.handle_timeout(NOW + m.config.poll);
    sent(&mut m);
    let words = [base.plus(3).get(), base.plus(4).get()].map(u32::to_be_bytes);
    let list = wire::sscop::StatList::new(&words);
    feed(&mut m, Pdu::Stat { r: base.plus(3), mr: base.plus(20), ps: n(1), list });
    assert!(is(&sent(&mut m)[0], Pdu::Data { s: n(1), data: &[3] }));
    assert_eq!(m.state(), State::Ready);
}

#[test]
fn lists_that_contradict_what_was_sent_start_recovery() {
    let lists: [&[u32]; 5] = [&[1, 1], &[2, 1], &[0, 5], &[0, 1, 1], &[0, 1, 9]];
    for list in lists {
        let mut m = machine_in(State::Ready);
        for i in 0..4 {
            m.send(vec![i], NOW).unwrap();
        }
        m.handle_timeout(NOW + m.config.poll);
        drain(&mut m);
        let words: Vec<[u8; 4]> = list.iter().map(|e| e.to_be_bytes()).collect();
        feed(&mut m, Pdu::Stat { r: n(0), mr: n(99), ps: n(1), list: wire::sscop::StatList::new(&words) });
        assert_eq!(trace(&mut m, State::Ready).split(" E:").last(), Some("StatList >7"), "{list:?}");
    }
}

#[test]
fn a_silent_peer_is_given_up_after_seven_seconds_and_nothing_is_kept() {
    let mut m = machine_in(State::Ready);
    let mut now = NOW;
    let mut sent_after = 0;
    while m.state() == State::Ready {
        let _ = m.send(vec![0; 100], now);
        now = m.poll_timeout().unwrap();
        m.handle_timeout(now);
        sent_after += sent(&mut m).len();
        assert!(m.held() <= 2 * m.config.queue);
    }
    assert_eq!(now.since(NOW), m.config.no_response);
    assert!(sent_after > 9);
    drain(&mut m);
    assert_eq!((m.held(), m.state()), (0, State::Idle));
    assert_eq!(m.poll_timeout(), None);
}

#[test]
fn with_buffers_kept_a_recovery_delivers_what_had_come_out_of_order() {
    let mut m = Sscop::new(Config::default());
    feed(&mut m, Pdu::Begin { sq: 9, mr: n(100), uu: &[] });
    m.establish_response(false, NOW);
    for s in [1, 2] {
        feed(&mut m, Pdu::Data { s: n(s), data: &[s as u8] });
    }
    drain(&mut m);
    feed(&mut m, Pdu::Recover { sq: 10, mr: n(100) });
    let signals: Vec<Signal> = std::iter::from_fn(|| m.poll()).collect();
    assert_eq!(signals, [Signal::Data(vec![1]), Signal::Data(vec![2]), Signal::RecoverIndication]);
    m.send(vec![9], NOW).unwrap();
    m.recover_response(NOW);
    assert!(sent(&mut m).iter().any(|octets| is(octets, Pdu::Data { s: n(0), data: &[9] })));
}
