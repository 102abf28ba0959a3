//! Exercises about the PCs of seeds 000 and 003: copying, the start of the clock, the loopback's limit, fitted constants.

use super::{Asked, Exercise, pick};
use crate::model::pair::{self, PairOutcome, Scenario, Transport};
use crate::model::{Level, Machine, Profile, ProfileError, Random, Work};

fn neptune(changes: &[(&str, f64)]) -> Result<Profile, ProfileError> {
    let mut machine = Profile::named("pentium90-neptune")?;
    for (constant, factor) in changes {
        let value = machine.get(constant)? * factor;
        machine.set(constant, value)?;
    }
    Ok(machine)
}

/// Microseconds that a processor takes for a piece of work with nothing in its way.
fn takes(fixed_us: f64, octets: u64, ns: f64) -> f64 {
    let mut machine = Machine::default();
    let work = Work::cached(fixed_us * 1e-6).and(Work { seconds: octets as f64 * ns * 1e-9, memory: 1.0 });
    machine.submit(Level::Process, work, ());
    let mut end = 0.0;
    while let Some(at) = machine.poll_timeout() {
        machine.advance(at, |()| end = at.as_secs_f64() * 1e6);
    }
    end
}

/// 2: the size from which on locking pages is cheaper than copying.
pub(super) fn copy_or_lock(random: &mut Random) -> Result<Exercise, ProfileError> {
    let (copy, lock) = (pick(random, 10.0, 25.0, 0.1), pick(random, 30.0, 60.0, 0.1));
    let ns = pick(random, 20.0, 60.0, 1.0);
    let (mut low, mut high) = (0u64, 1 << 16);
    while high - low > 1 {
        let middle = (low + high) / 2;
        if takes(lock, 0, 0.0) < takes(copy, middle, ns) { high = middle } else { low = middle }
    }
    Ok(Exercise {
        number: 2,
        title: "Copy or lock?",
        question: format!(
            "Sending by copying costs {copy:.1} us and {ns} ns for each octet; sending by locking the application's pages costs \
             {lock:.1} us. Both cost an interrupt. From which size on is locking cheaper?"
        ),
        drawn: vec![("copy_us", copy), ("ns", ns), ("lock_us", lock)],
        asked: vec![Asked { what: "size", unit: "octets", answer: high as f64, tolerance: 0.02 }],
        way: "The difference of the fixed costs over the cost of an octet. In the paper's model it is (35.6 - 18.7) us / 33 ns = \
              512 octets, and `allocate_us` was chosen for this break-even (its anchor is A-54): the rows about it return \
              their input, and count as no evidence."
            .to_owned(),
    })
}

/// Both ends on one machine.
fn looped(machine: &Profile, octets: usize, pdus: u64, single_copy: bool) -> Result<PairOutcome, ProfileError> {
    // Both begin with a whole time slice: the receiver has no more left than the sender, and does not go first.
    let plain = Scenario::new(machine, machine, Transport::Raw, pdus);
    pair::run(&Scenario { octets, single_copy, loopback: true, quanta: [1.0, 1.0], ..plain })
}

/// 3: who seems faster in loopback.
pub(super) fn start_of_the_clock(random: &mut Random) -> Result<Exercise, ProfileError> {
    let sizes = [pick(random, 64.0, 256.0, 16.0), 4096.0 * pick(random, 3.0, 4.0, 1.0)];
    let machine = neptune(&[])?;
    let faster = |octets: f64, pdus| {
        let outcome = looped(&machine, octets as usize, pdus, false)?;
        Ok(outcome.received_mbit_s / outcome.sent_mbit_s.max(1e-9))
    };
    let of = |what, ratio: f64| Asked { what, unit: "1: yes, 0: no", answer: f64::from(ratio > 2.0), tolerance: 0.0 };
    let asked = vec![
        of("with the smaller datagrams", faster(sizes[0], 2048)?),
        of("with the larger ones", faster(sizes[1], 400)?),
    ];
    Ok(Exercise {
        number: 3,
        title: "The start of the clock",
        question: format!(
            "A sender and a receiver share one processor by time slices of 200 ms. The sender writes 2048 datagrams of {} octets, \
             or 400 of {}; the receiver's timer starts when it reads a small first datagram. Does the receiver seem \
             more than twice as fast as the sender?",
            sizes[0], sizes[1]
        ),
        drawn: vec![("small", sizes[0]), ("large", sizes[1])],
        asked,
        way: "With small datagrams, yes: the sender uses up its time slice before the receiver reads the start datagram; then the \
              receiver works through what waits without a competitor. A burst of large datagrams takes many slices, and the \
              difference vanishes. Compare rows A-57 and A-49 of seed000-loopback, and its figure 11."
            .to_owned(),
    })
}

