//! Peers of the path: DPDK's memif between two processes, with a plain forwarder or Open vSwitch between its two ports. A generator that
//! is its own sink, polling on one processor; the switch, polling on another. Only rates of what has come back are taken.

use anyhow::{Context as _, Result, bail};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const TESTPMD: &str = "dpdk-testpmd";
const VSWITCHD: &str = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk";
const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
/// Seconds that the generator runs; the first and the last are left out.
const SECONDS: u64 = 5;
/// The longest frame that memif is set up for here.
pub(super) const LONGEST: usize = 9216;

/// What stands between the two ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Switch {
    /// testpmd, which passes from one port to the other.
    Forwarder,
    /// Open vSwitch's DPDK data path, with two flows.
    OpenVSwitch,
}

impl Switch {
    pub(super) const ALL: [Switch; 2] = [Switch::Forwarder, Switch::OpenVSwitch];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Switch::Forwarder => "dpdk",
            Switch::OpenVSwitch => "ovs-dpdk",
        }
    }
}

/// What a peer came to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rates {
    /// Frames that came back each second, and the share of those sent that did not.
    pub(super) pdus_per_s: f64,
    pub(super) lost_share: f64,
    /// Processors that both sides had.
    pub(super) processors: f64,
}

/// A process that ends with this value.
struct Running(Child);

