//! `[engine]`: the threads that carry all cells and packets of a network.

use crate::fault::Faults;
use crate::processors::Processors;
use anyhow::{Context as _, Result, ensure};
use host::engine::EngineHandle;
use net::MAX_SHARDS;
use serde::{Deserialize, Serialize};

/// The least memory of all users that a description may give.
const MIN_USERS_OCTETS: u64 = 1 << 20;

/// `[engine]`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Engine {
    /// Threads that carry everything, each a share of the stations: 1 to 64. It takes effect when the network is
    /// started.
    pub shards: usize,
    /// The processor that each stays on, from 0: a number, or for several shards a list; without, the system moves them
    /// as it likes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processor: Option<Places>,
    /// Most of a processor that each uses, in per cent, while it carries nothing but SDUs of which so many are turned
    /// away by applications whose rings are full that the rest needs no more: 10 to 100, which is no limit.
    pub cycle_limit_percent: u8,
    /// Octets of memory that all users have together, at most: segments, registered memory, memory of direct circuits,
    /// 64 KiB more for each endpoint and 4 KiB for each open circuit. Without, three quarters of what the control group
    /// or the machine leaves beside 64 MiB for the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_users_octets: Option<u64>,
}

/// Processors of the engine's threads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(untagged, expecting = "expected the number of a processor, or a list of them, one for each shard")]
pub enum Places {
    /// Of the only one.
    One(usize),
    /// Of each shard's.
    Each(Vec<usize>),
}

impl Places {
    fn numbers(&self) -> &[usize] {
        match self {
            Places::One(number) => std::slice::from_ref(number),
            Places::Each(numbers) => numbers,
        }
    }
}

impl Default for Engine {
    fn default() -> Self {
        Engine { shards: 1, processor: None, cycle_limit_percent: 50, max_users_octets: None }
    }
}

impl Engine {
    /// Whether nothing was said of it.
    pub fn is_default(&self) -> bool {
        *self == Engine::default()
    }

    /// What is wrong with it.
    pub(super) fn check(&self, faults: &mut Faults) {
        let shards = self.shards;
        if !(1..=MAX_SHARDS).contains(&shards) {
            faults.add("shards", format!("shards = {shards}: a network has 1 to {MAX_SHARDS} shards"));
        } else if let Some(places) = &self.processor
            && places.numbers().len() != shards
        {
            let given = places.numbers().len();
            faults.add("processor", format!("{given} processors for {shards} shards: write a list with one for each"));
        }
        self.check_processors(faults);
        let percent = self.cycle_limit_percent;
        if !(10..=100).contains(&percent) {
            let says =
                format!("cycle_limit_percent = {percent}: a share of a processor from 10 to 100, which is no limit");
            faults.add("cycle_limit_percent", says);
        }
        if let Some(octets) = self.max_users_octets.filter(|octets| *octets < MIN_USERS_OCTETS) {
            let says = format!("max_users_octets = {octets}: users need {MIN_USERS_OCTETS} octets of memory or more");
            faults.add("max_users_octets", says);
        }
    }

    /// Processors that this machine does not have, or that this process may not use.
    fn check_processors(&self, faults: &mut Faults) {
        // A system that does not say which it has refuses them when the network starts.
        let (Some(places), Ok(all)) = (&self.processor, Processors::allowed()) else { return };
        for wanted in places.numbers() {
            if let Err(says) = all.only(*wanted) {
                faults.add("processor", format!("processor = {wanted}: {says}"));
            }
        }
    }

    /// What is wrong with the shard that a station is to be in.
    pub(super) fn check_shard(&self, shard: Option<usize>, faults: &mut Faults) {
        if let Some(shard) = shard.filter(|shard| *shard >= self.shards) {
            let last = self.shards.saturating_sub(1);
            let says = format!("shard = {shard}: `[engine] shards` is {}, so the last shard is {last}", self.shards);
            faults.add("shard", says);
        }
    }

