//! Each command with words that work in the test's network, and words that fail there.
//!
//! `{dir}` is a folder of the test's own, `{net}` its description, `{beta}` the address of beta.

/// How a command comes to its end where everything is in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// By itself.
    Itself,
    /// By itself, while this other command runs.
    With(&'static [&'static str]),
    /// By a signal, after its first line on standard output.
    ToldAfterOutput,
    /// By a signal, after its first line on standard error.
    ToldAfterNote,
    /// By a signal, once it has printed what this other command brings about; that is tried until then.
    Caused(&'static [&'static str]),
    /// By a signal, once it has printed this word; it is tried again until then, while the other command runs.
    Tried(&'static [&'static str], &'static str),
    /// By itself, once it has been sent what this other command sends; that is tried until then.
    Fed(&'static [&'static str]),
    /// Not in this test, because:
    Elsewhere(&'static str),
}

/// A command.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// Its words, as clap has them.
    pub command: &'static str,
    /// Arguments with which it works.
    pub words: &'static [&'static str],
    /// How it ends then.
    pub end: End,
    /// Arguments with which it fails in a network that is in order, or why there are none.
    pub fails: Result<&'static [&'static str], &'static str>,
    /// It asks the service.
    pub asks: bool,
    /// What it prints is no JSON with `--json`.
    pub is_text: bool,
}

const NOTHING_TO_REFUSE: Result<&[&str], &str> = Err("it lists what there is: nothing in its words can fail");
const LABORATORY: &str = "it becomes cellway-lab, another package's program";

const fn asks(
    command: &'static str,
    words: &'static [&'static str],
    end: End,
    fails: Result<&'static [&'static str], &'static str>,
) -> Row {
    Row { command, words, end, fails, asks: true, is_text: false }
}

const fn alone(
    command: &'static str,
    words: &'static [&'static str],
    end: End,
    fails: Result<&'static [&'static str], &'static str>,
) -> Row {
    Row { command, words, end, fails, asks: false, is_text: false }
}

const fn text(
    command: &'static str,
    words: &'static [&'static str],
    end: End,
    fails: Result<&'static [&'static str], &'static str>,
) -> Row {
    Row { command, words, end, fails, asks: false, is_text: true }
}

use End::{Caused, Elsewhere, Fed, Itself, ToldAfterNote, ToldAfterOutput, Tried, With};

