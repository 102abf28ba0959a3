//! Classical IP over calls with the guest's kernel (`clip`) and stock `atmarpd` as the peer: it registers with our ATMARP server and
//! asks it, and at the same time serves another subnet, in which stations of ours register with it and ask it.

use interop::callers::{Callers, TOOLS, guest_address};
use interop::guest::Guest;
use interop::peer::Peer;
use interop::{have, pattern, sha256, tshark};
use std::collections::HashSet;
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(60);

#[test]
fn stock_atmarpd_is_a_client_of_our_atmarp_server_and_a_server_of_our_clients_by_calls() {
    if !Guest::available() || !have(TOOLS) || !have(tshark::TOOLS) {
        return;
    }
    let network = Callers::new(&["alpha", "gamma"], 1);
    let up = &network.up;
    let ours = network.address("gamma", 0);
    let theirs = guest_address(1, 0);
    let file = pattern(1_000_000);
    std::fs::write(up.path("file"), &file).unwrap();
    let mut capture = up.command("capture");
    let mut capture = Peer::start(capture.args([&network.link(1), "link.pcapng"])).unwrap();
    capture.wait_for("capturing", WAIT).unwrap();

    // Our server, and a station of ours that has registered with it.
    let mut server = up.start_command(&format!("ip serve gamma {ours} --serve-atmarp --address 10.0.0.3/24"));
    server.wait_for("answers", WAIT).unwrap();
    let mut receiver = up.start_command(&format!("ip receive alpha {ours} got --address 10.0.0.1/24"));
    receiver.wait_for("listens", WAIT).unwrap();
    // Two interfaces of one guest: a client in 10.0.0.0, and the server of 10.1.0.0, which has no server in its table.
    let script = format!(
        r#"{begin}
        atmarpd -b -n -l /tmp/atmarpd.log
        again atmarp -c atm0
        ip addr add 10.0.0.11/24 dev atm0
        ip link set atm0 up
        again atmarp -c atm1
        ip addr add 10.1.0.11/24 dev atm1
        ip link set atm1 up
        atmarp -s 10.0.0.0 {ours} arpsrv
        say server $(/test/pings 3 10.0.0.3 56), station $(/test/pings 3 10.0.0.1 9000)
        nc 10.0.0.1 5001 < /test/file
        atmarp -a
        # nc ends when its input does: this one does not.
        mkfifo /tmp/never
        sleep 10000 > /tmp/never &
        nc -l -p 5002 < /tmp/never > /tmp/in &
        say serving
        wait $!
        say got $(sha256sum < /tmp/in)
        say station $(/test/pings 3 10.1.0.1 56)
        atmarp -a
        cat /proc/net/atm/arp /tmp/atmarpd.log
        "#,
        begin = network.begin(1)
    );
    let tool = interop::program::for_guest("esi.c").unwrap();
    let mut guest = Guest::boot(&script, &[("esi", &tool), ("file", &file)]).unwrap();
    network.admit(1);
    guest.wait_for("guest: serving").unwrap();
    assert!(receiver.wait(WAIT).unwrap().0.success());
    assert!(std::fs::read(up.path("got")).unwrap() == file, "the guest's file came otherwise");

    // From us to the client whose address our server knows.
    let pinged = up.run(&format!("ip ping alpha {ours} 10.0.0.11 --address 10.0.0.1/24 -c 3"));
    assert!(pinged.status.success(), "{pinged:?}");
    drop(server);
    // In the other subnet we register with the guest, and one of us asks it for the other.
    let mut receiver = up.start_command(&format!("ip receive gamma {theirs} got --address 10.1.0.3/24"));
    receiver.wait_for("listens", WAIT).unwrap();
    let sent = up.run(&format!("ip send alpha {theirs} 10.1.0.3 file --address 10.1.0.1/24"));
    assert!(sent.status.success(), "{sent:?}");
    assert!(receiver.wait(WAIT).unwrap().0.success());
    assert!(
        std::fs::read(up.path("got")).unwrap() == file,
        "the file came otherwise between stations of the guest's LAN"
    );
    let sent = up.run(&format!("ip send alpha {theirs} 10.1.0.11 file --port 5002 --address 10.1.0.1/24"));
    assert!(sent.status.success(), "{sent:?}");
    // The guest calls the station whose registration it keeps.
    let mut station = up.start_command(&format!("ip serve alpha {theirs} --address 10.1.0.1/24"));
    station.wait_for("answers", WAIT).unwrap();

    let report = guest.finish().unwrap();
    let console = report.console.join("\n");
    let sum = format!("guest: got {}", sha256(&file));
    for said in ["guest: server 3 of 3 answered, station 3 of 3 answered", &sum, "guest: station 3 of 3 answered"] {
        assert!(console.contains(said), "no {said:?}:\n{console}");
    }
    drop(station);
    judge(&network, capture);
}

/// tshark reads ATMARP in both directions, and nothing that it cannot.
fn judge(network: &Callers, mut capture: Peer) {
    let pid = rustix::process::Pid::from_raw(capture.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    capture.wait(WAIT).unwrap();
    let path = network.up.path("link.pcapng");
    // tshark reads beyond AAL parameters that end a message, as they do in the CONNECT of stock `atmsigd`.
    let malformed = "_ws.malformed && !(q2931.message_type == 0x07)";
    assert_eq!(tshark::count(&path, malformed).unwrap(), 0, "{}", tshark::decode(&path, malformed).unwrap());
    let fields =
        tshark::fields(&path, &["arp.opcode", "arp.src.proto_ipv4", "arp.dst.proto_ipv4", "arp.hw.type"]).unwrap();
    let packets: HashSet<[&str; 3]> = fields
        .iter()
        .filter(|fields| fields[3] == "19")
        .map(|fields| [fields[0].as_str(), &fields[1], &fields[2]])
        .collect();
    for (packet, what) in [
        (["9", "10.0.0.3", "10.0.0.11"], "our server answers the guest's InATMARP, which registers it"),
        (["1", "10.0.0.11", "10.0.0.1"], "the guest asks our server"),
        (["2", "10.0.0.1", "10.0.0.11"], "our server answers"),
        (["1", "10.1.0.1", "10.1.0.1"], "we register with the guest"),
        (["2", "10.1.0.1", "10.1.0.1"], "the guest confirms"),
        (["1", "10.1.0.1", "10.1.0.3"], "we ask the guest for a station"),
        (["2", "10.1.0.3", "10.1.0.1"], "the guest answers"),
    ] {
        assert!(packets.contains(&packet), "{what}: {packet:?} is not in {packets:?}");
    }
}
