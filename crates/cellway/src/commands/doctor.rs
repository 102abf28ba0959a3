//! `cellway doctor`: what this machine can and cannot do, and what to do about it.

mod between_machines;

use crate::client::read;
use crate::context::Context;
use crate::output;
use anyhow::Result;
use control::daemon::FRAMES;
use control::protocol::Request;
use control::results::doctor::{Check, Doctor, Memory};
use control::status::Status;
use endpoint::{Connection, Geometry};
use std::path::Path;
use std::time::Duration;

/// A daemon that does not greet within this time is none to be asked.
const DAEMON_PATIENCE: Duration = Duration::from_secs(2);

/// Endpoints of the default size that users should be able to have.
const FEW_ENDPOINTS: u64 = 4;

fn check(name: &str, ok: bool, found: &str, cure: &str) -> Check {
    Check { check: name.to_owned(), ok, found: found.to_owned(), cure: (!ok).then(|| cure.to_owned()) }
}

fn in_path(program: &str) -> Option<std::path::PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|dir| dir.join(program)).find(|p| p.is_file())
}

fn program(name: &str, use_of_it: &str, package: &str) -> Check {
    let found = in_path(name);
    let text = found.as_ref().map_or("not installed".into(), |p| p.display().to_string());
    check(&format!("{name} ({use_of_it})"), found.is_some(), &text, &format!("apt install {package}"))
}

/// Whether QEMU can attach a virtual adapter.
pub(crate) fn attaches_adapters(qemu: &Path) -> bool {
    let mut help = std::process::Command::new(qemu);
    help.args(["-M", "none", "-device", "vfio-user-pci,help"]);
    help.output().is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("options"))
}

fn vfio_user() -> Check {
    let ok = attaches_adapters(Path::new("qemu-system-x86_64"));
    let found = if ok { "yes" } else { "QEMU not found, or older than 10.1" };
    check(
        "QEMU with vfio-user (virtual adapters)",
        ok,
        found,
        "QEMU 10.1 or later: Debian's trixie-backports, or tests/interop/prepare-qemu",
    )
}

fn features() -> String {
    #[cfg(target_arch = "x86_64")]
    {
        let all = [
            ("sse4.2", std::is_x86_feature_detected!("sse4.2")),
            ("pclmulqdq", std::is_x86_feature_detected!("pclmulqdq")),
            ("avx2", std::is_x86_feature_detected!("avx2")),
            ("vpclmulqdq", std::is_x86_feature_detected!("vpclmulqdq")),
            ("avx512f", std::is_x86_feature_detected!("avx512f")),
        ];
        all.iter().filter(|(_, there)| *there).map(|(name, _)| *name).collect::<Vec<_>>().join(" ")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        std::env::consts::ARCH.to_owned()
    }
}

/// Whether the daemon at this socket, if there is one, keeps what commands change.
fn kept_changes(context: &Context) -> Check {
    let name = "changes are kept for a restart";
    // A machine may be looked at before there is a daemon.
    let patience = DAEMON_PATIENCE.min(endpoint::client::request_limit());
    let asked = Connection::open_within(&context.socket, patience)
        .map_err(anyhow::Error::from)
        .and_then(|connection| Ok(connection.manage_text(serde_json::to_value(Request::Overview)?, &[])?))
        .and_then(|text| read::<Status>(&text));
    let Ok(status) = asked else { return check(name, true, "no service that this user may ask", "") };
    let Some(state) = status.state else { return check(name, true, "no: `cellway up` runs without --state", "") };
    let cure = "make room on the disk of the state folder, or mend it: the daemon tries again until all is kept";
    let found = state.not_kept.clone().unwrap_or_else(|| "yes".into());
    check(name, state.not_kept.is_none(), &found, cure)
}

