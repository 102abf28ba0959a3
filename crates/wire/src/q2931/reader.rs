//! Octets one after another: read with bounds, written or only counted, and short strings of them.

use crate::Error;
use core::fmt;

/// At most `N` octets, by value.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Octets<const N: usize> {
    octets: [u8; N],
    length: u8,
}

impl<const N: usize> Octets<N> {
    /// `octets`, if there are at most `N`.
    pub fn new(octets: &[u8]) -> Option<Self> {
        let mut all = [0; N];
        all.get_mut(..octets.len())?.copy_from_slice(octets);
        Some(Octets { octets: all, length: octets.len() as u8 })
    }

    /// The octets.
    pub fn get(&self) -> &[u8] {
        &self.octets[..usize::from(self.length)]
    }
}

impl<const N: usize> Default for Octets<N> {
    fn default() -> Self {
        Octets { octets: [0; N], length: 0 }
    }
}

impl<const N: usize> fmt::Debug for Octets<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for octet in self.get() {
            write!(f, "{octet:02x}")?;
        }
        Ok(())
    }
}

/// Reads the contents of one element.
pub(super) struct Reader<'a> {
    what: &'static str,
    octets: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) const fn new(what: &'static str, octets: &'a [u8]) -> Self {
        Reader { what, octets, at: 0 }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.at >= self.octets.len()
    }

    pub(super) fn take(&mut self, n: usize) -> Result<&'a [u8], Error> {
        let part = self.octets.get(self.at..self.at + n).ok_or(Error::Truncated {
            what: self.what,
            need: self.at + n,
            got: self.octets.len(),
        })?;
        self.at += n;
        Ok(part)
    }

    pub(super) fn rest(&mut self) -> &'a [u8] {
        let rest = &self.octets[self.at.min(self.octets.len())..];
        self.at = self.octets.len();
        rest
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let part = self.take(N)?;
        Ok(core::array::from_fn(|i| part[i]))
    }

    pub(super) fn u8(&mut self) -> Result<u8, Error> {
        Ok(self.array::<1>()?[0])
    }

    pub(super) fn u16(&mut self) -> Result<u16, Error> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u24(&mut self) -> Result<u32, Error> {
        let [a, b, c] = self.array()?;
        Ok(u32::from_be_bytes([0, a, b, c]))
    }

    pub(super) fn u32(&mut self) -> Result<u32, Error> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn bad(&self, field: &'static str, value: impl Into<u64>) -> Error {
        Error::Field { what: self.what, field, value: value.into() }
    }

    /// An error unless all octets have been read.
    pub(super) fn end(&self) -> Result<(), Error> {
        if self.is_empty() { Ok(()) } else { Err(self.bad("length", self.octets.len() as u64)) }
    }

    /// Sets `field` once; a second value is an error.
    pub(super) fn once<T>(&self, slot: &mut Option<T>, name: &'static str, value: T) -> Result<(), Error> {
        match slot.replace(value) {
            None => Ok(()),
            Some(_) => Err(Error::Field { what: self.what, field: name, value: 0 }),
        }
    }
}

/// Writes into a buffer, or only counts.
pub(super) struct Writer<'a> {
    buffer: Option<&'a mut [u8]>,
    at: usize,
}

impl<'a> Writer<'a> {
    pub(super) const fn counting() -> Self {
        Writer { buffer: None, at: 0 }
    }

    pub(super) const fn new(buffer: &'a mut [u8]) -> Self {
        Writer { buffer: Some(buffer), at: 0 }
    }

    pub(super) const fn written(&self) -> usize {
        self.at
    }

    pub(super) fn put(&mut self, octets: &[u8]) {
        if let Some(buffer) = &mut self.buffer {
            buffer[self.at..self.at + octets.len()].copy_from_slice(octets);
        }
        self.at += octets.len();
    }

    pub(super) fn u8(&mut self, value: u8) {
        self.put(&[value]);
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.put(&value.to_be_bytes());
    }

    /// The low 24 bits.
    pub(super) fn u24(&mut self, value: u32) {
        self.put(&value.to_be_bytes()[1..]);
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.put(&value.to_be_bytes());
    }
}
