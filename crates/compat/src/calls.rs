//! Calls: what `bind`, `listen`, `accept`, `connect` and the requests for parties do on a socket of `AF_ATMSVC`, with
//! the kernel's answers, and the errno of each cause as `atmsigd` gives it.
//!
//! A call belongs to a connection to the service, which its socket keeps: so it ends with the last copy of the socket.
//! A listening socket's descriptor is such a connection itself, on which the next event is always asked for: it can be
//! read when a call waits, in each process that has it. A thread waits for the answer to a `connect` that is not to
//! block.

use crate::abi::{Address, CALLED_OCTETS, Called};
use crate::data::{Live, Pause};
use crate::descriptors::{self, Hidden};
use crate::qos::Qos;
use crate::real;
use crate::sap;
use crate::service::{Failed, Session, complain, environment};
use crate::shared::{Settings, Stage};
use crate::socket::{Socket, no_calls};
use crate::system::fill;
use crate::table::{self, Held};
use endpoint::calls::{Answer, Event, Request, Sap, Traffic};
use endpoint::times::timespec;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd, RawFd};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::SocketFlags;
use serde_json::Value;
use std::time::{Duration, Instant};
use wire::CircuitId;
use wire::aesa::Aesa;
use wire::q2931::CauseValue;

/// How often a thread that waits for an answer looks whether the program still has the socket.
const LOOK: Duration = Duration::from_millis(200);

/// A host of the program's interfaces that has signalling.
struct Host {
    itf: i16,
    name: &'static str,
    addresses: Vec<Aesa>,
    /// The end system identifier.
    esi: Vec<u8>,
    /// It leaves its signalling to a program.
    by_program: bool,
    /// That program runs, or none is needed.
    can_call: bool,
}

/// A call at one of the program's interfaces.
pub(crate) struct Listed {
    pub(crate) itf: i16,
    pub(crate) circuit: Option<CircuitId>,
    pub(crate) up: bool,
    pub(crate) remote: Option<String>,
}

fn hosts_of(all: &Value) -> Vec<Host> {
    let interfaces = || all["interfaces"].as_array().into_iter().flatten();
    let one = |(itf, name): (usize, &'static String)| {
        let interface = interfaces().find(|interface| interface["station"] == name.as_str())?;
        let addresses = interface["addresses"].as_array().into_iter().flatten();
        let addresses = addresses.filter_map(|address| address.as_str()?.parse().ok()).collect();
        let esi = interface["esi"].as_str().unwrap_or_default();
        let esi =
            esi.as_bytes().chunks(2).filter_map(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok());
        let by_program = interface["program"] == true;
        let can_call = !by_program || interface["up"] == true;
        Some(Host { itf: i16::try_from(itf).ok()?, name, addresses, esi: esi.collect(), by_program, can_call })
    };
    environment().hosts.iter().enumerate().filter_map(one).collect()
}

/// The hosts that can call, the first the one that does if nothing else is said.
fn hosts(session: &Session) -> Result<Vec<Host>, Failed> {
    let (hosts, mute): (Vec<Host>, Vec<Host>) =
        hosts_of(&session.list_calls()?).into_iter().partition(|host| host.can_call);
    match (hosts.is_empty(), mute.first()) {
        (false, _) => Ok(hosts),
        (true, Some(Host { name, .. })) => {
            let why = format!(
                "host {name} leaves signalling to a program that does not run: cellway run --host {name} -- atmsigd"
            );
            Err(Failed::new(Errno::UNATCH, why))
        }
        (true, None) => Err(no_calls().into()),
    }
}

fn host_of(number: i16) -> Option<Host> {
    let all = Session::open().and_then(|session| session.list_calls()).unwrap_or_default();
    hosts_of(&all).into_iter().find(|host| host.itf == number)
}

/// The addresses of an interface; none for want of signalling or of the service.
pub(crate) fn addresses(number: i16) -> Vec<Aesa> {
    host_of(number).map(|host| host.addresses).unwrap_or_default()
}

/// Whether the host of an interface leaves its signalling to a program.
pub(crate) fn is_left_to_program(number: i16) -> bool {
    host_of(number).is_some_and(|host| host.by_program)
}

