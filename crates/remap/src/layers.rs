//! What stands before and behind an application's data, found layer by layer (Almesberger 1995, section 3.5): LLC/SNAP
//! (RFC 2684), IPv4 (RFC 791), UDP (RFC 768) or TCP (RFC 9293). Each layer says how long its header and its trailer are
//! once it has been processed; nobody has to know the sum before.

use std::ops::Range;
use wire::llc;

/// Protocol number of TCP.
pub const TCP: u8 = 6;
/// Protocol number of UDP.
pub const UDP: u8 = 17;
/// Octets of the shortest IPv4 header.
pub const IP_OCTETS: usize = 20;
/// Octets of a UDP header.
pub const UDP_OCTETS: usize = 8;
/// Octets of the shortest TCP header.
pub const TCP_OCTETS: usize = 20;

/// A layer of encapsulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// LLC/SNAP.
    Llc,
    /// IPv4.
    Ip,
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
    /// The application's own control information.
    Application,
}

/// Octets of a header and of a trailer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sizes {
    /// Before what the layer carries.
    pub header: usize,
    /// Behind it.
    pub trailer: usize,
}

impl std::ops::Add for Sizes {
    type Output = Sizes;
    fn add(self, other: Sizes) -> Sizes {
        Sizes { header: self.header + other.header, trailer: self.trailer + other.trailer }
    }
}

/// Of LLC/SNAP, IP and a transport protocol, none of which has options.
pub const fn without_options(protocol: u8) -> Sizes {
    let transport = if protocol == TCP { TCP_OCTETS } else { UDP_OCTETS };
    Sizes { header: llc::ROUTED_OCTETS + IP_OCTETS + transport, trailer: 0 }
}

/// Which application of a host a PDU is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow {
    /// Protocol number of IP.
    pub protocol: u8,
    /// Destination port.
    pub port: u16,
}

/// What a PDU is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// No IPv4 over LLC/SNAP.
    #[error("no LLC/SNAP header of IPv4")]
    Llc,
    /// No header of IP version 4, or one that is cut off.
    #[error("no IPv4 header")]
    Version,
    /// An IP header with options, where none were assumed.
    #[error("an IP header with options")]
    Options,
    /// A fragment.
    #[error("a fragment")]
    Fragment,
    /// A wrong checksum of the IP header.
    #[error("a wrong checksum of the IP header")]
    Checksum,
    /// Lengths that contradict each other.
    #[error("lengths that contradict each other")]
    Length,
    /// Another protocol or port than was assumed.
    #[error("another application than was assumed")]
    Flow,
}

/// Takes a PDU apart, a layer at each call.
#[derive(Debug, Clone)]
pub struct Layers<'a> {
    pdu: &'a [u8],
    rest: Range<usize>,
    next: Option<Layer>,
    protocol: u8,
    flow: Option<Flow>,
}

impl<'a> Layers<'a> {
    /// Of a PDU of which nothing is known; `pdu` may be its beginning only, `octets` is its length.
    pub const fn new(pdu: &'a [u8], octets: usize) -> Self {
        Layers { pdu, rest: 0..octets, next: Some(Layer::Llc), protocol: 0, flow: None }
    }

    /// What is left for the layers that have not been processed.
    pub fn rest(&self) -> Range<usize> {
        self.rest.clone()
    }

    /// The application, once its transport protocol has been processed.
    pub const fn flow(&self) -> Option<Flow> {
        self.flow
    }

    /// Processes the next layer; `None` if what is left is the application's.
    ///
    /// # Errors
    /// The layer is not what the one before has announced.
    pub fn process(&mut self) -> Result<Option<(Layer, Sizes)>, Mismatch> {
        let Some(layer) = self.next else { return Ok(None) };
        let here = self.pdu.get(self.rest.start..).unwrap_or_default();
        let left = self.rest.len();
        let (sizes, next) = match layer {
            Layer::Llc => (llc_sizes(here)?, Some(Layer::Ip)),
            Layer::Ip => {
                let (sizes, protocol) = ip_sizes(here, left)?;
                self.protocol = protocol;
                let next = match protocol {
                    UDP => Some(Layer::Udp),
                    TCP => Some(Layer::Tcp),
                    _ => None,
                };
                (sizes, next)
            }
            Layer::Udp => (udp_sizes(here, left)?, None),
            Layer::Tcp => (tcp_sizes(here, left)?, None),
            Layer::Application => (Sizes::default(), None),
        };
        if matches!(layer, Layer::Udp | Layer::Tcp) {
            self.flow = Some(Flow { protocol: self.protocol, port: u16::from_be_bytes([here[2], here[3]]) });
        }
        self.rest = self.rest.start + sizes.header..self.rest.end - sizes.trailer;
        self.next = next;
        Ok(Some((layer, sizes)))
    }

    /// Processes all layers.
    ///
    /// # Errors
    /// As [`Layers::process`].
    pub fn process_all(mut self) -> Result<Self, Mismatch> {
        while self.process()?.is_some() {}
        Ok(self)
    }
}

