//! Service access points: what both ends of a call compare, its broadband high and low layer information.

use std::fmt;
use std::str::FromStr;
use wire::q2931::{Coding, Element, ElementId, HighLayer, Layer2, Layer3, LowLayer, Octets, RawElement};

/// A service access point. As text: `any`, or parts with commas between: the lower layer as `llc`, `l2:CODE`,
/// `l3:CODE`, `snap:OUI-PID` or `low:OCTETS` (the element's contents), the higher one as `iso:OCTETS`, `user:OCTETS`,
/// `profile:OCTETS` or `vendor:OUI-APPLICATION`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sap {
    /// What runs above the lower layers; `None`: anything.
    pub high: Option<HighLayer>,
    /// What runs on the circuit; `None`: anything.
    pub low: Option<LowLayer>,
}

/// A text that names no service access point.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no service access point: write any, llc, l2:0c, l3:0b, snap:00a03e-0001 or vendor:0060d7-01000003")]
pub struct SapError(pub String);

impl Sap {
    /// Any.
    pub const ANY: Sap = Sap { high: None, low: None };
    /// LLC (RFC 2684), as Classical IP uses it.
    pub const LLC: Sap = Sap { high: None, low: Some(LowLayer::LLC) };

    /// What stock `ttcp_atm` (atm-tools) calls and listens for.
    pub const TTCP: Sap =
        Sap { high: Some(HighLayer::Vendor { oui: [0, 0x60, 0xd7], application: [1, 0, 0, 3] }), low: None };

    /// Cellway's reliable transfer (`docs/transfer.md`): what a caller offers by this, the called side invites. A user's
    /// own broadband high layer information (UNI 3.1 section 5.4.5.8).
    pub fn reliable_transfer() -> Self {
        Sap { high: Octets::new(b"Cellway1").map(HighLayer::User), low: None }
    }

    /// A layer 2 protocol by its code.
    pub fn layer2(protocol: u8) -> Self {
        let layer2 = Some(Layer2 { protocol, mode: None, window: None, user: None });
        Sap { high: None, low: Some(LowLayer { layer2, ..LowLayer::default() }) }
    }

    /// A layer 3 protocol by its code.
    pub fn layer3(protocol: u8) -> Self {
        let layer3 = Some(Layer3::Plain(protocol));
        Sap { high: None, low: Some(LowLayer { layer3, ..LowLayer::default() }) }
    }

    /// SNAP: organisation and protocol, without a header on the circuit.
    pub fn snap(oui: [u8; 3], pid: u16) -> Self {
        Sap { high: None, low: Some(LowLayer::snap(oui, pid)) }
    }

    /// The information elements.
    pub fn elements(self) -> impl Iterator<Item = Element> {
        self.high.map(Element::HighLayer).into_iter().chain(self.low.map(Element::LowLayer))
    }

    /// That of a call with these elements.
    pub fn of(elements: &[Element]) -> Self {
        let high = elements.iter().find_map(|e| if let Element::HighLayer(high) = e { Some(*high) } else { None });
        let low = elements.iter().find_map(|e| if let Element::LowLayer(low) = e { Some(*low) } else { None });
        Sap { high, low }
    }

    /// Whether a call with this service access point is for whoever listens here.
    pub fn admits(self, called: Sap) -> bool {
        (self.high.is_none() || self.high == called.high) && (self.low.is_none() || self.low == called.low)
    }

    /// Whether a call can be for who listens here and for who listens there.
    pub fn meets(self, other: Sap) -> bool {
        (self.high.is_none() || other.high.is_none() || self.high == other.high)
            && (self.low.is_none() || other.low.is_none() || self.low == other.low)
    }

    fn put(&mut self, part: &str) -> Option<()> {
        let (name, rest) = part.split_once(':').unwrap_or((part, ""));
        let code = || u8::from_str_radix(rest, 16).ok().filter(|code| *code < 32);
        let pair = || rest.split_once('-');
        let low = match name {
            "llc" if part == "llc" => LowLayer::LLC,
            "l2" => Sap::layer2(code()?).low?,
            "l3" => Sap::layer3(code()?).low?,
            "snap" => {
                let (oui, pid) = pair()?;
                LowLayer::snap(octets(oui)?.try_into().ok()?, u16::from_be_bytes(octets(pid)?.try_into().ok()?))
            }
            "low" => match parse(ElementId::LOW_LAYER, &octets(rest)?)? {
                Element::LowLayer(low) => low,
                _ => return None,
            },
            _ => {
                let high = match name {
                    "iso" => HighLayer::Iso(Octets::new(&octets(rest)?)?),
                    "user" => HighLayer::User(Octets::new(&octets(rest)?)?),
                    "profile" => HighLayer::Profile(octets(rest)?.try_into().ok()?),
                    "vendor" => {
                        let (oui, application) = pair()?;
                        let application = octets(application)?.try_into().ok()?;
                        HighLayer::Vendor { oui: octets(oui)?.try_into().ok()?, application }
                    }
                    _ => return None,
                };
                return self.high.replace(high).is_none().then_some(());
            }
        };
        self.low.replace(low).is_none().then_some(())
    }
}

