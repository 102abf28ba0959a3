//! ILMI's messages (ATM Forum ILMI 4.0 section 6): SNMP version 1 (RFC 1157) directly in AAL5 on VPI 0, VCI 16.
//!
//! A strict reader and writer of the one subset of BER that SNMP 1 uses: definite lengths, integers of at most eight
//! octets, nothing nested deeper than a message is. A general ASN.1 library allocates for each variable and refuses
//! what stock `ilmid` sends: requests whose values are integers of six octets, and times that are NULL.

use crate::Error;
use crate::q2931::Octets;
use core::cmp::Ordering;
use core::fmt;

const WHAT: &str = "ILMI message";
/// The community of ILMI.
pub const COMMUNITY: &[u8] = b"ILMI";
/// The most octets of a message that every receiver takes (ILMI 4.0 section 6.2).
pub const MAX_OCTETS: usize = 484;

/// The most octets of an object identifier's contents.
const OID_OCTETS: usize = 96;
const INTEGER: u8 = 0x02;
const OCTET_STRING: u8 = 0x04;
const NULL: u8 = 0x05;
const OBJECT_ID: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const IP_ADDRESS: u8 = 0x40;
const COUNTER: u8 = 0x41;
const GAUGE: u8 = 0x42;
const TIME_TICKS: u8 = 0x43;
const TRAP: u8 = 0xa4;

/// An object identifier, ordered as SNMP orders objects: arc by arc.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Oid(Octets<OID_OCTETS>);

impl Oid {
    /// The identifier of `arcs`, whose first two are 1.3; `None` if it is too long or does not begin so.
    pub fn new(arcs: &[u32]) -> Option<Self> {
        let rest = arcs.strip_prefix(&[1, 3])?;
        let mut octets = [0; OID_OCTETS];
        octets[0] = 0x2b;
        let mut at = 1;
        for &arc in rest {
            let groups = (32 - arc.leading_zeros()).div_ceil(7).max(1);
            for i in (0..groups).rev() {
                let more = if i == 0 { 0 } else { 0x80 };
                *octets.get_mut(at)? = (arc >> (7 * i) & 0x7f) as u8 | more;
                at += 1;
            }
        }
        Octets::new(&octets[..at]).map(Oid)
    }

    /// This identifier with more arcs.
    pub fn with(&self, arcs: &[u32]) -> Option<Self> {
        let mut all = [0; OID_OCTETS];
        let mut n = 0;
        for arc in self.arcs().chain(arcs.iter().copied()) {
            *all.get_mut(n)? = arc;
            n += 1;
        }
        Oid::new(&all[..n])
    }

    fn parse(octets: &[u8]) -> Result<Self, Error> {
        let bad = || Error::Field { what: WHAT, field: "object identifier", value: octets.len() as u64 };
        // 1.3 is all that SNMP uses; an arc has at most 32 bits, so that five groups are the most, and none begins
        // with 80.
        let mut arc = 0u64;
        let mut begins = true;
        for &octet in octets.get(1..).ok_or_else(bad)? {
            if begins && octet == 0x80 {
                return Err(bad());
            }
            arc = arc << 7 | u64::from(octet & 0x7f);
            begins = octet & 0x80 == 0;
            if arc > u32::MAX.into() {
                return Err(bad());
            }
            if begins {
                arc = 0;
            }
        }
        if octets[0] != 0x2b || !begins {
            return Err(bad());
        }
        Octets::new(octets).map(Oid).ok_or_else(bad)
    }

    /// The arcs.
    pub fn arcs(&self) -> impl Iterator<Item = u32> + '_ {
        let mut rest = self.0.get().get(1..).unwrap_or(&[]);
        let first = if self.0.get().is_empty() { &[][..] } else { &[1, 3] };
        first.iter().copied().chain(core::iter::from_fn(move || {
            let end = rest.iter().position(|octet| octet & 0x80 == 0)? + 1;
            let (arc, after) = rest.split_at(end);
            rest = after;
            Some(arc.iter().fold(0, |value, octet| value << 7 | u32::from(octet & 0x7f)))
        }))
    }

    /// The arcs of this identifier behind those of `prefix`.
    pub fn strip_prefix(&self, prefix: &Oid) -> Option<impl Iterator<Item = u32> + '_> {
        let n = prefix.arcs().count();
        if self.arcs().take(n).eq(prefix.arcs()) { Some(self.arcs().skip(n)) } else { None }
    }
}

