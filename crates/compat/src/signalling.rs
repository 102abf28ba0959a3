//! The control socket of a signalling program (`ATMSIGD_CTRL`): each message is a `struct atmsvc_msg` of
//! `linux/atmsvc.h`, whose sockets are numbers that the service gives. Orders come by the descriptor itself, which is a
//! connection to the service on which the next one is always asked for; reports go by another connection.
//!
//! Stock `atmsigd` ends when it reads nothing where a message was promised: so it does when the service has gone.

use crate::abi::{ATM_AAL5, Address, CALLED_OCTETS, Called, SAP_OCTETS, SOCKADDR_OCTETS, part};
use crate::calls;
use crate::data::Pause;
use crate::qos::{QOS_OCTETS, Qos};
use crate::sap;
use crate::service::{Failed, Session, complain, environment};
use crate::shared::Stage;
use crate::socket::Socket;
use crate::system::is_capable;
use endpoint::calls::{Answer, Event, Order, Report, Request, Sap, Traffic};
use libc::c_int;
use rustix::io::Errno;
use rustix::thread::CapabilitySet;
use wire::CircuitId;
use wire::aesa::Aesa;

/// Octets of `struct atmsvc_msg`.
pub(crate) const MESSAGE_OCTETS: usize = 252;
// Where its parts are; none is aligned to more than four octets.
const SOCKET: usize = 4;
const LISTENER: usize = 12;
const REPLY: usize = 20;
const PVC: usize = 24;
const LOCAL: usize = 36;
const QOS: usize = 80;
const SAP: usize = 164;
const CALLED: usize = 208;
const _: () = assert!(LOCAL == PVC + SOCKADDR_OCTETS && QOS == LOCAL + CALLED_OCTETS && SAP == QOS + QOS_OCTETS);
const _: () = assert!(CALLED == SAP + SAP_OCTETS + size_of::<u32>() && MESSAGE_OCTETS == CALLED + CALLED_OCTETS);

/// `enum atmsvc_msg_type`.
mod kind {
    pub(super) const CONNECT: u32 = 2;
    pub(super) const ACCEPT: u32 = 3;
    pub(super) const REJECT: u32 = 4;
    pub(super) const LISTEN: u32 = 5;
    pub(super) const OKAY: u32 = 6;
    pub(super) const ERROR: u32 = 7;
    pub(super) const INDICATE: u32 = 8;
    pub(super) const CLOSE: u32 = 9;
    pub(super) const ITF_NOTIFY: u32 = 10;
}

/// A message.
pub(crate) type Message = [u8; MESSAGE_OCTETS];

/// An order as the program reads it, which serves interface `itf`.
fn emit(order: &Order, itf: i16) -> Message {
    let mut message = [0; MESSAGE_OCTETS];
    let mut put = |at: usize, octets: &[u8]| message[at..at + octets.len()].copy_from_slice(octets);
    let address = |text: Option<&String>| Called::of(text.and_then(|text| text.parse().ok())).0;
    let sap_of = |text: &str| sap::emit(&text.parse().unwrap_or(Sap::ANY));
    put(LOCAL, &address(None));
    put(CALLED, &address(None));
    let kind = match order {
        Order::Listen { listener, address: own, sap } => {
            put(SOCKET, &listener.to_ne_bytes());
            put(LOCAL, &address(own.as_ref()));
            put(CALLED, &address(own.as_ref()));
            put(SAP, &sap_of(sap));
            // As in the network's own hosts, a listener takes any traffic.
            put(QOS, &Qos::any(ATM_AAL5).0);
            kind::LISTEN
        }
        Order::Connect { call, to, sap, traffic } => {
            let [there, back] = &**traffic;
            put(SOCKET, &call.to_ne_bytes());
            put(CALLED, &address(Some(to)));
            put(SAP, &sap_of(sap));
            put(QOS, &Qos::of_ways(there, back).0);
            kind::CONNECT
        }
        Order::Accept { call, listener } => {
            put(SOCKET, &call.to_ne_bytes());
            put(LISTENER, &listener.to_ne_bytes());
            kind::ACCEPT
        }
        Order::Reject { listener } => {
            put(LISTENER, &listener.to_ne_bytes());
            kind::REJECT
        }
        Order::Close { socket } => {
            put(SOCKET, &socket.to_ne_bytes());
            kind::CLOSE
        }
        Order::Readdress => {
            put(PVC, &Address { itf, vpi: 0, vci: 0 }.emit());
            kind::ITF_NOTIFY
        }
    };
    put(0, &kind.to_ne_bytes());
    message
}

