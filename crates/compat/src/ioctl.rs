//! `ioctl` on an ATM socket: the requests of `linux/atmdev.h` that tools make, and the general ones of sockets.

use crate::abi::{AF_ATMSVC, CALLED_OCTETS, Called, VCI_BITS, VPI_BITS};
use crate::calls;
use crate::interfaces::{self, Interface, TYPE};
use crate::memory;
use crate::service::complain;
use crate::signalling;
use crate::socket::Socket;
use crate::system::{is_capable, now_nanos};
use libc::{c_int, c_ulong, c_void};
use rustix::io::Errno;
use rustix::thread::CapabilitySet;
use std::sync::atomic::Ordering;

const ATM_GETLINKRATE: c_ulong = 0x4010_6181;
const ATM_GETNAMES: c_ulong = 0x4010_6183;
const ATM_GETTYPE: c_ulong = 0x4010_6184;
const ATM_GETESI: c_ulong = 0x4010_6185;
const ATM_GETADDR: c_ulong = 0x4010_6186;
const ATM_RSTADDR: c_ulong = 0x4010_6187;
const ATM_ADDADDR: c_ulong = 0x4010_6188;
const ATM_DELADDR: c_ulong = 0x4010_6189;
const ATM_GETCIRANGE: c_ulong = 0x4010_618a;
const ATM_SETCIRANGE: c_ulong = 0x4010_618b;
const ATM_SETESI: c_ulong = 0x4010_618c;
const ATM_SETESIF: c_ulong = 0x4010_618d;
const ATM_ADDLECSADDR: c_ulong = 0x4010_618e;
const ATM_DELLECSADDR: c_ulong = 0x4010_618f;
const ATM_GETLECSADDR: c_ulong = 0x4010_6190;
const ATM_GETSTAT: c_ulong = 0x4010_6150;
const ATM_GETSTATZ: c_ulong = 0x4010_6151;
const ATM_SETSC: c_ulong = 0x4004_61f1;
const ATMSIGD_CTRL: c_ulong = 0x61f0;
const ATM_ADDPARTY: c_ulong = 0x4010_61f4;
const ATM_DROPPARTY: c_ulong = 0x4004_61f5;
const SIOCGSTAMP: c_ulong = 0x8906;
const SIOCINQ: c_ulong = 0x541b;
const SIOCOUTQ: c_ulong = 0x5411;
/// The doors of the kernel's own protocols, of their daemons and of adapters: requests, and what there is instead.
const DOORS: [(&[c_ulong], &str); 8] = [
    // SIOCMKCLIP, ATMARPD_CTRL, ATMARP_MKIP, ATMARP_SETENTRY, ATMARP_ENCAP
    (&[0x61e0, 0x61e1, 0x61e2, 0x61e3, 0x61e5], "the kernel's Classical IP is not served: use `cellway ip tun`"),
    // ATMLEC_CTRL, ATMLEC_DATA, ATMLEC_MCAST
    (&[0x61d0, 0x61d1, 0x61d2], "LAN emulation is not served: use `cellway lane tap`"),
    // ATMMPC_CTRL, ATMMPC_DATA
    (&[0x61d8, 0x61d9], "MPOA is not served: use `cellway ip tun`"),
    // ATM_SETBACKEND, ATM_NEWBACKENDIF
    (
        &[0x4002_61f2, 0x4002_61f3],
        "the kernel's br2684 and PPP over ATM are not served: use `cellway ip tun --encapsulation llc-bridged`, `cellway ip ppp`",
    ),
    // SIOCSIFATMTCP, ATMTCP_CREATE, ATMTCP_REMOVE
    (
        &[0x6180, 0x618e, 0x618f],
        "an interface of ATM over TCP cannot be made here: use `cellway link add atmtcp://HOST:PORT`, or `atmtcp` in the description",
    ),
    // ATM_SETLOOP, ATM_GETLOOP, ATM_QUERYLOOP (linux/atmdev.h)
    (
        &[0x4010_6152, 0x4010_6153, 0x4010_6154],
        "there is no adapter that could loop cells back: use `cellway ping HOST CIRCUIT` (OAM loopback)",
    ),
    // SONET_GETSTAT, GETSTATZ, SETDIAG, CLRDIAG, GETDIAG, SETFRAMING, GETFRAMING, GETFRSENSE (linux/sonet.h)
    (
        &SONET,
        "there is no SONET framer: `cellway status` counts cells and drops, and `faults` of a link makes deliberate errors",
    ),
    // ENI_MEMDUMP, ENI_SETMULT (linux/atm_eni.h); ZATM_GETPOOL, GETPOOLZ, SETPOOL (linux/atm_zatm.h)
    (
        &[0x4010_6160, 0x4010_6167, 0x4010_6161, 0x4010_6162, 0x4010_6163],
        "there is no adapter whose buffers could be set: memory is an endpoint's own, and `queue_cells` of a link bounds its queue",
    ),
];
/// Requests of `linux/sonet.h`.
const SONET: [c_ulong; 8] =
    [0x8024_6110, 0x8024_6111, 0xc004_6112, 0xc004_6113, 0x8004_6114, 0x4004_6115, 0x8004_6116, 0x8006_6117];
