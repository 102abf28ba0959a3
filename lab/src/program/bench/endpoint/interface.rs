//! The other way between two endpoints: through the host interface, which keeps contracts. What it costs beside a direct
//! circuit, and whether a sender that offers as much as it can gets more than its contract.

use super::pipes::{Pipe, sum_octets};
use anyhow::{Context as _, Result, bail};
use endpoint::{ChannelId, Endpoint, EndpointConfig, OpenOptions};
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};
use wire::CircuitId;

/// The contract of the circuit that has one, in cells per second.
pub(super) const CONTRACT_CELLS: u32 = 20_000;
/// Its circuit, and the one without.
pub(super) const CONTRACT_VCI: u16 = 201;
pub(super) const BEST_EFFORT_VCI: u16 = 200;
/// Nobody answers for so long: the other process is gone.
const PATIENCE: Duration = Duration::from_secs(20);
/// Nothing comes for so long: the flood has ended.
const QUIET: Duration = Duration::from_secs(3);

/// Both circuits, for the benchmark's network.
pub(super) fn circuits() -> String {
    format!(
        "[[circuit]]\nends=[\"alpha 0.{BEST_EFFORT_VCI}\",\"beta 0.{BEST_EFFORT_VCI}\"]\n[[circuit]]\n\
         ends=[\"alpha 0.{CONTRACT_VCI}\",\"beta 0.{CONTRACT_VCI}\"]\ncategory=\"cbr\"\npcr=\"{CONTRACT_CELLS} cells/s\"\n"
    )
}

/// Cells of an AAL5 PDU of so many octets (I.363.5: eight octets of trailer).
pub(super) fn cells(octets: usize) -> usize {
    (octets + 8).div_ceil(48)
}

/// An endpoint with one circuit, its event strategy the default.
pub(super) struct InterfacePipe {
    endpoint: Endpoint,
    channel: ChannelId,
}

impl InterfacePipe {
    pub(super) fn open(socket: &Path, host: &str, vci: u16) -> Result<Self> {
        let config = EndpointConfig { host: host.to_owned(), ..EndpointConfig::default() };
        let mut endpoint = Endpoint::create(socket, &config)?;
        let channel = endpoint.open(CircuitId::new(0, vci).context("a circuit")?, OpenOptions::default())?;
        Ok(InterfacePipe { endpoint, channel })
    }
}

impl Pipe for InterfacePipe {
    fn send(&mut self, octets: usize, value: u8) -> Result<()> {
        loop {
            if let Some(mut loan) = self.endpoint.loan() {
                loan[..octets].fill(value);
                match self.endpoint.send(self.channel, loan, octets) {
                    Ok(()) => return Ok(()),
                    Err((endpoint::SendError::Full, _)) => {}
                    Err((e, _)) => bail!(e),
                }
            }
            if !self.endpoint.wait_send(Some(PATIENCE))? {
                bail!("no room in {PATIENCE:?}");
            }
        }
    }

    fn receive(&mut self, _: usize) -> Result<u64> {
        match self.endpoint.receive(Some(PATIENCE))? {
            Some(sdu) => Ok(sum_octets(&sdu)),
            None => bail!("no SDU in {PATIENCE:?}"),
        }
    }

    /// Batches that came whole: a circuit has no flow control, and a receiver that the machine keeps waiting loses SDUs.
    fn drain(&mut self, _: usize, batch: usize, batches: usize) -> Result<Vec<Duration>> {
        let mut times = Vec::with_capacity(batches);
        let mut begin = Instant::now();
        let mut patience = PATIENCE;
        'floods: for _ in 0..batches {
            for _ in 0..batch {
                match self.endpoint.receive(Some(patience))? {
                    Some(sdu) => drop(black_box(sum_octets(&sdu))),
                    None => break 'floods,
                }
                patience = QUIET;
            }
            let now = Instant::now();
            times.push(now - begin);
            begin = now;
        }
        if times.len() < 2 {
            bail!("too much was lost: {} of {batches} batches came", times.len());
        }
        Ok(times)
    }
}
