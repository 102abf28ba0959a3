//! Stock `atmsigd` and `ilmid` as peers without a kernel that has ATM: `svc-sockets.c` is preloaded under them, and the test
//! is their kernel and the other end of their signalling channel.

use crate::peer::Peer;
use crate::program;
use crate::tshark::{self, SunAtm};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketType, accept, bind, listen, recv, send, socket,
};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use wire::aesa::Aesa;
use wire::{CircuitId, Time};

/// What the tests need.
pub const TOOLS: &[(&str, &str)] = &[("atmsigd", "atm-tools"), ("cc", "gcc"), ("tshark", "tshark")];

/// A message between Linux's kernel and `atmsigd` (`struct atmsvc_msg`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelMessage {
    /// 2 connect, 3 accept, 4 reject, 5 listen, 6 okay, 7 error, 8 indicate, 9 close.
    pub kind: u32,
    /// The socket that it is about.
    pub vcc: u64,
    /// The listening socket.
    pub listening: u64,
    /// 0, or an error number with its sign turned.
    pub reply: i32,
    /// The circuit of the call.
    pub circuit: CircuitId,
}

/// Octets of a message.
const KERNEL_OCTETS: usize = 252;

impl KernelMessage {
    fn parse(octets: &[u8]) -> Option<Self> {
        let octets: &[u8; KERNEL_OCTETS] = octets.try_into().ok()?;
        let word = |at: usize| u32::from_le_bytes([octets[at], octets[at + 1], octets[at + 2], octets[at + 3]]);
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let circuit = CircuitId::new((word(28) >> 16) as u16, word(32) as u16)?;
        Some(KernelMessage { kind: word(0), vcc: long(4), listening: long(12), reply: word(20) as i32, circuit })
    }

    /// The message for an AAL5 socket of best effort with SDUs of 9188 octets, for LLC, and this address.
    fn emit(&self, address: Aesa) -> [u8; KERNEL_OCTETS] {
        const SVC: u8 = 20;
        const UBR: u8 = 1;
        let mut m = [0; KERNEL_OCTETS];
        m[..4].copy_from_slice(&self.kind.to_le_bytes());
        m[4..12].copy_from_slice(&self.vcc.to_le_bytes());
        m[12..20].copy_from_slice(&self.listening.to_le_bytes());
        m[20..24].copy_from_slice(&self.reply.to_le_bytes());
        // The local address of a listener; the address of a listener, or of who is called.
        let names: &[usize] = match self.kind {
            2 => &[208],
            5 => &[36, 208],
            _ => &[],
        };
        for &name in names {
            m[name] = SVC;
            m[name + 4..name + 24].copy_from_slice(&address.0);
        }
        for traffic in [80, 120] {
            m[traffic] = UBR;
            m[traffic + 4..traffic + 8].copy_from_slice(&(-1i32).to_le_bytes());
            m[traffic + 20..traffic + 24].copy_from_slice(&9188u32.to_le_bytes());
        }
        m[160] = 5;
        // Low layer information: layer 2 is LLC.
        m[174] = 0x0c;
        m
    }
}

/// A daemon with its channels.
pub struct Daemon {
    /// The process.
    pub peer: Peer,
    channel: OwnedFd,
    kernel: Option<OwnedFd>,
    /// Every SDU of the channel: whether the user sent it, the circuit, the octets.
    pub record: Vec<(bool, CircuitId, Vec<u8>)>,
    is_user: bool,
    circuit: CircuitId,
    began: Instant,
}

fn listening(path: &Path) -> anyhow::Result<OwnedFd> {
    let fd = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None)?;
    bind(&fd, &SocketAddrUnix::new(path)?)?;
    listen(&fd, 1)?;
    Ok(fd)
}

fn accepted(fd: &OwnedFd) -> anyhow::Result<OwnedFd> {
    anyhow::ensure!(readable(&[fd], Duration::from_secs(10))?[0], "the daemon opens no channel");
    Ok(accept(fd)?)
}

fn readable(fds: &[&OwnedFd], within: Duration) -> anyhow::Result<Vec<bool>> {
    let mut polled: Vec<PollFd<'_>> = fds.iter().map(|fd| PollFd::new(*fd, PollFlags::IN)).collect();
    let timeout = rustix::time::Timespec { tv_sec: within.as_secs() as i64, tv_nsec: i64::from(within.subsec_nanos()) };
    poll(&mut polled, Some(&timeout))?;
    Ok(polled.iter().map(|fd| !fd.revents().is_empty()).collect())
}