/// What a program wrote; `None`: a message that says nothing to the service.
fn parse(message: &Message) -> Option<Report> {
    let number = |at: usize| u64::from_ne_bytes(part(message, at));
    let errno = i32::from_ne_bytes(part(message, REPLY)).saturating_abs();
    let address = |at: usize| Called(part(message, at)).aesa().map(|address: Aesa| address.to_string());
    let pvc = Address::parse(&part::<SOCKADDR_OCTETS>(message, PVC)).ok().and_then(Address::circuit);
    let circuit = pvc.filter(|circuit: &CircuitId| circuit.vci.get() != 0).map(|circuit| circuit.to_string());
    let socket = number(SOCKET);
    Some(match u32::from_ne_bytes(part(message, 0)) {
        kind::OKAY => Report::Okay { socket, circuit },
        kind::ERROR => Report::Failed { socket, errno },
        kind::CLOSE => Report::Closed { socket, errno },
        kind::INDICATE => {
            // What cannot be a call is refused for its traffic.
            let ways = Qos(part(message, QOS)).ways();
            let [send, receive] = ways.unwrap_or_else(|_| [Traffic::none(), Traffic::none()]);
            Report::Indicate {
                listener: number(LISTENER),
                circuit: circuit.unwrap_or_default(),
                from: address(CALLED),
                to: address(LOCAL),
                sap: sap::parse(&part(message, SAP)).unwrap_or(Sap::ANY).to_string(),
                traffic: Box::new([receive, send]),
            }
        }
        _ => return None,
    })
}

/// Whether a socket is a program's control socket.
pub(crate) fn is_control(socket: &Socket) -> bool {
    let signals = || socket.shared().settings.lock().is_ok_and(|settings| settings.stage == Stage::SIGNALLING);
    socket.listener.get().is_some() && signals()
}

/// `ATMSIGD_CTRL`: the program signals for the first interface whose host leaves that to one.
///
/// # Errors
/// As the kernel: `EPERM`, `EADDRINUSE`; `ENOTTY`: no host does.
pub(crate) fn attach(socket: &Socket) -> Result<c_int, Errno> {
    if !is_capable(CapabilitySet::NET_ADMIN) {
        return Err(Errno::PERM);
    }
    let mut settings = socket.shared().settings.lock()?;
    if settings.stage != Stage::IDLE || settings.connected {
        return Err(Errno::INVAL);
    }
    let found = begin();
    let (itf, session) = found.map_err(|Failed { errno, why }| {
        complain(&why);
        errno
    })?;
    socket.begin_listening(session, &calls::ends(socket))?;
    settings.address = Address { itf, vpi: 0, vci: 0 };
    settings.stage = Stage::SIGNALLING;
    Ok(0)
}

