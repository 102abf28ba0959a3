//! `cellway ip`: IP over ATM on a circuit, by a TUN device or by a TCP/IP stack in this process.

use crate::client::{self, Size, ask_for, goes_on, interrupted};
use crate::commands::ping::statistics_text;
use crate::commands::transfer::hex;
use crate::context::Context;
use crate::exit_status::{OrUsage, Usage};
use crate::names::Destination;
use crate::outfile::{OutFile, Overwriting};
use crate::output;
use crate::target::Target;
use crate::{units, usage};
use anyhow::{Context as _, Result, anyhow, bail};
use clap::{Args, Subcommand, ValueEnum};
use control::config::{Internet, Route, parse_mac, parse_station_mac};
use control::protocol::Request;
use control::results::{Listening, Pinged, Serving, Transferred};
use control::status::Status;
use endpoint::{Aal, Endpoint, OpenOptions};
use sha2::{Digest, Sha256};
use stack::classical;
use stack::device::calls::Listener;
use stack::device::inprocess::Host;
use stack::device::pppd;
use stack::device::tun::{Settings, Tun, stable_mac};
use stack::ip::{Config, Encapsulation, IpInterface};
use stack::ppp;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use wire::aesa::Aesa;
use wire::atmarp::AtmAddress;
use wire::{CircuitId, Time};

/// How long the ATMARP server may take to confirm an address.
const REGISTRATION: Duration = Duration::from_secs(10);

/// Where the interface is and what its address is.
#[derive(Debug, Args)]
pub(crate) struct Where {
    /// The host
    host: String,
    /// The circuit there, vpi.vci; or the address or name of the subnet's ATMARP server, to use calls as circuits (RFC 2225).
    /// With --serve-atmarp, the host's own address
    circuit: Destination,
    /// Further circuits of the interface: vpi.vci, or vpi.vci=ADDRESS if the peer does not answer InATMARP (may be
    /// repeated)
    #[arg(long = "also", value_name = "CIRCUIT[=ADDRESS]")]
    also: Vec<String>,
    /// The peer's address on the first circuit [default: ask by InATMARP]
    #[arg(long)]
    peer: Option<IpAddr>,
    /// Address and prefix, such as 10.0.0.1/24 or fd00:9::1/64 (may be given twice: IPv4 and IPv6) [default: the host's
    /// `ip` in the description; a bridged device needs none]
    #[arg(long)]
    address: Vec<String>,
    /// Octets of the longest packet (RFC 1626); 1500 for bridged Ethernet
    #[arg(long, value_parser = parse_mtu)]
    mtu: Option<usize>,
    /// The encapsulation of packets (RFC 2684)
    #[arg(long, value_enum, default_value_t)]
    encapsulation: Encapsulated,
    /// Send packets for a network to the peer with this address: NETWORK/PREFIX=ADDRESS (may be repeated)
    #[arg(long = "route", value_name = "NETWORK/PREFIX=ADDRESS")]
    routes: Vec<String>,
    /// For bridged Ethernet: bind a station's MAC address to a circuit, so that no frame moves it to another:
    /// CIRCUIT=MAC (may be repeated)
    #[arg(long = "station", value_name = "CIRCUIT=MAC")]
    stations: Vec<String>,
    /// Be the ATMARP server of the subnet (RFC 2225)
    #[arg(long, conflicts_with = "atmarp_server")]
    serve_atmarp: bool,
    /// Register with the ATMARP server at the far end of this circuit, and ask it
    #[arg(long, value_name = "CIRCUIT")]
    atmarp_server: Option<CircuitId>,
    /// This host's ATM number for ATMARP: 40 hexadecimal digits
    #[arg(long, value_parser = parse_number)]
    number: Option<AtmAddress>,
    /// The ATM number at the far end of a circuit: CIRCUIT=DIGITS (may be repeated)
    #[arg(long = "number-of", value_name = "CIRCUIT=DIGITS")]
    numbers: Vec<String>,
    /// Seconds after which a call without packets is released
    #[arg(long, default_value_t = classical::IDLE.as_secs(), value_parser = clap::value_parser!(u64).range(1..=86_400))]
    idle: u64,
}

/// RFC 2684's encapsulations.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(crate) enum Encapsulated {
    /// LLC/SNAP, routed: Classical IP
    #[default]
    Llc,
    /// VC multiplexing, routed: only the packet
    Vc,
    /// LLC/SNAP, bridged Ethernet
    LlcBridged,
    /// LLC/SNAP, bridged Ethernet with its check sequence
    LlcBridgedFcs,
    /// VC multiplexing, bridged Ethernet
    VcBridged,
    /// VC multiplexing, bridged Ethernet with its check sequence
    VcBridgedFcs,
}

