//! What an end point of OAM does in time, event by event.

use super::*;
use std::collections::VecDeque;
use std::time::Duration;
use wire::oam::{
    Activation, BlockCode, Defect, DefectType, Directions, Function, Location, Message, Monitoring, Subject,
};
use wire::{Cell, CellHeader, CircuitId, Time};

fn at(ms: u64) -> Time {
    Time::from_millis(ms)
}

fn named(name: &str) -> EndPoint {
    EndPoint::new(PointConfig { name: Location::named(name), sends: true, sees_cells: true })
}

fn sent(point: &mut EndPoint, now: Time) -> Vec<Function> {
    point.handle_timeout(now);
    std::iter::from_fn(|| point.poll_transmit(now)).collect()
}

fn kinds(point: &EndPoint) -> Vec<AlarmKind> {
    point.alarms().map(|alarm| alarm.kind).collect()
}

const HERE: Defect = Defect { kind: DefectType::LINK, location: Location([7; 16]) };

fn cell(n: u64) -> Cell {
    let header = CellHeader { circuit: CircuitId::from_key(100), clp: n.is_multiple_of(3), ..CellHeader::default() };
    Cell::new(header, std::array::from_fn(|i| (n as usize * 31 + i * 7) as u8))
}

#[test]
fn the_first_ais_cell_begins_the_state_and_rdi_goes_back_each_second_until_it_is_silent_for_2_5_seconds() {
    let mut point = named("beta");
    let mut rdi = Vec::new();
    for ms in 0..10_000 {
        if ms % 1000 == 0 && ms <= 4000 {
            assert!(point.handle_cell(&Function::Ais(HERE), at(ms)));
        }
        for function in sent(&mut point, at(ms)) {
            assert_eq!(function, Function::Rdi(HERE));
            rdi.push(ms);
        }
        let expected: &[AlarmKind] = if ms < 6500 { &[AlarmKind::Ais] } else { &[] };
        assert_eq!(kinds(&point), expected, "at {ms} ms");
    }
    assert_eq!(rdi, [0, 1000, 2000, 3000, 4000, 5000, 6000]);
    let events: Vec<_> = std::iter::from_fn(|| point.poll_event()).map(|e| (e.began, e.at)).collect();
    assert_eq!(events, [(true, at(0)), (false, at(6500))]);
    assert!(point.is_at_rest() && point.poll_timeout().is_none());
}

#[test]
fn a_user_cell_or_a_continuity_check_cell_ends_ais_at_once_and_an_rdi_cell_does_not() {
    for clears in [None, Some(Function::ContinuityCheck)] {
        let mut point = named("beta");
        point.handle_cell(&Function::Ais(HERE), at(0));
        point.handle_cell(&Function::Rdi(HERE), at(1));
        assert_eq!(kinds(&point), [AlarmKind::Ais, AlarmKind::Rdi]);
        match clears {
            None => point.handle_user_cells(&[cell(0)], at(2)),
            Some(function) => assert!(point.handle_cell(&function, at(2))),
        }
        assert_eq!(kinds(&point), [AlarmKind::Rdi]);
        assert!(!point.has_output(at(2)));
        point.handle_timeout(at(2500));
        assert_eq!(kinds(&point), [AlarmKind::Rdi]);
        point.handle_timeout(at(2501));
        assert_eq!(kinds(&point), []);
    }
}

#[test]
fn continuity_is_lost_after_3_5_seconds_and_the_other_end_is_told_where() {
    let mut point = named("beta");
    point.manage_continuity(true, false, at(0));
    point.handle_user_cells(&[cell(0)], at(1000));
    assert!(point.poll_timeout().is_some_and(|due| due <= at(4500)));
    sent(&mut point, at(4499));
    assert_eq!(kinds(&point), []);
    let told = sent(&mut point, at(4500));
    assert_eq!(kinds(&point), [AlarmKind::LossOfContinuity]);
    assert_eq!(told, [Function::Rdi(Defect::found(DefectType::CONTINUITY, Location::named("beta")))]);
    // AIS tells the cause; when it has ended and nothing came, continuity is lost anew.
    point.handle_cell(&Function::Ais(HERE), at(5000));
    assert_eq!(kinds(&point), [AlarmKind::Ais]);
    sent(&mut point, at(7500));
    assert_eq!(kinds(&point), []);
    sent(&mut point, at(8500));
    assert_eq!(kinds(&point), [AlarmKind::LossOfContinuity]);
    point.handle_cell(&Function::ContinuityCheck, at(8600));
    assert_eq!(kinds(&point), []);
    point.manage_continuity(false, false, at(8700));
    sent(&mut point, at(60_000));
    assert_eq!(kinds(&point), []);
}

