//! One network device over both cards (Smith 2002, section 2.2): an overlay redirects the calls of a virtual device to the
//! entry points of the drivers below, what is sent to the Segmenter's, what has come to the Reassembler's.
//!
//! In: PDUs of a network protocol, the time. Out: PDUs that have come. A PDU is one of the connectionless service, so that
//! its end and its length are known. One circuit, whose VCI has its highest
//! bit set, is both ways; each station sends under a MID of its own.

use super::device::{CallError, Switch};
use super::{Cards, Control, Written};
use bus::memory::CrossMemory;
use core::time::Duration;
use wire::Time;

/// How the virtual device is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// The circuit; its highest bit is set anyhow.
    pub vci: u16,
    /// What this station's PDUs carry as their MID: another one than all other stations'.
    pub mid: u16,
    /// Where the protocol has room for a PDU in its process's memory.
    pub address: u32,
    /// How often what has come is looked for.
    pub poll_rate: Duration,
}

/// The virtual device.
#[derive(Debug)]
pub struct Overlay {
    fd: usize,
    device: usize,
    address: u32,
}

impl Overlay {
    /// Opens the device of both cards at `path` and sets the circuit on it.
    ///
    /// # Errors
    /// No such device; no entry for the circuit.
    pub fn open<M: CrossMemory>(
        switch: &mut Switch,
        cards: &mut Cards<'_, M>,
        path: &str,
        config: Config,
        now: Time,
    ) -> Result<Self, CallError> {
        let device = switch.device(path)?;
        let fd = switch.open(path, cards, now)?;
        for control in
            [Control::Vci(config.vci | 0x8000), Control::Mid(config.mid), Control::PollRate(config.poll_rate)]
        {
            if let Err(error) = switch.ioctl(fd, control, now) {
                switch.close(fd)?;
                return Err(error);
            }
        }
        Ok(Overlay { fd, device, address: config.address })
    }

    /// Whether [`Overlay::send`] would take a PDU.
    ///
    /// # Errors
    /// The device is gone.
    pub fn has_room(&self, switch: &mut Switch) -> Result<bool, CallError> {
        Ok(!switch.would_wait(self.fd)?)
    }

    /// Sends a PDU by the Segmenter; false if that has no room at present.
    ///
    /// # Errors
    /// A length that is none, no memory at the configured address.
    pub fn send<M: CrossMemory>(
        &mut self,
        switch: &mut Switch,
        cards: &mut Cards<'_, M>,
        pdu: &[u8],
        now: Time,
    ) -> Result<bool, CallError> {
        if !self.has_room(switch)? {
            return Ok(false);
        }
        cards.memory.copy_out(self.address, pdu).map_err(super::PennError::from)?;
        Ok(switch.write(self.fd, cards, self.address, pdu.len(), now)? != Written::Wait)
    }

    /// A PDU that the Reassembler has had, at the front of `buffer`; its octets.
    ///
    /// # Errors
    /// The device is gone.
    pub fn receive(&mut self, switch: &mut Switch, buffer: &mut [u8]) -> Result<Option<usize>, CallError> {
        switch.read(self.fd, buffer)
    }

    /// When the device below is to be served.
    pub fn poll_timeout<M>(&self, switch: &Switch, cards: &Cards<'_, M>) -> Option<Time> {
        switch.poll_timeout(self.device, cards)
    }

    /// Serves it.
    pub fn handle_timeout<M: CrossMemory>(&mut self, switch: &mut Switch, cards: &mut Cards<'_, M>, now: Time) {
        switch.handle_timeout(self.device, cards, now);
    }

    /// Closes the device below.
    ///
    /// # Errors
    /// It is gone.
    pub fn close(self, switch: &mut Switch) -> Result<(), CallError> {
        switch.close(self.fd)
    }
}
