//! `Loan`: memory to fill and send, with Python's buffer protocol.

use crate::error::over;
use crate::memory::Shown;
use crate::wait::{Returned, list};
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::c_int;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

/// What is on loan.
pub(crate) enum Lent {
    /// A buffer of an endpoint's.
    Endpoint(endpoint::Loan),
    /// Blocks of a sender's, by their number, and where it goes back.
    Sender(u32, Returned),
}

/// Memory to fill, by `memoryview(loan)` or `numpy.frombuffer(loan, ...)`, and to send. It goes back when it is
/// forgotten. Nothing of it blocks.
#[pyclass(frozen, module = "cellway")]
pub struct Loan {
    state: Mutex<State>,
    /// Keeps the memory mapped.
    owner: Py<PyAny>,
}

struct State {
    shown: Shown,
    lent: Option<Lent>,
}

impl Loan {
    pub(crate) fn new(memory: NonNull<[u8]>, owner: Py<PyAny>, lent: Lent) -> Self {
        Loan { state: Mutex::new(State { shown: Shown::new(memory), lent: Some(lent) }), owner }
    }

    /// Takes what is on loan, if it is `owner`'s and nothing shows it any more.
    pub(crate) fn take(&self, owner: &Bound<'_, PyAny>) -> PyResult<Lent> {
        if !self.owner.is(owner) {
            return Err(PyValueError::new_err("the loan is of another endpoint or circuit"));
        }
        let mut state = list(&self.state);
        state.shown.check_unseen()?;
        state.lent.take().ok_or_else(|| over("loan"))
    }

    /// It was not sent.
    pub(crate) fn put_back(&self, lent: Lent) {
        list(&self.state).lent = Some(lent);
    }

    /// Octets that fit.
    pub(crate) fn octets(&self) -> usize {
        list(&self.state).shown.octets()
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        // An endpoint's goes back by itself.
        if let Some(Lent::Sender(number, returned)) = state.lent.take() {
            list(&returned).push((number, 0));
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
        let mut state = list(&slf.get().state);
        if state.lent.is_none() {
            return Err(PyBufferError::new_err("the loan was sent before"));
        }
        // SAFETY: the view holds the loan, and with it the owner of the memory, which is not sent meanwhile.
        unsafe { state.shown.fill(slf.as_any(), view, true, flags) }
    }

    /// # Safety
    /// The interpreter calls it.
    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        list(&self.state).shown.handle_view_gone();
    }
}