/// All commands. A new one is missing here until it has its row.
pub const ROWS: &[Row] = &[
    alone("up", &["{net}", "--socket", "{dir}/up.sock"], ToldAfterOutput, Ok(&["{dir}/bad.toml"])),
    asks("apply", &["{net}"], Itself, Ok(&["{dir}/bad.toml"])),
    asks("confirm", &[], Elsewhere("it needs a description on trial: exactly_once.rs has one"), Ok(&["--undo"])),
    alone("config check", &["{net}"], Itself, Ok(&["{dir}/bad.toml"])),
    alone("config upgrade", &["{net}"], Itself, Ok(&["{dir}/none.toml"])),
    alone("config show", &["{net}"], Itself, Ok(&["{dir}/bad.toml"])),
    asks("status", &[], Itself, NOTHING_TO_REFUSE),
    asks("top", &["--interval", "10ms"], Itself, Ok(&["--interval", "10ms", "--circuit", "gamma 9.9"])),
    asks("graph", &["--interval", "10ms"], Itself, Ok(&["{dir}/bad.toml"])),
    asks("drops", &[], Itself, Ok(&["nowhere"])),
    alone("explain", &["no_buffer"], Itself, Err("a reason that there is not is wrong usage")),
    asks(
        "rename",
        &["s1", "s2"],
        Elsewhere("a network with a Myrinet is not renamed: brought.rs has another"),
        Ok(&["nowhere", "s4"]),
    ),
    asks("export", &[], Itself, NOTHING_TO_REFUSE),
    alone("import", &["{dir}/hosts.atm"], Itself, Ok(&["{dir}/none.atm"])),
    asks("circuit list", &[], Itself, NOTHING_TO_REFUSE),
    asks("circuit add", &["alpha 0.300", "beta 0.300"], Itself, Ok(&["alpha 0.100", "beta 0.301"])),
    asks("circuit remove", &["alpha 0.109", "beta 0.109"], Itself, Ok(&["alpha 9.9", "beta 9.9"])),
    asks("link list", &[], Itself, NOTHING_TO_REFUSE),
    asks("link add", &["delta:1", "s1:9"], Itself, Ok(&["delta:2", "nowhere:1"])),
    asks("link down", &["delta:0 - s1:2"], Itself, Ok(&["no such link"])),
    asks("link up", &["delta:0 - s1:2"], Itself, Ok(&["no such link"])),
    asks("link remove", &["delta:0 - s1:2"], Itself, Ok(&["no such link"])),
    asks("call", &["alpha", "{beta}"], Tried(&["listen", "beta"], "connected"), Ok(&["gamma", "{beta}"])),
    asks("call list", &[], Itself, NOTHING_TO_REFUSE),
    asks("listen", &["beta"], Caused(&["call", "alpha", "{beta}"]), Ok(&["gamma"])),
    asks("address", &[], Itself, Ok(&["gamma"])),
    asks("myrinet map", &[], Itself, Ok(&["no-such-net"])),
    asks("myrinet routes", &[], Itself, Ok(&["no-such-net"])),
    asks("myrinet send", &["barbican", "temple", "--count", "3"], Itself, Ok(&["barbican", "nobody"])),
    asks("myrinet monitor", &[], Itself, Ok(&["no-such-net"])),
    asks("oam status", &[], Itself, Ok(&["gamma", "0.100"])),
    asks("oam continuity", &["alpha", "0.100"], Itself, Ok(&["gamma", "0.100"])),
    asks("oam monitor", &["alpha", "0.100"], Itself, Ok(&["gamma", "0.100"])),
    asks(
        "send",
        &["alpha", "0.101", "{dir}/data"],
        With(&["receive", "beta", "0.101", "{dir}/sent"]),
        Ok(&["gamma", "0.101", "{dir}/data"]),
    ),
    asks(
        "receive",
        &["beta", "0.102", "{dir}/received", "--count", "1"],
        Fed(&["send", "alpha", "0.102", "{dir}/data"]),
        Ok(&["gamma", "0.102"]),
    ),
    asks(
        "ttcp",
        &["-t", "alpha", "0.103", "-n", "3"],
        With(&["ttcp", "-r", "beta", "0.103", "-n", "3"]),
        Ok(&["-t", "gamma", "0.103"]),
    ),
    asks("ping", &["alpha", "0.100", "-c", "2", "-i", "1"], Itself, Ok(&["gamma", "0.100"])),
    asks("inject", &["alpha", "0.100", "--hex", "00"], Itself, Ok(&["gamma", "0.100", "--hex", "00"])),
    asks("trace", &["alpha", "0.100", "-c", "1"], Itself, Ok(&["gamma", "0.100"])),
    asks(
        "ip tun",
        &["alpha", "0.104", "--address", "10.9.0.1/24"],
        Elsewhere("it needs a network namespace: ended.rs and the peers' tests have one"),
        Ok(&["gamma", "0.104", "--address", "10.9.0.1/24"]),
    ),
    asks(
        "ip ppp",
        &["alpha", "0.104"],
        Elsewhere("its standard output is pppd's line: ended.rs and the peers' tests run it"),
        Ok(&["gamma", "0.104"]),
    ),
    asks("ip serve", &["beta", "0.105", "--address", "10.9.0.2/24"], ToldAfterOutput, Ok(&["gamma", "0.105"])),
    asks(
        "ip ping",
        &["alpha", "0.106", "10.9.0.2", "-c", "2", "-i", "1ms", "--address", "10.9.0.1/24"],
        With(&["ip", "serve", "beta", "0.106", "--address", "10.9.0.2/24"]),
        Ok(&["gamma", "0.106", "10.9.0.2"]),
    ),
    asks(
        "ip send",
        &["alpha", "0.107", "10.9.0.2", "{dir}/data", "--address", "10.9.0.1/24"],
        With(&["ip", "receive", "beta", "0.107", "{dir}/tcp", "--address", "10.9.0.2/24"]),
        Ok(&["gamma", "0.107", "10.9.0.2", "{dir}/data"]),
    ),
    asks(
        "ip receive",
        &["beta", "0.108", "{dir}/tcp2", "--address", "10.9.0.2/24"],
        Fed(&["ip", "send", "alpha", "0.108", "10.9.0.2", "{dir}/data", "--address", "10.9.0.1/24"]),
        Ok(&["gamma", "0.108", "{dir}/tcp2"]),
    ),
    asks("lane serve", &["alpha"], ToldAfterOutput, Ok(&["gamma"])),
    asks(
        "lane tap",
        &["alpha", "{beta}", "--address", "10.8.0.1/24"],
        Elsewhere("it needs a network namespace: lane.rs runs stations without a device"),
        Ok(&["gamma", "{beta}", "--address", "10.8.0.1/24"]),
    ),
    asks(
        "run",
        &["true"],
        Elsewhere("it becomes the program that it runs; the peers' tests run it"),
        Ok(&["{dir}/no-such-program"]),
    ),
    alone(
        "relay",
        &["listen", "127.0.0.1:0"],
        ToldAfterNote,
        Ok(&["listen", "127.0.0.1:0", "write", "{dir}/none/file"]),
    ),
    alone(
        "vm",
        &["{dir}/guest.toml", "card", "--kernel", "k", "--initramfs", "i"],
        Itself,
        Ok(&["{dir}/guest.toml", "other", "--kernel", "k", "--initramfs", "i"]),
    ),
    asks(
        "capture",
        &["alpha:0 - s1:0", "{dir}/capture", "--seconds", "0.1"],
        Itself,
        Ok(&["no such link", "{dir}/other"]),
    ),
    asks("reset", &[], Itself, NOTHING_TO_REFUSE),
    alone("replay", &["{dir}/recording"], Itself, Ok(&["{dir}/none"])),
    text("bench", &[], Elsewhere(LABORATORY), Err(LABORATORY)),
    text("lab", &[], Elsewhere(LABORATORY), Err(LABORATORY)),
    alone("doctor", &[], Itself, Err("it says what the machine lacks: that is its result")),
    alone(
        "demo",
        &["--out", "{dir}/demo"],
        Elsewhere("it takes a minute: cli.rs runs it"),
        Ok(&["{dir}/none", "--out", "{dir}/demo"]),
    ),
    text("completions", &["bash"], Itself, Err("it prints a constant")),
    text("schema", &[], Itself, Ok(&["--markdown", "{dir}/none/there"])),
    text("man", &["circuit", "add"], Itself, Err("a page that is not there is wrong usage")),
];

