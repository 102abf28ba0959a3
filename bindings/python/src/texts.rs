//! Words and names that a program passes.

use endpoint::CircuitId;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// One of the words of a list.
pub(crate) fn word<T: Copy>(words: &[(&str, T)], text: &str, what: &str) -> PyResult<T> {
    let names = || words.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let found = words.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    found.ok_or_else(|| PyValueError::new_err(format!("{what} {text:?}: one of {} expected", names())))
}

/// A circuit, `vpi.vci`.
pub(crate) fn circuit_of(text: &str) -> PyResult<CircuitId> {
    text.parse().map_err(|e| PyValueError::new_err(format!("circuit {text:?}: {e}")))
}
