//! The driver as a character device of its kernel (Traw and Smith 1993, section 4.1.1): found on the bus by its identifier,
//! configured into the device switch, loaded by the first open of its special file, and called through that file.
//!
//! In: identifiers found on the Micro Channel, calls of processes with a path or a file descriptor. Out: what the driver
//! answers. A device that is configured and not open is inactive: no page is pinned, and the cards are not touched.

use super::{BUFFERS, Cards, Control, Penn, PennError, Written};
use crate::IDENTIFIER;
use crate::reassembler::register as rr;
use crate::segmenter::register as sr;
use bus::memory::CrossMemory;
use core::time::Duration;
use wire::Time;

/// The description of a device in the system's object database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Description {
    /// What the device answers when it is asked.
    pub identifier: u32,
    /// The stem of its special files below `/dev`.
    pub stem: &'static str,
}

/// The object database: devices that a driver is there for.
pub const DATABASE: &[Description] = &[Description { identifier: IDENTIFIER, stem: "host" }];

/// Why a call came to nothing, with the number that a C program would see in `errno`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// `ENOENT`.
    #[error("no such file")]
    NoFile,
    /// `ENXIO`: the file has no device that is configured.
    #[error("no such device")]
    NoDevice,
    /// `EBADF`.
    #[error("bad file descriptor")]
    Descriptor,
    /// `EBUSY`: the device is open.
    #[error("the device is in use")]
    Busy,
    /// What the driver says.
    #[error(transparent)]
    Driver(#[from] PennError),
}

/// Where the kernel puts what a driver needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Of its buffers, in the kernel's memory.
    pub buffers: u32,
    /// Lists of the Reassembler.
    pub lists: u32,
    /// The timer's period.
    pub tick: Duration,
}

/// An entry of the device switch: the driver's routines, and its state while it is loaded.
#[derive(Debug)]
struct Entry {
    place: Place,
    driver: Option<Penn>,
    open: usize,
}

/// The device switch, and the open files of all processes.
#[derive(Debug, Default)]
pub struct Switch {
    entries: Vec<Entry>,
    /// Device and the driver's file.
    files: Vec<Option<(usize, usize)>>,
}

impl Switch {
    /// Asks the cards of a slot what they are and, if a driver is there for them, configures them into the switch; gives the
    /// name of the special file.
    ///
    /// # Errors
    /// No driver for them, or the two are not one pair.
    pub fn configure<M>(&mut self, cards: &mut Cards<'_, M>, place: Place) -> Result<String, CallError> {
        let found = [cards.segmenter.read(sr::IDENTIFIER), cards.reassembler.read(rr::IDENTIFIER)];
        let known = DATABASE.iter().find(|description| found == [description.identifier; 2]);
        let description = known.ok_or(CallError::NoDevice)?;
        self.entries.push(Entry { place, driver: None, open: 0 });
        Ok(format!("/dev/{}{}", description.stem, self.entries.len() - 1))
    }

    /// Which device a special file is: its number among those configured.
    ///
    /// # Errors
    /// No such file, or none that is configured.
    pub fn device(&self, path: &str) -> Result<usize, CallError> {
        let number = DATABASE.iter().find_map(|description| path.strip_prefix("/dev/")?.strip_prefix(description.stem));
        let number: usize = number.and_then(|n| n.parse().ok()).ok_or(CallError::NoFile)?;
        if number < self.entries.len() { Ok(number) } else { Err(CallError::NoDevice) }
    }

