//! Many datagrams by one system call: `recvmmsg`, `sendmmsg`, and segments that the system puts together and takes
//! apart (`UDP_GRO`, `UDP_SEGMENT`, udp(7)).

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Messages received by one call at most.
const MESSAGES: usize = 8;
/// The longest message: datagrams of one size that the system has put together.
const MESSAGE_OCTETS: usize = 65_536;
/// Datagrams sent by one call at most; the system's own bound for segments of one message.
pub(crate) const MAX_SENT: usize = 64;
/// Octets of a message of segments at most (a UDP datagram's, over IPv6).
pub(crate) const MAX_SENT_OCTETS: usize = 65_000;

/// Room for one control message with an `int`, aligned as control messages are.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; 64]);

/// Datagrams that have been received.
pub(crate) struct Inbox {
    octets: Box<[u8]>,
    /// Octets of each message, and of its datagrams but the last.
    messages: [(usize, usize); MESSAGES],
    count: usize,
    /// The next datagram: of which message, and where in it.
    at: (usize, usize),
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbox").field("messages", &self.count).field("at", &self.at).finish_non_exhaustive()
    }
}

impl Inbox {
    pub(crate) fn new() -> Self {
        // Zeroed memory: a page costs nothing until a message is longer.
        let octets = vec![0; MESSAGES * MESSAGE_OCTETS].into_boxed_slice();
        Inbox { octets, messages: [(0, 0); MESSAGES], count: 0, at: (0, 0) }
    }

    /// The oldest datagram that has not been passed over.
    pub(crate) fn first(&self) -> Option<&[u8]> {
        let (message, from) = self.at;
        if message >= self.count {
            return None;
        }
        let (octets, segment) = self.messages[message];
        let all = &self.octets[message * MESSAGE_OCTETS..][..octets];
        Some(&all[from..octets.min(from + segment)])
    }

    /// Passes over [`Inbox::first`].
    pub(crate) fn pass(&mut self) {
        let Some(length) = self.first().map(<[u8]>::len) else { return };
        let (message, from) = self.at;
        // An empty datagram is a message of its own.
        self.at = if from + length >= self.messages[message].0 { (message + 1, 0) } else { (message, from + length) };
    }

    /// Receives datagrams, all earlier ones of which have been passed over. False if none were there.
    pub(crate) fn fill(&mut self, socket: BorrowedFd<'_>) -> bool {
        (self.count, self.at) = (0, (0, 0));
        let mut controls = [Control([0; 64]); MESSAGES];
        // SAFETY: all-zero is a value of these plain structures: null pointers and lengths of zero.
        let (mut parts, mut headers): ([libc::iovec; MESSAGES], [libc::mmsghdr; MESSAGES]) = unsafe { zeroed() };
        let slots = self.octets.chunks_exact_mut(MESSAGE_OCTETS).zip(&mut controls);
        for ((slot, control), (part, header)) in slots.zip(parts.iter_mut().zip(&mut headers)) {
            part.iov_base = slot.as_mut_ptr().cast();
            part.iov_len = slot.len();
            header.msg_hdr.msg_iov = part;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = size_of::<Control>();
        }
        let (fd, n, flags) = (socket.as_raw_fd(), MESSAGES as u32, libc::MSG_DONTWAIT as _);
        // SAFETY: the descriptor is open while it is borrowed; each header points to one part and one control buffer of
        // the lengths that it says, which live in this function's frame and in `self`, and nothing else uses them
        // meanwhile.
        let got = unsafe { libc::recvmmsg(fd, headers.as_mut_ptr(), n, flags, std::ptr::null_mut()) };
        // Nothing there, or the peer's port was closed when we sent: both pass.
        let Ok(got @ 1..) = usize::try_from(got) else { return false };
        self.count = got.min(MESSAGES);
        for (message, header) in self.messages.iter_mut().zip(&headers).take(self.count) {
            let octets = (header.msg_len as usize).min(MESSAGE_OCTETS);
            *message = (octets, segment(&header.msg_hdr).unwrap_or(octets).max(1));
        }
        true
    }
}

/// Of what size the datagrams are that a message was put together from, if it was.
fn segment(header: &libc::msghdr) -> Option<usize> {
    // SAFETY: the header is one that the system has filled, and its control buffer is alive: the first control message
    // lies within the length that the system has set, or there is none.
    let first = unsafe { libc::CMSG_FIRSTHDR(header).as_ref() }?;
    if (first.cmsg_level, first.cmsg_type) != (libc::SOL_UDP, libc::UDP_GRO) {
        return None;
    }
    // SAFETY: a control message of this type carries an int (udp(7)); it need not be aligned.
    let size = unsafe { libc::CMSG_DATA(first).cast::<libc::c_int>().read_unaligned() };
    usize::try_from(size).ok().filter(|size| *size > 0)
}

/// Lets the system hand over datagrams of one size together. False where it cannot.
pub(crate) fn receive_together(socket: BorrowedFd<'_>) -> bool {
    set_int(socket, libc::UDP_GRO, 1)
}

/// Gives a socket room to send so many octets, also beyond what the administrator allows to all: that needs a right.
pub(crate) fn set_send_buffer_force(socket: BorrowedFd<'_>, octets: usize) -> rustix::io::Result<()> {
    let octets = libc::c_int::try_from(octets).unwrap_or(libc::c_int::MAX);
    let done = set_option(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, octets);
    if done { Ok(()) } else { Err(rustix::io::Errno::PERM) }
}

fn set_int(socket: BorrowedFd<'_>, option: libc::c_int, value: libc::c_int) -> bool {
    set_option(socket, libc::SOL_UDP, option, value)
}

