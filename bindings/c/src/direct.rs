//! Direct circuits: `cellway_direct_...`, but for receiving (`direct_receive.rs`). The sending functions use one half of
//! the handle and the receiving functions the other, so that two threads may have one each.

use crate::arguments::{self, all, count, exclusive, text, timeout};
use crate::error::{ARGUMENT, Failure, OK, TOO_MANY_HELD, call};
use crate::options::{DirectOptions, direct_config};
use crate::types::{Buffer, Loan, SDU_MAY_CHANGE, SDU_SHORT, Sdu};
use endpoint::direct::layout::INLINE_OCTETS;
use endpoint::direct::{Direct, Message, Receiver, Sender};
use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;

/// Messages that came inside their lines and may be in a program's hands together.
const SHORT: usize = 256;

/// `cellway_direct`: one side of a direct circuit.
#[derive(Debug)]
pub struct DirectHandle {
    sender: Sender,
    receiving: Receiving,
}

/// The receiving half, and what of it is in the program's hands.
#[derive(Debug)]
pub(crate) struct Receiving {
    pub(crate) receiver: Receiver,
    /// First blocks of messages in the program's hands; grows to as many as the sender has.
    held: Vec<bool>,
    short: Box<[[u8; INLINE_OCTETS]]>,
    short_free: Vec<u32>,
}

impl DirectHandle {
    fn boxed(direct: Direct) -> *mut DirectHandle {
        let receiving = Receiving {
            receiver: direct.receiver,
            held: Vec::new(),
            short: vec![[0; INLINE_OCTETS]; SHORT].into(),
            short_free: (0..SHORT as u32).rev().collect(),
        };
        Box::into_raw(Box::new(DirectHandle { sender: direct.sender, receiving }))
    }
}

/// The half of a handle that sends.
///
/// # Safety
/// `direct` is null or a handle, of which no other thread uses this half.
#[inline]
unsafe fn sender<'a>(direct: *mut DirectHandle) -> Result<&'a mut Sender, Failure> {
    if direct.is_null() {
        return Err(Failure::new(ARGUMENT, "direct is null"));
    }
    // SAFETY: a handle's field, which nothing else uses, as the caller promises; no reference is made to the whole.
    Ok(unsafe { &mut (*direct).sender })
}

/// The half of a handle that receives.
///
/// # Safety
/// As [`sender`], of the other half.
#[inline]
pub(crate) unsafe fn receiving<'a>(direct: *mut DirectHandle) -> Result<&'a mut Receiving, Failure> {
    if direct.is_null() {
        return Err(Failure::new(ARGUMENT, "direct is null"));
    }
    // SAFETY: as in `sender`.
    Ok(unsafe { &mut (*direct).receiving })
}

impl Receiving {
    /// Has the message, which is the program's until it is released.
    #[inline]
    fn keep(message: Message<'_>, held: &mut Vec<bool>, short: &mut [[u8; INLINE_OCTETS]], slot: u32) -> Sdu {
        let (octets, uu) = (message.len(), message.uu());
        let mut sdu =
            Sdu { data: null_mut(), octets, channel: 0, number: slot, uu, flags: SDU_SHORT, reserved: [0; 6] };
        if let Some(private) = message.private() {
            let place = &mut short[slot as usize];
            place[..octets].copy_from_slice(private);
            sdu.data = place.as_ptr().cast();
        } else if let Some(shared) = message.shared() {
            (sdu.data, sdu.flags) = (shared.as_ptr().cast(), SDU_MAY_CHANGE);
            sdu.number = message.into_block().unwrap_or_default();
            let at = sdu.number as usize;
            if at >= held.len() {
                held.resize(at + 1, false);
            }
            held[at] = true;
        }
        sdu
    }

    /// Takes messages that have come, `sdus.len()` at most.
    #[inline]
    pub(crate) fn take(&mut self, sdus: &mut [Sdu]) -> Result<usize, Failure> {
        let mut taken = 0;
        for place in sdus {
            let Some(slot) = self.short_free.last().copied() else {
                return if taken > 0 { Ok(taken) } else { Err(Failure::of(TOO_MANY_HELD)) };
            };
            let Some(message) = self.receiver.try_receive() else { break };
            *place = Self::keep(message, &mut self.held, &mut self.short, slot);
            if place.flags & SDU_SHORT != 0 {
                self.short_free.pop();
            }
            taken += 1;
        }
        Ok(taken)
    }