/// The end system identifier of an interface, likewise.
pub(crate) fn esi(number: i16) -> Vec<u8> {
    host_of(number).map(|host| host.esi).unwrap_or_default()
}

/// The calls at the program's interfaces that somebody has answered, or that are being set up from here.
pub(crate) fn listed() -> Vec<Listed> {
    let all = Session::open().and_then(|session| session.list_calls()).unwrap_or_default();
    let one = |call: &Value| {
        let itf = environment().hosts.iter().position(|host| call["host"] == host.as_str())?;
        let text = |key: &str| call[key].as_str().map(str::to_owned);
        let remote = if call["outgoing"] == true { text("to") } else { text("from") };
        (call["state"] != "offered").then_some(Listed {
            itf: i16::try_from(itf).ok()?,
            circuit: text("circuit").and_then(|circuit| circuit.parse().ok()),
            up: call["state"] == "up",
            remote: remote.map(|address| address.replace('.', "")),
        })
    };
    all["calls"].as_array().into_iter().flatten().filter_map(one).collect()
}

fn session() -> Result<Session, Failed> {
    Session::open().map_err(|e| match e.errno {
        Errno::MFILE | Errno::NFILE => e,
        // Without a signalling daemon the kernel says this.
        _ => Failed { errno: Errno::UNATCH, ..e },
    })
}

fn told<T>(result: Result<T, Failed>) -> Result<T, Errno> {
    result.map_err(|Failed { errno, why }| {
        complain(&why);
        errno
    })
}

/// The errno of a cause, as `atmsigd` has it.
fn errno_of(cause: u8) -> Errno {
    match CauseValue(cause) {
        CauseValue::UNALLOCATED => Errno::ADDRNOTAVAIL,
        CauseValue::NO_ROUTE | CauseValue::CELL_RATE | CauseValue::RESOURCES => Errno::HOSTUNREACH,
        CauseValue(22) => Errno::REMCHG,
        CauseValue::OUT_OF_ORDER => Errno::HOSTDOWN,
        CauseValue::NO_RESPONSE | CauseValue::TIMER => Errno::TIMEDOUT,
        _ => Errno::CONNREFUSED,
    }
}

/// The private address that is meant; `None`: none is said.
fn private(name: &Called) -> Result<Option<Aesa>, Failed> {
    if name.aesa().is_none() && name.is_public() {
        let why = "addresses of E.164 are not routed: use a private address (AESA) of 20 octets";
        return Err(Failed::new(Errno::ADDRNOTAVAIL, why));
    }
    Ok(name.aesa())
}

/// The hosts that a local address means: with one the host that has it, whatever the selector, and else all.
fn meant(hosts: Vec<Host>, local: Option<Aesa>) -> Result<Vec<Host>, Failed> {
    let Some(address) = local else { return Ok(hosts) };
    let has = |host: &Host| host.addresses.iter().any(|own| own.without_selector() == address.without_selector());
    let hosts: Vec<Host> = hosts.into_iter().filter(has).collect();
    if hosts.is_empty() {
        let why = format!("no interface has the address {address} (cellway address shows them)");
        return Err(Failed::new(Errno::ADDRNOTAVAIL, why));
    }
    Ok(hosts)
}

/// `bind`: the address under which the socket calls or is called.
///
/// # Errors
/// As the kernel: `EINVAL`, `EISCONN`, `EAFNOSUPPORT`, `EBADFD` without QoS, `EUNATCH` without signalling, and
/// `EADDRNOTAVAIL`: no interface has the address.
pub(crate) fn bind(socket: &Socket, name: &[u8]) -> Result<(), Errno> {
    let mut settings = socket.shared().settings.lock()?;
    if name.len() != CALLED_OCTETS {
        return Err(Errno::INVAL);
    }
    if settings.connected {
        return Err(Errno::ISCONN);
    }
    if settings.stage != Stage::IDLE {
        return Err(Errno::INVAL);
    }
    settings.bound = false;
    let name = Called::parse(name)?;
    if !settings.has_qos {
        return Err(Errno::BADFD);
    }
    settings.local = name;
    let checked = session().and_then(|session| meant(hosts(&session)?, private(&name)?).map(drop));
    told(checked)?;
    settings.bound = true;
    Ok(())
}

