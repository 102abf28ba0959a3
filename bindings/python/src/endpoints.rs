//! `Endpoint`: SDUs on a host's circuits.

use crate::error::{Full, of_send, of_service};
use crate::loan::{Lent, Loan};
use crate::memory::{send_each, with_octets};
use crate::sdu::{Marks, Owner, Sdu};
use crate::texts::{circuit_of, word};
use crate::wait::{Locked, Returned, list, lock, timeout, wait};
use endpoint::segment::Segment;
use endpoint::{Aal, ChannelId, DataPath, Direction, EndpointConfig, Geometry, OpenOptions, Received, SendError};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::os::fd::{AsFd as _, AsRawFd as _, RawFd};
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// An endpoint of a host: SDUs on its circuits.
#[pyclass(frozen, module = "cellway")]
pub struct Endpoint {
    inner: Mutex<Option<endpoint::Endpoint>>,
    /// Buffers of SDUs that the program is done with.
    returned: Returned,
    /// What SDUs and loans show is there after the endpoint has been closed, too.
    _mapped: Arc<Segment>,
}

const AALS: [(&str, Aal); 4] = [("aal5", Aal::Aal5), ("aal0", Aal::Aal0), ("aal34", Aal::Aal34), ("oam", Aal::Oam)];
const DIRECTIONS: [(&str, Direction); 3] =
    [("both", Direction::Both), ("send", Direction::Send), ("receive", Direction::Receive)];
const PATHS: [(&str, DataPath); 3] =
    [("copying", DataPath::Copying), ("shared", DataPath::Shared), ("zero-copy", DataPath::ZeroCopy)];

impl Endpoint {
    /// The endpoint, with what the program is done with given back.
    fn inner(&self) -> PyResult<Locked<'_, endpoint::Endpoint>> {
        let mut inner = lock(&self.inner, "endpoint")?;
        let endpoint = inner.get()?;
        list(&self.returned).drain(..).for_each(|(buffer, _)| endpoint.release_buffer(buffer));
        Ok(inner)
    }

    /// Waits for an SDU; false if time is up.
    fn await_sdu(py: Python<'_>, endpoint: &mut endpoint::Endpoint, seconds: Option<f64>) -> PyResult<bool> {
        // One that is there costs no look at the clock.
        if endpoint.has_sdu() {
            return Ok(true);
        }
        let timeout = timeout(seconds)?;
        if timeout == Some(Duration::ZERO) {
            // Taking it says whether it is there.
            return endpoint.check().map(|()| true).map_err(of_service);
        }
        wait(py, timeout, |slice| endpoint.await_sdu(slice), of_service)
    }

    /// Waits for room.
    fn await_room(py: Python<'_>, endpoint: &mut endpoint::Endpoint, seconds: Option<f64>) -> PyResult<()> {
        let timeout = timeout(seconds)?;
        let there =
            timeout != Some(Duration::ZERO) && wait(py, timeout, |slice| endpoint.wait_send(slice), of_service)?;
        if there { Ok(()) } else { Err(Full::new_err("no buffer or no place in the send ring was free in time")) }
    }
}

/// Makes an object of an SDU.
fn keep(owner: &Py<Endpoint>, received: Received<'_>, py: Python<'_>) -> Sdu {
    let (uu, clp, congestion) = (received.uu(), received.clp(), received.congestion());
    let marks = Marks { channel: received.channel().0, uu, clp, congestion };
    let owner = Owner::new(owner.clone_ref(py).into_any(), &owner.get().returned);
    if received.is_inline() {
        return Sdu::copied(owner, &received, marks);
    }
    let memory = NonNull::from(&received[..]);
    match received.into_buffer() {
        Some(buffer) => Sdu::in_place(owner, memory, buffer, marks, false),
        // Of no data path that this module offers.
        None => Sdu::copied(owner, &[], marks),
    }
}

