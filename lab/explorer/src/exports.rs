//! The exported functions. No pointer crosses: numbers go in, a number comes out.
// `no_mangle` is what the lint calls unsafe: a name that another one could be equal to. There is one program here.
#![allow(unsafe_code)]

use crate::explorer::{self, Netperf, Receiver, Way};

/// See [`explorer::netperf`].
#[unsafe(no_mangle)]
pub extern "C" fn netperf(
    notice: u32,
    hertz: f64,
    interrupt_us: f64,
    look_us: f64,
    switch_us: f64,
    throughput_mbit_s: f64,
    segment_octets: f64,
    process_share: f64,
    echo_ms: f64,
    wire_us: f64,
    time_slice_ms: f64,
    window_octets: f64,
    computes: u32,
    seconds: f64,
) -> f64 {
    explorer::netperf(&Netperf {
        notice,
        hertz,
        interrupt_us,
        look_us,
        switch_us,
        throughput_mbit_s,
        segment_octets,
        process_share,
        echo_ms,
        wire_us,
        time_slice_ms,
        window_octets,
        computes: computes != 0,
        seconds,
    })
}

/// See [`explorer::delivered`].
#[unsafe(no_mangle)]
pub extern "C" fn delivered(
    guard: u32,
    parameter: f64,
    interrupt_us: f64,
    process_us: f64,
    queue: f64,
    offered: f64,
    seconds: f64,
) -> f64 {
    explorer::delivered(&Receiver { guard, parameter, interrupt_us, process_us, queue, offered, seconds })
}

/// See [`explorer::delay_ms`].
#[unsafe(no_mangle)]
pub extern "C" fn delay_ms(octets: f64, units: f64, bus_octets_s: f64, line_octets_s: f64) -> f64 {
    explorer::delay_ms(&Way { octets, units, bus_octets_s, line_octets_s })
}
