//! What the element knows of a route beside the cell switch's table: where its frames go, and what was counted of them.

use crate::frame::{Frame, FrameAal, counted};
use crate::node::NodeIo;
use crate::sparse::SparseCounters;
use std::time::Duration;
use traffic::{Contract, Flow};
use wire::{Counters, DropReason, Label, Vci};

/// Cells that a switch keeps for a circuit with credits where nothing else is asked for.
pub const DEFAULT_WINDOW: u16 = 2048;

/// How long a gateway waits for the next cell of a PDU.
pub(super) const REASSEMBLY_TIMEOUT: Duration = Duration::from_secs(5);

/// What matters of a route beyond its labels.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RouteOptions {
    /// The adaptation layer of a channel: how its cells become frames.
    pub aal: FrameAal,
    /// By what its cells are policed where they come in, and shaped, ordered and dropped where they leave. Its CDVT is
    /// that of this switch's input.
    pub contract: Contract,
}

impl RouteOptions {
    /// The profile in a switch with a queue of `queue_cells` at each port.
    pub(super) fn profile(self, queue_cells: u32) -> switch::Profile {
        let profile = switch::Profile::of(&self.contract, self.aal == FrameAal::Aal5, queue_cells);
        match self.contract.flow {
            Flow::BestEffort => profile,
            Flow::Credit => switch::Profile {
                flow: switch::Flow::Credit { window: DEFAULT_WINDOW },
                class: profile.class,
                pdu_cells: profile.pdu_cells,
                ..switch::Profile::default()
            },
        }
    }

    /// Whether its cells may not pass the cell switch by.
    pub(super) fn is_managed(&self) -> bool {
        !self.contract.is_plain()
    }
}

/// Why a route cannot be added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// The switch has fewer ports.
    #[error("no port {0}")]
    NoPort(u16),
    /// A path cannot become a channel, nor a channel a path.
    #[error("a path goes out as a path, a channel as a channel")]
    Mixed,
    /// The route goes to this port already.
    #[error("goes to port {0} already")]
    Exists(u16),
    /// The bound of the configuration.
    #[error("no more than {0} routes")]
    Full(usize),
    /// The element translates channels only.
    #[error("no virtual paths here: name each channel")]
    NoPaths,
    /// An element in a switch's place has no room for it.
    #[error("{0}")]
    Refused(&'static str),
    /// The cell switch's table refuses it.
    #[error(transparent)]
    Table(#[from] switch::ChangeError),
}

/// What translates circuits between its ports: a switch, or another element in its place.
pub trait RouteTable {
    /// Lets what comes in at a port under a label go out at another port under another. A second output makes the route
    /// point-to-multipoint.
    ///
    /// # Errors
    /// [`RouteError`], and nothing has changed.
    fn add_route(&mut self, from: (u16, Label), to: (u16, Label), options: RouteOptions) -> Result<(), RouteError>;

    /// Gives the branch of a route that leaves by `to` another contract; what waits stays.
    ///
    /// # Errors
    /// [`RouteError`], and nothing has changed.
    fn change_route(&mut self, from: (u16, Label), to: (u16, Label), options: RouteOptions) -> Result<(), RouteError>;

    /// Ends one branch of a route, or with `out_port` `None` the route. Returns whether it was there.
    fn remove_route(&mut self, port: u16, label: Label, out_port: Option<u16>) -> bool;

    /// A channel of the path that comes in at `from` and leaves at `to` is a new circuit's: what was sent on it before
    /// goes nowhere.
    fn set_up_channel(&mut self, _from: (u16, Label), _to: (u16, Label), _vci: Vci) {}
}

/// One branch of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BranchInfo {
    /// Port it leaves by.
    pub port: u16,
    /// Its label there.
    pub label: Label,
    /// What was sent, and what was dropped: cells, and of PDUs those that went as whole frames.
    pub sent: Counters,
    /// Cells that wait.
    pub queued: u64,
}

