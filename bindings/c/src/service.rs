//! The service: `cellway_request`, and the default socket.

use crate::arguments::{self, exclusive, text};
use crate::error::{OK, call};
use endpoint::Service;
use std::ffi::{CString, c_char, c_int};
use std::ptr::null_mut;

/// `cellway_request`: a request of the management protocol, JSON text, and its answer, JSON text, which the program
/// gives back by `cellway_text_free`. Blocks until the service has answered, for ten seconds at most.
///
/// # Safety
/// `socket` is null or a text, `request` a text, `answer` a place to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_request(
    socket: *const c_char,
    request: *const c_char,
    answer: *mut *mut c_char,
) -> c_int {
    call(|| {
        // SAFETY: as the caller promises.
        let (out, request) = unsafe { (exclusive(answer, "answer")?, text(request, "request")?) };
        *out = null_mut();
        // SAFETY: as the caller promises.
        let text = Service::connect(&unsafe { arguments::socket(socket) })?.request(request)?;
        *out = CString::new(text.replace('\0', " ")).unwrap_or_default().into_raw();
        Ok(OK)
    })
}

/// `cellway_default_socket`: where the service listens, a text that the program gives back by `cellway_text_free`; null
/// where there is no memory. Never blocks.
#[unsafe(no_mangle)]
pub extern "C" fn cellway_default_socket() -> *mut c_char {
    let mut path = null_mut();
    call(|| {
        use std::os::unix::ffi::OsStringExt as _;
        let text = endpoint::default_socket().into_os_string().into_vec();
        path = CString::new(text).unwrap_or_default().into_raw();
        Ok(OK)
    });
    path
}

/// `cellway_text_free`: gives a text back.
///
/// # Safety
/// `text` is null, or a text that the library gave, and that is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_text_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: made by `CString::into_raw`, and not used any more, as the caller promises.
        drop(unsafe { CString::from_raw(text) });
    }
}
