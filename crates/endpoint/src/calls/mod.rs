//! Calls of an application: a session with the service that listens, calls, answers and releases. A circuit that a call
//! has is opened on an [`Endpoint`] like any other.
//!
//! In: requests. Out: events ([`Event`]), by [`Session::next_event`] with a timeout, or without waiting. Everything
//! that a session has ends when it is dropped, or when its process dies.
//!
//! A method that calls, answers or releases asks the service and waits for what it says of it. An application with many
//! calls under way queues such steps instead ([`Session::queue`]): they leave together, and their outcomes come with
//! the next events.

mod message;
mod program;
mod sap;
mod steps;
mod traffic;

pub use message::{Answer, Event, MAX_STEPS, Request, Step, StepOutcome};
pub use program::{Order, Report};
pub use sap::{Sap, SapError};
pub use traffic::Traffic;
pub use wire::aesa::Aesa;
pub use wire::q2931::CauseValue as Cause;

use crate::client::{Connection, Endpoint, Error};
use crate::times::deadline;
use crate::{ChannelId, OpenOptions};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};
use wire::CircuitId;
use wire::q2931::CauseValue;

/// A session with the service, for calls of one host.
///
/// ```no_run
/// use endpoint::calls::{Sap, Traffic};
/// use endpoint::{EndpointConfig, Service};
/// use std::time::Duration;
///
/// let service = Service::connect_default()?;
/// let mut session = service.calls("alpha")?;
/// let address = "47.0079.0000.0000.0000.0000.0000.00a0.3e00.0001.00".parse()?;
/// let circuit = session.call(address, Sap::ANY, &Traffic::default(), Duration::from_secs(10))?;
/// let mut endpoint =
///     service.endpoint(&EndpointConfig { host: "alpha".into(), ..EndpointConfig::default() })?;
/// let channel = endpoint.open_call(&circuit)?;
/// endpoint.send_copy(channel, b"hello")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Session {
    connection: Connection,
    host: String,
    /// Requests that have no answer yet, all of kinds that are answered by events: how many steps each has.
    open: VecDeque<usize>,
    /// The last of them waits until something happens.
    waits: bool,
    events: VecDeque<Event>,
    /// Steps that have not left yet.
    queue: Vec<Step>,
    outcomes: VecDeque<StepOutcome>,
    /// How many of them are refusals.
    refused: usize,
}

/// A call with its circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Circuit {
    /// The call.
    pub call: u64,
    /// The circuit at the host.
    pub circuit: CircuitId,
}

/// Why there is no circuit.
///
/// ```
/// use endpoint::CallError;
///
/// fn was_given_up(e: &CallError) -> bool {
///     matches!(e, CallError::NoAnswer(_))
/// }
/// assert!(!was_given_up(&CallError::Service(endpoint::Error::ServiceGone)));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The call was released, by the other side or the network.
    #[error("the call was released: {0}")]
    Released(CauseValue),
    /// Nobody answered in time; the call was given up.
    #[error("no answer within {0:?}")]
    NoAnswer(Duration),
    /// The service.
    #[error(transparent)]
    Service(#[from] Error),
}

impl Session {
    /// Connects to the service, for calls of `host`. This and every request of the session blocks until the service has
    /// answered, for the process's limit of requests at most ([`set_request_limit`](crate::client::set_request_limit)).
    ///
    /// # Errors
    /// No service, or one that does not admit this user.
    pub fn open(socket: &Path, host: &str) -> Result<Self, Error> {
        let connection = Connection::open(socket)?;
        Ok(Session {
            connection,
            host: host.to_owned(),
            open: VecDeque::new(),
            waits: false,
            events: VecDeque::new(),
            queue: Vec::new(),
            outcomes: VecDeque::new(),
            refused: 0,
        })
    }

    /// The host.
    pub fn host(&self) -> &str {
        &self.host
    }

