//! Codes of errors, the words for them, and the end of every panic.

use endpoint::direct::Gone;
use endpoint::{CallError, Error, Refusal, SendError};
use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Makes the codes, and their words for `cellway_strerror`.
macro_rules! codes {
    ($($name:ident = $code:literal: $words:literal,)*) => {
        $(#[doc = $words]
        pub const $name: c_int = $code;)*

        /// `cellway_strerror`: what a code means. Never null, valid for ever, and never blocks.
        #[unsafe(no_mangle)]
        pub extern "C" fn cellway_strerror(code: c_int) -> *const c_char {
            let words = match code {
                $($code => concat!($words, "\0"),)*
                _ => "an unknown code\0",
            };
            words.as_ptr().cast()
        }
    };
}

codes! {
    OK = 0: "done",
    ARGUMENT = -1: "a null pointer, a handle of another kind, or a text that is none",
    NO_SERVICE = -2: "no service listens at the socket",
    NO_ANSWER = -3: "the service does not answer",
    GONE = -4: "the service has gone",
    PEER_GONE = -5: "the other side of the circuit has gone",
    NO_PEER = -6: "nobody opened the other end of the circuit in time",
    UNTRUSTED = -7: "the service is run by a user that is not trusted",
    PROTOCOL = -8: "the service speaks another version of the protocol",
    SYSTEM = -9: "an error of the operating system",
    REFUSED = -10: "the service refused",
    NO_HOST = -11: "there is no such host",
    NO_CIRCUIT = -12: "no such circuit ends at the host",
    IN_USE = -13: "somebody else has the circuit open",
    NOT_ALLOWED = -14: "the policy does not allow it",
    LIMIT = -15: "a limit of the configuration",
    INVALID = -16: "the values contradict each other, or the object is of another sort",
    FULL = -20: "no buffer or no place in the ring is free: wait for room",
    TOO_LONG = -21: "longer than a buffer",
    EMPTY = -22: "an SDU has one octet at least",
    TOO_MANY_HELD = -23: "too many short SDUs are in the program's hands: release some",
    RELEASED = -24: "the call was released",
    CALL_NO_ANSWER = -25: "nobody answered the call in time",
    INTERNAL = -99: "a fault of the library: please report it",
}

/// Why a function does not do what it is for.
#[derive(Debug)]
pub(crate) struct Failure {
    code: c_int,
    /// Empty: the code says it all.
    words: String,
}

impl Failure {
    /// A failure whose code says it all.
    pub(crate) const fn of(code: c_int) -> Self {
        Failure { code, words: String::new() }
    }

    pub(crate) fn new(code: c_int, words: impl ToString) -> Self {
        Failure { code, words: words.to_string() }
    }
}

impl From<SendError> for Failure {
    fn from(e: SendError) -> Self {
        match e {
            // A program meets this one all the time.
            SendError::Full => Failure::of(FULL),
            SendError::TooLong { .. } => Failure::new(TOO_LONG, e),
            SendError::Empty => Failure::of(EMPTY),
            e => Failure::new(INVALID, e),
        }
    }
}

impl From<Gone> for Failure {
    fn from(e: Gone) -> Self {
        let code = match e {
            Gone::Peer => PEER_GONE,
            Gone::Service => GONE,
            _ => SYSTEM,
        };
        Failure::new(code, e)
    }
}

impl From<Error> for Failure {
    fn from(e: Error) -> Self {
        let code = match &e {
            Error::NoService { .. } | Error::PathTooLong(_) => NO_SERVICE,
            Error::NoAnswer { .. } | Error::Unknown { .. } => NO_ANSWER,
            Error::ServiceGone => GONE,
            Error::NoPeer(_) => NO_PEER,
            Error::Untrusted { .. } => UNTRUSTED,
            Error::Protocol(_) | Error::NoFeature(_) => PROTOCOL,
            Error::Refused { kind, .. } => code_of(*kind),
            _ => SYSTEM,
        };
        Failure::new(code, e)
    }
}

impl From<CallError> for Failure {
    fn from(e: CallError) -> Self {
        match e {
            CallError::Service(e) => e.into(),
            CallError::NoAnswer(_) => Failure::new(CALL_NO_ANSWER, e),
            e => Failure::new(RELEASED, e),
        }
    }
}

fn code_of(kind: Refusal) -> c_int {
    match kind {
        Refusal::NoHost => NO_HOST,
        Refusal::NoCircuit => NO_CIRCUIT,
        Refusal::InUse => IN_USE,
        Refusal::NotAllowed => NOT_ALLOWED,
        Refusal::Limit => LIMIT,
        Refusal::Invalid => INVALID,
        _ => REFUSED,
    }
}

/// The last failure of a thread.
#[derive(Debug)]
struct Last {
    code: c_int,
    words: Option<CString>,
}

thread_local! {
    static LAST: RefCell<Last> = const { RefCell::new(Last { code: OK, words: None }) };
}

/// `cellway_last_error`: the words of this thread's last failure, with the values that were wrong. Never null; valid
/// until the thread's next failure. Never blocks.
#[unsafe(no_mangle)]
pub extern "C" fn cellway_last_error() -> *const c_char {
    let words = |last: &RefCell<Last>| {
        let last = last.borrow();
        last.words.as_ref().map_or_else(|| cellway_strerror(last.code), |words| words.as_ptr())
    };
    LAST.try_with(words).unwrap_or_else(|_| cellway_strerror(INTERNAL))
}

/// Notes a failure for `cellway_last_error`; gives its code.
fn note(failure: Failure) -> c_int {
    let code = failure.code;
    let words = CString::new(failure.words.replace('\0', " ")).ok().filter(|words| !words.is_empty());
    let _ = LAST.try_with(|last| *last.borrow_mut() = Last { code, words });
    code
}

/// Does what a function of the library is for: a failure becomes its code, and so does a panic.
#[inline(always)]
pub(crate) fn call(f: impl FnOnce() -> Result<c_int, Failure>) -> c_int {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(done)) => done,
        Ok(Err(failure)) => note(failure),
        Err(panic) => {
            let words = panic.downcast_ref::<&str>().map(|words| (*words).to_owned());
            let words = words.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            note(Failure { code: INTERNAL, words })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn words(text: *const c_char) -> String {
        // SAFETY: both functions give texts with a zero octet at the end.
        unsafe { CStr::from_ptr(text) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_panic_becomes_a_code_and_its_words_are_kept() {
        assert_eq!(call(|| panic!("upside {}", "down")), INTERNAL);
        assert_eq!(words(cellway_last_error()), "upside down");
    }

    #[test]
    fn a_failure_without_words_has_those_of_its_code() {
        assert_eq!(call(|| Err(SendError::Full.into())), FULL);
        assert_eq!(words(cellway_last_error()), words(cellway_strerror(FULL)));
        assert_eq!(call(|| Ok(3)), 3);
        assert_eq!(words(cellway_strerror(12345)), "an unknown code");
    }

    #[test]
    fn a_refusal_keeps_its_kind_as_a_code_and_its_reason_as_words() {
        let error = Error::Refused { kind: Refusal::NoHost, reason: "no host `x`".into() };
        assert_eq!(call(|| Err(error.into())), NO_HOST);
        assert_eq!(words(cellway_last_error()), "no host `x`");
    }
}
