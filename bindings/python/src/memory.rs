//! Python's buffer protocol: octets that a program passes, and memory that it is given.

use crate::error::of_send;
use endpoint::SendError;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ffi::c_int;
use std::ptr::NonNull;

/// Hands the octets of an object to `f`: of `bytes` as they are, of any other by the buffer protocol.
#[inline]
pub(crate) fn with_octets<T>(data: &Bound<'_, PyAny>, f: impl FnOnce(&[u8]) -> T) -> PyResult<T> {
    if let Ok(bytes) = data.cast::<PyBytes>() {
        return Ok(f(bytes.as_bytes()));
    }
    let buffer = PyUntypedBuffer::get(data)?;
    if !buffer.is_c_contiguous() {
        return Err(PyBufferError::new_err("the octets do not lie one after another: pass a copy"));
    }
    let (at, n) = (buffer.buf_ptr().cast::<u8>(), buffer.len_bytes());
    let Some(at) = NonNull::new(at).filter(|_| n > 0) else { return Ok(f(&[])) };
    // SAFETY: the exporter keeps so many octets there until the buffer is dropped, after this. The interpreter's lock is
    // held, so no Python code writes them meanwhile.
    Ok(f(unsafe { std::slice::from_raw_parts(at.as_ptr(), n) }))
}

/// Sends one after another until there is no room; gives how many have gone. What is wrong with the first one is an error, with a
/// later one an end: those before it have gone.
pub(crate) fn send_each(
    data: &[Bound<'_, PyAny>],
    mut send: impl FnMut(&[u8]) -> Result<(), SendError>,
) -> PyResult<usize> {
    for (sent, one) in data.iter().enumerate() {
        let went = with_octets(one, &mut send).and_then(|result| match result {
            Err(SendError::Full) => Ok(false),
            result => result.map(|()| true).map_err(of_send),
        });
        match went {
            Ok(true) => {}
            Ok(false) => return Ok(sent),
            Err(e) => return if sent == 0 { Err(e) } else { Ok(sent) },
        }
    }
    Ok(data.len())
}

/// Memory that objects show, and how many views of it there are.
#[derive(Debug)]
pub(crate) struct Shown {
    at: NonNull<u8>,
    octets: usize,
    views: usize,
}

// SAFETY: an address and two numbers; whoever makes views of the memory holds its owner, and any thread may.
unsafe impl Send for Shown {}

impl Shown {
    /// Memory that its owner keeps for as long as this is shown.
    pub(crate) fn new(memory: NonNull<[u8]>) -> Self {
        Shown { at: memory.cast(), octets: memory.len(), views: 0 }
    }

    pub(crate) fn octets(&self) -> usize {
        self.octets
    }

    /// An error while there are views: they would show memory that is no longer this object's.
    pub(crate) fn check_unseen(&self) -> PyResult<()> {
        if self.views == 0 {
            return Ok(());
        }
        Err(PyBufferError::new_err(format!("{} views of the memory are there: release them first", self.views)))
    }

    /// A copy.
    pub(crate) fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        PyBytes::new_with(py, self.octets, |into| {
            // SAFETY: so many octets are there (`new`); another process may write them, which changes what is copied.
            unsafe { std::ptr::copy_nonoverlapping(self.at.as_ptr(), into.as_mut_ptr(), self.octets) };
            Ok(())
        })
    }

    /// Fills a view of the memory for the interpreter.
    ///
    /// # Safety
    /// `view` is the interpreter's, and `owner` keeps the memory for as long as there are views.
    pub(crate) unsafe fn fill(
        &mut self,
        owner: &Bound<'_, PyAny>,
        view: *mut ffi::Py_buffer,
        writable: bool,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("no view to fill"));
        }
        let (at, octets) = (self.at.as_ptr().cast(), self.octets.cast_signed());
        // SAFETY: as the caller promises; the interpreter notes `owner` in the view and counts it.
        let filled = unsafe { ffi::PyBuffer_FillInfo(view, owner.as_ptr(), at, octets, c_int::from(!writable), flags) };
        if filled < 0 {
            return Err(PyErr::fetch(owner.py()));
        }
        self.views += 1;
        Ok(())
    }

    /// A view has gone.
    pub(crate) fn handle_view_gone(&mut self) {
        self.views = self.views.saturating_sub(1);
    }
}
