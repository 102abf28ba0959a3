//! `cellway trace` through a live network.

use crate::up::Net;
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(60);

#[test]
fn each_point_of_a_circuit_is_named() {
    let net = Net::up(
        WAIT,
        r#"
        [host.alpha]
        [host.beta]
        [switch.first]
        [switch.second]
        [[link]]
        ends = ["alpha", "first:0"]
        [[link]]
        ends = ["first:1", "second:0"]
        carries = "frames"
        [[link]]
        ends = ["second:1", "beta"]
        [[circuit]]
        ends = ["alpha 0.100", "beta 0.100"]
        "#,
    );
    let traced = net.done(&["trace", "alpha", "0.100"]);
    let names: Vec<_> = traced["hops"].as_array().unwrap().iter().map(|hop| hop["location"].clone()).collect();
    assert_eq!(names, ["first", "second", "beta"]);
    for hop in traced["hops"].as_array().unwrap() {
        assert_eq!(hop["rtt_us"].as_array().unwrap().len(), 3);
    }
    assert_eq!(traced["end_rtt_us"].as_array().unwrap().len(), 3);
}
