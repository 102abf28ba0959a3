//! Messages of call control (ITU-T Q.2931 section 4, ATM Forum UNI 3.1 section 5.4 and UNI 4.0, Q.2971 for parties).
//!
//! | octets | what |
//! |---|---|
//! | 1 | protocol discriminator, 09 |
//! | 1 | length of the call reference, 3 |
//! | 3 | flag of the call reference, and its value |
//! | 1 | message type |
//! | 1 | `1 00 flag 00 action(2)`: what to do if the message is not known |
//! | 2 | length of the information elements |
//! | | information elements: identifier, `1 coding(2) flag pass action(3)`, length in two octets, contents |
//!
//! [`Message`] is the view of a message and [`RawElement`] that of an element; [`Element`] is an element's meaning.
//! [`Builder`] writes a message.

mod aal;
mod cause;
mod element;
mod layers;
mod message;
mod number;
mod reader;
mod small;
mod traffic;

pub use aal::{Aal1, Aal5, Aal34, AalParameters};
pub use cause::{Cause, CauseValue, Location};
pub use element::{Action, Coding, Element, ElementId, RawElement};
pub use layers::{HighLayer, Layer2, Layer3, LowLayer};
pub use message::{Builder, CallReference, Elements, HEADER_OCTETS, MAX_OCTETS, Message, MessageAction, MessageType};
pub use number::{Number, Party, Plan, Subaddress, TypeOfNumber};
pub use reader::Octets;
pub use small::{
    Bearer, BearerClass, ConnectionId, EndpointReference, ExtendedQos, PartyState, Qos, RestartClass, TransitDelay,
    VciChoice,
};
pub use traffic::{AbrAdditional, AbrSetup, Direction, Traffic};

#[cfg(test)]
mod tests;
