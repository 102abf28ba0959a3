//! The terminal of `top`: raw mode and the alternate screen, which are given back however the command ends: in order, by
//! an error, by a panic of any thread.

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::crossterm::{event, execute};
use std::io::{self, Stdout};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Whether the terminal is ours now.
static ENTERED: AtomicBool = AtomicBool::new(false);

/// The terminal, until this is dropped.
pub(crate) struct Screen(Terminal<CrosstermBackend<Stdout>>);

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// It is none, or it has gone.
    pub(crate) fn enter() -> io::Result<Self> {
        leave_at_panic();
        ENTERED.store(true, Ordering::SeqCst);
        let entered = enable_raw_mode().and_then(|()| execute!(io::stdout(), EnterAlternateScreen, Hide));
        match entered.and_then(|()| Terminal::new(CrosstermBackend::new(io::stdout()))) {
            Ok(terminal) => Ok(Screen(terminal)),
            Err(e) => {
                leave();
                Err(e)
            }
        }
    }

    /// Shows what `draw` puts onto a buffer of the terminal's size.
    ///
    /// # Errors
    /// The terminal has gone.
    pub(crate) fn show(&mut self, draw: impl FnOnce(&mut Buffer)) -> io::Result<()> {
        self.0.draw(|frame| draw(frame.buffer_mut())).map(drop)
    }

    /// The next key or change of size; `None` if none comes within `limit`.
    ///
    /// # Errors
    /// The terminal has gone.
    pub(crate) fn event(limit: Duration) -> io::Result<Option<event::Event>> {
        if event::poll(limit)? { event::read().map(Some) } else { Ok(None) }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

/// Gives the terminal back, once. A terminal that has gone takes nothing: there is nobody to tell.
fn leave() {
    if ENTERED.swap(false, Ordering::SeqCst) {
        let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}

/// What a panic says is to be read on the screen that was there before.
fn leave_at_panic() {
    static HOOKED: Once = Once::new();
    HOOKED.call_once(|| {
        let says = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            leave();
            says(panic);
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    /// Of the alternate screen: on, and off.
    const SCREEN: [&str; 2] = ["\x1b[?1049h", "\x1b[?1049l"];
    const WORDS: &str = "a panic with the terminal taken";

    /// Run by the test below, on a terminal of its own.
    #[test]
    #[ignore = "it panics: the test below runs it"]
    fn panics_with_the_terminal_taken() {
        let _screen = Screen::enter().unwrap();
        panic!("{WORDS}");
    }

    #[test]
    fn a_panic_gives_the_terminal_back_and_is_read_on_the_screen_before() {
        // `script` (util-linux) gives its command a terminal.
        let program = std::env::current_exe().unwrap();
        let test = "commands::top::terminal::tests::panics_with_the_terminal_taken";
        let line = format!("{} --ignored --exact {test} --nocapture; stty -a", program.display());
        let script = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output();
        let Ok(output) = script else { return assert!(std::env::var_os("CI").is_none(), "script is not there") };
        let said = String::from_utf8_lossy(&output.stdout);
        let at = |what: &str| said.find(what).unwrap_or_else(|| panic!("no {what:?} in {said:?}"));
        let [on, off, words] = [at(SCREEN[0]), at(SCREEN[1]), at(WORDS)];
        assert!(on < off && off < words, "{said:?}");
        let modes = &said[words..];
        let has = |mode: &str| modes.split_whitespace().any(|word| word.trim_end_matches(';') == mode);
        assert!(has("icanon") && has("echo") && has("isig"), "{modes:?}");
    }
}