fn begin() -> Result<(i16, Session), Failed> {
    let session = Session::open()?;
    let all = session.list_calls()?;
    let interfaces = || all["interfaces"].as_array().into_iter().flatten();
    let left = |host: &String| interfaces().find(|i| i["station"] == host.as_str() && i["program"] == true);
    let mut hosts = environment().hosts.iter().enumerate().filter_map(|(itf, host)| Some((itf, host, left(host)?)));
    let (itf, host, interface) = hosts.next().ok_or_else(|| {
        let why = "no host of this program leaves its signalling to one: signalling = { version = \"uni31\", by = \"program\" }";
        Failed::new(Errno::NOTTY, why)
    })?;
    if interface["up"] == true {
        return Err(Failed::new(Errno::ADDRINUSE, format!("host {host} has a program that signals for it already")));
    }
    let refused = |e: Failed| if e.errno == Errno::IO { Failed { errno: Errno::PERM, ..e } } else { e };
    session.call(&Request::Serve { host: host.clone() }).map_err(refused)?;
    session.begin(&Request::Next)?;
    Ok((itf as i16, session))
}

fn interface(socket: &Socket) -> Result<(i16, &'static String), Errno> {
    let itf = socket.shared().settings.lock()?.address.itf;
    let host = usize::try_from(itf).ok().and_then(|itf| environment().hosts.get(itf));
    Ok((itf, host.ok_or(Errno::NODEV)?))
}

/// The next order that waits; `None`: the service has gone.
///
/// # Errors
/// `ENOTCONN`, `EPROTO`.
pub(crate) fn receive(socket: &Socket) -> Result<Option<Message>, Pause> {
    let session = socket.listener.get().ok_or(Errno::NOTCONN)?;
    let (itf, _) = interface(socket)?;
    loop {
        let Some(answer) = calls::next_answer(socket, session)? else { return Ok(None) };
        let Answer::Events(events) = answer else { return Err(Errno::PROTO.into()) };
        let order = events.into_iter().find_map(|event| match event {
            Event::Order(order) => Some(order),
            _ => None,
        });
        if let Some(order) = order {
            return Ok(Some(emit(&order, itf)));
        }
    }
}

/// Reports a message of the program's.
///
/// # Errors
/// `EINVAL`: it has another length; `EUNATCH`: the service has gone.
pub(crate) fn send(socket: &Socket, octets: &[u8]) -> Result<(), Errno> {
    let message: &Message = octets.try_into().map_err(|_| Errno::INVAL)?;
    let Some(report) = parse(message) else { return Ok(()) };
    let (_, host) = interface(socket)?;
    let _turn = socket.shared().send.lock()?;
    let reported = reports(socket)
        .and_then(|session| session.call(&Request::Report { host: host.clone(), report: Box::new(report) }));
    reported.map(drop).map_err(|e| {
        complain(&e.why);
        Errno::UNATCH
    })
}

/// The connection by which reports go, of this process or of one that it was forked from.
fn reports(socket: &Socket) -> Result<&Session, Failed> {
    if let Some(session) = socket.reports.get() {
        return Ok(session);
    }
    let _ = socket.reports.set(Session::open()?);
    socket.reports.get().ok_or_else(|| Errno::UNATCH.into())
}