/// Requests of ATM are of this kind ("type" in `linux/ioctl.h`).
const ATM_TYPE: c_ulong = b'a' as c_ulong;
const ESI_OCTETS: usize = 6;
/// Of `struct atm_dev_stats`.
const STATISTICS_OCTETS: c_int = 60;

/// `struct atmif_sioc`.
#[derive(Clone, Copy)]
#[repr(C)]
struct InterfaceRequest {
    number: c_int,
    length: c_int,
    value: *mut c_void,
}

/// `struct atm_iobuf`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Buffer {
    length: c_int,
    value: *mut c_void,
}

/// A request on a socket of ours, and the number that it gives. `None`: it is one that the descriptor itself answers.
///
/// # Errors
/// As the kernel.
///
/// # Safety
/// The argument is what the request says.
pub(crate) unsafe fn request(socket: &Socket, request: c_ulong, argument: *mut c_void) -> Option<Result<c_int, Errno>> {
    // The kernel takes 32 bits; programs with a signed number give more.
    let request = request & 0xffff_ffff;
    if let Some((_, instead)) = DOORS.iter().find(|(doors, _)| doors.contains(&request)) {
        complain(instead);
        return Some(Err(Errno::NOTTY));
    }
    // SAFETY: as the caller says.
    let done = unsafe {
        match request {
            SIOCINQ => queued(socket, argument),
            SIOCOUTQ => room(socket, argument),
            SIOCGSTAMP => stamp(socket, argument),
            ATM_SETSC => Ok(()),
            ATM_GETNAMES => names(argument),
            ATMSIGD_CTRL if socket.family == AF_ATMSVC => return Some(signalling::attach(socket)),
            ATM_ADDPARTY if socket.family == AF_ATMSVC => return Some(add_party(socket, argument)),
            ATM_DROPPARTY if socket.family == AF_ATMSVC => return Some(drop_party(socket, argument)),
            _ if (request >> 8) & 0xff == ATM_TYPE => of_interface(request, argument),
            _ => return None,
        }
    };
    Some(done.map(|()| 0))
}

unsafe fn queued(socket: &Socket, argument: *mut c_void) -> Result<(), Errno> {
    let live = socket.live().map_err(|_| Errno::INVAL)?;
    let octets = live.first_waiting(socket.shared())? as c_int;
    // SAFETY: an int, by the request's definition.
    unsafe { memory::put(argument.cast(), octets) }
}

unsafe fn room(socket: &Socket, argument: *mut c_void) -> Result<(), Errno> {
    let live = socket.live().map_err(|_| Errno::INVAL)?;
    // Octets that may still be queued, as Linux's ATM says with this request.
    let octets = live.send_room(socket.shared(), socket.near())? as c_int;
    // SAFETY: an int, by the request's definition.
    unsafe { memory::put(argument.cast(), octets) }
}

unsafe fn stamp(socket: &Socket, argument: *mut c_void) -> Result<(), Errno> {
    let shared = socket.shared();
    let known = shared.stamped.swap(true, Ordering::Relaxed);
    let mut nanos = shared.stamp.load(Ordering::Relaxed);
    if !known || nanos == 0 {
        nanos = now_nanos();
    }
    let time = libc::timeval { tv_sec: (nanos / 1_000_000_000) as i64, tv_usec: (nanos % 1_000_000_000 / 1000) as i64 };
    // SAFETY: a timeval, by the request's definition.
    unsafe { memory::put(argument.cast(), time) }
}

/// A further party of a call to many; gives its number.
unsafe fn add_party(socket: &Socket, argument: *mut c_void) -> Result<c_int, Errno> {
    // SAFETY: a `sockaddr_atmsvc`, by the request's definition.
    let octets = unsafe { memory::get(argument.cast::<[u8; CALLED_OCTETS]>()) };
    calls::add_party(socket, octets)
}

unsafe fn drop_party(socket: &Socket, argument: *mut c_void) -> Result<c_int, Errno> {
    // SAFETY: an int, by the request's definition.
    let party = unsafe { memory::get(argument.cast::<c_int>()) };
    calls::drop_party(socket, party)
}

unsafe fn names(argument: *mut c_void) -> Result<(), Errno> {
    let argument = argument.cast::<Buffer>();
    // SAFETY: an `atm_iobuf`, by the request's definition, here and below.
    let buffer = unsafe { memory::get(argument) }?;
    let octets: Vec<u8> = interfaces::numbers().flat_map(i32::to_ne_bytes).collect();
    if octets.len() > usize::try_from(buffer.length).unwrap_or(0) {
        return Err(Errno::TOOBIG);
    }
    // SAFETY: as above.
    unsafe {
        memory::put_octets(buffer.value, &octets)?;
        memory::put(&raw mut (*argument).length, octets.len() as c_int)
    }
}