fn llc_sizes(here: &[u8]) -> Result<Sizes, Mismatch> {
    match llc::Protocol::parse(here) {
        Ok((llc::Protocol::Routed(llc::IPV4), _)) => Ok(Sizes { header: llc::ROUTED_OCTETS, trailer: 0 }),
        _ => Err(Mismatch::Llc),
    }
}

fn ip_sizes(here: &[u8], left: usize) -> Result<(Sizes, u8), Mismatch> {
    let header = 4 * usize::from(here.first().ok_or(Mismatch::Version)? & 0xf);
    let fields = here.get(..header).filter(|_| header >= IP_OCTETS && here[0] >> 4 == 4).ok_or(Mismatch::Version)?;
    let total = usize::from(u16::from_be_bytes([fields[2], fields[3]]));
    if total < header || total > left {
        return Err(Mismatch::Length);
    }
    if sum(fields) != 0xffff {
        return Err(Mismatch::Checksum);
    }
    // The offset, and the bit that more fragments follow.
    if u16::from_be_bytes([fields[6], fields[7]]) & 0x3fff != 0 {
        return Err(Mismatch::Fragment);
    }
    Ok((Sizes { header, trailer: left - total }, fields[9]))
}

/// The sum of RFC 1071 over whole words, not complemented.
fn sum(words: &[u8]) -> u16 {
    let sum = words.as_chunks::<2>().0.iter().fold(0u32, |sum, word| sum + u32::from(u16::from_be_bytes(*word)));
    let folded = (sum & 0xffff) + (sum >> 16);
    (folded & 0xffff) as u16 + (folded >> 16) as u16
}

fn udp_sizes(here: &[u8], left: usize) -> Result<Sizes, Mismatch> {
    let fields = here.get(..UDP_OCTETS).ok_or(Mismatch::Length)?;
    let octets = usize::from(u16::from_be_bytes([fields[4], fields[5]]));
    match octets {
        UDP_OCTETS.. if octets <= left => Ok(Sizes { header: UDP_OCTETS, trailer: left - octets }),
        _ => Err(Mismatch::Length),
    }
}

fn tcp_sizes(here: &[u8], left: usize) -> Result<Sizes, Mismatch> {
    let header = 4 * usize::from(here.get(12).ok_or(Mismatch::Length)? >> 4);
    match header {
        TCP_OCTETS.. if header <= left => Ok(Sizes { header, trailer: 0 }),
        _ => Err(Mismatch::Length),
    }
}

/// A PDU of UDP over IPv4 and LLC/SNAP for an application's port, without a UDP checksum (RFC 768). `options` are
/// octets of IP options, which say nothing: a multiple of 4, at most 40. Addresses and source port are zero. Data end
/// at 65 507 octets less the options; what is longer has a wrong length.
pub fn udp_pdu(port: u16, options: usize, data: &[u8]) -> Vec<u8> {
    /// No operation.
    const NO_OPERATION: u8 = 1;
    let ip = IP_OCTETS + options;
    let mut pdu = Vec::with_capacity(llc::ROUTED_OCTETS + ip + UDP_OCTETS + data.len());
    pdu.extend_from_slice(&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0]);
    let total = (ip + UDP_OCTETS + data.len()) as u16;
    let mut header = [0; IP_OCTETS + 40];
    header[0] = 0x40 | (ip / 4) as u8;
    header[2..4].copy_from_slice(&total.to_be_bytes());
    header[8..10].copy_from_slice(&[64, UDP]);
    header[IP_OCTETS..ip].fill(NO_OPERATION);
    let checksum = !sum(&header[..ip]);
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    pdu.extend_from_slice(&header[..ip]);
    let udp = [[0; 2], port.to_be_bytes(), ((UDP_OCTETS + data.len()) as u16).to_be_bytes(), [0; 2]];
    pdu.extend_from_slice(udp.as_flattened());
    pdu.extend_from_slice(data);
    pdu
}

/// What the layers of a kind of PDU have said so far. It is used for the next PDU before all layers have spoken.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Known {
    layers: Vec<(Layer, Sizes)>,
}

impl Known {
    /// The `depth`th layer, counted from 0, has been processed. If it is not what it was, nothing is known of those
    /// above it.
    pub fn tell(&mut self, depth: usize, layer: Layer, sizes: Sizes) {
        if self.layers.get(depth) == Some(&(layer, sizes)) {
            return;
        }
        // A trailer may be padding, which is another for each length: the layers above have not changed for that.
        let same = self.layers.get(depth).is_some_and(|(was, of)| *was == layer && of.header == sizes.header);
        if same {
            self.layers[depth].1 = sizes;
        } else if depth <= self.layers.len() {
            self.layers.truncate(depth);
            self.layers.push((layer, sizes));
        }
    }

    /// How many layers are known.
    pub fn depth(&self) -> usize {
        self.layers.len()
    }

    /// Of all layers that are known.
    pub fn sizes(&self) -> Sizes {
        self.layers.iter().fold(Sizes::default(), |sum, (_, sizes)| sum + *sizes)
    }
}
