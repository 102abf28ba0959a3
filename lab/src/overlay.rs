//! A host with the two cards of Traw and Smith, whose TCP/IP goes through both as one device ([`Overlay`]; Smith 2002,
//! section 2.2).
//!
//! In: PDUs of a protocol, cells from the line, the time. Out: PDUs, cells. [`OverlayCards`] is the device, for whatever has packets, such as
//! the kernel's stack behind a TUN device; [`OverlayHost`] has the real stack in process above it.

use bus::iocc::{Memory, PAGE, Process};
use penn::Streaming;
use penn::driver::device::{CallError, PINNED_OCTETS, Place, Switch};
use penn::driver::overlay::{Config, Overlay};
use penn::driver::{BUFFER_OCTETS, Cards};
use penn::reassembler::Card;
use penn::segmenter::Segmenter;
use stack::device::netstack::NetStack;
use std::net::Ipv4Addr;
use std::time::Duration;
use wire::{Cell, Counters, Time};

/// The circuit of the connectionless service.
const VCI: u16 = 0x8005;
/// The stack's process, and where its PDUs are in its memory.
const PROTOCOL: Process = Process(1);
const AT: u32 = 0x0010_0000;

/// The machine below the protocol: both cards, memory, the driver, the device over it.
#[derive(Debug)]
pub struct OverlayCards {
    segmenter: Segmenter,
    reassembler: Card,
    memory: Memory,
    switch: Switch,
    overlay: Overlay,
}

impl OverlayCards {
    /// Station `number`, counted from 1; its timer ticks each `tick`.
    ///
    /// # Errors
    /// The device cannot be opened.
    pub fn new(number: u16, tick: Duration) -> Result<Self, CallError> {
        let mut segmenter = Segmenter::new(Streaming::MICRO_CHANNEL);
        let config = penn::reassembly::Config::default();
        // The default is a configuration that the card has.
        let mut reassembler = Card::new(config).map_err(|_| CallError::NoDevice)?;
        let mut memory = Memory::new((PINNED_OCTETS + 2 * BUFFER_OCTETS) / PAGE, 128);
        let missing = |_| CallError::Driver(bus::Unmapped { address: AT.into() }.into());
        memory.grow(Process::default(), 0, PINNED_OCTETS).map_err(missing)?;
        memory.grow(PROTOCOL, AT, BUFFER_OCTETS).map_err(missing)?;
        let mut switch = Switch::default();
        let mut cards = Cards { segmenter: &mut segmenter, reassembler: &mut reassembler, memory: &mut memory };
        let lists = (config.circuits + config.pdus) as u32;
        let path = switch.configure(&mut cards, Place { buffers: 0, lists, tick })?;
        let config = Config { vci: VCI, mid: number, address: AT, poll_rate: tick };
        let overlay = Overlay::open(&mut switch, &mut cards, &path, config, Time::ZERO)?;
        memory.enter(PROTOCOL);
        Ok(OverlayCards { segmenter, reassembler, memory, switch, overlay })
    }

    /// Sends a PDU; false if there is no room at present.
    ///
    /// # Errors
    /// A length that is none.
    pub fn send(&mut self, pdu: &[u8], now: Time) -> Result<bool, CallError> {
        let OverlayCards { segmenter, reassembler, memory, switch, overlay } = self;
        overlay.send(switch, &mut Cards { segmenter, reassembler, memory }, pdu, now)
    }

    /// Whether [`OverlayCards::send`] would take a PDU.
    ///
    /// # Errors
    /// The device is gone.
    pub fn has_room(&mut self) -> Result<bool, CallError> {
        self.overlay.has_room(&mut self.switch)
    }

    /// A PDU that has come.
    ///
    /// # Errors
    /// The device is gone.
    pub fn receive(&mut self, pdu: &mut [u8]) -> Result<Option<usize>, CallError> {
        self.overlay.receive(&mut self.switch, pdu)
    }

    /// What the two cards have counted: sent, received.
    pub fn counters(&self) -> [Counters; 2] {
        [*self.segmenter.counters(), self.reassembler.counters()]
    }

    /// Cells that leave by `now`, to the front of `out`; gives how many.
    pub fn fill(&mut self, out: &mut [Cell], now: Time) -> usize {
        self.segmenter.fill(out, &mut self.memory, now)
    }

    /// Cells come.
    pub fn handle_cells(&mut self, cells: &[Cell], now: Time) {
        self.reassembler.handle_cells(cells, now);
    }

    /// When a cell leaves, or a card or the driver is due.
    pub fn poll_timeout(&mut self) -> Time {
        let cell = self.segmenter.poll_timeout();
        let OverlayCards { segmenter, reassembler, memory, switch, overlay } = self;
        let device = overlay.poll_timeout(switch, &Cards { segmenter, reassembler, memory });
        device.into_iter().chain(cell).min().unwrap_or(Time::MAX)
    }

    /// Serves the cards and the driver.
    pub fn handle_timeout(&mut self, now: Time) {
        let OverlayCards { segmenter, reassembler, memory, switch, overlay } = self;
        reassembler.run(memory, 64, now);
        overlay.handle_timeout(switch, &mut Cards { segmenter, reassembler, memory }, now);
    }
}

/// The host with its TCP/IP.
#[derive(Debug)]
pub struct OverlayHost {
    cards: OverlayCards,
    stack: NetStack,
    pdu: Vec<u8>,
    /// The stack has something to do.
    woken: bool,
}

impl OverlayHost {
    /// Station `number`, counted from 1, of `address`; its timer ticks each `tick`.
    ///
    /// # Errors
    /// The device cannot be opened.
    pub fn new(address: Ipv4Addr, number: u16, mtu: usize, tick: Duration) -> Result<Self, CallError> {
        let cards = OverlayCards::new(number, tick)?;
        let mut stack = NetStack::new(address, 24, mtu, number.into());
        stack.ip().add_circuit(VCI.into(), None, Time::ZERO);
        Ok(OverlayHost { cards, stack, pdu: vec![0; mtu + 64], woken: true })
    }

    /// Its sockets. Whoever uses them lets them work by [`OverlayHost::wake`].
    pub fn stack(&mut self) -> &mut NetStack {
        &mut self.stack
    }

    /// An application has used a socket.
    pub const fn wake(&mut self) {
        self.woken = true;
    }

    /// The device below.
    pub const fn cards(&mut self) -> &mut OverlayCards {
        &mut self.cards
    }

    /// When the device is due, or TCP's timers are.
    pub fn poll_timeout(&mut self, now: Time) -> Time {
        let soon = self.woken.then_some(now);
        let stack = self.stack.poll_timeout(now);
        soon.into_iter().chain(stack).min().unwrap_or(Time::MAX).min(self.cards.poll_timeout())
    }

    /// Serves the device, and lets the stack do what is due.
    ///
    /// # Errors
    /// The device is gone.
    pub fn handle_timeout(&mut self, now: Time) -> Result<(), CallError> {
        self.cards.handle_timeout(now);
        while self.stack.has_room()
            && let Some(octets) = self.cards.receive(&mut self.pdu)?
        {
            self.stack.handle_pdu(VCI.into(), &self.pdu[..octets], now);
            self.woken = true;
        }
        let due = self.stack.poll_timeout(now).is_some_and(|due| due <= now);
        if core::mem::take(&mut self.woken) || due {
            while self.stack.run(now) {}
        }
        while self.cards.has_room()?
            && let Some((_, octets)) = self.stack.poll_pdu(&mut self.pdu, now)
        {
            self.cards.send(&self.pdu[..octets], now)?;
        }
        Ok(())
    }
}