impl PartialOrd for Oid {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Oid {
    fn cmp(&self, other: &Self) -> Ordering {
        self.arcs().cmp(other.arcs())
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, arc) in self.arcs().enumerate() {
            write!(f, "{}{arc}", if i == 0 { "" } else { "." })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A variable's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// INTEGER.
    Integer(i64),
    /// OCTET STRING.
    Octets(&'a [u8]),
    /// NULL: none, as in requests.
    Null,
    /// OBJECT IDENTIFIER.
    Oid(Oid),
    /// IpAddress.
    Ip([u8; 4]),
    /// Counter.
    Counter(u32),
    /// Gauge.
    Gauge(u32),
    /// TimeTicks: hundredths of a second.
    Ticks(u32),
}

/// A variable and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Binding<'a> {
    /// The variable.
    pub name: Oid,
    /// Its value.
    pub value: Value<'a>,
}

/// What a request or response asks or says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// GetRequest.
    Get,
    /// GetNextRequest.
    GetNext,
    /// GetResponse: the answer to all three.
    Response,
    /// SetRequest.
    Set,
}

/// Why a request failed (RFC 1157 section 4.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorStatus(pub u8);

impl ErrorStatus {
    /// It did not fail.
    pub const NONE: ErrorStatus = ErrorStatus(0);
    /// The answer would be too long.
    pub const TOO_BIG: ErrorStatus = ErrorStatus(1);
    /// There is no such variable.
    pub const NO_SUCH_NAME: ErrorStatus = ErrorStatus(2);
    /// The value cannot be set.
    pub const BAD_VALUE: ErrorStatus = ErrorStatus(3);
    /// The variable cannot be set.
    pub const READ_ONLY: ErrorStatus = ErrorStatus(4);
    /// Another reason.
    pub const GENERAL: ErrorStatus = ErrorStatus(5);
}

/// What a message says, but for its variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Head {
    /// A request or response.
    Request {
        /// Which.
        kind: Kind,
        /// The number that a response repeats.
        id: i32,
        /// Why it failed.
        status: ErrorStatus,
        /// The variable at fault, counted from one.
        index: u8,
    },
    /// A trap.
    Trap {
        /// Who sends it.
        enterprise: Oid,
        /// The sender's IP address.
        agent: [u8; 4],
        /// 0 is coldStart.
        generic: u8,
        /// A number of the enterprise's.
        specific: u8,
        /// How long the sender has been up, in hundredths of a second.
        time: u32,
    },
}

/// A message: community, head, and the view of its variables.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// The community; ILMI's is [`COMMUNITY`].
    pub community: &'a [u8],
    /// What it says.
    pub head: Head,
    bindings: &'a [u8],
}

impl<'a> Message<'a> {
    /// Reads a message, all of it.
    pub fn parse(octets: &'a [u8]) -> Result<Self, Error> {
        let mut outer = Reader { octets };
        let mut r = Reader { octets: outer.expect(SEQUENCE)? };
        if r.integer()? != 0 {
            return Err(bad("version", 0));
        }
        let community = r.expect(OCTET_STRING)?;
        let (tag, contents) = r.any()?;
        r.end()?;
        let mut pdu = Reader { octets: contents };
        let kind = match tag {
            0xa0 => Some(Kind::Get),
            0xa1 => Some(Kind::GetNext),
            0xa2 => Some(Kind::Response),
            0xa3 => Some(Kind::Set),
            TRAP => None,
            other => return Err(bad("PDU type", other.into())),
        };
        let head = match kind {
            Some(kind) => {
                let id = pdu.integer()?;
                let id = i32::try_from(id).map_err(|_| bad("request identifier", id as u64))?;
                Head::Request {
                    kind,
                    id,
                    status: ErrorStatus(pdu.small("error status")?),
                    index: pdu.small("error index")?,
                }
            }
            None => {
                let enterprise = Oid::parse(pdu.expect(OBJECT_ID)?)?;
                let agent = pdu.expect(IP_ADDRESS)?;
                let agent = agent.try_into().map_err(|_| bad("agent address", agent.len() as u64))?;
                let (generic, specific) = (pdu.small("generic trap")?, pdu.small("specific trap")?);
                let time = match pdu.any()? {
                    (TIME_TICKS, contents) => unsigned(contents)?,
                    (NULL, []) => 0,
                    (other, _) => return Err(bad("time stamp", other.into())),
                };
                Head::Trap { enterprise, agent, generic, specific, time }
            }
        };
        let bindings = pdu.expect(SEQUENCE)?;
        pdu.end()?;
        let message = Message { community, head, bindings };
        // Every variable is checked here, so that the iteration later cannot fail.
        let mut r = Reader { octets: bindings };
        while !r.octets.is_empty() {
            r.binding()?;
        }
        Ok(message)
    }