/// Commands whose data go to a full disk.
pub const FILES_ON_A_FULL_DISK: &[Row] = &[
    asks(
        "receive",
        &["beta", "0.102", "/dev/full", "--count", "1"],
        Fed(&["send", "alpha", "0.102", "{dir}/data"]),
        NOTHING_TO_REFUSE,
    ),
    asks("capture", &["alpha:0 - s1:0", "/dev/full", "--seconds", "0.1"], Itself, NOTHING_TO_REFUSE),
    asks(
        "ip receive",
        &["beta", "0.108", "/dev/full", "--address", "10.9.0.2/24"],
        Fed(&["ip", "send", "alpha", "0.108", "10.9.0.2", "{dir}/data", "--address", "10.9.0.1/24"]),
        NOTHING_TO_REFUSE,
    ),
];

/// Values that cannot be: each ends with the status of wrong usage before anybody is asked.
pub const BAD_VALUES: &[&[&str]] = &[
    &["no-such-command"],
    &["status", "--wait", "soon"],
    &["explain", "no_such_reason"],
    &["link", "add", "alpha:5", "s1:8", "--cdvt-us", "soon"],
    &["circuit", "add", "alpha 0.300", "beta 0.300", "--pcr", "20 Mbits"],
    &["circuit", "add", "alpha 0.300", "beta 0.300", "--category", "cbr"],
    &["circuit", "add", "alpha 0.300", "beta 0.300", "--category", "fast"],
    &["circuit", "add", "alpha 0.300", "beta 0.300", "--cdvt-us", "1 parsec"],
    &["circuit", "add", "alpha 0.300", "beta"],
    &["circuit", "add", "alpha 0.300", "beta 0.300", "--back", "pcr = "],
    &["circuit", "add", "alpha 0.300", "beta 0.300", "--monitoring", "100"],
    &["link", "add", "alpha:5", "s1:8", "--rate", "fast"],
    &["link", "add", "alpha:5", "s1:8", "--carries", "pigeons"],
    &["link", "add", "alpha:5"],
    &["link", "add", "alpha", "udp://host:1"],
    &["link", "add", "alpha", "atmtcp-tls://host:1"],
    &["call", "alpha", "1234"],
    &["call", "alpha", "{beta}", "--pcr", "fast"],
    &["call", "alpha", "{beta}", "--category", "fast"],
    &["call", "alpha", "{beta}", "--sap", "l9"],
    &["ping", "alpha", "100"],
    &["ping", "alpha", "0.100", "-W", "-1"],
    &["receive", "beta", "0.100", "--timeout", "later"],
    &["send", "alpha", "0.100", "--pdu", "0"],
    &["ttcp", "-t", "alpha", "0.100", "-l", "70000"],
    &["oam", "monitor", "alpha", "0.100", "--block", "100"],
    &["myrinet", "send", "barbican", "temple", "--octets", "0"],
    &["ip", "serve", "beta", "0.100", "--address", "10.0.0.300"],
    &["ip", "serve", "beta", "0.100", "--address", "10.0.0.2/24", "--mtu", "9"],
    &["lane", "tap", "alpha", "{beta}", "--address", "somewhere"],
    &["lane", "serve", "alpha", "--lan", "a name of more than thirty-two octets"],
    &["relay", "print"],
    &["relay", "write", "{dir}/file"],
    &["relay", "listen", "2812", "--patience", "long"],
    &["capture", "alpha:0 - s1:0", "{dir}/file", "--seconds", "many"],
    &["capture", "alpha:0 - s1:0", "{dir}/file", "--buffer", "0"],
    &["inject", "alpha", "0.100", "--hex", "0g"],
    &["inject", "alpha", "0.100", "--hex", "00", "--lose", "2"],
    &["apply", "{net}", "--confirm", "soon"],
    &["apply", "{net}", "--confirm", "0"],
    &["apply", "{net}", "--expect", "the last one"],
    &["completions", "no-such-shell"],
];