fn octets(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.as_bytes();
    if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let octet = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.chunks(2).map(octet).collect()
}

fn parse(id: ElementId, contents: &[u8]) -> Option<Element> {
    Element::parse(&RawElement { id, coding: Coding::Itu, action: None, instruction: 0x80, contents }).ok()
}

impl FromStr for Sap {
    type Err = SapError;
    fn from_str(text: &str) -> Result<Self, SapError> {
        let mut sap = Sap::ANY;
        if text == "any" {
            return Ok(sap);
        }
        let read = text.split(',').all(|part| sap.put(part).is_some());
        if read { Ok(sap) } else { Err(SapError(text.to_owned())) }
    }
}

/// Octets as hexadecimal digits.
struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

fn low_text(low: &LowLayer) -> String {
    let plain = |layer2: &Layer2| layer2.mode.is_none() && layer2.window.is_none() && layer2.user.is_none();
    match *low {
        LowLayer::LLC => "llc".to_owned(),
        LowLayer { layer1: None, layer2: Some(layer2), layer3: None } if plain(&layer2) && layer2.protocol != 0x10 => {
            format!("l2:{:02x}", layer2.protocol)
        }
        LowLayer { layer1: None, layer2: None, layer3: Some(Layer3::Plain(code)) } => format!("l3:{code:02x}"),
        LowLayer { layer1: None, layer2: None, layer3: Some(Layer3::Snap(oui, pid)) } => {
            format!("snap:{}-{}", Hex(&oui), Hex(&pid))
        }
        low => {
            let element = Element::LowLayer(low);
            let mut all = vec![0; element.buffer_len()];
            element.emit(&mut all);
            format!("low:{}", Hex(&all[4..]))
        }
    }
}

impl fmt::Display for Sap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let high = self.high.map(|high| match high {
            HighLayer::Iso(octets) => format!("iso:{}", Hex(octets.get())),
            HighLayer::User(octets) => format!("user:{}", Hex(octets.get())),
            HighLayer::Profile(octets) => format!("profile:{}", Hex(&octets)),
            HighLayer::Vendor { oui, application } => format!("vendor:{}-{}", Hex(&oui), Hex(&application)),
        });
        match (self.low.as_ref().map(low_text), high) {
            (None, None) => f.write_str("any"),
            (Some(one), None) | (None, Some(one)) => f.write_str(&one),
            (Some(low), Some(high)) => write!(f, "{low},{high}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_access_point_is_read_as_it_is_written_and_admits_itself() {
        let vendor = HighLayer::Vendor { oui: [0, 0x60, 0xd7], application: [1, 0, 0, 3] };
        let user = HighLayer::User(Octets::new(b"FORE_ATM").unwrap());
        let window = Layer2 { protocol: 6, mode: Some((1, 0)), window: Some(7), user: None };
        let all = [
            Sap::ANY,
            Sap::LLC,
            Sap::layer2(6),
            Sap::layer3(0x0b),
            Sap::snap([0, 0xa0, 0x3e], 1),
            Sap { high: Some(vendor), low: None },
            Sap { high: Some(user), low: Some(LowLayer::LLC) },
            Sap { high: None, low: Some(LowLayer { layer2: Some(window), ..LowLayer::default() }) },
        ];
        for (i, sap) in all.iter().enumerate() {
            assert_eq!(sap.to_string().parse(), Ok(*sap), "{sap}");
            let elements: Vec<Element> = sap.elements().collect();
            assert_eq!(Sap::of(&elements), *sap);
            let admitted: Vec<bool> = all.iter().map(|other| sap.admits(*other)).collect();
            assert!(admitted[i], "{sap} admits itself");
            assert_eq!(admitted.iter().all(|admits| *admits), *sap == Sap::ANY, "{sap} {admitted:?}");
        }
        assert!(Sap::LLC.admits(all[6]) && !all[6].admits(Sap::LLC), "what nobody asks for is not compared");
        for wrong in [
            "",
            "llcx",
            "llc:",
            "llc,llc",
            "l2:20",
            "l3:zz",
            "snap:00a03e",
            "snap:00a03e-1",
            "snap:é00a-0001",
            "user:f",
        ] {
            assert_eq!(wrong.parse::<Sap>(), Err(SapError(wrong.into())));
        }
    }
}
