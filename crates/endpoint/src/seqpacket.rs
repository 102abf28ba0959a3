//! Packets with file descriptors over a UNIX socket (`SOCK_SEQPACKET`, `SCM_RIGHTS`), for both sides of the service.

use crate::control::MAX_PACKET_OCTETS;
use crate::system_service;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::path::Path;

/// The environment's word for the number of a user whose service is trusted beside this user's own and root's.
pub const TRUST_VARIABLE: &str = "CELLWAY_SERVICE_UID";
/// Most file descriptors of one packet.
const MAX_FDS: usize = 4;

/// A connected socket of packets.
#[derive(Debug)]
pub struct Packets(OwnedFd);

impl From<OwnedFd> for Packets {
    /// A socket that is connected already.
    fn from(fd: OwnedFd) -> Self {
        Packets(fd)
    }
}

impl From<Packets> for OwnedFd {
    fn from(packets: Packets) -> Self {
        packets.0
    }
}

/// Why a packet did not pass.
#[derive(Debug, thiserror::Error)]
pub enum PacketError {
    /// The other side is gone.
    #[error("the other side has closed the connection")]
    Closed,
    /// The system.
    #[error(transparent)]
    System(#[from] Errno),
    /// Not a message of this protocol.
    #[error("not a message of this protocol: {0}")]
    Malformed(String),
}

impl Packets {
    /// Connects to the service at `path`.
    ///
    /// # Errors
    /// No service there, or no right to it.
    pub fn connect(path: &Path) -> Result<Self, Errno> {
        let fd = socket(SocketFlags::CLOEXEC)?;
        let address = SocketAddrUnix::new(path)?;
        rustix::io::retry_on_intr(|| rustix::net::connect(&fd, &address))?;
        Ok(Packets(fd))
    }

    /// The same without waiting, non-blocking ever after; `None` if so many wait to be accepted that there is no room for
    /// one more.
    ///
    /// # Errors
    /// As [`Packets::connect`].
    pub fn try_connect(path: &Path) -> Result<Option<Self>, Errno> {
        let fd = socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
        let address = SocketAddrUnix::new(path)?;
        match rustix::io::retry_on_intr(|| rustix::net::connect(&fd, &address)) {
            Ok(()) => Ok(Some(Packets(fd))),
            Err(Errno::AGAIN) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Who serves at the other end of a connection to `path`, if this user does not trust it: neither root, nor this
    /// user, nor the one to whom root gave the folder of the system's service, nor the one whose number
    /// [`TRUST_VARIABLE`] gives. A service's answers are believed, and its memory is written.
    ///
    /// # Errors
    /// The system does not say.
    pub fn untrusted_server(&self, path: &Path) -> Result<Option<u32>, Errno> {
        let uid = rustix::net::sockopt::socket_peercred(&self.0)?.uid.as_raw();
        let named = std::env::var(TRUST_VARIABLE).ok().and_then(|uid| uid.parse::<u32>().ok());
        let own = uid == 0 || uid == rustix::process::geteuid().as_raw();
        let trusted = own || named == Some(uid) || system_service::is_run_by(path, uid);
        Ok((!trusted).then_some(uid))
    }

    /// A listening socket at `path`, non-blocking. The path must be free.
    ///
    /// # Errors
    /// The path is taken or cannot be made.
    pub fn listen(path: &Path) -> Result<OwnedFd, Errno> {
        let fd = socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
        rustix::net::bind(&fd, &SocketAddrUnix::new(path)?)?;
        rustix::net::listen(&fd, 128)?;
        Ok(fd)
    }

    /// Accepts a connection, non-blocking; `None` if none waits.
    ///
    /// # Errors
    /// No descriptors left, or the like.
    pub fn accept(listener: &OwnedFd) -> Result<Option<Self>, Errno> {
        match rustix::net::accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(fd) => Ok(Some(Packets(fd))),
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Sends a message with file descriptors. A signal does not end it.
    ///
    /// # Errors
    /// The other side is gone, or does not read.
    pub fn send(&self, message: &impl Serialize, fds: &[BorrowedFd<'_>]) -> Result<(), PacketError> {
        let octets = serde_json::to_vec(message).map_err(|e| PacketError::Malformed(e.to_string()))?;
        if octets.len() > MAX_PACKET_OCTETS {
            return Err(PacketError::Malformed(format!("{} octets in one message", octets.len())));
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut rights = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            rights.push(SendAncillaryMessage::ScmRights(fds));
        }
        let parts = [IoSlice::new(&octets)];
        match rustix::io::retry_on_intr(|| rustix::net::sendmsg(&self.0, &parts, &mut rights, SendFlags::NOSIGNAL)) {
            Ok(_) => Ok(()),
            Err(Errno::PIPE | Errno::CONNRESET) => Err(PacketError::Closed),
            Err(e) => Err(e.into()),
        }
    }

    /// Receives a message and its file descriptors; `None` if the socket does not block and none waits. A signal does
    /// not end it.
    ///
    /// # Errors
    /// The other side is gone, or sent something else.
    pub fn receive<T: DeserializeOwned>(&self) -> Result<Option<(T, Vec<OwnedFd>)>, PacketError> {
        let mut octets = vec![0; MAX_PACKET_OCTETS];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut rights = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut octets)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let n = match rustix::io::retry_on_intr(|| rustix::net::recvmsg(&self.0, &mut parts, &mut rights, flags)) {
            Ok(message) => message.bytes,
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::CONNRESET) => return Err(PacketError::Closed),
            Err(e) => return Err(e.into()),
        };
        let mut fds = Vec::new();
        for message in rights.drain() {
            if let RecvAncillaryMessage::ScmRights(more) = message {
                fds.extend(more);
            }
        }
        if n == 0 {
            return Err(PacketError::Closed);
        }
        let message = serde_json::from_slice(&octets[..n]).map_err(|e| PacketError::Malformed(e.to_string()))?;
        Ok(Some((message, fds)))
    }

    /// Who is at the other end: process, user, group.
    ///
    /// # Errors
    /// The system does not say.
    pub fn peer(&self) -> Result<Peer, Errno> {
        let credentials = rustix::net::sockopt::socket_peercred(&self.0)?;
        Ok(Peer {
            pid: credentials.pid.as_raw_nonzero().get(),
            uid: credentials.uid.as_raw(),
            gid: credentials.gid.as_raw(),
            groups: Groups::default(),
        })
    }
}

impl AsFd for Packets {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Who is at the other end of a connection, as the kernel says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Process.
    pub pid: i32,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Supplementary groups; [`Packets::peer`] leaves them out, the service fills them in.
    pub groups: Groups,
}

/// Most supplementary groups that are looked at.
pub const MAX_GROUPS: usize = 128;

/// Supplementary groups.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Groups {
    n: usize,
    groups: [u32; MAX_GROUPS],
}

impl Groups {
    /// The first [`MAX_GROUPS`] of `groups`.
    pub fn new(groups: &[u32]) -> Self {
        let n = groups.len().min(MAX_GROUPS);
        let mut all = Groups { n, ..Groups::default() };
        all.groups[..n].copy_from_slice(&groups[..n]);
        all
    }
}

impl Default for Groups {
    fn default() -> Self {
        Groups { n: 0, groups: [0; MAX_GROUPS] }
    }
}

impl std::ops::Deref for Groups {
    type Target = [u32];
    fn deref(&self) -> &[u32] {
        &self.groups[..self.n]
    }
}

impl std::fmt::Debug for Groups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self[..].fmt(f)
    }
}

fn socket(flags: SocketFlags) -> Result<OwnedFd, Errno> {
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}