impl Encapsulated {
    pub(crate) fn encapsulation(self) -> Encapsulation {
        match self {
            Encapsulated::Llc => Encapsulation::LlcRouted,
            Encapsulated::Vc => Encapsulation::VcRouted,
            Encapsulated::LlcBridged => Encapsulation::LlcBridged { fcs: false },
            Encapsulated::LlcBridgedFcs => Encapsulation::LlcBridged { fcs: true },
            Encapsulated::VcBridged => Encapsulation::VcBridged { fcs: false },
            Encapsulated::VcBridgedFcs => Encapsulation::VcBridged { fcs: true },
        }
    }
}

fn parse_number(s: &str) -> Result<AtmAddress, String> {
    let digits: String = s.chars().filter(|c| *c != '.').collect();
    let octet = |i: usize| digits.get(i..i + 2).and_then(|d| u8::from_str_radix(d, 16).ok());
    let octets: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(octet).collect();
    let octets =
        octets.filter(|o| o.len() == 20).ok_or("an ATM number is 40 hexadecimal digits, dots where you like")?;
    AtmAddress::new(&octets, false).ok_or_else(|| "too long".into())
}

/// An endpoint, its channels, and what is known of them.
struct Opened {
    endpoint: Endpoint,
    circuits: Vec<(CircuitId, u32, Option<IpAddr>)>,
    config: Config,
    addresses: Internet,
    calls: Option<(Listener, classical::Config)>,
}

impl Where {
    fn mtu(&self) -> usize {
        let default = if self.encapsulation.encapsulation().is_bridged() { 1500 } else { stack::ip::MTU };
        self.mtu.unwrap_or(default)
    }

    fn open(&self, context: &Context, offload: bool) -> Result<Opened> {
        let addresses = addresses(context, self)?;
        let first = match self.circuit.resolve(context)? {
            Target::Circuit(circuit) => circuit,
            Target::Address(address) => return self.open_calls(context, address, addresses, offload),
        };
        let (mut endpoint, channel) = client::open(context, &self.host, first, Aal::Aal5, Size::Large)?;
        let mut circuits = vec![(first, channel.0, self.peer)];
        for also in &self.also {
            let (circuit, peer) = also.split_once('=').map_or((also.as_str(), None), |(c, p)| (c, Some(p)));
            let circuit = circuit.parse().with_context(|| format!("--also {also}")).or_usage()?;
            let peer = peer.map(|p| p.parse().with_context(|| format!("--also {also}")).or_usage()).transpose()?;
            let channel = endpoint.open(circuit, OpenOptions { aal: Aal::Aal5, ..OpenOptions::default() })?;
            circuits.push((circuit, channel.0, peer));
        }
        let config = Config {
            mtu: self.mtu(),
            encapsulation: self.encapsulation.encapsulation(),
            number: self.number.unwrap_or(AtmAddress::NONE),
            offload,
            ipv6: addresses.ipv6,
            ..Config::new(addresses.ipv4.map(|(address, _)| address))
        };
        Ok(Opened { endpoint, circuits, config, addresses, calls: None })
    }

    /// The same with calls: nothing is open yet, and nobody is called.
    fn open_calls(&self, context: &Context, server: Aesa, addresses: Internet, offload: bool) -> Result<Opened> {
        let (Some((ip, _)), None) = (addresses.ipv4, addresses.ipv6) else {
            usage!("Classical IP over calls is for IPv4 (RFC 2225): give one IPv4 --address; IPv6 needs a circuit");
        };
        let of_circuits = [
            ("--also", !self.also.is_empty()),
            ("--peer", self.peer.is_some()),
            ("--atmarp-server", self.atmarp_server.is_some()),
            ("--number", self.number.is_some()),
            ("--number-of", !self.numbers.is_empty()),
            ("--station", !self.stations.is_empty()),
        ];
        if let Some((name, _)) = of_circuits.iter().find(|(_, given)| *given) {
            usage!("{name} is for circuits of the description: leave it out where an ATMARP server's address is given");
        }
        let encapsulation = self.encapsulation.encapsulation();
        if encapsulation != Encapsulation::LlcRouted {
            usage!("Classical IP over calls has LLC/SNAP, routed: leave out --encapsulation");
        }
        let listener = Listener::new(&context.socket, &self.host)?;
        let own = listener.own();
        if self.serve_atmarp && own.without_selector() != server.without_selector() {
            bail!("host {} has the address {own}, not {server}: give that to serve", self.host);
        }
        let endpoint = client::endpoint(context, &self.host, Size::Large)?;
        let config = Config { mtu: self.mtu(), number: listener.number(), encapsulation, offload, ..Config::new(ip) };
        let calls = classical::Config {
            idle: Duration::from_secs(self.idle),
            ..classical::Config::new((!self.serve_atmarp).then_some(server))
        };
        Ok(Opened { endpoint, circuits: Vec::new(), config, addresses, calls: Some((listener, calls)) })
    }

