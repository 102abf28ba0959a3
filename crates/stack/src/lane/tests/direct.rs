//! Several direct calls between two stations: both have called, or one has called again.

use super::world::{aesa, frame, mac};
use super::*;
use wire::lane::{emit_ready, is_control};

/// On which calls a frame to a station leaves: data, and requests to flush.
fn leaves(client: &mut Client, to: [u8; 6], from: usize, now: Time) -> (Vec<Link>, Vec<(Link, Control)>) {
    client.send(&frame(to, from, 0), now);
    let (control, data): (Vec<_>, Vec<_>) =
        std::iter::from_fn(|| client.poll_frame()).partition(|(_, octets)| is_control(octets));
    let flushes = control.into_iter().filter_map(|(link, octets)| Some((link, Control::parse(&octets).ok()?)));
    let flushes = flushes.filter(|(_, control)| control.operation == Operation::FLUSH).collect();
    (data.into_iter().map(|(link, _)| link).collect(), flushes)
}

#[test]
fn stations_that_call_each_other_at_once_use_the_lower_addresss_call_and_no_frame_is_overtaken() {
    let mut world = joined();
    let before = world.made;
    for number in 0..100 {
        world.send(A, mac(B), number);
        world.send(B, mac(A), number);
        world.pass(Duration::from_millis(30));
    }
    world.pass(Duration::from_secs(10));
    assert_eq!(world.made, before + 2, "both have called");
    assert_eq!([world.taken(B, A), world.taken(A, B)], [(); 2].map(|()| (0..100).collect::<Vec<_>>()));
    let now = world.now;
    let [of_a, of_b] =
        [(0, B, A), (1, A, B)].map(|(at, to, from)| leaves(&mut world.clients[at], mac(to), from, now).0);
    assert!(matches!(of_a[..], [Link::Made(_)]) && matches!(of_b[..], [Link::Taken(_)]), "{of_a:?} {of_b:?}");
}

/// Linux's `lec` forgets a station that sends on another call than its last one.
#[test]
fn a_station_that_calls_again_has_its_frames_on_its_last_call_once_the_former_is_empty() {
    let mut world = joined();
    world.send(B, mac(A), 0);
    world.pass(Duration::from_secs(10));
    let (control, mut now, client) = (world.link_of(B, Service::Control), world.now, &mut world.clients[1]);
    let mut former = leaves(client, mac(A), B, now).0[0];
    // Not the larger number, the later call.
    for link in [90_001, 90_000].map(Link::Taken) {
        now += Duration::from_secs(1);
        client.handle_incoming(link, Some(aesa(A)), Service::Direct, now);
        client.handle_up(link, now);
        assert_eq!(client.handle_frame(link, &emit_ready(Operation::READY_INDICATION), now), None);
        let (data, flushes) = leaves(client, mac(A), B, now);
        let [(by, flush)] = flushes[..] else { panic!("{flushes:?}") };
        assert!(data.is_empty() && by == former, "{data:?} {by:?}");
        let mut octets = [0; CONTROL_OCTETS];
        response_to(&flush, 0).emit(&[], &mut octets);
        assert_eq!(client.handle_frame(control, &octets, now), None);
        assert_eq!(leaves(client, mac(A), B, now), (vec![link; 2], vec![]), "what waited, and one more");
        former = link;
    }
}
