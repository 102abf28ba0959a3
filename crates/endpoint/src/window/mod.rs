//! Windows: memory from whose pages SDUs are sent, and whose pages are replaced by those that SDUs have arrived in
//! (Almesberger 1995, sections 3.2 and 3.3).
//!
//! In: SDUs to send from any place, writes of any thread meanwhile, SDUs that have arrived. Out: descriptors with a
//! list of pages, and changed mappings. A window's pages lie on frames of registered memory, as [`remap::spaces`] says;
//! this module carries its orders out by `mremap` and userfaultfd. `send_window` protects pages and returns. A thread
//! that writes there gets a copy of the page in its place, from a thread of this module. [`Window::overwrite`] replaces
//! whole pages instead of copying them. An SDU received into frames is mapped where it lies as the window does, and
//! copied where not.
//!
//! A child of `fork` has no window, and cannot change what its parent sends, unless it has taken a [`Seat`] at one.
//! Another program can read a window that it is admitted to ([`ReaderView`]). Where the machine forbids userfaultfd,
//! sending waits until the SDU has been taken; receiving is the same.

mod child;
mod keeper;
mod reader;
mod real;

pub use child::{ChildView, Seat};
pub use reader::ReaderView;

use crate::ChannelId;
use crate::app_memory::{Memory, Sent};
use crate::client::{Endpoint, Error, Received, SendError};
use crate::guard::Overlap;
use crate::layout::{Descriptor, Head, MAX_PAGES};
use crate::negotiate::PAGES;
use crate::shared::SharedMemory;
use crate::shared_copy;
use keeper::Keeper;
use real::Real;
use remap::align::{Alignment, Wanted};
use remap::spaces::{Counts, Delivered, Hold, Process, Spaces};
use remap::{Frame, Gather};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU8, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Octets of a page.
pub const PAGE: usize = 4096;
/// Most octets of an SDU.
const MAX_OCTETS: usize = 65_535;
/// Places at which a window can be seen at a time.
const MAX_VIEWS: usize = 8;
/// Pages whose mapping is put off, at most.
const MAX_PUT_OFF: usize = 1024;

/// What a window is, under its lock.
#[derive(Debug)]
struct State {
    spaces: Spaces,
    real: Real,
    /// SDUs that are leaving: what the host's index must reach, and their numbers.
    leaving: VecDeque<(u32, u64)>,
    /// What is posted, by where it begins in the pool.
    holds: BTreeMap<usize, Hold>,
    /// Batches that are open: mappings wait for the last one's end.
    batches: u32,
}

impl State {
    /// Maps what has been received, unless a batch is open.
    fn flush_received(&mut self) {
        if self.batches == 0 || self.real.waiting() >= MAX_PUT_OFF {
            self.real.flush();
        }
    }

    /// What views that have gone had is nobody's any more.
    fn clear_gone(&mut self) {
        while let Some(process) = self.real.next_gone() {
            self.spaces.exit(process, &mut self.real);
        }
    }

    /// The host has taken descriptors up to this index: what has left is unlocked.
    fn settle(&mut self, taken: u32) {
        let leaving = self.leaving.len();
        while let Some((until, number)) = self.leaving.front().copied()
            && taken.wrapping_sub(until) < 1 << 31
        {
            self.leaving.pop_front();
            self.spaces.complete(number, &mut self.real);
        }
        match self.leaving.len() == leaving {
            true => self.flush_received(),
            false => self.real.flush(),
        }
    }
}

/// See the module's head.
#[derive(Debug)]
pub struct Window {
    state: Arc<Mutex<State>>,
    keeper: Option<Keeper>,
    pool: Arc<SharedMemory>,
    /// The pool's file, to be passed to readers.
    file: OwnedFd,
    octets: usize,
    why_not: Option<String>,
}

/// SDUs that are given to a window together; they are mapped when this is dropped. See [`Window::batch`].
#[derive(Debug)]
#[must_use = "a batch ends when it is dropped"]
pub struct Batch<'a> {
    window: &'a Window,
}

/// A window at another place: what is written at one is read at the other.
#[derive(Debug)]
pub struct View<'a> {
    window: &'a Window,
    process: Process,
}

impl Window {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its memory, which any thread may write at any time; a write to a page that is leaving waits for a copy of the
    /// page.
    pub fn octets(&self) -> &[AtomicU8] {
        self.octets_of(Process(0))
    }

