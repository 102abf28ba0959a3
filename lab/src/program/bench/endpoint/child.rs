//! The two processes: the one that measures starts the other from the same program, gives it its ends of everything, and
//! tells it what to do. They talk over a socket of packets on which file descriptors travel.

use super::interface::InterfacePipe;
use super::limits::{EventPipe, GEOMETRY, LinePipe};
use super::pipes::{DirectPipe, FdPipe, Pipe, Wait};
use anyhow::{Context as _, Result, anyhow, bail};
use endpoint::direct::memory::{Ours, Theirs};
use endpoint::direct::{Direct, DirectConfig, DirectGeometry};
use endpoint::seqpacket::Packets;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Duration;
use wire::CircuitId;

const PATIENCE: Duration = Duration::from_secs(60);

/// What is opened between the two.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    /// A direct circuit.
    Direct { vci: u16, geometry: DirectGeometry, wait: Wait, touch: bool },
    /// An endpoint each, and the host interface between them.
    Interface { vci: u16 },
    /// Two cache lines; with slots, memory beside them.
    Line { slots: usize },
    /// Two eventfds.
    Event,
    /// A pair of datagram sockets.
    UnixDatagram,
    /// A pair of stream sockets.
    UnixStream,
    /// A TCP connection over loopback.
    Tcp,
    /// Two pipes.
    Pipe,
    /// One of the last four that blocks; without this it is looked at again and again.
    Blocking(Box<Kind>),
}

/// What the other process is told.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Command {
    /// Take this end; the file descriptors come along.
    Open(Kind),
    /// Answer so many messages.
    Pong { pipe: usize, octets: usize, count: usize },
    /// Receive so many messages and say how long each batch took.
    Drain { pipe: usize, octets: usize, batch: usize, batches: usize },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reply {
    Ready,
    Nanos(Vec<u64>),
    Failed(String),
}

fn next<T: serde::de::DeserializeOwned>(packets: &Packets, patience: Option<Duration>) -> Result<(T, Vec<OwnedFd>)> {
    let spec = patience.map(|p| Timespec { tv_sec: p.as_secs() as i64, tv_nsec: 0 });
    loop {
        if poll(&mut [PollFd::new(packets, PollFlags::IN)], spec.as_ref())? == 0 {
            bail!("the other process does not answer");
        }
        if let Some(message) = packets.receive()? {
            return Ok(message);
        }
    }
}

fn open_direct(socket: &Path, host: &str, kind: &Kind) -> Result<DirectPipe> {
    let &Kind::Direct { vci, geometry, wait, touch } = kind else { bail!("no direct circuit") };
    let config = DirectConfig { geometry, patience: Some(PATIENCE), ..DirectConfig::default() };
    let direct = Direct::open(socket, host, CircuitId::new(0, vci).context("a circuit")?, &config)?;
    Ok(DirectPipe::new(direct, wait, touch))
}

/// The other process.
pub(super) fn run(folder: &Path, processor: usize) -> Result<()> {
    crate::bench::pin(processor)?;
    let packets = Packets::connect(&folder.join("bench.sock")).context("the first process")?;
    let mut pipes: Vec<Box<dyn Pipe>> = Vec::new();
    loop {
        let Ok((command, fds)) = next::<Command>(&packets, None) else { return Ok(()) };
        let mut reply_fd = None;
        let reply = match serve(folder, command, fds, &mut pipes, &mut reply_fd) {
            Ok(reply) => reply,
            Err(e) => Reply::Failed(format!("{e:#}")),
        };
        packets.send(&reply, &reply_fd.iter().map(AsFd::as_fd).collect::<Vec<_>>())?;
    }
}

fn serve(
    folder: &Path,
    command: Command,
    fds: Vec<OwnedFd>,
    pipes: &mut Vec<Box<dyn Pipe>>,
    reply_fd: &mut Option<OwnedFd>,
) -> Result<Reply> {
    match command {
        Command::Open(kind) => {
            let mut fds = fds.into_iter();
            let mut fd = || fds.next().ok_or_else(|| anyhow!("a file descriptor is missing"));
            pipes.push(match kind {
                Kind::Direct { .. } => Box::new(open_direct(&folder.join("cellway.sock"), "beta", &kind)?),
                Kind::Interface { vci } => Box::new(InterfacePipe::open(&folder.join("cellway.sock"), "beta", vci)?),
                Kind::Line { slots } => {
                    let (ours, memory) = Ours::create(&GEOMETRY)?;
                    *reply_fd = Some(memory);
                    Box::new(LinePipe::new(ours, Theirs::open(fd()?, &GEOMETRY)?, slots))
                }
                Kind::Event => Box::new(EventPipe::new(fd()?, fd()?)),
                _ => Box::new(FdPipe::new(fd()?, fd()?, matches!(kind, Kind::Blocking(_)))?),
            });
            Ok(Reply::Ready)
        }
        Command::Pong { pipe, octets, count } => {
            pipes.get_mut(pipe).context("a pipe")?.pong(octets, count)?;
            Ok(Reply::Ready)
        }
        Command::Drain { pipe, octets, batch, batches } => {
            let times = pipes.get_mut(pipe).context("a pipe")?.drain(octets, batch, batches)?;
            Ok(Reply::Nanos(times.iter().map(|t| t.as_nanos() as u64).collect()))
        }
    }
}

/// The first process's side of all pipes, and the other process.
pub(super) struct Pair {
    packets: Packets,
    child: std::process::Child,
    folder: std::path::PathBuf,
    pipes: Vec<Box<dyn Pipe>>,
}

