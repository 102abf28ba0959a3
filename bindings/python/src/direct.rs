//! `Sender`, and how direct circuits are opened.

use crate::error::{Full, of_gone, of_send, of_service};
use crate::loan::{Lent, Loan};
use crate::memory::{send_each, with_octets};
use crate::receiver::Receiver;
use crate::texts::circuit_of;
use crate::wait::{Locked, Returned, list, lock, timeout, wait};
use endpoint::SendError;
use endpoint::direct::memory::Ours;
use endpoint::direct::{Direct, DirectConfig, DirectGeometry};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::time::Duration;

/// The half of a direct circuit that sends. It and the other half may go to two threads.
#[pyclass(frozen, module = "cellway")]
pub struct Sender {
    inner: Mutex<Option<endpoint::direct::Sender>>,
    /// Loans that the program has forgotten.
    returned: Returned,
    /// What loans show is there after the sender has been closed, too.
    _mapped: Ours,
}

impl Sender {
    pub(crate) fn new(sender: endpoint::direct::Sender) -> Self {
        let _mapped = sender.keep_mapped();
        Sender { inner: Mutex::new(Some(sender)), returned: Returned::default(), _mapped }
    }

    fn inner(&self) -> PyResult<Locked<'_, endpoint::direct::Sender>> {
        let mut inner = lock(&self.inner, "sender")?;
        let sender = inner.get()?;
        // Dropped, a loan goes back.
        list(&self.returned).drain(..).for_each(|(number, _)| drop(sender.loan_again(number)));
        Ok(inner)
    }

    fn await_room(
        py: Python<'_>,
        sender: &mut endpoint::direct::Sender,
        octets: usize,
        seconds: Option<f64>,
    ) -> PyResult<()> {
        let timeout = timeout(seconds)?;
        let there =
            timeout != Some(Duration::ZERO) && wait(py, timeout, |slice| sender.wait_room(octets, slice), of_gone)?;
        if there { Ok(()) } else { Err(Full::new_err("no block or no place in the ring was free in time")) }
    }
}

#[pymethods]
impl Sender {
    /// Octets of the longest SDU. Never blocks.
    #[getter]
    fn max_octets(&self) -> PyResult<usize> {
        Ok(self.inner()?.get()?.max_octets())
    }

    /// Sends a copy of an object with the buffer protocol. Waits for room, for `timeout` seconds at most; then `Full`.
    #[pyo3(signature = (data, timeout = None))]
    fn send(&self, py: Python<'_>, data: &Bound<'_, PyAny>, timeout: Option<f64>) -> PyResult<()> {
        let mut inner = self.inner()?;
        let sender = inner.get()?;
        loop {
            let mut wanted = 0;
            let sent = with_octets(data, |octets| {
                wanted = octets.len();
                sender.send_copy(octets)
            })?;
            match sent {
                Err(SendError::Full) => Self::await_room(py, sender, wanted, timeout)?,
                sent => return sent.map_err(of_send),
            }
        }
    }

    /// Sends copies with one wake-up of the receiver; gives how many there was room for. Never blocks.
    fn send_batch(&self, data: Vec<Bound<'_, PyAny>>) -> PyResult<usize> {
        let mut inner = self.inner()?;
        let sender = inner.get()?;
        let sent = send_each(&data, |octets| sender.post_copy(octets));
        sender.ring_bell();
        sent
    }

    /// Memory of `octets` octets and more, to fill and send. Waits for it, for `timeout` seconds at most; then `Full`.
    #[pyo3(signature = (octets, timeout = None))]
    fn loan(slf: &Bound<'_, Self>, octets: usize, timeout: Option<f64>) -> PyResult<Loan> {
        let mut inner = slf.get().inner()?;
        let sender = inner.get()?;
        if octets > sender.max_octets() {
            return Err(PyValueError::new_err(format!("{octets} octets: {} at most", sender.max_octets())));
        }
        loop {
            if let Some(mut loan) = sender.loan(octets) {
                let memory = NonNull::from(&mut loan[..octets.max(1)]);
                let number = loan.into_number();
                return Ok(Loan::new(
                    memory,
                    slf.clone().into_any().unbind(),
                    Lent::Sender(number, slf.get().returned.clone()),
                ));
            }
            Self::await_room(slf.py(), sender, octets.max(64), timeout)?;
        }
    }

    /// Sends the first `octets` octets of a loan, by default all. Waits for room, for `timeout` seconds at most; then
    /// `Full`, and the loan stays the program's.
    #[pyo3(signature = (loan, octets = None, timeout = None))]
    fn send_loan(slf: &Bound<'_, Self>, loan: &Loan, octets: Option<usize>, timeout: Option<f64>) -> PyResult<()> {
        let mut inner = slf.get().inner()?;
        let sender = inner.get()?;
        let octets = octets.unwrap_or_else(|| loan.octets());
        loop {
            let Lent::Sender(number, returned) = loan.take(slf.as_any())? else { return Ok(()) };
            let Some(kept) = sender.loan_again(number) else { return Ok(()) };
            let Err((e, kept)) = kept.send(octets) else { return Ok(()) };
            kept.into_number();
            loan.put_back(Lent::Sender(number, returned));
            if e != SendError::Full {
                return Err(of_send(e));
            }
            // A place in the ring: its blocks it has.
            Self::await_room(slf.py(), sender, 1, timeout)?;
        }
    }

    /// Ends this half.
    fn close(&self) -> PyResult<()> {
        let inner = lock(&self.inner, "sender")?;
        inner.take();
        Ok(())
    }
}

/// Sizes of this side's memory.
fn config(ring: u32, blocks: u32, block_octets: u32, patience: Option<Duration>) -> DirectConfig {
    let returns = blocks.next_power_of_two().max(1024);
    DirectConfig { geometry: DirectGeometry { ring, returns, blocks, block_octets }, patience, ..Default::default() }
}

fn halves(direct: Direct) -> (Sender, Receiver) {
    (Sender::new(direct.sender), Receiver::new(direct.receiver))
}

/// Opens `host`'s end of a circuit directly. Blocks until the other end is opened directly too, for `timeout` seconds at
/// most: `NoPeer` then. Signals are handled after it.
#[pyfunction]
#[pyo3(signature = (host, circuit, *, socket = None, timeout = None, ring = 256, blocks = 1024, block_octets = 1088))]
#[allow(clippy::too_many_arguments)] // Python names them.
pub(crate) fn open_direct(
    py: Python<'_>,
    host: &str,
    circuit: &str,
    socket: Option<PathBuf>,
    timeout: Option<f64>,
    ring: u32,
    blocks: u32,
    block_octets: u32,
) -> PyResult<(Sender, Receiver)> {
    let circuit = circuit_of(circuit)?;
    let config = config(ring, blocks, block_octets, crate::wait::timeout(timeout)?);
    let socket = socket.unwrap_or_else(endpoint::default_socket);
    py.detach(|| Direct::open(&socket, host, circuit, &config)).map(halves).map_err(of_service)
}

/// Both sides of a circuit in one process, for two threads: two pairs of a sender and a receiver. Needs no service.
#[pyfunction]
#[pyo3(signature = (*, ring = 256, blocks = 1024, block_octets = 1088))]
pub(crate) fn direct_pair(
    ring: u32,
    blocks: u32,
    block_octets: u32,
) -> PyResult<((Sender, Receiver), (Sender, Receiver))> {
    let (here, there) = Direct::pair(&config(ring, blocks, block_octets, None)).map_err(of_service)?;
    Ok((halves(here), halves(there)))
}
