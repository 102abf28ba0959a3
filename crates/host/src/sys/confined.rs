//! What a process may still do that takes what clients send: an own user where root has started it, no capabilities, no
//! files but those of `/proc` that tell of its own descriptors, and few system calls.
//!
//! The acceptor confines itself, and what it starts is confined as it is; a user proxy confines itself further. It
//! becomes a user of its own, since the kernel counts some things by user: descriptors in transit (`SCM_RIGHTS`),
//! threads, octets in pipes. Of one count for all proxies, one client's user could leave nothing to the others.

use rustix::fd::{AsRawFd, FromRawFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::process::{DumpableBehavior, Gid, Resource, Rlimit, Uid, geteuid, set_dumpable_behavior, setrlimit};
use rustix::thread as threads;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Op, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};
use std::collections::BTreeMap;

/// The user of the acceptor, and the group of all, where root has started them: below `nobody`, in the range that
/// Debian's policy reserves.
pub(crate) const USER: u32 = 65_533;
/// The users of user proxies: a client's user has the one of its number, in all daemons of a machine. Neither Debian nor
/// systemd gives away numbers of this range.
const PROXY_USERS: std::ops::Range<u32> = 0x7000_0000..0x7ffe_0000;
/// The bits that all of them have in common, which a filter of system calls can compare.
const PROXY_USERS_MASK: u64 = 0xf000_0000;

/// Whose life it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// It accepts, starts and kills processes.
    Acceptor,
    /// It passes packets of this user's.
    UserProxy { of: u32 },
}

/// The user that the proxy of a client's user has. Clients' users whose numbers differ by a multiple of 268 304 384 have
/// one in common.
pub(crate) const fn proxy_user(of: u32) -> u32 {
    PROXY_USERS.start + of % (PROXY_USERS.end - PROXY_USERS.start)
}

/// Namespaces, which need flags of `clone`.
const NEW_NAMESPACES: u64 = 0x7e02_0000;
/// All that version 1 of Landlock can forbid: to execute, write, read, list, remove and make files.
const ALL_ACCESS: u64 = (1 << 13) - 1;
/// To read files and to list folders.
const READ_ACCESS: u64 = 1 << 2 | 1 << 3;
const RULE_PATH_BENEATH: libc::c_int = 1;

/// System calls of both roles: memory, threads, waiting, and what is done with descriptors that there are.
const COMMON: &[libc::c_long] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_statx,
    libc::SYS_fstatfs,
    libc::SYS_fcntl,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_pipe2,
    libc::SYS_eventfd2,
    libc::SYS_memfd_create,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_ppoll,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_futex,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_capget,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_prlimit64,
    libc::SYS_prctl,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_shutdown,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_clone3,
];

/// Calls that older processors' tables have beside those.
#[cfg(target_arch = "x86_64")]
const OLDER: &[libc::c_long] = &[libc::SYS_poll, libc::SYS_epoll_wait, libc::SYS_dup2];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[libc::c_long] = &[];

/// Calls of the acceptor: it accepts, and starts, confines, kills and waits for processes.
const OF_ACCEPTOR: &[libc::c_long] = &[
    libc::SYS_accept4,
    libc::SYS_wait4,
    libc::SYS_kill,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_capset,
    libc::SYS_seccomp,
    libc::SYS_landlock_create_ruleset,
    libc::SYS_landlock_add_rule,
    libc::SYS_landlock_restrict_self,
];

/// Confines this process, which has one thread. Gives what the system does not have for it, in words: all else is in
/// force.
pub(crate) fn confine(role: Role) -> Vec<String> {
    let mut missing = Vec::new();
    let mut note = |what: &str, done: Result<(), String>| missing.extend(done.err().map(|e| format!("{what}: {e}")));
    for (kind, most) in [(Resource::Core, 0), (Resource::Memlock, 0), (Resource::Msgqueue, 0), (Resource::Rtprio, 0)] {
        let _ = setrlimit(kind, Rlimit { current: Some(most), maximum: Some(most) });
    }
    note("no_new_privs", threads::set_no_new_privs(true).map_err(text));
    match role {
        Role::Acceptor => note("own user", change_user()),
        Role::UserProxy { of } => note("own user", become_proxy_user(of)),
    }
    note("Landlock", restrict_files(if role == Role::Acceptor { c"/proc" } else { c"/proc/self/fdinfo" }));
    note("seccomp", restrict_calls(role));
    missing
}