    /// The variables.
    pub fn bindings(&self) -> impl Iterator<Item = Binding<'a>> + use<'a> {
        let mut r = Reader { octets: self.bindings };
        core::iter::from_fn(move || r.binding().ok())
    }
}

/// Writes a message of ILMI's community at the start of `buffer`; how many octets it has, or `None` if it does not fit.
pub fn emit(head: &Head, bindings: &[Binding<'_>], buffer: &mut [u8]) -> Option<usize> {
    // From the end, so that each length is known when it is written.
    let size = buffer.len();
    let mut w = Writer { free: &mut *buffer, written: 0 };
    for binding in bindings.iter().rev() {
        let begin = w.written;
        w.value(&binding.value)?;
        w.element(OBJECT_ID, binding.name.0.get())?;
        w.wrap(SEQUENCE, begin)?;
    }
    w.wrap(SEQUENCE, 0)?;
    let tag = match head {
        Head::Request { kind, id, status, index } => {
            w.integer(INTEGER, (*index).into())?;
            w.integer(INTEGER, status.0.into())?;
            w.integer(INTEGER, (*id).into())?;
            match kind {
                Kind::Get => 0xa0,
                Kind::GetNext => 0xa1,
                Kind::Response => 0xa2,
                Kind::Set => 0xa3,
            }
        }
        Head::Trap { enterprise, agent, generic, specific, time } => {
            w.integer(TIME_TICKS, (*time).into())?;
            w.integer(INTEGER, (*specific).into())?;
            w.integer(INTEGER, (*generic).into())?;
            w.element(IP_ADDRESS, agent)?;
            w.element(OBJECT_ID, enterprise.0.get())?;
            TRAP
        }
    };
    w.wrap(tag, 0)?;
    w.element(OCTET_STRING, COMMUNITY)?;
    w.integer(INTEGER, 0)?;
    w.wrap(SEQUENCE, 0)?;
    let written = w.written;
    buffer.copy_within(size - written.., 0);
    Some(written)
}

const fn bad(field: &'static str, value: u64) -> Error {
    Error::Field { what: WHAT, field, value }
}

fn signed(contents: &[u8]) -> Result<i64, Error> {
    let first = *contents.first().ok_or(bad("integer length", 0))?;
    if contents.len() > 8 {
        return Err(bad("integer length", contents.len() as u64));
    }
    let sign = if first & 0x80 == 0 { 0 } else { -1 };
    Ok(contents.iter().fold(sign, |value: i64, octet| value << 8 | i64::from(*octet)))
}

/// A value of 32 bits without sign; some senders set its highest bit without a zero octet before it.
fn unsigned(contents: &[u8]) -> Result<u32, Error> {
    let value = signed(contents)?;
    if contents.len() <= 4 { Ok(value as u32) } else { u32::try_from(value).map_err(|_| bad("unsigned", value as u64)) }
}

struct Reader<'a> {
    octets: &'a [u8],
}

impl<'a> Reader<'a> {
    fn any(&mut self) -> Result<(u8, &'a [u8]), Error> {
        let short = Error::Truncated { what: WHAT, need: 2, got: self.octets.len() };
        let (&[tag, length], rest) = self.octets.split_first_chunk::<2>().ok_or(short)?;
        let (length, rest) = match length {
            0..=0x7f => (usize::from(length), rest),
            0x81 => {
                let (&[a], rest) = rest.split_first_chunk::<1>().ok_or(short)?;
                (usize::from(a), rest)
            }
            0x82 => {
                let (&[a, b], rest) = rest.split_first_chunk::<2>().ok_or(short)?;
                (usize::from(u16::from_be_bytes([a, b])), rest)
            }
            other => return Err(bad("length", other.into())),
        };
        let got = rest.len();
        let (contents, rest) =
            rest.split_at_checked(length).ok_or(Error::Truncated { what: WHAT, need: length, got })?;
        self.octets = rest;
        Ok((tag, contents))
    }

