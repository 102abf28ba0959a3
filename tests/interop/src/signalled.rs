//! A capture of the signalling at a link while a test runs, for tshark to judge.

use crate::peer::Peer;
use crate::tshark;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(60);

/// A running `cellway capture` of circuit 0.5.
pub struct Signalled {
    peer: Peer,
    path: PathBuf,
}

impl Signalled {
    /// By `cellway capture` as it is to be called, which gets its arguments here.
    pub fn start(mut capture: Command, link: &str, path: PathBuf) -> anyhow::Result<Self> {
        let mut peer = Peer::start(capture.arg(link).arg(&path).args(["--circuit", "0.5"]))?;
        peer.wait_for("capturing", WAIT)?;
        Ok(Signalled { peer, path })
    }

    /// Ends the capture: tshark reads all that was said, and `calls` calls at least.
    ///
    /// # Errors
    /// Something is malformed, or there are fewer.
    pub fn judge(mut self, calls: usize) -> anyhow::Result<()> {
        let pid = rustix::process::Pid::from_raw(self.peer.id() as i32);
        let pid = pid.ok_or_else(|| anyhow::anyhow!("no process"))?;
        rustix::process::kill_process(pid, rustix::process::Signal::INT)?;
        self.peer.wait(WAIT)?;
        // tshark reads beyond AAL parameters that end a message, as they do in the CONNECT of stock `atmsigd`.
        let malformed = "_ws.malformed && sscop && q2931.message_type != 0x07";
        let decoded = tshark::decode(&self.path, malformed)?;
        anyhow::ensure!(decoded.is_empty(), "malformed: {decoded}");
        // SETUP and CONNECT.
        for message in ["0x05", "0x07"] {
            let seen = tshark::count(&self.path, &format!("q2931.message_type == {message}"))?;
            anyhow::ensure!(seen >= calls, "{seen} messages {message} of {calls}");
        }
        Ok(())
    }
}
