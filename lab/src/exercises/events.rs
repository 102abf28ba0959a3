//! An exercise about how a host learns of events: receive livelock (seed 004; Mogul and Ramakrishnan 1996).

use super::{Asked, Exercise, pick};
use crate::model::signal::{Guard, delivered};
use crate::model::{ProfileError, Random};

/// Packets of the queue between interrupt and process, and seconds of a run.
const QUEUE: u64 = 32;
const SECONDS: f64 = 2.0;

/// 9: receive livelock.
pub(super) fn livelock(random: &mut Random) -> Result<Exercise, ProfileError> {
    let (interrupt, process) = (pick(random, 20.0, 80.0, 1.0), pick(random, 80.0, 240.0, 5.0));
    let saturation = 1e6 / (interrupt + process);
    // Between the rate that saturates and the one at which nothing is delivered, in hundreds.
    let room = 1e6 / interrupt - saturation;
    let offered = ((saturation + room * pick(random, 0.3, 0.7, 0.05)) / 100.0).round() * 100.0;
    let run = |guard| delivered(guard, interrupt * 1e-6, process * 1e-6, QUEUE, offered, SECONDS);
    let of = |what, answer| Asked { what, unit: "packets/s", answer, tolerance: 0.03 };
    Ok(Exercise {
        number: 9,
        title: "Receive livelock",
        question: format!(
            "Each packet interrupts for {interrupt} us, and a process takes {process} us more to deliver it; interrupts go first. A \
             queue of {QUEUE} packets lies between. {offered} packets/s are offered, more than the host can take. How many are \
             delivered? How many if the interrupt turns itself off and a poll takes packets all the way, 10 at a time, while there are any?"
        ),
        drawn: vec![("interrupt_us", interrupt), ("process_us", process), ("offered", offered)],
        asked: vec![of("by interrupts", run(Guard::None)), of("with a quota of 10", run(Guard::Quota(10)))],
        way: format!(
            "The host is saturated at 1 / (interrupt + process) = {saturation:.0} packets/s. Beyond it, interrupts take offered x \
             {interrupt} us of each second, and the process delivers with the rest: (1 - offered x interrupt) / process. At 1 / interrupt \
             nothing is left: that is the livelock. A poll pays no interrupt while packets wait: all that are offered, 1 / process at most. Compare \
             `cellway-lab run seed004-livelock --no-measure`."
        ),
    })
}
