//! Calls: `cellway_session_...`. A call's circuit is opened on an endpoint by its name, like any other.

use crate::arguments::{self, exclusive, text, timeout};
use crate::error::{ARGUMENT, Failure, INVALID, OK, call};
use endpoint::Session;
use endpoint::calls::{Cause, Circuit, Sap, Traffic};
use std::ffi::{c_char, c_int};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::ptr::null_mut;
use std::time::Duration;

/// `cellway_call`: a call with its circuit.
#[repr(C)]
#[derive(Debug)]
pub struct Call {
    /// The call's number.
    pub number: u64,
    /// The circuit at the host: `vpi.vci` and a zero octet.
    pub circuit: [c_char; 16],
}

impl Call {
    fn of(circuit: &Circuit) -> Self {
        let mut name = [0; 16];
        for (place, octet) in name.iter_mut().take(15).zip(circuit.circuit.to_string().bytes()) {
            *place = octet as c_char;
        }
        Call { number: circuit.call, circuit: name }
    }
}

/// A service access point as text; null: any.
///
/// # Safety
/// `sap` is null or a text.
unsafe fn sap_of(sap: *const c_char) -> Result<Sap, Failure> {
    if sap.is_null() {
        return Ok(Sap::ANY);
    }
    // SAFETY: as the caller promises.
    unsafe { text(sap, "sap") }?.parse().map_err(|e| Failure::new(INVALID, e))
}

/// `cellway_session_open`: a session for calls of a host. Blocks until the service has answered, for ten seconds at
/// most.
///
/// # Safety
/// `socket` is null or a text, `host` a text, `session` a place to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_session_open(
    socket: *const c_char,
    host: *const c_char,
    session: *mut *mut Session,
) -> c_int {
    call(|| {
        // SAFETY: as the caller promises.
        let (out, host) = unsafe { (exclusive(session, "session")?, text(host, "host")?) };
        *out = null_mut();
        // SAFETY: as the caller promises.
        *out = Box::into_raw(Box::new(Session::open(&unsafe { arguments::socket(socket) }, host)?));
        Ok(OK)
    })
}

/// `cellway_session_free`: ends a session and its calls.
///
/// # Safety
/// `session` is null, or a handle that is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_session_free(session: *mut Session) {
    call(|| {
        if !session.is_null() {
            // SAFETY: made by `cellway_session_open`, and not used any more, as the caller promises.
            drop(unsafe { Box::from_raw(session) });
        }
        Ok(OK)
    });
}

/// `cellway_session_listen`: lets calls be presented, of the selector (negative: any) and service access point (null:
/// any). `address` gets the host's first address, at most 63 octets and a zero octet; it may be null. Blocks until the
/// service has answered.
///
/// # Safety
/// `session` is a handle, `sap` null or a text, `address` null or a place of 64 octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_session_listen(
    session: *mut Session,
    selector: c_int,
    sap: *const c_char,
    address: *mut c_char,
) -> c_int {
    call(|| {
        // SAFETY: as the caller promises.
        let (session, sap) = unsafe { (exclusive(session, "session")?, sap_of(sap)?) };
        let selector = match selector {
            ..0 => None,
            _ => Some(u8::try_from(selector).map_err(|_| Failure::new(ARGUMENT, "a selector has one octet"))?),
        };
        let (_, addresses) = session.listen(selector, sap)?;
        if !address.is_null() {
            // SAFETY: a place of 64 octets, as the caller promises.
            let place = unsafe { arguments::all_mut(address, 64, "address") }?;
            place.fill(0);
            let text = addresses.first().map(String::as_str).unwrap_or_default();
            place[..63].iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from as c_char);
        }
        Ok(OK)
    })
}

/// `cellway_session_call`: calls, best effort, and waits for the circuit, for `timeout_ms` at most.
///
/// # Safety
/// `session` is a handle, `address` a text, `sap` null or a text, `made` a place to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_session_call(
    session: *mut Session,
    address: *const c_char,
    sap: *const c_char,
    timeout_ms: c_int,
    made: *mut Call,
) -> c_int {
    call(|| {
        // SAFETY: as the caller promises.
        let (session, made) = unsafe { (exclusive(session, "session")?, exclusive(made, "made")?) };
        // SAFETY: as the caller promises.
        let (to, sap) = unsafe { (text(address, "address")?, sap_of(sap)?) };
        let to = to.parse().map_err(|_| Failure::new(INVALID, format!("{to:?} is no ATM address")))?;
        let patience = timeout(timeout_ms).unwrap_or(Duration::from_secs(u64::from(u32::MAX)));
        *made = Call::of(&session.call(to, sap, &Traffic::default(), patience)?);
        Ok(OK)
    })
}

/// `cellway_session_accept`: waits for a call and answers it: 1, or 0 if the time passes first.
///
/// # Safety
/// `session` is a handle, `made` a place to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_session_accept(session: *mut Session, timeout_ms: c_int, made: *mut Call) -> c_int {
    call(|| {
        // SAFETY: as the caller promises.
        let (session, made) = unsafe { (exclusive(session, "session")?, exclusive(made, "made")?) };
        let Some(circuit) = session.accept(timeout(timeout_ms))? else { return Ok(0) };
        *made = Call::of(&circuit);
        Ok(1)
    })
}

/// `cellway_session_release`: releases a call, with the cause "normal, unspecified". Blocks until the service has
/// answered.
///
/// # Safety
/// `session` is a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_session_release(session: *mut Session, number: u64) -> c_int {
    call(|| {
        // SAFETY: as the caller promises.
        unsafe { exclusive(session, "session") }?.release(number, Cause::NORMAL_UNSPECIFIED)?;
        Ok(OK)
    })
}

/// `cellway_session_fd`: readable when something has happened, once `cellway_session_accept` has found nothing. Never
/// blocks.
///
/// # Safety
/// `session` is a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_session_fd(session: *mut Session) -> c_int {
    // SAFETY: as the caller promises.
    call(|| Ok(unsafe { exclusive(session, "session") }?.as_fd().as_raw_fd()))
}