fn text(e: impl ToString) -> String {
    e.to_string()
}

/// Becomes [`USER`] where this is root, and keeps of all capabilities at most the one to change the user: user proxies
/// need it at their start, and the filter of system calls confines it to [`PROXY_USERS`].
fn change_user() -> Result<(), String> {
    for number in 0..64 {
        if let Some(one) = threads::CapabilitySet::from_bits(1 << number) {
            let _ = threads::remove_capability_from_bounding_set(one);
        }
    }
    let (changed, kept) = match geteuid().is_root().then(become_user) {
        Some(Ok(())) => (Ok(()), threads::CapabilitySet::SETUID),
        Some(Err(e)) => (Err(e), threads::CapabilitySet::empty()),
        None => (Ok(()), threads::CapabilitySet::empty()),
    };
    keep_capabilities(kept)?;
    let probed = if kept.is_empty() { Ok(()) } else { probe_proxy_users() };
    let _ = set_dumpable_behavior(DumpableBehavior::Dumpable);
    changed.and(probed)
}

fn keep_capabilities(kept: threads::CapabilitySet) -> Result<(), String> {
    let none = threads::CapabilitySet::empty();
    let sets = threads::CapabilitySets { effective: kept, permitted: kept, inheritable: none };
    threads::set_capabilities(None, sets).map_err(text)
}

fn become_user() -> Result<(), String> {
    let (uid, gid) = (Uid::from_raw(USER), Gid::from_raw(USER));
    threads::set_thread_groups(&[]).map_err(text)?;
    threads::set_thread_res_gid(gid, gid, gid).map_err(text)?;
    threads::set_keep_capabilities(true).map_err(text)?;
    threads::set_thread_res_uid(uid, uid, uid).map_err(text)
}

/// Whether this process's user namespace has the users of proxies. Without them no capability is kept, and all proxies
/// share the acceptor's user.
fn probe_proxy_users() -> Result<(), String> {
    let (own, other) = (Uid::from_raw(USER), Uid::from_raw(PROXY_USERS.start));
    let probed = threads::set_thread_res_uid(own, other, own).and_then(|()| threads::set_thread_res_uid(own, own, own));
    probed.map_err(|e| {
        let _ = keep_capabilities(threads::CapabilitySet::empty());
        format!("none for each user's proxy ({e}): users share the system's count of descriptors in transit")
    })
}

/// Becomes the user of a client's user's proxy where the acceptor may give it one, and gives up the capability for it.
/// The saved user stays the acceptor's, so that the acceptor may kill this process; it cannot be taken on again, since
/// the filter forbids the call.
fn become_proxy_user(of: u32) -> Result<(), String> {
    if !threads::capabilities(None).map_err(text)?.effective.contains(threads::CapabilitySet::SETUID) {
        return Ok(());
    }
    let (own, acceptors) = (Uid::from_raw(proxy_user(of)), Uid::from_raw(USER));
    let changed = threads::set_thread_res_uid(own, own, acceptors).map_err(text);
    keep_capabilities(threads::CapabilitySet::empty())?;
    // Otherwise what `/proc` tells of its own descriptors would be root's.
    let _ = set_dumpable_behavior(DumpableBehavior::Dumpable);
    changed
}

/// Forbids all files but those beneath a folder, which can be read.
fn restrict_files(beneath: &std::ffi::CStr) -> Result<(), String> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = openat(CWD, beneath, flags, Mode::empty()).map_err(text)?;
    let ruleset = create_ruleset()?;
    add_rule(&ruleset, &folder)?;
    // SAFETY: a call with numbers, on this thread alone.
    let done = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) };
    // The folder stays what the rule means as long as it is open.
    std::mem::forget(folder);
    outcome(done).map(drop)
}

