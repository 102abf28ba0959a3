//! Receiving on endpoints, and batches: many SDUs with one call, and one wake-up of the host.

use crate::arguments::{all, all_mut, count, exclusive, timeout};
use crate::endpoints::EndpointHandle;
use crate::error::{Failure, OK, call};
use crate::types::{Buffer, Sdu};
use endpoint::{ChannelId, SendError};
use std::ffi::c_int;

/// `cellway_endpoint_send_batch`: sends copies of up to `n` SDUs; gives how many, or why not the first. Never blocks.
///
/// # Safety
/// `endpoint` is a handle, `sdus` points to `n` buffers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_endpoint_send_batch(
    endpoint: *mut EndpointHandle,
    channel: u32,
    sdus: *const Buffer,
    n: usize,
) -> c_int {
    call(|| {
        // SAFETY: as the caller promises.
        let (handle, sdus) = unsafe { (exclusive(endpoint, "endpoint")?, all(sdus, n, "sdus")?) };
        let mut sent = 0;
        let stopped = sdus.iter().try_for_each(|sdu| {
            // SAFETY: as the caller promises.
            let octets = unsafe { all(sdu.data.cast::<u8>(), sdu.octets, "data") }?;
            enqueue_copy(handle, channel, octets)?;
            sent += 1;
            Ok::<(), Failure>(())
        });
        handle.endpoint.flush();
        match stopped {
            Err(failure) if sent == 0 => Err(failure),
            _ => Ok(count(sent)),
        }
    })
}

/// Enqueues a copy; the host is not woken before the next flush.
fn enqueue_copy(handle: &mut EndpointHandle, channel: u32, octets: &[u8]) -> Result<(), Failure> {
    let mut loan = handle.endpoint.loan().ok_or(SendError::Full)?;
    let buffer_octets = loan.len();
    let place = loan.get_mut(..octets.len()).ok_or(SendError::TooLong { octets: octets.len(), buffer_octets })?;
    place.copy_from_slice(octets);
    handle.endpoint.enqueue(ChannelId(channel), loan, octets.len()).map_err(|(e, _)| e.into())
}

/// `cellway_endpoint_receive_batch`: waits for an SDU, then takes up to `n` that have come; gives how many, 0 if the
/// time passes first. Each is the program's until it releases it.
///
/// # Safety
/// `endpoint` is a handle, `sdus` points to `n` places to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_endpoint_receive_batch(
    endpoint: *mut EndpointHandle,
    sdus: *mut Sdu,
    n: usize,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        // SAFETY: as the caller promises.
        let (handle, sdus) = unsafe { (exclusive(endpoint, "endpoint")?, all_mut(sdus, n, "sdus")?) };
        if !handle.endpoint.await_sdu(timeout(timeout_ms))? {
            return Ok(0);
        }
        let mut taken = 0;
        for place in sdus {
            match handle.take_sdu() {
                Ok(Some(sdu)) => *place = sdu,
                Ok(None) => break,
                Err(failure) if taken == 0 => return Err(failure),
                Err(_) => break,
            }
            taken += 1;
        }
        Ok(count(taken))
    })
}

/// `cellway_endpoint_receive`: waits for an SDU: 1, or 0 if the time passes first. The SDU is the program's until it
/// releases it.
///
/// # Safety
/// `endpoint` is a handle, `sdu` a place to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_endpoint_receive(
    endpoint: *mut EndpointHandle,
    sdu: *mut Sdu,
    timeout_ms: c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { cellway_endpoint_receive_batch(endpoint, sdu, 1, timeout_ms) }
}

/// `cellway_endpoint_release_batch`: gives the memory of `n` SDUs back. Never blocks.
///
/// # Safety
/// `endpoint` is a handle, `sdus` points to `n` SDUs of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_endpoint_release_batch(
    endpoint: *mut EndpointHandle,
    sdus: *mut Sdu,
    n: usize,
) -> c_int {
    call(|| {
        // SAFETY: as the caller promises.
        let (handle, sdus) = unsafe { (exclusive(endpoint, "endpoint")?, all_mut(sdus, n, "sdus")?) };
        sdus.iter_mut().try_for_each(|sdu| handle.release(sdu))?;
        Ok(OK)
    })
}