/// `listen`: calls that fit are presented from now on.
///
/// # Errors
/// As the kernel: `EINVAL` for the root of many, `EADDRINUSE`, `EUNATCH`.
pub(crate) fn listen(socket: &Socket) -> Result<(), Errno> {
    let mut settings = socket.shared().settings.lock()?;
    if settings.stage == Stage::LISTENING {
        return Err(Errno::ADDRINUSE);
    }
    if settings.multipoint || settings.connected || settings.stage != Stage::IDLE {
        return Err(Errno::INVAL);
    }
    let session = told(present(&settings))?;
    socket.begin_listening(session, &ends(socket))?;
    settings.stage = Stage::LISTENING;
    Ok(())
}

/// The program's descriptors of a socket.
pub(crate) fn ends(socket: &Socket) -> Vec<RawFd> {
    let is_it = |fd: &RawFd| table::get(*fd).is_some_and(|held| std::ptr::eq(&raw const *held, socket));
    table::descriptors(0, RawFd::MAX).filter(is_it).collect()
}

fn present(settings: &Settings) -> Result<Session, Failed> {
    let session = session()?;
    let hosts = hosts(&session)?;
    let (sap, local) = (sap::parse(&settings.sap)?, private(&settings.local)?);
    for host in meant(hosts, local)? {
        let (selector, sap) = (local.map(|address| address.selector()), Some(sap.to_string()));
        let request = Request::Listen { host: host.name.to_owned(), selector, sap };
        let in_use = |e: Failed| if e.errno == Errno::IO { Failed { errno: Errno::ADDRINUSE, ..e } } else { e };
        session.call(&request).map_err(in_use)?;
    }
    session.begin(&Request::Next)?;
    Ok(session)
}

/// Waits until a connection has an answer. True if there is one.
fn await_answer(session: &Session, patience: Option<Duration>) -> Result<bool, Errno> {
    let limit = patience.map(timespec);
    Ok(poll(&mut [PollFd::new(session, PollFlags::IN)], limit.as_ref())? > 0)
}

/// The answer that a socket's connection has been asking for, if it is there, and asks for the next one. `None`: the
/// service has gone.
///
/// # Errors
/// `EDEADLK` in a signal handler.
pub(crate) fn next_answer(socket: &Socket, session: &Session) -> Result<Option<Answer>, Pause> {
    // Processes that share the socket take turns.
    let _turn = socket.shared().receive.lock()?;
    if !session.has_answer_by(Instant::now())? {
        return Err(Pause::Wait);
    }
    let answer = session.answer().and_then(|answer| session.begin(&Request::Next).map(|()| answer));
    Ok(told(answer).ok())
}

fn is_blocking(fd: impl AsFd) -> bool {
    rustix::fs::fcntl_getfl(fd).is_ok_and(|flags| !flags.contains(OFlags::NONBLOCK))
}

/// `accept`: the next call that waits, answered, as a socket of its own.
///
/// # Errors
/// As the kernel: `EINVAL` if the socket does not listen, `EUNATCH`: the service has gone, `EMFILE`.
pub(crate) fn accept(socket: &Socket, flags: SocketFlags) -> Result<(OwnedFd, Socket), Pause> {
    let Some(session) = socket.listener.get() else {
        // Without a signalling daemon the kernel says so before all else; with one it would wait for ever.
        told(session().and_then(|session| hosts(&session)))?;
        return Err(Errno::INVAL.into());
    };
    loop {
        if !session.has_answer_by(Instant::now())? {
            return Err(Pause::Wait);
        }
        // Before the call is taken: it stays for a later `accept` if there are no descriptors for it.
        let prepared = told(prepare(socket, flags))?;
        let answer = next_answer(socket, session)?.ok_or(Errno::UNATCH)?;
        let Answer::Events(events) = answer else { return Err(Errno::PROTO.into()) };
        // One, as was asked for.
        let Some(Event::Incoming { call, from, to, sap, traffic, .. }) = events.into_iter().next() else { continue };
        let address = |text: Option<String>| Called::of(text.and_then(|text| text.parse().ok()));
        match answer_call(prepared, call, &traffic) {
            Ok((end, new)) => {
                let mut settings = new.shared().settings.lock()?;
                (settings.local, settings.remote) = (address(to), address(from));
                settings.sap = sap::emit(&sap.parse().unwrap_or_default());
                drop(settings);
                return Ok((end, new));
            }
            // The caller has given up meanwhile: the next one.
            Err(Failed { errno: Errno::IO | Errno::NODEV | Errno::CONNRESET, .. }) => {}
            Err(e) => return Ok(told(Err(e))?),
        }
    }
}

