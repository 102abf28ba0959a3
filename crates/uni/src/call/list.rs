//! The elements of a message, as they were understood.

use wire::q2931::{
    AalParameters, Bearer, CallReference, Cause, CauseValue, ConnectionId, Element, ElementId, EndpointReference,
    Location, MAX_OCTETS, MessageType, Number, Party, PartyState, Qos, RestartClass, Traffic,
};

/// Elements in the order in which they came or are to be sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ElementList(pub Vec<Element>);

/// Declares the accessors once: the first element of a kind.
macro_rules! accessors {
    ($($name:ident $variant:ident $meaning:ty;)+) => {
        impl ElementList {
            $(#[doc = concat!("The first `", stringify!($variant), "`.")]
            pub fn $name(&self) -> Option<$meaning> {
                self.0.iter().find_map(|e| if let Element::$variant(value) = e { Some(*value) } else { None })
            })+
        }
    };
}

accessors! {
    aal Aal AalParameters;
    bearer Bearer Bearer;
    call_state CallState u8;
    called Called Number;
    calling Calling Party;
    cause Cause Cause;
    connection Connection ConnectionId;
    endpoint_reference EndpointReference EndpointReference;
    party_state PartyState PartyState;
    qos Qos Qos;
    restart Restart RestartClass;
    traffic Traffic Traffic;
}

impl ElementList {
    /// Whether there is an element of this kind.
    pub fn has(&self, id: ElementId) -> bool {
        self.0.iter().any(|element| element.id() == id)
    }

    /// Replaces the element of the same kind, or adds it.
    pub fn set(&mut self, element: Element) {
        match self.0.iter_mut().find(|e| e.id() == element.id()) {
            Some(slot) => *slot = element,
            None => self.0.push(element),
        }
    }

    /// Takes the elements of this kind out.
    pub fn remove(&mut self, id: ElementId) {
        self.0.retain(|element| element.id() != id);
    }

    /// The cause's value, or 31 where there is none.
    pub fn cause_value(&self) -> CauseValue {
        self.cause().map_or(CauseValue::NORMAL_UNSPECIFIED, |cause| cause.value)
    }
}

impl FromIterator<Element> for ElementList {
    fn from_iter<I: IntoIterator<Item = Element>>(elements: I) -> Self {
        ElementList(elements.into_iter().collect())
    }
}

impl<const N: usize> From<[Element; N]> for ElementList {
    fn from(elements: [Element; N]) -> Self {
        ElementList(elements.to_vec())
    }
}

/// A cause element without diagnostics.
pub(super) fn cause(location: Location, value: CauseValue) -> Element {
    Element::Cause(Cause::new(location, value))
}

/// A message as octets. What does not fit is left out; nothing that is built here is so long.
pub(super) fn message(reference: CallReference, kind: MessageType, elements: &[Element]) -> Vec<u8> {
    let length: usize = elements.iter().map(Element::buffer_len).sum();
    let mut octets = vec![0; (wire::q2931::HEADER_OCTETS + length).min(MAX_OCTETS)];
    let mut builder = wire::q2931::Builder::new(&mut octets, reference, kind);
    for element in elements {
        builder.push(element);
    }
    let n = builder.finish();
    octets.truncate(n);
    octets
}
