//! Exceptions. All are of `cellway.Error`; a refusal has the service's kind in `kind`.
#![allow(missing_docs)] // Each has its words in the macro, where Python finds them.

use endpoint::direct::Gone;
use endpoint::{CallError, SendError};
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

create_exception!(cellway, Error, PyException, "What the library or the service did not do.");
create_exception!(cellway, NoService, Error, "No service listens at the socket, or it does not answer.");
create_exception!(cellway, ServiceGone, Error, "The service has gone, and with it what it had opened.");
create_exception!(cellway, PeerGone, Error, "The other side of the direct circuit has gone.");
create_exception!(cellway, NoPeer, Error, "Nobody opened the other end of the circuit directly in time.");
create_exception!(cellway, Refused, Error, "The service refused; `kind` says why, for programs.");
create_exception!(cellway, Full, Error, "No buffer or no place in the ring was free in time.");
create_exception!(cellway, Released, Error, "The call was released, or nobody answered it in time.");

/// Adds them to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("Error", py.get_type::<Error>())?;
    module.add("NoService", py.get_type::<NoService>())?;
    module.add("ServiceGone", py.get_type::<ServiceGone>())?;
    module.add("PeerGone", py.get_type::<PeerGone>())?;
    module.add("NoPeer", py.get_type::<NoPeer>())?;
    module.add("Refused", py.get_type::<Refused>())?;
    module.add("Full", py.get_type::<Full>())?;
    module.add("Released", py.get_type::<Released>())
}

/// What a request came to.
pub(crate) fn of_service(e: endpoint::Error) -> PyErr {
    let words = e.to_string();
    match e {
        endpoint::Error::Refused { kind, .. } => Python::attach(|py| {
            let refused = Refused::new_err(words);
            match refused.value(py).setattr("kind", kind.name()) {
                Ok(()) => refused,
                Err(e) => e,
            }
        }),
        endpoint::Error::ServiceGone => ServiceGone::new_err(words),
        endpoint::Error::NoPeer(_) => NoPeer::new_err(words),
        e if e.is_no_service() => NoService::new_err(words),
        _ => Error::new_err(words),
    }
}

/// Why the other side is not there.
pub(crate) fn of_gone(e: Gone) -> PyErr {
    match e {
        Gone::Peer => PeerGone::new_err(e.to_string()),
        Gone::Service => ServiceGone::new_err(e.to_string()),
        e => Error::new_err(e.to_string()),
    }
}

/// Why an SDU was not taken.
pub(crate) fn of_send(e: SendError) -> PyErr {
    match e {
        SendError::Full => Full::new_err(e.to_string()),
        e => PyValueError::new_err(e.to_string()),
    }
}

/// Why there is no circuit.
pub(crate) fn of_call(e: CallError) -> PyErr {
    match e {
        CallError::Service(e) => of_service(e),
        e => Released::new_err(e.to_string()),
    }
}

/// Another thread uses the object.
pub(crate) fn in_use() -> PyErr {
    PyRuntimeError::new_err("another thread uses this object: one at a time may")
}

/// The object was closed, sent or released.
pub(crate) fn over(what: &str) -> PyErr {
    PyValueError::new_err(format!("the {what} was closed, sent or released before"))
}
