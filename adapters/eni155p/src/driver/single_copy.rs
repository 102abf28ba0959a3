//! Single copy through the ENI155P: SDUs leave from the pages of their process by the DMA queue, and come to pages that become the
//! application's (Almesberger 1995, sections 3.2 to 3.4).
//!
//! What the interrupt handler has guessed from three fields is verified here, after reception; a PDU that is otherwise goes the slow
//! path: all layers are processed, and what does not lie as its application wants it is copied.

use super::{DriverError, Eni, Received};
use crate::driver::Bus;
use bus::iocc::PAGE;
use bus::paged::Paged;
use bus::sockets::{BEGINNING, Completed, Sockets, Whose};
use remap::layers::{Mismatch, Sizes};
use remap::look::Length;
use remap::spaces::Process;
use remap::{Gather, Refusal};
use std::ops::Range;

/// Why an SDU was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The process's memory.
    #[error(transparent)]
    Memory(#[from] Refusal),
    /// The driver.
    #[error(transparent)]
    Driver(#[from] DriverError),
}

/// Which mechanisms are in use: all, where the laboratory does not compare what each of them is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mechanisms {
    /// SDUs leave from the pages of their process (Almesberger, 1995); else a copy of them does.
    pub sends_pages: bool,
    /// Received pages become the application's where they can (Almesberger, 1995); else all octets are copied.
    pub maps_pages: bool,
    /// Padding makes the next data lie as they are wanted (Almesberger, 1995); else a PDU begins right behind the control information.
    pub pads: bool,
    /// The interrupt handler looks at headers (Almesberger, 1995); else it knows only whose a circuit is that one application has for itself.
    pub looks: bool,
    /// Which length pages are taken by (Almesberger, 1995).
    pub length: Length,
}

impl Default for Mechanisms {
    fn default() -> Self {
        Mechanisms { sends_pages: true, maps_pages: true, pads: true, looks: true, length: Length::Aal5 }
    }
}

/// What was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// SDUs sent from their process's pages.
    pub sent_in_place: u64,
    /// SDUs sent by way of a buffer, since they lie where the adapter cannot fetch from.
    pub sent_by_copy: u64,
    /// PDUs that were what the quick look has said.
    pub as_predicted: u64,
    /// PDUs that went the slow path.
    pub slow: u64,
    /// Why the last of those did whose quick look was wrong.
    pub mismatch: Option<Mismatch>,
    /// PDUs for nobody.
    pub unclaimed: u64,
}

/// A host's side of it.
#[derive(Debug)]
pub struct SingleCopy {
    /// Processes and their pages.
    pub memory: Paged,
    sockets: Sockets<Received>,
    mechanisms: Mechanisms,
    statistics: Statistics,
}

impl SingleCopy {
    /// A driver whose PDUs come to `frames` pages of `memory`, in each of which `control` octets are kept for control information.
    /// `None`: there are not as many in a row.
    pub fn new(driver: &mut Eni, mut memory: Paged, frames: u32, control: usize) -> Option<Self> {
        let (_, address) = memory.hold(frames)?;
        driver.receive_into_pages(control);
        driver.supply(address, frames);
        let (mechanisms, statistics) = (Mechanisms::default(), Statistics::default());
        Some(SingleCopy { memory, sockets: Sockets::default(), mechanisms, statistics })
    }

    /// Uses some mechanisms and not others; before the first socket.
    pub fn use_only(&mut self, driver: &mut Eni, mechanisms: Mechanisms) {
        self.mechanisms = mechanisms;
        driver.allocate_by(mechanisms.length);
        self.sockets.copy_always(!mechanisms.maps_pages);
    }

    /// What was counted.
    pub const fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Opens a socket.
    pub fn bind(&mut self, driver: &mut Eni, whose: Whose, process: Process, own: Sizes) {
        self.sockets.bind(whose, process, own);
        self.tell(driver, whose);
    }

    /// How an application's buffers have to lie so that nothing is copied.
    pub const fn alignment(&self) -> remap::align::Alignment {
        self.sockets.alignment()
    }

    /// Gives a buffer to receive into.
    pub fn post(&mut self, driver: &mut Eni, whose: Whose, address: u64, octets: usize) -> Option<Completed<Received>> {
        let completed = self.sockets.post(&mut self.memory, whose, address, octets);
        if let Some(completed) = &completed {
            self.free(driver, completed.mark);
        }
        self.tell(driver, whose);
        completed
    }