/// `cellway doctor`
pub(crate) fn run(context: &Context) -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let memfd = endpoint::segment::Segment::create(Geometry { buffers: 1, ..Geometry::default() });
    let tun = std::fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun");
    let admin = rustix::process::geteuid().is_root();
    let folder = context.socket.parent().unwrap_or(Path::new("/"));
    let writable = !folder.exists() || rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok();
    let kernel_atm = Path::new("/proc/net/atm").exists();
    let library = crate::commands::run::library();
    let available = control::memory::Available::now();
    let checks = vec![
        check(
            "processors",
            cores >= 2,
            &cores.to_string(),
            "with one, applications and network take turns: it works, slowly",
        ),
        check("processor features", true, &features(), ""),
        check(
            "sealed shared memory (memfd)",
            memfd.is_ok(),
            &memfd.err().map_or("yes".into(), |e| e.to_string()),
            "a kernel from 3.17 on with CONFIG_MEMFD_CREATE is needed",
        ),
        check(
            "socket",
            writable,
            &context.socket.display().to_string(),
            "choose a folder that you can write to with --socket",
        ),
        check(
            "TUN device (cellway ip tun)",
            tun.is_ok() && admin,
            &match (&tun, admin) {
                (Ok(_), true) => "yes".into(),
                (Ok(_), false) => "/dev/net/tun is there, but CAP_NET_ADMIN is missing".into(),
                (Err(e), _) => format!("/dev/net/tun: {e}"),
            },
            "run as root, or use the in-process stack: cellway ip ping, send, receive",
        ),
        check(
            "memory of all users together",
            available.for_users() >= FEW_ENDPOINTS * Geometry::default().octets() as u64,
            &format!("{} MiB; {} allows {} MiB", available.for_users() >> 20, available.source, available.octets >> 20),
            "give the daemon more memory (memory.max of its control group, MemoryMax= of its unit), or let applications \
             have smaller endpoints",
        ),
        between_machines::sockets(),
        between_machines::lateness(),
        check("kernel ATM", true, if kernel_atm { "there, and not used" } else { "not there, and not needed" }, ""),
        check(
            "library for old programs (cellway run)",
            library.is_ok(),
            &library.as_ref().map_or_else(|_| "missing".into(), |p| p.display().to_string()),
            &library.as_ref().map_or_else(|e| format!("{e:#}"), |_| String::new()),
        ),
        kept_changes(context),
        program("tshark", "reads captures", "tshark"),
        program("qemu-system-x86_64", "Linux guests as peers in tests", "qemu-system-x86"),
        vfio_user(),
        program("atmtcp", "ATM over TCP's stock program", "atm-tools"),
    ];
    let endpoint_octets = Geometry::default().octets();
    let memory = Memory {
        frame_buffers_octets: FRAMES * 65_536,
        default_endpoint_octets: endpoint_octets,
        link_queue_octets_each: 2 * 4096 * 64,
        users_octets: available.for_users(),
        users_octets_from: format!("{}: {} MiB", available.source, available.octets >> 20),
    };
    let doctor = Doctor { checks, memory };
    output::print(context, &doctor, || text(&doctor))
}

fn text(doctor: &Doctor) -> String {
    let mut text = String::new();
    for c in &doctor.checks {
        text.push_str(&format!("{} {:38} {}\n", if c.ok { "ok  " } else { "no  " }, c.check, c.found));
        if let Some(cure) = &c.cure {
            text.push_str(&format!("     -> {cure}\n"));
        }
    }
    let memory = &doctor.memory;
    text.push_str(&format!(
        "memory: frame buffers {} MiB, each default endpoint {} MiB at most, each link {} KiB and more with queue_cells\n",
        memory.frame_buffers_octets >> 20,
        memory.default_endpoint_octets >> 20,
        memory.link_queue_octets_each >> 10
    ));
    text.push_str(&format!(
        "memory: all users of a daemon in this control group have {} MiB together ({}), unless [engine] has max_users_octets\n",
        memory.users_octets >> 20,
        memory.users_octets_from
    ));
    text
}