/// Waits until a call may be there for `accept`, which has no time limit in the kernel. A thread may be cancelled in
/// it.
///
/// # Errors
/// `EAGAIN`: the descriptor does not block. `EINTR`.
pub(crate) fn wait_for_call(socket: &Socket) -> Result<(), Errno> {
    match real::wait_readable(socket.near(), 0) {
        Err(Errno::AGAIN) if is_blocking(descriptors::borrow(socket.near())) => Ok(()),
        waited => waited.map(drop),
    }
}

/// A connection for a call that is to be answered, and its socket.
struct Prepared {
    session: Session,
    end: OwnedFd,
    new: Socket,
}

/// Has all that a call needs before it is known which.
fn prepare(listener: &Socket, flags: SocketFlags) -> Result<Prepared, Failed> {
    let session = session()?;
    let (end, new) = Socket::create(listener.family, listener.kind, crate::abi::ATM_AAL5.into(), flags)?;
    // These will be free when its circuit is opened.
    (0..Live::DESCRIPTORS).map(|_| Hidden::new(&end)).collect::<Result<Vec<Hidden>, Errno>>()?;
    Ok(Prepared { session, end, new })
}

/// Has a call that was presented: its circuit is open before the caller hears of the answer.
fn answer_call(prepared: Prepared, call: u64, [forward, backward]: &[Traffic; 2]) -> Result<(OwnedFd, Socket), Failed> {
    let Prepared { session, end, new } = prepared;
    let Answer::Taken { host, circuit } = session.call(&Request::Take { call })? else {
        return Err(Errno::PROTO.into());
    };
    let mut qos = Qos::of_ways(backward, forward);
    qos.settle()?;
    let itf = environment().hosts.iter().position(|name| *name == host).unwrap_or_default();
    let live = new.open_call(session, &host, at(itf as i16, &circuit)?, qos)?;
    new.shared().settings.lock()?.call = call;
    live.session().call(&Request::Tie { call })?;
    live.session().call(&Request::Accept { call })?;
    // The network acknowledges soon (T313): this does not heed `O_NONBLOCK`, nor signals.
    let connected = outcome(live.session(), call, None, || true)?;
    connected.map(|_| (end, new)).map_err(|cause| Failed::new(Errno::CONNRESET, CauseValue(cause)))
}

fn at(itf: i16, circuit: &str) -> Result<Address, Failed> {
    let circuit: CircuitId = circuit.parse().map_err(|_| Errno::PROTO)?;
    Ok(Address { itf, vpi: circuit.vpi.get() as i16, vci: i32::from(circuit.vci.get()) })
}

/// Waits for events. After `patience` and after signals, `goes_on` is asked: if it does not, this is `EINTR`.
fn events(session: &Session, patience: Option<Duration>, goes_on: &dyn Fn() -> bool) -> Result<Vec<Event>, Failed> {
    session.begin(&Request::Wait)?;
    loop {
        match await_answer(session, patience) {
            Ok(true) => break,
            Ok(false) | Err(Errno::INTR) if goes_on() => {}
            Ok(false) => return Err(Errno::INTR.into()),
            Err(e) => return Err(e.into()),
        }
    }
    match session.answer()? {
        Answer::Events(events) => Ok(events),
        _ => Err(Errno::PROTO.into()),
    }
}

