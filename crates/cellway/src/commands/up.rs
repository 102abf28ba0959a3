//! `cellway up`: the network of a description, in the foreground, until Ctrl-C. SIGHUP reads the file again and applies
//! the difference.

use crate::client;
use crate::context::Context;
use anyhow::Result;
use clap::Args;
use control::daemon::{Daemon, Options};
use control::description::load;
use control::diagnostic::Diagnostics;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Brings up a network and runs it in the foreground. Ctrl-C ends it and leaves nothing behind; SIGHUP reads the file
/// again: what did not change goes on undisturbed, what was added by command stays, what was removed by command and is in the file
/// comes back, and so does an interface's device that was deleted.
#[derive(Debug, Args)]
pub(crate) struct Up {
    /// The description (see `examples/`)
    file: PathBuf,
    /// A folder for what commands add, remove and take down: it is so again after a restart; the log of changes is there too
    #[arg(long, value_name = "FOLDER")]
    state: Option<PathBuf>,
    /// How much to log: error, warn, info, debug
    #[arg(long, default_value = "info")]
    log: String,
}

/// `cellway up`
pub(crate) fn run(context: &Context, up: &Up) -> Result<()> {
    crate::log::start(&up.log);
    let stop = client::interrupted()?;
    let hangup = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGHUP, hangup.clone())?;
    let config = load(&up.file)?;
    let d = &config.description;
    let counts = (d.stations.len(), d.links.len(), d.circuits.len());
    let daemon = Daemon::start_with(config, &context.socket, &Options { state: up.state.clone() })?;
    tracing::info!(
        "up: {} stations, {} links, {} circuits; socket {}",
        counts.0,
        counts.1,
        counts.2,
        context.socket.display()
    );
    if context.json {
        println!("{}", serde_json::json!({ "up": up.file, "socket": context.socket }));
    }
    while client::goes_on(&stop) {
        std::thread::sleep(Duration::from_millis(50));
        daemon.serve_peers();
        if hangup.swap(false, Ordering::Relaxed) {
            match load(&up.file).and_then(|c| daemon.reload(c)) {
                Ok(a) => tracing::info!(
                    "applied {}: {} added, {} changed, {} removed; circuits {} interrupted, {} unchanged",
                    up.file.display(),
                    a.summary.added,
                    a.summary.changed,
                    a.summary.removed,
                    a.summary.interrupted,
                    a.unchanged_circuits,
                ),
                Err(e) => match e.downcast_ref::<Diagnostics>() {
                    Some(wrong) => wrong.all().iter().for_each(|wrong| tracing::error!("not applied: {wrong}")),
                    None => tracing::error!("not applied: {e:#}"),
                },
            }
        }
    }
    tracing::info!("down");
    drop(daemon);
    Ok(())
}
