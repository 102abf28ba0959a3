//! Hands metrics to whoever asks by HTTP: a thread of its own, which waits for nobody. Who asks slowly keeps nobody
//! waiting, and who keeps places makes room for others (`visitors`). The network is harvested once a second at most,
//! however many ask.

use super::visitors::Visitors;
use super::{CONTENT_TYPE, encode};
use crate::controller::Controller;
use crate::status;
use anyhow::{Context as _, Result};
use endpoint::times::timespec;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use std::fmt::Display;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A request's head has no more octets.
const MAX_HEAD: usize = 8192;
/// Nobody sees numbers that are older.
const FRESH: Duration = Duration::from_secs(1);
/// Connections that are accepted before those that there are have their turn.
const TURN: usize = 16;
/// After the system had no descriptor for a connection.
const REST: Duration = Duration::from_millis(100);

/// A running server; stops when dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

/// What answers are made of.
struct Source {
    controller: Arc<Controller>,
    max_rows: usize,
    last: Option<(Instant, Arc<str>)>,
}

struct Connection {
    id: u64,
    stream: TcpStream,
    head: Vec<u8>,
    answer: Option<Answer>,
}

/// What is left to be sent.
struct Answer {
    head: String,
    body: Arc<str>,
    sent: usize,
}

impl Server {
    /// Listens, and serves the metrics of a network; of circuits and of endpoints `max_rows` at most.
    ///
    /// # Errors
    /// The system refuses the address or a thread.
    pub fn start(address: SocketAddr, controller: Arc<Controller>, max_rows: usize) -> Result<Self> {
        let listener = TcpListener::bind(address).with_context(|| format!("metrics at {address}"))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let source = Source { controller, max_rows, last: None };
        let of_thread = stop.clone();
        let thread = std::thread::Builder::new().name("metrics".into());
        let thread = thread.spawn(move || serve(&listener, &of_thread, source))?;
        Ok(Server { address, stop, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported by its own message.
            let _ = thread.join();
        }
    }
}

fn serve(listener: &TcpListener, stop: &OwnedFd, mut source: Source) {
    let (mut visitors, mut connections) = (Visitors::default(), Vec::<Connection>::new());
    let (mut numbers, mut rests_until) = (0, None::<Instant>);
    loop {
        let now = Instant::now();
        rests_until = rests_until.filter(|until| *until > now);
        let accepts = if rests_until.is_none() { PollFlags::IN } else { PollFlags::empty() };
        let mut fds = vec![PollFd::new(stop, PollFlags::IN), PollFd::new(listener, accepts)];
        let wanted = |c: &Connection| if c.answer.is_some() { PollFlags::OUT } else { PollFlags::IN };
        fds.extend(connections.iter().map(|c| PollFd::new(&c.stream, wanted(c))));
        let timeout =
            visitors.timeout().into_iter().chain(rests_until).min().map(|at| at.saturating_duration_since(now));
        // Rounded up, or this would turn until the moment has come.
        let timeout = timeout.map(|t| t + Duration::from_millis(1));
        let timeout = timeout.map(timespec);
        // An error is EINTR: nobody is ready then.
        let _ = poll(&mut fds, timeout.as_ref());
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        if ready[0] {
            return;
        }
        let mut place = 2;
        connections.retain_mut(|connection| {
            let stays = !ready[place] || connection.advance(&mut source, &mut visitors);
            place += 1;
            if !stays {
                visitors.remove(connection.id);
            }
            stays
        });
        for _ in 0..if ready[1] { TURN } else { 0 } {
            let (stream, from) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                // Whoever has gone again is no error; no descriptor to be had, or the like, may pass.
                Err(e) => {
                    rests_until = (e.kind() != ErrorKind::ConnectionAborted).then(|| Instant::now() + REST);
                    break;
                }
            };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            numbers += 1;
            if let Some(goes) = visitors.insert(numbers, from.ip(), Instant::now()) {
                connections.retain(|connection| connection.id != goes);
            }
            let mut connection = Connection { id: numbers, stream, head: Vec::new(), answer: None };
            // The request comes with the connection as a rule: it is answered before anybody else can take the place.
            if connection.advance(&mut source, &mut visitors) {
                connections.push(connection);
            } else {
                visitors.remove(numbers);
            }
        }
        while let Some(late) = visitors.overdue(Instant::now()) {
            visitors.remove(late);
            connections.retain(|connection| connection.id != late);
        }
    }
}

