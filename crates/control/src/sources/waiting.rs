//! Links of commands that wait, understood: names of hosts are asked for, and files of certificates are read. That
//! takes as long as others make it take: it is done while everybody else may change the network, and within a bound of
//! time.

use crate::config::{Link, Shell};
use net::topology::LinkDescription;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What is not understood by then waits on.
const PATIENCE: Duration = Duration::from_secs(10);
/// Links that are understood side by side: one whose name nobody knows takes long.
const THREADS: usize = 16;

/// Links that wait, each with its place in the order of commands.
pub type Waiting = Vec<(u64, Link)>;

/// What a link means, or why nobody can tell.
type Meaning = Result<(LinkDescription, Option<Shell>), String>;

/// What links that waited mean.
#[derive(Debug, Default)]
pub struct Understood(BTreeMap<u64, (Link, Meaning)>);

impl Understood {
    /// Understands links; whoever calls this holds up nobody.
    pub fn of(waiting: Waiting) -> Self {
        let describe = |link: &Link| link.describe(Path::new("")).map_err(|faults| faults.to_string());
        Understood::within(PATIENCE, waiting, describe)
    }

    fn within(
        patience: Duration,
        waiting: Waiting,
        describe: impl Fn(&Link) -> Meaning + Clone + Send + 'static,
    ) -> Self {
        let until = Instant::now() + patience;
        let threads = waiting.len().min(THREADS);
        let left = Arc::new(Mutex::new(waiting.into_iter()));
        let (tell, told) = channel();
        for _ in 0..threads {
            let (left, tell, describe) = (left.clone(), tell.clone(), describe.clone());
            let next = move || left.lock().unwrap_or_else(PoisonError::into_inner).next();
            let work = move || {
                while let Some((order, link)) = next().filter(|_| Instant::now() < until) {
                    // A panic over one leaves the others as they are.
                    let meaning = host::panics::caught(|| describe(&link));
                    let meaning = meaning.unwrap_or_else(|| Err("reading it has failed".into()));
                    // Nobody waits for it any more once the time is over.
                    if tell.send((order, link, meaning)).is_err() {
                        return;
                    }
                }
            };
            if let Err(e) = std::thread::Builder::new().name("waiting".into()).spawn(work) {
                tracing::error!("links of commands wait on: {e}");
                break;
            }
        }
        drop(tell);
        let mut understood = Understood::default();
        while let Ok((order, link, meaning)) = told.recv_timeout(until.saturating_duration_since(Instant::now())) {
            understood.0.insert(order, (link, meaning));
        }
        understood
    }

    /// What the link at a place in the order of commands means.
    pub(super) fn meaning(&self, order: u64, link: &Link) -> Meaning {
        let meaning = self.0.get(&order).filter(|(asked, _)| asked == link).map(|(_, meaning)| meaning.clone());
        meaning.unwrap_or_else(|| Err("what it names was not found out in time".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_takes_for_ever_waits_on_and_the_others_do_not() {
        let link = |n: usize| {
            let text = format!("ends = [\"a\", \"s1:{n}\"]");
            (n as u64, toml::from_str::<Link>(&text).unwrap())
        };
        let waiting: Waiting = (0..40).map(link).collect();
        let (slow, asked) = (waiting[1].1.clone(), waiting.clone());
        // It is held until the test ends.
        let held = Arc::new(Mutex::new(()));
        let holds = held.lock().unwrap();
        let of_thread = held.clone();
        let describe = move |link: &Link| {
            if *link == slow {
                drop(of_thread.lock());
            }
            link.describe(Path::new("")).map_err(|faults| faults.to_string())
        };
        let understood = Understood::within(Duration::from_secs(2), waiting, describe);
        for (order, link) in &asked {
            assert_eq!(understood.meaning(*order, link).is_ok(), *order != 1, "{order}");
        }
        assert!(understood.meaning(1, &asked[1].1).unwrap_err().contains("in time"));
        // One that was written otherwise meanwhile is another.
        assert!(understood.meaning(2, &asked[3].1).is_err());
        drop(holds);
    }
}