impl Running {
    fn start(mut command: Command, output: &Path) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let file = File::create(output)?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().with_context(|| {
            format!("{name}: install dpdk-dev, librte-net-memif23, librte-bus-vdev23, librte-mempool-ring23, openvswitch-switch-dpdk")
        })?;
        Ok(Running(child))
    }

    /// Processor time that all its threads have had, in seconds.
    fn processor_seconds(&self) -> f64 {
        let threads = fs::read_dir(format!("/proc/{}/task", self.0.id())).into_iter().flatten().flatten();
        let nanos = threads.filter_map(|thread| {
            let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<f64>().ok()
        });
        nanos.sum::<f64>() / 1e9
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A switch between two memif ports, and the folder of its sockets.
struct Stage {
    folder: PathBuf,
    processes: Vec<Running>,
}

/// One of two memif ports.
fn memif(folder: &Path, port: usize, role: &str, long: bool) -> String {
    let socket = folder.join("memif.sock");
    let buffers = if long { ",bsize=10240" } else { "" };
    format!("net_memif{port},role={role},id={port},socket={},socket-abstract=no,rsize=10{buffers}", socket.display())
}

/// testpmd on one processor.
fn testpmd(folder: &Path, name: &str, processor: usize, role: &str, (long, more): (bool, &[String])) -> Command {
    let mut command = Command::new(TESTPMD);
    command.env("XDG_RUNTIME_DIR", folder);
    command.args(["--lcores", &format!("0@{processor},1@{processor}"), "--no-huge", "-m", "512", "--no-pci"]);
    command.args(["--no-telemetry", "--file-prefix", name]);
    for port in 0..2 {
        command.args(["--vdev", &memif(folder, port, role, long)]);
    }
    command.args([
        "--",
        "--auto-start",
        "--nb-cores=1",
        "--no-mlockall",
        "--total-num-mbufs=16384",
        "--stats-period=1",
    ]);
    if long {
        command.arg("--mbuf-size=10496");
    }
    command.args(more);
    command
}

/// A command of Open vSwitch's that must succeed.
fn tool(command: &mut Command) -> Result<()> {
    let output = command
        .output()
        .with_context(|| format!("{}: install openvswitch-switch-dpdk", command.get_program().to_string_lossy()))?;
    if !output.status.success() {
        bail!("{:?}: {}", command, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

impl Stage {
    fn new(folder: &Path, switch: Switch, processor: usize, long: bool) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let mut stage = Stage { folder: folder.to_owned(), processes: Vec::new() };
        match switch {
            Switch::Forwarder => {
                let forward = ["--forward-mode=io".to_owned()];
                let command = testpmd(folder, "switch", processor, "server", (long, &forward));
                stage.processes.push(Running::start(command, &folder.join("switch.out"))?);
                stage.await_file("memif.sock")?;
            }
            Switch::OpenVSwitch => stage.start_vswitch(processor, long)?,
        }
        Ok(stage)
    }

    fn await_file(&self, name: &str) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !self.folder.join(name).exists() {
            if Instant::now() > deadline {
                bail!("no {name} after ten seconds; see the output in {}", self.folder.display());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn start_vswitch(&mut self, processor: usize, long: bool) -> Result<()> {
        let folder = self.folder.clone();
        let at = |name: &str| folder.join(name).display().to_string();
        tool(Command::new("ovsdb-tool").args(["create", &at("conf.db"), SCHEMA]))?;
        let mut server = Command::new("ovsdb-server");
        server.args([
            &at("conf.db"),
            &format!("--remote=punix:{}", at("db.sock")),
            &format!("--unixctl={}", at("db.ctl")),
        ]);
        self.processes.push(Running::start(server, &folder.join("db.out"))?);
        self.await_file("db.sock")?;
        let database = format!("--db=unix:{}", at("db.sock"));
        let vsctl =
            |args: &[&str]| tool(Command::new("ovs-vsctl").args([database.as_str(), "--timeout=15"]).args(args));
        let mask = 1usize << processor;
        let extra = "other_config:dpdk-extra=--no-huge --legacy-mem --file-prefix ovs --no-pci -m 1024 --iova-mode=va";
        vsctl(&["--no-wait", "init"])?;
        vsctl(&["--no-wait", "set", "Open_vSwitch", ".", "other_config:dpdk-init=true", extra])?;
        let masks = [format!("other_config:pmd-cpu-mask={mask:#x}"), format!("other_config:dpdk-lcore-mask={mask:#x}")];
        vsctl(&["--no-wait", "set", "Open_vSwitch", ".", &masks[0], &masks[1]])?;
        let mut switch = Command::new(VSWITCHD);
        switch.env("OVS_RUNDIR", &folder).env("XDG_RUNTIME_DIR", &folder);
        switch.args([format!("unix:{}", at("db.sock")), format!("--unixctl={}", at("switch.ctl"))]);
        self.processes.push(Running::start(switch, &folder.join("switch.out"))?);
        self.await_file("switch.ctl")?;
        vsctl(&["add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=netdev"])?;
        for port in 0..2 {
            let (name, number) = (format!("m{port}"), format!("ofport_request={}", port + 1));
            let device = format!("options:dpdk-devargs={}", memif(&folder, port, "server", long));
            let mut args = vec![
                "add-port",
                "br0",
                &name,
                "--",
                "set",
                "Interface",
                &name,
                "type=dpdk",
                "options:n_rxq=2",
                &number,
                &device,
            ];
            if long {
                args.push("mtu_request=9216");
            }
            vsctl(&args)?;
        }
        let bridge = format!("unix:{}", at("br0.mgmt"));
        for flow in ["in_port=1,actions=output:2", "in_port=2,actions=output:1"] {
            tool(Command::new("ovs-ofctl").args(["add-flow", &bridge, flow]))?;
        }
        self.await_file("memif.sock")
    }
}

/// Floods frames of `octets` through a switch; the generator on the first processor, the switch on the second.
pub(super) fn flood(folder: &Path, switch: Switch, octets: usize, processors: [usize; 2]) -> Result<Rates> {
    let folder = folder.join(format!("{}-{octets}", switch.name()));
    let long = octets > 2000;
    let stage = Stage::new(&folder, switch, processors[1], long)?;
    let mut how =
        vec!["--forward-mode=flowgen".to_owned(), format!("--txpkts={octets}"), "--flowgen-flows=64".to_owned()];
    if switch == Switch::OpenVSwitch {
        // It sends on the second queue, and testpmd takes from as many as it sends on.
        how.extend(["--rxq=2".to_owned(), "--txq=2".to_owned()]);
    }
    let output = folder.join("generator.out");
    let command = testpmd(&folder, "generator", processors[0], "client", (long, &how));
    let generator = Running::start(command, &output)?;
    let used = || stage.processes.iter().chain([&generator]).map(Running::processor_seconds).sum::<f64>();
    std::thread::sleep(Duration::from_secs(2));
    let (begin, before) = (Instant::now(), used());
    std::thread::sleep(Duration::from_secs(SECONDS));
    let processors = (used() - before) / begin.elapsed().as_secs_f64();
    drop(generator);
    let text = fs::read_to_string(&output)?;
    let (received, sent) = (rate(&text, "Rx-pps:"), rate(&text, "Tx-pps:"));
    let (Some(pdus_per_s), Some(sent)) = (received.filter(|rate| *rate > 0.0), sent) else {
        bail!("nothing came back from {}: {}", switch.name(), text.lines().last().unwrap_or_default());
    };
    Ok(Rates { pdus_per_s, lost_share: (1.0 - pdus_per_s / sent.max(1.0)).max(0.0), processors })
}

/// The median over the seconds of what both ports together counted by a name, without the first and the last.
fn rate(text: &str, name: &str) -> Option<f64> {
    let of_block = |block: &str| {
        let numbers = block.split(name).skip(1).filter_map(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
        numbers.reduce(|sum, number| sum + number)
    };
    let blocks: Vec<f64> = text.split("Port statistics").skip(1).filter_map(of_block).collect();
    let inner = blocks.get(2..blocks.len().saturating_sub(1)).filter(|inner| !inner.is_empty())?;
    Some(super::median(&mut inner.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_both_ports_add_up_and_the_median_second_counts() {
        let block = |a: u64, b: u64| {
            format!("Port statistics ====\n  Rx-pps:  {a}  Rx-bps: 5\n Tx-pps: 1\n Rx-pps: {b} Rx-bps: 6\n")
        };
        let text: String =
            [(9, 9), (1, 0), (10, 20), (11, 22), (12, 30), (0, 0)].iter().map(|(a, b)| block(*a, *b)).collect();
        assert_eq!(rate(&text, "Rx-pps:"), Some(33.0));
        assert_eq!(rate(&text, "Tx-pps:"), Some(1.0));
        assert_eq!(rate("EAL: no memory", "Rx-pps:"), None);
    }
}
