//! What goes beside the octets of a message (`cmsg(3)`): the time of an SDU, and descriptors that are passed on.

use crate::service::complain;
use crate::{memory, real, table};
use libc::{SCM_RIGHTS, SO_TIMESTAMP, SO_TIMESTAMPNS, SOL_SOCKET, c_int, c_void, cmsghdr, msghdr, socklen_t};
use rustix::io::Errno;

/// Octets of a `struct cmsghdr`, which keeps what follows aligned.
const HEAD_OCTETS: usize = size_of::<cmsghdr>();
/// With a `struct timeval` or `timespec`.
const TIME_OCTETS: usize = HEAD_OCTETS + 16;

fn is_on(fd: c_int, option: c_int) -> bool {
    let (mut on, mut octets): (c_int, socklen_t) = (0, size_of::<c_int>() as socklen_t);
    // SAFETY: an int and its length, of this function's own.
    let asked =
        real::result(
            || unsafe { real::getsockopt(fd, SOL_SOCKET, option, (&raw mut on).cast(), &raw mut octets) } as isize
        );
    asked.is_ok() && on != 0
}

/// Puts the time beside a received SDU, where the program has asked for it (`SO_TIMESTAMP`, `SO_TIMESTAMPNS`) and has
/// room.
///
/// # Errors
/// `EFAULT`.
///
/// # Safety
/// A message as `recvmsg` has it.
pub(crate) unsafe fn put_time(fd: c_int, message: *mut msghdr, now_nanos: fn() -> u64) -> Result<(), Errno> {
    // SAFETY: as the caller says.
    let head = unsafe { memory::get(message) }?;
    let mut put = 0;
    if head.msg_controllen > 0
        && let Some((kind, part)) = wanted(fd)
    {
        let nanos = now_nanos();
        let mut octets = [0; TIME_OCTETS];
        octets[..8].copy_from_slice(&(TIME_OCTETS as u64).to_ne_bytes());
        octets[8..12].copy_from_slice(&SOL_SOCKET.to_ne_bytes());
        octets[12..16].copy_from_slice(&kind.to_ne_bytes());
        octets[16..24].copy_from_slice(&(nanos / 1_000_000_000).to_ne_bytes());
        octets[24..].copy_from_slice(&(nanos % 1_000_000_000 / part).to_ne_bytes());
        // SAFETY: as the caller says: room for `msg_controllen` octets, and the message itself.
        unsafe {
            if head.msg_controllen >= TIME_OCTETS {
                memory::put_octets(head.msg_control, &octets)?;
                put = TIME_OCTETS;
            } else {
                (*message).msg_flags |= libc::MSG_CTRUNC;
            }
        }
    }
    // SAFETY: as above.
    unsafe { (*message).msg_controllen = put };
    Ok(())
}

/// The kind of time that a socket's program wants, and how many nanoseconds its smaller part counts in.
fn wanted(fd: c_int) -> Option<(c_int, u64)> {
    let of = |(option, _): &(c_int, u64)| is_on(fd, *option);
    [(SO_TIMESTAMP, 1000), (SO_TIMESTAMPNS, 1)].into_iter().find(of)
}

/// Whether a message to another socket passes one of ours on, which nobody could serve at its other end: says so then.
///
/// # Safety
/// A message as the program gave it to `sendmsg`.
pub(crate) unsafe fn passes_ours(message: *const msghdr) -> bool {
    if table::is_empty() {
        return false;
    }
    // SAFETY: as the caller says.
    let Ok(head) = (unsafe { memory::get(message) }) else { return false };
    // SAFETY: as the caller says.
    let Ok(control) = (unsafe { memory::octets(head.msg_control.cast::<c_void>(), head.msg_controllen) }) else {
        return false;
    };
    let passed = rights(control).any(table::contains);
    if passed {
        complain("an ATM socket cannot be passed to another process over a UNIX socket: fork, or exec, hands it on");
    }
    passed
}

/// The descriptors that control messages pass on. What is cut off is left to the kernel to refuse.
fn rights(mut control: &[u8]) -> impl Iterator<Item = c_int> {
    let number = |octets: &[u8], at| c_int::from_ne_bytes(crate::abi::part(octets, at));
    let mut messages = Vec::new();
    while control.len() >= HEAD_OCTETS {
        let octets = u64::from_ne_bytes(crate::abi::part(control, 0)) as usize;
        if !(HEAD_OCTETS..=control.len()).contains(&octets) {
            break;
        }
        if (number(control, 8), number(control, 12)) == (SOL_SOCKET, SCM_RIGHTS) {
            messages.push(&control[HEAD_OCTETS..octets]);
        }
        control = control.get(octets.next_multiple_of(size_of::<usize>())..).unwrap_or_default();
    }
    let all = messages.into_iter().flat_map(|m| m.chunks_exact(4));
    all.map(|fd| c_int::from_ne_bytes(crate::abi::part(fd, 0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(octets: u64, level: c_int, kind: c_int, fds: &[c_int]) -> Vec<u8> {
        let mut out = [&octets.to_ne_bytes()[..], &level.to_ne_bytes(), &kind.to_ne_bytes()].concat();
        out.extend(fds.iter().flat_map(|fd| fd.to_ne_bytes()));
        out.resize(out.len().next_multiple_of(8), 0xEE);
        out
    }

    #[test]
    fn descriptors_are_found_in_whichever_message_they_are() {
        let control = [message(20, SOL_SOCKET, SCM_RIGHTS + 1, &[9]), message(28, SOL_SOCKET, SCM_RIGHTS, &[3, 7, 5])];
        assert_eq!(rights(&control.concat()).collect::<Vec<_>>(), [3, 7, 5]);
    }

    proptest! {
        #[test]
        fn any_octets_are_looked_through(octets in proptest::collection::vec(any::<u8>(), 0..100)) {
            prop_assert!(rights(&octets).count() <= octets.len() / 4);
        }
    }
}
