//! Network namespaces that nobody has to remove: each lives as long as a process that waits for this one to end.

use anyhow::{Context as _, Result, bail};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(5);

/// A network namespace without a name.
#[derive(Debug)]
pub(super) struct Namespace {
    /// `cat`, which ends when we do, however that may be: the other end of its input is ours.
    holder: Child,
    path: PathBuf,
}

impl Namespace {
    /// A fresh one.
    pub(super) fn new() -> Result<Self> {
        let mut holder = Command::new("unshare")
            .args(["--net", "cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .context("unshare (Debian package util-linux)")?;
        let path = PathBuf::from(format!("/proc/{}/ns/net", holder.id()));
        let ours = std::fs::read_link("/proc/self/ns/net")?;
        let end = Instant::now() + PATIENCE;
        loop {
            match std::fs::read_link(&path) {
                Ok(its) if its != ours => break,
                _ if Instant::now() > end || holder.try_wait()?.is_some() => {
                    let _ = holder.kill();
                    let _ = holder.wait();
                    bail!("no network namespace could be made: `unshare --net true` says why");
                }
                _ => std::thread::sleep(Duration::from_millis(2)),
            }
        }
        let namespace = Namespace { holder, path };
        // What the kernel says of its own accord by IPv6 is not to be measured. Where there is none, the better.
        let quiet = "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6";
        let _ = namespace.command("sh").args(["-c", quiet]).stderr(Stdio::null()).status();
        Ok(namespace)
    }

    /// Where the system shows it.
    pub(super) fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// The process in it, as `ip link set netns` names it.
    pub(super) fn holder(&self) -> String {
        self.holder.id().to_string()
    }

    /// A command that runs in it.
    pub(super) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.path.display())).arg("--").arg(program);
        command.stdin(Stdio::null());
        command
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // It goes with its last process and device; these would end by themselves, but later.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
