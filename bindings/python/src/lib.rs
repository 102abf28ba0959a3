//! The Python module `cellway._cellway`, over the crate `endpoint`: what the package `cellway` shows.
//!
//! In: calls of a Python program. Out: objects with Python's buffer protocol over shared memory, and exceptions.
//!
//! Every object may be used by one thread at a time; a second one gets an exception. Whoever waits does so without the
//! interpreter's lock, and hears of signals ten times a second.

mod direct;
mod endpoints;
mod error;
mod loan;
mod memory;
mod receiver;
mod sdu;
mod session;
mod texts;
mod wait;

use pyo3::prelude::*;
use std::path::PathBuf;

/// Where the service listens unless the program knows better. Never blocks.
#[pyfunction]
fn default_socket() -> PathBuf {
    endpoint::default_socket()
}

/// A request of the management protocol, JSON text, and its answer, JSON text. Blocks until the service has answered.
#[pyfunction]
#[pyo3(signature = (request, *, socket = None))]
fn request(py: Python<'_>, request: &str, socket: Option<PathBuf>) -> PyResult<String> {
    let socket = socket.unwrap_or_else(endpoint::default_socket);
    py.detach(|| endpoint::Service::connect(&socket)?.request(request)).map_err(error::of_service)
}

/// The module.
#[pymodule]
fn _cellway(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<endpoints::Endpoint>()?;
    module.add_class::<loan::Loan>()?;
    module.add_class::<sdu::Sdu>()?;
    module.add_class::<direct::Sender>()?;
    module.add_class::<receiver::Receiver>()?;
    module.add_class::<session::Session>()?;
    module.add_class::<session::Call>()?;
    module.add_function(wrap_pyfunction!(default_socket, module)?)?;
    module.add_function(wrap_pyfunction!(request, module)?)?;
    module.add_function(wrap_pyfunction!(direct::open_direct, module)?)?;
    module.add_function(wrap_pyfunction!(direct::direct_pair, module)?)?;
    error::add(module)
}