    /// Tells the interface what the user said of circuits, servers and routes.
    fn tell(&self, ip: &mut IpInterface, circuits: &[(CircuitId, u32, Option<IpAddr>)]) -> Result<()> {
        let channel = |circuit: CircuitId| {
            let found = circuits.iter().find(|(c, ..)| *c == circuit).map(|(_, channel, _)| *channel);
            found.ok_or_else(|| anyhow!("circuit {circuit} is not part of this interface: add it by --also"))
        };
        for (_, channel, peer) in circuits {
            ip.add_circuit_of(*channel, *peer, Time::ZERO);
        }
        for number in &self.numbers {
            let form = || Usage::error(format!("--number-of {number}: write CIRCUIT=DIGITS"));
            let (circuit, digits) = number.split_once('=').ok_or_else(form)?;
            let circuit = circuit.parse().map_err(|_| form())?;
            ip.set_number(
                channel(circuit)?,
                parse_number(digits).map_err(|e| Usage::error(format!("--number-of {number}: {e}")))?,
            );
        }
        if !self.stations.is_empty() && !self.encapsulation.encapsulation().is_bridged() {
            usage!("--station is for bridged Ethernet: give --encapsulation llc-bridged or the like");
        }
        for station in &self.stations {
            let form =
                || Usage::error(format!("--station {station}: write CIRCUIT=MAC, such as 0.100=02:00:00:00:00:09"));
            let (circuit, mac) = station.split_once('=').ok_or_else(form)?;
            let mac = parse_mac(mac).map_err(|_| form())?;
            ip.set_station(mac, Some(channel(circuit.parse().map_err(|_| form())?)?));
        }
        for route in &self.routes {
            let form = || Usage::error(format!("--route {route}: write NETWORK/PREFIX=ADDRESS"));
            let (network, via) = route.split_once('=').ok_or_else(form)?;
            let via = via.parse().map_err(|_| form())?;
            Route::parse(network, via).with_context(|| format!("--route {route}")).or_usage()?.add_to(ip);
        }
        if self.serve_atmarp {
            ip.serve(control::shells::MAX_STATIONS, Time::ZERO);
        }
        if let Some(server) = self.atmarp_server {
            ip.use_server(channel(server)?, Time::ZERO);
        }
        Ok(())
    }
}

fn parse_mtu(s: &str) -> Result<usize, String> {
    s.parse().ok().filter(|m| (576..=65_000).contains(m)).ok_or_else(|| "an MTU is 576 to 65000".into())
}

