//! Structures that C programs see, octet for octet as `include/cellway.h` has them.

use std::ffi::c_void;

/// `cellway_buffer`: octets to send.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Buffer {
    /// Where.
    pub data: *const c_void,
    /// How many.
    pub octets: usize,
}

/// `cellway_loan`: memory to fill and send.
#[repr(C)]
#[derive(Debug)]
pub struct Loan {
    /// Where; null once it was sent or given back.
    pub data: *mut c_void,
    /// How many octets fit.
    pub octets: usize,
    /// Which loan of its handle.
    pub number: u32,
    /// Zero.
    pub reserved: u32,
}

/// `cellway_sdu`: an SDU that has arrived.
#[repr(C)]
#[derive(Debug)]
pub struct Sdu {
    /// Where; null once it was released.
    pub data: *const c_void,
    /// How many octets.
    pub octets: usize,
    /// The channel it came on; zero on a direct circuit.
    pub channel: u32,
    /// Which memory of its handle it is in.
    pub number: u32,
    /// AAL5 user-to-user indication.
    pub uu: u8,
    /// `CELLWAY_SDU_...`.
    pub flags: u8,
    /// Zero.
    pub reserved: [u8; 6],
}

/// A cell had its loss priority set.
pub const SDU_CLP: u8 = 1;
/// The last cell had met congestion.
pub const SDU_CONGESTION: u8 = 2;
/// The sender may still change the octets: check a copy.
pub const SDU_MAY_CHANGE: u8 = 4;
/// [`Sdu::number`] is a slot of the handle's, not a buffer of shared memory.
pub const SDU_SHORT: u8 = 8;

const _: () = {
    assert!(size_of::<Buffer>() == 16 && size_of::<Loan>() == 24 && size_of::<Sdu>() == 32);
    assert!(std::mem::offset_of!(Sdu, channel) == 16 && std::mem::offset_of!(Sdu, uu) == 24);
};