fn set_option(socket: BorrowedFd<'_>, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> bool {
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the descriptor is open while it is borrowed, and the option's value is an int of the length given.
    unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), length) == 0 }
}

/// Sends datagrams of `segment` octets each, but the last, which may be shorter, as one message.
pub(crate) fn send_together(socket: BorrowedFd<'_>, octets: &[u8], segment: usize) -> io::Result<()> {
    let mut control = Control([0; 64]);
    let mut part = libc::iovec { iov_base: octets.as_ptr().cast_mut().cast(), iov_len: octets.len() };
    // SAFETY: all-zero is a value of this plain structure: null pointers and lengths of zero.
    let mut header: libc::msghdr = unsafe { zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    if octets.len() > segment {
        header.msg_control = control.0.as_mut_ptr().cast();
        // SAFETY: computes a length, and reads nothing.
        header.msg_controllen = unsafe { libc::CMSG_SPACE(size_of::<u16>() as u32) } as usize;
        // SAFETY: the header's control buffer is alive, aligned, zeroed and longer than one control message with a u16.
        unsafe {
            let message = libc::CMSG_FIRSTHDR(&raw const header);
            (*message).cmsg_level = libc::SOL_UDP;
            (*message).cmsg_type = libc::UDP_SEGMENT;
            (*message).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as u32) as usize;
            libc::CMSG_DATA(message).cast::<u16>().write_unaligned(segment as u16);
        }
    }
    // SAFETY: the descriptor is open while it is borrowed; the header points to `octets`, which the system only reads,
    // and to the control message above.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, libc::MSG_DONTWAIT) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sends datagrams of `segment` octets each, but the last, one by one; gives how many were sent. An error concerns the
/// first.
pub(crate) fn send_each(socket: BorrowedFd<'_>, octets: &[u8], segment: usize) -> io::Result<usize> {
    // SAFETY: all-zero is a value of these plain structures: null pointers and lengths of zero.
    let (mut parts, mut headers): ([libc::iovec; MAX_SENT], [libc::mmsghdr; MAX_SENT]) = unsafe { zeroed() };
    let mut n = 0;
    for (datagram, (part, header)) in octets.chunks(segment.max(1)).zip(parts.iter_mut().zip(&mut headers)) {
        part.iov_base = datagram.as_ptr().cast_mut().cast();
        part.iov_len = datagram.len();
        header.msg_hdr.msg_iov = part;
        header.msg_hdr.msg_iovlen = 1;
        n += 1;
    }
    // SAFETY: the descriptor is open while it is borrowed; the first `n` headers each point to one part, which points
    // to octets that the system only reads.
    let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), n, libc::MSG_DONTWAIT as _) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Datagrams that the system dropped at a socket: for want of room, or because their checksum was wrong (`SO_MEMINFO`).
pub(crate) fn dropped(socket: BorrowedFd<'_>) -> Option<u32> {
    /// `SK_MEMINFO_DROPS` of linux/sock_diag.h: the last of nine counters.
    const DROPS: usize = 8;
    let mut info = [0u32; DROPS + 1];
    let mut length = size_of::<[u32; DROPS + 1]>() as libc::socklen_t;
    let (fd, value) = (socket.as_raw_fd(), info.as_mut_ptr().cast());
    // SAFETY: the descriptor is open while it is borrowed; the system writes at most `length` octets, for which there
    // is room.
    let done = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_MEMINFO, value, &raw mut length) };
    (done == 0 && length as usize >= size_of_val(&info)).then(|| info[DROPS])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    fn pair() -> (UdpSocket, UdpSocket) {
        let [a, b] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        a.connect(b.local_addr().unwrap()).unwrap();
        b.connect(a.local_addr().unwrap()).unwrap();
        (a, b)
    }

    fn all(inbox: &mut Inbox, socket: &UdpSocket) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        while inbox.fill(socket.as_fd()) {
            while let Some(datagram) = inbox.first() {
                out.push(datagram.to_vec());
                inbox.pass();
            }
        }
        out
    }

    #[test]
    fn datagrams_arrive_one_by_one_however_they_are_sent_and_received() {
        let octets: Vec<u8> = (0..1000u32).map(|n| n as u8).collect();
        let expected: Vec<Vec<u8>> = octets.chunks(53).map(<[u8]>::to_vec).collect();
        for together in [false, true] {
            let (a, b) = pair();
            if together {
                receive_together(b.as_fd());
            }
            let mut inbox = Inbox::new();
            assert_eq!(send_each(a.as_fd(), &octets, 53).unwrap(), expected.len());
            assert_eq!(all(&mut inbox, &b), expected);
            // Where the system has no such thing, there is nothing to be tested.
            if send_together(a.as_fd(), &octets, 53).is_ok() {
                assert_eq!(all(&mut inbox, &b), expected);
                send_together(a.as_fd(), &octets[..53], 53).unwrap();
                assert_eq!(all(&mut inbox, &b), expected[..1]);
            }
            a.send(&[]).unwrap();
            a.send(&octets).unwrap();
            assert_eq!(all(&mut inbox, &b), [vec![], octets.clone()]);
        }
    }

    #[test]
    fn what_the_system_drops_at_a_socket_is_known() {
        let (a, b) = pair();
        assert_eq!(dropped(b.as_fd()), Some(0));
        let mut sent = 0;
        while dropped(b.as_fd()) == Some(0) && sent < 100_000 {
            a.send(&[0; 1000]).unwrap();
            sent += 1;
        }
        assert!(dropped(b.as_fd()).unwrap() > 0, "{sent}");
        let mut inbox = Inbox::new();
        let got = all(&mut inbox, &b).len();
        assert_eq!(got + dropped(b.as_fd()).unwrap() as usize, sent);
    }
}
