//! `cellway-lab ttcp` by windows, and behind an adapter: what docs/data-paths.md promises of prediction.

use super::{Net, within};
use cellway::client::{self, Size};
use cellway::context::Context;
use endpoint::Aal;
use serde_json::Value;
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(60);

/// Two hosts, and a link at a rate that the receiver follows.
const NETWORK: &str = r#"
[host.alpha]
[host.beta]
[[link]]
ends = ["alpha", "beta"]
rate = "20 Mbit/s"
[[circuit]]
ends = ["alpha 0.100", "beta 0.100"]
[[circuit]]
ends = ["alpha 1.100", "beta 1.100"]
[[circuit]]
ends = ["alpha 0.101", "beta 0.101"]
"#;

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// Receives with `receiver` while `sent` runs, and gives what the receiver says.
fn received(net: &Net, receiver: &[&str], sent: impl FnOnce()) -> Value {
    let before = net.endpoints().len();
    let receiving = net.command(&[&["ttcp", "-r", "beta", "0.100"], receiver].concat()).spawn().unwrap();
    within(WAIT, "the receiver has its endpoint", || net.endpoints().len() > before);
    within(WAIT, "the receiver has its channel", || net.endpoints().iter().any(|endpoint| endpoint["channels"] == 1));
    sent();
    let output = receiving.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What holds of each run; gives the adapter's part.
fn checked(got: &Value, count: u64, octets: u64) -> &Value {
    let pdus = number(&got["pdus"]);
    assert!(pdus > 0 && pdus + number(&got["pdus_lost"]) == count, "{got:#}");
    assert_eq!((number(&got["octets"]), number(&got["pdus_changed"])), (octets * pdus, 0), "{got:#}");
    let adapter = &got["adapter"];
    // The application reads each octet once, those of the PDUs that say begin and end as well.
    let read = number(&adapter["octets_by_application"]);
    assert!((octets * pdus..=octets * pdus + 32).contains(&read), "{got:#}");
    let copied = number(&adapter["octets_copied"]);
    assert!(number(&adapter["octets_by_copy"]) >= 2 * copied, "{got:#}");
    let all = read + number(&adapter["octets_by_device"]) + number(&adapter["octets_by_copy"]);
    let crossings = adapter["crossings"].as_f64().unwrap();
    assert!((crossings - all as f64 / (octets * pdus) as f64).abs() < 1e-6, "{got:#}");
    adapter
}

#[test]
fn the_eni155ps_driver_predicts_datagrams_in_the_interrupt_and_those_with_options_are_copied() {
    let net = Net::up(NETWORK);
    let common = ["-l", "8192", "-n", "100", "--udp", "--check"];
    let send = |more: &[&str]| drop(net.done(&[&["ttcp", "-t", "alpha", "0.100"], &common[..], more].concat()));
    let receiver = [&common[..], &["--adapter", "eni155p"]].concat();

    // Something else on the circuit before: it is for nobody.
    let got = received(&net, &receiver, || {
        let context = Context { socket: net.socket(), json: true };
        let circuit = "0.100".parse().unwrap();
        let (mut endpoint, channel) = client::open(&context, "alpha", circuit, Aal::Aal5, Size::Small).unwrap();
        endpoint.send_copy(channel, b"nothing of UDP").unwrap();
        // What it has sent still leaves; its circuit is free at once.
        drop(endpoint);
        send(&[]);
    });
    let (adapter, pdus) = (checked(&got, 100, 8192), number(&got["pdus"]));
    assert_eq!(number(&adapter["pdus_unclaimed"]), 1, "{got:#}");
    assert_eq!(number(&adapter["pages_mapped"]), 2 * pdus, "{got:#}");
    assert!(number(&adapter["pdus_predicted"]) >= pdus && number(&adapter["pdus_mispredicted"]) == 0, "{got:#}");
    // Nothing but marks is copied: the adapter writes, the application reads.
    assert!(number(&adapter["octets_copied"]) <= 32, "{got:#}");

    let got = received(&net, &receiver, || send(&["--ip-options", "4"]));
    let (adapter, pdus) = (checked(&got, 100, 8192), number(&got["pdus"]));
    let slow = number(&adapter["pdus_mispredicted"]);
    assert!((1..=25).contains(&slow) && slow + number(&adapter["pdus_predicted"]) >= pdus, "{got:#}");
    assert_eq!(number(&adapter["pages_mapped"]), 2 * (pdus - slow), "{got:#}");
    assert!(number(&adapter["octets_copied"]) >= 8192 * slow, "{got:#}");
}

#[test]
fn the_just_in_time_adapters_driver_learns_from_the_last_pdus_and_changes_buffers_because_of_trailers() {
    let net = Net::up(NETWORK);
    for padding in ["0", "8"] {
        // With padding the PDU's last octets lie on two pages.
        let common = ["-l", "8152", "-n", "100", "--udp", "--check"];
        let got = received(&net, &[&common[..], &["--adapter", "jit"]].concat(), || {
            net.done(&[&["ttcp", "-t", "alpha", "0.100"], &common[..], &["--padding", padding]].concat());
        });
        let (adapter, pdus) = (checked(&got, 100, 8152), number(&got["pdus"]));
        let (hits, misses) = (number(&adapter["pdus_predicted"]), number(&adapter["pdus_mispredicted"]));
        assert!(hits > 0 && (1..20).contains(&misses) && hits + misses >= pdus, "{got:#}");
        assert!(number(&adapter["pages_mapped"]) > 0, "{got:#}");
        assert_eq!(number(&adapter["strategies_changed"]) > 0, padding == "8", "{got:#}");
    }
}

#[test]
fn a_circuit_of_ones_own_needs_no_headers_and_what_does_not_go_together_is_refused() {
    let net = Net::up(NETWORK);
    for adapter in ["eni155p", "jit"] {
        let common = ["-l", "16384", "-n", "50", "--check"];
        let got = received(&net, &[&common[..], &["--adapter", adapter]].concat(), || {
            net.done(&[&["ttcp", "-t", "alpha", "0.100"], &common[..]].concat());
        });
        assert!(number(&checked(&got, 50, 16_384)["pages_mapped"]) > 0, "{got:#}");
    }
    for (arguments, reason) in [
        (&["-t", "alpha", "0.100", "--adapter", "jit"][..], "--adapter receives: give it with -r"),
        (&["-r", "beta", "0.100", "--adapter", "jit", "--aal", "aal34"], "the adapters carry AAL5"),
        (&["-r", "beta", "0.100", "--udp"], "give --adapter as well"),
        (&["-t", "alpha", "0.100", "--udp", "-l", "65500"], "give -l 65491 or less"),
        (&["-r", "beta", "0.100", "--udp", "--adapter", "jit", "--padding", "8"], "give them with -t"),
        (&["-r", "beta", "1.100", "--adapter", "eni155p"], "the ENI155P has no circuit 1.100"),
    ] {
        let refused = net.run(&[&["ttcp"], arguments].concat());
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && said.contains(reason), "{arguments:?}: {said}");
    }
}

