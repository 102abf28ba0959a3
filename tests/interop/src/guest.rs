//! A Linux guest under QEMU, with the kernel's ATM stack and atm-tools, that runs one script and powers off.
//!
//! In the script, `emit FILE` sends a file to the test by way of the console, `again COMMAND` runs one until it succeeds,
//! `interfaces N` waits until so many ATM over TCP interfaces are there, `opened VCI...` until these circuits are open, and
//! `/test/pings COUNT ADDRESS OCTETS` says how many pings were answered, `step NAME COMMAND` runs a command up to three times, as
//! [`tried`] says. The host's loopback is 10.0.2.2.
//! `aread` reads on until it is killed, and prints at once only to the console: give it no file.

use crate::peer::Peer;
use crate::{initramfs, program};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command};
use std::time::Duration;

/// Time for a boot, a script and a shutdown on a slow and busy machine without hardware virtualisation.
pub const PATIENCE: Duration = Duration::from_secs(400);

const PRELUDE: &str = r#"
emit() { echo "guest: file $1"; base64 "$1"; echo "guest: file end"; }
say() { echo "guest: $*"; }
opened() { for vci; do until grep -q " $vci PVC" /proc/net/atm/vc; do sleep 0.1; done; done; }
interfaces() { until [ "$(grep -c atmtcp /proc/net/atm/devices)" -ge $1 ]; do sleep 0.1; done; }
step() {
    name=$1; shift
    for attempt in 1 2 3; do
        say begins $name $attempt
        "$@"
        say ended $name $attempt
        read verdict
        [ "$verdict" = good ] && return
        say $name failed, attempt $attempt
    done
    return 1
}
again() { for n in $(seq 240); do "$@" && return; sleep 0.5; done; return 1; }
# On a busy machine the network card comes up late, or not at all (seen: nothing in 140 s): who connects before has no route.
if [ -e /sys/class/net/eth0 ]; then
    for n in $(seq 60); do
        ping -c 1 -W 1 10.0.2.2 > /dev/null 2>&1 && break
        [ $((n % 10)) = 0 ] || continue
        say the network card is down, and is set up again
        ip link set eth0 down
        ip link set eth0 up
        ip route add default via 10.0.2.2
    done
fi
"#;

/// One after the other: after the last of several requests busybox's ping waits a second, or two round trips, and calls a
/// slow answer a loss. After the only one it waits as long as it is told. A guest's kernel loses a request of its own or an
/// answer now and then (seen: all cells delivered and counted, no answer in a minute), so each is asked up to three times,
/// and the console says when.
const PINGS: &str = r#"#!/bin/sh
answered=0
for n in $(seq $1); do
    for attempt in 1 2 3; do
        ping -c 1 -W 20 -s $3 $2 > /dev/null && answered=$((answered + 1)) && break
        echo "guest: ping $n of $1 to $2, attempt $attempt: no answer" > /dev/console
    done
done
echo "$answered of $1 answered"
"#;

/// How a guest reaches others.
#[derive(Debug, Clone, Copy)]
pub enum Machine<'a> {
    /// By a network card; the host's loopback is 10.0.2.2.
    Network,
    /// By an ATM adapter that is served at this socket. This takes a newer QEMU, which is fetched if need be.
    Adapter(&'a Path),
    /// The same, and the guest may reboot: that is not the end.
    Rebooting(&'a Path),
    /// By several of these, in this order.
    Adapters(&'a [PathBuf]),
}

impl Machine<'_> {
    fn command(self) -> anyhow::Result<Command> {
        let sockets: Vec<&Path> = match self {
            Machine::Network => {
                let mut qemu = Command::new("qemu-system-x86_64");
                qemu.args(["-nic", "user,model=e1000"]);
                return Ok(qemu);
            }
            Machine::Adapter(socket) | Machine::Rebooting(socket) => vec![socket],
            Machine::Adapters(sockets) => sockets.iter().map(PathBuf::as_path).collect(),
        };
        let words = program::prepared("prepare-qemu", &[])?;
        let mut words = words.lines();
        let mut qemu = Command::new(words.next().unwrap_or_default());
        qemu.args(words)
            .args(["-nodefaults", "-vga", "none", "-nic", "none", "-machine", "pc,memory-backend=memory"])
            .args(["-object", "memory-backend-memfd,id=memory,size=256M,share=on"]);
        for socket in sockets {
            let device = serde_json::json!({ "driver": "vfio-user-pci", "socket": { "type": "unix", "path": socket } });
            qemu.args(["-device", &device.to_string()]);
        }
        Ok(qemu)
    }
}

/// Which Linux a guest runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// Debian 11's 5.10.223: the last whose ATM over TCP works.
    Linux5_10,
    /// Debian 12's newest 6.1, for adapters; its ATM over TCP does not work, and it refuses what `atmsigd` says.
    Linux6_1,
    /// Ubuntu 22.04's 6.1.0-1036-oem of March 2024, for calls by adapters.
    Linux6_1Calls,
}

/// A guest that runs, or has run.
pub struct Guest {
    console: Peer,
    input: ChildStdin,
    // Kept until the kernel has been loaded, and removed with the guest.
    _initramfs: tempfile::NamedTempFile,
}

