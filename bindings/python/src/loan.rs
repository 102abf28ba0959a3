//! `Loan`: memory to fill and send, with Python's buffer protocol.

use crate::direct::Sender;
use crate::endpoints::Endpoint;
use crate::error::over;
use crate::memory::Shown;
use crate::wait::list;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::c_int;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

/// What is on loan, and from whom.
pub(crate) enum Lent {
    /// A buffer of an endpoint's.
    Endpoint(Py<Endpoint>, endpoint::Loan),
    /// Blocks of a sender's, by their number.
    Sender(Py<Sender>, u32),
}

/// Memory to fill, by `memoryview(loan)` or `numpy.frombuffer(loan, ...)`, and to send. It goes back when it is
/// forgotten. Nothing of it blocks.
#[pyclass(frozen, module = "cellway")]
pub struct Loan(Mutex<State>);

struct State {
    shown: Shown,
    lent: Option<Lent>,
}

impl Loan {
    pub(crate) fn new(memory: NonNull<[u8]>, lent: Lent) -> Self {
        Loan(Mutex::new(State { shown: Shown::new(memory), lent: Some(lent) }))
    }

    /// Takes what is on loan, if nothing shows it any more and `is_mine` knows it.
    pub(crate) fn take(&self, is_mine: impl FnOnce(&Lent) -> bool) -> PyResult<Lent> {
        let mut state = list(&self.0);
        state.shown.check_unseen()?;
        let lent = state.lent.take().ok_or_else(|| over("loan"))?;
        if !is_mine(&lent) {
            state.lent = Some(lent);
            return Err(pyo3::exceptions::PyValueError::new_err("the loan is of another endpoint or circuit"));
        }
        Ok(lent)
    }

    /// It was not sent.
    pub(crate) fn put_back(&self, lent: Lent) {
        list(&self.0).lent = Some(lent);
    }

    /// Octets that fit.
    pub(crate) fn octets(&self) -> usize {
        list(&self.0).shown.octets()
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let state = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        // An endpoint's goes back by itself.
        if let Some(Lent::Sender(sender, number)) = state.lent.take() {
            list(&sender.get().returned).push(number);
        }
    }
}

#[pymethods]
impl Loan {
    fn __len__(&self) -> usize {
        self.octets()
    }

    /// # Safety
    /// The interpreter calls it.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let mut state = list(&slf.get().0);
        if state.lent.is_none() {
            return Err(PyBufferError::new_err("the loan was sent before"));
        }
        // SAFETY: the view holds the loan, and with it the owner of the memory, which is not sent meanwhile.
        unsafe { state.shown.fill(slf.as_any(), view, true, flags) }
    }

    /// # Safety
    /// The interpreter calls it.
    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        list(&self.0).shown.handle_view_gone();
    }
}
