//! A driver for the just-in-time adapter that guesses alignments (Almesberger 1995, section 3.5): buffers are set up before anything has
//! come, so where data will be wanted is taken from a circuit's last PDUs.
//!
//! In: events of the adapter, buffers of applications. Out: SDUs given to applications, by mapping where the guess was right and by
//! copying where not; free buffers, of a page each, in a list for each alignment, back to back. Sizes of headers and trailers are
//! learned layer by layer. A trailer that lies on two pages that are no neighbours is repaired, in two new pages; a circuit where that is
//! systematic gets buffers that are long enough for the longest PDU.

mod lists;

use crate::{Buffer, Descriptor, Event, Jit, Lists};
use bus::iocc::PAGE;
use bus::paged::Paged;
use bus::sockets::{BEGINNING, Completed, Sockets, Whose};
use lists::{BufferLists, Kind};
use remap::Gather;
use remap::layers::{self, Layer, Layers, Sizes};
use remap::predict::{Predictor, Strategy};
use remap::spaces::{Hold, Process, Refusal, Sending};
use std::collections::BTreeMap;
use std::ops::Range;
use wire::CircuitId;

/// Which mechanisms are in use: all but batches, where the laboratory does not compare what each of them is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mechanisms {
    /// A circuit's last PDUs choose the alignment of the next one's buffers (Almesberger, 1995); else they begin with a page.
    pub guesses: bool,
    /// A circuit whose trailers often lie on two pages gets another strategy (Almesberger, 1995); else each one is repaired.
    pub changes_strategy: bool,
    /// A row of buffers is a batch, which a PDU takes as a whole (Almesberger, 1995); else it takes as many buffers as it fills.
    pub batches: bool,
    /// What stands before and behind the data is found layer by layer (Almesberger, 1995); else each layer has the size that it has without options,
    /// and nothing but the application's own trailer is behind the data.
    pub learns_sizes: bool,
}

impl Default for Mechanisms {
    fn default() -> Self {
        Mechanisms { guesses: true, changes_strategy: true, batches: false, learns_sizes: true }
    }
}

/// What was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// PDUs whose data came to lie as their application wanted them.
    pub hits: u64,
    /// PDUs whose data did not: they are copied.
    pub misses: u64,
    /// Trailers that were repaired.
    pub repaired: u64,
    /// PDUs behind whose data octets lie on pages that are no neighbours, since nobody knew where they begin or they are too long.
    pub apart: u64,
    /// Circuits whose strategy was changed, each time.
    pub strategies: u64,
    /// PDUs that came to memory in a row.
    pub in_a_row: u64,
    /// Buffers that PDUs took, and those of them that came back empty, which a batch had more than its PDU filled.
    pub buffers: u64,
    /// See [`Statistics::buffers`].
    pub empty: u64,
    /// PDUs for nobody.
    pub unclaimed: u64,
    /// PDUs that the adapter has lost.
    pub lost: u64,
}

/// What a PDU keeps until its application has it.
#[derive(Debug)]
pub struct Kept {
    buffers: Vec<Buffer>,
    /// Two pages of a repaired trailer.
    repair: Option<Hold>,
}

/// The driver, with its host's memory.
#[derive(Debug)]
pub struct JitHost {
    /// Processes and their pages.
    pub memory: Paged,
    lists: BufferLists,
    sockets: Sockets<Kept>,
    circuits: BTreeMap<CircuitId, Predictor>,
    mechanisms: Mechanisms,
    statistics: Statistics,
}

/// A PDU taken apart.
#[derive(Debug)]
struct Parts {
    whose: Option<Whose>,
    data: Range<usize>,
    /// Octets behind the data, which a layer has to read.
    trailer: usize,
    /// As many of them as the driver knows of.
    known: usize,
}

impl JitHost {
    /// A driver for an adapter of `lists` free lists. Each list is filled with rows of `row` buffers that lie back to back.
    pub fn new(memory: Paged, lists: usize, row: u32) -> Self {
        let (sockets, circuits) = (Sockets::default(), BTreeMap::new());
        let (mechanisms, statistics) = (Mechanisms::default(), Statistics::default());
        JitHost { memory, lists: BufferLists::new(lists, row), sockets, circuits, mechanisms, statistics }
    }

    /// Uses some mechanisms and not others; before the first circuit.
    pub fn use_only(&mut self, mechanisms: Mechanisms) {
        self.mechanisms = mechanisms;
        self.lists.use_batches(mechanisms.batches);
    }

    /// What was counted.
    pub const fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Opens a circuit for receiving; false if the adapter has no room for it.
    pub fn open(&mut self, adapter: &mut Jit, circuit: CircuitId) -> bool {
        let Some(list) = self.lists.of(adapter, &mut self.memory, Kind::Shifted(0)) else { return false };
        self.circuits.insert(circuit, Predictor::default());
        adapter.open(circuit, Lists { first: list, rest: list })
    }

