//! What the explorer's page asks of the models: functions of numbers only. The page's WebAssembly is compiled from this
//! file and the models that it uses (`lab/explorer`); the laboratory calls the same functions to check the page.
//!
//! In: costs in microseconds, rates per second, sizes in octets. Out: a rate, or a time.

use crate::model::compete::{self, Costs, Load, Notice};
use crate::model::machine::Scheduler;
use crate::model::random::Random;
use crate::model::signal::{self, Guard};
use crate::model::tandem;

/// netperf on two hosts back to back (seed 004, figures 4 and 5).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Netperf {
    /// How packets are noticed: 0 interrupts, 1 a clock, 2 polling, 3 interrupts coalesced (8 packets or 1 ms), 4 NAPI.
    pub notice: u32,
    /// Ticks per second of the clock.
    pub hertz: f64,
    /// Microseconds of an interrupt or a tick.
    pub interrupt_us: f64,
    /// Microseconds of a look at the device.
    pub look_us: f64,
    /// Microseconds of a wake-up after another process.
    pub switch_us: f64,
    /// Mbit/s that the receiver's work on segments would allow.
    pub throughput_mbit_s: f64,
    /// Octets of a segment.
    pub segment_octets: f64,
    /// The share of the work that is done in the process.
    pub process_share: f64,
    /// Milliseconds of an echo's four ways.
    pub echo_ms: f64,
    /// Microseconds between the hosts.
    pub wire_us: f64,
    /// Milliseconds of a time slice.
    pub time_slice_ms: f64,
    /// Octets of the socket buffer.
    pub window_octets: f64,
    /// Whether a process computes at both hosts.
    pub computes: bool,
    /// Seconds of virtual time.
    pub seconds: f64,
}

/// Mbit/s of netperf.
pub fn netperf(n: &Netperf) -> f64 {
    let notice = match n.notice {
        0 => Notice::Interrupt,
        1 => Notice::Clocked(n.hertz.max(1.0)),
        2 => Notice::Polling,
        3 => Notice::Coalesced(8, 1e-3),
        _ => Notice::Napi(64),
    };
    let whole = n.segment_octets * 8.0 / (n.throughput_mbit_s.max(1e-3) * 1e6);
    let octets = n.segment_octets.min(n.window_octets).max(1.0);
    // A shorter segment takes its share of the work. The sender works half as long on it as the receiver.
    let part = |seconds: f64| seconds * octets / n.segment_octets;
    let costs = Costs {
        interrupt: n.interrupt_us * 1e-6,
        look: n.look_us * 1e-6,
        segment: [part(whole / 2.0), part(whole)],
        process: n.process_share,
        echo: n.echo_ms * 1e-3 / 4.0,
        switch: n.switch_us * 1e-6,
        wire: n.wire_us * 1e-6,
        scheduler: Scheduler { quantum: n.time_slice_ms * 1e-3, slack: 0.0 },
    };
    let window = (n.window_octets / octets).floor().max(1.0) as u64;
    let load = Load { notice, costs, window, segment: octets, computes: n.computes };
    compete::run(&load, n.seconds, false, &mut Random::new(0)).mbit_s
}

/// A receiver that is offered packets (seed 004; Mogul and Ramakrishnan 1996).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Receiver {
    /// What keeps it from being overrun: 0 nothing, 1 a quota, 2 a clock.
    pub guard: u32,
    /// Packets of the quota, or ticks per second.
    pub parameter: f64,
    /// Microseconds of an interrupt.
    pub interrupt_us: f64,
    /// Microseconds of everything above it, for each packet.
    pub process_us: f64,
    /// Packets of the queue between.
    pub queue: f64,
    /// Packets per second that are offered.
    pub offered: f64,
    /// Seconds of virtual time.
    pub seconds: f64,
}

/// Packets per second that it delivers.
pub fn delivered(r: &Receiver) -> f64 {
    let guard = match r.guard {
        0 => Guard::None,
        1 => Guard::Quota((r.parameter.max(1.0)) as u64),
        _ => Guard::Clocked(r.parameter.max(1.0)),
    };
    let queue = r.queue.max(1.0) as u64;
    signal::delivered(guard, r.interrupt_us * 1e-6, r.process_us * 1e-6, queue, r.offered.max(1.0), r.seconds)
}

/// A PDU's way over a bus, a line and another bus (seed 000, section 2).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Way {
    /// Octets of the PDU.
    pub octets: f64,
    /// Units that it is handed over in: 1 where adapters keep it whole, its cells where they pass on each.
    pub units: f64,
    /// Octets per second of the bus at either side; 0: no bus in the way.
    pub bus_octets_s: f64,
    /// Octets per second of the line.
    pub line_octets_s: f64,
}

/// Milliseconds until its last octet is there.
pub fn delay_ms(w: &Way) -> f64 {
    let units = w.units.clamp(1.0, 1e6).floor();
    let unit = w.octets / units;
    let line = unit / w.line_octets_s.max(1.0);
    let stages =
        if w.bus_octets_s > 0.0 { vec![unit / w.bus_octets_s, line, unit / w.bus_octets_s] } else { vec![line] };
    tandem::seconds(units as u64, &stages) * 1e3
}
