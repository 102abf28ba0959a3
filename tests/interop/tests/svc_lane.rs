//! LAN emulation with the guest's kernel (`lec`) and stock `zeppelin`, `lecs`, `les` and `bus` as the peers: their client in our
//! LAN, and ours in theirs.

use anyhow::{Context as _, ensure};
use interop::callers::{Callers, PREFIX, TOOLS, guest_address};
use interop::guest::{Guest, tried};
use interop::namespace::{self, Namespace};
use interop::peer::Peer;
use interop::signalled::Signalled;
use interop::{have, pattern, program, sha256, tshark};
use std::cell::Cell;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

const WAIT: Duration = Duration::from_secs(120);
/// For a file one way.
const TRANSFER: Duration = Duration::from_secs(20);
const OURS: [&str; 2] = ["10.2.0.1", "fd00:2::1"];
const GUESTS: [&str; 2] = ["10.2.0.11", "fd00:2::11"];
const OCTETS: usize = 500_000;

/// What a guest runs once its device is there: it has both addresses, is pinged and pings, sends and receives a file by IPv4 and by
/// IPv6.
const WORK: &str = r#"
    again ip link set lec0 up
    ip addr add 10.2.0.11/24 dev lec0
    ip -6 addr add fd00:2::11/64 dev lec0
    # It may still join: what is sent before is lost.
    again ping -c 1 -W 2 10.2.0.1 > /dev/null
    # Where both sides call each other at once, stock zeppelin ends its call and makes another, and what was on it is lost.
    pings() { for n in 1 2 3; do again ping -c 1 -W 2 -s $2 $1 > /dev/null || return; done; echo answered; }
    say small $(pings 10.2.0.1 56)
    say large $(pings 10.2.0.1 4000)
    # IPv6 uses an address when nobody has answered for it.
    say six $(pings fd00:2::1 1400)
    # nc ends when its input does: this one does not.
    mkfifo /tmp/never
    sleep 10000 > /tmp/never &
    # To an address and from there, at a port of each attempt's own. The test may not listen yet.
    both_ways() {
        port=$(($2 + attempt))
        timeout 40 nc -l -p $port < /tmp/never > /tmp/in &
        nc=$!
        timeout 40 sh -c "until nc $1 $port < /test/file; do sleep 0.5; done"
        wait $nc
        say got $port $(sha256sum < /tmp/in)
    }
    step ipv4 both_ways 10.2.0.1 5000 || exit 1
    step ipv6 both_ways fd00:2::1 5010 || exit 1
    cat /proc/net/atm/lec
    # We ping, and then listen here.
    again nc 10.2.0.1 5003 < /dev/null
"#;

fn tools() -> bool {
    let lane = ["zeppelin", "lecs", "les", "bus"].map(|name| (name, "atm-tools"));
    Guest::available() && have(TOOLS) && have(&lane) && have(tshark::TOOLS) && namespace::available()
}

/// What the guest that joins says to the switch.
fn capture(network: &Callers) -> Signalled {
    Signalled::start(network.up.command("capture"), &network.link(1), network.up.path("link.pcapng")).unwrap()
}

/// A station of ours on a TAP device in a namespace, which it takes along.
fn station(network: &Callers, namespace: &Namespace, host: &str, lecs: &str) -> Peer {
    let tap = network.up.command(&format!("lane tap {host} {lecs} --lan lab --name lec0 --address 10.2.0.1/24"));
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace.name()]).arg(tap.get_program()).args(tap.get_args());
    for (name, value) in tap.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    let peer = Peer::start(&mut command).unwrap();
    let begin = Instant::now();
    let address = ["ip", "-6", "addr", "add", "fd00:2::1/64", "dev", "lec0", "nodad"];
    while !namespace.output(&address).unwrap().is_empty() {
        assert!(begin.elapsed() < WAIT, "no device: {}", namespace.output(&["ip", "addr"]).unwrap());
        std::thread::sleep(Duration::from_millis(20));
    }
    peer
}

fn at(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse().unwrap(), port)
}

/// Receives the file at `ours`, and then sends it to `theirs`.
fn transfer(namespace: &Namespace, ours: SocketAddr, theirs: SocketAddr, file: &[u8]) -> anyhow::Result<()> {
    let file = file.to_vec();
    let both_ways = move || {
        let deadline = Instant::now() + TRANSFER;
        let listener = TcpListener::bind(ours)?;
        listener.set_nonblocking(true)?;
        let mut stream = until(deadline, || Ok(listener.accept()?.0)).context("the guest does not connect")?;
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(TRANSFER))?;
        let mut received = Vec::new();
        stream.read_to_end(&mut received).with_context(|| format!("after {} octets of the guest", received.len()))?;
        ensure!(received == file, "{} octets came, which are not the file", received.len());
        drop(stream);
        let mut stream = until(deadline, || TcpStream::connect_timeout(&theirs, TRANSFER)).context("to the guest")?;
        stream.set_write_timeout(Some(TRANSFER))?;
        stream.write_all(&file).context("the guest takes no more")?;
        stream.shutdown(std::net::Shutdown::Write)?;
        stream.set_read_timeout(Some(TRANSFER))?;
        // The guest closes when it has it all.
        let _ = stream.read(&mut [0]).context("the guest has not taken it all")?;
        Ok(())
    };
    namespace.run(both_ways).join()
}

