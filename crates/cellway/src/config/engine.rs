//! `[engine]`: the thread that carries all cells and packets of a network.

use anyhow::{Context as _, Result, bail};
use host::engine::EngineHandle;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

/// `[engine]`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Engine {
    /// The processor that it stays on, from 0; without, the system moves it as it likes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) processor: Option<usize>,
}

impl Engine {
    pub(crate) fn is_default(&self) -> bool {
        *self == Engine::default()
    }

    /// Puts a running engine where it is to be: on one of the processors that the calling thread may use, or on all of them.
    pub(crate) fn place(self, engine: &EngineHandle) -> Result<()> {
        let all = sched_getaffinity(None).context("asking for the processors")?;
        let set = match self.processor {
            None => all,
            Some(wanted) if wanted < CpuSet::MAX_CPU && all.is_set(wanted) => {
                let mut set = CpuSet::new();
                set.set(wanted);
                set
            }
            Some(wanted) => {
                let may: Vec<String> = (0..CpuSet::MAX_CPU).filter(|p| all.is_set(*p)).map(|p| p.to_string()).collect();
                bail!(
                    "[engine] processor = {wanted}: there is none of this number for us; there are {}",
                    may.join(", ")
                );
            }
        };
        Ok(engine.with(move |_| sched_setaffinity(None, &set))??)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::{FramePool, Network};

    #[test]
    fn the_engine_stays_where_it_is_put_and_is_let_go_again() {
        let engine = host::engine::start(Network::new(FramePool::new(1, 64))).unwrap();
        let processors = || engine.with(|_| sched_getaffinity(None).unwrap()).unwrap();
        let all = processors();
        let last = (0..CpuSet::MAX_CPU).rfind(|p| all.is_set(*p)).unwrap();
        Engine { processor: Some(last) }.place(&engine).unwrap();
        assert!(processors().count() == 1 && processors().is_set(last));
        let refused = Engine { processor: Some(100_000) }.place(&engine).unwrap_err().to_string();
        assert!(refused.contains("processor = 100000") && refused.contains(&last.to_string()), "{refused}");
        Engine::default().place(&engine).unwrap();
        assert_eq!(processors().count(), all.count());
        engine.stop();
    }
}