/// 6: the limit of the loopback.
pub(super) fn limit_of_the_loopback(random: &mut Random) -> Result<Exercise, ProfileError> {
    let (percent, pages) = (pick(random, 5.0, 15.0, 1.0), pick(random, 2.0, 4.0, 1.0));
    let octets = (pages * 4096.0) as usize;
    let factor = 1.0 + percent / 100.0;
    let rate = |changes: &[(&str, f64)]| Ok(looped(&neptune(changes)?, octets, 250, true)?.carried_mbit_s);
    let before = rate(&[])?;
    let gain = |constant| Ok((rate(&[(constant, factor)])? / before - 1.0) * 100.0);
    let (dma, copy) = (gain("receive_dma_mb_s")?, gain("copy_mb_s")?);
    Ok(Exercise {
        number: 6,
        title: "The limit of the loopback",
        question: format!(
            "A PC sends to itself with single copy, {octets} octets at a time: whole pages. Its I/O bus moves 51 MB/s out of memory \
             and 21.4 MB/s into it. By how many per cent does the carried rate grow if the receiving DMA is {percent} % faster? \
             And does it grow by 1 % or more if the processor copies {percent} % faster (1: yes, 0: no)?"
        ),
        drawn: vec![("percent", percent), ("octets", octets as f64)],
        asked: vec![
            Asked { what: "faster receiving DMA", unit: "%", answer: dma, tolerance: 0.1 },
            Asked { what: "faster copying", unit: "1: yes, 0: no", answer: f64::from(copy.abs() >= 1.0), tolerance: 0.0 },
        ],
        way: "Both directions share the I/O bus: n octets take n / 51 + n / 21.4 us. Make the second term smaller and divide. With \
              single copy no full page is copied, so `copy_mb_s` moves nothing. See docs/lab/sensitivity.md."
            .to_owned(),
    })
}

/// 8: one constant, two results.
pub(super) fn fit_what_you_like(random: &mut Random) -> Result<Exercise, ProfileError> {
    let percent = pick(random, 10.0, 30.0, 1.0);
    let factor = 1.0 + percent / 100.0;
    let rate = |transport, factor| {
        let machine = neptune(&[("checksum_mb_s", factor)])?;
        Ok(pair::run(&Scenario::new(&machine, &machine, transport, 200))?.received_mbit_s)
    };
    let gain = |transport| Ok((rate(transport, factor)? / rate(transport, 1.0)? - 1.0) * 100.0);
    let (udp, tcp) = (gain(Transport::Udp { checksum: true })?, gain(Transport::Tcp)?);
    let of = |what, answer| Asked { what, unit: "%", answer, tolerance: 0.25 };
    Ok(Exercise {
        number: 8,
        title: "Fit what you like",
        question: format!(
            "Make the checksum of the Neptune PC {percent} % faster (`checksum_mb_s` 66). By how many per cent does what UDP with \
             checksum receives grow, and TCP? Find out with the model: copy lab/machines/pentium90-neptune.toml, change the \
             constant, run `cellway-lab run seed003-tables --machine FILE --no-measure`, and compare rows D-10 and D-9 with those of \
             the built-in machine. Could the constant bring TCP to 65 without breaking UDP's 51?"
        ),
        drawn: vec![("percent", percent)],
        asked: vec![of("UDP with checksum", udp), of("TCP", tcp)],
        way: "A faster checksum raises UDP about three times as much as TCP: UDP's receiver is overrun, and what the interrupt \
              saves is all left to its reads. So one constant does not give both. Question first the checksum in the interrupt \
              and the cost of an acknowledgement. See docs/lab/sensitivity.md."
            .to_owned(),
    })
}
