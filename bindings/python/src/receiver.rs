//! `Receiver`: the half of a direct circuit that receives.

use crate::error::of_gone;
use crate::sdu::{Marks, Owner, Sdu};
use crate::wait::{Locked, Returned, list, lock, timeout, wait};
use endpoint::direct::Message;
use endpoint::direct::memory::Theirs;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::os::fd::{AsFd as _, AsRawFd as _, RawFd};
use std::ptr::NonNull;
use std::sync::Mutex;
use std::time::Duration;

/// The half of a direct circuit that receives. It and the other half may go to two threads.
#[pyclass(frozen, module = "cellway")]
pub struct Receiver {
    inner: Mutex<Option<endpoint::direct::Receiver>>,
    /// First blocks of SDUs that the program is done with, and how long they were.
    returned: Returned,
    /// What SDUs show is there after the receiver has been closed, too.
    _mapped: Theirs,
}

impl Receiver {
    pub(crate) fn new(receiver: endpoint::direct::Receiver) -> Self {
        let _mapped = receiver.keep_mapped();
        Receiver { inner: Mutex::new(Some(receiver)), returned: Returned::default(), _mapped }
    }

    fn inner(&self) -> PyResult<Locked<'_, endpoint::direct::Receiver>> {
        let mut inner = lock(&self.inner, "receiver")?;
        let receiver = inner.get()?;
        list(&self.returned).drain(..).for_each(|(block, octets)| receiver.release_block(block, octets));
        Ok(inner)
    }
}

/// Waits for a message; false if time is up.
#[inline]
fn await_message(py: Python<'_>, receiver: &mut endpoint::direct::Receiver, seconds: Option<f64>) -> PyResult<bool> {
    if receiver.has_message() {
        return Ok(true);
    }
    let timeout = timeout(seconds)?;
    if timeout == Some(Duration::ZERO) {
        receiver.alive().map_err(of_gone)?;
        // Taking it says whether it is there.
        return Ok(true);
    }
    wait(py, timeout, |slice| receiver.await_message(slice), of_gone)
}

/// Makes an object of a message.
fn keep(owner: &Py<Receiver>, message: Message<'_>, py: Python<'_>) -> Sdu {
    let owner = Owner::new(owner.clone_ref(py).into_any(), &owner.get().returned);
    let marks = Marks { uu: message.uu(), ..Marks::default() };
    if let Some(private) = message.private() {
        return Sdu::copied(owner, private, marks);
    }
    let octets = message.len();
    let at = message.shared().map_or(NonNull::dangling(), |shared| NonNull::from(shared).cast::<u8>());
    match message.into_block() {
        Some(block) => Sdu::in_place(owner, NonNull::slice_from_raw_parts(at, octets), block, marks, true),
        // Private ones alone are in no block.
        None => Sdu::copied(owner, &[], marks),
    }
}

/// A copy.
#[inline]
fn copy<'py>(message: &Message<'_>, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, message.len(), |into| {
        message.copy_to(into);
        Ok(())
    })
}

#[pymethods]
impl Receiver {
    /// Waits for an SDU, for `timeout` seconds at most; then `None`. 0: looks, and does not wait.
    #[pyo3(signature = (timeout = None))]
    fn receive(slf: &Bound<'_, Self>, timeout: Option<f64>) -> PyResult<Option<Sdu>> {
        let mut inner = slf.get().inner()?;
        let receiver = inner.get()?;
        if !await_message(slf.py(), receiver, timeout)? {
            return Ok(None);
        }
        Ok(receiver.try_receive().map(|message| keep(slf.as_unbound(), message, slf.py())))
    }

    /// Waits for an SDU, then takes what has come, `n` at most. Empty if the time passes first.
    #[pyo3(signature = (n, timeout = None))]
    fn receive_batch(slf: &Bound<'_, Self>, n: usize, timeout: Option<f64>) -> PyResult<Vec<Sdu>> {
        let mut inner = slf.get().inner()?;
        let receiver = inner.get()?;
        let mut all = Vec::new();
        if await_message(slf.py(), receiver, timeout)? {
            while all.len() < n
                && let Some(message) = receiver.try_receive()
            {
                all.push(keep(slf.as_unbound(), message, slf.py()));
            }
        }
        Ok(all)
    }

    /// As `receive`, a copy: faster for short SDUs.
    #[pyo3(signature = (timeout = None))]
    fn receive_bytes<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let mut inner = self.inner()?;
        let receiver = inner.get()?;
        if !await_message(py, receiver, timeout)? {
            return Ok(None);
        }
        receiver.try_receive().map(|message| copy(&message, py)).transpose()
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
        let receiver = inner.get()?;
        let mut all = Vec::new();
        if await_message(py, receiver, timeout)? {
            while all.len() < n
                && let Some(message) = receiver.try_receive()
            {
                all.push(copy(&message, py)?);
            }
        }
        Ok(all)
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
        self.inner()?.get()?.disarm().map_err(of_gone)
    }

    /// Ends this half. SDUs that are not released keep their memory until they are forgotten.
    fn close(&self) -> PyResult<()> {
        let inner = lock(&self.inner, "receiver")?;
        inner.take();
        Ok(())
    }
}