/// IP over ATM.
#[derive(Debug, Subcommand)]
pub(crate) enum IpCommand {
    /// Join a TUN device (TAP for bridged Ethernet) to the circuits, until Ctrl-C (needs CAP_NET_ADMIN)
    Tun {
        #[command(flatten)]
        at: Where,
        /// The device's name
        #[arg(long, default_value = "atm0")]
        name: String,
        /// For bridged Ethernet: the device's MAC address [default: one that follows from the machine, the host and the
        /// circuit, the same at each start]
        #[arg(long, value_name = "MAC", value_parser = station_mac)]
        mac: Option<Mac>,
        /// Disable checksum and segmentation offload, for the machine's stack and for the peer
        #[arg(long)]
        no_offload: bool,
    },
    /// PPP over ATM (RFC 2364) for the system's pppd: pppd pty "cellway ip ppp HOST CIRCUIT" ...
    Ppp {
        /// The host
        host: String,
        /// The circuit there, vpi.vci
        circuit: CircuitId,
        /// LLC encapsulation instead of VC multiplexing
        #[arg(long)]
        llc: bool,
    },
    /// Answer pings on the in-process stack, until Ctrl-C (needs no privileges); a line on standard output says when it
    /// is ready
    Serve {
        #[command(flatten)]
        at: Where,
    },
    /// Ping over the circuit from the in-process stack
    Ping {
        #[command(flatten)]
        at: Where,
        /// The address to ping
        to: IpAddr,
        /// Number of requests
        #[arg(short = 'c', long, default_value_t = 4)]
        count: u32,
        /// Octets of data
        #[arg(short = 's', long, default_value_t = 56)]
        size: usize,
        /// Milliseconds between requests
        #[arg(short = 'i', long = "interval-ms", value_name = "MS", default_value = "200", value_parser = units::millis)]
        interval: Duration,
    },
    /// Send a file by TCP from the in-process stack
    Send {
        #[command(flatten)]
        at: Where,
        /// The receiver's address
        to: IpAddr,
        /// The file
        file: PathBuf,
        /// TCP port
        #[arg(long, default_value_t = 5001)]
        port: u16,
    },
    /// Receive a file by TCP on the in-process stack; reports on standard error that it listens (with --json:
    /// {"listening": ADDRESS:PORT, ..})
    Receive {
        #[command(flatten)]
        at: Where,
        /// The file
        file: PathBuf,
        /// TCP port
        #[arg(long, default_value_t = 5001)]
        port: u16,
        #[command(flatten)]
        overwriting: Overwriting,
    },
}

/// Where the interface is, by its options or else by the host's `ip`. A bridged device may have no address.
fn addresses(context: &Context, at: &Where) -> Result<Internet> {
    if !at.address.is_empty() {
        return Internet::parse(&at.address).context("--address").or_usage();
    }
    let status: Status = ask_for(context, &Request::Overview)?;
    let host = status.hosts.get(&at.host);
    let host = host.ok_or_else(|| anyhow!("no host `{}` (`cellway status` shows them)", at.host))?;
    match &host.ip {
        Some(ip) => Internet::parse(std::slice::from_ref(ip)),
        None if at.encapsulation.encapsulation().is_bridged() => Ok(Internet::default()),
        None => bail!("host {} has no `ip` in the description: give --address", at.host),
    }
}

/// The address by which an interface in this process is named.
fn named_by(host: &mut Host) -> IpAddr {
    let config = host.stack().ip().config();
    let ipv6 = config.ipv6.map(|(address, _)| IpAddr::V6(address));
    config.address.map(IpAddr::V4).or(ipv6).unwrap_or(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED))
}

/// A MAC address of a station.
type Mac = [u8; 6];

fn station_mac(text: &str) -> Result<Mac, String> {
    parse_station_mac(text).map_err(|e| e.to_string())
}

/// Makes the device.
fn run_tun(context: &Context, at: &Where, name: &str, mac: Option<Mac>, device_offload: bool) -> Result<()> {
    let bridged = at.encapsulation.encapsulation().is_bridged();
    if mac.is_some() && !bridged {
        usage!("--mac is for bridged Ethernet: give --encapsulation llc-bridged or the like");
    }
    let stop = interrupted()?;
    let Opened { endpoint, circuits, config, addresses, calls } = at.open(context, device_offload)?;
    let mac = mac.or_else(|| bridged.then(|| stable_mac(&at.host, &at.circuit.to_string())));
    let prefix = addresses.ipv4.map_or(0, |(_, prefix)| prefix);
    let called = config.addresses_text();
    let settings = Settings { device_offload, mac, ..Settings::new(name, prefix, config) };
    let mut tun = Tun::new(&settings, endpoint, &[])?;
    at.tell(tun.ip(), &circuits)?;
    if let Some((listener, calls)) = calls {
        tun = tun.with_calls(listener, calls);
    }
    let mtu = at.mtu();
    let station = mac.map(|mac| format!(", MAC {}", mac.map(|octet| format!("{octet:02x}")).join(":")));
    let station = station.unwrap_or_default();
    output::note(format_args!("{name}: {called}{station}, MTU {mtu}, on {} {}", at.host, at.circuit));
    tun.run(|| !goes_on(&stop))?;
    Ok(())
}

