//! Messages: the head, and the elements one after another.

use super::element::{Element, RawElement};
use crate::Error;
use core::fmt;

const WHAT: &str = "Q.2931 message";
/// Protocol discriminator of Q.2931 and of the UNI.
const DISCRIMINATOR: u8 = 9;
/// Octets before the information elements.
pub const HEADER_OCTETS: usize = 9;
/// The most octets of a message: what SSCOP carries.
pub const MAX_OCTETS: usize = crate::sscop::MAX_DATA_OCTETS;

/// A call reference: 23 bits, and whether the message comes from the side that did not choose it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallReference {
    /// The value.
    pub value: u32,
    /// The flag: set in messages to the side that chose the value.
    pub to_originator: bool,
}

impl CallReference {
    /// All calls of the signalling channel.
    pub const GLOBAL: u32 = 0;
    /// The dummy reference, which the UNI does not use.
    pub const DUMMY: u32 = 0x7f_ffff;

    /// The reference of a message from the side that chose `value`.
    pub const fn from_originator(value: u32) -> Self {
        CallReference { value: value & 0x7f_ffff, to_originator: false }
    }

    /// The same reference in the other direction.
    #[must_use]
    pub const fn reversed(self) -> Self {
        CallReference { value: self.value, to_originator: !self.to_originator }
    }
}

/// Declares the message types once: name, code, the standard's name.
macro_rules! messages {
    ($($name:ident $code:literal $text:literal;)+) => {
        impl MessageType {
            $(#[doc = $text] pub const $name: MessageType = MessageType($code);)+

            /// Its name, if it is known.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 { $($code => Some($text),)+ _ => None }
            }
        }
    };
}

/// A message type.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageType(pub u8);

messages! {
    ALERTING 0x01 "ALERTING";
    CALL_PROCEEDING 0x02 "CALL PROCEEDING";
    SETUP 0x05 "SETUP";
    CONNECT 0x07 "CONNECT";
    CONNECT_ACKNOWLEDGE 0x0f "CONNECT ACKNOWLEDGE";
    RESTART 0x46 "RESTART";
    RELEASE 0x4d "RELEASE";
    RESTART_ACKNOWLEDGE 0x4e "RESTART ACKNOWLEDGE";
    RELEASE_COMPLETE 0x5a "RELEASE COMPLETE";
    NOTIFY 0x6e "NOTIFY";
    STATUS_ENQUIRY 0x75 "STATUS ENQUIRY";
    STATUS 0x7d "STATUS";
    ADD_PARTY 0x80 "ADD PARTY";
    ADD_PARTY_ACKNOWLEDGE 0x81 "ADD PARTY ACKNOWLEDGE";
    ADD_PARTY_REJECT 0x82 "ADD PARTY REJECT";
    DROP_PARTY 0x83 "DROP PARTY";
    DROP_PARTY_ACKNOWLEDGE 0x84 "DROP PARTY ACKNOWLEDGE";
    PARTY_ALERTING 0x85 "PARTY ALERTING";
    MODIFY_REQUEST 0x88 "MODIFY REQUEST";
    MODIFY_ACKNOWLEDGE 0x89 "MODIFY ACKNOWLEDGE";
    MODIFY_REJECT 0x8a "MODIFY REJECT";
    CONNECTION_AVAILABLE 0x8b "CONNECTION AVAILABLE";
    LEAF_SETUP_FAILURE 0x90 "LEAF SETUP FAILURE";
    LEAF_SETUP_REQUEST 0x91 "LEAF SETUP REQUEST";
}

impl fmt::Display for MessageType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "message {:02x}", self.0),
        }
    }
}

impl fmt::Debug for MessageType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a receiver does with a message that it does not know or does not expect, if the message says so itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MessageAction {
    /// Clear the call.
    Clear,
    /// Drop the message.
    Drop,
    /// Drop the message and send STATUS.
    DropAndReport,
}

/// The view of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    octets: &'a [u8],
}

impl<'a> Message<'a> {
    /// A view of `octets`: the discriminator and the length of the call reference are right, and the head is whole.
    pub fn new_checked(octets: &'a [u8]) -> Result<Self, Error> {
        if octets.len() < HEADER_OCTETS {
            return Err(Error::Truncated { what: WHAT, need: HEADER_OCTETS, got: octets.len() });
        }
        for (at, want, field) in [(0, DISCRIMINATOR, "protocol discriminator"), (1, 3, "call reference length")] {
            if octets[at] != want {
                return Err(Error::Field { what: WHAT, field, value: octets[at].into() });
            }
        }
        Ok(Message { octets })
    }

