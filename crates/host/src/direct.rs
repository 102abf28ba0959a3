//! Bringing the two sides of a direct circuit together.
//!
//! Each side offers its memory for its end of a circuit. When both ends of a best-effort circuit between two hosts of
//! this network have been offered, each side is given the other's memory and one end of each bell. After that the
//! service holds nothing but a claim on the two ends, so that nobody else opens them, and the connections: what ends
//! one of them ends the circuit. Neither side is trusted: memory is passed on only if it is sealed and all there.

use crate::channels::EndpointId;
use crate::engine::{Core, EngineHandle};
use crate::interface::{HostInterface, OpenError};
use crate::proxy::ProxiedConnection;
use endpoint::control::Response;
use endpoint::direct::{DirectGeometry, bells, layout, memory};
use net::NodeId;
use net::topology::CircuitEnd;
use rustix::fd::OwnedFd;
use std::sync::Arc;
use wire::CircuitId;

/// One side's offer, in words of its own.
#[derive(Debug)]
pub(crate) struct Offer {
    pub(crate) host: String,
    pub(crate) circuit: CircuitId,
    pub(crate) layout: u32,
    pub(crate) geometry: DirectGeometry,
    pub(crate) memory: OwnedFd,
    /// The user proxy has seen all pages of the memory, which was sealed by then.
    pub(crate) is_whole: bool,
}

/// An end that is claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claim {
    node: NodeId,
    id: EndpointId,
}

/// A side that waits for the other.
#[derive(Debug)]
struct Waiting {
    claim: Claim,
    here: CircuitEnd,
    there: CircuitEnd,
    geometry: DirectGeometry,
    memory: OwnedFd,
    line: ProxiedConnection,
}

/// Why an end cannot be opened directly.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DirectError {
    #[error("layout version {0} of direct circuits; this service knows {version}", version = layout::VERSION)]
    Layout(u32),
    #[error(transparent)]
    Memory(#[from] memory::MemoryError),
    #[error("no host `{0}` in this network (cellway status lists them)")]
    NoHost(String),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("circuit {0} has more than two ends: open it by an endpoint")]
    Multipoint(CircuitId),
    #[error("circuit {0} has a contract, which the host interface keeps: open it by an endpoint")]
    Contract(CircuitId),
    #[error("circuit {0} leads to {1}, which is no host of this network: open it by an endpoint")]
    Elsewhere(CircuitId, String),
    #[error("bringing the two sides together: {0}")]
    System(#[from] rustix::io::Errno),
    #[error(transparent)]
    Stopped(#[from] crate::engine::Stopped),
}

/// Those who wait for their other side.
#[derive(Debug, Default)]
pub(crate) struct Broker {
    waiting: Vec<Waiting>,
    /// Answers that have not gone yet.
    late: Vec<(Claim, ProxiedConnection)>,
}

impl Broker {
    /// Takes an offer of the side at the other end of `packets`. If its other side waits, both are answered now; else
    /// this one is answered when the other comes. The claim is to be released when the connection ends.
    pub(crate) fn offer(
        &mut self,
        offer: Offer,
        line: &ProxiedConnection,
        engine: &EngineHandle,
    ) -> Result<Claim, DirectError> {
        if offer.layout != layout::VERSION {
            return Err(DirectError::Layout(offer.layout));
        }
        memory::verify(&offer.memory, &offer.geometry)?;
        if !offer.is_whole {
            return Err(memory::MemoryError::NotAsAgreed("pages are missing").into());
        }
        let (cut, line) = (line.end(), line.also());
        let Offer { host, circuit, geometry, memory, .. } = offer;
        let here = CircuitEnd::new(host, circuit);
        let end = here.clone();
        let (claim, there) = engine.with(move |core| claim(core, &end, cut))??;
        let waiting = Waiting { claim, here, there, geometry, memory, line };
        let Some(at) = self.waiting.iter().position(|w| w.here == waiting.there && w.there == waiting.here) else {
            self.waiting.push(waiting);
            return Ok(claim);
        };
        if let Err(e) = self.waiting[at].geometry.fits(&waiting.geometry) {
            // The one that came first may still find a side that fits.
            release(claim, engine);
            return Err(memory::MemoryError::from(e).into());
        }
        let first = self.waiting.swap_remove(at);
        if let Err(e) = self.meet(first, waiting) {
            release(claim, engine);
            return Err(e);
        }
        Ok(claim)
    }

    /// Gives each side the other's memory and its ends of the bells.
    fn meet(&mut self, first: Waiting, second: Waiting) -> Result<(), DirectError> {
        let [(messages, their_messages), (room, their_room)] = [bells()?, bells()?];
        let opened = |w: &Waiting| Response::DirectOpened { geometry: w.geometry };
        let (to_first, to_second) = (opened(&second), opened(&first));
        let to_first = (first.claim, first.line, to_first, vec![second.memory, messages, room]);
        let to_second = (second.claim, second.line, to_second, vec![first.memory, their_messages, their_room]);
        for (claim, mut line, opened, fds) in [to_first, to_second] {
            match line.send(&opened, fds, 0) {
                Ok(()) if line.is_behind() => self.late.push((claim, line)),
                Ok(()) => {}
                // It has gone; the other will hear of it by its bells.
                Err(e) => tracing::debug!("service: a side of a direct circuit: {e}"),
            }
        }
        Ok(())
    }

    /// Whether answers wait to be sent again by [`Broker::go_on`], though nothing tells of it.
    pub(crate) fn is_late(&self) -> bool {
        !self.late.is_empty()
    }

    /// Sends what has not gone yet, as far as it can.
    pub(crate) fn go_on(&mut self) {
        // One that has gone is seen where it is read.
        self.late.retain_mut(|(_, line)| line.flush().is_ok() && line.is_behind());
    }

    /// The side's connection has ended.
    pub(crate) fn end(&mut self, claim: Claim, engine: &EngineHandle) {
        self.late.retain(|(of, _)| *of != claim);
        if let Some(at) = self.waiting.iter().position(|w| w.claim == claim) {
            // Its memory may be the last of it.
            crate::reaper::dispose(self.waiting.swap_remove(at));
        }
        release(claim, engine);
    }
}

fn release(claim: Claim, engine: &EngineHandle) {
    // If the engine has stopped, the claim has ended with it.
    let _ = engine.with(move |core| {
        if let Some(host) = core.network.node_mut::<HostInterface>(claim.node) {
            host.release(claim.id);
        }
    });
}

/// Claims an end and finds the other.
fn claim(core: &mut Core, here: &CircuitEnd, cut: Arc<OwnedFd>) -> Result<(Claim, CircuitEnd), DirectError> {
    let circuit = here.circuit;
    if core.host(&here.station).is_none() {
        return Err(DirectError::NoHost(here.station.clone()));
    }
    let described = core.fabric.find_circuit(here).cloned();
    let described = described.ok_or(OpenError::NoCircuit(circuit))?;
    let [a, b] = <[CircuitEnd; 2]>::try_from(described.ends).map_err(|_| DirectError::Multipoint(circuit))?;
    let there = if a == *here { b } else { a };
    if described.contract.category != traffic::Category::Ubr || described.contract.pcr.is_some() {
        return Err(DirectError::Contract(circuit));
    }
    if core.host(&there.station).is_none() {
        return Err(DirectError::Elsewhere(circuit, there.station));
    }
    let (node, host) = core.host(&here.station).ok_or_else(|| DirectError::NoHost(here.station.clone()))?;
    let id = host.claim(circuit, cut)?;
    Ok((Claim { node, id }, there))
}
