//! What a command that sends or receives knows of the circuit's path: who has the far end open, whether a link is down,
//! and what was dropped since the command began.

use crate::client;
use crate::context::Context;
use anyhow::{Result, bail};
use control::delivery::{self, Delivery};
use control::path::PathStatus;
use control::protocol::Request;
use std::time::{Duration, Instant};
use wire::CircuitId;

/// How long drops and deliveries are waited for that are not counted yet, beyond the delay of the path.
const SETTLING: Duration = Duration::from_secs(1);
/// The longest wait for what is queued on the path.
const LONGEST: Duration = Duration::from_secs(10);
/// Between two looks meanwhile.
const LOOK: Duration = Duration::from_millis(20);

/// PDUs that are sent where nothing can arrive, before the command fails: counters and captures show where they end.
pub const UNATTENDED: u64 = 64;

/// A circuit at a host, and what its path was when the command began.
#[derive(Debug, Clone)]
pub struct PathWatch {
    context: Context,
    host: String,
    circuit: CircuitId,
    /// `None`: the service does not say, as one of an older version.
    before: Option<PathStatus>,
}

impl PathWatch {
    /// Looks at a circuit's path.
    ///
    /// # Errors
    /// The service has gone.
    pub fn begin(context: &Context, host: &str, circuit: CircuitId) -> Result<Self> {
        let mut watch = PathWatch::idle(context, host, circuit);
        watch.before = watch.look()?;
        Ok(watch)
    }

    /// The same for who neither sends nor receives SDUs: nothing is looked at.
    pub fn idle(context: &Context, host: &str, circuit: CircuitId) -> Self {
        PathWatch { context: context.clone(), host: host.to_owned(), circuit, before: None }
    }

    /// The path now; `None` where the service does not say.
    fn look(&self) -> Result<Option<PathStatus>> {
        let request = Request::Path { host: self.host.clone(), circuit: self.circuit.to_string() };
        match client::ask_for::<PathStatus>(&self.context, &request) {
            Ok(path) => Ok(Some(path)),
            Err(e) => match e.downcast_ref::<endpoint::Error>() {
                Some(endpoint::Error::Refused { .. }) => Ok(None),
                _ => Err(e),
            },
        }
    }

    /// The one far end, if there is only one.
    fn only(path: &PathStatus) -> Option<&control::path::FarEnd> {
        if let [far] = &path.far[..] { Some(far) } else { None }
    }

    /// Whether the application at the far end, in this network, speaks reliable transfer: both ends send and receive.
    pub fn takes_streams(&self) -> bool {
        let path = self.before.as_ref().filter(|path| path.sends && path.receives);
        path.and_then(Self::only).is_some_and(|far| far.known && far.receives && far.reliable)
    }

    /// Whether the far end is in this network, so that the service knows whether it speaks reliable transfer.
    pub fn knows_far_end(&self) -> bool {
        self.before.as_ref().and_then(Self::only).is_some_and(|far| far.known)
    }

    /// The same as [`PathWatch::takes_streams`] at this moment.
    ///
    /// # Errors
    /// The service has gone.
    pub fn takes_streams_now(&self) -> Result<bool> {
        Ok(PathWatch { before: self.look()?, ..self.clone() }.takes_streams())
    }

    /// Fails where nothing can arrive: a link on the path is down, or nobody receives at any far end.
    ///
    /// # Errors
    /// What is missing.
    pub fn check(&self) -> Result<()> {
        self.before.as_ref().map_or(Ok(()), check)
    }

    /// The same at this moment.
    ///
    /// # Errors
    /// What is missing.
    pub fn check_now(&self) -> Result<()> {
        self.look()?.map_or(Ok(()), |path| check(&path))
    }

    /// What became of the PDUs that were sent since the beginning, once all are accounted for or no more of them comes to
    /// an end. A link's drops say nothing of that: it may drop what others send, and OAM cells.
    ///
    /// # Errors
    /// The service has gone.
    pub fn sent(&self, goes_on: &dyn Fn() -> bool) -> Result<Option<Sent>> {
        let Some(before) = &self.before else { return Ok(None) };
        let begin = Instant::now();
        let (mut last, mut changed) = (None, begin);
        loop {
            let Some(after) = self.look()? else { return Ok(None) };
            let delivery = delivery::of_sent(before, &after);
            let patience = SETTLING + Duration::from_secs_f64(after.forward.iter().map(|point| point.delay_s).sum());
            let dropped = |far: &control::path::FarEnd| far.received.dropped.values().sum::<u64>();
            let ended = (delivery.sent, delivery.delivered, after.far.iter().map(dropped).sum::<u64>());
            if last != Some(ended) {
                (last, changed) = (Some(ended), Instant::now());
            }
            let waits = after.forward.iter().any(|point| point.queued > 0) && begin.elapsed() < LONGEST;
            let rests = changed.elapsed() > patience && !waits;
            if delivery.is_settled() || rests || !goes_on() {
                return Ok(Some(Sent { delivery, after }));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// What became of the PDUs that were sent to here since the beginning.
    ///
    /// # Errors
    /// The service has gone.
    pub fn received(&self) -> Result<Option<Delivery>> {
        let Some(before) = &self.before else { return Ok(None) };
        let after = self.look()?;
        // Of a call that has been released, only this end's last counters are known.
        Ok(after.map(|after| delivery::of_received(before, &after)))
    }
}

fn check(path: &PathStatus) -> Result<()> {
    if let Some(link) = path.forward.iter().find(|point| point.link && !point.up) {
        let name = &link.at;
        if link.enabled {
            bail!("the link {name} is down: nothing that is sent on {} {} arrives", path.host, path.circuit);
        }
        bail!("the link {name} is taken down (`cellway link up \"{name}\"`)");
    }
    // The application that a call is for may open its circuit after the call is up.
    let nobody = path.far.iter().all(|far| far.known && !far.receives);
    if nobody && !path.call && !path.far.is_empty() {
        let ends: Vec<&str> = path.far.iter().map(|far| far.end.as_str()).collect();
        bail!("nobody has {} open: start its receiver first (`cellway receive {}`)", ends.join(", "), ends[0]);
    }
    Ok(())
}

/// What became of PDUs that were sent, and the path after that.
#[derive(Debug)]
pub struct Sent {
    /// What became of them.
    pub delivery: Delivery,
    after: PathStatus,
}

impl Sent {
    /// Fails where PDUs did not arrive for want of a receiver or of a link, where none arrived, and if `strict` where
    /// any did not.
    ///
    /// # Errors
    /// What is missing.
    pub fn check(&self, strict: bool) -> Result<()> {
        let Some(lost) = self.delivery.text() else { return Ok(()) };
        check(&self.after).map_err(|e| e.context(lost.clone()))?;
        let missing = |drop: &delivery::PathDrop| matches!(&*drop.reason, "not_open" | "closed" | "link_down");
        if strict || self.delivery.delivered == Some(0) || self.delivery.drops.iter().any(missing) {
            bail!(lost);
        }
        Ok(())
    }
}