    fn expect(&mut self, want: u8) -> Result<&'a [u8], Error> {
        match self.any()? {
            (tag, contents) if tag == want => Ok(contents),
            (tag, _) => Err(bad("type", tag.into())),
        }
    }

    fn integer(&mut self) -> Result<i64, Error> {
        signed(self.expect(INTEGER)?)
    }

    fn small(&mut self, field: &'static str) -> Result<u8, Error> {
        let value = self.integer()?;
        u8::try_from(value).map_err(|_| bad(field, value as u64))
    }

    fn end(&self) -> Result<(), Error> {
        if self.octets.is_empty() { Ok(()) } else { Err(bad("length", self.octets.len() as u64)) }
    }

    fn binding(&mut self) -> Result<Binding<'a>, Error> {
        let mut r = Reader { octets: self.expect(SEQUENCE)? };
        let name = Oid::parse(r.expect(OBJECT_ID)?)?;
        let value = match r.any()? {
            (INTEGER, contents) => Value::Integer(signed(contents)?),
            (OCTET_STRING, contents) => Value::Octets(contents),
            (NULL, []) => Value::Null,
            (OBJECT_ID, contents) => Value::Oid(Oid::parse(contents)?),
            (IP_ADDRESS, contents) => {
                Value::Ip(contents.try_into().map_err(|_| bad("IP address", contents.len() as u64))?)
            }
            (COUNTER, contents) => Value::Counter(unsigned(contents)?),
            (GAUGE, contents) => Value::Gauge(unsigned(contents)?),
            (TIME_TICKS, contents) => Value::Ticks(unsigned(contents)?),
            (other, _) => return Err(bad("type", other.into())),
        };
        r.end()?;
        Ok(Binding { name, value })
    }
}

/// Writes from the end of a buffer towards its start.
struct Writer<'a> {
    free: &'a mut [u8],
    written: usize,
}

