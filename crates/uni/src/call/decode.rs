//! Which elements a message has, and what becomes of those that are missing, bad or unknown (Q.2931 section 5.6.7 and
//! 5.6.8, UNI 3.1 section 5.5.6).

use super::list::ElementList;
use wire::q2931::{Action, CauseValue, Element, ElementId, Message, MessageType};

/// A message's elements as far as they were understood, and what was wrong with the others.
#[derive(Debug, Default)]
pub(super) struct Decoded {
    pub(super) elements: ElementList,
    /// Mandatory elements that are missing: cause 96.
    pub(super) missing: Vec<u8>,
    /// Mandatory elements with invalid contents: cause 100.
    pub(super) invalid: Vec<u8>,
    /// What the others ask for: the strictest of their actions.
    pub(super) verdict: Verdict,
    /// What was wrong with others, and which.
    pub(super) trouble: Option<(CauseValue, Vec<u8>)>,
    /// Whether the peer is told by STATUS.
    pub(super) report: bool,
}

/// What is to be done with a message because of elements that are not mandatory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum Verdict {
    /// Processed without them.
    #[default]
    Process,
    /// Dropped.
    Drop,
    /// Dropped, and the call is cleared.
    Clear,
}

/// Diagnostics name at most so many elements.
const MOST_NAMED: usize = 28;
/// More elements than any message needs; the rest is not looked at.
const MOST_ELEMENTS: usize = 64;

/// Mandatory elements, and all that a message may have besides.
pub(super) fn expected(kind: MessageType) -> (&'static [u8], &'static [u8]) {
    match kind {
        MessageType::SETUP => (
            &[0x59, 0x5e, 0x70, 0x5c],
            &[
                0x27, 0x42, 0x54, 0x58, 0x5a, 0x5b, 0x5d, 0x5f, 0x60, 0x61, 0x62, 0x63, 0x6c, 0x6d, 0x71, 0x78, 0x7e,
                0x7f, 0x81, 0x82, 0x84, 0x89, 0xe4, 0xe8, 0xe9, 0xea, 0xeb, 0xec, 0xf0,
            ],
        ),
        MessageType::CALL_PROCEEDING => (&[], &[0x27, 0x54, 0x5a]),
        MessageType::ALERTING => (&[], &[0x27, 0x54, 0x5a, 0x7e, 0x7f, 0x89]),
        MessageType::CONNECT => {
            (&[], &[0x27, 0x42, 0x4c, 0x4d, 0x54, 0x58, 0x59, 0x5a, 0x5f, 0x7e, 0x7f, 0x84, 0x89, 0xe4, 0xec])
        }
        MessageType::RELEASE => (&[0x08], &[0x27, 0x7e, 0x7f]),
        MessageType::RELEASE_COMPLETE => (&[], &[0x08, 0x27, 0x7e, 0x7f]),
        MessageType::RESTART | MessageType::RESTART_ACKNOWLEDGE => (&[0x79], &[0x5a]),
        MessageType::NOTIFY => (&[0x27], &[0x54]),
        MessageType::STATUS_ENQUIRY => (&[], &[0x54]),
        MessageType::STATUS => (&[0x14, 0x08], &[0x54, 0x55]),
        MessageType::ADD_PARTY => {
            (&[0x70, 0x54], &[0x27, 0x42, 0x58, 0x5d, 0x5f, 0x62, 0x63, 0x6c, 0x6d, 0x71, 0x78, 0x7e, 0x7f, 0xea])
        }
        MessageType::ADD_PARTY_ACKNOWLEDGE => (&[0x54], &[0x27, 0x42, 0x4c, 0x4d, 0x58, 0x59, 0x5f, 0x7e, 0x7f]),
        MessageType::ADD_PARTY_REJECT | MessageType::DROP_PARTY => (&[0x08, 0x54], &[0x27, 0x7e, 0x7f]),
        MessageType::DROP_PARTY_ACKNOWLEDGE => (&[0x54], &[0x08, 0x27, 0x7e, 0x7f]),
        MessageType::PARTY_ALERTING => (&[0x54], &[0x27, 0x7e, 0x7f]),
        _ => (&[], &[]),
    }
}

/// Elements of UNI 3.1: others are not sent to a neighbour of that version, which may not survive them.
pub(super) const fn is_of_uni31(id: ElementId) -> bool {
    matches!(id.0, 0x08 | 0x14 | 0x27 | 0x54 | 0x55 | 0x58..=0x5f | 0x60..=0x63 | 0x6c | 0x6d | 0x70 | 0x71 | 0x78 | 0x79)
}

pub(super) fn decode(message: &Message<'_>) -> Decoded {
    let (mandatory, optional) = expected(message.message_type());
    let mut out = Decoded::default();
    let mut seen: Vec<u8> = Vec::with_capacity(16);
    let mut trouble = Trouble::default();
    for raw in message.elements().take(MOST_ELEMENTS) {
        let raw = match raw {
            Ok(raw) => raw,
            // Cut off: an element with invalid contents.
            Err(id) => {
                if mandatory.contains(&id) && !seen.contains(&id) {
                    seen.push(id);
                    out.invalid.push(id);
                } else {
                    trouble.note(CauseValue::INVALID_CONTENTS, id, None);
                }
                break;
            }
        };
        let id = raw.id.0;
        let is_mandatory = mandatory.contains(&id);
        if !is_mandatory && !optional.contains(&id) {
            trouble.note(CauseValue::ELEMENT_UNKNOWN, id, raw.action);
            continue;
        }
        // An element that comes again counts only where the standard lets it: low layer information three times, a
        // cause twice.
        let times = seen.iter().filter(|s| **s == id).count();
        let most = match id {
            0x5f => 3,
            0x08 | 0x27 | 0x7f => 2,
            _ => 1,
        };
        seen.push(id);
        if times >= most {
            continue;
        }
        match Element::parse(&raw) {
            Ok(element) => out.elements.0.push(element),
            Err(_) if is_mandatory => out.invalid.push(id),
            Err(_) => trouble.note(CauseValue::INVALID_CONTENTS, id, raw.action),
        }
    }
    out.missing = mandatory.iter().copied().filter(|id| !seen.contains(id)).collect();
    // UNI 4.0: extended QoS parameters stand for the QoS class.
    if out.elements.has(ElementId::EXTENDED_QOS) {
        out.missing.retain(|id| *id != ElementId::QOS.0);
    }
    out.verdict = trouble.verdict;
    out.trouble = trouble.cause.map(|cause| (cause, trouble.named));
    out.report = trouble.report;
    out
}

/// What was wrong with elements that are not mandatory.
#[derive(Default)]
struct Trouble {
    verdict: Verdict,
    report: bool,
    cause: Option<CauseValue>,
    named: Vec<u8>,
}

impl Trouble {
    fn note(&mut self, cause: CauseValue, id: u8, action: Option<Action>) {
        let (verdict, report) = match action {
            None | Some(Action::DropElementAndReport) => (Verdict::Process, true),
            Some(Action::DropElement) => (Verdict::Process, false),
            Some(Action::DropMessage) => (Verdict::Drop, false),
            Some(Action::DropMessageAndReport) => (Verdict::Drop, true),
            Some(Action::Clear) => (Verdict::Clear, false),
        };
        self.verdict = self.verdict.max(verdict);
        if report || verdict == Verdict::Clear {
            self.report |= report;
            // One report names the elements of one cause: the first that was found.
            let first = *self.cause.get_or_insert(cause);
            if first == cause && self.named.len() < MOST_NAMED {
                self.named.push(id);
            }
        }
    }
}
