//! System calls that rustix does not have.

mod confined;

pub(crate) use confined::{Role, confine};
pub(crate) use endpoint::shared_copy::{copy as copy_shared, copy_in, copy_out};
use rustix::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use rustix::io::Errno;
use std::sync::atomic::AtomicU8;

/// The supplementary groups of whoever is at the other end of a UNIX socket, as they were when it connected; none if
/// the system does not say.
pub(crate) fn peer_groups(socket: impl AsFd) -> Vec<u32> {
    let mut groups = [0 as libc::gid_t; endpoint::seqpacket::MAX_GROUPS];
    let mut octets = size_of_val(&groups) as libc::socklen_t;
    // SAFETY: the descriptor is open while it is borrowed; the kernel writes at most `octets` octets to `groups`, which
    // has as many and may hold any bits, and says in `octets` how many it has written.
    let done = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERGROUPS,
            groups.as_mut_ptr().cast(),
            &raw mut octets,
        )
    };
    // More than there is room for: the kernel refuses then, and the caller has the rights of the primary group.
    if done != 0 {
        return Vec::new();
    }
    groups[..octets as usize / size_of::<libc::gid_t>()].to_vec()
}

/// A process that was forked; killed and waited for when dropped.
#[derive(Debug)]
pub(crate) struct Child {
    /// Zero once it has been waited for, and of one that is not this process's child.
    id: libc::pid_t,
    /// The process of one that is not this process's child.
    adopted: Option<OwnedFd>,
    /// How it has ended, as `waitpid` says.
    status: Option<libc::c_int>,
}

impl Child {
    /// None.
    pub(crate) fn none() -> Self {
        Child::of(0)
    }

    /// A child of this process's, by its number.
    pub(crate) fn of(id: libc::pid_t) -> Self {
        Child { id, adopted: None, status: None }
    }

    /// One that another process has begun, which has ended.
    pub(crate) fn adopted(process: OwnedFd) -> Self {
        Child { id: 0, adopted: Some(process), status: None }
    }

    /// A descriptor of it, for another process.
    pub(crate) fn process(&self) -> Option<OwnedFd> {
        if let Some(process) = &self.adopted {
            return process.try_clone().ok();
        }
        // A child that has not been waited for: no other process has its number.
        let id = rustix::process::Pid::from_raw(self.id)?;
        rustix::process::pidfd_open(id, rustix::process::PidfdFlags::empty()).ok()
    }

    /// Kills it. It may take its time to end.
    pub(crate) fn kill(&self) {
        if self.id > 0 {
            // SAFETY: a child that has not been waited for: no other process has its number.
            unsafe { libc::kill(self.id, libc::SIGKILL) };
        }
        if let Some(process) = &self.adopted {
            let _ = rustix::process::pidfd_send_signal(process, rustix::process::Signal::KILL);
        }
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        if self.id > 0 {
            let mut status = 0;
            // SAFETY: as above; the status is written to an int of this function's.
            let got = unsafe { libc::waitpid(self.id, &raw mut status, libc::WNOHANG) };
            if got != 0 {
                self.status = (got == self.id).then_some(status);
                self.id = 0;
            }
        }
        if let Some(process) = &self.adopted {
            let none = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
            let mut fds = [rustix::event::PollFd::new(process, rustix::event::PollFlags::IN)];
            if matches!(rustix::event::poll(&mut fds, Some(&none)), Ok(1..)) {
                self.adopted = None;
            }
        }
        self.id <= 0 && self.adopted.is_none()
    }

    /// How it has ended, in words; `None` if it has not, or nothing is known of it.
    pub(crate) fn outcome(&mut self) -> Option<String> {
        self.has_ended();
        let status = self.status?;
        Some(match libc::WIFSIGNALED(status) {
            true => format!("killed by signal {}", libc::WTERMSIG(status)),
            false => format!("status {}", libc::WEXITSTATUS(status)),
        })
    }

