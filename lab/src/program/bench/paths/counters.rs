//! What remapping costs besides time: page faults, as the system counts them for each thread, and TLB shootdowns, interrupts by which
//! one processor makes others forget mappings.

/// Page faults of the calling thread, or of all threads of this process that there are or were.
fn faults(of: &str) -> Option<u64> {
    let stat = std::fs::read_to_string(of).ok()?;
    // The name, in parentheses, may hold anything. Behind it: state, then seven numbers, then minor faults, of children, major ones.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(7);
    let minor: u64 = fields.next()?.parse().ok()?;
    let major: u64 = fields.nth(1)?.parse().ok()?;
    Some(minor + major)
}

pub(super) fn thread_faults() -> Option<u64> {
    faults("/proc/thread-self/stat")
}

pub(super) fn process_faults() -> Option<u64> {
    faults("/proc/self/stat")
}

/// TLB shootdowns of the whole machine; none, where the kernel does not count them.
pub(super) fn shootdowns() -> Option<u64> {
    shootdowns_of(&std::fs::read_to_string("/proc/interrupts").ok()?)
}

fn shootdowns_of(interrupts: &str) -> Option<u64> {
    let line = interrupts.lines().find_map(|line| line.trim_start().strip_prefix("TLB:"))?;
    Some(line.split_ascii_whitespace().map_while(|word| word.parse::<u64>().ok()).sum())
}

/// Counts of one run, by SDU that arrived.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) sender: Option<f64>,
    pub(super) receiver: Option<f64>,
    /// The host's thread and the library's.
    pub(super) others: Option<f64>,
    pub(super) shootdowns: Option<f64>,
}

/// Readings before the steady part of a run, by the sender's thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct Readings {
    sender: Option<u64>,
    process: Option<u64>,
    shootdowns: Option<u64>,
}

impl Readings {
    pub(super) fn take() -> Self {
        Readings { sender: thread_faults(), process: process_faults(), shootdowns: shootdowns() }
    }

    /// What was counted since, while the receiver's thread had `receiver` faults, for each of `pdus`.
    pub(super) fn since(self, receiver: u64, pdus: u64) -> Counts {
        let now = Self::take();
        let less = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        let (sender, all) = (less(now.sender, self.sender), less(now.process, self.process));
        let receiver = Some(receiver);
        let others = less(less(all, sender), receiver);
        let each = |n: Option<u64>| n.map(|n| n as f64 / pdus.max(1) as f64);
        Counts {
            sender: each(sender),
            receiver: each(receiver),
            others: each(others),
            shootdowns: each(less(now.shootdowns, self.shootdowns)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_touched_first_is_a_fault_of_this_thread_and_of_the_process() {
        let before = (thread_faults().unwrap(), process_faults().unwrap());
        // A block that the allocator has from the system.
        let pages = std::hint::black_box(vec![1u8; 64 << 20]);
        let after = (thread_faults().unwrap(), process_faults().unwrap());
        // More than the allocator keeps. Huge pages may make it few faults.
        assert!(after.0 > before.0 && after.1 - before.1 >= after.0 - before.0, "{before:?} {after:?} {}", pages.len());
    }

    #[test]
    fn shootdowns_are_the_sum_over_processors() {
        let table = "           CPU0       CPU1\n  0:   5   0   IO-APIC   2-edge   timer\nTLB:   1072544    1028751   TLB shootdowns\n";
        assert_eq!(shootdowns_of(table), Some(2_101_295));
        assert_eq!(shootdowns_of("  0: 5\n"), None);
    }
}
