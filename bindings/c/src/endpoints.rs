//! Endpoints: `cellway_endpoint_...`.

use crate::arguments::{self, exclusive, text, timeout};
use crate::error::{ARGUMENT, Failure, OK, TOO_MANY_HELD, call};
use crate::options::{CircuitOptions, EndpointOptions, endpoint_config, open_options};
use crate::types::{Loan, SDU_CLP, SDU_CONGESTION, SDU_SHORT, Sdu};
use endpoint::layout::INLINE_OCTETS;
use endpoint::{ChannelId, Endpoint, Received};
use std::ffi::{c_char, c_int, c_void};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::ptr::null_mut;

/// SDUs that came with their descriptors and may be in a program's hands together.
const SHORT: usize = 256;

/// `cellway_endpoint`: an endpoint, and what of it is in the program's hands.
#[derive(Debug)]
pub struct EndpointHandle {
    pub(crate) endpoint: Endpoint,
    loans: Vec<Option<endpoint::Loan>>,
    /// Buffers whose SDUs are in the program's hands.
    held: Vec<bool>,
    /// Octets of SDUs that came with their descriptors.
    short: Box<[[u8; INLINE_OCTETS]]>,
    short_free: Vec<u32>,
}

impl EndpointHandle {
    fn new(endpoint: Endpoint, buffers: usize) -> Self {
        EndpointHandle {
            endpoint,
            loans: (0..buffers).map(|_| None).collect(),
            held: vec![false; buffers],
            short: vec![[0; INLINE_OCTETS]; SHORT].into(),
            short_free: (0..SHORT as u32).rev().collect(),
        }
    }

    /// The loan that a program names, which is taken out.
    pub(crate) fn take_loan(&mut self, loan: &mut Loan) -> Result<endpoint::Loan, Failure> {
        loan.data = null_mut();
        let place = self.loans.get_mut(loan.number as usize);
        place.and_then(Option::take).ok_or_else(|| Failure::new(ARGUMENT, "the loan was sent or given back before"))
    }

    fn keep_loan(&mut self, mut kept: endpoint::Loan) -> Loan {
        let number = kept.number();
        let loan = Loan { data: kept.as_mut_ptr().cast(), octets: kept.len(), number, reserved: 0 };
        if let Some(place) = self.loans.get_mut(number as usize) {
            *place = Some(kept);
        }
        loan
    }

    /// Takes the next SDU, if one has arrived.
    #[inline]
    pub(crate) fn take_sdu(&mut self) -> Result<Option<Sdu>, Failure> {
        if self.short_free.is_empty() {
            return Err(Failure::of(TOO_MANY_HELD));
        }
        let EndpointHandle { endpoint, held, short, short_free, .. } = self;
        let Some(received) = endpoint.try_receive() else { return Ok(None) };
        let mut sdu = sdu_of(&received);
        let octets = received.len().min(INLINE_OCTETS);
        // In case that it is short; else these octets are not looked at.
        if received.is_inline()
            && let Some(slot) = short_free.pop()
        {
            let place = &mut short[slot as usize];
            place[..octets].copy_from_slice(&received[..octets]);
            (sdu.data, sdu.number, sdu.flags) = (place.as_ptr().cast(), slot, sdu.flags | SDU_SHORT);
        } else if let Some(buffer) = received.into_buffer() {
            sdu.number = buffer;
            if let Some(held) = held.get_mut(buffer as usize) {
                *held = true;
            }
        }
        Ok(Some(sdu))
    }

    /// Gives an SDU's memory back.
    #[inline]
    pub(crate) fn release(&mut self, sdu: &mut Sdu) -> Result<(), Failure> {
        let again = || Failure::new(ARGUMENT, "the SDU was released before, or is another endpoint's");
        if sdu.data.is_null() {
            return Err(again());
        }
        sdu.data = null_mut();
        if sdu.flags & SDU_SHORT != 0 {
            if sdu.number as usize >= SHORT || self.short_free.len() >= SHORT {
                return Err(again());
            }
            self.short_free.push(sdu.number);
            return Ok(());
        }
        if !self.held.get_mut(sdu.number as usize).is_some_and(std::mem::take) {
            return Err(again());
        }
        self.endpoint.release_buffer(sdu.number);
        Ok(())
    }
}

