//! What an application sends to a display of a desk: octets that say more than they are.

use crate::managed::Managed;
use apic::desk::video::{MAX_FRAME_OCTETS, Part};
use control::config::parse_with;
use control::daemon::DaemonOptions;
use endpoint::SendError;
use hostile::{Class, Field, Trial};
use std::time::Duration;

/// The innocent circuit 0.100, and a display with circuit 0.200 from alpha.
fn ground() -> Managed {
    let text = "[host.alpha]\n[host.beta]\n[switch.s1]\n\
        [desk.den]\nchips = 2\n[desk.den.devices]\nwall = { kind = \"display\", chip = 1 }\n\
        [[link]]\nends = [\"alpha\", \"s1:0\"]\n[[link]]\nends = [\"beta\", \"s1:1\"]\n[[link]]\nends = [\"den:0\", \"s1:2\"]\n\
        [[circuit]]\nends = [\"alpha 0.100\", \"beta 0.100\"]\n[[circuit]]\nends = [\"alpha 0.200\", \"wall 0.200\"]\n";
    Managed::up(parse_with(&cellway::kinds::kinds(), text, "net.toml").unwrap(), |_| DaemonOptions::default())
}

#[test]
fn cells_that_each_say_a_new_frame_of_4_mib_hold_up_nobody() {
    Trial::new(Class::Engine, ground).withstand(|ground, attack| {
        let (mut sender, channel) = ground.open("alpha", 200);
        let mut part = Part { size: [2048, 2048], parts: 1, ..Part::default() };
        assert_eq!(part.frame_octets(), MAX_FRAME_OCTETS);
        while attack.goes_on() {
            // 33 octets: a cell.
            match sender.send_copy(channel, &[&part.emit()[..], &[1]].concat()) {
                Ok(()) => part.frame += 1,
                Err(SendError::Full) => std::thread::sleep(Duration::from_micros(100)),
                Err(error) => panic!("{error}"),
            }
        }
        assert!(part.frame > 1000, "{} frames", part.frame);
    });
}