/// Waits for what comes of a call: its circuit, or the cause.
fn outcome(
    session: &Session,
    call: u64,
    patience: Option<Duration>,
    goes_on: impl Fn() -> bool,
) -> Result<Result<String, u8>, Failed> {
    loop {
        for event in events(session, patience, &goes_on)? {
            match event {
                Event::Connected { call: of, circuit, .. } if of == call => return Ok(Ok(circuit)),
                Event::Released { call: of, cause, .. } if of == call => return Ok(Err(cause)),
                _ => {}
            }
        }
    }
}

/// What a `connect` asks for.
struct Wanted {
    to: Aesa,
    local: Option<Aesa>,
    sap: Sap,
    qos: Qos,
    ways: [Traffic; 2],
    multipoint: bool,
}

impl Wanted {
    fn of(settings: &Settings) -> Result<Self, Failed> {
        let mut qos = settings.qos;
        qos.settle()?;
        if qos.aal() != crate::abi::ATM_AAL5 {
            return Err(Failed::new(Errno::PROTONOSUPPORT, "calls have AAL5: other layers have permanent circuits"));
        }
        let ways = qos.ways().map_err(|e| Failed::new(e, "calls of sockets are UBR or CBR"))?;
        let no_address = || Failed::new(Errno::ADDRNOTAVAIL, "the address to be called is empty");
        Ok(Wanted {
            to: private(&settings.remote)?.ok_or_else(no_address)?,
            local: private(&settings.local)?,
            sap: sap::parse(&settings.sap)?,
            qos,
            ways,
            multipoint: settings.multipoint,
        })
    }
}

/// `connect`: calls.
///
/// # Errors
/// As the kernel: `EINVAL`, `EISCONN`, `EAFNOSUPPORT`, `EBADFD` without QoS, `EUNATCH` without signalling, the errno of
/// the cause; `EINTR` gives the call up. If it is not to block: `EINPROGRESS`, then `EALREADY`, and once the descriptor
/// can be written the outcome, once.
pub(crate) fn connect(fd: RawFd, socket: &Held, name: &[u8]) -> Result<(), Errno> {
    if name.len() != CALLED_OCTETS {
        return Err(Errno::INVAL);
    }
    let mut settings = socket.shared().settings.lock()?;
    match settings.stage {
        Stage::CALLING => return Err(Errno::ALREADY),
        Stage::CALLED => {
            settings.stage = Stage::IDLE;
            let error = std::mem::take(&mut settings.error);
            return if error == 0 { Ok(()) } else { Err(Errno::from_raw_os_error(error)) };
        }
        Stage::LISTENING => return Err(Errno::INVAL),
        _ if settings.connected => return Err(Errno::ISCONN),
        _ => {}
    }
    let name = Called::parse(name)?;
    if !settings.has_qos {
        return Err(Errno::BADFD);
    }
    if settings.qos.has_any_class() {
        return Err(Errno::INVAL);
    }
    settings.remote = name;
    settings.error = 0;
    let asked = *settings;
    if is_blocking(descriptors::borrow(socket.near())) {
        drop(settings);
        // A signal gives the call up, as in the kernel.
        return told(set_up(socket, &asked, true));
    }
    settings.stage = Stage::CALLING;
    drop(settings);
    fill(descriptors::borrow(socket.near()));
    let held = table::get(fd).ok_or(Errno::BADF)?;
    let waiting = std::thread::Builder::new().name("cellway-call".into()).spawn(move || wait_for_answer(&held, &asked));
    match waiting {
        Ok(_) => Err(Errno::INPROGRESS),
        Err(_) => {
            socket.shared().settings.lock()?.stage = Stage::IDLE;
            Err(Errno::NOBUFS)
        }
    }
}

/// The thread of a `connect` that does not block. Signals are for the program's own threads.
fn wait_for_answer(held: &Held, asked: &Settings) {
    crate::system::block_signals();
    let Err(errno) = told(set_up(held, asked, false)) else { return };
    if let Ok(mut settings) = held.shared().settings.lock() {
        settings.stage = Stage::CALLED;
        settings.error = errno.raw_os_error();
        // Before anybody can ask for the outcome: later it would let the next call's descriptor be written.
        held.set_writable(true);
    }
}