#[inline]
fn sdu_of(received: &Received<'_>) -> Sdu {
    let mut flags = 0;
    if received.clp() {
        flags |= SDU_CLP;
    }
    if received.congestion() {
        flags |= SDU_CONGESTION;
    }
    let (data, octets) = (received.as_ptr().cast(), received.len());
    Sdu { data, octets, channel: received.channel().0, number: 0, uu: received.uu(), flags, reserved: [0; 6] }
}

/// `cellway_endpoint_create`: an endpoint of a host. Blocks until the service has answered, for ten seconds at most.
///
/// # Safety
/// `socket` is null or a text, `host` a text, `options` null or a structure, `endpoint` a place to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_endpoint_create(
    socket: *const c_char,
    host: *const c_char,
    options: *const EndpointOptions,
    endpoint: *mut *mut EndpointHandle,
) -> c_int {
    call(|| {
        // SAFETY: as the caller promises.
        let (out, host) = unsafe { (exclusive(endpoint, "endpoint")?, text(host, "host")?) };
        *out = null_mut();
        // SAFETY: as the caller promises.
        let (socket, config) = unsafe { (arguments::socket(socket), endpoint_config(host, options)?) };
        let made = Endpoint::create(&socket, &config)?;
        *out = Box::into_raw(Box::new(EndpointHandle::new(made, config.geometry.buffers as usize)));
        Ok(OK)
    })
}

/// `cellway_endpoint_free`: ends an endpoint and all that it opened. Does not wait for the service.
///
/// # Safety
/// `endpoint` is null, or a handle that is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_endpoint_free(endpoint: *mut EndpointHandle) {
    call(|| {
        if !endpoint.is_null() {
            // SAFETY: made by `cellway_endpoint_create`, and not used any more, as the caller promises.
            drop(unsafe { Box::from_raw(endpoint) });
        }
        Ok(OK)
    });
}

/// `cellway_endpoint_open`: opens a circuit. Blocks until the service has answered, for ten seconds at most.
///
/// # Safety
/// `endpoint` is a handle, `circuit` a text, `options` null or a structure, `channel` a place to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_endpoint_open(
    endpoint: *mut EndpointHandle,
    circuit: *const c_char,
    options: *const CircuitOptions,
    channel: *mut u32,
) -> c_int {
    call(|| {
        // SAFETY: as the caller promises.
        let (handle, channel) = unsafe { (exclusive(endpoint, "endpoint")?, exclusive(channel, "channel")?) };
        // SAFETY: as the caller promises.
        let (circuit, options) = unsafe { (arguments::circuit(circuit)?, open_options(options)?) };
        *channel = handle.endpoint.open(circuit, options)?.0;
        Ok(OK)
    })
}

/// `cellway_endpoint_close`: closes a channel. Blocks until the service has answered, for ten seconds at most.
///
/// # Safety
/// `endpoint` is a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_endpoint_close(endpoint: *mut EndpointHandle, channel: u32) -> c_int {
    call(|| {
        // SAFETY: as the caller promises.
        unsafe { exclusive(endpoint, "endpoint") }?.endpoint.close(ChannelId(channel))?;
        Ok(OK)
    })
}

/// `cellway_endpoint_send`: sends a copy. Never blocks.
///
/// # Safety
/// `endpoint` is a handle, `data` points to so many octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_endpoint_send(
    endpoint: *mut EndpointHandle,
    channel: u32,
    data: *const c_void,
    octets: usize,
) -> c_int {
    call(|| {
        // SAFETY: as the caller promises.
        let (handle, sdu) =
            unsafe { (exclusive(endpoint, "endpoint")?, arguments::all(data.cast::<u8>(), octets, "data")?) };
        handle.endpoint.send_copy(ChannelId(channel), sdu)?;
        Ok(OK)
    })
}

/// `cellway_endpoint_loan`: a buffer to fill and send. Never blocks.
///
/// # Safety
/// `endpoint` is a handle, `loan` a place to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_endpoint_loan(endpoint: *mut EndpointHandle, loan: *mut Loan) -> c_int {
    call(|| {
        // SAFETY: as the caller promises.
        let (handle, out) = unsafe { (exclusive(endpoint, "endpoint")?, exclusive(loan, "loan")?) };
        let kept = handle.endpoint.loan().ok_or(endpoint::SendError::Full)?;
        *out = handle.keep_loan(kept);
        Ok(OK)
    })
}