    /// Gives a message's memory back.
    #[inline]
    pub(crate) fn release(&mut self, sdu: &mut Sdu) -> Result<(), Failure> {
        let known = !std::mem::replace(&mut sdu.data, null_mut()).is_null();
        let number = sdu.number as usize;
        if known && sdu.flags & SDU_SHORT != 0 && number < SHORT && self.short_free.len() < SHORT {
            self.short_free.push(sdu.number);
        } else if known && sdu.flags & SDU_SHORT == 0 && self.held.get(number) == Some(&true) {
            self.held[number] = false;
            self.receiver.release_block(sdu.number, sdu.octets);
        } else {
            return Err(Failure::new(ARGUMENT, "the SDU was released before, or is another circuit's"));
        }
        Ok(())
    }
}

/// `cellway_direct_open`: opens a host's end of a circuit directly. Blocks until the other end is opened directly too,
/// for `timeout_ms` at most.
///
/// # Safety
/// `socket` is null or a text, `host` and `circuit` are texts, `options` null or a structure, `direct` a place to write
/// to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_direct_open(
    socket: *const c_char,
    host: *const c_char,
    circuit: *const c_char,
    options: *const DirectOptions,
    timeout_ms: c_int,
    direct: *mut *mut DirectHandle,
) -> c_int {
    call(|| {
        // SAFETY: as the caller promises.
        let (out, host) = unsafe { (exclusive(direct, "direct")?, text(host, "host")?) };
        *out = null_mut();
        // SAFETY: as the caller promises.
        let (socket, circuit) = unsafe { (arguments::socket(socket), arguments::circuit(circuit)?) };
        // SAFETY: as the caller promises.
        let config = unsafe { direct_config(options, timeout_ms) }?;
        *out = DirectHandle::boxed(Direct::open(&socket, host, circuit, &config)?);
        Ok(OK)
    })
}

/// `cellway_direct_pair`: both sides of a circuit in one process, for two threads. Does not need a service.
///
/// # Safety
/// `options` is null or a structure, `one` and `other` are places to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_direct_pair(
    options: *const DirectOptions,
    one: *mut *mut DirectHandle,
    other: *mut *mut DirectHandle,
) -> c_int {
    call(|| {
        // SAFETY: as the caller promises.
        let (one, other) = unsafe { (exclusive(one, "one")?, exclusive(other, "other")?) };
        // SAFETY: as the caller promises.
        let (here, there) = Direct::pair(&unsafe { direct_config(options, -1) }?)?;
        (*one, *other) = (DirectHandle::boxed(here), DirectHandle::boxed(there));
        Ok(OK)
    })
}

/// `cellway_direct_free`: ends this side of a circuit.
///
/// # Safety
/// `direct` is null, or a handle that is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_direct_free(direct: *mut DirectHandle) {
    call(|| {
        if !direct.is_null() {
            // SAFETY: made by `DirectHandle::boxed`, and not used any more, as the caller promises.
            drop(unsafe { Box::from_raw(direct) });
        }
        Ok(OK)
    });
}

/// `cellway_direct_send`: sends a copy. Never blocks.
///
/// # Safety
/// `direct` is a handle, `data` points to so many octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_direct_send(direct: *mut DirectHandle, data: *const c_void, octets: usize) -> c_int {
    call(|| {
        // SAFETY: as the caller promises.
        let (sender, sdu) = unsafe { (sender(direct)?, all(data.cast::<u8>(), octets, "data")?) };
        sender.send_copy(sdu)?;
        Ok(OK)
    })
}

/// `cellway_direct_send_batch`: sends copies of up to `n` SDUs; gives how many, or why not the first. Never blocks.
///
/// # Safety
/// `direct` is a handle, `sdus` points to `n` buffers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_direct_send_batch(direct: *mut DirectHandle, sdus: *const Buffer, n: usize) -> c_int {
    call(|| {
        // SAFETY: as the caller promises.
        let (sender, sdus) = unsafe { (sender(direct)?, all(sdus, n, "sdus")?) };
        let mut sent = 0;
        let stopped = sdus.iter().try_for_each(|sdu| {
            // SAFETY: as the caller promises.
            sender.post_copy(unsafe { all(sdu.data.cast::<u8>(), sdu.octets, "data") }?)?;
            sent += 1;
            Ok::<(), Failure>(())
        });
        sender.ring_bell();
        match stopped {
            Err(failure) if sent == 0 => Err(failure),
            _ => Ok(count(sent)),
        }
    })
}