    /// The interrupt handler learns where the next data are wanted.
    fn tell(&self, driver: &mut Eni, whose: Whose) {
        let is_seen = self.mechanisms.looks || matches!(whose, Whose::Circuit(_));
        if !self.mechanisms.pads || !is_seen {
            return;
        }
        let header = self.sockets.own(whose).unwrap_or_default().header;
        driver.want(whose, header, self.sockets.placement(whose));
    }

    /// Sends an SDU from where it lies in its process. Its pages are the process's own again when [`SingleCopy::finish_sent`] has seen
    /// it in the adapter.
    ///
    /// # Errors
    /// The process has not the pages, or the driver cannot send: then nothing is locked.
    pub fn send(
        &mut self,
        driver: &mut Eni,
        bus: &mut impl Bus,
        vci: u32,
        (process, address, octets): (Process, u64, usize),
    ) -> Result<(), SendError> {
        let sending = self.memory.send(process, address, octets)?;
        let pieces = self.memory.bus_pieces(&sending.gather);
        let in_place = match self.mechanisms.sends_pages {
            true => driver.send_gather(bus, vci, &pieces, sending.number),
            false => Err(DriverError::Misaligned),
        };
        let sent = match in_place {
            Ok(()) => {
                self.statistics.sent_in_place += 1;
                return Ok(());
            }
            Err(DriverError::Misaligned) => {
                let sdu = self.memory.copy_out(&sending.gather);
                let sent = driver.send(bus, &mut self.memory.by_processor(), vci, &sdu);
                self.statistics.sent_by_copy += u64::from(sent.is_ok());
                sent
            }
            Err(e) => Err(e),
        };
        self.memory.complete(sending.number);
        Ok(sent?)
    }

    /// Unlocks the pages of SDUs that are in the adapter.
    pub fn finish_sent(&mut self, driver: &mut Eni) {
        while let Some(number) = driver.poll_copied() {
            self.memory.complete(number);
        }
    }

    /// Takes the next PDU that has come: gives what an application has got. `None`: there is none; data that wait for a buffer, and PDUs
    /// for nobody, are passed over.
    pub fn poll_completed(&mut self, driver: &mut Eni) -> Option<Completed<Received>> {
        while let Some(received) = driver.poll_received() {
            let mut gather = Gather::new(PAGE);
            self.memory.gather(&mut gather, received.address, received.octets);
            let beginning = self.memory.gathered(&gather, 0, BEGINNING);
            let Some((whose, data)) = self.classify(&received, &beginning) else {
                self.statistics.unclaimed += 1;
                self.free(driver, received);
                continue;
            };
            let arrived = self.sockets.arrive(&mut self.memory, whose, gather.part(data.start, data.len()), received);
            self.tell(driver, whose);
            match arrived {
                Ok(None) => {}
                Ok(Some(completed)) => {
                    self.free(driver, completed.mark);
                    return Some(completed);
                }
                Err(received) => {
                    self.statistics.unclaimed += 1;
                    self.free(driver, received);
                }
            }
        }
        None
    }

    fn classify(&mut self, received: &Received, beginning: &[u8]) -> Option<(Whose, Range<usize>)> {
        if let Some(look) = received.look() {
            match look.verify(beginning, received.octets) {
                Ok(data) => {
                    self.statistics.as_predicted += 1;
                    return self.sockets.within(Whose::Flow(look.flow), data);
                }
                Err(mismatch) => self.statistics.mismatch = Some(mismatch),
            }
        }
        let found = self.sockets.find(received.vci, beginning, received.octets);
        self.statistics.slow += u64::from(!matches!(found, Some((Whose::Circuit(_), _)) | None));
        found
    }

    /// The driver has the pages again that have not become an application's, and others for those that have.
    fn free(&mut self, driver: &mut Eni, received: Received) {
        let before = driver.pages();
        driver.release_pages(received, |address| self.memory.is_held(address));
        let gone = received.pages().saturating_sub(driver.pages() - before);
        if let Some((_, address)) = (gone > 0).then(|| self.memory.hold(gone)).flatten() {
            driver.supply(address, gone);
        } else {
            for _ in 0..gone {
                let Some((_, address)) = self.memory.hold(1) else { break };
                driver.supply(address, 1);
            }
        }
    }
}