/// A sender by windows writes each SDU to a page of which an earlier one may still be leaving.
#[test]
fn what_is_checked_comes_as_it_was_sent_by_windows_and_by_copies() {
    let net = Net::up(NETWORK);
    for way in [&[][..], &["--windows"]] {
        let common = [&["-l", "9000", "-n", "100", "--check"], way].concat();
        let got = received(&net, &common, || {
            net.done(&[&["ttcp", "-t", "alpha", "0.100"], &common[..]].concat());
        });
        let pdus = number(&got["pdus"]);
        // What comes before frames are posted is lost.
        assert!(pdus > 0 && pdus + number(&got["pdus_lost"]) == 100, "{got:#}");
        assert_eq!(number(&got["pdus_changed"]), 0, "{got:#}");
    }
    // Who does not number what it sends is found out.
    let got = received(&net, &["-l", "9000", "-n", "3", "--check"], || {
        net.done(&["ttcp", "-t", "alpha", "0.100", "-l", "9000", "-n", "3"]);
    });
    assert_eq!((number(&got["pdus"]), number(&got["pdus_changed"])), (3, 3), "{got:#}");
}

/// Whoever reads looks at whole pages that were mapped, and at the rest that was copied; a page that is leaving is protected.
#[test]
fn ttcp_by_windows_sends_from_pages_and_maps_those_that_it_receives() {
    let net = Net::up(NETWORK);
    let lengths = ["-l", "9000", "-n", "200", "--windows"];
    let receiving = net.command(&[&["ttcp", "-r", "beta", "0.100"][..], &lengths].concat()).spawn().unwrap();
    within(WAIT, "the receiver has its channel", || net.endpoints().iter().any(|endpoint| endpoint["channels"] == 1));
    let sent = net.done(&[&["ttcp", "-t", "alpha", "0.100"][..], &lengths].concat());
    let output = receiving.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let got: Value = serde_json::from_slice(&output.stdout).unwrap();
    // What comes before frames are posted is lost.
    let pdus = number(&got["pdus"]);
    assert!(pdus > 0 && pdus + number(&got["pdus_lost"]) == 200, "{got}");
    let windows = &got["windows"];
    assert_eq!((number(&windows["pages_mapped"]), number(&got["octets"])), (2 * pdus, 9000 * pdus), "{got}");
    // Besides, what says begin and end.
    let copied = number(&windows["octets_copied"]);
    assert!((808 * pdus..=808 * pdus + 100).contains(&copied), "{got}");
    assert!(number(&sent["windows"]["pages_protected"]) > 0 && sent["windows"]["pages_copied"] == 0, "{sent}");
    let refused = net.run(&["ttcp", "-t", "alpha", "0.101", "--windows", "--aal", "aal34"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("windows carry AAL5"), "{said}");
}