    /// Opens a socket.
    pub fn bind(&mut self, whose: Whose, process: Process, own: Sizes) {
        self.sockets.bind(whose, process, own);
    }

    /// How an application's buffers have to lie so that nothing is copied.
    pub const fn alignment(&self) -> remap::align::Alignment {
        self.sockets.alignment()
    }

    /// Sends an SDU from where it lies in its process. Its pages are locked until the last cell has left; false if the adapter has no room.
    ///
    /// # Errors
    /// The process has not all of the pages.
    pub fn send(
        &mut self,
        adapter: &mut Jit,
        (queue, circuit): (usize, CircuitId),
        (process, address, octets): (Process, u64, usize),
    ) -> Result<bool, Refusal> {
        let Sending { number, gather } = self.memory.send(process, address, octets)?;
        let pieces = self.memory.bus_pieces(&gather).into_iter().map(|(at, octets)| (u64::from(at), octets)).collect();
        let descriptor = Descriptor { circuit, address: 0, octets: octets as u32, cookie: number };
        let sent = adapter.send_gather(queue, descriptor, pieces);
        if !sent {
            self.memory.complete(number);
        }
        Ok(sent)
    }

    /// Gives a buffer to receive into.
    pub fn post(&mut self, adapter: &mut Jit, whose: Whose, address: u64, octets: usize) -> Option<Completed<()>> {
        let completed = self.sockets.post(&mut self.memory, whose, address, octets);
        // The next data's place is known before they come: the circuits that expect them take it into account.
        let expecting: Vec<CircuitId> = self
            .circuits
            .keys()
            .copied()
            .filter(|circuit| self.target(*circuit).is_some_and(|t| t.0 == whose))
            .collect();
        expecting.into_iter().for_each(|circuit| self.aim(adapter, circuit));
        completed.map(|completed| self.finish(adapter, completed))
    }

    /// Serves an interrupt: takes events until an application has got something. `None`: there are no more.
    pub fn poll_completed(&mut self, adapter: &mut Jit) -> Option<Completed<()>> {
        while let Some(event) = adapter.poll_event() {
            match event {
                Event::Received { circuit, buffers, octets } => {
                    if let Some(completed) = self.received(adapter, circuit, &buffers, octets as usize) {
                        return Some(completed);
                    }
                }
                Event::Returned { buffers, .. } => {
                    self.statistics.lost += 1;
                    self.free(adapter, Kept { buffers, repair: None });
                }
                Event::Low { list } => self.lists.fill(adapter, &mut self.memory, list),
                Event::Sent { cookie, .. } => self.memory.complete(cookie),
            }
        }
        None
    }

    fn received(
        &mut self,
        adapter: &mut Jit,
        circuit: CircuitId,
        buffers: &[(Buffer, u32)],
        octets: usize,
    ) -> Option<Completed<()>> {
        let mut gather = Gather::new(PAGE);
        for (buffer, used) in buffers {
            self.memory.gather(&mut gather, buffer.address, *used as usize);
        }
        gather.truncate(octets);
        self.statistics.in_a_row += u64::from(gather.extents().len() == 1);
        self.statistics.buffers += buffers.len() as u64;
        self.statistics.empty += buffers.iter().filter(|(_, used)| *used == 0).count() as u64;
        let parts = self.take_apart(circuit, &gather);
        let mut kept = Kept { buffers: buffers.iter().map(|(buffer, _)| *buffer).collect(), repair: None };
        self.look_at_trailer(circuit, parts.known, &mut gather, &mut kept);
        let trailer = gather.part(octets - parts.trailer, parts.trailer);
        self.statistics.apart += u64::from(trailer.extents().len() > 1);
        let Some(whose) = parts.whose else {
            self.statistics.unclaimed += 1;
            self.free(adapter, kept);
            self.aim(adapter, circuit);
            return None;
        };
        let data = gather.part(parts.data.start, parts.data.len());
        let lies_at = data.extents().first().map(|extent| extent.offset);
        match lies_at == self.sockets.placement(whose) {
            true => self.statistics.hits += 1,
            false => self.statistics.misses += 1,
        }
        let arrived = self.sockets.arrive(&mut self.memory, whose, data, kept);
        self.aim(adapter, circuit);
        match arrived {
            Ok(completed) => completed.map(|completed| self.finish(adapter, completed)),
            Err(kept) => {
                self.statistics.unclaimed += 1;
                self.free(adapter, kept);
                None
            }
        }
    }

