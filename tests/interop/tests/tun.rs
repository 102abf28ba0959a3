//! The kernel's own TCP/IP stack as the user at both ends: two network namespaces, each with a TUN device of ours, and
//! between them nothing but a circuit. So the kernel judges every header and checksum that crosses.

use endpoint::OpenOptions;
use interop::lan::Lan;
use interop::pattern;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use stack::device::tun::Tun;
use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const ALPHA: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
const BETA: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 2);
const PATIENCE: Duration = Duration::from_secs(20);

/// A network namespace, removed with its owner.
struct Namespace(String);

impl Namespace {
    fn new(name: &str) -> anyhow::Result<Self> {
        let name = format!("cellway-{}-{name}", std::process::id());
        let status = Command::new("ip").args(["netns", "add", &name]).status()?;
        anyhow::ensure!(status.success(), "ip netns add {name}: {status}");
        Ok(Namespace(name))
    }

    /// Runs `f` on a thread that lives in the namespace.
    fn run<R: Send + 'static>(&self, f: impl FnOnce() -> anyhow::Result<R> + Send + 'static) -> Task<R> {
        let path = format!("/run/netns/{}", self.0);
        Task(std::thread::spawn(move || {
            move_into_link_name_space(File::open(path)?.as_fd(), Some(LinkNameSpaceType::Network))?;
            f()
        }))
    }

    fn output(&self, command: &[&str]) -> anyhow::Result<String> {
        let output = Command::new("ip").args(["netns", "exec", &self.0]).args(command).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // A test that fails says why itself; a name that stays is seen in `ip netns`.
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

struct Task<R>(JoinHandle<anyhow::Result<R>>);

impl<R> Task<R> {
    fn join(self) -> anyhow::Result<R> {
        self.0.join().map_err(|_| anyhow::anyhow!("a thread of the test has panicked"))?
    }
}

fn available() -> bool {
    if !rustix::process::geteuid().is_root() {
        return interop::skip("network namespaces and TUN devices need root");
    }
    if File::options().read(true).write(true).open("/dev/net/tun").is_err() {
        return interop::skip("there is no /dev/net/tun to open");
    }
    interop::have(&[("ip", "iproute2"), ("ping", "iputils-ping")])
}

/// A device in `namespace` that leads to the circuit of `host`, until `stop`.
fn device(lan: &Lan, namespace: &Namespace, host: &str, address: Ipv4Addr, stop: &Arc<AtomicBool>) -> Task<()> {
    let mut endpoint = lan.endpoint(host).unwrap();
    let channel = endpoint.open("0.100".parse().unwrap(), OpenOptions::default()).unwrap();
    let stop = Arc::clone(stop);
    namespace.run(move || {
        let mut tun = Tun::new("atm0", endpoint, address, 24, stack::ip::MTU, &[channel.0])?;
        Ok(tun.run(|| stop.load(Ordering::Relaxed))?)
    })
}

/// Waits until the device is there: the kernel refuses to bind to its address before.
fn listen(address: Ipv4Addr) -> anyhow::Result<TcpListener> {
    let end = Instant::now() + PATIENCE;
    loop {
        match TcpListener::bind((address, 5001)) {
            Ok(listener) => return Ok(listener),
            Err(_) if Instant::now() < end => std::thread::sleep(Duration::from_millis(10)),
            Err(error) => return Err(error.into()),
        }
    }
}

/// A connection, or an error where nobody connects in time.
fn accept(listener: &TcpListener) -> anyhow::Result<(TcpStream, Ipv4Addr)> {
    listener.set_nonblocking(true)?;
    let end = Instant::now() + PATIENCE;
    loop {
        match listener.accept() {
            Ok((stream, SocketAddr::V4(from))) => {
                stream.set_nonblocking(false)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                return Ok((stream, *from.ip()));
            }
            Ok((_, from)) => anyhow::bail!("{from} connects, on an IPv4 listener"),
            Err(error) if error.kind() == ErrorKind::WouldBlock && Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

#[test]
fn the_kernel_pings_and_carries_tcp_through_our_circuit() {
    if !available() {
        return;
    }
    let lan = Lan::of_two_hosts(100).unwrap();
    let (a, b) = (Namespace::new("a").unwrap(), Namespace::new("b").unwrap());
    let stop = Arc::new(AtomicBool::new(false));
    let devices = [device(&lan, &a, "alpha", ALPHA, &stop), device(&lan, &b, "beta", BETA, &stop)];

    let listener = b.run(|| listen(BETA)).join().unwrap();
    // The other device is up when its address can be bound to.
    drop(a.run(|| listen(ALPHA)).join().unwrap());

    // 9152 octets of data, ICMP and IP headers: exactly the MTU, and not to be fragmented.
    for size in ["56", "9152"] {
        let said =
            a.output(&["ping", "-c", "5", "-i", "0.2", "-w", "10", "-M", "do", "-s", size, "10.99.0.2"]).unwrap();
        assert!(said.contains("5 packets transmitted, 5 received, 0% packet loss"), "ping -s {size}:\n{said}");
    }
    let said = a.output(&["ping", "-c", "1", "-w", "2", "-M", "do", "-s", "9153", "10.99.0.2"]).unwrap();
    assert!(said.contains("mtu=9180") || said.contains("mtu 9180"), "the kernel knows the MTU:\n{said}");

    let file = Arc::new(pattern(20_000_000));
    let sent = Arc::clone(&file);
    let sender = a.run(move || {
        let mut stream = TcpStream::connect((BETA, 5001))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream.write_all(&sent)?)
    });
    let (mut stream, from) = accept(&listener).unwrap();
    assert_eq!(from, ALPHA);
    let mut received = Vec::new();
    let begin = Instant::now();
    stream.read_to_end(&mut received).unwrap();
    let took = begin.elapsed();
    sender.join().unwrap();
    assert!(received == *file, "{} octets came by TCP, {} were sent", received.len(), file.len());
    println!("TCP: {} octets in {took:?}", received.len());

    stop.store(true, Ordering::Relaxed);
    for device in devices {
        device.join().unwrap();
    }
}
