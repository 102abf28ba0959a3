//! Page tables of this process: orders are gathered, and carried out for pages in a row at once.
//!
//! The pool, registered memory, is mapped as a whole, frame after frame. A page of a view is a second mapping of its
//! frame, made by `mremap` from the pool's: the memory is sealed against mappings of its file. The system exchanges a
//! mapping under its own lock, so a thread that reads there sees the old page or the new one.

use super::child::{self, Remote};
use super::{MAX_VIEWS, PAGE};
use crate::shared::SharedMemory;
use crate::uffd::WriteFaults;
use remap::Frame;
use remap::spaces::{FramePlace, Process, Tables};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MremapFlags, ProtFlags};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

#[derive(Debug, Clone, Copy)]
struct Order {
    view: u16,
    address: u64,
    frame: Frame,
    /// The page was on another frame.
    moves: bool,
    writable: bool,
}

/// Whose page tables a view is in.
#[derive(Debug)]
enum Whose {
    Ours,
    /// A child's or a reader's.
    Theirs(Remote),
}

#[derive(Debug)]
struct View {
    whose: Whose,
    /// 0 of one that is not ours.
    start: u64,
    octets: usize,
    /// By page: frame, and whether it may be written.
    pages: Vec<Option<(Frame, bool)>>,
}

impl Drop for View {
    fn drop(&mut self) {
        if matches!(self.whose, Whose::Ours) {
            // SAFETY: a view's own place, all of it; whoever had slices of it has dropped the view or the window.
            let _ = unsafe { rustix::mm::munmap(place(self.start), self.octets) };
        }
    }
}

#[derive(Debug)]
pub(super) struct Real {
    pool: Arc<SharedMemory>,
    faults: Option<Arc<WriteFaults>>,
    /// By number.
    views: BTreeMap<u16, View>,
    /// The number given last. None is given again soon: who was to serve a view that has gone finds none by its number.
    number: u16,
    /// Views that have gone, and that address spaces still know.
    gone: Vec<Process>,
    orders: Vec<Order>,
    failures: u64,
    mappings: u64,
}

fn place(address: u64) -> *mut c_void {
    ptr::with_exposed_provenance_mut(address as usize)
}

impl Real {
    /// No view yet. A child of this process gets neither the pool nor what is mapped from it.
    pub(super) fn new(pool: Arc<SharedMemory>) -> Result<Self, Errno> {
        // SAFETY: the pool's own mapping; the advice changes nothing in this process.
        unsafe { rustix::mm::madvise(place(pool.address()), pool.len(), Advice::LinuxDontFork) }?;
        Ok(Real {
            pool,
            faults: None,
            views: BTreeMap::new(),
            number: u16::MAX,
            gone: Vec::new(),
            orders: Vec::new(),
            failures: 0,
            mappings: 0,
        })
    }

    /// From now on pages can be protected.
    pub(super) fn guard(&mut self) -> Result<(), (&'static str, Errno)> {
        self.faults = Some(Arc::new(WriteFaults::open()?));
        Ok(())
    }

    pub(super) fn faults(&self) -> Option<Arc<WriteFaults>> {
        self.faults.clone()
    }

    pub(super) fn failures(&self) -> u64 {
        self.failures
    }

    /// System calls that have mapped pages.
    pub(super) fn mappings(&self) -> u64 {
        self.mappings
    }

    /// Pages whose orders have not been carried out.
    pub(super) fn waiting(&self) -> usize {
        self.orders.len()
    }

