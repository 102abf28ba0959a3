//! Receiving on direct circuits, by the handle's half for it.

use crate::arguments::{all_mut, count, timeout};
use crate::direct::{DirectHandle, receiving};
use crate::error::{OK, call};
use crate::types::Sdu;
use std::ffi::c_int;
use std::os::fd::{AsFd as _, AsRawFd as _};

/// `cellway_direct_receive`: waits for an SDU: 1, or 0 if the time passes first. It is the program's until it releases
/// it.
///
/// # Safety
/// `direct` is a handle, `sdu` a place to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_direct_receive(direct: *mut DirectHandle, sdu: *mut Sdu, timeout_ms: c_int) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { cellway_direct_receive_batch(direct, sdu, 1, timeout_ms) }
}

/// `cellway_direct_receive_batch`: waits for an SDU, then takes up to `n` that have come; gives how many, 0 if the time
/// passes first. Each is the program's until it releases it.
///
/// # Safety
/// `direct` is a handle, `sdus` points to `n` places to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_direct_receive_batch(
    direct: *mut DirectHandle,
    sdus: *mut Sdu,
    n: usize,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        // SAFETY: as the caller promises.
        let (receiving, sdus) = unsafe { (receiving(direct)?, all_mut(sdus, n, "sdus")?) };
        if !receiving.receiver.await_message(timeout(timeout_ms))? {
            return Ok(0);
        }
        Ok(count(receiving.take(sdus)?))
    })
}

/// `cellway_direct_release`: gives an SDU's memory back to the sender. Never blocks.
///
/// # Safety
/// `direct` is a handle, `sdu` an SDU of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_direct_release(direct: *mut DirectHandle, sdu: *mut Sdu) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { cellway_direct_release_batch(direct, sdu, 1) }
}

/// `cellway_direct_release_batch`: gives the memory of `n` SDUs back. Never blocks.
///
/// # Safety
/// `direct` is a handle, `sdus` points to `n` SDUs of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_direct_release_batch(direct: *mut DirectHandle, sdus: *mut Sdu, n: usize) -> c_int {
    call(|| {
        // SAFETY: as the caller promises.
        let (receiving, sdus) = unsafe { (receiving(direct)?, all_mut(sdus, n, "sdus")?) };
        sdus.iter_mut().try_for_each(|sdu| receiving.release(sdu))?;
        Ok(OK)
    })
}

/// `cellway_direct_fd`: the descriptor for a poll of the program's own. Never blocks.
///
/// # Safety
/// `direct` is a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_direct_fd(direct: *mut DirectHandle) -> c_int {
    // SAFETY: as the caller promises.
    call(|| Ok(unsafe { receiving(direct) }?.receiver.as_fd().as_raw_fd()))
}

/// `cellway_direct_arm`: before such a poll. Receive once more after it. Never blocks.
///
/// # Safety
/// `direct` is a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_direct_arm(direct: *mut DirectHandle) -> c_int {
    call(|| {
        // SAFETY: as the caller promises.
        unsafe { receiving(direct) }?.receiver.arm();
        Ok(OK)
    })
}

/// `cellway_direct_disarm`: after such a poll. Never blocks.
///
/// # Safety
/// `direct` is a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_direct_disarm(direct: *mut DirectHandle) -> c_int {
    call(|| {
        // SAFETY: as the caller promises.
        unsafe { receiving(direct) }?.receiver.disarm()?;
        Ok(OK)
    })
}
