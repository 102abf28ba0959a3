//! Information elements (Q.2931 section 4.5): the head that all have, and what each means.

use super::aal::AalParameters;
use super::cause::Cause;
use super::layers::{HighLayer, LowLayer};
use super::number::{Number, Party, Subaddress};
use super::reader::{Octets, Writer};
use super::small::{Bearer, ConnectionId, EndpointReference, ExtendedQos, PartyState, Qos, RestartClass, TransitDelay};
use super::traffic::{AbrAdditional, AbrSetup, Traffic};
use crate::Error;
use core::fmt;

/// Who specified an element's coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Coding {
    /// ITU-T.
    #[default]
    Itu,
    /// ISO and IEC.
    Iso,
    /// The nation.
    National,
    /// The network: here the ATM Forum.
    Network,
}

impl Coding {
    const fn of(octet: u8) -> Self {
        match octet >> 5 & 3 {
            0 => Coding::Itu,
            1 => Coding::Iso,
            2 => Coding::National,
            _ => Coding::Network,
        }
    }
}

/// What a receiver does with an element that it does not know or that has errors, if the element says so itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Clear the call.
    Clear,
    /// Drop the element.
    DropElement,
    /// Drop the element and send STATUS.
    DropElementAndReport,
    /// Drop the message.
    DropMessage,
    /// Drop the message and send STATUS.
    DropMessageAndReport,
}

impl Action {
    /// The action of the instruction field, if its flag is set. Undefined values count as the strictest, to clear.
    const fn of(octet: u8) -> Option<Self> {
        if octet & 0x10 == 0 {
            return None;
        }
        Some(match octet & 7 {
            1 => Action::DropElement,
            2 => Action::DropElementAndReport,
            5 => Action::DropMessage,
            6 => Action::DropMessageAndReport,
            _ => Action::Clear,
        })
    }
}

/// An element as octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawElement<'a> {
    /// Identifier.
    pub id: ElementId,
    /// Who specified its coding.
    pub coding: Coding,
    /// What to do if it is not known or bad.
    pub action: Option<Action>,
    /// The second octet as it came: coding and instruction.
    pub instruction: u8,
    /// The contents.
    pub contents: &'a [u8],
}

impl<'a> RawElement<'a> {
    pub(super) const fn new(id: u8, instruction: u8, contents: &'a [u8]) -> Self {
        let (coding, action) = (Coding::of(instruction), Action::of(instruction));
        RawElement { id: ElementId(id), coding, action, instruction, contents }
    }

    /// Octets of the element with its head.
    pub const fn len(&self) -> usize {
        4 + self.contents.len()
    }

    /// Whether it has no contents.
    pub const fn is_empty(&self) -> bool {
        self.contents.is_empty()
    }
}

/// An element's identifier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ElementId(pub u8);

impl fmt::Display for ElementId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "information element {:02x}", self.0),
        }
    }
}

impl fmt::Debug for ElementId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Declares the elements once: name, identifier, instruction octet, the most octets of contents, variant, meaning, how
/// it is read and written, and what the standard calls it.
macro_rules! elements {
    ($($constant:ident $id:literal $instruction:literal $most:literal $variant:ident($meaning:ty) $parse:path, $emit:path, $text:literal;)+) => {
        impl ElementId {
            $(#[doc = $text] pub const $constant: ElementId = ElementId($id);)+

            /// All that are known.
            pub const KNOWN: &'static [ElementId] = &[$(ElementId($id)),+];

            /// Its name, if it is known.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 { $($id => Some($text),)+ _ => None }
            }
        }

        /// What an element means.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Element { $(#[doc = $text] $variant($meaning),)+ }

        impl Element {
            /// Its identifier.
            pub const fn id(&self) -> ElementId {
                match self { $(Element::$variant(_) => ElementId::$constant,)+ }
            }

            /// Reads an element's contents. Whether the identifier is known at all says [`ElementId::name`].
            pub fn parse(raw: &RawElement<'_>) -> Result<Self, Error> {
                if matches!(raw.coding, Coding::Iso | Coding::National) {
                    return Err(bad("coding standard", raw.instruction.into()));
                }
                let most: usize = match raw.id.0 {
                    $($id => $most,)+
                    other => return Err(bad("identifier", other.into())),
                };
                if raw.contents.len() > most {
                    return Err(bad("length", raw.contents.len() as u64));
                }
                match raw.id.0 {
                    $($id => $parse(raw.contents).map(Element::$variant),)+
                    other => Err(bad("identifier", other.into())),
                }
            }

            const fn instruction(&self) -> u8 {
                match self { $(Element::$variant(_) => $instruction,)+ }
            }

            fn emit_contents(&self, w: &mut Writer<'_>) {
                match self { $(Element::$variant(value) => $emit(value, w),)+ }
            }
        }
    };
}

