//! A switch that hosts of ours and Linux guests are at, to call each other: the guests by ATM over TCP, with their kernel's
//! sockets for calls, stock `atmsigd` and `ilmid`.

use crate::frames::free_port;
use crate::up::Up;
use serde_json::Value;
use std::net::TcpListener;
use std::time::{Duration, Instant};

/// The programs of a guest that signals.
pub const TOOLS: &[(&str, &str)] = &[("atmsigd", "atm-tools"), ("ilmid", "atm-tools"), ("cc", "gcc")];

/// The prefix of all addresses.
pub const PREFIX: &str = "47000580ffe100000000000001";

/// For a boot and a registration on a slow and busy machine.
const WAIT: Duration = Duration::from_secs(200);

/// The end system identifier of guest `n`, from 1.
pub fn guest_esi(n: usize) -> String {
    format!("02000000000{n}")
}

/// The address of guest `n` with a selector.
pub fn guest_address(n: usize, selector: u8) -> String {
    format!("{PREFIX}{}{selector:02x}", guest_esi(n))
}

/// The network, as a process of its own.
pub struct Callers {
    /// The network.
    pub up: Up,
    hosts: Vec<String>,
    ports: Vec<u16>,
    /// The port of each guest's gate.
    gates: Vec<u16>,
}

impl Callers {
    /// Hosts of these names, and so many guests, numbered from 1. Hosts have the first ports of the switch.
    pub fn new(hosts: &[&str], guests: usize) -> Self {
        let mut text = format!("[switch.s1]\nprefix = \"{PREFIX}\"\n");
        for (n, host) in hosts.iter().enumerate() {
            text += &format!(
                "[host.{host}]\nesi = \"0200000000a{n}\"\n[[link]]\nends = [\"{host}\", \"s1:{n}\"]\n\
                 signalling = {{ version = \"uni40\" }}\n"
            );
        }
        let ports: Vec<u16> = (0..guests).map(|_| free_port()).collect();
        for (n, port) in ports.iter().enumerate() {
            text += &format!(
                "[outside.guest{}]\n[[link]]\nends = [\"guest{}\", \"s1:{}\"]\natmtcp = \"listen 127.0.0.1:{port}\"\n\
                 signalling = {{ version = \"uni31\" }}\n",
                n + 1,
                n + 1,
                hosts.len() + n
            );
        }
        let gates = (0..guests).map(|_| free_port()).collect();
        let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        let network = Callers { up: Up::new(&text), hosts, ports, gates };
        for n in 0..network.hosts.len() {
            network.wait_for(n);
        }
        network
    }

    /// The address of a host with a selector.
    pub fn address(&self, host: &str, selector: u8) -> String {
        let n = self.hosts.iter().position(|name| name == host).expect("a host of this network");
        format!("{PREFIX}0200000000a{n}{selector:02x}")
    }

    /// The name of the link of guest `n`.
    pub fn link(&self, n: usize) -> String {
        format!("guest{n} - s1:{}", self.hosts.len() + n - 1)
    }

    /// What guest `n` runs first, with `esi.c` beside: its interface has an address, its signalling is up, and `admit` has been
    /// called.
    pub fn begin(&self, n: usize) -> String {
        format!(
            "mkdir -p /var/run /var/tmp
             atmtcp virtual connect 10.0.2.2 {port} 2>&1 &
             interfaces 1
             /test/esi {esi} || poweroff -f
             atmsigd -b -c /dev/null -u uni31 2>&1
             ilmid -b -u 3.1 0 2>&1
             again nc 10.0.2.2 {gate} < /dev/null
             say $(atmaddr -n)
            ",
            port = self.ports[n - 1],
            gate = self.gates[n - 1],
            esi = guest_esi(n)
        )
    }

    /// Lets guest `n` go on, once the switch knows its address and its signalling is up.
    pub fn admit(&self, n: usize) {
        self.wait_for(self.hosts.len() + n - 1);
        let gate = TcpListener::bind(("127.0.0.1", self.gates[n - 1])).unwrap();
        drop(gate.accept().unwrap());
    }

    fn wait_for(&self, port: usize) {
        let begin = Instant::now();
        loop {
            let all = self.calls();
            let mut interfaces = all["interfaces"].as_array().into_iter().flatten();
            let found = interfaces.find(|at| at["station"] == "s1" && at["port"] == port);
            if found.is_some_and(|at| at["up"] == true && at["addresses"][0].is_string()) {
                return;
            }
            assert!(begin.elapsed() < WAIT, "nobody signals at port {port}: {all:#}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// What `cellway call list` says.
    pub fn calls(&self) -> Value {
        serde_json::from_slice(&self.up.run("call list --json").stdout).unwrap()
    }
}
