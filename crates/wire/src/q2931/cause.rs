//! Cause (Q.2931 section 4.5.15, Q.850): why a call is refused or cleared, and diagnostics.

use super::reader::{Octets, Reader, Writer};
use crate::Error;
use core::fmt;

/// Where the cause was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Location(pub u8);

impl Location {
    /// The user.
    pub const USER: Location = Location(0);
    /// The private network that serves the local user.
    pub const PRIVATE_LOCAL: Location = Location(1);
    /// The public network that serves the local user.
    pub const PUBLIC_LOCAL: Location = Location(2);
    /// A transit network.
    pub const TRANSIT: Location = Location(3);
    /// The public network that serves the remote user.
    pub const PUBLIC_REMOTE: Location = Location(4);
    /// The private network that serves the remote user.
    pub const PRIVATE_REMOTE: Location = Location(5);
}

/// Declares the cause values once: name, number, text.
macro_rules! causes {
    ($($name:ident $value:literal $text:literal;)+) => {
        impl CauseValue {
            $(#[doc = $text] pub const $name: CauseValue = CauseValue($value);)+

            /// What it means, if the standard says.
            pub const fn text(self) -> Option<&'static str> {
                match self.0 { $($value => Some($text),)+ _ => None }
            }
        }
    };
}

/// A cause value: 7 bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CauseValue(pub u8);

causes! {
    UNALLOCATED 1 "unallocated number";
    NO_ROUTE_TO_TRANSIT 2 "no route to the transit network";
    NO_ROUTE 3 "no route to the destination";
    VPCI_VCI_UNACCEPTABLE 10 "VPCI or VCI unacceptable (UNI 3.0)";
    NORMAL 16 "normal call clearing";
    BUSY 17 "user busy";
    NO_RESPONSE 18 "no user responding";
    NO_ANSWER 19 "no answer from the user";
    REJECTED 21 "call rejected";
    NUMBER_CHANGED 22 "number changed";
    CLIR_REJECTED 23 "user rejects calls without the calling number";
    OUT_OF_ORDER 27 "destination out of order";
    INVALID_NUMBER 28 "invalid number format";
    STATUS_ENQUIRY 30 "response to STATUS ENQUIRY";
    NORMAL_UNSPECIFIED 31 "normal, unspecified";
    VPCI_VCI_UNAVAILABLE 35 "requested VPCI or VCI not available";
    ASSIGNMENT_FAILED 36 "VPCI or VCI assignment failure";
    CELL_RATE 37 "user cell rate not available";
    NETWORK_OUT_OF_ORDER 38 "network out of order";
    TEMPORARY_FAILURE 41 "temporary failure";
    INFORMATION_DISCARDED 43 "access information discarded";
    NO_VPCI_VCI 45 "no VPCI or VCI available";
    RESOURCES 47 "resources unavailable, unspecified";
    QOS_UNAVAILABLE 49 "quality of service unavailable";
    CELL_RATE_3_0 51 "user cell rate not available (UNI 3.0)";
    BEARER_NOT_AUTHORISED 57 "bearer capability not authorised";
    BEARER_NOT_AVAILABLE 58 "bearer capability not presently available";
    OPTION_NOT_AVAILABLE 63 "service or option not available, unspecified";
    BEARER_NOT_IMPLEMENTED 65 "bearer capability not implemented";
    TRAFFIC_COMBINATION 73 "unsupported combination of traffic parameters";
    AAL_NOT_SUPPORTED 78 "AAL parameters cannot be supported";
    INVALID_CALL_REFERENCE 81 "invalid call reference value";
    NO_SUCH_CHANNEL 82 "identified channel does not exist";
    INCOMPATIBLE 88 "incompatible destination";
    INVALID_ENDPOINT_REFERENCE 89 "invalid endpoint reference value";
    INVALID_TRANSIT_NETWORK 91 "invalid transit network selection";
    TOO_MANY_PARTIES 92 "too many pending add party requests";
    AAL_NOT_SUPPORTED_3_0 93 "AAL parameters cannot be supported (UNI 3.0)";
    MANDATORY_MISSING 96 "mandatory information element is missing";
    MESSAGE_UNKNOWN 97 "message type non-existent or not implemented";
    ELEMENT_UNKNOWN 99 "information element non-existent or not implemented";
    INVALID_CONTENTS 100 "invalid information element contents";
    WRONG_STATE 101 "message not compatible with call state";
    TIMER 102 "recovery on timer expiry";
    WRONG_LENGTH 104 "incorrect message length";
    PROTOCOL_ERROR 111 "protocol error, unspecified";
}

impl fmt::Display for CauseValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text() {
            Some(text) => write!(f, "cause {} ({text})", self.0),
            None => write!(f, "cause {}", self.0),
        }
    }
}

impl fmt::Debug for CauseValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A cause with its diagnostics as octets, whose meaning depends on the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cause {
    /// Where it was found.
    pub location: Location,
    /// What it is.
    pub value: CauseValue,
    /// Element identifiers (96, 99, 100), a message type (97, 101), a timer's digits (102), and the like.
    pub diagnostic: Octets<28>,
}

impl Cause {
    /// A cause without diagnostics.
    pub fn new(location: Location, value: CauseValue) -> Self {
        Cause { location, value, diagnostic: Octets::default() }
    }

    /// A cause with diagnostics; what is beyond 28 octets is left out.
    pub fn with(location: Location, value: CauseValue, diagnostic: &[u8]) -> Self {
        let diagnostic = Octets::new(&diagnostic[..diagnostic.len().min(28)]).unwrap_or_default();
        Cause { location, value, diagnostic }
    }

    pub(super) fn parse(octets: &[u8]) -> Result<Self, Error> {
        let mut r = Reader::new("cause", octets);
        let (location, value) = (r.u8()?, r.u8()?);
        if location & 0x80 == 0 {
            return Err(r.bad("location", location));
        }
        if value & 0x80 == 0 {
            return Err(r.bad("cause value", value));
        }
        let rest = r.rest();
        let diagnostic = Octets::new(rest).ok_or_else(|| r.bad("length", octets.len() as u64))?;
        Ok(Cause { location: Location(location & 0xf), value: CauseValue(value & 0x7f), diagnostic })
    }

    pub(super) fn emit(&self, w: &mut Writer<'_>) {
        w.put(&[0x80 | self.location.0 & 0xf, 0x80 | self.value.0]);
        w.put(self.diagnostic.get());
    }
}