    /// Puts the threads of a running engine where they are to be: each on one of the processors that the calling thread
    /// may use, or on all of them. Tells them their limit.
    ///
    /// # Errors
    /// There is no such processor for us, or the engine was started with another number of shards.
    pub fn place(&self, engine: &EngineHandle) -> Result<()> {
        let all = Processors::allowed()?;
        let threads = engine.with(|core| core.threads().to_vec())?;
        let (shards, runs) = (self.shards, threads.len());
        ensure!(
            shards == runs,
            "[engine] shards = {shards}: this network was started with {runs}; another number takes a restart"
        );
        let places = self.processor.as_ref().map(Places::numbers);
        let its = |shard: usize| match places.and_then(|places| places.get(shard)) {
            None => Ok(all),
            Some(wanted) => all.only(*wanted).with_context(|| format!("[engine] processor = {wanted}")),
        };
        let its = (0..runs).map(its).collect::<Result<Vec<_>>>()?;
        threads.into_iter().zip(its).try_for_each(|(thread, its)| its.keep(thread))?;
        let limit = f64::from(self.cycle_limit_percent) / 100.0;
        Ok(engine.with(move |core| core.limit_cycles(limit))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::Network;

    fn at(processors: &[usize]) -> Engine {
        let processor = match processors {
            [] => None,
            [one] => Some(Places::One(*one)),
            each => Some(Places::Each(each.to_vec())),
        };
        Engine { shards: processors.len().max(1), processor, ..Engine::default() }
    }

    #[test]
    fn the_engine_stays_where_it_is_put_and_is_let_go_again() {
        let engine = host::engine::start(Network::sharded(1, 1, 64)).unwrap();
        let processors = || engine.with(|_| Processors::allowed().unwrap()).unwrap();
        let all = processors();
        let last = all.numbers().next_back().unwrap();
        at(&[last]).place(&engine).unwrap();
        assert_eq!(processors(), all.only(last).unwrap());
        let refused = format!("{:#}", at(&[100_000]).place(&engine).unwrap_err());
        assert!(refused.contains("processor = 100000") && refused.contains(&last.to_string()), "{refused}");
        at(&[]).place(&engine).unwrap();
        assert_eq!(processors(), all);
        let refused = Engine { shards: 3, ..Engine::default() }.place(&engine).unwrap_err().to_string();
        assert!(refused.contains("shards = 3") && refused.contains("started with 1"), "{refused}");
        engine.stop();
    }

    #[test]
    fn the_limit_of_a_description_that_says_none_is_the_engine_s() {
        let engine = host::engine::start(Network::sharded(2, 1, 64)).unwrap();
        let limits = || engine.with(|core| core.cycle_limits()).unwrap();
        assert_eq!(limits(), [f64::from(Engine::default().cycle_limit_percent) / 100.0; 2]);
        Engine { shards: 2, cycle_limit_percent: 30, ..Engine::default() }.place(&engine).unwrap();
        assert_eq!(limits(), [0.3; 2]);
        engine.stop();
    }

    #[test]
    fn each_shard_stays_on_its_own_processor() {
        let engine = host::engine::start(Network::sharded(2, 1, 64)).unwrap();
        let all = Processors::allowed().unwrap();
        let (first, last) = (all.numbers().next().unwrap(), all.numbers().next_back().unwrap());
        at(&[last, first]).place(&engine).unwrap();
        let threads = engine.with(|core| core.threads().to_vec()).unwrap();
        let stays = threads.into_iter().map(|thread| Processors::of(thread).unwrap()).collect::<Vec<_>>();
        assert_eq!(stays, [all.only(last).unwrap(), all.only(first).unwrap()]);
        engine.stop();
    }

    #[test]
    fn what_cannot_be_is_said_in_a_sentence() {
        let said = |text: &str| crate::config::parse(text, "net.toml").unwrap_err().to_string();
        let wrong = said("[engine]\nshards = 65\n");
        assert!(wrong.contains("shards = 65: a network has 1 to 64 shards"), "{wrong}");
        let wrong = said("[engine]\nshards = 2\nprocessor = 1\n");
        assert!(wrong.contains("1 processors for 2 shards: write a list with one for each"), "{wrong}");
        let wrong = said("[engine]\nshards = 2\n[host.a]\nshard = 2\n[switch.s]\nshard = 7\n");
        assert!(wrong.contains("shard = 2: `[engine] shards` is 2, so the last shard is 1"), "{wrong}");
        assert!(wrong.contains("shard = 7"), "{wrong}");
        let wrong = said("[engine]\ncycle_limit_percent = 9\n");
        assert!(wrong.contains("cycle_limit_percent = 9: a share of a processor from 10 to 100"), "{wrong}");
        assert!(said("[engine]\ncycle_limit_percent = 101\n").contains("cycle_limit_percent = 101"));
        let wrong = said("[engine]\nmax_users_octets = 1000\n");
        assert!(wrong.contains("max_users_octets = 1000: users need 1048576 octets of memory or more"), "{wrong}");
        let wrong = said("[engine]\nprocessor = \"first\"\n");
        assert!(wrong.contains("one for each shard"), "{wrong}");
        crate::config::parse("[engine]\nshards = 2\nprocessor = [0, 0]\n[host.a]\nshard = 1\n", "net.toml").unwrap();
        for percent in [10, 100] {
            let text = format!("[engine]\ncycle_limit_percent = {percent}\n");
            assert_eq!(crate::config::parse(&text, "net.toml").unwrap().file.engine.cycle_limit_percent, percent);
        }
    }
}