/// What a guest said and sent before it powered off.
pub struct Report {
    /// The console, line by line.
    pub console: Vec<String>,
}

impl Guest {
    /// Whether this machine can run a guest; says why not.
    pub fn available() -> bool {
        let tools = [
            ("qemu-system-x86_64", "qemu-system-x86"),
            ("atmtcp", "atm-tools"),
            ("busybox", "busybox-static"),
            ("cpio", "cpio"),
            ("dpkg", "dpkg"),
        ];
        if !cfg!(target_arch = "x86_64") {
            return crate::skip("the guest is built from this machine's atm-tools, and its kernel is for x86-64");
        }
        crate::have(&tools)
    }

    /// Boots a 5.10 guest that runs `script` with `files` (name, content) beside it in `/test`.
    pub fn boot(script: &str, files: &[(&str, &[u8])]) -> anyhow::Result<Self> {
        Self::boot_on(Machine::Network, script, files)
    }

    /// The same on a machine of one's choice.
    pub fn boot_on(machine: Machine<'_>, script: &str, files: &[(&str, &[u8])]) -> anyhow::Result<Self> {
        Self::boot_kernel(Kernel::Linux5_10, machine, script, files)
    }

    /// The same with a kernel of one's choice.
    pub fn boot_kernel(
        kernel: Kernel,
        machine: Machine<'_>,
        script: &str,
        files: &[(&str, &[u8])],
    ) -> anyhow::Result<Self> {
        Self::boot_words(kernel, "", machine, script, files)
    }

    /// The same with more words on the kernel's command line.
    pub fn boot_words(
        kernel: Kernel,
        words: &str,
        machine: Machine<'_>,
        script: &str,
        files: &[(&str, &[u8])],
    ) -> anyhow::Result<Self> {
        let version = match kernel {
            Kernel::Linux5_10 => "5.10",
            Kernel::Linux6_1 => "6.1",
            Kernel::Linux6_1Calls => "6.1-calls",
        };
        let prepared = program::prepare("prepare-guest", &[version]).or_else(|why| match kernel {
            // Debian's mirrors have no such kernel: where Ubuntu's cannot be reached, 5.10 makes calls too.
            Kernel::Linux6_1Calls => {
                eprintln!("no kernel 6.1 that stock atmsigd can work with, 5.10 in its place: {why:#}");
                program::prepare("prepare-guest", &["5.10"])
            }
            Kernel::Linux5_10 | Kernel::Linux6_1 => Err(why),
        });
        let (kernel, base) = prepared?;
        let script = format!("{PRELUDE}{script}");
        let names: Vec<String> = files.iter().map(|(name, _)| format!("test/{name}")).collect();
        let mut all: Vec<(&str, &[u8])> = vec![("test/script", script.as_bytes()), ("test/pings", PINGS.as_bytes())];
        all.extend(names.iter().map(String::as_str).zip(files.iter().map(|(_, content)| *content)));
        let mut initramfs = tempfile::NamedTempFile::new()?;
        initramfs.write_all(&initramfs::archive(&all))?;
        initramfs.write_all(&std::fs::read(base)?)?;
        initramfs.flush()?;

        // TCG by default: seen on machines with a /dev/kvm that opens and then never runs the guest.
        let accelerator = std::env::var("CELLWAY_GUEST_ACCEL").unwrap_or_else(|_| "tcg".to_owned());
        let mut qemu = machine.command()?;
        if !matches!(machine, Machine::Rebooting(_)) {
            qemu.arg("-no-reboot");
        }
        qemu.args(["-accel", &accelerator, "-m", "256", "-display", "none", "-monitor", "none", "-serial", "stdio"])
            // no_timer_check: a guest that gets no time during the kernel's check of its timer would end there.
            .args(["-append", &format!("console=ttyS0 quiet panic=-1 no_timer_check {words}")])
            .arg("-kernel")
            .arg(kernel)
            .arg("-initrd")
            .arg(initramfs.path());
        let (console, input) = Peer::start_with_input(&mut qemu)?;
        Ok(Guest { console, input, _initramfs: initramfs })
    }

    /// Waits for a line of the console that contains `what`.
    pub fn wait_for(&mut self, what: &str) -> anyhow::Result<String> {
        self.console.wait_for(what, PATIENCE)
    }

    /// What the console has said so far.
    pub fn log(&mut self) -> &[String] {
        self.console.log()
    }

    /// Waits until the script has ended and the guest is off; an error if the script failed.
    pub fn finish(mut self) -> anyhow::Result<Report> {
        let (_, log) = self.console.wait(PATIENCE)?;
        let report = Report { console: log.to_vec() };
        anyhow::ensure!(
            report.console.iter().any(|line| line == "guest: end 0"),
            "the guest's script failed; its console:\n{}",
            report.console.join("\n")
        );
        Ok(report)
    }
}

