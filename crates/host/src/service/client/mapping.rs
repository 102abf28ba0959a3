//! Memory that the engine's thread is about to use: the service maps its pages first, so that the engine's thread meets
//! no page fault there. The client's proxy has made the pages ([`crate::proxy::MAKE_PAGES`]); here they are mapped a
//! piece at a time, so that no client waits for another one's memory.

use super::{Client, Refused, ServiceContext};
use crate::proxy::Packet;
use crate::quota::{Kind, Ledger};
use endpoint::control::{Refusal, Request, Response};
use endpoint::segment::Segment;
use endpoint::shared::{self, SharedMemory};
use std::sync::Arc;

/// Why memory is not used that its user proxy has not sealed.
const NOT_MAPPED: &str = "map the memory that came with the last answer, and do not seal it, before asking for more";

/// Octets that are mapped in one turn of a client's.
const PIECE: usize = 1 << 20;

/// What is to be mapped.
#[derive(Debug)]
pub(super) enum Memory {
    /// An endpoint's segment.
    Segment(Arc<Segment>),
    /// Memory to be registered.
    Own(SharedMemory),
}

/// Memory that is being mapped, and the request that waits for it. Who drops it leaves it to the reaper.
#[derive(Debug)]
pub(in crate::service) struct Mapping {
    pub(super) memory: Memory,
    pub(super) then: Request,
    at: usize,
}

impl Mapping {
    pub(super) fn new(memory: Memory, then: Request) -> Self {
        Mapping { memory, then, at: 0 }
    }

    /// Maps a piece more. False if all is mapped.
    pub(super) fn advance(&mut self) -> bool {
        let octets = match &self.memory {
            Memory::Segment(segment) => segment.map_pages(self.at, PIECE),
            Memory::Own(memory) => memory.map_pages(self.at, PIECE),
        };
        self.at += octets;
        octets > 0
    }
}

impl Client {
    /// Where the engine touches memory for the first time if a request is served, nobody may be able to take pages out
    /// of it, and its pages are mapped first: the request waits for that. Gives a request that needs to wait for
    /// nothing.
    pub(super) fn map_first(&mut self, request: Request, ledger: &mut Ledger) -> Result<Option<Request>, Refused> {
        match &request {
            Request::Open { .. } | Request::SetEvents { .. } => {
                let remaps = self.remaps;
                let Some((segment, fd)) = self.segment.take_if(|(_, fd)| remaps || shared::is_sealed(fd)) else {
                    return if self.segment.is_some() { Err(NOT_MAPPED.into()) } else { Ok(Some(request)) };
                };
                crate::reaper::dispose(fd);
                self.mapping = Some(Mapping::new(Memory::Segment(segment), request));
            }
            Request::Register { octets, .. } if self.endpoint.is_some() => {
                let octets = *octets;
                let made = self.made.take_if(|(memory, _)| memory.len() as u64 == octets);
                let (memory, fd) = made.ok_or("memory to register is made by the service: ask for that much first")?;
                let sealed = shared::is_sealed(&fd);
                crate::reaper::dispose(fd);
                if !sealed {
                    crate::reaper::dispose(memory);
                    self.account.give_back(ledger, Kind::Octets, octets);
                    return Err(NOT_MAPPED.into());
                }
                self.mapping = Some(Mapping::new(Memory::Own(memory), request));
            }
            _ => return Ok(Some(request)),
        }
        Ok(None)
    }

    /// Serves the request that waited for memory.
    pub(super) fn go_on(&mut self, mapping: Mapping, context: &mut ServiceContext<'_>) -> Result<(), Refused> {
        match mapping {
            Mapping { memory: Memory::Own(memory), then: Request::Register { address, octets }, .. } => {
                self.register(address, octets, memory, context)
            }
            Mapping { memory, then, .. } => {
                crate::reaper::dispose(memory);
                self.serve(then, Packet::default(), context)
            }
        }
    }

    fn register(
        &mut self,
        address: u64,
        octets: u64,
        memory: SharedMemory,
        context: &mut ServiceContext<'_>,
    ) -> Result<(), Refused> {
        let Some((_, node, id)) = self.endpoint.clone() else {
            crate::reaper::dispose(memory);
            return Err("create the endpoint first".into());
        };
        let registered = context.engine.with(move |core| {
            let host = core.network.node_mut::<crate::HostInterface>(node).ok_or("the host is gone")?;
            host.register(id, address, memory).map_err(|e| Refused::new(refusal_of(e), e))
        });
        // A region that another one replaces counts until the endpoint ends: it may be in use until then.
        let registered = registered.map_err(Refused::from).and_then(|registered| registered);
        registered.inspect_err(|_| self.account.give_back(&mut context.ledger, Kind::Octets, octets))?;
        self.send(&Response::Registered).map_err(Into::into)
    }
}

/// The kind of a refusal to register memory.
fn refusal_of(reason: &str) -> Refusal {
    if reason == crate::HostInterface::NO_OWN_MEMORY { Refusal::Invalid } else { Refusal::Limit }
}
