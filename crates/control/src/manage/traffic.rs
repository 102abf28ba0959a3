//! Requests that look at what a link passes, or put something on it: captures and injections.

use super::{Manager, answer};
use crate::capture::pump::Place;
use crate::capture::{self, pump};
use crate::controller::May;
use crate::inject;
use crate::protocol::{Capturing, Inject, Injected};
use anyhow::{Result, anyhow};
use endpoint::seqpacket::Peer;
use net::tap::MAX_TAPS;
use net::{TapConfig, TapId};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use wire::CircuitId;

/// What is to be recorded.
pub(super) struct Wanted<'a> {
    pub(super) link: &'a str,
    pub(super) circuits: &'a [String],
    pub(super) buffer_mib: u32,
}

impl Manager {
    /// Puts a tap on a link, beside those of other captures, and starts the thread that reads it.
    pub(super) fn start_capture(
        &self,
        peer: &Peer,
        wanted: Wanted<'_>,
        fds: Vec<OwnedFd>,
        may: May<'_>,
    ) -> Result<String> {
        let (controller, engine) = (&*self.controller, self.controller.engine());
        let circuits = wanted.circuits.iter().map(|c| c.parse()).collect::<Result<Vec<CircuitId>, _>>()?;
        let to = pump::accept(fds)?;
        let config = TapConfig::of_mib(wanted.buffer_mib.min(capture::MAX_BUFFER_MIB) as usize, circuits);
        let name = controller.link_name(&controller.find_link(wanted.link)?);
        let tap = TapId(self.next_tap.fetch_add(1, Ordering::Relaxed));
        let (of_name, of_tap) = (name.clone(), config.clone());
        let link = engine.with(move |core| {
            let link = core.fabric.find_link(&of_name).ok_or_else(|| anyhow!("the link is gone"))?;
            if !core.network.set_tap_of(link, tap, Some(of_tap)) {
                // Of a link between two shards one half may have had room.
                core.network.set_tap_of(link, tap, None);
                return Err(anyhow!("{MAX_TAPS} captures of this link are under way, and that is the most"));
            }
            Ok(link)
        })??;
        let place = Place { link, tap };
        let begun = || -> Result<u64> {
            let epoch = self.epoch_unix_nanos()?;
            // Whoever takes the right away either is seen here, or finds the capture in the list.
            let mut captures = self.captures();
            controller.with_config(may).map_err(|e| anyhow!(e))?;
            let capture = pump::start(engine.named("capture"), place, &config, to)?;
            captures.retain(|(_, capture)| !capture.is_over());
            captures.push((*peer, capture));
            Ok(epoch)
        };
        match begun() {
            Ok(epoch) => answer(&Capturing { link: name, epoch_unix_nanos: epoch }),
            Err(e) => {
                pump::end(engine, place)?;
                Err(e)
            }
        }
    }

    /// Puts cells on a link.
    pub(super) fn inject(&self, asked: &Inject, fds: &[OwnedFd], may: May<'_>) -> Result<String> {
        let (controller, engine) = (&*self.controller, self.controller.engine());
        let octets = inject::cells(fds)?;
        let name = controller.link_name(&controller.find_link(&asked.link)?);
        let place = inject::find(engine, &name, asked.from.as_deref())?;
        controller.with_config(may).map_err(|e| anyhow!(e))?;
        let done = inject::put(engine, &place, &octets)?;
        answer(&Injected { link: name, from: place.station, ..done })
    }
}
