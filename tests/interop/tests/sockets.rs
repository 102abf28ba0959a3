//! The preloaded library beside the kernel: one program of socket calls (`sockets.c`), run on a Linux 5.10 guest's own ATM
//! stack and under `cellway run`; each line it prints must be the same.

use interop::guest::Guest;
use interop::up::Up;
use interop::{have, program};
use std::time::Duration;

/// Two interfaces that are joined, as the guest's two ends of ATM over TCP are.
const NETWORK: &str = r#"
[host.alpha]
[host.beta]
[[link]]
ends = ["alpha", "beta"]
carries = "frames"
[[circuit]]
ends = ["alpha 0.100", "beta 0.100"]
[[circuit]]
ends = ["alpha 0.101", "beta 0.101"]
"#;

/// Fewer cases than this, and the program has not run to its end.
const LEAST_CASES: usize = 580;

#[test]
fn every_call_answers_as_the_kernel_does() {
    if !have(&[("cc", "gcc")]) || !Guest::available() {
        return;
    }
    let circuits: String =
        (1000..1150).map(|vci| format!("[[circuit]]\nends = [\"alpha 0.{vci}\", \"beta 0.{vci}\"]\n")).collect();
    let up = Up::new(&format!("{NETWORK}{circuits}"));
    let folder = up.path("");
    program::compile("sockets.c", &folder.join("cases"), &["-lpthread"]).unwrap();
    let output = up.command("run -- ./cases").env("CELLWAY_QUIET", "1").output().unwrap();
    let ours = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{ours}\n{}", String::from_utf8_lossy(&output.stderr));

    let cases = program::for_guest("sockets.c").unwrap();
    let script = r#"
        atmtcp virtual listen 9000 2>&1 &
        sleep 0.5
        atmtcp virtual connect 127.0.0.1 9000 2>&1 &
        sleep 1
        timeout 60 /test/cases > /tmp/lines || true
        emit /tmp/lines
    "#;
    let report = Guest::boot(script, &[("cases", &cases)]).unwrap().finish().unwrap();
    let kernel = String::from_utf8(report.file("/tmp/lines").unwrap()).unwrap();
    assert!(kernel.ends_with("end\n"), "the kernel's run ended early:\n{kernel}");

    let (kernel, ours): (Vec<&str>, Vec<&str>) = (kernel.lines().collect(), ours.lines().collect());
    let wrong: Vec<String> = kernel
        .iter()
        .zip(&ours)
        .filter(|(kernel, ours)| kernel != ours)
        .map(|(kernel, ours)| format!("kernel: {kernel}\n  ours: {ours}"))
        .collect();
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), kernel.len(), wrong.join("\n"));
    assert_eq!(kernel.len(), ours.len());
    assert!(kernel.len() > LEAST_CASES, "{} cases", kernel.len());
}

/// The library's own part of this is small and easily wrong: when a descriptor becomes readable, writable, and not so.
#[test]
fn no_way_of_waiting_loses_an_sdu_or_waits_for_ever() {
    if !have(&[("cc", "gcc")]) {
        return;
    }
    let up = Up::new(NETWORK);
    program::compile("bursts.c", &up.path("bursts"), &["-lpthread"]).unwrap();
    for way in ["read", "poll", "select", "epoll", "edge", "threads"] {
        let output = up.command(&format!("run -- ./bursts 100 50000 300 {way}")).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{way}: {} {}", output.status, String::from_utf8_lossy(&said));
    }
}

/// What was sent has been sent, as with a kernel's sockets, however the sender ends.
#[test]
fn what_was_sent_arrives_though_the_sender_is_gone_at_once() {
    if !have(&[("cc", "gcc")]) {
        return;
    }
    let up = Up::new(NETWORK);
    program::compile("gone.c", &up.path("gone"), &[]).unwrap();
    for way in ["kill", "exit", "exec"] {
        let output = up.command(&format!("run -- ./gone 100 200 30 {way}")).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{way}: {} {}", output.status, String::from_utf8_lossy(&said));
    }
}

/// A program that reads again and again hears of the end of the service each time.
#[test]
fn a_read_fails_once_the_service_has_gone_however_it_waits() {
    if !have(&[("cc", "gcc")]) {
        return;
    }
    for way in ["read", "poll", "nonblocking"] {
        let mut up = Up::new(NETWORK);
        program::compile("ended.c", &up.path("ended"), &[]).unwrap();
        let mut reader = up.start_command(&format!("run -- ./ended 100 {way}"));
        reader.wait_for("open", Duration::from_secs(30)).unwrap();
        up.kill();
        let (status, said) = reader.wait(Duration::from_secs(60)).unwrap();
        assert!(status.success(), "{way}: {said:?}");
    }
}

/// The processes that a process has started, and those that these have.
fn offspring(of: u32) -> Vec<u32> {
    let numbers = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers: Vec<u32> = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    let parent = |id: &u32| -> Option<u32> {
        let line = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        line.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
    };
    let children = numbers.into_iter().filter(|id| parent(id) == Some(of));
    children.flat_map(|id| [vec![id], offspring(id)].concat()).collect()
}

/// The library gives up waiting for a bell, and takes it once it has come.
#[test]
fn a_bell_that_comes_late_makes_nothing_readable_and_keeps_nobody_awake() {
    if !have(&[("cc", "gcc")]) {
        return;
    }
    let up = Up::new(NETWORK);
    program::compile("late.c", &up.path("late"), &["-lpthread"]).unwrap();
    // There is a process that rings for this user as long as there is a connection.
    let _receive = up.start_command("receive beta 0.101 got");
    up.wait_for_endpoints(1, Duration::from_secs(30));
    let ringers: Vec<String> = offspring(up.id()).iter().map(u32::to_string).collect();
    assert!(!ringers.is_empty());
    let output = up.command(&format!("run -- ./late 100 {}", ringers.join(" "))).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said == "done\n", "{said} {}", String::from_utf8_lossy(&output.stderr));
}