    /// Waits until it has ended, and kills it if that takes longer than `patience`.
    pub(crate) fn end(&mut self, patience: std::time::Duration) {
        let begin = std::time::Instant::now();
        while !self.has_ended() {
            if begin.elapsed() >= patience {
                self.kill();
                std::thread::sleep(std::time::Duration::from_millis(20));
                self.has_ended();
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.has_ended() {
            self.kill();
            std::thread::sleep(std::time::Duration::from_millis(5));
            self.has_ended();
        }
    }
}

/// Starts a process of this program's that runs `life` and ends. Of this process's descriptors it has `keep` only, by
/// the time that this returns: what is closed here later has its last close here, or where it was passed to, and not in
/// that process.
pub(crate) fn fork_child(name: &std::ffi::CStr, keep: &[RawFd], life: impl FnOnce()) -> Result<Child, Errno> {
    // SAFETY: where this process has other threads, the child takes no lock that one of them may hold: it neither logs,
    // nor prints, nor reads the environment. It may allocate a little: the programs' allocator (mimalloc) gives a thread
    // memory from pages of its own, without a lock. Those of glibc and musl, in tests, `fork` itself makes usable. Such
    // a child is the spawner only; what it starts comes of a process without other threads.
    start(name, keep, life, || unsafe { libc::fork() }).map(Child::of)
}

/// The same as a child of this process's parent, of a process without other threads; gives its number.
pub(crate) fn fork_sibling(name: &std::ffi::CStr, keep: &[RawFd], life: impl FnOnce()) -> Result<libc::pid_t, Errno> {
    let flags = libc::c_long::from(libc::CLONE_PARENT | libc::SIGCHLD);
    // SAFETY: a fork: no stack, and nothing that the kernel writes to. What `fork` does besides is for threads, which
    // the callers' processes do not have.
    start(name, keep, life, || unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) as libc::pid_t })
}

fn start(
    name: &std::ffi::CStr,
    keep: &[RawFd],
    life: impl FnOnce(),
    fork: impl FnOnce() -> libc::pid_t,
) -> Result<libc::pid_t, Errno> {
    let (told, tell) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let keep = [keep, &[tell.as_raw_fd()]].concat();
    // The child runs `life` and nothing else, and ends by `_exit`, so that nothing of the parent's is ended twice.
    match fork() {
        -1 => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::AGAIN)),
        0 => {
            become_separate(name, &keep);
            let _ = rustix::io::write(&tell, &[0]);
            drop(tell);
            let life = std::panic::AssertUnwindSafe(life);
            exit(i32::from(std::panic::catch_unwind(life).is_err()))
        }
        child => {
            drop(tell);
            // Nothing that it closes is the last of its kind, so it waits for nobody.
            let _ = rustix::io::retry_on_intr(|| rustix::io::read(&told, &mut [0; 1]));
            Ok(child)
        }
    }
}

/// What a child does first: no signals that are meant for the parent, no descriptors but its own.
fn become_separate(name: &std::ffi::CStr, keep: &[RawFd]) {
    let mut keep: Vec<RawFd> = keep.iter().copied().filter(|fd| *fd > 2).collect();
    keep.sort_unstable();
    // SAFETY: calls of the kernel on this process alone, with numbers and a string that lives through the call. The
    // descriptors that are closed are the parent's copies, which nothing in this process uses.
    unsafe {
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGPIPE, libc::SIGQUIT, libc::SIGUSR1] {
            libc::signal(signal, libc::SIG_IGN);
        }
        libc::prctl(libc::PR_SET_NAME, name.as_ptr());
        let mut first = 3;
        for fd in keep {
            if fd > first {
                libc::syscall(libc::SYS_close_range, first as u32, (fd - 1) as u32, 0);
            }
            first = fd + 1;
        }
        libc::syscall(libc::SYS_close_range, first as u32, u32::MAX, 0);
        let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        if nothing >= 0 {
            for fd in 0..3 {
                libc::dup2(nothing, fd);
            }
            if nothing > 2 {
                libc::close(nothing);
            }
        }
    }
    raise_descriptors();
}

/// Ends this process at once, without destructors.
pub(crate) fn exit(status: i32) -> ! {
    // SAFETY: a call of the kernel on this process alone, which does not return.
    unsafe { libc::_exit(status) }
}

/// Lets this process have as many descriptors as the system allows.
pub(crate) fn raise_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// Whether a descriptor is a memory file of ordinary pages: its end waits for nobody.
pub(crate) fn is_memory_file(fd: &OwnedFd) -> bool {
    const TMPFS_MAGIC: u64 = 0x0102_1994;
    rustix::fs::fcntl_get_seals(fd).is_ok() && rustix::fs::fstatfs(fd).is_ok_and(|s| s.f_type as u64 == TMPFS_MAGIC)
}