impl Connection {
    /// Reads and writes what can be without waiting. False if it has ended.
    fn advance(&mut self, source: &mut Source, visitors: &mut Visitors) -> bool {
        if self.answer.is_none() {
            match self.read(source) {
                Ok(Some(answer)) => self.answer = Some(answer),
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
        let before = self.sent();
        // Whoever goes before the answer is there is no error of ours.
        let stays = matches!(self.write(), Ok(false));
        if before == 0 || self.sent() > before {
            visitors.answer(self.id, Instant::now());
        }
        stays
    }

    fn sent(&self) -> usize {
        self.answer.as_ref().map_or(0, |answer| answer.sent)
    }

    /// The answer, once the request has come.
    fn read(&mut self, source: &mut Source) -> std::io::Result<Option<Answer>> {
        let mut piece = [0; 1024];
        loop {
            let n = match self.stream.read(&mut piece) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            self.head.extend_from_slice(&piece[..n]);
            let mut headers = [httparse::EMPTY_HEADER; 64];
            let mut request = httparse::Request::new(&mut headers);
            return match request.parse(&self.head) {
                Ok(httparse::Status::Partial) if self.head.len() > MAX_HEAD => Err(ErrorKind::InvalidData.into()),
                Ok(httparse::Status::Partial) => continue,
                Ok(httparse::Status::Complete(_)) => Ok(Some(source.answer(request.method, request.path))),
                Err(e) => Ok(Some(Answer::new("400 Bad Request", said(&e)))),
            };
        }
    }

    /// True if all is sent.
    fn write(&mut self) -> std::io::Result<bool> {
        let Some(answer) = &mut self.answer else { return Ok(false) };
        loop {
            let (head, body) = (answer.head.as_bytes(), answer.body.as_bytes());
            let rest = head.get(answer.sent..).filter(|rest| !rest.is_empty());
            let rest = rest.unwrap_or_else(|| &body[answer.sent - head.len()..]);
            if rest.is_empty() {
                return Ok(true);
            }
            match self.stream.write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => answer.sent += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }
}

impl Answer {
    fn new(status: &str, body: Arc<str>) -> Self {
        let kind = if status.starts_with("200") { CONTENT_TYPE } else { "text/plain; charset=utf-8" };
        let octets = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {octets}\r\nConnection: close\r\n\r\n"
        );
        Answer { head, body, sent: 0 }
    }
}

fn said(what: &impl Display) -> Arc<str> {
    format!("{what}\n").into()
}

impl Source {
    fn answer(&mut self, method: Option<&str>, path: Option<&str>) -> Answer {
        match (method, path.map(|path| path.split('?').next())) {
            (Some("GET"), Some(Some("/metrics"))) => match self.text() {
                Ok(text) => Answer::new("200 OK", text),
                Err(e) => Answer::new("503 Service Unavailable", said(&format!("{e:#}"))),
            },
            (Some("GET"), _) => Answer::new("404 Not Found", said(&"metrics are at /metrics")),
            _ => Answer::new("405 Method Not Allowed", said(&"only GET is served")),
        }
    }

    /// The metrics, harvested anew if they are not of this second.
    fn text(&mut self) -> Result<Arc<str>> {
        if let Some((at, text)) = &self.last
            && at.elapsed() < FRESH
        {
            return Ok(text.clone());
        }
        let status = status::collect(&self.controller)?;
        let text: Arc<str> = encode(status, self.max_rows)?.into();
        self.last = Some((Instant::now(), text.clone()));
        Ok(text)
    }
}