    /// The call that it is about.
    pub const fn reference(&self) -> CallReference {
        let [_, _, a, b, c, ..] = *self.octets else { return CallReference::from_originator(0) };
        CallReference { value: u32::from_be_bytes([0, a & 0x7f, b, c]), to_originator: a & 0x80 != 0 }
    }

    /// What it says.
    pub const fn message_type(&self) -> MessageType {
        MessageType(self.octets[5])
    }

    /// What to do with it if it is not known; `None`: as the standard says.
    pub const fn action(&self) -> Option<MessageAction> {
        match self.octets[6] & 0x13 {
            0x10 => Some(MessageAction::Clear),
            0x11 => Some(MessageAction::Drop),
            0x12 | 0x13 => Some(MessageAction::DropAndReport),
            _ => None,
        }
    }

    /// The length that it says the elements have.
    pub const fn declared_length(&self) -> usize {
        u16::from_be_bytes([self.octets[7], self.octets[8]]) as usize
    }

    /// Whether it says that it is longer than what came.
    pub const fn is_truncated(&self) -> bool {
        self.declared_length() > self.octets.len() - HEADER_OCTETS
    }

    /// The elements, of as much as came.
    pub fn elements(&self) -> Elements<'a> {
        let body = &self.octets[HEADER_OCTETS..];
        Elements::of(&body[..body.len().min(self.declared_length())])
    }
}

/// The elements of a message, in order. One whose length is beyond the message's end is an error, and the last.
#[derive(Debug, Clone)]
pub struct Elements<'a> {
    rest: &'a [u8],
}

impl<'a> Elements<'a> {
    /// The elements of `octets`, which begin with one.
    pub const fn of(octets: &'a [u8]) -> Self {
        Elements { rest: octets }
    }
}

impl<'a> Iterator for Elements<'a> {
    /// An element, or the identifier of one that is cut off.
    type Item = Result<RawElement<'a>, u8>;

    fn next(&mut self) -> Option<Self::Item> {
        let (&id, _) = self.rest.split_first()?;
        let Some((&[_, instruction, high, low], after)) = self.rest.split_first_chunk::<4>() else {
            self.rest = &[];
            return Some(Err(id));
        };
        let Some((contents, after)) = after.split_at_checked(u16::from_be_bytes([high, low]).into()) else {
            self.rest = &[];
            return Some(Err(id));
        };
        self.rest = after;
        Some(Ok(RawElement::new(id, instruction, contents)))
    }
}

/// Writes a message into a buffer.
#[derive(Debug)]
pub struct Builder<'a> {
    buffer: &'a mut [u8],
    at: usize,
}

impl<'a> Builder<'a> {
    /// Begins a message in `buffer`, which has at least [`HEADER_OCTETS`].
    pub fn new(buffer: &'a mut [u8], reference: CallReference, kind: MessageType) -> Self {
        let [_, a, b, c] = reference.value.to_be_bytes();
        let flag = u8::from(reference.to_originator) << 7;
        let head = [DISCRIMINATOR, 3, a & 0x7f | flag, b, c, kind.0, 0x80, 0, 0];
        buffer[..HEADER_OCTETS].copy_from_slice(&head);
        Builder { buffer, at: HEADER_OCTETS }
    }

    /// Appends an element; `false` if it does not fit.
    pub fn push(&mut self, element: &Element) -> bool {
        let room = &mut self.buffer[self.at..];
        let fits = element.buffer_len() <= room.len();
        if fits {
            self.at += element.emit(room);
        }
        fits
    }

    /// Appends an element as it came; `false` if it does not fit.
    pub fn push_raw(&mut self, raw: &RawElement<'_>) -> bool {
        let Some(room) = self.buffer.get_mut(self.at..self.at + raw.len()) else { return false };
        let (head, contents) = room.split_at_mut(4);
        let [high, low] = (raw.contents.len() as u16).to_be_bytes();
        head.copy_from_slice(&[raw.id.0, raw.instruction, high, low]);
        contents.copy_from_slice(raw.contents);
        self.at += raw.len();
        true
    }

    /// Ends the message; how many octets it has.
    pub fn finish(self) -> usize {
        let length = (self.at - HEADER_OCTETS) as u16;
        self.buffer[7..9].copy_from_slice(&length.to_be_bytes());
        self.at
    }
}