/// Octets of what was sent on a UNIX socket that the other side has not taken, with what the system keeps for each
/// packet.
pub(crate) fn untaken(socket: impl AsFd) -> usize {
    const SIOCOUTQ: rustix::ioctl::Opcode = 0x5411;
    // SAFETY: this request writes an int and reads nothing.
    let getter = unsafe { rustix::ioctl::Getter::<SIOCOUTQ, std::ffi::c_int>::new() };
    // SAFETY: as above; of a descriptor that is no socket it is an error or another number of octets.
    let octets = unsafe { rustix::ioctl::ioctl(socket, getter) };
    octets.map_or(0, |octets| usize::try_from(octets).unwrap_or_default())
}

/// Octets that are copied, and asked for, together.
const STEP_OCTETS: usize = 512;
const LINE_OCTETS: usize = 64;

/// As [`copy_shared`], and asks for as many octets of `ahead` meanwhile, which are to be copied soon: lines that
/// another core has just written come in half the time if they are asked for beyond the ends of pages and SDUs, where
/// the processor's own prefetch begins anew.
#[inline]
pub(crate) fn copy_shared_and_fetch(from: &[AtomicU8], to: &[AtomicU8], mut ahead: &[AtomicU8]) {
    if ahead.is_empty() {
        return copy_shared(from, to);
    }
    for (from, to) in from.chunks(STEP_OCTETS).zip(to.chunks(STEP_OCTETS)) {
        let (lines, rest) = ahead.split_at(ahead.len().min(STEP_OCTETS));
        for line in lines.chunks(LINE_OCTETS) {
            fetch(line);
        }
        ahead = rest;
        copy_shared(from, to);
    }
}

/// Asks for a cache line, into the second-level cache, which waits for more lines at once than the first does.
#[inline(always)]
fn fetch(line: &[AtomicU8]) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing architecturally and faults on no address; every x86-64 processor has SSE.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(line.as_ptr().cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_asks_for_what_is_next_copies_the_same() {
        let octets: Vec<AtomicU8> = (0..1500).map(|i| AtomicU8::new(i as u8)).collect();
        for (n, room, ahead) in
            [(0, 9, 9), (1, 1, 0), (255, 300, 64), (256, 256, 1500), (1500, 1500, 3), (1500, 700, 1500)]
        {
            let to: Vec<AtomicU8> = (0..1500).map(|_| AtomicU8::new(0xff)).collect();
            copy_shared_and_fetch(&octets[..n], &to[..room], &octets[..ahead]);
            let copied: Vec<u8> = to.iter().map(|octet| octet.load(std::sync::atomic::Ordering::Relaxed)).collect();
            let expected: Vec<u8> = (0..1500).map(|i| if i < n.min(room) { i as u8 } else { 0xff }).collect();
            assert_eq!(copied, expected, "{n} octets to {room}, {ahead} ahead");
        }
    }

    #[test]
    fn a_process_that_was_started_has_none_of_the_descriptors_but_its_own() {
        for round in 0..50 {
            let (_others, inside) = std::os::unix::net::UnixStream::pair().unwrap();
            let (own, end) = std::os::unix::net::UnixStream::pair().unwrap();
            let life = || _ = rustix::io::read(&own, &mut [0; 1]);
            let child = fork_child(c"test", &[own.as_raw_fd()], life).unwrap();
            let name = |fd: RawFd| std::fs::read_link(format!("/proc/self/fd/{fd}")).unwrap();
            let folder = std::fs::read_dir(format!("/proc/{}/fd", child.id)).unwrap().flatten();
            let has: Vec<_> = folder.filter_map(|entry| std::fs::read_link(entry.path()).ok()).collect();
            assert!(has.contains(&name(own.as_raw_fd())), "round {round}: {has:?}");
            assert!(!has.contains(&name(inside.as_raw_fd())), "round {round}: {has:?}");
            drop(end);
        }
    }

    #[test]
    fn the_groups_of_the_other_end_are_this_processs_own() {
        let (near, _far) = std::os::unix::net::UnixStream::pair().unwrap();
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|l| l.strip_prefix("Groups:")).unwrap();
        let own: Vec<u32> = line.split_whitespace().map(|g| g.parse().unwrap()).collect();
        assert_eq!(peer_groups(&near), own);
    }
}