/// `cellway_direct_loan`: memory of `octets` octets and more, to fill and send. Never blocks.
///
/// # Safety
/// `direct` is a handle, `loan` a place to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_direct_loan(direct: *mut DirectHandle, octets: usize, loan: *mut Loan) -> c_int {
    call(|| {
        // SAFETY: as the caller promises.
        let (sender, out) = unsafe { (sender(direct)?, exclusive(loan, "loan")?) };
        let mut kept = sender.loan(octets).ok_or(endpoint::SendError::Full)?;
        let (data, octets) = (kept.as_mut_ptr().cast(), kept.len());
        *out = Loan { data, octets, number: kept.into_number(), reserved: 0 };
        Ok(OK)
    })
}

/// `cellway_direct_post`: sends the first octets of a loan; a receiver that sleeps is not woken before
/// `cellway_direct_flush`. Where it is not sent, the loan stays the program's. Never blocks.
///
/// # Safety
/// `direct` is a handle, `loan` a loan of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_direct_post(direct: *mut DirectHandle, loan: *mut Loan, octets: usize) -> c_int {
    call(|| {
        // SAFETY: as the caller promises.
        post(unsafe { sender(direct) }?, unsafe { exclusive(loan, "loan") }?, octets)
    })
}

/// `cellway_direct_send_loan`: sends the first octets of a loan and wakes a receiver that sleeps. Where it is not sent,
/// the loan stays the program's. Never blocks.
///
/// # Safety
/// `direct` is a handle, `loan` a loan of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_direct_send_loan(direct: *mut DirectHandle, loan: *mut Loan, octets: usize) -> c_int {
    call(|| {
        // SAFETY: as the caller promises.
        let (sender, loan) = unsafe { (sender(direct)?, exclusive(loan, "loan")?) };
        post(sender, loan, octets)?;
        sender.ring_bell();
        Ok(OK)
    })
}

#[inline]
fn post(sender: &mut Sender, loan: &mut Loan, octets: usize) -> Result<c_int, Failure> {
    let again = || Failure::new(ARGUMENT, "the loan was sent or given back before");
    let kept = sender.loan_again(loan.number).filter(|_| !loan.data.is_null()).ok_or_else(again)?;
    if let Err((e, kept)) = kept.post(octets) {
        // The program has it still.
        kept.into_number();
        return Err(e.into());
    }
    loan.data = null_mut();
    Ok(OK)
}

/// `cellway_direct_flush`: wakes a receiver that sleeps and has not been woken for what was posted. Never blocks.
///
/// # Safety
/// `direct` is a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_direct_flush(direct: *mut DirectHandle) -> c_int {
    call(|| {
        // SAFETY: as the caller promises.
        unsafe { sender(direct) }?.ring_bell();
        Ok(OK)
    })
}

/// `cellway_direct_give_back`: gives a loan back that is not sent. Never blocks.
///
/// # Safety
/// `direct` is a handle, `loan` a loan of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_direct_give_back(direct: *mut DirectHandle, loan: *mut Loan) -> c_int {
    call(|| {
        // SAFETY: as the caller promises.
        let (sender, loan) = unsafe { (sender(direct)?, exclusive(loan, "loan")?) };
        let known = !std::mem::replace(&mut loan.data, null_mut()).is_null();
        let kept = sender.loan_again(loan.number).filter(|_| known);
        kept.map(|_| OK).ok_or_else(|| Failure::new(ARGUMENT, "the loan was sent or given back before"))
    })
}

/// `cellway_direct_wait_room`: waits until `octets` octets can be sent: 1, or 0 if the time passes first.
///
/// # Safety
/// `direct` is a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_direct_wait_room(
    direct: *mut DirectHandle,
    octets: usize,
    timeout_ms: c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    call(|| Ok(unsafe { sender(direct) }?.wait_room(octets, timeout(timeout_ms))?.into()))
}
