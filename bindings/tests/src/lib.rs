//! What the tests of the libraries share: the programs and libraries as cargo has built them, and a daemon.
#![forbid(unsafe_code)]

pub mod speed;

use anyhow::{Context as _, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// No wait of a test takes longer.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The root of the project.
pub fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The folder with `cellway`, `libcellway_c.a`, `lib_cellway.so` and `examples/echo`: `CELLWAY_PROGRAMS`, or that of this
/// test, where they are built, once in a process, if they are not there or older than their sources.
pub fn programs() -> Result<PathBuf> {
    static BUILT: LazyLock<Result<PathBuf, String>> = LazyLock::new(|| build().map_err(|e| format!("{e:#}")));
    BUILT.clone().map_err(anyhow::Error::msg)
}

fn build() -> Result<PathBuf> {
    if let Some(folder) = std::env::var_os("CELLWAY_PROGRAMS") {
        return Ok(folder.into());
    }
    // A test runs in target/PROFILE/deps.
    let test = std::env::current_exe()?;
    let folder = test.ancestors().nth(2).context("a test is in no folder")?;
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Build scripts look at what cargo has told this test of its package, and would be run anew.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&name);
        }
    }
    // As the workspace's tests have them: by itself, each package would have other features of its dependencies.
    let what = ["build", "--workspace", "--lib", "--test", "cli", "--example", "*echo"];
    let built = cargo.current_dir(root()).args(what).args(["--quiet", "--locked", "--profile", profile]).status()?;
    ensure!(built.success(), "the programs do not build");
    Ok(folder.to_path_buf())
}

/// A process that ends with the test.
#[derive(Debug)]
pub struct Process(pub Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A daemon with the network of `examples/two-hosts.toml`.
#[derive(Debug)]
pub struct Daemon {
    folder: tempfile::TempDir,
    _process: Process,
}

impl Daemon {
    /// Starts one, and waits until it answers.
    ///
    /// # Errors
    /// It does not.
    pub fn start() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut command = Command::new(programs()?.join("cellway"));
        command.arg("--socket").arg(folder.path().join("socket")).arg("up").arg(root().join("examples/two-hosts.toml"));
        let process = Process(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
        let daemon = Daemon { folder, _process: process };
        until("the service answers", || Ok(daemon.cellway(&["status"])?.status.success()))?;
        Ok(daemon)
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// A folder for what a test leaves.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A command of `cellway`, to its end.
    ///
    /// # Errors
    /// It cannot be run.
    pub fn cellway(&self, words: &[&str]) -> Result<Output> {
        let mut command = Command::new(programs()?.join("cellway"));
        Ok(command.env("CELLWAY_SOCKET", self.socket()).args(words).stdin(Stdio::null()).output()?)
    }

    /// Starts an echo at `beta`, and checks that what is sent from `alpha` comes back: an SDU that travels in its
    /// descriptor, and one that does not.
    ///
    /// # Errors
    /// It does not start, or does not echo.
    pub fn echoes(&self, echo: &mut Command) -> Result<()> {
        let mut echo = Process(echo.env("CELLWAY_SOCKET", self.socket()).args(["beta", "0.100"]).spawn()?);
        let is_open = || {
            ensure!(echo.0.try_wait()?.is_none(), "the echo has ended");
            let text = String::from_utf8(self.cellway(&["status", "--json"])?.stdout)?;
            Ok(text.split_whitespace().collect::<String>().contains("\"channels\":1"))
        };
        until("the echo has the circuit", is_open)?;
        exchange(&self.socket(), &[b"short".to_vec(), vec![7; 5000]])
    }
}

/// Sends each SDU from `alpha` and receives it again.
fn exchange(socket: &Path, sdus: &[Vec<u8>]) -> Result<()> {
    let config = endpoint::EndpointConfig { host: "alpha".into(), ..endpoint::EndpointConfig::default() };
    let mut alpha = endpoint::Service::connect(socket)?.endpoint(&config)?;
    let channel = alpha.open("0.100".parse()?, endpoint::OpenOptions::default())?;
    for sdu in sdus {
        alpha.send_copy(channel, sdu)?;
        let back = alpha.receive(Some(PATIENCE))?.context("nothing came back")?;
        ensure!(back[..] == sdu[..], "{} octets came back of {}", back.len(), sdu.len());
    }
    Ok(())
}

/// Waits for a condition.
///
/// # Errors
/// It does not come, or cannot be looked at.
pub fn until(what: &str, mut is: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !is()? {
        ensure!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Runs a command, and gives its output.
///
/// # Errors
/// It fails: what it has said.
pub fn run(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("{command:?}"))?;
    let said = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    let errors = said(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}\n{}{errors}", output.status, said(&output.stdout));
    Ok(said(&output.stdout))
}

/// The C library, installed in a folder.
///
/// # Errors
/// It cannot be linked.
pub fn c_library(folder: &Path) -> Result<()> {
    let archive = programs()?.join("libcellway_c.a");
    run(Command::new(root().join("bindings/c/build-library")).arg(archive).arg(folder)).map(drop)
}

/// Compiles a C program of `bindings/c` against the installed library, without a warning.
///
/// # Errors
/// It does not compile.
pub fn c_program(installed: &Path, source: &str, options: &[&str]) -> Result<PathBuf> {
    let name = Path::new(source).file_stem().context("a source has a name")?;
    let out = installed.join(name);
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-D_GNU_SOURCE", "-pthread", "-Wall", "-Wextra", "-Werror"]).args(options).arg("-I");
    cc.arg(installed.join("include")).arg(root().join("bindings/c").join(source)).arg("-o").arg(&out);
    run(cc.arg("-L").arg(installed.join("lib")).arg("-lcellway"))?;
    Ok(out)
}

/// A command with the installed library where the loader finds it.
pub fn with_library(installed: &Path, program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", installed.join("lib"));
    command
}

/// A folder from which Python imports `cellway`: the sources, and the module as cargo has built it.
///
/// # Errors
/// It cannot be made.
pub fn python_package(folder: &Path) -> Result<()> {
    let package = folder.join("cellway");
    std::fs::create_dir_all(&package)?;
    for entry in std::fs::read_dir(root().join("bindings/python/cellway"))? {
        let path = entry?.path();
        if path.is_file() {
            std::fs::copy(&path, package.join(path.file_name().unwrap_or_default()))?;
        }
    }
    std::fs::copy(programs()?.join("lib_cellway.so"), package.join("_cellway.abi3.so"))?;
    Ok(())
}

/// Whether there is a Python that the module is for; else says that the test is skipped.
pub fn has_python() -> bool {
    let program = "import sys; sys.exit(sys.version_info < (3, 11))";
    let has = Command::new("python3").args(["-c", program]).status().is_ok_and(|status| status.success());
    if !has {
        println!("skipped: python3 of version 3.11 or later is not installed (apt install python3)");
    }
    has
}
