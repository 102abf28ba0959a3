//! `cellway run`: a program that was written for Linux's ATM sockets, with a library preloaded that serves them.

use crate::client::ask_for;
use crate::context::Context;
use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use control::protocol::Request;
use control::status::Status;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The library's file.
const LIBRARY: &str = "libcellway_compat.so";
/// Where it may be instead of beside the program.
const LIBRARY_VARIABLE: &str = "CELLWAY_COMPAT";
/// Interpreters of interpreters: the kernel follows as many.
const MAX_INTERPRETERS: usize = 4;

/// Runs a program written for Linux's ATM sockets: `cellway run --host alpha -- aread 0.0.100`. Its AF_ATMPVC sockets
/// are circuits of a host of the running network, and its /proc/net/atm shows them. Nothing else changes for the
/// program.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The host for interface 0; repeat it for interfaces 1, 2, ... [default: all hosts in the order of their names]
    #[arg(long = "host", value_name = "HOST")]
    hosts: Vec<String>,
    /// The command
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// `cellway run`
pub(crate) fn run(context: &Context, run: &Run) -> Result<()> {
    let [command, arguments @ ..] = run.command.as_slice() else { bail!("no command") };
    let library = library()?;
    let program = find(command)?;
    check(&program)?;
    let status: Status = ask_for(context, &Request::Overview)?;
    let known: Vec<&String> = status.hosts.keys().collect();
    let hosts: Vec<&String> = if run.hosts.is_empty() { known.clone() } else { run.hosts.iter().collect() };
    if let Some(unknown) = hosts.iter().find(|host| !known.contains(host)) {
        let names = known.iter().map(|n| n.as_str()).collect::<Vec<_>>().join(", ");
        bail!("no host `{unknown}` in this network, which has {names}");
    }
    let hosts = hosts.iter().map(|h| h.as_str()).collect::<Vec<_>>().join(",");
    let mut preload = library.into_os_string();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|o| !o.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    let socket = std::path::absolute(&context.socket)?;
    let failed = Command::new(&program)
        .arg0(command)
        .args(arguments)
        .env("LD_PRELOAD", preload)
        .env("CELLWAY_SOCKET", socket)
        .env("CELLWAY_ITF", hosts)
        .exec();
    Err(anyhow!(failed).context(format!("running {}", program.display())))
}

/// The library: beside this program, or in the `lib` folder beside the program's.
pub fn library() -> Result<PathBuf> {
    let wanted = std::env::var_os(LIBRARY_VARIABLE).map(PathBuf::from);
    let own = std::env::current_exe().and_then(|p| p.canonicalize()).context("finding this program's folder")?;
    let folder = own.parent().unwrap_or(Path::new("/"));
    let places: Vec<PathBuf> = match wanted {
        Some(path) => vec![path],
        None => ["", "../lib", "../lib/cellway"].iter().map(|place| folder.join(place).join(LIBRARY)).collect(),
    };
    if let Some(found) = places.iter().find(|place| place.is_file()) {
        let found = found.canonicalize()?;
        // The loader takes these for separators.
        if found.to_string_lossy().contains([' ', ':']) {
            bail!("{} has a blank or a colon in its path: LD_PRELOAD cannot name it", found.display());
        }
        return Ok(found);
    }
    let places = places.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", ");
    bail!(
        "{LIBRARY} is missing: looked for {places} (make build, or cargo build --release -p cellway-compat, makes it; \
         {LIBRARY_VARIABLE} says where else it is)"
    )
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// As `execvp` finds it.
fn find(command: &OsStr) -> Result<PathBuf> {
    let name = Path::new(command);
    if command.as_encoded_bytes().contains(&b'/') {
        return if is_program(name) { Ok(name.to_owned()) } else { Err(anyhow!("{} is no program", name.display())) };
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| is_program(path));
    found.ok_or_else(|| {
        let package = ["aread", "awrite", "ttcp_atm", "atmdump", "atmdiag", "atmaddr"].iter().any(|t| *t == command);
        let cure = if package { " (Debian package atm-tools)" } else { "" };
        anyhow!("no program `{}` on the PATH{cure}", name.display())
    })
}