    /// Processes a PDU's layers one after the other; what each says of itself is remembered for the application's next PDU.
    fn take_apart(&mut self, circuit: CircuitId, gather: &Gather) -> Parts {
        let octets = gather.octets();
        let vci = u32::from(circuit.vci.get());
        if let Some((whose, data)) = self.sockets.within(Whose::Circuit(vci), 0..octets) {
            let trailer = octets - data.end;
            return Parts { whose: Some(whose), data, trailer, known: trailer };
        }
        let beginning = self.memory.gathered(gather, 0, BEGINNING);
        let (mut layers, mut said) = (Layers::new(&beginning, octets), Vec::new());
        while let Ok(Some(layer)) = layers.process() {
            said.push(layer);
        }
        let predictor = self.circuits.entry(circuit).or_default();
        let flow = layers.flow();
        let found = flow.and_then(|flow| self.sockets.within(Whose::Flow(flow), layers.rest()));
        predictor.observe(flow.filter(|_| found.is_some()));
        let (Some(flow), Some((whose, data))) = (flow, found) else {
            return Parts { whose: None, data: 0..0, trailer: 0, known: 0 };
        };
        let own = self.sockets.own(whose).unwrap_or_default();
        let trailer = octets - data.end;
        if !self.mechanisms.learns_sizes {
            return Parts { whose: Some(whose), data, trailer, known: own.trailer };
        }
        said.push((Layer::Application, own));
        for (depth, (layer, sizes)) in said.into_iter().enumerate() {
            predictor.tell(flow, depth, layer, sizes);
        }
        Parts { whose: Some(whose), data, trailer, known: trailer }
    }

    /// A trailer on two pages that are not neighbours is copied, with all of these pages that is the PDU's, to two new ones.
    fn look_at_trailer(&mut self, circuit: CircuitId, trailer: usize, gather: &mut Gather, kept: &mut Kept) {
        let octets = gather.octets();
        // Buffers are a page long: from the PDU's first octet on, each page of it is in another one.
        let on_two = trailer > 1 && (octets - trailer) / PAGE != (octets - 1) / PAGE;
        let changed = self.circuits.entry(circuit).or_default().observe_trailer(on_two);
        self.statistics.strategies += u64::from(changed.is_some());
        let apart = gather.part(octets - trailer, trailer).extents().len() > 1;
        if !apart || trailer > PAGE {
            return;
        }
        let Some((hold, _)) = self.memory.hold(2) else { return };
        // From the beginning of the page before the trailer's last one, so that all of it lies in its page as before.
        let first = gather.part(octets - trailer, 1).extents()[0].offset;
        let begin = (octets - trailer).saturating_sub(first);
        let tail = gather.part(begin, octets - begin);
        let offset = tail.extents()[0].offset;
        self.memory.copy_gathered(&tail, hold.first, offset);
        gather.truncate(begin);
        gather.push(hold.first, offset, tail.octets());
        kept.repair = Some(hold);
        self.statistics.repaired += 1;
    }

    /// Whom a circuit's next PDU is expected to be for, and the octets before its data.
    fn target(&self, circuit: CircuitId) -> Option<(Whose, usize)> {
        let raw = Whose::Circuit(circuit.vci.get().into());
        if let Some(own) = self.sockets.own(raw) {
            return Some((raw, own.header));
        }
        let predictor = self.circuits.get(&circuit)?;
        let flow = predictor.expected()?;
        let whose = Whose::Flow(flow);
        let sizes = match self.mechanisms.learns_sizes {
            true => predictor.sizes(flow),
            false => layers::without_options(flow.protocol) + self.sockets.own(whose).unwrap_or_default(),
        };
        Some((whose, sizes.header))
    }

    /// Chooses the list for the circuit's next PDU.
    fn aim(&mut self, adapter: &mut Jit, circuit: CircuitId) {
        let Some(predictor) = self.circuits.get(&circuit) else { return };
        let shift = self.target(circuit).map_or(0, |(whose, headers)| {
            let placement = self.sockets.placement(whose).unwrap_or_default();
            remap::align::Wanted { control: 0, headers, placement }.padding(PAGE)
        });
        let shift = if self.mechanisms.guesses { shift } else { 0 };
        let kind = match predictor.strategy() {
            Strategy::Together if self.mechanisms.changes_strategy => Kind::Long(shift),
            Strategy::Pages | Strategy::Together => Kind::Shifted(shift),
        };
        if let Some(list) = self.lists.of(adapter, &mut self.memory, kind) {
            adapter.set_lists(circuit, Lists { first: list, rest: list });
        }
    }

    fn finish(&mut self, adapter: &mut Jit, completed: Completed<Kept>) -> Completed<()> {
        let Completed { whose, address, delivered, mark } = completed;
        self.free(adapter, mark);
        Completed { whose, address, delivered, mark: () }
    }

    fn free(&mut self, adapter: &mut Jit, kept: Kept) {
        if let Some(hold) = kept.repair {
            self.memory.unhold(hold);
        }
        for buffer in kept.buffers {
            self.lists.free(&mut self.memory, buffer);
        }
        self.lists.fill_low(adapter, &mut self.memory);
    }
}
