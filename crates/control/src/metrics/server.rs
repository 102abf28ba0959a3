//! Hands metrics to whoever asks by HTTP: threads of its own, a few connections at a time, each with a bound in time and octets.
//! The network is harvested once a second at most, however many ask.

use super::{CONTENT_TYPE, encode};
use crate::controller::Controller;
use crate::status;
use anyhow::{Context as _, Result};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use std::fmt::Display;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Connections that are served at once; more wait in the system's queue.
const CONNECTIONS: usize = 4;
/// A request, and its answer, take no longer.
const PATIENCE: Duration = Duration::from_secs(5);
/// A request's head has no more octets.
const MAX_HEAD: usize = 8192;
/// Nobody sees numbers that are older.
const FRESH: Duration = Duration::from_secs(1);

/// A running server; stops when dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: Arc<OwnedFd>,
    threads: Vec<JoinHandle<()>>,
}

/// What all its threads share.
struct Shared {
    controller: Arc<Controller>,
    max_rows: usize,
    last: Mutex<Option<(Instant, Arc<str>)>>,
}

impl Server {
    /// Listens, and serves the metrics of a network; of circuits and of endpoints `max_rows` at most.
    ///
    /// # Errors
    /// The system refuses the address or a thread.
    pub fn start(address: SocketAddr, controller: Arc<Controller>, max_rows: usize) -> Result<Self> {
        let listener = TcpListener::bind(address).with_context(|| format!("metrics at {address}"))?;
        listener.set_nonblocking(true)?;
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let shared = Arc::new(Shared { controller, max_rows, last: Mutex::new(None) });
        let mut server = Server { address: listener.local_addr()?, stop, threads: Vec::new() };
        for _ in 0..CONNECTIONS {
            let (listener, stop, shared) = (listener.try_clone()?, server.stop.clone(), shared.clone());
            let thread = std::thread::Builder::new().name("metrics".into());
            server.threads.push(thread.spawn(move || serve(&listener, &stop, &shared))?);
        }
        Ok(server)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

fn serve(listener: &TcpListener, stop: &OwnedFd, shared: &Shared) {
    loop {
        let mut fds = [PollFd::new(stop, PollFlags::IN), PollFd::new(listener, PollFlags::IN)];
        if poll(&mut fds, None).is_err() && !fds[0].revents().is_empty() {
            return;
        }
        if !fds[0].revents().is_empty() {
            return;
        }
        match listener.accept() {
            // Whoever goes before the answer is there is no error of ours.
            Ok((stream, _)) => drop(answer(&stream, shared)),
            Err(e) if e.kind() == ErrorKind::WouldBlock => {}
            // No descriptor to be had, or the like: it may pass.
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// Reads a request, and answers it.
fn answer(mut stream: &TcpStream, shared: &Shared) -> std::io::Result<()> {
    let end = Instant::now() + PATIENCE;
    stream.set_nonblocking(false)?;
    let mut head = Vec::new();
    let (status, body): (&str, Arc<str>) = loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || head.len() > MAX_HEAD {
            return Ok(());
        }
        stream.set_read_timeout(Some(left))?;
        let mut piece = [0; 1024];
        let n = stream.read(&mut piece)?;
        if n == 0 {
            return Ok(());
        }
        head.extend_from_slice(&piece[..n]);
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(&head) {
            Ok(httparse::Status::Partial) => {}
            Ok(httparse::Status::Complete(_)) => {
                break match (request.method, request.path.map(|path| path.split('?').next())) {
                    (Some("GET"), Some(Some("/metrics"))) => match shared.text() {
                        Ok(text) => ("200 OK", text),
                        Err(e) => ("503 Service Unavailable", said(&format!("{e:#}"))),
                    },
                    (Some("GET"), _) => ("404 Not Found", said(&"metrics are at /metrics")),
                    _ => ("405 Method Not Allowed", said(&"only GET is served")),
                };
            }
            Err(e) => break ("400 Bad Request", said(&e)),
        }
    };
    let kind = if status.starts_with("200") { CONTENT_TYPE } else { "text/plain; charset=utf-8" };
    let octets = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {octets}\r\nConnection: close\r\n\r\n");
    let whole = [head.as_bytes(), body.as_bytes()].concat();
    let mut rest = &whole[..];
    while !rest.is_empty() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        stream.set_write_timeout(Some(left))?;
        let n = stream.write(rest)?;
        rest = &rest[n..];
    }
    stream.flush()
}

fn said(what: &impl Display) -> Arc<str> {
    format!("{what}\n").into()
}

impl Shared {
    /// The metrics, harvested anew if they are not of this second. Who asks meanwhile waits for the same.
    fn text(&self) -> Result<Arc<str>> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, text)) = &*last
            && at.elapsed() < FRESH
        {
            return Ok(text.clone());
        }
        let status = status::collect(&self.controller)?;
        let text: Arc<str> = encode(status, self.max_rows)?.into();
        *last = Some((Instant::now(), text.clone()));
        Ok(text)
    }
}
