//! Lines of the log on their way to whoever reads them: a bounded queue, and a thread that writes.
//!
//! Standard error may be a pipe that nobody reads or a terminal that is stopped. A thread that logs never waits for it:
//! a line for which the queue has no room is dropped and counted, and the next line that is written tells how many are
//! missing.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Octets that wait at most.
pub const QUEUE_OCTETS: usize = 256 << 10;

/// Lines dropped in this process, by all queues.
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Lines of the log that this process has dropped, because nobody took those before them.
pub fn dropped() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

#[derive(Debug, Default)]
struct Queue {
    lines: VecDeque<Vec<u8>>,
    octets: usize,
    /// A line is being written.
    writing: bool,
    /// Lines dropped since the last one that was written.
    missing: u64,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The queue. Clones lead to the same one; each `write` is a line.
#[derive(Debug, Clone)]
pub struct Lines(Arc<Shared>);

impl Lines {
    /// Starts the thread that writes to `to`.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn start(to: impl Write + Send + 'static) -> io::Result<Self> {
        let lines = Lines(Arc::default());
        let shared = lines.0.clone();
        std::thread::Builder::new().name("log".into()).spawn(move || carry(&shared, to))?;
        Ok(lines)
    }

    /// Queues a line. Waits for nobody outside this process.
    pub fn push(&self, line: &[u8]) {
        let mut queue = self.0.queue();
        if queue.octets + line.len() > QUEUE_OCTETS {
            queue.missing += 1;
            DROPPED.fetch_add(1, Ordering::Relaxed);
            return;
        }
        queue.octets += line.len();
        queue.lines.push_back(line.to_vec());
        drop(queue);
        self.0.changed.notify_all();
    }

    /// Waits until all lines are written, for `patience` at most. False if some are not.
    pub fn flush(&self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let mut queue = self.0.queue();
        while queue.writing || !queue.lines.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            queue = self.0.changed.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The thread's whole life.
fn carry(shared: &Shared, mut to: impl Write) {
    let mut queue = shared.queue();
    loop {
        let Some(line) = queue.lines.pop_front() else {
            queue = shared.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        queue.octets -= line.len();
        queue.writing = true;
        let missing = std::mem::take(&mut queue.missing);
        drop(queue);
        // Where nobody can be told, the log has no other place either.
        let _ = to.write_all(&line);
        if missing > 0 {
            let _ = writeln!(to, "{missing} lines of the log were dropped: nobody read those before them");
        }
        let _ = to.flush();
        queue = shared.queue();
        queue.writing = false;
        shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// Somebody who reads when told to.
    struct Reader {
        may: Receiver<()>,
        got: Sender<Vec<u8>>,
    }

    impl Write for Reader {
        fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
            let _ = self.may.recv();
            let _ = self.got.send(octets.to_vec());
            Ok(octets.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn whoever_logs_waits_for_no_reader_and_lines_without_room_are_counted_and_told_of() {
        let ((may, told), (got, read)) = (channel(), channel());
        let lines = Lines::start(Reader { may: told, got }).unwrap();
        let (line, before) = ([b'x'; 1000], dropped());
        // One is being written at once, so that it takes no room.
        lines.push(b"first\n");
        while !lines.0.queue().writing {
            std::thread::yield_now();
        }
        let sent = 1000;
        // Whoever waits for the reader waits for ever.
        (0..sent).for_each(|_| lines.push(&line));
        let (kept, lost) = (QUEUE_OCTETS / line.len(), sent - QUEUE_OCTETS / line.len());
        assert_eq!(dropped() - before, lost as u64);
        assert!(!lines.flush(Duration::from_millis(20)), "nobody reads");
        drop(may);
        assert!(lines.flush(Duration::from_secs(10)));
        let text = read.try_iter().flatten().collect::<Vec<u8>>();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text.matches('x').count(), kept * line.len());
        let told = format!("{lost} lines of the log were dropped: nobody read those before them\n");
        assert!(text.contains(&told), "{}", &text[text.len() - 200..]);
    }
}