elements! {
    CAUSE 0x08 0x80 30 Cause(Cause) Cause::parse, Cause::emit, "cause";
    CALL_STATE 0x14 0x80 1 CallState(u8) state, emit_state, "call state";
    NOTIFICATION 0x27 0x80 64 Notification(Octets<64>) octets, emit_octets, "notification indicator";
    TRANSIT_DELAY 0x42 0x80 7 TransitDelay(TransitDelay) TransitDelay::parse, TransitDelay::emit, "end-to-end transit delay";
    CONNECTED_NUMBER 0x4c 0x80 22 Connected(Party) Party::parse, Party::emit, "connected number";
    CONNECTED_SUBADDRESS 0x4d 0x80 21 ConnectedSubaddress(Subaddress) Subaddress::parse, Subaddress::emit, "connected subaddress";
    ENDPOINT_REFERENCE 0x54 0x80 3 EndpointReference(EndpointReference) EndpointReference::parse, EndpointReference::emit,
        "endpoint reference";
    ENDPOINT_STATE 0x55 0x80 1 PartyState(PartyState) party_state, emit_party_state, "endpoint state";
    AAL_PARAMETERS 0x58 0x80 20 Aal(AalParameters) AalParameters::parse, AalParameters::emit, "AAL parameters";
    TRAFFIC 0x59 0x80 60 Traffic(Traffic) traffic, Traffic::emit, "ATM traffic descriptor";
    CONNECTION_ID 0x5a 0x80 5 Connection(ConnectionId) ConnectionId::parse, ConnectionId::emit, "connection identifier";
    OAM 0x5b 0x80 8 Oam(Octets<8>) octets, emit_octets, "OAM traffic descriptor";
    QOS 0x5c 0x80 2 Qos(Qos) Qos::parse, Qos::emit, "quality of service parameter";
    HIGH_LAYER 0x5d 0x80 9 HighLayer(HighLayer) HighLayer::parse, HighLayer::emit, "broadband high layer information";
    BEARER 0x5e 0x80 3 Bearer(Bearer) Bearer::parse, Bearer::emit, "broadband bearer capability";
    LOW_LAYER 0x5f 0x80 13 LowLayer(LowLayer) LowLayer::parse, LowLayer::emit, "broadband low layer information";
    LOCKING_SHIFT 0x60 0x80 1 LockingShift(u8) single, emit_single, "broadband locking shift";
    NON_LOCKING_SHIFT 0x61 0x80 1 NonLockingShift(u8) single, emit_single, "broadband non-locking shift";
    SENDING_COMPLETE 0x62 0x80 1 SendingComplete(u8) single, emit_single, "broadband sending complete";
    REPEAT 0x63 0x80 1 Repeat(u8) single, emit_single, "broadband repeat indicator";
    CALLING_NUMBER 0x6c 0x80 22 Calling(Party) Party::parse, Party::emit, "calling party number";
    CALLING_SUBADDRESS 0x6d 0x80 21 CallingSubaddress(Subaddress) Subaddress::parse, Subaddress::emit,
        "calling party subaddress";
    CALLED_NUMBER 0x70 0x80 21 Called(Number) Number::parse, Number::emit, "called party number";
    CALLED_SUBADDRESS 0x71 0x80 21 CalledSubaddress(Subaddress) Subaddress::parse, Subaddress::emit, "called party subaddress";
    TRANSIT_NETWORK 0x78 0x80 8 TransitNetwork(Octets<8>) octets, emit_octets, "transit network selection";
    RESTART 0x79 0x80 1 Restart(RestartClass) RestartClass::parse, emit_restart, "restart indicator";
    USER_USER 0x7e 0x80 133 UserUser(Octets<133>) octets, emit_octets, "user-user";
    GENERIC_TRANSPORT 0x7f 0xe0 133 GenericTransport(Octets<133>) octets, emit_octets, "generic identifier transport";
    MINIMUM_TRAFFIC 0x81 0x80 40 MinimumTraffic(Traffic) minimum_traffic, Traffic::emit, "minimum acceptable ATM traffic descriptor";
    ALTERNATIVE_TRAFFIC 0x82 0x80 60 AlternativeTraffic(Traffic) alternative_traffic, Traffic::emit,
        "alternative ATM traffic descriptor";
    ABR_SETUP 0x84 0xe0 36 AbrSetup(AbrSetup) AbrSetup::parse, AbrSetup::emit, "ABR setup parameters";
    REPORT_TYPE 0x89 0x80 1 ReportType(u8) single, emit_single, "broadband report type";
    ABR_ADDITIONAL 0xe4 0xe0 10 AbrAdditional(AbrAdditional) AbrAdditional::parse, AbrAdditional::emit, "ABR additional parameters";
    LEAF_CALL_ID 0xe8 0xe0 5 LeafCallId(u32) leaf_call, emit_leaf_call, "leaf initiated join call identifier";
    LEAF_PARAMETERS 0xe9 0xe0 1 LeafParameters(u8) single, emit_single, "leaf initiated join parameters";
    LEAF_SEQUENCE 0xea 0xe0 4 LeafSequence(u32) leaf_sequence, emit_leaf_sequence, "leaf sequence number";
    CONNECTION_SCOPE 0xeb 0xe0 2 ConnectionScope([u8; 2]) scope, emit_scope, "connection scope selection";
    EXTENDED_QOS 0xec 0xe0 21 ExtendedQos(ExtendedQos) ExtendedQos::parse, ExtendedQos::emit, "extended QoS parameters";
    MINIMUM_DESIRED_RATE 0xf0 0xe0 16 MinimumDesiredRate(Octets<16>) octets, emit_octets, "minimum desired cell rate";
}

