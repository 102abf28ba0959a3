//! The rooms of the project, and each crate with what it contains and which others it may use. The tables of the pages on the
//! architecture are made of this.

/// Folders of packages.
pub const ROOMS: &[Room] = &[
    Room { folder: "crates", page: "ARCHITECTURE.md", crates: CRATES },
    Room { folder: "adapters", page: "adapters/ARCHITECTURE.md", crates: ADAPTERS },
    Room { folder: "bindings", page: "bindings/ARCHITECTURE.md", crates: BINDINGS },
];

/// One room.
#[derive(Debug)]
pub struct Room {
    /// Its folder.
    pub folder: &'static str,
    /// The page with its table.
    pub page: &'static str,
    /// What stands in it, from the bottom.
    pub crates: &'static [Crate],
}

/// One crate.
#[derive(Debug)]
pub struct Crate {
    /// Its name.
    pub name: &'static str,
    /// What lives there.
    pub contents: &'static str,
    /// Crates of the project that it may use, and does.
    pub uses: &'static [&'static str],
}

const CRATES: &[Crate] = &[
    Crate {
        name: "wire",
        contents: "formats as typed views over octets: cells, HEC, AAL0, AAL5, OAM, LLC/SNAP, ATMARP, ATM over TCP, cells in UDP, \
                   ERF, signalling (SSCOP, Q.2931, ILMI, LANE); the vocabulary (`CircuitId`, `Cell`, `Counters`, `DropReason`, `Time`)",
        uses: &[],
    },
    Crate {
        name: "sar",
        contents: "segmentation and reassembly between cells and the caller's buffers, by the vector kernel that fits the processor \
                   (`kernel/`)",
        uses: &["wire"],
    },
    Crate {
        name: "traffic",
        contents: "contracts, policing (GCRA, and F-GCRA by frames), pacing, admission. [docs/contracts.md](docs/contracts.md)",
        uses: &["wire"],
    },
    Crate {
        name: "switch",
        contents: "the cell switch as a state machine: label table by index, circuits of one cache line, cell store, queues by \
                   circuit, discard, credits, transactions on the table. [docs/switch.md](docs/switch.md)",
        uses: &["wire", "traffic"],
    },
    Crate {
        name: "net",
        contents: "shards, links, switches, the gateway between cells and frames, topology. [docs/network.md](docs/network.md)",
        uses: &["wire", "sar", "traffic", "switch"],
    },
    Crate {
        name: "links",
        contents: "links from a network to sockets: ATM over TCP, TLS, cells over UDP and TCP, the relay. \
                   [docs/network.md](docs/network.md#links-to-elsewhere)",
        uses: &["wire", "sar", "traffic", "net"],
    },
    Crate {
        name: "remap",
        contents: "single copy by pages: address spaces, scatter-gather lists, prediction of alignment; no system calls",
        uses: &["wire"],
    },
    Crate {
        name: "endpoint",
        contents: "the library that applications link: endpoint, shared segment, rings, lent memory, direct circuits, calls, the \
                   control protocol. [docs/shared-memory.md](docs/shared-memory.md)",
        uses: &["wire", "remap"],
    },
    Crate {
        name: "active-messages",
        contents: "Active Messages on endpoints and on direct circuits: requests, replies, handlers, bulk put and get. \
                   [docs/active-messages.md](docs/active-messages.md)",
        uses: &["wire", "endpoint"],
    },
    Crate {
        name: "host",
        contents: "the host interface (a node of a network), the engine's thread, the service and its proxies: processes that hold \
                   the clients' connections",
        uses: &["wire", "sar", "traffic", "switch", "net", "endpoint"],
    },
    Crate {
        name: "stack",
        contents: "protocols on circuits: IP over ATM by an endpoint or at the end of a link, InATMARP, LAN emulation \
                   ([docs/lane.md](docs/lane.md)), OAM loopback, reliable transfer",
        uses: &["wire", "sar", "net", "endpoint"],
    },
    Crate {
        name: "uni",
        contents: "signalling as state machines: SSCOP and its convergence function, call control of an interface and of a switch, \
                   ILMI. [docs/calls.md](docs/calls.md)",
        uses: &["wire", "traffic"],
    },
    Crate {
        name: "control",
        contents: "the decisions of a daemon: descriptions, changes, access rights, status, management, captures; the registry of \
                   kinds of station (`kinds/`)",
        uses: &["wire", "sar", "traffic", "switch", "net", "links", "endpoint", "host", "stack", "uni"],
    },
    Crate {
        name: "compat",
        contents: "Linux's ATM sockets for unmodified programs: a preloaded library. [docs/from-linux-atm.md](docs/from-linux-atm.md)",
        uses: &["wire", "endpoint"],
    },
    Crate {
        name: "cellway",
        contents: "the program: a file for each command under `commands/`; what both programs share is its library",
        uses: &["wire", "sar", "net", "links", "endpoint", "host", "stack", "control", "eni155p", "apic", "lanai"],
    },
];

