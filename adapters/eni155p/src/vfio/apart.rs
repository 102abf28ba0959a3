//! An adapter on a thread of its own, and its line to the network.
//!
//! What a guest's machine hands over (its memory, the descriptor of its interrupt, the connection itself) may be slow, or
//! block for ever. Only the adapter's thread touches it; the network's thread has one end of a socket pair that nobody
//! outside can reach, over which cells travel in batches. A guest that makes its adapter wait waits alone.

use super::server::Server;
use endpoint::socket_path::SocketPath;
use net::NodeIo;
use net::external::External;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wire::{Cell, CellHeader, Counters, Time};

/// Octets of a cell on the line: the header's word, and the payload.
const CELL_OCTETS: usize = 52;
/// Cells of one packet at most.
const BATCH: usize = 64;
/// Packets that are taken at once.
const TURN: usize = 16;
/// Octets that the line holds: some ten packets, so that a thread that is late loses nothing.
const LINE_OCTETS: usize = 64 * 1024;
/// A packet of one octet says: the line brings a signal (1), brings none (0), or look at what is reported (2).
const NEWS: u8 = 2;
/// Or: nothing comes behind this until somebody is there again.
const DOWN: u8 = 3;
/// What is reported is at most so old.
const REPORT: Duration = Duration::from_millis(5);

/// What the adapter's thread says of itself.
#[derive(Debug, Default)]
struct Shared {
    up: AtomicBool,
    /// How often it was up and is no more.
    downs: AtomicU64,
    report: Mutex<Report>,
}

#[derive(Debug, Default)]
struct Report {
    status: String,
    counters: Vec<(&'static str, Counters)>,
}

impl Shared {
    /// Held for as long as a report is copied.
    fn report(&self) -> MutexGuard<'_, Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One end of the line.
#[derive(Debug)]
struct Line {
    end: OwnedFd,
    /// What was received and has not gone on.
    waiting: Vec<Cell>,
    /// A packet did not fit.
    blocked: bool,
    ended: bool,
}

impl Line {
    fn pair() -> Result<(Self, Self), Errno> {
        let (a, b) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let ends = [a, b].map(|end| {
            // A line of another length is a line too.
            let _ = sockopt::set_socket_send_buffer_size(&end, LINE_OCTETS);
            Line { end, waiting: Vec::with_capacity(BATCH * TURN), blocked: false, ended: false }
        });
        Ok(ends.into())
    }

    fn put(&mut self, octets: &[u8]) -> bool {
        match rustix::net::send(&self.end, octets, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(_) => true,
            Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS) => {
                self.blocked = true;
                false
            }
            Err(_) => {
                self.ended = true;
                false
            }
        }
    }

    /// Sends cells, a batch at a time; gives how many went.
    fn put_cells(&mut self, cells: &[Cell]) -> usize {
        let mut packet = [0; BATCH * CELL_OCTETS];
        let mut sent = 0;
        for batch in cells.chunks(BATCH) {
            for (place, cell) in packet.chunks_exact_mut(CELL_OCTETS).zip(batch) {
                place[..4].copy_from_slice(&cell.header_word().to_ne_bytes());
                place[4..].copy_from_slice(&cell.payload);
            }
            if !self.put(&packet[..batch.len() * CELL_OCTETS]) {
                break;
            }
            sent += batch.len();
        }
        sent
    }

