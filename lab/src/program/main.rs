//! The program `cellway-lab`: the papers' experiments, and benchmarks with the machine's limit beside them. Options, output and errors
//! are those of `cellway`.
#![forbid(unsafe_code)]
// They panic where the pipe has no reader any more: `cellway::output` has what does not.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod bench;
mod experiments;
mod results;
mod schema;
mod simulate;
mod ttcp;

use anyhow::Result;
use cellway::context::Context;
use cellway::output;
use clap::{CommandFactory, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// As in `cellway`, whose engine runs here for benchmarks.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The laboratory of Cellway: the papers' experiments, published, modelled and measured; benchmarks.
#[derive(Debug, Parser)]
#[command(
    name = "cellway-lab",
    version,
    after_help = "Exit status: 0 done, or the reader of the output has gone, 1 failed, 2 wrong usage, 3 no service there."
)]
struct Arguments {
    /// The service's socket
    #[arg(long, global = true, env = "CELLWAY_SOCKET", value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Print results as JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Experiments(experiments::LabCommand),
    /// Run a network of your own in virtual time: traffic, faults and changes at times, expectations
    Simulate(simulate::Simulate),
    /// Measure this machine
    Bench(bench::Bench),
    /// Like `cellway ttcp`, also by windows and behind an adapter
    Ttcp(ttcp::Ttcp),
    /// Completions for a shell
    Completions {
        /// bash, zsh, fish, ...
        shell: clap_complete::Shell,
    },
    /// JSON schemas of the output of each command with --json
    Schema(schema::Schema),
    /// The manual page of the program or of a command
    Man(cellway::pages::Man),
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(e) => return output::print_usage(&e),
    };
    let socket = arguments.socket.unwrap_or_else(endpoint::default_socket);
    let context = Context { socket, json: arguments.json };
    let result = perform(&context, arguments.command);
    output::exit_code(&context, result)
}

fn perform(context: &Context, command: Command) -> Result<()> {
    match command {
        Command::Experiments(command) => experiments::run(context, &command),
        Command::Simulate(options) => simulate::run(context, &options),
        Command::Bench(bench) => bench::run(context, bench),
        Command::Ttcp(ttcp) => ttcp::run(context, &ttcp),
        Command::Completions { shell } => output::completions(shell, &mut Arguments::command(), "cellway-lab"),
        Command::Schema(options) => schema::run(&options),
        Command::Man(man) => cellway::pages::run(&man, Arguments::command()),
    }
}
