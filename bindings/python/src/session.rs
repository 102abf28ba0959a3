//! `Session`: calls of a host's applications.

use crate::error::{of_call, of_service};
use crate::wait::{lock, timeout};
use endpoint::CallError;
use endpoint::calls::{Aesa, Cause, Circuit, Sap, Traffic};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::os::fd::{AsFd as _, AsRawFd as _, RawFd};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Between two looks whether a signal has come.
const SLICE: Duration = Duration::from_millis(100);

/// A session with the service, for calls of one host.
#[pyclass(frozen, module = "cellway")]
pub struct Session(Mutex<Option<endpoint::Session>>);

/// A call with its circuit.
#[pyclass(frozen, get_all, module = "cellway")]
pub struct Call {
    /// The call.
    number: u64,
    /// The circuit at the host, for `Endpoint.open`.
    circuit: String,
}

impl From<Circuit> for Call {
    fn from(circuit: Circuit) -> Self {
        Call { number: circuit.call, circuit: circuit.circuit.to_string() }
    }
}

#[pymethods]
impl Call {
    fn __repr__(&self) -> String {
        format!("Call(number={}, circuit={:?})", self.number, self.circuit)
    }
}

fn sap_of(text: &str) -> PyResult<Sap> {
    text.parse().map_err(|e: endpoint::calls::SapError| PyValueError::new_err(e.to_string()))
}

#[pymethods]
impl Session {
    /// A session for calls of `host`. Blocks until the service has answered.
    #[new]
    #[pyo3(signature = (host, *, socket = None))]
    fn new(py: Python<'_>, host: &str, socket: Option<PathBuf>) -> PyResult<Self> {
        let socket = socket.unwrap_or_else(endpoint::default_socket);
        let session = py.detach(|| endpoint::Session::open(&socket, host)).map_err(of_service)?;
        Ok(Session(Mutex::new(Some(session))))
    }

    /// Lets calls be presented, of this selector (none: any) and service access point; gives the host's addresses.
    /// Blocks until the service has answered.
    #[pyo3(signature = (*, selector = None, sap = "any"))]
    fn listen(&self, py: Python<'_>, selector: Option<u8>, sap: &str) -> PyResult<Vec<String>> {
        let sap = sap_of(sap)?;
        let mut inner = lock(&self.0, "session")?;
        let session = inner.get()?;
        py.detach(|| session.listen(selector, sap)).map(|(_, addresses)| addresses).map_err(of_service)
    }

    /// Calls, best effort, and waits for the circuit, for `timeout` seconds at most: `Released` then, or where the call
    /// is refused. Signals are handled after it.
    #[pyo3(signature = (address, *, sap = "any", timeout = 10.0))]
    fn call(&self, py: Python<'_>, address: &str, sap: &str, timeout: f64) -> PyResult<Call> {
        let to: Aesa = address.parse().map_err(|_| PyValueError::new_err(format!("{address:?} is no ATM address")))?;
        let sap = sap_of(sap)?;
        let patience = crate::wait::timeout(Some(timeout))?.unwrap_or_default();
        let mut inner = lock(&self.0, "session")?;
        let session = inner.get()?;
        py.detach(|| session.call(to, sap, &Traffic::default(), patience)).map(Call::from).map_err(of_call)
    }

    /// Waits for a call and answers it; `None` if none comes in `timeout` seconds.
    #[pyo3(signature = (timeout = None))]
    fn accept(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Call>> {
        let timeout = self::timeout(timeout)?;
        let mut inner = lock(&self.0, "session")?;
        let session = inner.get()?;
        let begun = Instant::now();
        loop {
            let left = timeout.map(|timeout| timeout.saturating_sub(begun.elapsed()));
            let slice = left.map_or(SLICE, |left| left.min(SLICE));
            match py.detach(|| session.accept(Some(slice))) {
                Ok(Some(circuit)) => return Ok(Some(circuit.into())),
                Ok(None) => {}
                // The caller gave up meanwhile: the next one.
                Err(CallError::Released(_)) => {}
                Err(e) => return Err(of_call(e)),
            }
            py.check_signals()?;
            if left.is_some_and(|left| left <= slice) {
                return Ok(None);
            }
        }
    }

    /// Releases a call, with the cause "normal, unspecified". Blocks until the service has answered.
    fn release(&self, py: Python<'_>, call: &Call) -> PyResult<()> {
        let mut inner = lock(&self.0, "session")?;
        let session = inner.get()?;
        let number = call.number;
        py.detach(|| session.release(number, Cause::NORMAL_UNSPECIFIED)).map_err(of_service)
    }

    /// Readable when something has happened, once `accept` has found nothing.
    fn fileno(&self) -> PyResult<RawFd> {
        Ok(lock(&self.0, "session")?.get()?.as_fd().as_raw_fd())
    }

    /// Ends the session and its calls.
    fn close(&self) -> PyResult<()> {
        lock(&self.0, "session")?.take();
        Ok(())
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_reason))]
    fn __exit__(&self, _reason: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close()
    }
}
