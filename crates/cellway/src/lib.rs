//! The program `cellway`: a command to a file. It wires the rooms together, holds no protocol and decides nothing about
//! a network.
//!
//! A library, so that the laboratory's program has the same options, output, errors and ways to the service: its own
//! commands come on top ([`context`], [`output`], [`client`], [`target`], [`ttcp`], [`schema`]). Nothing here is for
//! others.
#![forbid(unsafe_code)]
// They panic where the pipe has no reader any more: `output` has what does not.
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod causes;
mod certificates;
pub mod client;
mod commands;
pub mod context;
pub mod exit_status;
pub mod far_end;
pub mod kinds;
mod log;
pub mod names;
pub mod outfile;
pub mod output;
pub mod pages;
pub mod ready;
mod reconnect;
mod recorded;
mod signals;
mod supervisor;
pub mod target;
mod terminal;
pub mod units;
mod users;
mod words;

pub use commands::run::library;
pub use commands::{schema, ttcp};

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};
use commands::{
    apply, call, capture, circuit, config, demo, doctor, drops, elsewhere, explain, export, graph, import, inject, ip,
    lane, link, myrinet, oam, ping, recording, relay, rename, run, status, top, trace, transfer, up, vm,
};
use context::Context;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Heading of the options that every command has.
const GLOBAL: &str = "Global options";

/// ATM for Linux in user space: hosts, switches and links, and virtual circuits over them.
///
/// Begin with `cellway demo`, or with `cellway up examples/two-hosts.toml` in one terminal and, in others,
/// `cellway receive beta 0.100` and, once it is ready, `echo hello | cellway send alpha 0.100`.
#[derive(Debug, Parser)]
#[command(
    name = "cellway",
    version,
    after_help = exit_status::HELP
)]
struct Arguments {
    /// The service's socket
    #[arg(long, global = true, env = "CELLWAY_SOCKET", value_name = "PATH", help_heading = GLOBAL)]
    socket: Option<PathBuf>,
    /// Print results, and errors, as JSON
    #[arg(long, global = true, help_heading = GLOBAL)]
    json: bool,
    /// How long to wait for an answer of the service
    #[arg(long, global = true, value_name = "SECONDS", default_value = "10", value_parser = units::seconds, help_heading = GLOBAL)]
    wait: Duration,
    /// When the service ends, wait for it and begin again: for commands that run until Ctrl-C
    #[arg(long, global = true, help_heading = GLOBAL)]
    reconnect: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Bring up the network of a description, and run it until Ctrl-C
    Up(up::Up),
    /// Apply a description to a running network
    Apply(apply::Apply),
    /// Keep a description that was applied on trial (`apply --confirm`), or undo it
    Confirm(apply::Confirm),
    /// Print the running network as a description
    Export(export::Export),
    /// Give a host or switch another name
    Rename(rename::Rename),
    /// Make a description of other software's files: GNS3, dynagen, linux-atm
    Import(import::Import),
    /// Undo what commands have changed: back to the description
    Reset(export::Reset),
    /// Check or show a description without running it
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Links, circuits and endpoints, with counters of traffic and drops
    Status(status::Status),
    /// Rates, queues, drops and alarms on a terminal, each second
    Top(top::Top),
    /// The topology as a picture or as text: SVG, DOT, Mermaid
    Graph(graph::Graph),
    /// What was dropped: where, of which circuit, which way and why
    Drops(drops::Drops),
    /// What a reason to drop means, and what to do about it
    Explain(explain::Explain),
    /// List, add and remove circuits
    #[command(subcommand)]
    Circuit(circuit::CircuitCommand),
    /// Call an address and hold the call; `call list` shows calls, interfaces and failures
    Call(call::Call),
    /// Answer calls to a host
    Listen(call::Listen),
    /// The addresses of hosts
    Address(call::Address),
    /// List, add and remove links
    #[command(subcommand)]
    Link(link::LinkCommand),
    /// Myrinets: the map, routes, monitoring variables, and a traffic generator
    #[command(subcommand)]
    Myrinet(myrinet::MyrinetCommand),
    /// Alarms, continuity check and performance monitoring of circuits (I.610)
    #[command(subcommand)]
    Oam(oam::OamCommand),
    /// Send standard input or a file over a circuit
    Send(transfer::Send),
    /// Receive from a circuit to standard output or a file
    Receive(transfer::Receive),
    /// Measure throughput over a circuit, as the classic ttcp does
    Ttcp(ttcp::Ttcp),
    /// Test a circuit and measure its round-trip time by OAM loopback (I.610)
    Ping(ping::Ping),
    /// Name each point of a circuit, with its round-trip time (OAM loopback)
    Trace(trace::Trace),
    /// IP over ATM on a circuit: TUN device, or in-process stack
    #[command(subcommand)]
    Ip(ip::IpCommand),
    /// LAN emulation on calls: the servers of a LAN, and stations
    #[command(subcommand)]
    Lane(lane::LaneCommand),
    /// Run a program written for Linux's ATM sockets
    Run(run::Run),
    /// Join links of ATM over TCP as Linux's `atmtcp` does, without a service
    Relay(relay::Relay),
    /// The QEMU command for a guest with a virtual adapter
    Vm(vm::Vm),
    /// Record the traffic of a link, for tshark
    Capture(capture::Capture),
    /// Play back a capture (pcap, pcapng) or a recording of `atmtcp write`
    Replay(recording::Replay),
    /// Put cells and PDUs on a link as no station would: wrong, lost, doubled, late
    Inject(inject::Inject),
    /// Measure this machine; runs `cellway-lab bench`
    #[command(disable_help_flag = true)]
    Bench(elsewhere::Words),
    /// The papers' experiments: published, modelled, measured; runs `cellway-lab`
    #[command(disable_help_flag = true)]
    Lab(elsewhere::Words),
    /// Check what this machine supports, with remedies
    Doctor,
    /// Show a PDU's complete path: two hosts, a switch, a file, pings, TCP, a report
    Demo(demo::Demo),
    /// Completions for a shell
    Completions {
        /// bash, zsh, fish, ...
        shell: clap_complete::Shell,
    },
    /// JSON schemas of the management protocol, the description, and the output of each command with --json
    Schema(schema::Schema),
    /// The manual page of the program or of a command
    Man(pages::Man),
}

