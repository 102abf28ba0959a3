//! Changes: each is made once under a client's id, on the revision that the client expects, and answered with whether it
//! is kept.

use super::{By, Manager, answer};
use crate::asking::{Answering, Asking};
use crate::audit::Who;
use crate::config::MAX_DESCRIPTION_OCTETS;
use crate::controller::{DISK_PATIENCE, May};
use crate::history::WrongRevision;
use crate::intent::ChangeOutcome;
use crate::once::Begun;
use crate::protocol::{Message, Request, TrialEnded};
use anyhow::{Context as _, Result, anyhow};
use endpoint::sealed;
use endpoint::seqpacket::Peer;
use serde_json::Value;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Who asks again for a change that is under way waits so long for its answer.
const PATIENCE: Duration = Duration::from_secs(30);

impl By<'_> {
    /// The same for the controller; `answering` makes the answer.
    pub(super) fn asking<'a>(&'a self, answering: Answering<'a>) -> Asking<'a> {
        let once = self.ticket.as_ref().map(|ticket| (ticket, answering));
        Asking { who: &self.who, expect: self.expect, once }
    }
}

impl Manager {
    /// Carries out a request, once if it has an id. Where another revision was expected, the answer says what has
    /// changed since.
    pub(super) fn serve_message(
        &self,
        message: Message,
        peer: &Peer,
        may: May<'_>,
        fds: Vec<OwnedFd>,
    ) -> Result<String> {
        let Message { request, id, expect, .. } = message;
        let by = By { peer, may, who: Who::User(peer.uid), expect, ticket: None };
        match id.filter(|_| request.may_have_id()) {
            Some(id) => self.serve_once(with_text(request, &fds)?, &id, by),
            None => self.serve(request, &by, fds).or_else(wrong_revision),
        }
    }

    fn serve_once(&self, request: Request, id: &str, mut by: By<'_>) -> Result<String> {
        let octets = serde_json::to_vec(&(&request, by.expect))?;
        match self.controller.book().begin(by.peer.uid, id, &octets, PATIENCE) {
            Begun::Known(Ok(text)) if request.is_recorded() => self.with_not_kept(text),
            Begun::Known(known) => known.map_err(|e| anyhow!(e)),
            Begun::Refused(why) => Err(anyhow!(why)),
            Begun::New(ticket) => {
                by.ticket = Some(ticket);
                let answer = self.serve(request, &by, Vec::new()).or_else(wrong_revision);
                if let Some(ticket) = &by.ticket {
                    ticket.settle(answer.as_ref().map(Clone::clone).map_err(|e| format!("{e:#}")));
                }
                answer
            }
        }
    }

    /// Makes a change; `answering` makes its answer.
    pub(super) fn change(
        &self,
        by: &By<'_>,
        answering: Answering<'_>,
        make: impl FnOnce(Asking<'_>) -> Result<ChangeOutcome>,
    ) -> Result<String> {
        let outcome = make(by.asking(answering))?;
        self.with_not_kept(answering(&outcome)?)
    }

    /// An answer to a change that is in force, with why it is not kept.
    fn with_not_kept(&self, text: String) -> Result<String> {
        let Some(why) = self.controller.not_kept(DISK_PATIENCE) else { return Ok(text) };
        let mut value: Value = serde_json::from_str(&text)?;
        let is_change = value.get("expected_revision").is_none();
        if let Some(members) = value.as_object_mut().filter(|_| is_change) {
            members.insert("not_kept".to_owned(), why.into());
        }
        answer(&value)
    }

    /// Ends the trial of a description.
    pub(super) fn end_trial(&self, undo: bool, by: &By<'_>) -> Result<String> {
        let say = |outcome: &ChangeOutcome| {
            serde_json::to_string(&TrialEnded { confirmed: !undo, revision: outcome.revision, not_kept: None })
        };
        self.change(by, &say, |asking| {
            let ended = self.controller.end_trial(undo, asking, by.may);
            if let (true, Some(after)) = (undo, self.applied.get()) {
                after();
            }
            ended
        })
    }
}

fn wrong_revision(e: anyhow::Error) -> Result<String> {
    answer(&e.downcast::<WrongRevision>()?)
}

/// A description that comes as a memory file, as its text.
pub(super) fn with_text(request: Request, fds: &[OwnedFd]) -> Result<Request> {
    let Request::ApplyFile { name, folder, dry_run, allow_empty, exact, confirm_seconds } = request else {
        return Ok(request);
    };
    let none = || anyhow!("the description comes as a memory file: pass its descriptor along");
    let text = sealed::read(fds.first().ok_or_else(none)?, MAX_DESCRIPTION_OCTETS);
    let text = String::from_utf8(text.with_context(|| name.clone())?);
    let text = text.map_err(|_| anyhow!("{name} is not UTF-8: save it as such"))?;
    Ok(Request::Apply { text, name, folder, dry_run, allow_empty, exact, confirm_seconds })
}