const ADAPTERS: &[Crate] = &[
    Crate {
        name: "bus",
        contents: "the host's memory and bus as an adapter sees them: memory behind a trait, page frames and their translation \
                   (`iocc`, `paged`), other cards (`peers`), what crosses the bus; sockets of a driver",
        uses: &["wire", "remap"],
    },
    Crate {
        name: "eni155p",
        contents: "the Efficient Networks ENI155P: segmentation and reassembly (\"Midway\"), PCI bridge (\"Tonga\"), line framer; its \
                   driver; its vfio-user server for virtual machines (`vfio/`). \
                   [docs/virtual-adapters.md](../docs/virtual-adapters.md)",
        uses: &["wire", "sar", "traffic", "net", "remap", "endpoint", "bus", "control"],
    },
    Crate {
        name: "jit",
        contents: "an adapter with just-in-time DMA after Almesberger (1995), and one without an adaptation layer (`plain`)",
        uses: &["wire", "sar", "traffic", "remap", "bus"],
    },
    Crate {
        name: "penn",
        contents: "the Segmenter and the Reassembler of Traw and Smith (1993): the cards, their reassembly in lists of cells, their \
                   driver. [docs/penn.md](../docs/penn.md)",
        uses: &["wire", "traffic", "bus"],
    },
    Crate {
        name: "oc12",
        contents: "the second generation of these cards, on one board, at OC-12c",
        uses: &["wire", "sar", "traffic", "bus", "penn"],
    },
    Crate {
        name: "apic",
        contents: "the ATM Port Interconnect Controller, a switch of three ports on a chip; desk-area networks of them with cameras, \
                   displays, stores (`desk/`), and these as a kind of station (`kind/`). [docs/desk.md](../docs/desk.md)",
        uses: &["wire", "sar", "traffic", "net", "bus", "control"],
    },
    Crate {
        name: "lanai",
        contents: "the Myrinet interface and its control program; links, switches, routes and mapping of a Myrinet (`fabric/`); \
                   circuits over it (`myrinet/`); Myrinets as a kind of station (`kind/`). [docs/myrinet.md](../docs/myrinet.md)",
        uses: &["wire", "sar", "net", "bus", "control"],
    },
];

const BINDINGS: &[Crate] = &[
    Crate {
        name: "c",
        contents: "the C library, `libcellway.so.0`: opaque handles, loans, batches, codes (`c/`). Its header is written by hand, \
                   its symbols have versions",
        uses: &["endpoint"],
    },
    Crate {
        name: "python",
        contents: "the Python module (`python/`): objects with the buffer protocol; in Python itself asyncio, the control client \
                   of the protocol's schema, captures, scapy layers",
        uses: &["endpoint"],
    },
];

/// These see everything: the laboratory, and what tests the whole.
pub const ABOVE_ALL: &[&str] = &["lab", "interop", "house", "fuzz-targets", "hostile", "bindings"];

/// Before and behind the table of a page.
pub const MARKS: [&str; 2] =
    ["<!-- made by the tests of tests/house, CELLWAY_WRITE=1 -->\n", "<!-- end of what is made -->\n"];

/// The table of a room, as its page has it.
pub fn table(room: &Room) -> String {
    let row = |each: &Crate| {
        let contents = each.contents.split_whitespace().collect::<Vec<_>>().join(" ");
        let uses = if each.uses.is_empty() { "-".into() } else { each.uses.join(", ") };
        format!("| `{}` | {contents} | {uses} |\n", each.name)
    };
    let rows: String = room.crates.iter().map(row).collect();
    format!("| crate | contents | uses |\n|---|---|---|\n{rows}")
}