fn create_ruleset() -> Result<OwnedFd, String> {
    let handled = ALL_ACCESS;
    // SAFETY: the kernel reads eight octets of a number that lives through the call.
    let fd = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::from_ref(&handled), size_of_val(&handled), 0)
    };
    // SAFETY: a descriptor that the kernel has just made, which nobody else has.
    outcome(fd).map(|fd| unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

fn add_rule(ruleset: &OwnedFd, folder: &OwnedFd) -> Result<(), String> {
    // `struct landlock_path_beneath_attr`, which is packed: 64 bits of access, 32 of a descriptor.
    let mut rule = [0; 12];
    rule[..8].copy_from_slice(&READ_ACCESS.to_ne_bytes());
    rule[8..].copy_from_slice(&folder.as_raw_fd().to_ne_bytes());
    // SAFETY: the kernel reads the twelve octets of `rule`, which lives through the call.
    let done =
        unsafe { libc::syscall(libc::SYS_landlock_add_rule, ruleset.as_raw_fd(), RULE_PATH_BENEATH, rule.as_ptr(), 0) };
    outcome(done).map(drop)
}

fn outcome(done: libc::c_long) -> Result<libc::c_long, String> {
    if done < 0 { Err(std::io::Error::last_os_error().to_string()) } else { Ok(done) }
}

/// Lets this process, and its threads and children, do the calls of its role; others fail.
fn restrict_calls(role: Role) -> Result<(), String> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    let more = if role == Role::Acceptor { OF_ACCEPTOR } else { &[] };
    rules.extend(COMMON.iter().chain(OLDER).chain(more).map(|number| (*number, Vec::new())));
    let only = |argument, op, value| {
        let condition = SeccompCondition::new(argument, Length::Dword, op, value).map_err(text)?;
        SeccompRule::new(vec![condition]).map_err(text)
    };
    let reads = (libc::O_RDONLY | libc::O_CLOEXEC) as u64;
    let lists = reads | libc::O_DIRECTORY as u64;
    rules.insert(libc::SYS_openat, vec![only(2, Op::Eq, reads)?, only(2, Op::Eq, lists)?]);
    rules.insert(libc::SYS_socketpair, vec![only(0, Op::Eq, libc::AF_UNIX as u64)?]);
    // What was sent and is unread (`SIOCOUTQ`).
    rules.insert(libc::SYS_ioctl, vec![only(1, Op::Eq, 0x5411)?]);
    rules.insert(libc::SYS_clone, vec![only(0, Op::MaskedEq(NEW_NAMESPACES), 0)?]);
    if role == Role::Acceptor {
        rules.insert(libc::SYS_setresuid, vec![becomes_proxy_user()?]);
    }
    // A filter cannot see its flags. The C library takes `clone` where there is no such call.
    if role == Role::Acceptor {
        let clone3 = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
        filter(clone3, SeccompAction::Allow, SeccompAction::Errno(libc::ENOSYS as u32))?;
    }
    filter(rules, SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow)
}

/// A process becomes one of [`PROXY_USERS`], and keeps [`USER`] as the saved one.
fn becomes_proxy_user() -> Result<SeccompRule, String> {
    let (masked, start) = (Op::MaskedEq(PROXY_USERS_MASK), PROXY_USERS.start.into());
    let conditions = [(0, masked.clone(), start), (1, masked, start), (2, Op::Eq, USER.into())];
    let condition = |(argument, op, value)| SeccompCondition::new(argument, Length::Dword, op, value);
    SeccompRule::new(conditions.into_iter().map(condition).collect::<Result<_, _>>().map_err(text)?).map_err(text)
}

