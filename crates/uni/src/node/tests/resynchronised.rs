//! A signalling link that begins anew while many calls are up.

use super::*;

const ALERTED: usize = 130;
const ANSWERED: usize = 270;

#[test]
fn all_active_calls_are_asked_about_after_a_resynchronisation_also_behind_many_that_are_not_active() {
    let mut net = row(1);
    let now = net.now();
    for _ in 0..ALERTED + ANSWERED {
        call(&mut net, 0, address(0, 1), cbr(1));
    }
    let (mut offered, end) = (0, now + Duration::from_secs(1));
    let mut up = 0;
    loop {
        while let Some((host, event)) = net.poll() {
            let now = net.now();
            match event {
                Event::Setup { call, .. } => {
                    offered += 1;
                    let calls = net.host_mut(host).calls_mut();
                    if offered <= ALERTED {
                        calls.alert(call, now).unwrap();
                    } else {
                        calls.connect(call, &ElementList::default(), now).unwrap();
                    }
                    net.flush(host);
                }
                Event::Connected { .. } => up += 1,
                _ => {}
            }
        }
        if !net.step(end) {
            break;
        }
    }
    assert_eq!((offered, up), (ALERTED + ANSWERED, ANSWERED));
    let sent = |net: &Simulation| {
        let (host, port) = (net.host(0).calls(), net.switch(0).port(0).unwrap().calls());
        assert!(!host.has_enquiries() && !port.has_enquiries());
        [host.counts().sent, port.counts().sent]
    };
    let before = sent(&net);
    // Both sides ask about each, and answer.
    let now = net.now();
    net.host_mut(0).start(now);
    net.flush(0);
    net.run_for(Duration::from_secs(1));
    assert_eq!(sent(&net), before.map(|n| n + 2 * ANSWERED as u64));
    net.run_for(Duration::from_secs(20));
    assert_eq!(net.host(0).calls().len(), ALERTED + ANSWERED, "none was lost");
}