#[test]
fn a_continuity_check_cell_goes_once_no_user_cell_went_for_a_second_or_each_second_if_asked_for() {
    for (always, expected) in [(false, vec![1000, 2700, 3700]), (true, vec![1000, 2000, 3000])] {
        let mut point = named("alpha");
        point.manage_continuity(true, always, at(0));
        let mut checks = Vec::new();
        for ms in 0..4000 {
            if (1500..=1700).contains(&ms) {
                point.handle_sent(&[cell(ms)], at(ms));
            }
            let cells = sent(&mut point, at(ms));
            checks.extend(cells.iter().filter(|f| **f == Function::ContinuityCheck).map(|_| ms));
        }
        assert_eq!(checks, expected, "always: {always}");
    }
}

/// Two ends, and what is on its way between them.
struct Pair {
    ends: [EndPoint; 2],
    now: Time,
}

impl Pair {
    fn new() -> Self {
        Pair { ends: [named("alpha"), named("beta")], now: at(0) }
    }

    /// Hands over what both have to say, `lose` apart.
    fn talk(&mut self, mut lose: impl FnMut(usize, &Function) -> bool) {
        loop {
            let mut any = false;
            for from in 0..2 {
                for function in sent(&mut self.ends[from], self.now) {
                    any = true;
                    if !lose(from, &function) {
                        let parsed = Function::parse(&function.emit()).unwrap();
                        self.ends[1 - from].handle_cell(&parsed, self.now);
                    }
                }
            }
            if !any {
                return;
            }
        }
    }

    /// Lets `n` cells go from one end to the other in single steps; `fate` says how often each arrives, and changes it.
    fn send(&mut self, from: usize, cells: impl Iterator<Item = u64>, mut fate: impl FnMut(u64, &mut Cell) -> usize) {
        for n in cells {
            let mut cell = cell(n);
            self.ends[from].handle_sent(&[cell], self.now);
            for _ in 0..fate(n, &mut cell) {
                self.ends[1 - from].handle_user_cells(&[cell], self.now);
            }
            self.talk(|_, _| false);
        }
    }
}

#[test]
fn activation_is_agreed_repeated_when_unanswered_and_given_up_after_three_times() {
    let mut pair = Pair::new();
    let request = Request::continuity(true);
    pair.ends[0].request(request, at(0)).unwrap();
    assert_eq!(pair.ends[0].request(request, at(0)), Err(RequestError::Busy));
    // The first request is lost, the answer to the second too.
    pair.talk(|_, _| true);
    pair.now = at(5000);
    pair.talk(|from, _| from == 1);
    assert_eq!(pair.ends[1].continuity(), [true, true]);
    assert_eq!(pair.ends[0].last_request(), Some((request, RequestOutcome::Asking)));
    pair.now = at(10_000);
    pair.talk(|_, _| false);
    assert_eq!(pair.ends[0].last_request(), Some((request, RequestOutcome::Confirmed)));
    assert_eq!(pair.ends[0].continuity(), [true, true]);
    pair.ends[0].request(Request::continuity(false), pair.now).unwrap();
    pair.talk(|_, _| false);
    assert!(pair.ends.iter().all(|end| end.continuity() == [false, false]));
    let block = BlockCode::of_cells(256).unwrap();
    pair.ends[0].request(Request::monitoring(true, block), pair.now).unwrap();
    let mut asked = 0;
    for s in 10..40 {
        pair.now = at(s * 1000);
        pair.talk(|_, function| {
            asked += usize::from(matches!(function, Function::Activation(_)));
            true
        });
    }
    assert_eq!(asked, 3);
    assert_eq!(pair.ends[0].last_request(), Some((Request::monitoring(true, block), RequestOutcome::TimedOut)));
    assert_eq!(pair.ends[0].monitoring(), (None, None));
}

#[test]
fn what_cannot_be_is_denied_and_counted_and_what_the_description_has_cannot_be_stopped_from_outside() {
    let mut point = EndPoint::new(PointConfig { sees_cells: false, ..named("beta").config() });
    point.manage_continuity(true, false, at(0));
    let ask = |subject, message, blocks| {
        Function::Activation(Activation { subject, message, directions: Directions::Both, tag: 3, blocks })
    };
    let block = [BlockCode::of_cells(128).unwrap(); 2];
    let cases = [
        (ask(Subject::Monitoring, Message::Activate, block), Message::ActivationDenied),
        (ask(Subject::ContinuityCheck, Message::Deactivate, [BlockCode::NONE; 2]), Message::DeactivationDenied),
        (ask(Subject::ContinuityCheck, Message::Activate, [BlockCode::NONE; 2]), Message::ActivationConfirmed),
    ];
    for (request, wanted) in cases {
        assert!(point.handle_cell(&request, at(1)));
        let answers = sent(&mut point, at(1));
        assert!(matches!(&answers[..], [Function::Activation(a)] if a.message == wanted && a.tag == 3), "{answers:?}");
    }
    assert_eq!((point.refused(), point.continuity()), (2, [true, true]));
    assert_eq!(point.request(Request::continuity(false), at(1)), Err(RequestError::Managed));
    assert_eq!(point.request(Request::monitoring(true, block[0]), at(1)), Err(RequestError::NoCells));
    assert_eq!(point.manage_monitoring(Some(128)), Err(RequestError::NoCells));
    assert_eq!(named("x").manage_monitoring(Some(100)), Err(RequestError::NoBlock));
    // Blocks of no known size.
    let mut point = named("beta");
    point.handle_cell(&ask(Subject::Monitoring, Message::Activate, [BlockCode::NONE; 2]), at(1));
    assert_eq!((point.refused(), point.monitoring()), (1, (None, None)));
}