/// Whether the library will be loaded into a program.
fn check(program: &Path) -> Result<()> {
    let mut path = program.to_owned();
    for _ in 0..MAX_INTERPRETERS {
        let metadata = path.metadata().with_context(|| format!("{}", path.display()))?;
        let raised = (metadata.mode() & 0o4000 != 0 && metadata.uid() != rustix::process::getuid().as_raw())
            || (metadata.mode() & 0o2000 != 0 && metadata.gid() != rustix::process::getgid().as_raw());
        if raised {
            bail!(
                "{} runs with another user's rights (setuid): nothing is preloaded into such programs. Run it as that user",
                path.display()
            );
        }
        let mut head = Vec::new();
        // A program that may be run and not read is left to the kernel.
        let Ok(file) = File::open(&path) else { return Ok(()) };
        file.take(4096).read_to_end(&mut head).with_context(|| format!("reading {}", path.display()))?;
        match kind(&head) {
            Kind::Dynamic | Kind::Unknown => return Ok(()),
            Kind::Static => bail!(
                "{} is linked statically: it makes its system calls itself, and its ATM sockets cannot be served. \
                 Link it dynamically, or give it a Linux guest with kernel ATM (docs/interop.md)",
                path.display()
            ),
            Kind::OtherMachine => bail!(
                "{} is a program for another machine than this one (32 bits?): the library cannot be loaded into it",
                path.display()
            ),
            Kind::Script(interpreter) => path = interpreter,
        }
    }
    Ok(())
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Dynamic,
    Static,
    OtherMachine,
    Script(PathBuf),
    Unknown,
}

/// What a file's first octets say (ELF-64, `#!`).
fn kind(head: &[u8]) -> Kind {
    use std::os::unix::ffi::OsStrExt;
    const PROGRAM_INTERPRETER: u32 = 3;
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|b| *b == b'\n').next().unwrap_or_default().trim_ascii();
        let interpreter = line.split(|b| b.is_ascii_whitespace()).next().unwrap_or_default();
        return Kind::Script(OsStr::from_bytes(interpreter).into());
    }
    if !head.starts_with(b"\x7fELF") {
        return Kind::Unknown;
    }
    let own: u16 = if cfg!(target_arch = "x86_64") { 62 } else { 183 };
    let little = head.get(5) == Some(&1);
    let half = |at: usize| {
        let octets = head.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default();
        if little { u16::from_le_bytes(octets) } else { u16::from_be_bytes(octets) }
    };
    if head.get(4) != Some(&2) || half(18) != own {
        return Kind::OtherMachine;
    }
    let word = |at: usize| head.get(at..).and_then(<[u8]>::first_chunk).copied().map(u32::from_ne_bytes);
    let offset = head.get(32..).and_then(<[u8]>::first_chunk).copied().map_or(0, u64::from_ne_bytes);
    let headers = (0..usize::from(half(56))).map_while(|i| {
        let at = usize::try_from(offset).ok()?.checked_add(i * usize::from(half(54)))?;
        word(at)
    });
    // Without an interpreter (the loader) in its program headers, nobody would preload anything.
    if headers.into_iter().any(|kind| kind == PROGRAM_INTERPRETER) { Kind::Dynamic } else { Kind::Static }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_test_program_is_dynamic_and_a_script_names_its_interpreter() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(kind(&own[..4096]), Kind::Dynamic);
        let mut without = own[..4096].to_vec();
        without[56..58].copy_from_slice(&[0, 0]);
        assert_eq!(kind(&without), Kind::Static);
        without[4] = 1;
        assert_eq!(kind(&without), Kind::OtherMachine);
        assert_eq!(kind(b"#! /bin/sh -e\nexit"), Kind::Script("/bin/sh".into()));
        assert_eq!(kind(b""), Kind::Unknown);
    }

    proptest! {
        #[test]
        fn any_file_is_of_some_kind(mut head in proptest::collection::vec(any::<u8>(), 0..200), elf: bool) {
            if elf && head.len() > 20 {
                head[..6].copy_from_slice(b"\x7fELF\x02\x01");
                head[18..20].copy_from_slice(&62u16.to_le_bytes());
            }
            kind(&head);
        }
    }
}
