//! The program under test: `cellway`, of the same profile as the test that runs it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// The path of `cellway`, beside which is the library that `cellway run` preloads; built, once in a process, if it is not there or
/// older than its sources.
pub fn cellway() -> anyhow::Result<PathBuf> {
    static BUILT: LazyLock<Result<PathBuf, String>> =
        LazyLock::new(|| build("cellway", "cli").map_err(|e| format!("{e:#}")));
    BUILT.clone().map_err(anyhow::Error::msg)
}

/// The path of `cellway-lab`, built as `cellway` is.
pub fn cellway_lab() -> anyhow::Result<PathBuf> {
    static BUILT: LazyLock<Result<PathBuf, String>> =
        LazyLock::new(|| build("cellway-lab", "laboratory").map_err(|e| format!("{e:#}")));
    BUILT.clone().map_err(anyhow::Error::msg)
}

/// Builds a program and the preloaded library as the workspace's tests have them. Built by itself, each package would have other
/// features of its dependencies, and all of those would be built once more. `tests` are those of the program's package.
fn build(name: &str, tests: &str) -> anyhow::Result<PathBuf> {
    // A test runs in target/PROFILE/deps.
    let test = std::env::current_exe()?;
    let folder = test.ancestors().nth(2).ok_or_else(|| anyhow::anyhow!("{} has no folder", test.display()))?;
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let what = ["build", "--workspace", "--lib", "--test", tests];
    let built = cargo().args(what).args(["--quiet", "--locked", "--profile", profile]).status()?;
    anyhow::ensure!(built.success(), "{name} does not build");
    Ok(folder.join(name))
}

/// Cargo, at the root of the project.
fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // What cargo has told this test of its package: build scripts look at it, and all that needs them would be built anew.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&name);
        }
    }
    cargo.current_dir(root());
    cargo
}

/// The root of the project.
pub fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Compiles a C program of `tests/interop` so that it needs no library, for a guest; gives its octets.
pub fn for_guest(source: &str) -> anyhow::Result<Vec<u8>> {
    let out = tempfile::NamedTempFile::new()?.into_temp_path();
    compile(source, &out, &["-static"])?;
    Ok(std::fs::read(&out)?)
}

/// Compiles a C program of `tests/interop`, with these options besides. Without warnings: some pass nonsense, and mean it.
pub fn compile(source: &str, out: &Path, options: &[&str]) -> anyhow::Result<()> {
    let source = root().join("tests/interop").join(source);
    let compiled = Command::new("cc").args(["-O1", "-w", "-o"]).arg(out).arg(&source).args(options).output()?;
    let errors = String::from_utf8_lossy(&compiled.stderr);
    anyhow::ensure!(compiled.status.success(), "{} does not compile:\n{errors}", source.display());
    Ok(())
}

/// Runs a script of `tests/interop` that prepares a peer, or finds it prepared, and gives what it says.
pub fn prepared(script: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(root().join("tests/interop").join(script)).args(arguments).output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "tests/interop/{script} failed:\n{errors}");
    Ok(String::from_utf8(output.stdout)?)
}

/// The same for a script that names two files or folders, a line each.
pub fn prepare(script: &str, arguments: &[&str]) -> anyhow::Result<(String, String)> {
    let text = prepared(script, arguments)?;
    let (one, two) = text.trim().split_once('\n').ok_or_else(|| anyhow::anyhow!("{script} said {text:?}"))?;
    Ok((one.to_owned(), two.to_owned()))
}