    fn send(&mut self, request: &Request) -> Result<(), Error> {
        #[derive(Serialize)]
        struct Calls<'a> {
            calls: &'a Request,
        }
        self.connection.begin_manage(&Calls { calls: request })
    }

    fn ask<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T, Error> {
        // What was queued before comes first.
        self.flush()?;
        self.send(request)?;
        // So do the answers to what was asked before.
        let earlier = self.finish_open();
        let answer = self.connection.finish_manage();
        earlier?;
        answer
    }

    fn answer(&mut self, request: &Request) -> Result<Answer, Error> {
        self.ask(request)
    }

    /// Lets calls of the host that fit be presented: [`Event::Incoming`]. Gives its number, and the host's addresses at
    /// the moment.
    ///
    /// # Errors
    /// No such host, no right, or somebody else listens there for the same.
    pub fn listen(&mut self, selector: Option<u8>, sap: Sap) -> Result<(u64, Vec<String>), Error> {
        let request = Request::Listen { host: self.host.clone(), selector, sap: Some(sap.to_string()) };
        match self.answer(&request)? {
            Answer::Listening { listen, addresses } => Ok((listen, addresses)),
            other => Err(Error::Protocol(format!("{other:?}"))),
        }
    }

    /// Begins a call; [`Event::Connected`] or [`Event::Released`] says what comes of it.
    ///
    /// # Errors
    /// The host has no signalling, the user may not call there, or has too many calls.
    pub fn begin_call(&mut self, to: Aesa, sap: Sap, traffic: &Traffic) -> Result<u64, Error> {
        self.begin(to, sap, traffic, None, false)
    }

    /// The same with another contract from the called user.
    ///
    /// # Errors
    /// As [`Session::begin_call`].
    pub fn begin_call_with(&mut self, to: Aesa, sap: Sap, ways: [&Traffic; 2]) -> Result<u64, Error> {
        self.begin(to, sap, ways[0], Some(ways[1]), false)
    }

    /// Begins a point-to-multipoint call with its first party, which has number 0. Nothing is sent back on such a call.
    ///
    /// # Errors
    /// As [`Session::begin_call`].
    pub fn begin_multipoint(&mut self, to: Aesa, sap: Sap, traffic: &Traffic) -> Result<u64, Error> {
        self.begin(to, sap, traffic, None, true)
    }

    fn begin(
        &mut self,
        to: Aesa,
        sap: Sap,
        traffic: &Traffic,
        backward: Option<&Traffic>,
        multipoint: bool,
    ) -> Result<u64, Error> {
        let request = Request::Call {
            host: self.host.clone(),
            to: to.to_string(),
            sap: Some(sap.to_string()),
            traffic: traffic.clone(),
            backward: backward.cloned(),
            multipoint,
        };
        match self.answer(&request)? {
            Answer::Calling { call } => Ok(call),
            other => Err(Error::Protocol(format!("{other:?}"))),
        }
    }

    /// Adds a party to a point-to-multipoint call that is up; gives its number. [`Event::PartyAdded`] or
    /// [`Event::PartyDropped`] says what comes of it.
    ///
    /// # Errors
    /// There is no such call, it is not up, or it has as many parties as it may.
    pub fn begin_party(&mut self, call: u64, to: Aesa) -> Result<u16, Error> {
        match self.answer(&Request::AddParty { call, to: to.to_string() })? {
            Answer::Adding { party } => Ok(party),
            other => Err(Error::Protocol(format!("{other:?}"))),
        }
    }

    /// Adds a party, and waits for its answer. Other events are kept for later.
    ///
    /// # Errors
    /// [`CallError::Released`]: the party was refused, or the call has ended.
    pub fn add_party(&mut self, call: u64, to: Aesa, patience: Duration) -> Result<u16, CallError> {
        let party = self.begin_party(call, to)?;
        let is_it = move |event: &Event| match event {
            Event::PartyAdded { call: of, party: its } | Event::PartyDropped { call: of, party: its, .. } => {
                (*of, *its) == (call, party)
            }
            event => is_release(event, call),
        };
        match self.await_event(Some(patience), is_it)? {
            Some(Event::PartyAdded { .. }) => Ok(party),
            Some(event) => Err(CallError::Released(cause_of(&event).unwrap_or(CauseValue::NORMAL_UNSPECIFIED))),
            None => {
                self.drop_party(call, party, CauseValue::NO_ANSWER)?;
                Err(CallError::NoAnswer(patience))
            }
        }
    }

    /// Drops a party. The call ends with its last one.
    ///
    /// # Errors
    /// There is no such call or party any more.
    pub fn drop_party(&mut self, call: u64, party: u16, cause: CauseValue) -> Result<(), Error> {
        self.answer(&Request::DropParty { call, party, cause: cause.0 }).map(drop)
    }

    /// Has a call that was presented: its circuit is there from then on, and can be opened before the call is answered.
    /// What the caller sends at once is not lost then. A call that was presented to another session of the same user is
    /// this one's then.
    ///
    /// # Errors
    /// There is no such call any more.
    pub fn take(&mut self, call: u64) -> Result<Circuit, Error> {
        match self.answer(&Request::Take { call })? {
            Answer::Taken { circuit, .. } => {
                Ok(Circuit { call, circuit: circuit.parse().map_err(|_| Error::Protocol(circuit))? })
            }
            other => Err(Error::Protocol(format!("{other:?}"))),
        }
    }

    /// Calls, and waits for the circuit. Without an answer in time the call is given up. Other events are kept for
    /// later.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn call(&mut self, to: Aesa, sap: Sap, traffic: &Traffic, patience: Duration) -> Result<Circuit, CallError> {
        let call = self.begin_call(to, sap, traffic)?;
        self.await_circuit(call, patience)
    }

    /// Answers a call that [`Event::Incoming`] told of; [`Event::Connected`] follows.
    ///
    /// # Errors
    /// There is no such call any more.
    pub fn begin_accept(&mut self, call: u64) -> Result<(), Error> {
        self.answer(&Request::Accept { call }).map(drop)
    }

    /// Waits for a call and answers it; `None` if none comes in time.
    ///
    /// # Errors
    /// [`CallError`]: the caller gave up meanwhile, or the service has gone.
    pub fn accept(&mut self, patience: Option<Duration>) -> Result<Option<Circuit>, CallError> {
        let incoming = self.await_event(patience, |event| matches!(event, Event::Incoming { .. }))?;
        let Some(Event::Incoming { call, .. }) = incoming else { return Ok(None) };
        self.answer_call(call).map(Some)
    }

    /// Answers a call that [`Event::Incoming`] told of, and waits until the network has acknowledged that.
    ///
    /// # Errors
    /// [`CallError`]: the caller gave up meanwhile, or the service has gone.
    pub fn answer_call(&mut self, call: u64) -> Result<Circuit, CallError> {
        self.begin_accept(call)?;
        self.await_circuit(call, ANSWER)
    }

    /// Refuses a call, or releases one.
    ///
    /// # Errors
    /// There is no such call any more.
    pub fn release(&mut self, call: u64, cause: CauseValue) -> Result<(), Error> {
        self.answer(&Request::Release { call, cause: cause.0 }).map(drop)
    }

    /// Calls, addresses and failures of the network, as JSON.
    ///
    /// # Errors
    /// The service has gone.
    #[doc(hidden)]
    pub fn list(&mut self) -> Result<Value, Error> {
        self.ask(&Request::List)
    }

    /// The next event; `None` if none comes in time, or if a queued step was refused whose outcome was not taken yet. A
    /// patience of zero looks and does not wait.
    ///
    /// # Errors
    /// The service has gone.
    pub fn next_event(&mut self, patience: Option<Duration>) -> Result<Option<Event>, Error> {
        self.fill(patience, |session| !session.events.is_empty() || session.refused > 0)?;
        Ok(self.events.pop_front())
    }

    /// The next of the events that have come already. It asks the service for none, makes no system call, and sends
    /// nothing that is queued: with it an application handles all that has come together before it answers.
    pub fn take_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Whether a call has been released, as far as the service has said: the circuit's channel is closed then.
    ///
    /// # Errors
    /// The service has gone.
    pub fn is_released(&mut self, call: u64) -> Result<Option<CauseValue>, Error> {
        self.fill(Some(Duration::ZERO), |session| session.events.iter().any(|event| is_release(event, call)))?;
        Ok(self.events.iter().find(|event| is_release(event, call)).and_then(cause_of))
    }

    fn await_circuit(&mut self, wanted: u64, patience: Duration) -> Result<Circuit, CallError> {
        let is_it = move |event: &Event| {
            matches!(event, Event::Connected { call, .. } if *call == wanted) || is_release(event, wanted)
        };
        match self.await_event(Some(patience), is_it)? {
            Some(Event::Connected { circuit, .. }) => {
                let circuit = circuit.parse().map_err(|_| Error::Protocol(circuit))?;
                Ok(Circuit { call: wanted, circuit })
            }
            Some(event) => Err(CallError::Released(cause_of(&event).unwrap_or(CauseValue::NORMAL_UNSPECIFIED))),
            None => {
                self.release(wanted, CauseValue::NO_ANSWER)?;
                Err(CallError::NoAnswer(patience))
            }
        }
    }

    fn await_event(
        &mut self,
        patience: Option<Duration>,
        wanted: impl Fn(&Event) -> bool,
    ) -> Result<Option<Event>, Error> {
        self.fill(patience, |session| session.events.iter().any(&wanted))?;
        let at = self.events.iter().position(wanted);
        Ok(at.and_then(|at| self.events.remove(at)))
    }

    /// Takes events in until there is what is wanted, or time is up.
    fn fill(&mut self, patience: Option<Duration>, there: impl Fn(&Self) -> bool) -> Result<(), Error> {
        let deadline = deadline(patience);
        while !there(self) {
            if !self.queue.is_empty() || !self.waits {
                self.send_steps(true)?;
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if !self.connection.await_answer(left)? {
                return Ok(());
            }
            self.finish_one()?;
        }
        Ok(())
    }
}

/// How long the network may take to acknowledge an answer: T313, and more.
const ANSWER: Duration = Duration::from_secs(10);

fn is_release(event: &Event, wanted: u64) -> bool {
    matches!(event, Event::Released { call, .. } if *call == wanted)
}

fn cause_of(event: &Event) -> Option<CauseValue> {
    match event {
        Event::Released { cause, .. } | Event::PartyDropped { cause, .. } => Some(CauseValue(*cause)),
        _ => None,
    }
}

impl AsFd for Session {
    /// Readable when an event has come, once [`Session::next_event`] has found none; or when the service has gone.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.control()
    }
}

impl Endpoint {
    /// Opens the circuit of a call.
    ///
    /// # Errors
    /// It has been released meanwhile, or another endpoint has it.
    pub fn open_call(&mut self, circuit: &Circuit) -> Result<ChannelId, Error> {
        self.open(circuit.circuit, OpenOptions::default())
    }
}