#[test]
fn a_flood_of_requests_leaves_two_answers_and_no_more_state() {
    let mut point = named("beta");
    for tag in 0..=255 {
        let blocks = [BlockCode::of_cells([128, 256][usize::from(tag % 2)]).unwrap(); 2];
        let (subject, message, directions) = (Subject::Monitoring, Message::Activate, Directions::Both);
        point.handle_cell(&Function::Activation(Activation { subject, message, directions, tag, blocks }), at(1));
        point.handle_cell(&Function::Monitoring(Monitoring { sequence: tag, ..Monitoring::default() }), at(1));
    }
    let answers = sent(&mut point, at(1));
    let n = answers.iter().filter(|f| matches!(f, Function::Activation(_))).count();
    assert_eq!(n, 2);
    assert!(answers.len() <= 2 + 4 + 1, "{answers:?}");
}

#[test]
fn monitoring_finds_exactly_what_was_lost_misinserted_and_damaged_at_both_ends() {
    let mut pair = Pair::new();
    pair.ends[0].request(Request::monitoring(true, BlockCode::of_cells(128).unwrap()), at(0)).unwrap();
    pair.talk(|_, _| false);
    let (mut lost, mut lost_clp0, mut twice, mut damaged) = (0, 0, 0, 0);
    // One kind of fault in each block, in turn: two of opposite kinds in one block make up for each other.
    pair.send(0, 0..128 * 600, |n, cell| match (n / 128 % 4, n % 128) {
        (1, 5..9) => {
            lost += 1;
            lost_clp0 += u64::from(cell.header_word() & 1 == 0);
            0
        }
        (2, 70..73) => {
            twice += 1;
            2
        }
        (3, 127) => {
            damaged += 1;
            cell.payload[usize::try_from(n).unwrap() % 48] ^= 0x81;
            1
        }
        _ => 1,
    });
    let (far, near) = (pair.ends[0].monitoring().0.unwrap(), pair.ends[1].monitoring().1.unwrap());
    assert_eq!(far, (128, near));
    let expected = Results {
        blocks: 600,
        cells: 128 * 600,
        lost,
        lost_clp0,
        misinserted: twice,
        errored_blocks: damaged,
        errored_parities: 2 * damaged,
        monitoring_lost: 0,
    };
    assert_eq!(near, expected);
    assert!(lost > 0 && lost_clp0 > 0 && twice > 0 && damaged > 0);
    // Nothing was sent the other way.
    assert_eq!(pair.ends[0].monitoring().1, Some(Results::default()));
}

#[test]
fn a_lost_monitoring_cell_is_counted_and_the_next_one_tells_of_both_blocks() {
    let mut pair = Pair::new();
    for end in &mut pair.ends {
        end.manage_monitoring(Some(128)).unwrap();
    }
    pair.talk(|_, _| false);
    let mut waiting = VecDeque::from([false, true, false, false]);
    for n in 0..512 {
        let sent_cell = cell(n);
        pair.ends[0].handle_sent(&[sent_cell], pair.now);
        if n != 200 {
            pair.ends[1].handle_user_cells(&[sent_cell], pair.now);
        }
        pair.talk(|from, f| from == 0 && matches!(f, Function::Monitoring(_)) && waiting.pop_front().unwrap_or(false));
    }
    let near = pair.ends[1].monitoring().1.unwrap();
    let expected = Results { blocks: 3, cells: 512, lost: 1, lost_clp0: 1, monitoring_lost: 1, ..Results::default() };
    assert_eq!(near, expected);
    assert_eq!(pair.ends[0].monitoring().0, Some((128, Results { monitoring_lost: 0, ..expected })));
}

#[test]
fn timers_call_once_and_forget_entries_that_an_earlier_one_has_overtaken() {
    let mut timers = Timers::default();
    let mut armed = None;
    timers.arm(1u32, &mut armed, Some(at(50)));
    timers.arm(1, &mut armed, Some(at(60)));
    timers.arm(1, &mut armed, Some(at(10)));
    assert_eq!(timers.poll_timeout(), Some(at(10)));
    assert_eq!(timers.pop_due(at(9)), None);
    let (due, key) = timers.pop_due(at(10)).unwrap();
    assert!(key == 1 && Timers::<u32>::fired(&mut armed, due) && armed.is_none());
    let (due, _) = timers.pop_due(at(100)).unwrap();
    assert!(!Timers::<u32>::fired(&mut armed, due));
    assert_eq!(timers.pop_due(at(100) + Duration::from_secs(1)), None);
}