/// One route of a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteInfo {
    /// Port it comes in by.
    pub port: u16,
    /// Its label there.
    pub label: Label,
    /// Where it goes.
    pub branches: Vec<BranchInfo>,
    /// What came in, and PDUs that could not be reassembled for a frame port.
    pub received: Counters,
}

/// A branch as the element keeps it, beside the cell switch's counters.
#[derive(Debug)]
pub(super) struct Branch {
    pub(super) port: u16,
    pub(super) label: Label,
    /// PDUs that went as whole frames, and what became of them.
    pub(super) sent: SparseCounters,
}

#[derive(Debug)]
pub(super) struct Route {
    pub(super) port: u16,
    pub(super) label: Label,
    /// Whether its cells may not pass the cell switch by.
    pub(super) managed: bool,
    pub(super) branches: Vec<Branch>,
    /// Frames that came in, and what was lost at frame ports.
    pub(super) received: SparseCounters,
    /// Frames for which branches or drops must answer: one that is passed whole, once for each branch; one too long for
    /// a PDU.
    pub(super) units: u64,
    /// AAL3/4's tag of the next SDU.
    pub(super) tag: u8,
}

// Each call has two routes with a branch each: what they take decides how many calls a machine holds.
const _: () = assert!(size_of::<Route>() <= 104 && size_of::<Branch>() <= 40);

impl Route {
    pub(super) fn new(port: u16, label: Label, options: RouteOptions) -> Self {
        let (branches, received) = (Vec::with_capacity(1), SparseCounters::default());
        Route { port, label, managed: options.is_managed(), branches, received, units: 0, tag: 0 }
    }

    /// The only branch, if its frames may pass the cell switch by.
    pub(super) fn only_plain_branch(&mut self) -> Option<&mut Branch> {
        match &mut self.branches[..] {
            [only] if !self.managed => Some(only),
            _ => None,
        }
    }

    /// What is known of it: frames here, cells from the cell switch.
    pub(super) fn info(&self, cells: &switch::Switch) -> RouteInfo {
        let info =
            |branch: &Branch| BranchInfo { port: branch.port, label: branch.label, sent: branch.sent.all(), queued: 0 };
        let (mut received, mut branches) = (self.received.all(), self.branches.iter().map(info).collect::<Vec<_>>());
        if let Some(known) = cells.route((self.port, self.label)) {
            add_cells(&mut received, known.counters.received);
            for branch in &mut branches {
                let to = known.branches.iter().find(|known| known.to == (branch.port, branch.label));
                if let Some(counters) = to.map(|to| to.counters) {
                    add_cells(&mut branch.sent, counters.sent());
                    branch.sent.drop_n(DropReason::QueueFull, counters.dropped);
                    branch.queued = counters.queued.into();
                }
            }
        }
        RouteInfo { port: self.port, label: self.label, branches, received }
    }
}

fn add_cells(counters: &mut Counters, cells: u64) {
    counters.cells = counters.cells.wrapping_add(cells);
    counters.octets = counters.octets.wrapping_add(cells.wrapping_mul(wire::cell::PAYLOAD_OCTETS as u64));
}

/// A label as a table's key.
pub(super) fn key(label: Label) -> u32 {
    match label {
        Label::Vc(circuit) => circuit.key(),
        Label::Vp(vpi) => vpi.get().into(),
    }
}

/// Sends a frame, or drops it, counted at the link; gives what is to be counted at its circuit.
pub(super) fn put_frame(frame: Frame, port: usize, io: &mut NodeIo<'_>) -> Result<[u64; 3], DropReason> {
    let counted = counted(frame.aal, frame.len());
    io.put_frame(port, frame).map(|()| counted).map_err(|frame| {
        io.pool_mut().release(frame);
        io.count_drops(port, DropReason::QueueFull, 1);
        DropReason::QueueFull
    })
}

/// Sends a frame, or drops it, and counts either.
pub(super) fn send_frame(frame: Frame, port: usize, io: &mut NodeIo<'_>, sent: &mut Counters) {
    match put_frame(frame, port, io) {
        Ok(counted) => sent.pass(counted),
        Err(reason) => sent.drop_one(reason),
    }
}