fn filter(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    mismatch: SeccompAction,
    matched: SeccompAction,
) -> Result<(), String> {
    let arch = std::env::consts::ARCH.try_into().map_err(text)?;
    let filter = SeccompFilter::new(rules, mismatch, matched, arch).map_err(text)?;
    let program: BpfProgram = filter.try_into().map_err(text)?;
    apply_filter(&program).map_err(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::fork_child;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    /// What a process of a role says of itself and of what it tries, a line for each.
    fn inside(role: Role, tries: fn(&mut Vec<String>)) -> Vec<String> {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let child = fork_child(c"test", &[theirs.as_raw_fd()], || {
            let mut lines = confine(Role::Acceptor);
            if role != Role::Acceptor {
                lines.extend(confine(role));
            }
            tries(&mut lines);
            let _ = rustix::io::write(&theirs, lines.join("\n").as_bytes());
        })
        .unwrap();
        drop(theirs);
        let mut said = String::new();
        ours.read_to_string(&mut said).unwrap();
        drop(child);
        said.lines().map(str::to_owned).collect()
    }

    fn tell(lines: &mut Vec<String>, what: &str, done: libc::c_long) {
        lines.push(format!("{what}: {}", if done < 0 { "refused" } else { "DONE" }));
    }

    fn try_what_is_forbidden(lines: &mut Vec<String>) {
        let path = c"/etc/passwd".as_ptr();
        let open = |flags: libc::c_int| {
            // SAFETY: a path that lives through the call.
            unsafe { libc::openat(libc::AT_FDCWD, path, flags) }.into()
        };
        tell(lines, "open", open(libc::O_RDONLY | libc::O_CLOEXEC));
        tell(lines, "open to write", open(libc::O_WRONLY | libc::O_CLOEXEC));
        // SAFETY: calls with numbers and null pointers, which end nothing of this process's.
        let calls = unsafe {
            [
                ("ptrace", libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0)),
                ("socket", libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0).into()),
                ("unix socket", libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0).into()),
                ("execve", libc::syscall(libc::SYS_execve, path, 0, 0)),
                ("unshare", libc::unshare(libc::CLONE_NEWUSER).into()),
                ("setuid", libc::syscall(libc::SYS_setuid, 0)),
                ("setresuid to root", libc::syscall(libc::SYS_setresuid, 0, 0, USER)),
                ("setresuid to a user", libc::syscall(libc::SYS_setresuid, 1000, 1000, USER)),
                ("setresuid for ever", libc::syscall(libc::SYS_setresuid, PROXY_USERS.start, PROXY_USERS.start, 0)),
                ("process_vm_readv", libc::syscall(libc::SYS_process_vm_readv, libc::getppid(), 0, 0, 0, 0, 0)),
                ("unlink", libc::unlink(c"/tmp/nothing".as_ptr()).into()),
                ("chdir", libc::chdir(c"/".as_ptr()).into()),
            ]
        };
        calls.into_iter().for_each(|(what, done)| tell(lines, what, done));
    }

    #[test]
    fn a_confined_process_opens_no_file_and_no_socket_and_traces_nobody() {
        for role in [Role::Acceptor, Role::UserProxy { of: 7 }] {
            let lines = inside(role, try_what_is_forbidden);
            assert!(lines.len() >= 14, "{role:?}: {lines:?}");
            // Where the kernel has no Landlock, a file that anybody may read can be read, and that is told.
            let told = |line: &String| line.starts_with("Landlock: ");
            let opens = |line: &String| line == "open: DONE" && lines.iter().any(told);
            let wrong: Vec<_> = lines.iter().filter(|l| !l.ends_with(": refused") && !told(l) && !opens(l)).collect();
            assert!(wrong.is_empty(), "{role:?}: {wrong:?}");
        }
    }

    #[test]
    fn a_confined_process_has_another_user_and_no_capability_and_sees_its_own_descriptors() {
        if !geteuid().is_root() {
            return;
        }
        let lines = inside(Role::UserProxy { of: 7 }, |lines| {
            let none = threads::capabilities(None).is_ok_and(|sets| sets.permitted.is_empty());
            lines.push(format!("user {} {none}", geteuid().as_raw()));
            let (near, _far) = UnixStream::pair().unwrap();
            lines.push(format!("empty {}", !endpoint::passed::lie_in(&near)));
            endpoint::passed::collect_circles();
            // SAFETY: a call with numbers. It would take on the acceptor's user again, if the filter let it.
            let back = unsafe { libc::syscall(libc::SYS_setresuid, USER, USER, USER) };
            lines.push(format!("back {}", back == 0));
            lines.push(format!("thread {}", std::thread::spawn(|| 7).join().is_ok_and(|n| n == 7)));
        });
        let said = lines.iter().filter(|line| !line.starts_with("Landlock: ")).collect::<Vec<_>>();
        assert_eq!(said, [&format!("user {} true", 0x7000_0007), "empty true", "back false", "thread true"]);
    }
}