#[pymethods]
impl Endpoint {
    /// An endpoint of `host`. Blocks until the service has answered. `path`: "copying", "shared" or "zero-copy";
    /// `events`: "interrupt", "polling", "hybrid", "clocked 1000 Hz", "soft 1000 Hz".
    #[new]
    #[pyo3(signature = (host, *, socket = None, path = "shared", events = "hybrid", buffers = 256,
                        buffer_octets = 65536, ring = 256, send_buffers = None))]
    #[allow(clippy::too_many_arguments)] // Python names them.
    fn new(
        py: Python<'_>,
        host: String,
        socket: Option<PathBuf>,
        path: &str,
        events: &str,
        buffers: u32,
        buffer_octets: u32,
        ring: u32,
        send_buffers: Option<u32>,
    ) -> PyResult<Self> {
        let free_ring = buffers.next_power_of_two().max(ring);
        let geometry = Geometry { send_ring: ring, receive_ring: ring, free_ring, buffers, buffer_octets };
        let events = events.parse().map_err(|e| PyValueError::new_err(format!("events {events:?}: {e}")))?;
        let config = EndpointConfig { host, geometry, send_buffers, events, path: word(&PATHS, path, "path")? };
        let socket = socket.unwrap_or_else(endpoint::default_socket);
        let made = py.detach(|| endpoint::Endpoint::create(&socket, &config)).map_err(of_service)?;
        let _mapped = made.keep_mapped();
        Ok(Endpoint { inner: Mutex::new(Some(made)), returned: Returned::default(), _mapped })
    }

    /// Opens a circuit, `vpi.vci`; gives its channel. Blocks until the service has answered. `aal`: "aal5", "aal0",
    /// "aal34" or "oam"; `direction`: "both", "send" or "receive".
    #[pyo3(signature = (circuit, *, aal = "aal5", direction = "both"))]
    fn open(&self, py: Python<'_>, circuit: &str, aal: &str, direction: &str) -> PyResult<u32> {
        let circuit = circuit_of(circuit)?;
        let (aal, direction) = (word(&AALS, aal, "aal")?, word(&DIRECTIONS, direction, "direction")?);
        let options = OpenOptions { aal, direction, ..OpenOptions::default() };
        let mut inner = self.inner()?;
        let endpoint = inner.get()?;
        py.detach(|| endpoint.open(circuit, options)).map(|channel| channel.0).map_err(of_service)
    }

    /// Closes a channel. Blocks until the service has answered.
    fn close_channel(&self, py: Python<'_>, channel: u32) -> PyResult<()> {
        let mut inner = self.inner()?;
        let endpoint = inner.get()?;
        py.detach(|| endpoint.close(ChannelId(channel))).map_err(of_service)
    }

    /// Ends the endpoint and all that it opened.
    fn close(&self) -> PyResult<()> {
        match lock(&self.inner, "endpoint") {
            Ok(inner) => drop(inner.take()),
            // Closed before is closed.
            Err(e) if Python::attach(|py| e.is_instance_of::<PyValueError>(py)) => {}
            Err(e) => return Err(e),
        }
        Ok(())
    }

    /// Octets of a buffer: the longest SDU. Never blocks.
    #[getter]
    fn buffer_octets(&self) -> PyResult<usize> {
        Ok(self.inner()?.get()?.buffer_octets())
    }

    /// Sends a copy of an object with the buffer protocol. Waits for room, for `timeout` seconds at most; then `Full`.
    #[pyo3(signature = (channel, data, timeout = None))]
    fn send(&self, py: Python<'_>, channel: u32, data: &Bound<'_, PyAny>, timeout: Option<f64>) -> PyResult<()> {
        let mut inner = self.inner()?;
        let endpoint = inner.get()?;
        loop {
            match with_octets(data, |octets| endpoint.send_copy(ChannelId(channel), octets))? {
                Err(SendError::Full) => Self::await_room(py, endpoint, timeout)?,
                sent => return sent.map_err(of_send),
            }
        }
    }

    /// Sends copies with one wake-up of the host; gives how many there was room for. Never blocks.
    fn send_batch(&self, channel: u32, data: Vec<Bound<'_, PyAny>>) -> PyResult<usize> {
        let mut inner = self.inner()?;
        let endpoint = inner.get()?;
        let sent = send_each(&data, |octets| enqueue(endpoint, channel, octets));
        endpoint.flush();
        sent
    }

    /// A buffer to fill and send. Waits for one, for `timeout` seconds at most; then `Full`.
    #[pyo3(signature = (timeout = None))]
    fn loan(slf: &Bound<'_, Self>, timeout: Option<f64>) -> PyResult<Loan> {
        let mut inner = slf.get().inner()?;
        let endpoint = inner.get()?;
        loop {
            if let Some(mut loan) = endpoint.loan() {
                let memory = NonNull::from(&mut loan[..]);
                return Ok(Loan::new(memory, slf.clone().into_any().unbind(), Lent::Endpoint(loan)));
            }
            Self::await_room(slf.py(), endpoint, timeout)?;
        }
    }

    /// Sends the first `octets` octets of a loan, by default all. Waits for room, for `timeout` seconds at most; then
    /// `Full`, and the loan stays the program's.
    #[pyo3(signature = (channel, loan, octets = None, timeout = None))]
    fn send_loan(
        slf: &Bound<'_, Self>,
        channel: u32,
        loan: &Loan,
        octets: Option<usize>,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let mut inner = slf.get().inner()?;
        let endpoint = inner.get()?;
        let octets = octets.unwrap_or_else(|| loan.octets());
        loop {
            let Lent::Endpoint(lent) = loan.take(slf.as_any())? else { return Ok(()) };
            let Err((e, lent)) = endpoint.send(ChannelId(channel), lent, octets) else { return Ok(()) };
            loan.put_back(Lent::Endpoint(lent));
            if e != SendError::Full {
                return Err(of_send(e));
            }
            Self::await_room(slf.py(), endpoint, timeout)?;
        }
    }

    /// Waits for an SDU, for `timeout` seconds at most; then `None`. 0: looks, and does not wait.
    #[pyo3(signature = (timeout = None))]
    fn receive(slf: &Bound<'_, Self>, timeout: Option<f64>) -> PyResult<Option<Sdu>> {
        let mut inner = slf.get().inner()?;
        let endpoint = inner.get()?;
        if !Self::await_sdu(slf.py(), endpoint, timeout)? {
            return Ok(None);
        }
        Ok(endpoint.try_receive().map(|received| keep(slf.as_unbound(), received, slf.py())))
    }

    /// Waits for an SDU, then takes what has come, `n` at most. Empty if the time passes first.
    #[pyo3(signature = (n, timeout = None))]
    fn receive_batch(slf: &Bound<'_, Self>, n: usize, timeout: Option<f64>) -> PyResult<Vec<Sdu>> {
        let mut inner = slf.get().inner()?;
        let endpoint = inner.get()?;
        let mut all = Vec::new();
        if Self::await_sdu(slf.py(), endpoint, timeout)? {
            while all.len() < n
                && let Some(received) = endpoint.try_receive()
            {
                all.push(keep(slf.as_unbound(), received, slf.py()));
            }
        }
        Ok(all)
    }

    /// As `receive`, a copy: faster for short SDUs.
    #[pyo3(signature = (timeout = None))]
    fn receive_bytes<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let mut inner = self.inner()?;
        let endpoint = inner.get()?;
        if !Self::await_sdu(py, endpoint, timeout)? {
            return Ok(None);
        }
        Ok(endpoint.try_receive().map(|received| PyBytes::new(py, &received)))
    }

    /// As `receive_batch`, copies: faster for short SDUs.
    #[pyo3(signature = (n, timeout = None))]
    fn receive_bytes_batch<'py>(
        &self,
        py: Python<'py>,
        n: usize,
        timeout: Option<f64>,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let mut inner = self.inner()?;
        let endpoint = inner.get()?;
        let mut all = Vec::new();
        if Self::await_sdu(py, endpoint, timeout)? {
            while all.len() < n
                && let Some(received) = endpoint.try_receive()
            {
                all.push(PyBytes::new(py, &received));
            }
        }
        Ok(all)
    }

    /// Waits until the host has taken all that was sent, for `timeout` seconds at most. Whether it has.
    #[pyo3(signature = (timeout = None))]
    fn wait_sent(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let mut inner = self.inner()?;
        let endpoint = inner.get()?;
        wait(py, crate::wait::timeout(timeout)?, |slice| endpoint.wait_sent(slice), of_service)
    }

    /// The descriptor for a loop of the program's own: readable after `arm` when something has come.
    fn fileno(&self) -> PyResult<RawFd> {
        Ok(self.inner()?.get()?.as_fd().as_raw_fd())
    }

    /// Before a sleep on `fileno`. Receive once more after it.
    fn arm(&self) -> PyResult<()> {
        self.inner()?.get()?.arm();
        Ok(())
    }

    /// After such a sleep.
    fn disarm(&self) -> PyResult<()> {
        self.inner()?.get()?.disarm().map_err(of_service)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_reason))]
    fn __exit__(&self, _reason: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close()
    }
}

/// Enqueues a copy; the host is not woken before the next flush.
fn enqueue(endpoint: &mut endpoint::Endpoint, channel: u32, octets: &[u8]) -> Result<(), SendError> {
    let mut loan = endpoint.loan().ok_or(SendError::Full)?;
    let buffer_octets = loan.len();
    let too_long = SendError::TooLong { octets: octets.len(), buffer_octets };
    loan.get_mut(..octets.len()).ok_or(too_long)?.copy_from_slice(octets);
    endpoint.enqueue(ChannelId(channel), loan, octets.len()).map_err(|(e, _)| e)
}