    fn octets_of(&self, view: Process) -> &[AtomicU8] {
        let start = self.state().real.start(view);
        // SAFETY: the view's place is mapped with this many octets as long as the window lives, or the view if it is
        // another one, which lends them for no longer: pages are exchanged under the system's own lock, never taken
        // away. An atomic has its octet's layout and may change under a shared reference.
        unsafe {
            std::slice::from_raw_parts(std::ptr::with_exposed_provenance::<AtomicU8>(start as usize), self.octets)
        }
    }

    /// Writes octets, as any store instruction does. Panics if they are not inside.
    pub fn write(&self, at: usize, octets: &[u8]) {
        shared_copy::copy_in(octets, &self.octets()[at..at + octets.len()]);
    }

    /// Writes the same to each of `octets` octets. Panics if they are not inside.
    pub fn fill(&self, at: usize, octets: usize, value: u8) {
        let to = &self.octets()[at..at + octets];
        // SAFETY: inside the window. Atomics may be written through a shared reference, and nobody of this process reads
        // them otherwise; no octet is an invalid value.
        unsafe { to.as_ptr().cast::<u8>().cast_mut().write_bytes(value, octets) }
    }

    /// Reads octets. Panics if they are not inside.
    pub fn read(&self, at: usize, octets: &mut [u8]) {
        shared_copy::copy_out(&self.octets()[at..at + octets.len()], octets);
    }

    /// Its memory by words of eight octets, to read much of it.
    pub fn words(&self) -> &[AtomicU64] {
        let octets = self.octets();
        // SAFETY: the window begins with a page and has whole ones; an atomic has its octets' layout, all bits are
        // valid.
        unsafe { std::slice::from_raw_parts(octets.as_ptr().cast::<AtomicU64>(), octets.len() / 8) }
    }

    /// Writes octets as a system call does: pages that are leaving and that are overwritten wholly are replaced, in all
    /// views, and not copied. Gives how many were written: fewer, if there is no frame until an SDU has left. None, if
    /// they are not inside.
    pub fn overwrite(&self, at: usize, octets: &[u8]) -> usize {
        if at.checked_add(octets.len()).is_none_or(|end| end > self.octets) {
            return 0;
        }
        let mut state = self.settled();
        let State { spaces, real, .. } = &mut *state;
        let done = spaces.overwrite(Process(0), at as u64, octets, real).unwrap_or_default();
        real.flush();
        done
    }

    /// How to place what is received so that nothing is copied: data at the beginning of a page, whole pages of them.
    pub const fn alignment(&self) -> Alignment {
        Alignment { page: PAGE, offset: 0 }
    }

    /// The window at another place as well, until that is dropped. `None`: there are enough, or the system has no room.
    pub fn view(&self) -> Option<View<'_>> {
        let mut state = self.with_room();
        let State { spaces, real, .. } = &mut *state;
        let process = real.reserve(self.octets)?;
        let shared = spaces.share((Process(0), 0), self.octets, (process, 0), real);
        real.flush();
        drop(state);
        let view = View { window: self, process };
        shared.is_ok().then_some(view)
    }

    /// How an SDU is kept from changing on its way: a writer gets a copy, or sending blocks.
    pub fn overlap(&self) -> Overlap {
        if self.keeper.is_some() { Overlap::CopyOnWrite } else { Overlap::Block }
    }

    /// Why it is not by copies.
    pub fn why_not(&self) -> Option<&str> {
        self.why_not.as_deref()
    }

    /// From now until what this gives is dropped, SDUs that [`Received::into_window`] gives to the window are not
    /// mapped one by one but together, those that lie in a row by one system call. Until then their pages show
    /// anything, and nobody should write there.
    pub fn batch(&self) -> Batch<'_> {
        self.state().batches += 1;
        Batch { window: self }
    }

    /// What was done, in pages.
    pub fn counts(&self) -> Counts {
        self.state().spaces.counts()
    }

    /// Mappings that the system has refused: pages there are not what they should be, and nothing more is sent.
    pub fn failures(&self) -> u64 {
        self.state().real.failures()
    }

    /// System calls that have mapped pages.
    pub fn mappings(&self) -> u64 {
        self.state().real.mappings()
    }

    /// SDUs that are leaving from it.
    pub fn leaving(&self) -> usize {
        self.settled().leaving.len()
    }

    fn settled(&self) -> MutexGuard<'_, State> {
        let mut state = self.state();
        if let Some(keeper) = &self.keeper {
            state.settle(keeper.taken());
        }
        state.clear_gone();
        state
    }

    /// With a place for another view, if one can be had.
    fn with_room(&self) -> MutexGuard<'_, State> {
        let mut state = self.settled();
        state.real.make_room();
        state.clear_gone();
        state
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // The keeper first: nobody waits in a fault of memory that is about to go.
        self.keeper = None;
        self.state().real.release();
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        let mut state = self.window.state();
        state.batches -= 1;
        state.flush_received();
    }
}

