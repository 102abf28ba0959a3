//! `--reconnect`: a command that runs until Ctrl-C begins again when the service is back.

use crate::context::Context;
use crate::exit_status::NO_SERVICE;
use crate::output;
use crate::signals::{ends_in_order, goes_on};
use anyhow::Result;
use endpoint::Connection;
use std::time::Duration;

/// Between two looks whether the service is back.
const LOOK: Duration = Duration::from_millis(200);
/// How long the service may take to greet.
const GREETING: Duration = Duration::from_secs(2);

/// Runs a command, and again each time that the service has gone and come back.
pub(crate) fn run(context: &Context, mut command: impl FnMut() -> Result<()>) -> Result<()> {
    let stop = ends_in_order()?;
    loop {
        match command() {
            Err(e) if goes_on(&stop) && output::exit_status_of(&e) == NO_SERVICE => output::print_error(context, &e),
            ended => return ended,
        }
        output::note(format_args!("waiting for the service at {}", context.socket.display()));
        while Connection::open_within(&context.socket, GREETING).is_err() {
            if !goes_on(&stop) {
                return Ok(());
            }
            std::thread::sleep(LOOK);
        }
    }
}