impl Drop for Pair {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Pair {
    /// Starts the other process on `processor`.
    pub(super) fn start(folder: &Path, processor: usize) -> Result<Self> {
        let listener = Packets::listen(&folder.join("bench.sock"))?;
        let child = std::process::Command::new(std::env::current_exe()?)
            .args(["bench", "endpoint", "--other-process"])
            .arg(folder)
            .args(["--processor", &processor.to_string()])
            .stdin(std::process::Stdio::null())
            .spawn()
            .context("starting the other process")?;
        let timeout = Timespec { tv_sec: 10, tv_nsec: 0 };
        poll(&mut [PollFd::new(&listener, PollFlags::IN)], Some(&timeout))?;
        let packets = Packets::accept(&listener)?.ok_or_else(|| anyhow!("the other process does not come"))?;
        Ok(Pair { packets, child, folder: folder.to_path_buf(), pipes: Vec::new() })
    }

    fn reply(&self) -> Result<(Reply, Vec<OwnedFd>)> {
        match next(&self.packets, Some(PATIENCE))? {
            (Reply::Failed(why), _) => Err(anyhow!("the other process: {why}")),
            reply => Ok(reply),
        }
    }

    fn tell(&self, command: &Command, fds: &[OwnedFd]) -> Result<()> {
        Ok(self.packets.send(command, &fds.iter().map(AsFd::as_fd).collect::<Vec<_>>())?)
    }

    /// Opens a pipe between the two; gives its number.
    pub(super) fn open(&mut self, kind: Kind) -> Result<usize> {
        let stream = |family, kind| socketpair(family, kind, SocketFlags::CLOEXEC, None);
        let duplex = |(a, b): (OwnedFd, OwnedFd)| anyhow::Ok(([a.try_clone()?, a], [b.try_clone()?, b]));
        let mine: Option<[OwnedFd; 2]> = match &kind {
            Kind::Direct { .. } => {
                self.tell(&Command::Open(kind.clone()), &[])?;
                self.pipes.push(Box::new(open_direct(&self.folder.join("cellway.sock"), "alpha", &kind)?));
                self.reply()?;
                None
            }
            Kind::Interface { vci } => {
                self.tell(&Command::Open(kind.clone()), &[])?;
                self.pipes.push(Box::new(InterfacePipe::open(&self.folder.join("cellway.sock"), "alpha", *vci)?));
                self.reply()?;
                None
            }
            Kind::Line { slots } => {
                let (ours, memory) = Ours::create(&GEOMETRY)?;
                self.tell(&Command::Open(kind.clone()), &[memory])?;
                let (_, fds) = self.reply()?;
                let memory = fds.into_iter().next().context("the other side's memory")?;
                self.pipes.push(Box::new(LinePipe::new(ours, Theirs::open(memory, &GEOMETRY)?, *slots)));
                None
            }
            Kind::Event => {
                let event = || eventfd(0, EventfdFlags::CLOEXEC);
                let (there, back) = (event()?, event()?);
                self.tell(&Command::Open(kind.clone()), &[back.try_clone()?, there.try_clone()?])?;
                Some([there, back])
            }
            _ => {
                let base = if let Kind::Blocking(base) = &kind { base } else { &kind };
                let (mine, theirs) = match base {
                    Kind::UnixDatagram => duplex(stream(AddressFamily::UNIX, SocketType::DGRAM)?)?,
                    Kind::UnixStream => duplex(stream(AddressFamily::UNIX, SocketType::STREAM)?)?,
                    Kind::Tcp => {
                        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
                        let a = std::net::TcpStream::connect(listener.local_addr()?)?;
                        let (b, _) = listener.accept()?;
                        a.set_nodelay(true)?;
                        b.set_nodelay(true)?;
                        duplex((a.into(), b.into()))?
                    }
                    _ => {
                        let pipe = || rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC);
                        let ((there_out, there_in), (back_out, back_in)) = (pipe()?, pipe()?);
                        ([there_in, back_out], [back_in, there_out])
                    }
                };
                self.tell(&Command::Open(kind.clone()), &theirs)?;
                Some(mine)
            }
        };
        if let Some([out, into]) = mine {
            self.reply()?;
            self.pipes.push(match kind {
                Kind::Event => Box::new(EventPipe::new(out, into)),
                _ => Box::new(FdPipe::new(out, into, matches!(kind, Kind::Blocking(_)))?),
            });
        }
        Ok(self.pipes.len() - 1)
    }

    /// Nanoseconds of one round trip: the middle of `batches` batches.
    pub(super) fn round_trip(&mut self, pipe: usize, octets: usize, batch: usize, batches: usize) -> Result<f64> {
        // The first batch waits for the other side to be ready.
        let count = batch * (batches + 1);
        self.tell(&Command::Pong { pipe, octets, count }, &[])?;
        let times = self.pipes.get_mut(pipe).context("a pipe")?.ping(octets, batch, batches + 1)?;
        self.reply()?;
        Ok(middle(times[1..].iter().map(|t| t.as_nanos() as u64).collect()) / batch as f64)
    }

    /// Nanoseconds of one message in a flood: the middle of `batches` batches, by the receiver's clock.
    pub(super) fn one_way(&mut self, pipe: usize, octets: usize, batch: usize, batches: usize) -> Result<f64> {
        self.tell(&Command::Drain { pipe, octets, batch, batches: batches + 1 }, &[])?;
        self.pipes.get_mut(pipe).context("a pipe")?.flood(octets, batch * (batches + 1))?;
        match self.reply()?.0 {
            Reply::Nanos(nanos) => Ok(middle(nanos[1..].to_vec()) / batch as f64),
            other => bail!("{other:?} from the other process"),
        }
    }
}

fn middle(nanos: Vec<u64>) -> f64 {
    super::super::median(&mut nanos.into_iter().map(|n| n as f64).collect::<Vec<_>>())
}