/// The command line: every command and option.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// The program.
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(e) => return output::print_usage(&e),
    };
    endpoint::client::set_request_limit(arguments.wait);
    let socket = arguments.socket.unwrap_or_else(|| match arguments.command {
        Command::Up(_) => endpoint::own_socket(),
        _ => endpoint::default_socket(),
    });
    let context = Context { socket, json: arguments.json };
    let result = match (arguments.reconnect, &arguments.command) {
        (false, command) => perform(&context, command),
        (true, command) if command.is_endless(&context) => reconnect::run(&context, || perform(&context, command)),
        (true, _) => Err(exit_status::Usage::error(
            "--reconnect is for commands that run until Ctrl-C: listen, receive --datagrams without FILE and --count, \
             status --watch, top, myrinet monitor --watch, ip tun, ip serve, lane serve, lane tap",
        )),
    };
    output::exit_code(&context, result)
}

impl Command {
    /// Whether it runs until it is told to end, and can begin anew: what it has written stays.
    fn is_endless(&self, context: &Context) -> bool {
        match self {
            Command::Listen(_) | Command::Lane(_) => true,
            Command::Receive(receive) => receive.is_endless(),
            Command::Status(status) => status.watch,
            Command::Top(top) => top.is_endless(context),
            Command::Myrinet(command) => command.is_endless(),
            Command::Ip(command) => matches!(command, ip::IpCommand::Tun { .. } | ip::IpCommand::Serve { .. }),
            _ => false,
        }
    }
}

fn perform(context: &Context, command: &Command) -> Result<()> {
    match command {
        Command::Up(up) => up::run(context, up),
        Command::Apply(apply) => apply::run(context, apply),
        Command::Confirm(confirm) => apply::confirm(context, confirm),
        Command::Export(export) => export::run(context, export),
        Command::Rename(rename) => rename::run(context, rename),
        Command::Import(import) => import::run(context, import),
        Command::Reset(reset) => export::reset(context, reset),
        Command::Config(command) => config::run(context, command),
        Command::Status(status) => status::run(context, status),
        Command::Top(top) => top::run(context, top),
        Command::Graph(graph) => graph::run(context, graph),
        Command::Drops(drops) => drops::run(context, drops),
        Command::Explain(explain) => explain::run(context, explain),
        Command::Circuit(command) => circuit::run(context, command),
        Command::Call(command) => call::run(context, command),
        Command::Listen(command) => call::run_listen(context, command),
        Command::Address(command) => call::run_address(context, command),
        Command::Link(command) => link::run(context, command),
        Command::Myrinet(command) => myrinet::run(context, command),
        Command::Oam(command) => oam::run(context, command),
        Command::Send(send) => transfer::run_send(context, send),
        Command::Receive(receive) => transfer::run_receive(context, receive),
        Command::Ttcp(ttcp) => ttcp::run(context, ttcp),
        Command::Ping(ping) => ping::run(context, ping),
        Command::Trace(trace) => trace::run(context, trace),
        Command::Ip(command) => ip::run(context, command),
        Command::Lane(command) => lane::run(context, command),
        Command::Run(run) => run::run(context, run),
        Command::Relay(relay) => relay::run(context, relay),
        Command::Vm(vm) => vm::run(context, vm),
        Command::Capture(capture) => capture::run(context, capture),
        Command::Replay(replay) => recording::run(context, replay),
        Command::Inject(inject) => inject::run(context, inject),
        Command::Bench(words) => elsewhere::run(context, Some("bench"), words),
        Command::Lab(words) => elsewhere::run(context, None, words),
        Command::Doctor => doctor::run(context),
        Command::Demo(demo) => demo::run(context, demo),
        Command::Completions { shell } => output::completions(*shell, &mut Arguments::command(), "cellway"),
        Command::Schema(options) => schema::run(options),
        Command::Man(man) => pages::run(man, Arguments::command()),
    }
}