impl Drop for View<'_> {
    fn drop(&mut self) {
        let mut state = self.window.state();
        state.real.forget(self.process);
        state.clear_gone();
    }
}

impl View<'_> {
    /// Its memory.
    pub fn octets(&self) -> &[AtomicU8] {
        self.window.octets_of(self.process)
    }

    /// Reads octets. Panics if they are not inside.
    pub fn read(&self, at: usize, octets: &mut [u8]) {
        shared_copy::copy_out(&self.octets()[at..at + octets.len()], octets);
    }
}

/// Whether an SDU can be, and lies in a window.
fn inside(window: &Window, at: usize, octets: usize) -> Result<(), SendError> {
    if !(1..=MAX_OCTETS).contains(&octets) || at.checked_add(octets).is_none_or(|end| end > window.octets) {
        return Err(SendError::TooLong { octets, buffer_octets: MAX_OCTETS.min(window.octets.saturating_sub(at)) });
    }
    Ok(())
}

impl Endpoint {
    /// A window of `octets` octets (rounded up to whole pages), all zero, with `spare` octets of frames for copies and
    /// for what is received.
    ///
    /// # Errors
    /// The service refuses, or there is no memory. That the machine forbids faults is no error: [`Window::why_not`].
    pub fn window(&mut self, octets: usize, spare: usize) -> Result<Window, Error> {
        self.connection.need(PAGES)?;
        let (octets, spare) = (octets.max(1).next_multiple_of(PAGE), spare.next_multiple_of(PAGE));
        let frames = u16::try_from((octets + spare) / PAGE).map_err(|_| Error::from(Errno::NOMEM))?;
        let (pool, file) = self.register_region(octets + spare)?;
        let mut real = Real::new(pool.clone()).map_err(Error::from)?;
        let why_not = real.guard().err().map(|(what, e)| {
            format!("{what} is forbidden here ({e}): sending waits until the host has taken the SDU (Linux 5.19 or newer is needed)")
        });
        let mut spaces = Spaces::new(frames.into(), PAGE, remap::Overlap::Copy);
        if real.reserve(octets) != Some(Process(0)) || spaces.grow(Process(0), 0, octets, &mut real).is_err() {
            return Err(Error::from(Errno::NOMEM));
        }
        real.flush();
        if real.failures() > 0 {
            return Err(Error::from(Errno::NOMEM));
        }
        let faults = real.faults();
        let state = State { spaces, real, leaving: VecDeque::new(), holds: BTreeMap::new(), batches: 0 };
        let state = Arc::new(Mutex::new(state));
        let keeper =
            faults.map(|faults| Keeper::start(faults, state.clone(), self)).transpose().map_err(Error::from)?;
        Ok(Window { state, keeper, pool, file, octets, why_not })
    }

    /// Sends `octets` octets of a window from octet `at` on, as they are now, and returns at once: what is written
    /// there afterwards does not leave with them. Where faults are forbidden, this returns when the SDU has been taken.
    ///
    /// # Errors
    /// The ring is full, the length cannot be, or the octets are not inside.
    pub fn send_window(
        &mut self,
        channel: ChannelId,
        window: &Window,
        at: usize,
        octets: usize,
    ) -> Result<(), SendError> {
        inside(window, at, octets)?;
        self.send_windows(channel, window, &[(at, octets)]).map(|_| ())
    }

