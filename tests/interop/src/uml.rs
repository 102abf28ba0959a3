//! User-mode Linux: a kernel with its own ATM stack as a process of this machine, without a virtual machine's cost. What
//! somebody would use today to keep ATM alive, and so what speeds are compared with.

use crate::{initramfs, program};
use std::io::Write as _;
use std::process::Command;

/// Runs `script` under user-mode Linux, with atm-tools and `files` (name, content) in `/test`; gives its console.
pub fn run(script: &str, files: &[(&str, &[u8])]) -> anyhow::Result<Vec<String>> {
    let (kernel, modules) = program::prepare("prepare-uml", &[])?;
    // The programs are the guest's; its modules are for another kernel.
    let (_, base) = program::prepare("prepare-guest", &[])?;
    let module = |name: &str| std::fs::read(format!("{modules}/{name}.ko"));
    let (atm, atmtcp) = (module("atm")?, module("atmtcp")?);
    let names: Vec<String> = files.iter().map(|(name, _)| format!("test/{name}")).collect();
    let mut all: Vec<(&str, &[u8])> = vec![
        ("lib/modules/order", b"atm\natmtcp\n"),
        ("lib/modules/atm.ko", &atm),
        ("lib/modules/atmtcp.ko", &atmtcp),
        ("test/script", script.as_bytes()),
    ];
    all.extend(names.iter().map(String::as_str).zip(files.iter().map(|(_, content)| *content)));
    let mut image = tempfile::NamedTempFile::new()?;
    // What comes later replaces what came before; an archive begins at a multiple of four octets.
    let mut octets = std::fs::read(base)?;
    octets.resize(octets.len().next_multiple_of(512), 0);
    image.write_all(&octets)?;
    image.write_all(&initramfs::archive(&all))?;
    image.flush()?;
    let output = Command::new(kernel)
        .args(["mem=512M", "con=null", "con0=fd:0,fd:1", "rdinit=/init", "quiet"])
        .arg(format!("initrd={}", image.path().display()))
        .stdin(std::process::Stdio::null())
        .output()?;
    let console: Vec<String> =
        String::from_utf8_lossy(&output.stdout).lines().map(|line| line.trim_end().to_owned()).collect();
    anyhow::ensure!(console.iter().any(|line| line == "guest: end 0"), "the script failed:\n{}", console.join("\n"));
    Ok(console)
}

/// Whether a script failed because user-mode Linux does not know the processor: Debian's dies where the state of the
/// floating-point unit is larger than it expects (AMX).
pub fn cannot_run_here(error: &anyhow::Error) -> bool {
    error.to_string().contains("ptrace set fp regs failed")
}