    /// Receives some packets; hands on what is no cell.
    fn receive(&mut self, mut news: impl FnMut(u8)) {
        let mut packet = [0; BATCH * CELL_OCTETS];
        for _ in 0..TURN {
            let n = match rustix::net::recv(&self.end, &mut packet[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return self.ended = true,
                Ok((n, _)) => n,
                Err(Errno::AGAIN | Errno::INTR) => return,
                Err(_) => return self.ended = true,
            };
            if n == 1 {
                news(packet[0]);
            }
            for octets in packet[..n].chunks_exact(CELL_OCTETS) {
                let (Some(word), Some(payload)) = (octets.first_chunk(), octets.last_chunk()) else { continue };
                self.waiting.push(Cell::new(CellHeader::from_word(u32::from_ne_bytes(*word)), *payload));
            }
        }
    }
}

/// The network's end of an adapter with a thread of its own.
#[derive(Debug)]
pub struct Apart {
    line: Line,
    shared: Arc<Shared>,
    /// How often the adapter has said [`DOWN`].
    downs: u64,
    /// The network has taken all that was passed on to it: a link that goes down takes with it what lies there.
    drained: bool,
    /// The network has seen it up: what is passed on before is lost on a link that is down.
    seen_up: bool,
    /// Cells that have been passed to the adapter's thread.
    passed: Counters,
    /// As the adapter was told last.
    signal: Option<bool>,
    place: SocketPath,
}

impl Apart {
    /// Lets a server run on a thread of its own, which ends when this is dropped, or whatever it is at lets go of it. The thread
    /// may run where the caller may; making and dropping this take as long as the path's file system likes.
    ///
    /// # Errors
    /// No thread, or no descriptor.
    pub fn start(server: Server) -> std::io::Result<Self> {
        let (line, theirs) = Line::pair()?;
        let shared = Arc::new(Shared::default());
        let (report, place) = (shared.clone(), server.place().clone());
        report_on(&server, &report);
        let thread = std::thread::Builder::new().name("adapter".into());
        thread.spawn(move || {
            let (reported, changed) = (Instant::now(), false);
            Life { server, line: theirs, shared: report, reported, changed, news: false, downs: 0 }.run()
        })?;
        Ok(Apart {
            line,
            shared,
            downs: 0,
            drained: true,
            seen_up: false,
            passed: Counters::default(),
            signal: None,
            place,
        })
    }

    /// Where its server listens.
    pub fn place(&self) -> &SocketPath {
        &self.place
    }

    fn pass_on(&mut self, io: &mut NodeIo<'_>) -> bool {
        let mut any = false;
        while !self.line.waiting.is_empty() {
            let room = io.cells_out(0);
            let n = room.len().min(self.line.waiting.len());
            if n == 0 {
                break;
            }
            room[..n].copy_from_slice(&self.line.waiting[..n]);
            io.commit(0, n);
            self.line.waiting.drain(..n);
            (any, self.drained) = (true, false);
        }
        any
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        // At once, for whoever listens there next; the thread may be held up.
        self.place.remove();
    }
}

impl External for Apart {
    fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.line.end.as_fd())
    }

    fn keeps_fd(&self) -> bool {
        true
    }

    fn wants_read(&self) -> bool {
        self.line.waiting.is_empty() && !self.line.ended
    }

    fn wants_write(&self) -> bool {
        self.line.blocked && !self.line.ended
    }

    fn handle_readable(&mut self, io: &mut NodeIo<'_>, _: Time) {
        if self.wants_read() {
            let downs = &mut self.downs;
            self.line.receive(|news| *downs += u64::from(news == DOWN));
            if self.seen_up {
                self.pass_on(io);
            }
        }
    }

    fn handle_writable(&mut self, _: &mut NodeIo<'_>, _: Time) {
        self.line.blocked = false;
    }

