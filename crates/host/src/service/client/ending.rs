//! How what a connection has opened ends: in steps, as far as its user has time in a round, so that its user's other
//! requests and other users are served meanwhile.

use super::{Client, OpenCircuit, ServiceContext};
use crate::HostInterface;
use crate::engine::EngineHandle;
use crate::host_endpoint::Unloading;
use crate::quota::{Kind, Ledger};
use endpoint::control::Response;
use std::time::Instant;

/// What a connection has opened is ending.
#[derive(Debug, Clone, Copy)]
pub(in crate::service) struct Ending {
    /// Its application gave it up: nothing of it is sent any more.
    at_once: bool,
    /// The connection has ended. Otherwise an answer is due.
    gone: bool,
}

impl Client {
    /// Whether something of it has to end before anything else is served.
    pub(in crate::service) fn is_ending(&self) -> bool {
        self.ending.is_some() || !self.revoked.is_empty()
    }

    /// Whether its connection has ended.
    pub(in crate::service) fn is_gone(&self) -> bool {
        self.ending.is_some_and(|ending| ending.gone)
    }

    /// The connection has ended. What is in the send ring is still sent.
    pub(in crate::service) fn go(&mut self) {
        let at_once = self.ending.is_some_and(|ending| ending.at_once);
        self.ending = Some(Ending { at_once, gone: true });
        self.pending = None;
    }

    /// The application gives up what it has opened: the host leaves its memory alone from the answer on.
    pub(super) fn release(&mut self) {
        self.ending = Some(Ending { at_once: true, gone: false });
    }

    /// Does what has to end, a step at least and none after `until`. False if the connection has ended, and with it all
    /// that it had.
    pub(in crate::service) fn end_until(&mut self, context: &mut ServiceContext<'_>, until: Instant) -> bool {
        while self.is_ending() {
            if !self.end_step(context) {
                return false;
            }
            if Instant::now() >= until {
                break;
            }
        }
        true
    }

    /// Does one step of what has to end. False if the connection has ended, and with it all that it had.
    pub(in crate::service) fn end_step(&mut self, context: &mut ServiceContext<'_>) -> bool {
        if let Some(open) = self.revoked.pop() {
            self.close_revoked(open, context);
            return true;
        }
        let Some(Ending { at_once, gone }) = self.ending else { return true };
        if std::mem::take(&mut self.session.1) {
            context.handler.end_session(self.session.0);
        }
        if let Some(claim) = self.direct.take() {
            context.broker.end(claim, context.engine);
        }
        if self.unload(at_once, context) {
            return true;
        }
        self.end(at_once, context);
        self.ending = None;
        if gone {
            self.account.end(&mut context.ledger);
        }
        !gone && self.send(&Response::Released).is_ok()
    }

    /// Takes a piece of the endpoint's ring up, so that no round is long because the ring is. False if there is no
    /// more.
    fn unload(&self, at_once: bool, context: &ServiceContext<'_>) -> bool {
        let Some((_, node, id)) = self.endpoint else { return false };
        let what = if at_once { Unloading::Drop } else { Unloading::Send };
        let unload = move |host: &mut HostInterface| host.unload(id, what);
        // If the engine has stopped, the endpoint has ended with it.
        context.engine.with(move |core| core.network.node_mut(node).is_some_and(unload)).unwrap_or(false)
    }

    /// Ends the endpoint, and gives back what the connection has taken.
    fn end(&mut self, at_once: bool, context: &mut ServiceContext<'_>) {
        let mut until = None;
        if let Some((host, node, id)) = self.endpoint.take() {
            context.handler.endpoint_ended(&host, id.0);
            let departs = context.engine.with(move |core| core.remove_endpoint(node, id, at_once)).unwrap_or(false);
            until = departs.then(|| Instant::now() + crate::interface::LONGEST_DEPARTURE);
        }
        crate::reaper::dispose((self.segment.take(), self.made.take(), self.mapping.take()));
        self.open.clear();
        self.account.close(&mut context.ledger, until);
    }

    fn close_revoked(&mut self, open: OpenCircuit, context: &mut ServiceContext<'_>) {
        let (Some(channel), Some((_, node, id))) = (open.channel, self.endpoint.as_ref()) else { return };
        let (node, id) = (*node, *id);
        // It may be closed already, with its circuit.
        let _ = context.engine.with(move |core| core.close(node, id, channel));
        self.give_back_open(&open, &mut context.ledger);
    }

    /// Gives back what an open circuit cost.
    pub(super) fn give_back_open(&mut self, open: &OpenCircuit, ledger: &mut Ledger) {
        self.account.give_back(ledger, Kind::Channels, 1);
        self.account.give_back(ledger, Kind::Bandwidth, open.reserved);
    }

    /// Gives back what those cost whose channels have ended with their circuits, of which nothing tells the service.
    pub(super) fn give_back_gone(&mut self, engine: &EngineHandle, ledger: &mut Ledger) {
        let Some((_, node, id)) = self.endpoint.as_ref().filter(|_| !self.open.is_empty()) else { return };
        let (node, id) = (*node, *id);
        let channels: Vec<_> = self.open.iter().map(|open| open.channel).collect();
        let find = move |host: &mut HostInterface| host.are_open(id, &channels);
        let Ok(Some(are_open)) = engine.with(move |core| core.network.node_mut(node).map(find)) else { return };
        let (open, gone): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.open).into_iter().zip(are_open).partition(|(_, is_open)| *is_open);
        self.open.extend(open.into_iter().map(|(open, _)| open));
        for (open, _) in gone {
            self.give_back_open(&open, ledger);
        }
    }
}
