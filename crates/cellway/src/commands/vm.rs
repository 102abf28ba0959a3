//! `cellway vm`: the QEMU command for a guest with one of the description's virtual adapters.

use crate::context::Context;
use crate::kinds::kinds;
use crate::output;
use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use control::config::{self, Shell};
use control::results::Guest;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Prints the QEMU command for a guest with an adapter attached, or runs it.
///
/// The network must be up (`cellway up FILE`) when the guest starts. It needs QEMU 10.1 or later, and a guest kernel
/// that still has the adapter's driver (`eni`: up to 7.0).
#[derive(Debug, Args)]
pub(crate) struct Vm {
    /// The description
    file: PathBuf,
    /// The adapter's name in it
    adapter: String,
    /// The guest's kernel
    #[arg(long)]
    kernel: PathBuf,
    /// The guest's initramfs
    #[arg(long)]
    initramfs: PathBuf,
    /// The kernel's command line
    #[arg(long, default_value = "console=ttyS0 panic=-1 no_timer_check")]
    append: String,
    /// The guest's memory in MiB
    #[arg(long, default_value_t = 256)]
    memory: u32,
    /// tcg, or kvm if available
    #[arg(long, default_value = "tcg")]
    accel: String,
    /// The QEMU program
    #[arg(long, default_value = "qemu-system-x86_64")]
    qemu: PathBuf,
    /// Run the command instead of printing it
    #[arg(long)]
    run: bool,
}

impl Vm {
    fn arguments(&self, socket: &Path) -> Vec<String> {
        let Vm { memory, accel, append, .. } = self;
        let device = serde_json::json!({ "driver": "vfio-user-pci", "socket": { "type": "unix", "path": socket } });
        let text = |path: &Path| path.display().to_string();
        [
            "-accel",
            accel,
            "-m",
            &memory.to_string(),
            // The adapter reaches the guest's memory by the file that it is in.
            "-object",
            &format!("memory-backend-memfd,id=memory,size={memory}M,share=on"),
            "-machine",
            "pc,memory-backend=memory",
            "-nodefaults",
            "-no-reboot",
            "-nographic",
            "-serial",
            "stdio",
            "-nic",
            "none",
            "-kernel",
            &text(&self.kernel),
            "-initrd",
            &text(&self.initramfs),
            "-append",
            append,
            "-device",
            &device.to_string(),
        ]
        .map(str::to_owned)
        .into()
    }
}

/// A word as a shell reads it back.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./,=:+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.into() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// `cellway vm`
pub(crate) fn run(context: &Context, vm: &Vm) -> Result<()> {
    let config = config::load(&kinds(), &vm.file)?;
    let adapters = || {
        config.shells.values().filter_map(|shell| match shell {
            Shell::Adapter(served) => Some(served),
            _ => None,
        })
    };
    let served = adapters().find(|served| served.name == vm.adapter).ok_or_else(|| {
        let names: Vec<&str> = adapters().map(|served| served.name.as_str()).collect();
        anyhow!("{} has no adapter `{}`; it has: {}", vm.file.display(), vm.adapter, names.join(", "))
    })?;
    let arguments = vm.arguments(&served.socket);
    if vm.run {
        if !crate::commands::doctor::attaches_adapters(&vm.qemu) {
            return Err(anyhow!(
                "{} cannot attach an adapter: it is not there, or older than QEMU 10.1; --qemu names another one \
                 (Debian's trixie-backports has it; tests/interop/prepare-qemu fetches it)",
                vm.qemu.display()
            ));
        }
        // Comes back only if there is no such program.
        return Err(Command::new(&vm.qemu).args(arguments).exec()).with_context(|| vm.qemu.display().to_string());
    }
    let words: Vec<String> = std::iter::once(vm.qemu.display().to_string()).chain(arguments).collect();
    let (adapter, socket) = (served.name.clone(), served.socket.clone());
    let guest = Guest { adapter, socket, command: words };
    output::print(context, &guest, || guest.command.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_back_what_was_quoted() {
        for word in ["plain", "", "two words", "{\"a\":1}", "it's", "$HOME `x` \\"] {
            let out = Command::new("sh").args(["-c", &format!("printf %s {}", quoted(word))]).output().unwrap();
            assert_eq!(String::from_utf8(out.stdout).unwrap(), word);
        }
    }
}