/// Does something until it succeeds, or time is up.
fn until<T>(deadline: Instant, mut does: impl FnMut() -> std::io::Result<T>) -> std::io::Result<T> {
    loop {
        match does() {
            Ok(done) => return Ok(done),
            Err(error) if Instant::now() > deadline => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// How many calls a guest makes to our station at most: one, or one more where both call each other.
const CALLS: usize = 4;

/// Our side of [`WORK`]; `own` is our station's address.
fn work(namespace: &Namespace, mut guest: Guest, file: &[u8], own: &str) {
    for (n, (name, base)) in [("ipv4", 5000), ("ipv6", 5010)].into_iter().enumerate() {
        let port = Cell::new(base);
        let ours = || {
            port.set(port.get() + 1);
            transfer(namespace, at(OURS[n], port.get()), at(GUESTS[n], port.get()), file)
        };
        let whole = |said: &[&[String]]| {
            let got = format!("guest: got {} {}", port.get(), sha256(file));
            ensure!(
                said[0].iter().any(|line| line.starts_with(&got)),
                "the guest has not received the file: {:#?}",
                said[0]
            );
            Ok(())
        };
        tried(name, &mut [&mut guest], ours, whole).unwrap();
    }
    for address in GUESTS {
        let ping = || namespace.output(&["ping", "-c", "3", "-i", "0.2", "-W", "10", "-s", "1400", address]).unwrap();
        let (begin, mut pinged) = (Instant::now(), ping());
        while !pinged.contains("3 received") {
            assert!(begin.elapsed() < WAIT, "{pinged}");
            pinged = ping();
        }
    }
    let end = at(OURS[0], 5003);
    namespace.run(move || Ok(TcpListener::bind(end)?.accept()?)).join().unwrap();
    let console = guest.finish().unwrap().console.join("\n");
    for what in ["small", "large", "six"] {
        assert!(console.contains(&format!("guest: {what} answered")), "{what}:\n{console}");
    }
    let own = own.to_uppercase();
    let calls = console.lines().filter(|line| line.contains("open succeeded") && line.contains(&own)).count();
    assert!((1..=CALLS).contains(&calls), "{calls} calls with our station:\n{console}");
}

#[test]
fn the_guests_lec_module_with_zeppelin_joins_our_lan() {
    if !tools() {
        return;
    }
    let network = Callers::new(&["alpha", "gamma"], 1);
    let namespace = Namespace::new("lane-ours").unwrap();
    let file = pattern(OCTETS);
    let mut servers = network.up.start_command("lane serve gamma --lan lab");
    servers.wait_for("BUS", WAIT).unwrap();
    let lecs = network.address("gamma", 1);
    let mut station = station(&network, &namespace, "alpha", &lecs);
    station.wait_for("is in the LAN", WAIT).unwrap();
    let script = format!(
        "{begin}
        zeppelin -c {lecs} -n lab > /tmp/zeppelin.log 2>&1 &
        {WORK}",
        begin = network.begin(1)
    );
    let tool = program::for_guest("esi.c").unwrap();
    let capture = capture(&network);
    let guest = Guest::boot(&script, &[("esi", &tool), ("file", &file)]).unwrap();
    network.admit(1);
    work(&namespace, guest, &file, &network.address("alpha", 0));
    // With the LECS, the LES and the BUS, which call back, and with our station.
    capture.judge(6).unwrap();
}

#[test]
fn our_client_and_zeppelin_join_a_lan_of_stock_lecs_les_and_bus() {
    if !tools() {
        return;
    }
    let network = Callers::new(&["alpha"], 2);
    let namespace = Namespace::new("lane-theirs").unwrap();
    let file = pattern(OCTETS);
    let [lecs, les, bus] = [1, 2, 3].map(|selector| guest_address(2, selector));
    let octets = |address: &str| (0..20).map(|n| format!(":{}", &address[2 * n..2 * n + 2])).collect::<String>();
    let lanes = format!(
        "[conn]\nS1={}\nS2=\"802.3\"\nS3=1516\nS4=15\nS5=6\nS6={}\nELANNAME=\"lab\"\n",
        octets(&les),
        octets(&bus)
    );
    // Without addresses it admits nobody. It writes one octet beyond each word of its configuration, which damages its heap where a
    // word has 40 letters, as an address has: with a dot it has 41.
    let dotted = |address: &str| format!("{}.{}", &address[..2], &address[2..]);
    let [known, any] = [&les, &format!("{PREFIX}xxxxxxxxxxxxxx")].map(|address| dotted(address));
    let configuration = format!("{}\n[lab]\nLES:={known}\nType:=802_3\nMax_Frame:=1516\n{any}\n", dotted(&lecs));
    let serving = format!(
        "{begin}
        lecs -f /test/lecs > /tmp/lecs.log 2>&1 &
        les -f /test/lanes > /tmp/les.log 2>&1 &
        bus -f /test/lanes > /tmp/bus.log 2>&1 &
        until [ $(grep -c LISTEN /proc/net/atm/svc) -ge 3 ]; do sleep 0.1; done
        say serving
        sleep 10000",
        begin = network.begin(2)
    );
    let joining = format!(
        "{begin}
        zeppelin -c {lecs} -n lab > /tmp/zeppelin.log 2>&1 &
        {WORK}",
        begin = network.begin(1)
    );
    let tool = program::for_guest("esi.c").unwrap();
    let files: [(&str, &[u8]); 3] = [("esi", &tool), ("lecs", configuration.as_bytes()), ("lanes", lanes.as_bytes())];
    let capture = capture(&network);
    let mut servers = Guest::boot(&serving, &files).unwrap();
    let guest = Guest::boot(&joining, &[("esi", &tool), ("file", &file)]).unwrap();
    network.admit(2);
    servers.wait_for("guest: serving").unwrap();
    network.admit(1);
    let mut station = station(&network, &namespace, "alpha", &lecs);
    station.wait_for("is in the LAN", WAIT).unwrap();
    work(&namespace, guest, &file, &network.address("alpha", 0));
    // With the LECS, the LES and the BUS, which call back, and with our station.
    capture.judge(6).unwrap();
}
