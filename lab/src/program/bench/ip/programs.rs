//! The programs that measure: iperf3 and ping, each in a namespace.

use super::namespace::Namespace;
use anyhow::{Context as _, Result, anyhow, bail};
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::net::Ipv4Addr;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long a way may take until packets pass.
const PATIENCE: Duration = Duration::from_secs(10);

/// How much longer so many octets may take on a machine that does other things.
const OCTETS_PATIENCE: Duration = Duration::from_secs(50);

/// That they are there, and how their TCP is to send.
#[derive(Debug)]
pub(super) struct Programs {
    /// TCP's congestion control, by the kernel's name of it.
    congestion: String,
}

/// What iperf3 says of a transfer.
pub(super) struct Transfer {
    pub(super) gbit_s: f64,
    /// What had arrived when the sender was done.
    pub(super) octets: u64,
    pub(super) octets_sent: u64,
    /// Segments that the sender's TCP sent again; -1 where the system does not say.
    pub(super) sent_again: i64,
}

/// How much iperf3 is to transfer.
#[derive(Debug, Clone, Copy)]
pub(super) enum Length {
    /// It knows whole seconds only.
    Seconds(u64),
    Megaoctets(u64),
}

impl std::fmt::Display for Length {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Length::Seconds(n) => write!(f, "{n} s each way"),
            Length::Megaoctets(n) => write!(f, "{n} Moctets each way"),
        }
    }
}

/// An iperf3 that waits for clients.
pub(super) struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn checked(output: Output, what: &str) -> Result<String> {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        bail!("{what} ends with {}: {}{}", output.status, error.trim(), said.trim());
    }
    Ok(said)
}

impl Programs {
    /// Looks for them.
    pub(super) fn find(congestion: &str) -> Result<Self> {
        for (program, argument, package) in [
            ("iperf3", "--version", "iperf3"),
            ("ping", "-V", "iputils-ping"),
            ("ip", "-V", "iproute2"),
            ("nsenter", "--version", "util-linux"),
            ("timeout", "--version", "coreutils"),
        ] {
            let found = Command::new(program).arg(argument).stdout(Stdio::null()).stderr(Stdio::null()).status();
            if found.is_err() {
                bail!("there is no {program}: apt-get install {package}");
            }
        }
        Ok(Programs { congestion: congestion.to_owned() })
    }

    /// Until an echo request is answered.
    pub(super) fn wait_for(&self, from: &Namespace, to: Ipv4Addr) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        loop {
            let mut ping = from.command("ping");
            ping.args(["-q", "-c", "1", "-W", "1", &to.to_string()]).stdout(Stdio::null()).stderr(Stdio::null());
            if ping.status().context("ping")?.success() {
                return Ok(());
            }
            if Instant::now() > end {
                bail!("{to} does not answer");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The median round trip in microseconds.
    pub(super) fn ping(&self, from: &Namespace, to: Ipv4Addr, count: usize) -> Result<f64> {
        let mut ping = from.command("ping");
        ping.env("LC_ALL", "C").args(["-n", "-i", "0.005", "-c", &count.to_string(), &to.to_string()]);
        let said = checked(ping.output().context("ping")?, "ping")?;
        let mut times = times(&said);
        if times.is_empty() {
            bail!("ping says nothing of times: {}", said.trim());
        }
        Ok(super::median(&mut times))
    }

    /// A server of one client that listens already.
    pub(super) fn serve(&self, on: &Namespace, address: Ipv4Addr) -> Result<Server> {
        let mut iperf = on.command("iperf3");
        iperf.args(["--server", "--one-off", "--forceflush", "--bind", &address.to_string()]);
        let mut server = Server(iperf.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().context("iperf3")?);
        let said = server.0.stdout.take().ok_or_else(|| anyhow!("iperf3 has no output"))?;
        let mut said = BufReader::new(said);
        let mut line = String::new();
        while said.read_line(&mut line)? > 0 {
            if line.contains("listening") {
                // What it says of its client is read and thrown away, or its output would fill up.
                std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
                return Ok(server);
            }
            line.clear();
        }
        bail!("the iperf3 server ends before it listens");
    }

    /// TCP so long; `back`: from the server to us.
    pub(super) fn tcp(&self, from: &Namespace, to: Ipv4Addr, length: Length, back: bool) -> Result<Transfer> {
        let (option, value, seconds) = match length {
            Length::Seconds(n) => ("--time", n.to_string(), n),
            Length::Megaoctets(n) => ("--bytes", format!("{n}M"), OCTETS_PATIENCE.as_secs()),
        };
        // A way that passes nothing would keep it for ever.
        let mut iperf = from.command("timeout");
        iperf.arg((seconds + PATIENCE.as_secs()).to_string());
        iperf.args(["iperf3", "--json", "--client", &to.to_string(), option, &value]);
        iperf.args(["--congestion", &self.congestion]);
        if back {
            iperf.arg("--reverse");
        }
        let output = iperf.output().context("iperf3")?;
        let said: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let (sum, sent) = (&said["end"]["sum_received"], &said["end"]["sum_sent"]);
        match (sum["bits_per_second"].as_f64(), sum["bytes"].as_u64()) {
            (Some(rate), Some(octets)) if output.status.success() => Ok(Transfer {
                gbit_s: rate / 1e9,
                octets,
                octets_sent: sent["bytes"].as_u64().unwrap_or_default(),
                sent_again: sent["retransmits"].as_i64().unwrap_or(-1),
            }),
            _ => bail!(
                "iperf3 ends with {}: {}",
                output.status,
                said["error"].as_str().unwrap_or("it says nothing of a rate")
            ),
        }
    }
}

/// The round trips in what ping says: `64 bytes from ...: icmp_seq=1 ttl=64 time=0.045 ms`.
fn times(said: &str) -> Vec<f64> {
    let time = |line: &str| {
        let (_, rest) = line.split_once("time=")?;
        Some(rest.split_once(" ms")?.0.parse::<f64>().ok()? * 1e3)
    };
    said.lines().filter_map(time).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_are_read_from_what_ping_says() {
        let said = "PING 198.18.0.2 (198.18.0.2) 56(84) bytes of data.\n\
            64 bytes from 198.18.0.2: icmp_seq=1 ttl=64 time=0.045 ms\n\
            64 bytes from 198.18.0.2: icmp_seq=2 ttl=64 time=1.5 ms\n\
            rtt min/avg/max/mdev = 0.045/0.700/1.500/0.1 ms\n";
        let times = times(said);
        assert!((times[0] - 45.0).abs() < 1e-9 && (times[1] - 1500.0).abs() < 1e-9 && times.len() == 2, "{times:?}");
    }
}
