//! Messages between the control programs of Myrinet interfaces, as the payload of packets of type
//! [`Kind::MAPPING`][super::Kind]. The vendor's own layout is not public; this one is Cellway's, version 1.
//!
//! | octets | what |
//! |---|---|
//! | 0 | version, 1 |
//! | 1 | what: 1 scout, 2 answer, 3 loop, 4 routes, 5 acknowledgement |
//! | 2..4 | length of the return route in octets (0 to 24), then 0 |
//! | 4..12 | the sender's address |
//! | 12..20 | scout, answer, loop: the scout's number; routes, acknowledgement: the map's |
//! | 20.. | the return route; routes only: entries of 8 octets of address, 1 of length, and a route |

use super::{MAX_HOPS, turns};
use wire::Error;

const WHAT: &str = "Myrinet mapping message";
/// Octets before the return route.
pub const HEAD_OCTETS: usize = 20;

/// An interface's own address: the highest becomes the mapper.
pub type Address = u64;

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// Who sent it.
    pub from: Address,
    /// A scout's number, or a map's.
    pub number: u64,
    /// What it says.
    pub body: Body<'a>,
}

/// What a message says. Routes are route octets, each with its most significant bit set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body<'a> {
    /// "If a host is here, answer by this route."
    Scout {
        /// The route to the mapper.
        back: &'a [u8],
    },
    /// "A host is here, with this address."
    Answer,
    /// A scout through a supposed switch and back to the mapper.
    Loop,
    /// The routes of the host that gets this.
    Routes {
        /// The route to the mapper, for the acknowledgement.
        back: &'a [u8],
        /// Each host that can be reached.
        entries: Entries<'a>,
    },
    /// "I have the routes."
    Acknowledged,
}

/// Checked entries of a table of routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entries<'a>(&'a [u8]);

impl<'a> Entries<'a> {
    /// Checks entries one after another.
    ///
    /// # Errors
    /// An entry that is cut off, or whose route is none.
    pub fn new_checked(octets: &'a [u8]) -> Result<Self, Error> {
        let mut rest = octets;
        while !rest.is_empty() {
            let Some((_, route, after)) = split(rest) else {
                return Err(Error::Truncated { what: WHAT, need: 9, got: rest.len() });
            };
            check_route(route)?;
            rest = after;
        }
        Ok(Entries(octets))
    }

    /// Addresses, and the octets of the routes there.
    pub fn iter(&self) -> impl Iterator<Item = (Address, &'a [u8])> + 'a {
        let mut rest = self.0;
        core::iter::from_fn(move || {
            let (address, route, after) = split(rest)?;
            rest = after;
            Some((address, route))
        })
    }
}

/// Octets of an entry with a route of so many hops.
pub const fn entry_octets(hops: usize) -> usize {
    9 + hops
}

/// Writes an entry to the front of `octets`, which has room for [`entry_octets`]; gives its length.
pub fn emit_entry(address: Address, route: &[u8], octets: &mut [u8]) -> usize {
    octets[..8].copy_from_slice(&address.to_be_bytes());
    octets[8] = route.len() as u8;
    octets[9..9 + route.len()].copy_from_slice(route);
    entry_octets(route.len())
}

fn split(octets: &[u8]) -> Option<(Address, &[u8], &[u8])> {
    let (address, rest) = octets.split_first_chunk::<8>()?;
    let (hops, rest) = rest.split_first()?;
    let (route, rest) = rest.split_at_checked((*hops).into())?;
    Some((u64::from_be_bytes(*address), route, rest))
}

fn check_route(route: &[u8]) -> Result<(), Error> {
    match turns(route) {
        Some(_) => Ok(()),
        None => Err(Error::Field { what: WHAT, field: "route", value: route.len() as u64 }),
    }
}

impl<'a> Message<'a> {
    /// Reads a message.
    ///
    /// # Errors
    /// Octets that are no message of this version.
    pub fn parse(octets: &'a [u8]) -> Result<Self, Error> {
        let Some((head, rest)) = octets.split_first_chunk::<HEAD_OCTETS>() else {
            return Err(Error::Truncated { what: WHAT, need: HEAD_OCTETS, got: octets.len() });
        };
        let field = |field, value: u8| Err(Error::Field { what: WHAT, field, value: value.into() });
        let [version, what, hops, zero, ..] = *head;
        if version != 1 {
            return field("version", version);
        }
        if usize::from(hops) > MAX_HOPS || zero != 0 {
            return field("return route length", hops);
        }
        let Some((back, rest)) = rest.split_at_checked(hops.into()) else {
            return Err(Error::Truncated { what: WHAT, need: HEAD_OCTETS + usize::from(hops), got: octets.len() });
        };
        check_route(back)?;
        let body = match what {
            1 => Body::Scout { back },
            2 => Body::Answer,
            3 => Body::Loop,
            4 => Body::Routes { back, entries: Entries::new_checked(rest)? },
            5 => Body::Acknowledged,
            _ => return field("message", what),
        };
        if !matches!(body, Body::Routes { .. }) && !rest.is_empty() {
            return Err(Error::Field { what: WHAT, field: "length", value: octets.len() as u64 });
        }
        if matches!(body, Body::Answer | Body::Loop | Body::Acknowledged) && hops != 0 {
            return field("return route length", hops);
        }
        let number = |at: usize| head[at..at + 8].iter().fold(0, |n, octet| n << 8 | u64::from(*octet));
        Ok(Message { from: number(4), number: number(12), body })
    }

    /// Octets of the message.
    pub const fn buffer_len(&self) -> usize {
        HEAD_OCTETS
            + match &self.body {
                Body::Scout { back } => back.len(),
                Body::Routes { back, entries } => back.len() + entries.0.len(),
                Body::Answer | Body::Loop | Body::Acknowledged => 0,
            }
    }

    /// Writes the message to the front of `octets`, which has room for [`Message::buffer_len`].
    pub fn emit(&self, octets: &mut [u8]) {
        let (what, back, entries): (u8, &[u8], &[u8]) = match self.body {
            Body::Scout { back } => (1, back, &[]),
            Body::Answer => (2, &[], &[]),
            Body::Loop => (3, &[], &[]),
            Body::Routes { back, entries } => (4, back, entries.0),
            Body::Acknowledged => (5, &[], &[]),
        };
        octets[..4].copy_from_slice(&[1, what, back.len() as u8, 0]);
        octets[4..12].copy_from_slice(&self.from.to_be_bytes());
        octets[12..20].copy_from_slice(&self.number.to_be_bytes());
        let (route, rest) = octets[HEAD_OCTETS..self.buffer_len()].split_at_mut(back.len());
        route.copy_from_slice(back);
        rest.copy_from_slice(entries);
    }
}
