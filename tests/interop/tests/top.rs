//! `cellway top` on a terminal of 80 by 24 that tmux plays: rates appear, keys are heard, and the terminal is as it was
//! whatever ends the command.

use interop::up::Up;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

const WAIT: Duration = Duration::from_secs(90);
const NETWORK: &str = "[host.alpha]\n[host.beta]\n[switch.s]\n[[link]]\nends = [\"alpha\", \"s:0\"]\nrate = \"OC-3c\"\n\
                       [[link]]\nends = [\"beta\", \"s:1\"]\n[[circuit]]\nends = [\"alpha 0.100\", \"beta 0.100\"]\n";

/// A terminal with a shell in it; its server ends with this.
struct Terminal {
    socket: PathBuf,
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

impl Terminal {
    fn new(up: &Up) -> Self {
        let terminal = Terminal { socket: up.path("tmux") };
        let shell = "env PS1='$ ' TERM=screen sh";
        terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", shell]);
        terminal
    }

    fn tmux(&self, words: &[&str]) -> String {
        let output = Command::new("tmux").arg("-S").arg(&self.socket).args(words).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn type_line(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        self.tmux(&["send-keys", "Enter"]);
    }

    fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    /// What is on the screen once it is as it should be.
    fn wait_for(&self, what: &str, is: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + WAIT;
        loop {
            let screen = self.tmux(&["capture-pane", "-p"]);
            if is(&screen) {
                return screen;
            }
            assert!(Instant::now() < end, "not in time: {what}\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The command has ended with this status: the screen before it is back, and what is typed is seen.
    fn is_restored(&self, status: i32) {
        let ended = format!("ended {status}");
        let screen = self.wait_for("the shell goes on", |screen| screen.lines().any(|line| line == ended));
        assert!(screen.contains("before") && !screen.contains("cellway top  up"), "{screen}");
        assert_eq!(self.tmux(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"]).trim(), "0 1");
        self.type_line("stty -a | tr ';' ' ' | tr ' ' '\\n' | grep -cxE 'icanon|echo|isig|opost'");
        self.wait_for("the modes are as they were", |screen| screen.lines().any(|line| line == "4"));
        self.type_line("clear");
        self.wait_for("a clear screen", |screen| !screen.contains("ended"));
    }

    fn start_top(&self, up: &Up) {
        let program = interop::program::cellway().unwrap();
        let (program, socket) = (program.display(), up.path("socket"));
        self.type_line("echo before");
        self.type_line(&format!("{program} --socket {} top --interval 100ms; echo ended $?", socket.display()));
        self.wait_for("top is there", |screen| screen.starts_with("cellway top  up"));
    }
}

/// The figure of a column in the line that begins with a name.
fn figure(screen: &str, name: &str, column: usize) -> Option<String> {
    let line = screen.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().nth(column).map(str::to_owned)
}

#[test]
fn top_shows_the_rate_on_a_terminal_hears_keys_outlives_the_service_and_leaves_the_terminal_as_it_was() {
    if !interop::have(&[("tmux", "tmux")]) {
        return;
    }
    let mut up = Up::new(NETWORK);
    let terminal = Terminal::new(&up);
    {
        let _receiving = up.start_command("receive beta 0.100 /dev/null");
        up.wait_for_endpoints(1, WAIT);
        let _sending = up.start_command("send alpha 0.100 /dev/zero");
        terminal.start_top(&up);
        let screen = terminal.wait_for("a rate of the link", |screen| {
            figure(screen, "alpha:0 - s:0", 0).is_some_and(|rate| rate != "0")
        });
        assert_eq!(screen.lines().count(), 24, "{screen}");
        terminal.press("2");
        terminal.wait_for("a rate of the circuit", |screen| {
            figure(screen, "alpha 0.100 - beta 0.100", 0).is_some_and(|rate| rate != "0")
        });
        terminal.press("4");
        terminal.wait_for("the programs of both ends", |screen| screen.matches(" cellway[").count() == 2);
        terminal.press("2");
        terminal.wait_for("circuits", |screen| screen.contains("alpha 0.100 - beta 0.100"));
        terminal.press("Enter");
        terminal.wait_for("its hops", |screen| screen.contains("switch s") && screen.contains("link alpha:0 - s:0"));
        terminal.press("q");
        terminal.is_restored(0);
    }
    // The service dies, and comes back.
    terminal.start_top(&up);
    up.kill();
    terminal.wait_for("the service's end is told", |screen| screen.contains("has ended: waiting for it"));
    let mut again = up.start_command("up net.toml");
    again.wait_for("up: ", WAIT).unwrap();
    terminal.wait_for("its return", |screen| !screen.contains("waiting for it") && screen.contains("alpha:0 - s:0"));
    terminal.press("C-c");
    terminal.is_restored(0);
    // A signal from elsewhere.
    terminal.start_top(&up);
    let pane = terminal.tmux(&["display-message", "-p", "#{pane_pid}"]);
    let killed = Command::new("pkill").args(["-TERM", "-P", pane.trim()]).status().unwrap();
    assert!(killed.success());
    terminal.is_restored(0);
}
