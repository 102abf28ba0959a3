//! Options of endpoints, circuits and direct circuits. Each structure begins with its size, so that a program of an
//! earlier version can pass a shorter one.

use crate::arguments;
use crate::error::{ARGUMENT, Failure, INVALID, OK, call};
use endpoint::direct::{DirectConfig, DirectGeometry, Spin};
use endpoint::{Aal, DataPath, Direction, EndpointConfig, Events, Geometry, OpenOptions};
use std::ffi::c_int;

/// `cellway_endpoint_options`.
#[repr(C)]
#[derive(Debug)]
pub struct EndpointOptions {
    /// Octets of this structure.
    pub size: usize,
    /// Slots of the send ring, a power of two.
    pub send_ring: u32,
    /// Slots of the receive ring, a power of two.
    pub receive_ring: u32,
    /// Slots of the free ring, a power of two.
    pub free_ring: u32,
    /// Buffers.
    pub buffers: u32,
    /// Octets of a buffer.
    pub buffer_octets: u32,
    /// Buffers that are kept for sending.
    pub send_buffers: u32,
    /// `CELLWAY_PATH_...`.
    pub path: u32,
    /// `CELLWAY_EVENTS_...`.
    pub events: u32,
    /// Its number: a quota, or ticks per second.
    pub events_number: u32,
    /// Zero.
    pub reserved: u32,
}

/// `cellway_circuit_options`.
#[repr(C)]
#[derive(Debug)]
pub struct CircuitOptions {
    /// Octets of this structure.
    pub size: usize,
    /// `CELLWAY_AAL...`.
    pub aal: u32,
    /// `CELLWAY_SEND_ONLY`, `CELLWAY_RECEIVE_ONLY` or `CELLWAY_BOTH_WAYS`.
    pub direction: u32,
}

/// `cellway_direct_options`.
#[repr(C)]
#[derive(Debug)]
pub struct DirectOptions {
    /// Octets of this structure.
    pub size: usize,
    /// Lines of the ring, a power of two.
    pub ring: u32,
    /// Entries of the return ring, a power of two.
    pub returns: u32,
    /// Blocks.
    pub blocks: u32,
    /// Octets of a block, a multiple of 64.
    pub block_octets: u32,
    /// `CELLWAY_SPIN_...`.
    pub spin: u32,
    /// Zero.
    pub reserved: u32,
}

fn endpoint_defaults() -> EndpointOptions {
    let Geometry { send_ring, receive_ring, free_ring, buffers, buffer_octets } = Geometry::default();
    let events_number = endpoint::events::HYBRID_QUOTA;
    EndpointOptions {
        size: size_of::<EndpointOptions>(),
        send_ring,
        receive_ring,
        free_ring,
        buffers,
        buffer_octets,
        send_buffers: buffers / 2,
        path: 1,
        events: 3,
        events_number,
        reserved: 0,
    }
}

fn direct_defaults() -> DirectOptions {
    let DirectGeometry { ring, returns, blocks, block_octets } = DirectGeometry::default();
    DirectOptions { size: size_of::<DirectOptions>(), ring, returns, blocks, block_octets, spin: 1, reserved: 0 }
}

/// `cellway_endpoint_options_init`: the defaults. Never blocks.
///
/// # Safety
/// `options` points to a structure that can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_endpoint_options_init(options: *mut EndpointOptions) -> c_int {
    call(|| {
        // SAFETY: as the caller promises.
        *unsafe { arguments::exclusive(options, "options") }? = endpoint_defaults();
        Ok(OK)
    })
}

/// `cellway_direct_options_init`: the defaults. Never blocks.
///
/// # Safety
/// `options` points to a structure that can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cellway_direct_options_init(options: *mut DirectOptions) -> c_int {
    call(|| {
        // SAFETY: as the caller promises.
        *unsafe { arguments::exclusive(options, "options") }? = direct_defaults();
        Ok(OK)
    })
}

/// A size that a structure says it has.
fn check_size(size: usize, wanted: usize) -> Result<(), Failure> {
    let words = || format!("options of {size} octets, {wanted} expected: call the function ..._init first");
    if size < wanted { Err(Failure::new(ARGUMENT, words())) } else { Ok(()) }
}

/// A word of a list by its number.
fn word<T: Copy>(all: &[T], number: u32, name: &str) -> Result<T, Failure> {
    let found = usize::try_from(number).ok().and_then(|at| all.get(at)).copied();
    found.ok_or_else(|| Failure::new(INVALID, format!("{name} {number}: 0 to {} expected", all.len() - 1)))
}

/// An endpoint's configuration; null: the defaults.
///
/// # Safety
/// `options` is null, or points to a structure that nobody writes during the call.
pub(crate) unsafe fn endpoint_config(host: &str, options: *const EndpointOptions) -> Result<EndpointConfig, Failure> {
    let defaults = endpoint_defaults();
    // SAFETY: as the caller promises.
    let o = unsafe { options.as_ref() }.unwrap_or(&defaults);
    check_size(o.size, size_of::<EndpointOptions>())?;
    let geometry = Geometry {
        send_ring: o.send_ring,
        receive_ring: o.receive_ring,
        free_ring: o.free_ring,
        buffers: o.buffers,
        buffer_octets: o.buffer_octets,
    };
    let paths = [DataPath::Copying, DataPath::Shared, DataPath::ZeroCopy];
    let strategies = [
        Events::Interrupt,
        Events::Polling,
        Events::Clocked { hertz: o.events_number },
        Events::Hybrid { quota: o.events_number },
        Events::Soft { hertz: o.events_number },
    ];
    Ok(EndpointConfig {
        host: host.to_owned(),
        geometry,
        send_buffers: Some(o.send_buffers),
        events: word(&strategies, o.events, "events")?,
        path: word(&paths, o.path, "path")?,
    })
}

/// How a circuit is opened; null: the defaults.
///
/// # Safety
/// As [`endpoint_config`].
pub(crate) unsafe fn open_options(options: *const CircuitOptions) -> Result<OpenOptions, Failure> {
    // SAFETY: as the caller promises.
    let Some(o) = (unsafe { options.as_ref() }) else { return Ok(OpenOptions::default()) };
    check_size(o.size, size_of::<CircuitOptions>())?;
    let aal = word(&[Aal::Aal5, Aal::Aal0, Aal::Aal34, Aal::Oam], o.aal, "aal")?;
    let direction = word(&[Direction::Both, Direction::Send, Direction::Receive], o.direction, "direction")?;
    Ok(OpenOptions { aal, direction, ..OpenOptions::default() })
}

/// A direct circuit's configuration; null: the defaults.
///
/// # Safety
/// As [`endpoint_config`].
pub(crate) unsafe fn direct_config(options: *const DirectOptions, timeout: c_int) -> Result<DirectConfig, Failure> {
    let defaults = direct_defaults();
    // SAFETY: as the caller promises.
    let o = unsafe { options.as_ref() }.unwrap_or(&defaults);
    check_size(o.size, size_of::<DirectOptions>())?;
    let geometry = DirectGeometry { ring: o.ring, returns: o.returns, blocks: o.blocks, block_octets: o.block_octets };
    let spin = word(&[Spin::None, Spin::Bounded, Spin::Forever], o.spin, "spin")?;
    Ok(DirectConfig { geometry, spin, patience: arguments::timeout(timeout) })
}