    fn run(&mut self, io: &mut NodeIo<'_>, _: Time) -> bool {
        let mut any = self.pass_on(io);
        self.drained |= io.is_drained(0);
        while !self.line.blocked && !self.line.ended {
            let cells = io.cells_in(0);
            if cells.is_empty() {
                break;
            }
            let n = self.line.put_cells(cells);
            io.consume(0, n);
            self.passed.cells += n as u64;
            any |= n > 0;
        }
        self.seen_up = self.is_up();
        any
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    /// While the adapter is, and until what it sent before has been taken.
    fn is_up(&self) -> bool {
        let on_the_line = || self.shared.downs.load(Ordering::Acquire) != self.downs;
        let here = || !self.line.waiting.is_empty() || !self.drained;
        (self.shared.up.load(Ordering::Acquire) || on_the_line() || here()) && !self.line.ended
    }

    fn set_signal(&mut self, signal: bool) {
        if self.signal != Some(signal) && !self.line.blocked && self.line.put(&[u8::from(signal)]) {
            self.signal = Some(signal);
        }
    }

    fn counters(&self) -> Vec<(&'static str, Counters)> {
        let mut counters = self.shared.report().counters.clone();
        counters.push(("passed", self.passed));
        counters
    }

    fn status(&self) -> String {
        if self.line.ended { "has ended".into() } else { self.shared.report().status.clone() }
    }
}

fn report_on(server: &Server, shared: &Shared) {
    let report = Report { status: server.status(), counters: server.counters() };
    *shared.report() = report;
}

/// The adapter's thread.
struct Life {
    server: Server,
    line: Line,
    shared: Arc<Shared>,
    reported: Instant,
    /// Something has happened since.
    changed: bool,
    /// The network's thread is to look at what is reported.
    news: bool,
    /// How often [`DOWN`] is to be said.
    downs: u64,
}

impl Life {
    fn run(mut self) {
        let begin = Instant::now();
        let mut room = [Cell::default(); BATCH];
        let mut unsent = 0..0;
        loop {
            let now = Time::ZERO + begin.elapsed();
            if !self.wait(now) {
                // The path is no more this server's: whoever dropped the other end has removed it.
                return self.server.leave_path();
            }
            let now = Time::ZERO + begin.elapsed();
            self.server.take_cells(&self.line.waiting);
            self.line.waiting.clear();
            while !self.line.blocked && !self.line.ended {
                if unsent.is_empty() {
                    unsent = 0..self.server.give_cells(&mut room, now);
                }
                if unsent.is_empty() {
                    break;
                }
                self.changed = true;
                unsent.start += self.line.put_cells(&room[unsent.clone()]);
            }
            self.server.settle(now);
            self.report(!unsent.is_empty());
        }
    }

    /// Says what has become of the adapter, at once if a client has come or gone, and what it sent has left.
    fn report(&mut self, unsent: bool) {
        let up = self.server.is_up() || unsent;
        if self.shared.up.load(Ordering::Relaxed) != up || (self.changed && self.reported.elapsed() >= REPORT) {
            report_on(&self.server, &self.shared);
            (self.reported, self.changed) = (Instant::now(), false);
            let before = self.shared.up.load(Ordering::Relaxed);
            if before && !up {
                // Before it is seen that it is not up.
                self.shared.downs.fetch_add(1, Ordering::Release);
                self.downs += 1;
            }
            self.shared.up.store(up, Ordering::Release);
            self.news |= before != up;
        }
        while self.downs > 0 && !self.line.blocked && self.line.put(&[DOWN]) {
            self.downs -= 1;
        }
        if self.news && !self.line.blocked {
            self.news = !self.line.put(&[NEWS]);
        }
    }

    /// Waits for the line, the client, or the adapter's time. False if the other end of the line has gone.
    fn wait(&mut self, now: Time) -> bool {
        let server = &mut self.server;
        let next = if self.line.blocked { server.blocked_timeout() } else { server.poll_timeout() };
        let report = self.changed.then_some(REPORT);
        let left = next.map(|time| time.since(now)).into_iter().chain(report).min();
        let spec = left.map(|d| Timespec { tv_sec: d.as_secs() as i64, tv_nsec: d.subsec_nanos().into() });
        let flags = |reads: bool, writes: bool| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, reads);
            flags.set(PollFlags::OUT, writes);
            flags
        };
        let (line, client) = {
            let mut fds = vec![PollFd::new(&self.line.end, flags(true, self.line.blocked))];
            if let Some(fd) = server.as_fd() {
                fds.push(PollFd::from_borrowed_fd(fd, flags(server.wants_read(), server.wants_write())));
            }
            // An error here is a signal or lack of memory; either way everything is looked at.
            let _ = poll(&mut fds, spec.as_ref());
            (fds[0].revents(), fds.get(1).map_or(PollFlags::empty(), PollFd::revents))
        };
        self.changed |= !line.is_empty() || !client.is_empty();
        if !line.is_empty() {
            self.line.blocked &= !line.intersects(PollFlags::OUT);
            let mut signal = None;
            self.line.receive(|news| signal = Some(news == 1));
            if let Some(signal) = signal {
                server.set_signal(signal);
            }
        }
        let broken = client.intersects(PollFlags::HUP | PollFlags::ERR);
        if broken || client.contains(PollFlags::IN) {
            server.read(now);
        }
        if broken || client.contains(PollFlags::OUT) {
            server.write(now);
        }
        !self.line.ended
    }
}