/// Tries a step up to three times that all these guests run by `step NAME COMMAND`: `ours` is the test's part, while they run it;
/// `check` is given what each has said meanwhile. What fails is printed.
///
/// # Errors
/// The third attempt fails too, or a guest has gone.
pub fn tried(
    name: &str,
    guests: &mut [&mut Guest],
    mut ours: impl FnMut() -> anyhow::Result<()>,
    check: impl Fn(&[&[String]]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    for attempt in 1.. {
        let mut begins = Vec::new();
        for guest in &mut *guests {
            guest.wait_for(&format!("guest: begins {name} {attempt}"))?;
            begins.push(guest.console.heard().len());
        }
        let done = ours();
        for guest in &mut *guests {
            guest.wait_for(&format!("guest: ended {name} {attempt}"))?;
        }
        let said: Vec<&[String]> = guests.iter().zip(begins).map(|(guest, at)| &guest.console.heard()[at..]).collect();
        let verdict = done.and_then(|()| check(&said));
        let word: &[u8] = if verdict.is_ok() { b"good\n" } else { b"again\n" };
        guests.iter_mut().try_for_each(|guest| guest.input.write_all(word))?;
        match verdict {
            Ok(()) => return Ok(()),
            Err(why) if attempt == 3 => return Err(why.context(format!("{name} failed three times"))),
            Err(why) => eprintln!("{name}, attempt {attempt}: {why:#}"),
        }
    }
    Ok(())
}

impl Report {
    /// The content of a file that the script sent with `emit`.
    pub fn file(&self, name: &str) -> anyhow::Result<Vec<u8>> {
        let head = format!("guest: file {name}");
        let text: String = self
            .console
            .iter()
            .skip_while(|line| **line != head)
            .skip(1)
            .take_while(|line| *line != "guest: file end")
            .map(String::as_str)
            .collect();
        anyhow::ensure!(self.console.contains(&head), "the guest sent no {name}:\n{}", self.console.join("\n"));
        base64(&text).ok_or_else(|| anyhow::anyhow!("{name} came damaged over the console: {text}"))
    }

    /// The AAL5 counters of an interface in `/proc/net/atm/devices`: sent, errors, received, errors, dropped.
    pub fn aal5_counters(&self, interface: u32) -> anyhow::Result<[u64; 5]> {
        self.counters(interface, "5 (")
    }

    /// The same of AAL0.
    pub fn aal0_counters(&self, interface: u32) -> anyhow::Result<[u64; 5]> {
        self.counters(interface, "0 (")
    }

    fn counters(&self, interface: u32, aal: &str) -> anyhow::Result<[u64; 5]> {
        self.console
            .iter()
            .rev()
            .filter(|line| line.trim_start().starts_with(&format!("{interface} ")))
            .find_map(|line| {
                let (_, rest) = line.split_once(aal)?;
                let mut numbers = rest.split_once(')')?.0.split_whitespace().map_while(|word| word.parse().ok());
                Some([numbers.next()?, numbers.next()?, numbers.next()?, numbers.next()?, numbers.next()?])
            })
            .ok_or_else(|| anyhow::anyhow!("no counters of interface {interface}:\n{}", self.console.join("\n")))
    }
}

/// What a guest runs to exchange PDUs with `atm-tools` over its link to `port`: one line received (0.101) and one sent
/// (0.100), and two files of 70 000 octets, `/test/file` sent (0.102) and `/tmp/download` received (0.103) and emitted.
pub fn exchange(port: u16) -> String {
    format!(
        r#"
        atmtcp virtual connect 10.0.2.2 {port} 2>&1 &
        until grep -q atmtcp /proc/net/atm/devices; do sleep 0.1; done
        aread 0.101 &
        ttcp_atm -r -a -l 9180 0.103 > /tmp/download &
        opened 101 103
        awrite 0.100 "a PDU of the guest"
        ttcp_atm -t -a -l 9180 0.102 < /test/file
        say ready
        while [ "$(stat -c %s /tmp/download)" -lt 70000 ]; do sleep 0.2; done
        sleep 0.5
        emit /tmp/download
        "#
    )
}

/// The SDU that `aread` printed: `5:  68 65 6C 6C 6F`.
pub fn aread_sdu(line: &str) -> Option<Vec<u8>> {
    let (octets, hex) = line.split_once(':')?;
    let sdu: Option<Vec<u8>> = hex.split_whitespace().map(|pair| u8::from_str_radix(pair, 16).ok()).collect();
    sdu.filter(|sdu| octets.trim().parse() == Ok(sdu.len()))
}

fn base64(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut held) = (0_u32, 0_u32);
    for letter in text.trim_end_matches('=').bytes() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::{aread_sdu, base64};

    #[test]
    fn base64_gives_back_the_octets() {
        assert_eq!(base64("aGVsbG8="), Some(b"hello".to_vec()));
        assert_eq!(base64("/+8A"), Some(vec![0xFF, 0xEF, 0]));
        assert_eq!(base64("a?=="), None);
    }

    #[test]
    fn the_line_of_aread_is_read() {
        assert_eq!(aread_sdu("5:  68 65 6C 6C 6F"), Some(b"hello".to_vec()));
        assert_eq!(aread_sdu("6:  68 65 6C 6C 6F"), None);
        assert_eq!(aread_sdu("Link 0: virtual"), None);
    }
}