    /// `open()`: the first one of a device probes its cards, which resets them, and pins the driver's buffers. `cards` are
    /// those of [`Switch::device`].
    ///
    /// # Errors
    /// No such file or device.
    pub fn open<M: CrossMemory>(
        &mut self,
        path: &str,
        cards: &mut Cards<'_, M>,
        now: Time,
    ) -> Result<usize, CallError> {
        let device = self.device(path)?;
        let entry = &mut self.entries[device];
        let Place { buffers, lists, tick } = entry.place;
        let driver = entry.driver.get_or_insert_with(|| Penn::probe(cards, buffers, lists, tick, now));
        let file = driver.open();
        entry.open += 1;
        let free = self.files.iter().position(Option::is_none).unwrap_or(self.files.len());
        if free == self.files.len() {
            self.files.push(None);
        }
        self.files[free] = Some((device, file));
        Ok(free)
    }

    fn file(&mut self, fd: usize) -> Result<(&mut Penn, usize), CallError> {
        let (device, file) = self.files.get(fd).copied().flatten().ok_or(CallError::Descriptor)?;
        let driver = self.entries[device].driver.as_mut().ok_or(CallError::NoDevice)?;
        Ok((driver, file))
    }

    /// `write()`.
    ///
    /// # Errors
    /// No such file; what [`Penn::write`] says.
    pub fn write<M: CrossMemory>(
        &mut self,
        fd: usize,
        cards: &mut Cards<'_, M>,
        address: u32,
        octets: usize,
        now: Time,
    ) -> Result<Written, CallError> {
        let (driver, file) = self.file(fd)?;
        Ok(driver.write(cards, file, address, octets, now)?)
    }

    /// `read()`.
    ///
    /// # Errors
    /// No such file; what [`Penn::read`] says.
    pub fn read(&mut self, fd: usize, buffer: &mut [u8]) -> Result<Option<usize>, CallError> {
        let (driver, file) = self.file(fd)?;
        Ok(driver.read(file, buffer)?)
    }

    /// Whether a write would find no room: what `select()` asks.
    ///
    /// # Errors
    /// No such file.
    pub fn would_wait(&mut self, fd: usize) -> Result<bool, CallError> {
        let (driver, file) = self.file(fd)?;
        Ok(driver.would_wait(file)?)
    }

    /// `ioctl()`.
    ///
    /// # Errors
    /// No such file; what [`Penn::control`] says.
    pub fn ioctl(&mut self, fd: usize, control: Control, now: Time) -> Result<(), CallError> {
        let (driver, file) = self.file(fd)?;
        Ok(driver.control(file, control, now)?)
    }

    /// `close()`.
    ///
    /// # Errors
    /// No such file.
    pub fn close(&mut self, fd: usize) -> Result<(), CallError> {
        let (driver, file) = self.file(fd)?;
        driver.close(file)?;
        if let Some((device, _)) = self.files[fd].take() {
            self.entries[device].open -= 1;
        }
        Ok(())
    }

    /// Unloads a device's driver, which no file has open any more: its pages are unpinned. The next open loads it again.
    ///
    /// # Errors
    /// It is not configured; it is open.
    pub fn unload<M: CrossMemory>(&mut self, device: usize, cards: &mut Cards<'_, M>) -> Result<(), CallError> {
        let entry = self.entries.get_mut(device).ok_or(CallError::NoDevice)?;
        if entry.open > 0 {
            return Err(CallError::Busy);
        }
        if let Some(driver) = entry.driver.take() {
            driver.unload(cards);
        }
        Ok(())
    }

    /// The timer of a device's driver, while it is loaded.
    pub fn poll_timeout<M>(&self, device: usize, cards: &Cards<'_, M>) -> Option<Time> {
        Some(self.entries.get(device)?.driver.as_ref()?.poll_timeout(cards))
    }

    /// Serves it.
    pub fn handle_timeout<M: CrossMemory>(&mut self, device: usize, cards: &mut Cards<'_, M>, now: Time) {
        if let Some(driver) = self.entries.get_mut(device).and_then(|entry| entry.driver.as_mut()) {
            driver.handle_timeout(cards, now);
        }
    }
}

/// Octets of the kernel's memory that a driver pins.
pub const PINNED_OCTETS: usize = BUFFERS * super::BUFFER_OCTETS;
