//! The processors that a thread may use, which are all of the machine's or fewer (`taskset`, a cgroup), and staying on
//! one of them.

use anyhow::{Context as _, Result, bail};
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

/// Some of the machine's processors, numbered from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Processors(CpuSet);

impl Processors {
    /// Those that the calling thread may use.
    ///
    /// # Errors
    /// The system does not say.
    pub fn allowed() -> Result<Self> {
        Ok(Processors(sched_getaffinity(None).context("asking for the processors")?))
    }

    /// Those that a thread of this process may use.
    ///
    /// # Errors
    /// The system does not say.
    pub fn of(thread: Pid) -> Result<Self> {
        Ok(Processors(sched_getaffinity(Some(thread)).context("asking for a thread's processors")?))
    }

    /// The processor of this number, whether there is one or not.
    ///
    /// # Errors
    /// No machine has so many.
    pub fn one(number: usize) -> Result<Self> {
        if number >= CpuSet::MAX_CPU {
            bail!("there is no processor {number}");
        }
        let mut set = CpuSet::new();
        set.set(number);
        Ok(Processors(set))
    }

    /// Their numbers, in order.
    pub fn numbers(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        (0..CpuSet::MAX_CPU).filter(|number| self.0.is_set(*number))
    }

    /// One of them alone.
    ///
    /// # Errors
    /// It is none of them.
    pub fn only(&self, wanted: usize) -> Result<Self> {
        if !self.numbers().any(|number| number == wanted) {
            let numbers: Vec<String> = self.numbers().map(|number| number.to_string()).collect();
            bail!("there is no processor {wanted} for us; there are {}", numbers.join(", "));
        }
        Processors::one(wanted)
    }

    /// Keeps the calling thread, and threads that it starts from now on, on these.
    ///
    /// # Errors
    /// None of them exists for this process.
    pub fn stay(&self) -> Result<()> {
        sched_setaffinity(None, &self.0).context("choosing a processor")
    }

    /// Keeps a thread of this process on these.
    ///
    /// # Errors
    /// None of them exists for this process, or the thread is gone.
    pub fn keep(&self, thread: Pid) -> Result<()> {
        sched_setaffinity(Some(thread), &self.0).context("choosing a processor")
    }
}

/// Those of these numbers that a machine can have.
impl FromIterator<usize> for Processors {
    fn from_iter<I: IntoIterator<Item = usize>>(numbers: I) -> Self {
        let mut set = CpuSet::new();
        numbers.into_iter().filter(|number| *number < CpuSet::MAX_CPU).for_each(|number| set.set(number));
        Processors(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_was_put_on_one_processor_is_told_of_that_one_alone() {
        for number in Processors::allowed().unwrap().numbers() {
            std::thread::spawn(move || {
                Processors::allowed().unwrap().only(number).unwrap().stay().unwrap();
                let all = Processors::allowed().unwrap();
                assert_eq!(all.numbers().collect::<Vec<_>>(), [number]);
                let refused = all.only(number + 1).unwrap_err().to_string();
                assert!(refused.ends_with(&format!("there are {number}")), "{refused}");
            })
            .join()
            .unwrap();
        }
    }

    #[test]
    fn a_processor_that_is_not_ours_is_refused_with_those_that_are() {
        let all: Processors = [2, 3].into_iter().collect();
        assert_eq!(all.only(3).unwrap(), [3].into_iter().collect());
        for wanted in [0, 1, 4, 100_000] {
            let refused = all.only(wanted).unwrap_err().to_string();
            assert!(refused.contains(&format!("no processor {wanted} ")) && refused.ends_with("2, 3"), "{refused}");
        }
        assert!(Processors::one(100_000).is_err());
    }
}