fn in_process(context: &Context, at: &Where) -> Result<Host> {
    let Opened { endpoint, circuits, config, addresses, calls } = at.open(context, false)?;
    if config.encapsulation.is_bridged() {
        usage!("the in-process stack is routed: bridged Ethernet needs `cellway ip tun`");
    }
    let prefix = addresses.ipv4.map_or(0, |(_, prefix)| prefix);
    let mut host = Host::new(endpoint, config.address, prefix, config.mtu, &[]).with(config, &[]);
    at.tell(host.stack().ip(), &circuits)?;
    if let Some((listener, calls)) = calls {
        host = host.with_calls(listener, calls);
        if calls.server.is_some() {
            host.register(REGISTRATION)?;
        }
    }
    Ok(host)
}

/// `cellway ip`. What ends by itself ends at once by a signal: its circuit ends with the process.
pub(crate) fn run(context: &Context, command: &IpCommand) -> Result<()> {
    match command {
        IpCommand::Tun { at, name, mac, no_offload } => run_tun(context, at, name, *mac, !no_offload),
        IpCommand::Ppp { host, circuit, llc } => {
            let stop = interrupted()?;
            let (mut endpoint, channel) = client::open(context, host, *circuit, Aal::Aal5, Size::Small)?;
            let encapsulation = if *llc { ppp::Encapsulation::Llc } else { ppp::Encapsulation::Vc };
            let (input, to_pppd) = (std::io::stdin(), std::io::stdout());
            let passed = pppd::run(&mut endpoint, channel, encapsulation, &input, &to_pppd, || !goes_on(&stop));
            let pppd::Passed { sent, received } = passed.inspect_err(output::heed)?;
            output::note(format_args!("{} PPP frames to the circuit, {} from it", sent.pdus, received.pdus));
            Ok(())
        }
        IpCommand::Serve { at } => {
            let stop = interrupted()?;
            let mut host = in_process(context, at)?;
            let address = named_by(&mut host);
            // From here on packets are taken: who has started this process waits for it.
            let (host_name, circuit) = (at.host.clone(), at.circuit.to_string());
            if context.json {
                output::say(&Serving { serving: address, host: host_name, circuit })?;
            } else {
                output::print_lines(&format!("{address} on {host_name} {circuit} answers, until Ctrl-C"))?;
            }
            host.serve_until(|| !goes_on(&stop))?;
            Ok(())
        }
        IpCommand::Ping { at, to, count, size, interval } => {
            let mut host = in_process(context, at)?;
            let s = host.ping(*to, *count, *size, *interval)?;
            output::print(context, &Pinged::from(&s), || statistics_text(&s))?;
            if s.received == 0 {
                bail!("{to} does not answer");
            }
            Ok(())
        }
        IpCommand::Send { at, to, file, port } => {
            let mut input = std::fs::File::open(file).with_context(|| format!("{}", file.display()))?;
            let mut host = in_process(context, at)?;
            let mut hash = Sha256::new();
            let begin = Instant::now();
            let octets = host.tcp_send(*to, *port, |room| {
                let n = input.read(room)?;
                hash.update(&room[..n]);
                Ok(n)
            })?;
            report(context, octets, hash, begin.elapsed())
        }
        IpCommand::Receive { at, file, port, overwriting } => {
            let mut out = OutFile::open(file, *overwriting)?;
            let mut host = in_process(context, at)?;
            // What came before is lost, and a connection's first packet is sent anew after a whole second only: who has
            // started this process waits for this line.
            let listening = SocketAddr::new(named_by(&mut host), *port);
            let (place, circuit) = (at.host.clone(), at.circuit.to_string());
            // The result goes to standard output.
            if context.json {
                output::announce(&Listening { listening, host: place, circuit })?;
            } else {
                output::note(format_args!("{listening} on {place} {circuit} listens"));
            }
            let mut hash = Sha256::new();
            let mut begin = None;
            let mut failed = None;
            let octets = host.tcp_receive(*port, Duration::from_secs(60), |octets| {
                begin.get_or_insert_with(Instant::now);
                hash.update(octets);
                if let Err(e) = out.write_all(octets) {
                    failed.get_or_insert(e);
                }
            })?;
            if let Some(e) = failed.or_else(|| out.flush().err()) {
                return Err(e).with_context(|| format!("{}", file.display()));
            }
            report(context, octets, hash, begin.map_or(Duration::ZERO, |b| b.elapsed()))
        }
    }
}

fn report(context: &Context, octets: u64, hash: Sha256, took: Duration) -> Result<()> {
    let done = Transferred::new(octets, took, hex(hash));
    output::print(context, &done, || {
        format!("{octets} octets by TCP, {:.1} Mbit/s, SHA-256 {}", done.mbit_per_s, done.sha256)
    })
}