    /// A place for another view; `None` if there is none. The first is view 0.
    pub(super) fn reserve(&mut self, octets: usize) -> Option<Process> {
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing of this process.
        let start =
            unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), octets, ProtFlags::empty(), MapFlags::PRIVATE) };
        self.add(Whose::Ours, start.ok()?.expose_provenance() as u64, octets)
    }

    /// Another view, in a child or a reader; `None` if there are enough.
    pub(super) fn add_remote(&mut self, octets: usize, remote: Remote) -> Option<Process> {
        self.add(Whose::Theirs(remote), 0, octets)
    }

    fn add(&mut self, whose: Whose, start: u64, octets: usize) -> Option<Process> {
        let view = View { whose, start, octets, pages: vec![None; octets / PAGE] };
        if self.views.len() >= MAX_VIEWS {
            return None;
        }
        self.number = self.number.wrapping_add(1);
        while self.views.contains_key(&self.number) {
            self.number = self.number.wrapping_add(1);
        }
        self.views.insert(self.number, view);
        Some(Process(self.number))
    }

    /// The child or reader whose view it is, unless it has gone.
    pub(super) fn remote(&mut self, process: Process) -> Option<&mut Remote> {
        match &mut self.views.get_mut(&process.0)?.whose {
            Whose::Theirs(remote) => Some(remote),
            Whose::Ours => None,
        }
    }

    /// A view has gone: nobody waits for it any more, and another can have its place.
    pub(super) fn forget(&mut self, process: Process) {
        if self.views.remove(&process.0).is_some() {
            self.orders.retain(|order| order.view != process.0);
            self.gone.push(process);
        }
    }

    /// Where there is no place for another view, forgets those whose child or reader has ended and was not missed yet.
    pub(super) fn make_room(&mut self) {
        if self.views.len() < MAX_VIEWS {
            return;
        }
        let ended = |view: &View| matches!(&view.whose, Whose::Theirs(remote) if remote.has_ended());
        let ended: Vec<u16> = self.views.iter().filter(|(_, view)| ended(view)).map(|(number, _)| *number).collect();
        ended.into_iter().for_each(|number| self.forget(Process(number)));
    }

    /// A view that has gone since this was asked last.
    pub(super) fn next_gone(&mut self) -> Option<Process> {
        self.gone.pop()
    }

    pub(super) fn start(&self, process: Process) -> u64 {
        self.views[&process.0].start
    }

    /// Which page of which view an address is.
    pub(super) fn find(&self, address: u64) -> Option<(Process, u64)> {
        let ours = |view: &View| matches!(view.whose, Whose::Ours);
        let inside = |view: &View| address.checked_sub(view.start).filter(|at| ours(view) && *at < view.octets as u64);
        self.views.iter().find_map(|(number, view)| Some((Process(*number), inside(view)?)))
    }

    /// Carries the orders out.
    pub(super) fn flush(&mut self) {
        let mut orders = std::mem::take(&mut self.orders);
        // Rows are of one view; orders of a page keep their order.
        orders.sort_by_key(|order| order.view);
        let mut rest = &orders[..];
        while let Some(first) = rest.first().copied() {
            let follows = |(n, next): (usize, &Order)| {
                let row = next.address == first.address + (n * PAGE) as u64;
                let same = (next.view, next.moves, next.writable) == (first.view, first.moves, first.writable);
                row && same && (!first.moves || next.frame.0 == first.frame.0 + n as u32)
            };
            let pages = rest.iter().enumerate().take_while(|(n, next)| follows((*n, next))).count();
            self.mappings += u64::from(first.moves);
            let process = Process(first.view);
            match self.carry_out(first, pages * PAGE) {
                Ok(()) => {}
                // Its own memory has gone with it.
                Err(Errno::PIPE | Errno::CONNRESET) => self.forget(process),
                // It harms nobody but itself.
                Err(_) if self.remote(process).is_some_and(|remote| remote.reads_only()) => self.forget(process),
                Err(_) => self.failures += 1,
            }
            rest = &rest[pages..];
        }
        self.orders = orders;
        self.orders.clear();
    }

    fn carry_out(&mut self, order: Order, octets: usize) -> Result<(), Errno> {
        let Order { view, address, frame, moves, writable } = order;
        match self.views.get_mut(&view).map(|view| &mut view.whose) {
            Some(Whose::Ours) => {}
            // It has gone.
            None => return Ok(()),
            Some(Whose::Theirs(remote)) => {
                let [page, pages] = [address as usize, octets].map(|octets| (octets / PAGE) as u32);
                return remote.carry_out(child::Order { page, pages, frame: frame.0, moves, writable });
            }
        }
        if moves {
            let from = self.pool.address() + u64::from(frame.0) * PAGE as u64;
            // SAFETY: over pages of a view of this module's, which stay mapped with the same length; who reads or
            // writes there expects others to write at any time. From pages of the pool, which stay mapped too (an old
            // length of 0: a shared mapping is made once more).
            unsafe { rustix::mm::mremap_fixed(place(from), 0, octets, MremapFlags::MAYMOVE, place(address)) }?;
        }
        let Some(faults) = &self.faults else { return Ok(()) };
        if moves {
            faults.register(address, octets as u64)?;
            faults.wake(address, octets as u64);
        }
        if !moves || !writable {
            faults.protect(address, octets as u64, !writable)?;
        }
        Ok(())
    }

    /// Unmaps all views. Nobody has a reference to them any more.
    pub(super) fn release(&mut self) {
        self.views.clear();
    }
}

impl Tables for Real {
    fn map(&mut self, process: Process, page: u64, frame: Frame, writable: bool) {
        let Some(view) = self.views.get_mut(&process.0) else { return };
        let Some(entry) = view.pages.get_mut(page as usize) else { return };
        let before = entry.replace((frame, writable));
        let moves = before.is_none_or(|(was, _)| was != frame);
        if moves || before != Some((frame, writable)) {
            let address = view.start + page * PAGE as u64;
            self.orders.push(Order { view: process.0, address, frame, moves, writable });
        }
    }

    fn unmap(&mut self, _: Process, _: u64) {
        // Pages of a window go with the window.
    }

    fn copy(&mut self, from: FramePlace, to: FramePlace, octets: usize) {
        let at = |place: FramePlace| place.frame.0 as usize * PAGE + place.offset;
        let (from, to) = (self.pool.octets(at(from), octets), self.pool.octets(at(to), octets));
        // SAFETY: inside the pool, and other octets: a frame is never copied to itself. Racing writes of others leave
        // some mixture of octets, all of which are valid.
        unsafe { from.as_ptr().copy_to(to.as_ptr().cast_mut(), octets) }
    }

    fn store(&mut self, to: FramePlace, octets: &[u8]) {
        self.pool.copy_in(to.frame.0 as usize * PAGE + to.offset, octets);
    }

    fn zero(&mut self, frame: Frame) {
        self.pool.copy_in(frame.0 as usize * PAGE, &[0; PAGE]);
    }
}