impl Writer<'_> {
    fn put(&mut self, octets: &[u8]) -> Option<()> {
        let end = self.free.len().checked_sub(self.written)?;
        let begin = end.checked_sub(octets.len())?;
        self.free[begin..end].copy_from_slice(octets);
        self.written += octets.len();
        Some(())
    }

    /// Puts a type and a length before what has been written since `begin`.
    fn wrap(&mut self, tag: u8, begin: usize) -> Option<()> {
        let length = self.written - begin;
        let [high, low] = u16::try_from(length).ok()?.to_be_bytes();
        match length {
            0..0x80 => self.put(&[tag, low]),
            0x80..0x100 => self.put(&[tag, 0x81, low]),
            _ => self.put(&[tag, 0x82, high, low]),
        }
    }

    fn element(&mut self, tag: u8, contents: &[u8]) -> Option<()> {
        let begin = self.written;
        self.put(contents)?;
        self.wrap(tag, begin)
    }

    fn integer(&mut self, tag: u8, value: i64) -> Option<()> {
        let octets = value.to_be_bytes();
        // As few octets as keep the sign.
        let spare = octets
            .windows(2)
            .take_while(|pair| pair[0] == 0 && pair[1] & 0x80 == 0 || pair[0] == 0xff && pair[1] & 0x80 != 0)
            .count();
        self.element(tag, &octets[spare..])
    }

    fn value(&mut self, value: &Value<'_>) -> Option<()> {
        match value {
            Value::Integer(value) => self.integer(INTEGER, *value),
            Value::Octets(octets) => self.element(OCTET_STRING, octets),
            Value::Null => self.element(NULL, &[]),
            Value::Oid(oid) => self.element(OBJECT_ID, oid.0.get()),
            Value::Ip(octets) => self.element(IP_ADDRESS, octets),
            Value::Counter(value) => self.integer(COUNTER, (*value).into()),
            Value::Gauge(value) => self.integer(GAUGE, (*value).into()),
            Value::Ticks(value) => self.integer(TIME_TICKS, (*value).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// The ATM Forum's tree: 1.3.6.1.4.1.353.2.
    fn forum(arcs: &[u32]) -> Oid {
        Oid::new(&[1, 3, 6, 1, 4, 1, 353, 2]).unwrap().with(arcs).unwrap()
    }

    fn vector(text: &str, head: Head, bindings: &[Binding<'_>]) {
        let octets = hex::octets(text);
        let message = Message::parse(&octets).unwrap();
        assert_eq!((message.community, message.head), (COMMUNITY, head));
        assert_eq!(message.bindings().collect::<Vec<_>>(), bindings);
        let mut again = [0; MAX_OCTETS];
        let n = emit(&head, bindings, &mut again).unwrap();
        assert_eq!(again[..n], octets);
    }

    #[test]
    fn messages_of_a_stock_ilmid_are_read_and_written_octet_for_octet() {
        let request = |kind, id| Head::Request { kind, id, status: ErrorStatus::NONE, index: 0 };
        let up_time = Oid::new(&[1, 3, 6, 1, 2, 1, 1, 3, 0]).unwrap();
        vector(
            "30340201000404494c4d49a42906082b06010401030101400400000000020100020100430100300e300c06082b06010201010300 0500",
            Head::Trap {
                enterprise: Oid::new(&[1, 3, 6, 1, 4, 1, 3, 1, 1]).unwrap(),
                agent: [0; 4],
                generic: 0,
                specific: 0,
                time: 0,
            },
            &[Binding { name: up_time, value: Value::Null }],
        );
        vector(
            "30280201000404494c4d49a11d02010302010002010030123010060c2b06010401826102060101030500",
            request(Kind::GetNext, 3),
            &[Binding { name: forum(&[6, 1, 1, 3]), value: Value::Null }],
        );
        vector(
            "303c0201000404494c4d49a331020203e902010002010030253023061e2b0601040182610207010103000d4700058100817f815e00\
             000000000001020101",
            request(Kind::Set, 1001),
            &[Binding {
                name: forum(&[7, 1, 1, 3, 0, 13, 0x47, 0, 5, 0x80, 0xff, 0xde, 0, 0, 0, 0, 0, 0, 1]),
                value: Value::Integer(1),
            }],
        );
        vector(
            "30420201000404494c4d49a337020105020100020100302c302a06252b060104018261020601010300144700058100817f815e000000\
             0000000102000000000100020101",
            request(Kind::Set, 5),
            &[Binding {
                name: forum(&[
                    6, 1, 1, 3, 0, 20, 0x47, 0, 5, 0x80, 0xff, 0xde, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0,
                ]),
                value: Value::Integer(1),
            }],
        );
    }

    #[test]
    fn objects_are_ordered_by_arc_not_by_octet() {
        assert!(forum(&[1, 127]) < forum(&[1, 128]));
        assert!(forum(&[1]) < forum(&[1, 0]));
        assert!(forum(&[1, 16384]) > forum(&[1, 255, 1]));
    }

    #[test]
    fn what_is_not_this_subset_of_ber_is_refused() {
        for bad in [
            "3080",
            "300602010004004c",
            "30",
            "3005020100040449",
            "30280201010404494c4d49a11d02010302010002010030123010060c2b06010401826102060101030500", // version 2
            "30280201000404494c4d49a51d02010302010002010030123010060c2b06010401826102060101030500", // GetBulk
            "30280201000404494c4d49a11d02010302010002010030123010060c2b06010401826102060101830500", // an arc without end
        ] {
            assert!(Message::parse(&hex::octets(bad)).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_message_sent_is_the_message_received(
            id: i32, kind in 0usize..4, status in 0u8..6, index: u8, arcs in proptest::collection::vec(any::<u32>(), 0..12),
            values in proptest::collection::vec((0u8..8, any::<i64>()), 0..5)
        ) {
            let name = forum(&arcs);
            let octets = id.to_be_bytes();
            let bindings: Vec<_> = values.iter().map(|&(kind, n)| Binding { name, value: match kind {
                0 => Value::Integer(n),
                1 => Value::Octets(&octets),
                2 => Value::Null,
                3 => Value::Oid(name),
                4 => Value::Ip(octets),
                5 => Value::Counter(n as u32),
                6 => Value::Gauge(n as u32),
                _ => Value::Ticks(n as u32),
            } }).collect();
            let kind = [Kind::Get, Kind::GetNext, Kind::Response, Kind::Set][kind];
            let head = Head::Request { kind, id, status: ErrorStatus(status), index };
            let mut buffer = [0; 2000];
            let n = emit(&head, &bindings, &mut buffer).unwrap();
            let message = Message::parse(&buffer[..n]).unwrap();
            prop_assert_eq!(message.head, head);
            prop_assert_eq!(message.bindings().collect::<Vec<_>>(), bindings.clone());
            prop_assert_eq!(emit(&head, &bindings, &mut buffer[..n - 1]), None);
        }

        #[test]
        fn no_octets_panic(octets: Vec<u8>) {
            if let Ok(message) = Message::parse(&octets) {
                prop_assert!(message.bindings().count() <= octets.len());
            }
        }
    }
}
