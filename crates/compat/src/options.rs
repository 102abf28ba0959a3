//! `setsockopt`, `getsockopt`, `getsockname`.

use crate::abi::{
    AF_ATMPVC, AF_ATMSVC, SAP_OCTETS, SO_ATMPVC, SO_ATMQOS, SO_ATMSAP, SO_MULTIPOINT, SO_SETCLP, SOL_ATM, option_parts,
};
use crate::memory;
use crate::qos::{QOS_OCTETS, Qos};
use crate::socket::Socket;
use libc::{c_int, c_void, socklen_t};
use rustix::io::Errno;
use std::sync::atomic::Ordering;

/// An option of a level above `SOL_SOCKET`.
///
/// # Errors
/// As the kernel.
///
/// # Safety
/// The value is as many readable octets.
pub(crate) unsafe fn set(
    socket: &Socket,
    level: c_int,
    name: c_int,
    value: *const c_void,
    octets: socklen_t,
) -> Result<(), Errno> {
    if socket.family == AF_ATMSVC && (name == SO_ATMSAP || name == SO_MULTIPOINT) {
        // SAFETY: as the caller says.
        return unsafe { set_of_call(socket, level, name, value, octets) };
    }
    check_size(level, name, octets as usize)?;
    match name {
        SO_ATMQOS => {
            // SAFETY: as the caller says; the size was just checked, or is of another level and as large as it must be.
            let qos = Qos::parse(unsafe { memory::get(value.cast::<[u8; QOS_OCTETS]>()) }?)?;
            let mut settings = socket.shared().settings.lock()?;
            if !settings.connected {
                (settings.qos, settings.has_qos) = (qos, true);
                drop(settings);
                socket.set_writable(qos.direction().sends());
                return Ok(());
            }
            // A circuit's contract is its description's: no device that could change it.
            Err(if settings.qos.may_become(&qos) { Errno::OPNOTSUPP } else { Errno::INVAL })
        }
        SO_SETCLP => {
            // SAFETY: as the caller says.
            let on = unsafe { memory::get(value.cast::<c_int>()) }? != 0;
            socket.shared().clp.store(on, Ordering::Relaxed);
            Ok(())
        }
        _ => Err(Errno::INVAL),
    }
}

/// An option of a socket for calls.
unsafe fn set_of_call(
    socket: &Socket,
    level: c_int,
    name: c_int,
    value: *const c_void,
    octets: socklen_t,
) -> Result<(), Errno> {
    let size = if name == SO_ATMSAP { SAP_OCTETS } else { size_of::<c_int>() };
    if level != SOL_ATM || octets as usize != size {
        return Err(Errno::INVAL);
    }
    // SAFETY: as the caller of `set` says; the size was just checked.
    unsafe {
        if name == SO_ATMSAP {
            socket.shared().settings.lock()?.sap = memory::get(value.cast())?;
        } else {
            let many = memory::get(value.cast::<c_int>())?;
            socket.shared().settings.lock()?.multipoint = match many {
                0 | 1 => many == 1,
                _ => return Err(Errno::INVAL),
            };
        }
    }
    Ok(())
}

fn check_size(level: c_int, name: c_int, octets: usize) -> Result<(), Errno> {
    let (its_level, its_octets) = option_parts(name);
    let known = [SO_ATMQOS, SO_SETCLP, SO_ATMPVC].contains(&name);
    if (its_level == level || known) && its_octets != octets {
        return Err(Errno::INVAL);
    }
    Ok(())
}

/// Reads an option of a level above `SOL_SOCKET`.
///
/// # Errors
/// As the kernel.
///
/// # Safety
/// `octets` is to a length that may be read and written, `value` to as many writable octets.
pub(crate) unsafe fn get(
    socket: &Socket,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    octets: *mut socklen_t,
) -> Result<(), Errno> {
    // SAFETY: as the caller says, here and below.
    let size = unsafe { memory::get(octets) }? as usize;
    if socket.family == AF_ATMSVC && (level, name) == (SOL_ATM, SO_ATMSAP) {
        if size != SAP_OCTETS {
            return Err(Errno::INVAL);
        }
        let sap = socket.shared().settings.lock()?.sap;
        // SAFETY: as above.
        return unsafe { memory::put_octets(value, &sap) };
    }
    check_size(level, name, size)?;
    match name {
        SO_ATMQOS => {
            let settings = socket.shared().settings.lock()?;
            if !settings.has_qos {
                return Err(Errno::INVAL);
            }
            // SAFETY: as above.
            unsafe { memory::put_octets(value, &settings.qos.0) }
        }
        SO_SETCLP => {
            let on = c_int::from(socket.shared().clp.load(Ordering::Relaxed));
            // SAFETY: as above. The kernel writes a long, past the end of the option; this does not.
            unsafe { memory::put(value.cast(), on) }
        }
        SO_ATMPVC => {
            let address = socket.address()?;
            // SAFETY: as above.
            unsafe { memory::put_octets(value, &address.emit()) }
        }
        _ => Err(Errno::INVAL),
    }
}

/// What `SO_TYPE` and its like say, which the descriptor's own socket would answer otherwise.
pub(crate) fn of_socket_level(socket: &Socket, name: c_int) -> Option<c_int> {
    match name {
        libc::SO_TYPE => Some(socket.kind),
        libc::SO_DOMAIN => Some(socket.family),
        // The kernel keeps the layer elsewhere.
        libc::SO_PROTOCOL => Some(0),
        libc::SO_ERROR => Some(crate::calls::take_error(socket)),
        libc::SO_ACCEPTCONN => Some(c_int::from(socket.listener.get().is_some())),
        _ => None,
    }
}

/// `getsockname`, and for `peer` `getpeername`, which is the same on a PVC.
///
/// # Errors
/// `ENOTCONN`; `EINVAL` for a negative length.
///
/// # Safety
/// As [`get`].
pub(crate) unsafe fn name(
    socket: &Socket,
    peer: bool,
    address: *mut c_void,
    octets: *mut socklen_t,
) -> Result<(), Errno> {
    let (pvc, svc);
    let name: &[u8] = if socket.family == AF_ATMPVC {
        pvc = socket.address()?.emit();
        &pvc
    } else {
        // A socket for calls has a name at any time, if only zeros.
        let settings = socket.shared().settings.lock()?;
        svc = if peer { settings.remote.0 } else { settings.local.0 };
        &svc
    };
    // SAFETY: as the caller says.
    unsafe {
        let room = memory::get(octets)?;
        if room.cast_signed() < 0 {
            return Err(Errno::INVAL);
        }
        memory::put_octets(address, &name[..name.len().min(room as usize)])?;
        memory::put(octets, name.len() as socklen_t)
    }
}
