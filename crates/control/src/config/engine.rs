//! `[engine]`: the thread that carries all cells and packets of a network.

use crate::processors::Processors;
use anyhow::{Context as _, Result};
use host::engine::EngineHandle;
use serde::{Deserialize, Serialize};

/// `[engine]`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Engine {
    /// The processor that it stays on, from 0; without, the system moves it as it likes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processor: Option<usize>,
}

impl Engine {
    /// Whether nothing was said of it.
    pub fn is_default(&self) -> bool {
        *self == Engine::default()
    }

    /// Puts a running engine where it is to be: on one of the processors that the calling thread may use, or on all of them.
    pub fn place(self, engine: &EngineHandle) -> Result<()> {
        let all = Processors::allowed()?;
        let its = match self.processor {
            None => all,
            Some(wanted) => all.only(wanted).with_context(|| format!("[engine] processor = {wanted}"))?,
        };
        engine.with(move |_| its.stay())?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::{FramePool, Network};

    #[test]
    fn the_engine_stays_where_it_is_put_and_is_let_go_again() {
        let engine = host::engine::start(Network::new(FramePool::new(1, 64))).unwrap();
        let processors = || engine.with(|_| Processors::allowed().unwrap()).unwrap();
        let all = processors();
        let last = all.numbers().next_back().unwrap();
        Engine { processor: Some(last) }.place(&engine).unwrap();
        assert_eq!(processors(), all.only(last).unwrap());
        let refused = format!("{:#}", Engine { processor: Some(100_000) }.place(&engine).unwrap_err());
        assert!(refused.contains("processor = 100000") && refused.contains(&last.to_string()), "{refused}");
        Engine::default().place(&engine).unwrap();
        assert_eq!(processors(), all);
        engine.stop();
    }
}