/// `cellway_endpoint_send_loan`: sends the first octets of a loan; where it is not sent, the loan stays the program's.
/// Never blocks.
///
/// # Safety
/// `endpoint` is a handle, `loan` a loan of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_endpoint_send_loan(
    endpoint: *mut EndpointHandle,
    channel: u32,
    loan: *mut Loan,
    octets: usize,
) -> c_int {
    call(|| {
        // SAFETY: as the caller promises.
        let (handle, loan) = unsafe { (exclusive(endpoint, "endpoint")?, exclusive(loan, "loan")?) };
        let taken = handle.take_loan(loan)?;
        let sent = handle.endpoint.send(ChannelId(channel), taken, octets);
        sent.map_err(|(e, taken)| {
            *loan = handle.keep_loan(taken);
            Failure::from(e)
        })?;
        Ok(OK)
    })
}

/// `cellway_endpoint_give_back`: gives a loan back that is not sent. Never blocks.
///
/// # Safety
/// `endpoint` is a handle, `loan` a loan of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_endpoint_give_back(endpoint: *mut EndpointHandle, loan: *mut Loan) -> c_int {
    call(|| {
        // SAFETY: as the caller promises.
        let (handle, loan) = unsafe { (exclusive(endpoint, "endpoint")?, exclusive(loan, "loan")?) };
        handle.take_loan(loan)?;
        Ok(OK)
    })
}

/// `cellway_endpoint_release`: gives an SDU's memory back to the host. Never blocks.
///
/// # Safety
/// `endpoint` is a handle, `sdu` an SDU of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_endpoint_release(endpoint: *mut EndpointHandle, sdu: *mut Sdu) -> c_int {
    call(|| {
        // SAFETY: as the caller promises.
        let (handle, sdu) = unsafe { (exclusive(endpoint, "endpoint")?, exclusive(sdu, "sdu")?) };
        handle.release(sdu)?;
        Ok(OK)
    })
}

/// `cellway_endpoint_wait_room`: waits until an SDU can be sent: 1, or 0 if the time passes first.
///
/// # Safety
/// `endpoint` is a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_endpoint_wait_room(endpoint: *mut EndpointHandle, timeout_ms: c_int) -> c_int {
    call(|| {
        // SAFETY: as the caller promises.
        let handle = unsafe { exclusive(endpoint, "endpoint") }?;
        Ok(handle.endpoint.wait_send(timeout(timeout_ms))?.into())
    })
}

/// `cellway_endpoint_wait_sent`: waits until the host has taken all that was sent: 1, or 0 if the time passes first.
///
/// # Safety
/// `endpoint` is a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_endpoint_wait_sent(endpoint: *mut EndpointHandle, timeout_ms: c_int) -> c_int {
    call(|| {
        // SAFETY: as the caller promises.
        let handle = unsafe { exclusive(endpoint, "endpoint") }?;
        Ok(handle.endpoint.wait_sent(timeout(timeout_ms))?.into())
    })
}

/// `cellway_endpoint_fd`: the descriptor for a poll of the program's own. Never blocks.
///
/// # Safety
/// `endpoint` is a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_endpoint_fd(endpoint: *mut EndpointHandle) -> c_int {
    // SAFETY: as the caller promises.
    call(|| Ok(unsafe { exclusive(endpoint, "endpoint") }?.endpoint.as_fd().as_raw_fd()))
}

/// `cellway_endpoint_arm`: before such a poll. Receive once more after it. Never blocks.
///
/// # Safety
/// `endpoint` is a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_endpoint_arm(endpoint: *mut EndpointHandle) -> c_int {
    call(|| {
        // SAFETY: as the caller promises.
        unsafe { exclusive(endpoint, "endpoint") }?.endpoint.arm();
        Ok(OK)
    })
}

/// `cellway_endpoint_disarm`: after such a poll. Never blocks.
///
/// # Safety
/// `endpoint` is a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_endpoint_disarm(endpoint: *mut EndpointHandle) -> c_int {
    call(|| {
        // SAFETY: as the caller promises.
        unsafe { exclusive(endpoint, "endpoint") }?.endpoint.disarm()?;
        Ok(OK)
    })
}