    /// Sends several SDUs of a window, each given by its first octet and its length, as [`Endpoint::send_window`] does:
    /// pages that lie in a row are protected by one system call. Gives how many of the first were sent.
    ///
    /// # Errors
    /// None was sent: the ring is full, or the first one's length cannot be or its octets are not inside.
    pub fn send_windows(
        &mut self,
        channel: ChannelId,
        window: &Window,
        sdus: &[(usize, usize)],
    ) -> Result<usize, SendError> {
        let room = self.send_space();
        if room == 0 || window.failures() > 0 {
            return Err(SendError::Full);
        }
        let mut state = window.settled();
        let State { spaces, real, leaving, .. } = &mut *state;
        let (mut locked, mut refused) = (Vec::with_capacity(sdus.len().min(room)), None);
        for &(at, octets) in sdus.iter().take(room) {
            let sending = match inside(window, at, octets) {
                Ok(()) => spaces.send(Process(0), at as u64, octets, real).map_err(|_| SendError::Full),
                Err(e) => Err(e),
            };
            match sending {
                Ok(sending) => locked.push((at, octets, sending)),
                Err(e) => {
                    refused = Some(e);
                    break;
                }
            }
        }
        // Before they are pushed.
        real.flush();
        let (mut sent, mut stopped) = (0, None);
        for (at, octets, sending) in locked {
            let mut pages = [0; MAX_PAGES];
            for (page, extent) in pages.iter_mut().zip(sending.gather.pages()) {
                *page = extent.frame.0 as u16;
            }
            let head = Head { channel: channel.0, octets: octets as u32, ..Head::of_buffer(Descriptor::PAGES) };
            let mut d = Descriptor { address: window.pool.address(), ..head.into() };
            d.set_pages((at % PAGE) as u16, &pages);
            let until = self.send.pushed().wrapping_add(1);
            // None goes after one that was not taken.
            match stopped.map_or_else(|| self.push(d), Err) {
                Ok(()) => {
                    leaving.push_back((until, sending.number));
                    self.outstanding.sending.push_back(Sent::Borrowed);
                    sent += 1;
                }
                Err(e) => {
                    spaces.complete(sending.number, real);
                    stopped = Some(e);
                }
            }
        }
        real.flush();
        drop(state);
        if sent > 0 && window.keeper.is_none() {
            // A service that has gone takes nothing any more, and reads nothing either.
            let _ = self.wait_sent(None);
            let mut state = window.state();
            let State { spaces, real, leaving, .. } = &mut *state;
            leaving.drain(..).for_each(|(_, number)| spaces.complete(number, real));
        }
        match stopped.or(refused) {
            Some(e) if sent == 0 => Err(e),
            _ => Ok(sent),
        }
    }

    /// Gives frames of a window to receive an SDU of up to `octets` octets into, ahead of its arrival. Octets behind
    /// the first `headers` will lie at the beginning of a page: [`Received::into_window`] maps them where they are
    /// wanted at one.
    ///
    /// # Errors
    /// The free ring or the window's frames are used up, or the data path is another one.
    pub fn post_window(&mut self, window: &Window, octets: usize, headers: usize) -> Result<(), SendError> {
        let displaced = Wanted { control: 0, headers, placement: 0 }.padding(PAGE);
        let octets = octets.clamp(1, MAX_OCTETS);
        let mut state = window.settled();
        let hold = state.spaces.hold((displaced + octets).div_ceil(PAGE) as u32).ok_or(SendError::Full)?;
        let at = hold.first.0 as usize * PAGE + displaced;
        if self.post(Memory::piece_of(window.pool.clone(), at, octets)).is_err() {
            state.spaces.unhold(hold);
            return Err(SendError::Full);
        }
        state.holds.insert(at, hold);
        Ok(())
    }
}

impl Received<'_> {
    /// Gives the SDU's octets behind the first `headers` to a window, from its octet `at` on: whole pages are mapped
    /// where the SDU was received into frames of the window and lies as it is wanted; the rest is copied. Gives how, or
    /// `None` if the window is too short.
    pub fn into_window(self, window: &Window, headers: usize, at: usize) -> Option<Delivered> {
        let octets = self.len().checked_sub(headers)?;
        at.checked_add(octets).filter(|end| *end <= window.octets)?;
        let outstanding = &self.endpoint.outstanding;
        let place = outstanding.place(&self.endpoint.taken).filter(|(pool, _)| Arc::ptr_eq(pool, &window.pool));
        let Some(place) = place.map(|(_, place)| place) else {
            let copied = window.overwrite(at, &self[headers..]);
            return Some(Delivered { octets: copied, pages: 0, copied });
        };
        let mut state = window.settled();
        let State { spaces, real, .. } = &mut *state;
        let mut sdu = Gather::new(PAGE);
        sdu.push(Frame((place / PAGE) as u32), place % PAGE, headers + octets);
        let delivered = spaces.deliver(Process(0), at as u64, &sdu.part(headers, octets), real).ok();
        state.flush_received();
        // Frames that became the window's are no longer the posted memory's: its name is given up before anybody makes
        // a slice of it.
        self.endpoint.outstanding.forget(&self.endpoint.taken);
        self.endpoint.taken.head.buffer = Descriptor::INLINE;
        if let Some(hold) = state.holds.remove(&place) {
            state.spaces.unhold(hold);
        }
        delivered
    }
}