impl Element {
    /// Octets of the element with its head.
    pub fn buffer_len(&self) -> usize {
        let mut w = Writer::counting();
        self.emit_contents(&mut w);
        4 + w.written()
    }

    /// Writes the element with its head at the start of `buffer`, which has at least [`Self::buffer_len`] octets; how
    /// many it wrote.
    pub fn emit(&self, buffer: &mut [u8]) -> usize {
        let (head, contents) = buffer.split_at_mut(4);
        let mut w = Writer::new(contents);
        self.emit_contents(&mut w);
        let length = w.written();
        let [high, low] = (length as u16).to_be_bytes();
        head.copy_from_slice(&[self.id().0, self.instruction(), high, low]);
        4 + length
    }
}

const fn bad(field: &'static str, value: u64) -> Error {
    Error::Field { what: "information element", field, value }
}

fn exactly<const N: usize>(octets: &[u8]) -> Result<[u8; N], Error> {
    octets.try_into().map_err(|_| bad("length", octets.len() as u64))
}

fn octets<const N: usize>(contents: &[u8]) -> Result<Octets<N>, Error> {
    Octets::new(contents).ok_or(bad("length", contents.len() as u64))
}

fn emit_octets<const N: usize>(value: &Octets<N>, w: &mut Writer<'_>) {
    w.put(value.get());
}

/// States have six bits.
fn state(contents: &[u8]) -> Result<u8, Error> {
    exactly(contents).map(|[octet]| octet & 0x3f)
}

fn emit_state(value: &u8, w: &mut Writer<'_>) {
    w.u8(value & 0x3f);
}

fn party_state(contents: &[u8]) -> Result<PartyState, Error> {
    state(contents).map(PartyState)
}

fn emit_party_state(value: &PartyState, w: &mut Writer<'_>) {
    emit_state(&value.0, w);
}

/// One octet, whose extension bit is set.
fn single(contents: &[u8]) -> Result<u8, Error> {
    match exactly(contents)? {
        [octet @ 0x80..=0xff] => Ok(octet & 0x7f),
        [octet] => Err(bad("extension bit", octet.into())),
    }
}

fn emit_single(value: &u8, w: &mut Writer<'_>) {
    w.u8(0x80 | value);
}

fn traffic(contents: &[u8]) -> Result<Traffic, Error> {
    Traffic::parse("ATM traffic descriptor", contents)
}

fn minimum_traffic(contents: &[u8]) -> Result<Traffic, Error> {
    Traffic::parse("minimum acceptable ATM traffic descriptor", contents)
}

fn alternative_traffic(contents: &[u8]) -> Result<Traffic, Error> {
    Traffic::parse("alternative ATM traffic descriptor", contents)
}

fn emit_restart(value: &RestartClass, w: &mut Writer<'_>) {
    value.emit(w);
}

/// Type of identifier 0 (the root's), and the identifier.
fn leaf_call(contents: &[u8]) -> Result<u32, Error> {
    let [kind, value @ ..] = exactly::<5>(contents)?;
    if kind == 0x80 { Ok(u32::from_be_bytes(value)) } else { Err(bad("identifier type", kind.into())) }
}

fn emit_leaf_call(value: &u32, w: &mut Writer<'_>) {
    w.u8(0x80);
    w.u32(*value);
}

fn leaf_sequence(contents: &[u8]) -> Result<u32, Error> {
    exactly(contents).map(u32::from_be_bytes)
}

fn emit_leaf_sequence(value: &u32, w: &mut Writer<'_>) {
    w.u32(*value);
}

/// Type of scope, and the scope.
fn scope(contents: &[u8]) -> Result<[u8; 2], Error> {
    match exactly(contents)? {
        [kind @ 0x80..=0xff, scope] => Ok([kind & 0x7f, scope]),
        [kind, _] => Err(bad("extension bit", kind.into())),
    }
}

fn emit_scope(value: &[u8; 2], w: &mut Writer<'_>) {
    w.put(&[0x80 | value[0], value[1]]);
}
