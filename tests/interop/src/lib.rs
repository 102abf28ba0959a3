//! What the interop tests share: peers as child processes that never outlive their test, and a Linux guest that still
//! has the kernel's ATM stack.
//!
//! A peer that is not installed makes a test say so and pass over; with `CI=true` it fails instead. `make test`
//! installs the peers first and counts what was passed over.
#![forbid(unsafe_code)]

pub mod callers;
pub mod eni;
pub mod frames;
pub mod guest;
pub mod initramfs;
pub mod lan;
pub mod line;
pub mod namespace;
pub mod peer;
pub mod program;
pub mod signalled;
pub mod signalling;
pub mod tshark;
pub mod uml;
pub mod up;

use std::io::Write as _;
use std::path::PathBuf;

/// Looks for programs on the `PATH` and in the folders of system administration.
///
/// Returns false, having said why on standard error, if one is missing; panics instead where `CI=true`.
pub fn have(programs: &[(&str, &str)]) -> bool {
    for (program, package) in programs {
        if find(program).is_none() {
            let reason = format!("{program} is not installed (Debian package {package})");
            return skip(&reason);
        }
    }
    true
}

/// Says that a test is passed over, on a line that `make test` counts. Panics where `CI=true`. Always false.
pub fn skip(reason: &str) -> bool {
    assert!(std::env::var("CI").as_deref() != Ok("true"), "CI=true, and {reason}");
    let test = std::thread::current().name().unwrap_or("?").to_owned();
    // Not eprintln!: the test harness would keep that to itself.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
    false
}

/// A program's path.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

/// SHA-256 in hexadecimal digits, by the system's `sha256sum`.
pub fn sha256(octets: &[u8]) -> String {
    let sum = || -> std::io::Result<String> {
        let mut child = std::process::Command::new("sha256sum")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()?;
        if let Some(mut input) = child.stdin.take() {
            input.write_all(octets)?;
        }
        let output = child.wait_with_output()?;
        Ok(String::from_utf8_lossy(&output.stdout).split(' ').next().unwrap_or_default().to_owned())
    };
    sum().unwrap_or_else(|e| format!("no sha256sum: {e}"))
}

/// `n` octets that look random and are the same each time: a failure can be repeated and compared.
pub fn pattern(n: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_u32;
    std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 24) as u8
    })
    .take(n)
    .collect()
}