fn set_up(socket: &Held, asked: &Settings, signals: bool) -> Result<(), Failed> {
    let session = session()?;
    let hosts = hosts(&session)?;
    let wanted = Wanted::of(asked)?;
    let host = meant(hosts, wanted.local)?.into_iter().next().ok_or_else(no_calls)?;
    let [forward, backward] = wanted.ways.clone();
    let request = Request::Call {
        host: host.name.to_owned(),
        to: wanted.to.to_string(),
        sap: Some(wanted.sap.to_string()),
        traffic: forward,
        backward: Some(backward),
        multipoint: wanted.multipoint,
    };
    // What the service says no to cannot be reached from here.
    let unreachable = |e: Failed| if e.errno == Errno::IO { Failed { errno: Errno::HOSTUNREACH, ..e } } else { e };
    let Answer::Calling { call } = session.call(&request).map_err(unreachable)? else {
        return Err(Errno::PROTO.into());
    };
    let answered = if signals {
        outcome(&session, call, None, || false)?
    } else {
        outcome(&session, call, Some(LOOK), || !table::is_alone(socket))?
    };
    let circuit =
        answered.map_err(|cause| Failed::new(errno_of(cause), format!("{}: {}", wanted.to, CauseValue(cause))))?;
    let reset = |e: Failed| Failed { errno: Errno::CONNRESET, ..e };
    session.call(&Request::Tie { call }).map_err(reset)?;
    let mut settings = socket.shared().settings.lock()?;
    settings.call = call;
    if settings.local.aesa().is_none() {
        settings.local = Called::of(host.addresses.first().copied());
    }
    drop(settings);
    socket.open_call(session, host.name, at(host.itf, &circuit)?, wanted.qos).map_err(reset)?;
    Ok(())
}

/// Why the last call failed (`SO_ERROR`), once.
pub(crate) fn take_error(socket: &Socket) -> i32 {
    socket.shared().settings.lock().map_or(0, |mut settings| std::mem::take(&mut settings.error))
}

/// Asks something of a root's call.
fn of_root(socket: &Socket, ask: impl FnOnce(&Session, u64) -> Result<i32, Failed>) -> Result<i32, Errno> {
    let settings = *socket.shared().settings.lock()?;
    if !settings.multipoint {
        return Err(Errno::INVAL);
    }
    let live = socket.live()?;
    // A root receives nothing: nobody waits for this turn for long.
    let _turn = socket.shared().receive.lock()?;
    told(ask(live.session(), settings.call))
}

/// `ATM_ADDPARTY`: gives the party's number.
///
/// # Errors
/// `EINVAL` if the socket is not the root of many, `ENOTCONN`, the errno of the cause.
pub(crate) fn add_party(socket: &Socket, name: Result<[u8; CALLED_OCTETS], Errno>) -> Result<i32, Errno> {
    of_root(socket, |session, call| {
        let to = private(&Called::parse(&name?)?)?.ok_or(Errno::ADDRNOTAVAIL)?;
        let Answer::Adding { party } = session.call(&Request::AddParty { call, to: to.to_string() })? else {
            return Err(Errno::PROTO.into());
        };
        loop {
            for event in events(session, None, &|| true)? {
                match event {
                    Event::PartyAdded { party: of, .. } if of == party => return Ok(i32::from(party)),
                    Event::PartyDropped { party: of, cause, .. } if of == party => {
                        return Err(Failed::new(errno_of(cause), format!("{to}: {}", CauseValue(cause))));
                    }
                    _ => {}
                }
            }
        }
    })
}

/// `ATM_DROPPARTY`.
///
/// # Errors
/// `EINVAL` if the socket is not the root of many or has no such party, `ENOTCONN`.
pub(crate) fn drop_party(socket: &Socket, party: Result<i32, Errno>) -> Result<i32, Errno> {
    of_root(socket, |session, call| {
        let party = u16::try_from(party?).map_err(|_| Errno::INVAL)?;
        let request = Request::DropParty { call, party, cause: CauseValue::NORMAL.0 };
        let unknown = |e: Failed| if e.errno == Errno::IO { Failed { errno: Errno::INVAL, ..e } } else { e };
        session.call(&request).map_err(unknown)?;
        Ok(0)
    })
}