/// A change of the addresses of an interface whose host leaves signalling to a program: an address and whether it is
/// there, or `None` to take all away.
///
/// # Errors
/// The service says no.
pub(crate) fn readdress(number: i16, change: Option<(&Called, bool)>) -> Result<(), Errno> {
    let host = usize::try_from(number).ok().and_then(|itf| environment().hosts.get(itf)).ok_or(Errno::NODEV)?;
    let request = match change {
        None => Request::ResetAddresses { host: host.clone() },
        Some((address, present)) => {
            let address = address.aesa().ok_or(Errno::INVAL)?.to_string();
            Request::SetAddress { host: host.clone(), address, present }
        }
    };
    let changed = Session::open().and_then(|session| session.call(&request));
    changed.map(drop).map_err(|e| {
        complain(&e.why);
        if e.errno == Errno::IO { Errno::PERM } else { e.errno }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const A1: &str = "47000580ffde0000000000000102000000000100";
    const A2: &str = "47000580ffde0000000000000102000000000200";

    #[test]
    fn orders_are_the_messages_that_atmsigd_reads() {
        let traffic = Traffic { pcr: Some(1000), sdu_octets: 1500, ..Traffic::default() };
        let sap = "user:464f52455f41544d".to_owned();
        let traffic = Box::new([traffic, Traffic::none()]);
        let connect = emit(&Order::Connect { call: 7, to: A2.into(), sap, traffic }, 0);
        assert_eq!((connect[0], connect[4], connect[80], connect[120], connect[160]), (2, 7, 1, 0, 5));
        assert_eq!(i32::from_ne_bytes(part(&connect, 84)), 1000);
        assert_eq!(i32::from_ne_bytes(part(&connect, 100)), 1500);
        assert_eq!((&connect[164..174], &connect[212..214]), (&b"\x02\x08FORE_ATM"[..], &[0x47, 0][..]));
        let listen = emit(&Order::Listen { listener: 3, address: Some(A1.into()), sap: "any".into() }, 0);
        assert_eq!((listen[0], listen[4], listen[36], listen[40], listen[80], listen[120]), (5, 3, 20, 0x47, 5, 5));
        let accept = emit(&Order::Accept { call: 8, listener: 3 }, 0);
        assert_eq!((accept[0], accept[4], accept[12]), (3, 8, 3));
        let reject = emit(&Order::Reject { listener: 3 }, 0);
        assert_eq!((reject[0], reject[4], reject[12]), (4, 0, 3));
        assert_eq!(emit(&Order::Close { socket: 9 }, 0)[..5], [9, 0, 0, 0, 9]);
        let readdress = emit(&Order::Readdress, 2);
        assert_eq!((readdress[0], readdress[24], readdress[28]), (10, 8, 2));
    }

    #[test]
    fn what_atmsigd_writes_is_understood() {
        let mut okay = [0; MESSAGE_OCTETS];
        (okay[0], okay[4], okay[24], okay[32]) = (6, 7, 8, 100);
        assert_eq!(parse(&okay), Some(Report::Okay { socket: 7, circuit: Some("0.100".into()) }));
        let mut error = [0; MESSAGE_OCTETS];
        (error[0], error[4]) = (7, 7);
        error[REPLY..REPLY + 4].copy_from_slice(&(-111i32).to_ne_bytes());
        assert_eq!(parse(&error), Some(Report::Failed { socket: 7, errno: 111 }));
        let mut indicate = okay;
        (indicate[0], indicate[4], indicate[12]) = (8, 0, 3);
        let (there, back) = (Traffic { pcr: Some(9), ..Traffic::default() }, Traffic::none());
        indicate[QOS..QOS + QOS_OCTETS].copy_from_slice(&Qos::of_ways(&back, &there).0);
        indicate[CALLED..].copy_from_slice(&Called::of(A1.parse().ok()).0);
        indicate[LOCAL..LOCAL + CALLED_OCTETS].copy_from_slice(&Called::of(A2.parse().ok()).0);
        let Some(Report::Indicate { listener: 3, circuit, from, to, sap, traffic }) = parse(&indicate) else {
            panic!("not understood")
        };
        let plain = |address: Option<String>| address.map(|text| text.replace('.', ""));
        assert_eq!((circuit.as_str(), plain(from).as_deref(), plain(to).as_deref()), ("0.100", Some(A1), Some(A2)));
        assert_eq!((sap.as_str(), traffic[0].pcr, traffic[1].category.as_str()), ("any", Some(9), "none"));
        // A change of QoS, and what there is not.
        for kind in [0, 11, 200] {
            indicate[0] = kind;
            assert_eq!(parse(&indicate), None);
        }
    }

    proptest! {
        #[test]
        fn any_message_is_a_report_or_nothing(octets in proptest::collection::vec(any::<u8>(), MESSAGE_OCTETS), kind in 0u32..16) {
            let mut message: Message = octets.try_into().unwrap();
            message[..4].copy_from_slice(&kind.to_ne_bytes());
            if let Some(Report::Failed { errno, .. } | Report::Closed { errno, .. }) = parse(&message) {
                prop_assert!(errno >= 0);
            }
        }
    }
}
