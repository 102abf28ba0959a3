//! The ways between the two namespaces. All exist at once, each in a subnet of its own.

use super::forwarder;
use super::namespace::Namespace;
use anyhow::{Context as _, Result, bail};
use cellway::output;
use control::config;
use control::daemon::Daemon;
use endpoint::{Endpoint, EndpointConfig, Geometry, OpenOptions};
use stack::device::tun::{DeviceSettings, Settings, Tun};
use stack::ip::Config;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// What joins the namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Veth,
    Forwarder,
    Cellway,
    Endpoint,
}

impl Way {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Way::Veth => "veth",
            Way::Forwarder => "forwarder",
            Way::Cellway => "cellway",
            Way::Endpoint => "endpoint",
        }
    }
}

/// One thing that is measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    pub(super) way: Way,
    pub(super) mtu: usize,
    pub(super) offload: bool,
}

const fn case(way: Way, mtu: usize, offload: bool) -> Case {
    Case { way, mtu, offload }
}

/// All cases; those that are compared follow each other.
pub(super) const CASES: [Case; 14] = [
    case(Way::Forwarder, 1500, false),
    case(Way::Cellway, 1500, false),
    case(Way::Endpoint, 1500, false),
    case(Way::Veth, 1500, true),
    case(Way::Forwarder, 1500, true),
    case(Way::Cellway, 1500, true),
    case(Way::Endpoint, 1500, true),
    case(Way::Forwarder, 9180, false),
    case(Way::Cellway, 9180, false),
    case(Way::Endpoint, 9180, false),
    case(Way::Veth, 9180, true),
    case(Way::Forwarder, 9180, true),
    case(Way::Cellway, 9180, true),
    case(Way::Endpoint, 9180, true),
];

/// Of the block for measurements between networks (RFC 2544): case `number`, the first or second namespace.
pub(super) fn address(number: usize, end: u8) -> Ipv4Addr {
    Ipv4Addr::new(198, 18, number as u8, end + 1)
}

const PREFIX: u8 = 24;

fn device(number: usize) -> String {
    format!("bench{number}")
}

/// What carries packets until it is dropped.
#[derive(Default)]
pub(super) struct Ways {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    daemons: Vec<Daemon>,
}

impl Drop for Ways {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It has said why, if it has failed.
            let _ = thread.join();
        }
        self.daemons.clear();
    }
}

/// Makes them.
pub(super) fn make(
    cases: &[Case],
    namespaces: &[Namespace; 2],
    folder: &Path,
    processor: Option<usize>,
) -> Result<Ways> {
    let mut ways = Ways::default();
    for (number, case) in cases.iter().enumerate() {
        let at = |end: u8| DeviceSettings {
            name: device(number),
            address: Some((address(number, end), PREFIX)),
            ipv6: None,
            mac: None,
            mtu: case.mtu,
            ethernet: false,
            offload: case.offload,
            takes_long: false,
            namespace: Some(namespaces[usize::from(end)].path().to_owned()),
        };
        // A network for each case: what others have does not cost it rounds.
        let socket = folder.join(format!("{number}.sock"));
        let start = |mut text: String| {
            if let Some(processor) = processor {
                write!(text, "[engine]\nprocessor = {processor}\n")?;
            }
            Daemon::start(config::parse(&text, "the benchmark's network")?, &socket)
        };
        match case.way {
            Way::Veth => veth(number, case.mtu, namespaces)?,
            Way::Forwarder => forwarder::join([&at(0), &at(1)], processor)?,
            Way::Cellway => ways.daemons.push(start(interfaces(number, case, namespaces)?)?),
            Way::Endpoint => {
                ways.daemons.push(start(hosts()?)?);
                for end in [0, 1] {
                    let thread = tun(number, end, case, &namespaces[usize::from(end)], &socket, &ways.stop)?;
                    ways.threads.push(thread);
                }
            }
        }
    }
    Ok(ways)
}

fn veth(number: usize, mtu: usize, namespaces: &[Namespace; 2]) -> Result<()> {
    let (name, mtu) = (device(number), mtu.to_string());
    let [a, b] = namespaces.each_ref().map(Namespace::holder);
    let ends = ["type", "veth", "peer", "name", &name, "mtu", &mtu, "netns", &b];
    run(Command::new("ip").args(["link", "add", &name, "mtu", &mtu, "netns", &a]).args(ends))?;
    for (end, namespace) in (0u8..).zip(namespaces) {
        let address = format!("{}/{PREFIX}", address(number, end));
        run(namespace.command("ip").args(["address", "add", &address, "dev", &name]))?;
        run(namespace.command("ip").args(["link", "set", &name, "up"]))?;
    }
    Ok(())
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().context("ip (Debian package iproute2)")?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// Two interfaces, each with an unlimited link to a switch, and a circuit.
fn interfaces(number: usize, case: &Case, namespaces: &[Namespace; 2]) -> Result<String> {
    let mut text = String::from(SWITCH);
    for (end, namespace) in (0u8..).zip(namespaces) {
        writeln!(
            text,
            "[interface.i{end}]\nhost = \"h{end}\"\naddress = \"{}/{PREFIX}\"\ndevice = \"{}\"\nnamespace = \"{}\"\n\
             mtu = {}\noffload = {}\n[[link]]\nends = [\"h{end}\", \"s:{end}\"]",
            address(number, end),
            device(number),
            namespace.path().display(),
            case.mtu,
            case.offload
        )?;
    }
    Ok(text + CIRCUIT)
}

/// Two hosts likewise, on which an endpoint opens the circuit.
fn hosts() -> Result<String> {
    let mut text = String::from(SWITCH);
    for end in 0..2 {
        writeln!(text, "[host.h{end}]\n[[link]]\nends = [\"h{end}\", \"s:{end}\"]\ncarries = \"frames\"")?;
    }
    Ok(text + CIRCUIT)
}

const SWITCH: &str = "[switch.s]\nports = 2\n";
const CIRCUIT: &str = "[[circuit]]\nends = [\"h0 0.100\", \"h1 0.100\"]\n";

/// What `cellway ip tun` does, on a thread.
fn tun(
    number: usize,
    end: u8,
    case: &Case,
    namespace: &Namespace,
    socket: &Path,
    stop: &Arc<AtomicBool>,
) -> Result<JoinHandle<()>> {
    let geometry =
        Geometry { send_ring: 512, receive_ring: 2048, free_ring: 2048, buffers: 1024, ..Geometry::default() };
    let host = format!("h{end}");
    let mut endpoint = Endpoint::create(socket, &EndpointConfig { host, geometry, ..EndpointConfig::default() })?;
    let channel = endpoint.open("0.100".parse()?, OpenOptions::default())?;
    let ip = Config { mtu: case.mtu, offload: case.offload, ..Config::new(address(number, end)) };
    let settings =
        Settings { namespace: Some(namespace.path().to_owned()), ..Settings::new(&device(number), PREFIX, ip) };
    let mut tun = Tun::new(&settings, endpoint, &[channel.0])?;
    let stop = stop.clone();
    Ok(std::thread::Builder::new().name(format!("tun{number}{end}")).spawn(move || {
        if let Err(e) = tun.run(|| stop.load(Ordering::Relaxed)) {
            output::note(format_args!("cellway-lab bench ip: {e}"));
        }
    })?)
}
