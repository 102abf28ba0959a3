//! `top` on a terminal, until q, Ctrl-C or SIGTERM. A thread asks the service, so that keys are heard while it does not
//! answer; a service that ends is waited for.

use super::draw::{Frame, Palette};
use super::rates::{Told, sample};
use super::terminal::Screen;
use super::view::{View, Wish};
use super::{ask, is_no_service};
use crate::client::{goes_on, interrupted};
use crate::context::Context;
use crate::users::Users;
use anyhow::{Context as _, Result};
use control::results::top::TopSample;
use ratatui::crossterm::event::{Event, KeyEvent, KeyEventKind};
use std::cell::RefCell;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

/// How long keys are waited for before the service's answers are looked at again.
const TURN: Duration = Duration::from_millis(50);
/// A service that ended is looked for again after this time.
const AGAIN: Duration = Duration::from_millis(500);
/// An answer may come so much later than it was expected before that is said.
const PATIENCE: Duration = Duration::from_secs(2);

/// What is shown, and what it is made of.
struct Shown {
    before: Option<Told>,
    now: Told,
    view: View,
    /// The service has gone, and has not come back.
    is_gone: bool,
    /// When it answered last.
    heard: Instant,
}

/// Shows frames until somebody ends it.
pub(super) fn run(context: &Context, interval: Duration, view: View, palette: Palette, first: Told) -> Result<()> {
    let stop = interrupted()?;
    let answers = ask_again_and_again(context, interval)?;
    let mut shown = Shown { before: None, now: first, view, is_gone: false, heard: Instant::now() };
    let users = RefCell::new(Users::default());
    let names = |uid| users.borrow_mut().name(uid);
    let mut screen = Screen::enter().context("the terminal")?;
    while goes_on(&stop) {
        shown.take(&answers)?;
        let (sample, trouble) = (shown.sample(), shown.trouble(context, interval));
        let frame = Frame {
            sample: &sample,
            view: &shown.view,
            names: &names,
            palette,
            trouble: trouble.as_deref(),
            has_keys: true,
        };
        screen.show(|buffer| frame.draw(buffer))?;
        // Rows in the order that is on the screen: a key means what was seen.
        let (heads, rows) = frame.table();
        let keys: Vec<String> = rows.into_iter().map(|row| row.key).collect();
        let changed = |shown: &Shown| trouble != shown.trouble(context, interval);
        if wait(&mut shown, &answers, &keys, heads.len(), &|| goes_on(&stop), &changed)? == Wish::Quit {
            break;
        }
    }
    Ok(())
}

/// Waits for what changes the frame: a key, another size, an answer, trouble.
fn wait(
    shown: &mut Shown,
    answers: &Answers,
    keys: &[String],
    columns: usize,
    goes_on: &dyn Fn() -> bool,
    changed: &dyn Fn(&Shown) -> bool,
) -> Result<Wish> {
    while goes_on() {
        match Screen::event(TURN)? {
            Some(Event::Key(key)) if key.kind != KeyEventKind::Release => {
                return Ok(shown.handle_key(key, keys, columns));
            }
            Some(Event::Resize(..)) => return Ok(Wish::Continue),
            _ => {}
        }
        if shown.take(answers)? || changed(shown) {
            return Ok(Wish::Continue);
        }
    }
    Ok(Wish::Quit)
}

impl Shown {
    fn sample(&self) -> TopSample {
        sample(self.before.as_ref(), &self.now, self.view.follows())
    }

    fn handle_key(&mut self, key: KeyEvent, keys: &[String], columns: usize) -> Wish {
        self.view.handle_key(key, keys, columns)
    }

    /// Takes an answer if there is one; says whether there was.
    ///
    /// # Errors
    /// The service refuses to tell, or its answer is not understood.
    fn take(&mut self, answers: &Answers) -> Result<bool> {
        match answers.try_recv() {
            Ok(Ok(told)) => {
                self.heard = Instant::now();
                if std::mem::take(&mut self.is_gone) {
                    // Another engine, whose counters are its own.
                    (self.before, self.now) = (None, told);
                } else if !self.view.is_paused() {
                    self.before = Some(std::mem::replace(&mut self.now, told));
                }
                Ok(true)
            }
            Ok(Err(e)) if is_no_service(&e) => {
                self.is_gone = true;
                Ok(true)
            }
            Ok(Err(e)) => Err(e),
            Err(TryRecvError::Empty) => Ok(false),
            Err(TryRecvError::Disconnected) => anyhow::bail!("the thread that asks the service has ended"),
        }
    }

    /// What is wrong, in words.
    fn trouble(&self, context: &Context, interval: Duration) -> Option<String> {
        let silent = self.heard.elapsed();
        if self.is_gone {
            return Some(format!("the service at {} has ended: waiting for it", context.socket.display()));
        }
        (silent > interval + PATIENCE).then(|| format!("the service has not answered for {} s", silent.as_secs()))
    }
}

/// Answers of the service, or why there are none.
type Answers = Receiver<Result<Told>>;

/// Asks the service from a thread of its own, one answer ahead at most.
fn ask_again_and_again(context: &Context, interval: Duration) -> Result<Answers> {
    let (into, answers) = sync_channel(1);
    let context = context.clone();
    let asks = move || asking(&context, interval, &into);
    std::thread::Builder::new().name("asking".into()).spawn(asks)?;
    Ok(answers)
}

fn asking(context: &Context, interval: Duration, into: &SyncSender<Result<Told>>) {
    let mut pause = interval;
    loop {
        std::thread::sleep(pause);
        let answer = ask(context);
        pause = if answer.is_ok() { interval } else { AGAIN.min(interval) };
        if into.send(answer).is_err() {
            return;
        }
    }
}