unsafe fn of_interface(request: c_ulong, argument: *mut c_void) -> Result<(), Errno> {
    let argument = argument.cast::<InterfaceRequest>();
    // SAFETY: an `atmif_sioc`, by the requests' definition, here and below.
    let sioc = unsafe { memory::get(argument) }?;
    let number = i16::try_from(sioc.number).map_err(|_| Errno::NODEV)?;
    if number < 0 {
        return Err(Errno::NODEV);
    }
    interfaces::host(number)?;
    let octets = match request {
        ATM_GETTYPE => [TYPE.as_bytes(), &[0]].concat(),
        // A host has no adapter; it has an end system identifier if it has signalling. Without: zeros, as ATM over TCP
        // says.
        ATM_GETESI => Some(calls::esi(number)).filter(|esi| esi.len() == ESI_OCTETS).unwrap_or(vec![0; ESI_OCTETS]),
        ATM_GETCIRANGE => vec![VPI_BITS as u8, VCI_BITS as u8],
        ATM_GETLINKRATE => ask(sioc.number)?.cells_per_s.to_ne_bytes().to_vec(),
        // The kernel gives these to whoever has a place for them, and says how many there are to others.
        ATM_GETSTAT | ATM_GETSTATZ if sioc.value.is_null() => {
            // SAFETY: as above.
            return unsafe { memory::put(&raw mut (*argument).length, STATISTICS_OCTETS) };
        }
        ATM_GETSTAT | ATM_GETSTATZ => statistics(&ask(sioc.number)?),
        ATM_GETADDR => calls::addresses(number).iter().flat_map(|address| Called::of(Some(*address)).0).collect(),
        ATM_GETLECSADDR => Vec::new(),
        // A host that signals itself has the addresses that the network gives.
        ATM_RSTADDR if !calls::is_left_to_program(number) => return administrator(Ok(())),
        ATM_ADDADDR | ATM_DELADDR if !calls::is_left_to_program(number) => {
            return administrator(Err(Errno::OPNOTSUPP));
        }
        ATM_RSTADDR => return administrator(Ok(())).and_then(|()| signalling::readdress(number, None)),
        ATM_ADDADDR | ATM_DELADDR => {
            administrator(Ok(()))?;
            // SAFETY: a `sockaddr_atmsvc`, by the requests' definition.
            let octets = unsafe { memory::get(sioc.value.cast::<[u8; CALLED_OCTETS]>()) }?;
            return signalling::readdress(number, Some((&Called::parse(&octets)?, request == ATM_ADDADDR)));
        }
        ATM_SETCIRANGE => {
            administrator(Ok(()))?;
            // SAFETY: a `struct atm_cirange`, by the request's definition: bits of VPI and VCI.
            let [vpi, vci] = unsafe { memory::get(sioc.value.cast::<[i8; 2]>()) }?;
            // There is no adapter whose tables would become smaller.
            let fits = |bits: i8, most: u32| u32::try_from(bits).map_or(bits == -1, |bits| bits <= most);
            return if fits(vpi, VPI_BITS) && fits(vci, VCI_BITS) { Ok(()) } else { Err(Errno::INVAL) };
        }
        ATM_ADDLECSADDR | ATM_DELLECSADDR | ATM_SETESI | ATM_SETESIF => {
            return administrator(Err(Errno::OPNOTSUPP));
        }
        _ => return Err(Errno::NOTTY),
    };
    if request == ATM_GETADDR && octets.len() > usize::try_from(sioc.length).unwrap_or(0) {
        return Err(Errno::TOOBIG);
    }
    // SAFETY: as above; the program's buffer holds what the request gives, as with the kernel, which does not ask
    // either.
    unsafe {
        memory::put_octets(sioc.value, &octets)?;
        memory::put(&raw mut (*argument).length, octets.len() as c_int)
    }
}

fn administrator(answer: Result<(), Errno>) -> Result<(), Errno> {
    if is_capable(CapabilitySet::NET_ADMIN) { answer } else { Err(Errno::PERM) }
}

fn ask(number: c_int) -> Result<Interface, Errno> {
    interfaces::ask(number).map_err(|e| {
        complain(&e.why);
        e.errno
    })
}

/// `struct atm_dev_stats`: AAL0, AAL3/4, AAL5.
fn statistics(interface: &Interface) -> Vec<u8> {
    let all = [interface.aal0, interface.aal34, interface.aal5];
    all.iter().flat_map(interfaces::Statistics::numbers).flat_map(i32::to_ne_bytes).collect()
}