impl Daemon {
    /// `atmsigd` for an interface with this address, in UNI 3.1, as the user or the network.
    pub fn atmsigd(folder: &Path, mode: &str, address: Aesa) -> anyhow::Result<Self> {
        let arguments = ["-c", "/dev/null", "-d", "-n", "-u", "uni31", "-m", mode];
        let circuit = CircuitId::from_key(5);
        Self::start(folder, "atmsigd", &arguments, address, mode == "user", circuit, true)
    }

    /// `ilmid` of UNI 4.0.
    pub fn ilmid(folder: &Path) -> anyhow::Result<Self> {
        let arguments = ["-v", "-d", "-u", "4.0", "-i", "10.0.0.1", "0"];
        Self::start(folder, "ilmid", &arguments, Aesa::default(), true, CircuitId::from_key(16), false)
    }

    fn start(
        folder: &Path,
        name: &str,
        arguments: &[&str],
        address: Aesa,
        is_user: bool,
        circuit: CircuitId,
        has_kernel: bool,
    ) -> anyhow::Result<Self> {
        let library = folder.join("svc-sockets.so");
        program::compile("svc-sockets.c", &library, &["-shared", "-fPIC", "-ldl"])?;
        let (kernel, channel) = (folder.join("kernel"), folder.join("channel"));
        let (kernel_door, channel_door) = (listening(&kernel)?, listening(&channel)?);
        let program = crate::find(name).ok_or_else(|| anyhow::anyhow!("{name} is not installed"))?;
        let digits: String = address.0.iter().map(|octet| format!("{octet:02x}")).collect();
        let mut command = Command::new(program);
        command.args(arguments).env("LD_PRELOAD", &library).env("SVC_KERNEL", &kernel).env("SVC_CHANNEL", &channel);
        let peer = Peer::start(command.env("SVC_ADDRESS", digits))?;
        let kernel = has_kernel.then(|| accepted(&kernel_door)).transpose()?;
        let channel = accepted(&channel_door)?;
        Ok(Daemon { peer, channel, kernel, record: Vec::new(), is_user, circuit, began: Instant::now() })
    }

    /// Time since the daemon's start, for the machines.
    pub fn now(&self) -> Time {
        Time::ZERO + self.began.elapsed()
    }

    /// Sends an SDU on the channel.
    pub fn transmit(&mut self, sdu: Vec<u8>) -> anyhow::Result<()> {
        send(&self.channel, &sdu, SendFlags::empty())?;
        self.record.push((!self.is_user, self.circuit, sdu));
        Ok(())
    }

    /// Says something as the kernel: `kind` of `vcc`, for a call to or a listener at `address`.
    pub fn tell(&self, kind: u32, vcc: u64, listening: u64, address: Aesa) -> anyhow::Result<()> {
        let message = KernelMessage { kind, vcc, listening, reply: 0, circuit: CircuitId::from_key(0) };
        let kernel = self.kernel.as_ref().ok_or_else(|| anyhow::anyhow!("no kernel"))?;
        send(kernel, &message.emit(address), SendFlags::empty())?;
        Ok(())
    }

    /// Waits for what the daemon says, at most so long: an SDU of the channel, a message to the kernel, or both.
    pub fn receive(&mut self, within: Duration) -> anyhow::Result<(Option<Vec<u8>>, Option<KernelMessage>)> {
        let fds: Vec<&OwnedFd> = [Some(&self.channel), self.kernel.as_ref()].into_iter().flatten().collect();
        let ready = readable(&fds, within)?;
        let mut buffer = vec![0; 65_536];
        let mut sdu = None;
        if ready[0] {
            let (n, _) = recv(&self.channel, &mut buffer[..], RecvFlags::empty())?;
            anyhow::ensure!(n > 0, "the daemon has closed its channel; it said: {:?}", self.peer.log());
            sdu = Some(buffer[..n].to_vec());
            self.record.push((self.is_user, self.circuit, buffer[..n].to_vec()));
        }
        let mut said = None;
        if let (Some(true), Some(kernel)) = (ready.get(1), &self.kernel) {
            let (n, _) = recv(kernel, &mut buffer[..], RecvFlags::empty())?;
            anyhow::ensure!(n > 0, "the daemon has closed its control channel; it said: {:?}", self.peer.log());
            said = KernelMessage::parse(&buffer[..n]);
        }
        Ok((sdu, said))
    }

    /// What was said, as a capture for tshark.
    pub fn capture(&self, path: &Path) -> anyhow::Result<()> {
        let kind = if self.circuit == CircuitId::from_key(5) { SunAtm::Signalling } else { SunAtm::Ilmi };
        std::fs::write(path, tshark::sunatm(kind, &self.record))?;
        Ok(())
    }
}
