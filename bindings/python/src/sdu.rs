//! `Sdu`: an SDU that has arrived, where it is, with Python's buffer protocol.

use crate::error::over;
use crate::memory::Shown;
use crate::wait::{Returned, list};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ffi::c_int;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

/// Whose memory an SDU is in.
pub(crate) struct Owner {
    /// Keeps the memory mapped.
    _object: Py<PyAny>,
    returned: Returned,
}

impl Owner {
    pub(crate) fn new(object: Py<PyAny>, returned: &Returned) -> Self {
        Owner { _object: object, returned: returned.clone() }
    }
}

/// An SDU that has arrived. `bytes(sdu)` copies it; `memoryview(sdu)` and `numpy.frombuffer(sdu, ...)` show it where it
/// is. Its memory goes back when it is released, or forgotten. Nothing of it blocks.
#[pyclass(frozen, module = "cellway")]
pub struct Sdu {
    state: Mutex<State>,
    owner: Owner,
    channel: u32,
    uu: u8,
    clp: bool,
    congestion: bool,
    may_change: bool,
}

struct State {
    shown: Shown,
    /// Buffer or first block to give back; `None`: the octets are a copy.
    number: Option<u32>,
    released: bool,
    /// The copy. Boxed: it stays where it is.
    _copy: Option<Box<[u8]>>,
}

/// What stands beside an SDU's octets.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Marks {
    pub(crate) channel: u32,
    pub(crate) uu: u8,
    pub(crate) clp: bool,
    pub(crate) congestion: bool,
}

impl Sdu {
    /// One in its owner's memory.
    pub(crate) fn in_place(owner: Owner, memory: NonNull<[u8]>, number: u32, marks: Marks, may_change: bool) -> Self {
        let state = State { shown: Shown::new(memory), number: Some(number), released: false, _copy: None };
        Sdu::of(owner, state, marks, may_change)
    }

    /// One that came in no memory of its own.
    pub(crate) fn copied(owner: Owner, octets: &[u8], marks: Marks) -> Self {
        let mut copy: Box<[u8]> = octets.into();
        let shown = Shown::new(NonNull::from(&mut copy[..]));
        Sdu::of(owner, State { shown, number: None, released: false, _copy: Some(copy) }, marks, false)
    }

    fn of(owner: Owner, state: State, marks: Marks, may_change: bool) -> Self {
        let Marks { channel, uu, clp, congestion } = marks;
        Sdu { state: Mutex::new(state), owner, channel, uu, clp, congestion, may_change }
    }
}

/// Gives an SDU's memory back, once.
fn give_back(owner: &Owner, state: &mut State) {
    if !std::mem::replace(&mut state.released, true)
        && let Some(number) = state.number
    {
        list(&owner.returned).push((number, state.shown.octets()));
    }
}

impl Drop for Sdu {
    fn drop(&mut self) {
        give_back(&self.owner, self.state.get_mut().unwrap_or_else(PoisonError::into_inner));
    }
}

#[pymethods]
impl Sdu {
    /// The channel that it came on; 0 on a direct circuit.
    #[getter]
    fn channel(&self) -> u32 {
        self.channel
    }

    /// AAL5 user-to-user indication.
    #[getter]
    fn uu(&self) -> u8 {
        self.uu
    }

    /// Whether a cell of it had its loss priority set.
    #[getter]
    fn clp(&self) -> bool {
        self.clp
    }

    /// Whether its last cell had met congestion.
    #[getter]
    fn congestion(&self) -> bool {
        self.congestion
    }

    /// Whether its sender may still change it: check a copy then.
    #[getter]
    fn may_change(&self) -> bool {
        self.may_change
    }

    fn __len__(&self) -> usize {
        list(&self.state).shown.octets()
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let state = list(&self.state);
        if state.released { Err(over("SDU")) } else { state.shown.to_bytes(py) }
    }

    /// Gives its memory back. `BufferError` while a view of it is there.
    fn release(&self) -> PyResult<()> {
        let mut state = list(&self.state);
        state.shown.check_unseen()?;
        give_back(&self.owner, &mut state);
        Ok(())
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_reason))]
    fn __exit__(&self, _reason: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<()> {
        self.release()
    }

    /// # Safety
    /// The interpreter calls it.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let mut state = list(&slf.get().state);
        if state.released {
            return Err(PyBufferError::new_err("the SDU was released before"));
        }
        // SAFETY: the view holds the SDU, and with it the owner of the memory, which is not given back meanwhile.
        unsafe { state.shown.fill(slf.as_any(), view, false, flags) }
    }

    /// # Safety
    /// The interpreter calls it.
    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        list(&self.state).shown.handle_view_gone();
    }
}
