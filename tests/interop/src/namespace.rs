//! Network namespaces with devices of ours, so that the kernel's own TCP/IP stack judges what crosses a circuit.

use crate::lan::Lan;
use endpoint::OpenOptions;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use stack::device::tun::{Settings, Tun};
use std::fs::File;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(120);

/// A network namespace, removed with its owner.
pub struct Namespace(String);

impl Namespace {
    /// A fresh one, whose name ends with `name`.
    pub fn new(name: &str) -> anyhow::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("cellway-{}-{number}-{name}", std::process::id());
        let status = Command::new("ip").args(["netns", "add", &name]).status()?;
        anyhow::ensure!(status.success(), "ip netns add {name}: {status}");
        Ok(Namespace(name))
    }

    /// Its name, as `ip netns` has it.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Where it is in the file system.
    pub fn path(&self) -> String {
        format!("/run/netns/{}", self.0)
    }

    /// Runs `f` on a thread that lives in the namespace.
    pub fn run<R: Send + 'static>(&self, f: impl FnOnce() -> anyhow::Result<R> + Send + 'static) -> Task<R> {
        let path = self.path();
        Task(std::thread::spawn(move || {
            move_into_link_name_space(File::open(path)?.as_fd(), Some(LinkNameSpaceType::Network))?;
            f()
        }))
    }

    /// What a command in it says, on both of its outputs.
    pub fn output(&self, command: &[&str]) -> anyhow::Result<String> {
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

/// A thread of a namespace.
pub struct Task<R>(JoinHandle<anyhow::Result<R>>);

impl<R> Task<R> {
    /// Waits for it.
    pub fn join(self) -> anyhow::Result<R> {
        self.0.join().map_err(|_| anyhow::anyhow!("a thread of the test has panicked"))?
    }
}

/// Whether this machine lets the test make namespaces and devices; says why not.
pub fn available() -> bool {
    if !rustix::process::geteuid().is_root() {
        return crate::skip("network namespaces and TUN devices need root");
    }
    if File::options().read(true).write(true).open("/dev/net/tun").is_err() {
        return crate::skip("there is no /dev/net/tun to open");
    }
    crate::have(&[("ip", "iproute2"), ("ping", "iputils-ping")])
}

/// A device in `namespace` that leads to circuit `0.vci` of `host`, until `stop`.
pub fn device(
    lan: &Lan,
    namespace: &Namespace,
    (host, vci): (&str, u16),
    settings: Settings,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<Task<()>> {
    let mut endpoint = lan.endpoint(host)?;
    let channel = endpoint.open(format!("0.{vci}").parse()?, OpenOptions::default())?;
    let stop = Arc::clone(stop);
    Ok(namespace.run(move || {
        let mut tun = Tun::new(&settings, endpoint, &[channel.0])?;
        Ok(tun.run(|| stop.load(Ordering::Relaxed))?)
    }))
}

/// Waits until the device is there: the kernel refuses to bind to its address before.
pub fn listen(address: Ipv4Addr, port: u16) -> anyhow::Result<TcpListener> {
    let end = Instant::now() + PATIENCE;
    loop {
        match TcpListener::bind((address, port)) {
            Ok(listener) => return Ok(listener),
            Err(_) if Instant::now() < end => std::thread::sleep(Duration::from_millis(10)),
            Err(error) => return Err(error.into()),
        }
    }
}

/// A connection, or an error where nobody connects in time.
pub fn accept(listener: &TcpListener, within: Duration) -> anyhow::Result<(TcpStream, Ipv4Addr)> {
    listener.set_nonblocking(true)?;
    let end = Instant::now() + within;
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

/// Connects as soon as somebody listens there: a peer says that it will a little before it does.
pub fn connect(address: Ipv4Addr, port: u16) -> anyhow::Result<TcpStream> {
    let end = Instant::now() + PATIENCE;
    loop {
        match TcpStream::connect((address, port)) {
            Ok(stream) => return Ok(stream),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused && Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(error) => return Err(error.into()),
        }
    }
}
