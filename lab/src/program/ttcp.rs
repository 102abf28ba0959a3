//! `cellway-lab ttcp`: as `cellway ttcp`; PDUs can also leave from a window and come to one, or come by a modelled adapter.

mod adapter;
mod windows;

use crate::results::ttcp::Ttcp as Figures;
use anyhow::{Result, bail};
use cellway::client::Size;
use cellway::context::Context;
use cellway::output;
use cellway::ttcp::{self, Layer, MOST_OCTETS, Received, Sdus, Transport};
use clap::Args;
use endpoint::{Aal, ChannelId, Endpoint, SendError};
use remap::layers::udp_pdu;
use std::borrow::Cow;
use std::time::Duration;
use wire::CircuitId;

/// The port that datagrams are for: the classic program's.
const PORT: u16 = 5001;
/// Octets of LLC/SNAP, IP with the options that a datagram may have, and UDP.
const HEADER_OCTETS: u32 = 44;
/// Octets of the options that a datagram has where it has some.
const OPTION_OCTETS: usize = 8;

/// Measures throughput like `cellway ttcp`, with other methods to send and receive SDUs.
#[derive(Debug, Args)]
// The flattened one has the group of this name.
#[group(skip)]
pub(crate) struct Ttcp {
    #[command(flatten)]
    plain: ttcp::Ttcp,
    /// Send from the pages of a window, or map received pages into one, instead of copying; each side separately
    #[arg(long)]
    windows: bool,
    /// Receive by a modelled adapter whose driver predicts the destination of data and maps pages there; the circuit's
    /// cells are its line input
    #[arg(long, value_enum, conflicts_with = "windows")]
    adapter: Option<adapter::Model>,
    /// Send datagrams to UDP port 5001 over IP and LLC/SNAP, on a circuit that may have other users; receive them by an adapter
    #[arg(long, conflicts_with = "windows")]
    udp: bool,
    /// Send every Nth datagram with IP options
    #[arg(long, requires = "udp", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    ip_options: Option<u64>,
    /// Octets to send behind each datagram
    #[arg(long, requires = "udp", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=4096))]
    padding: u32,
}

impl Ttcp {
    /// Refuses what does not go together.
    fn check(&self) -> Result<()> {
        let plain = &self.plain;
        if self.windows && plain.aal == Layer::Aal34 {
            bail!("windows carry AAL5: leave --windows or --aal aal34 away");
        }
        if plain.transmit && self.adapter.is_some() {
            bail!("--adapter receives: give it with -r");
        }
        if plain.receive && (self.ip_options.is_some() || self.padding > 0) {
            bail!("--ip-options and --padding are the sender's: give them with -t");
        }
        if self.adapter.is_some() && plain.aal == Layer::Aal34 {
            bail!("the adapters carry AAL5: leave --adapter or --aal aal34 away");
        }
        if self.udp && plain.receive && self.adapter.is_none() {
            bail!("nobody takes datagrams apart here: give --adapter as well, or leave --udp away");
        }
        let room = MOST_OCTETS - HEADER_OCTETS - self.padding;
        if self.udp && plain.length > room {
            bail!("a datagram of {} octets is too long with its headers: give -l {room} or less", plain.length);
        }
        Ok(())
    }
}

/// `cellway-lab ttcp`
pub(crate) fn run(context: &Context, ttcp: &Ttcp) -> Result<()> {
    ttcp.check()?;
    let mut means = Means { ttcp, by: By::Plain };
    let plain = ttcp::measure(context, &ttcp.plain, &mut means)?;
    let (windows, adapter) = match &mut means.by {
        By::Plain => (None, None),
        By::Windows(window) => (Some(window.done()), None),
        By::Adapter(adapter) => (None, Some(adapter.done(plain.octets))),
    };
    let figures = Figures { plain, windows, adapter };
    output::print(context, &figures, || text(&figures))
}

/// How PDUs leave and come.
struct Means<'a> {
    ttcp: &'a Ttcp,
    by: By,
}

enum By {
    /// The endpoint's buffers.
    Plain,
    Windows(windows::Turns),
    Adapter(Box<adapter::Attached>),
}

impl Transport for Means<'_> {
    fn endpoint(&self, aal: Aal) -> (Aal, Size) {
        match (self.ttcp.adapter, self.ttcp.windows) {
            (Some(_), _) => (Aal::Aal0, Size::Cells),
            (None, true) => (aal, Size::Windows),
            (None, false) => (aal, Size::Large),
        }
    }

    fn begin(&mut self, endpoint: &mut Endpoint, circuit: CircuitId) -> Result<()> {
        let length = self.ttcp.plain.length as usize;
        self.by = match self.ttcp.adapter {
            Some(model) => By::Adapter(Box::new(adapter::Attached::new(model, circuit, self.ttcp.udp)?)),
            None if self.ttcp.windows => By::Windows(windows::Turns::new(endpoint, length)?),
            None => By::Plain,
        };
        Ok(())
    }

    fn frame<'d>(&self, data: &'d [u8], number: Option<u64>) -> Cow<'d, [u8]> {
        if !self.ttcp.udp {
            return Cow::Borrowed(data);
        }
        let has_options =
            number.zip(self.ttcp.ip_options).is_some_and(|(number, one_of)| number.is_multiple_of(one_of));
        let mut pdu = udp_pdu(PORT, if has_options { OPTION_OCTETS } else { 0 }, data);
        pdu.resize(pdu.len() + self.ttcp.padding as usize, 0);
        Cow::Owned(pdu)
    }

    fn send(&mut self, endpoint: &mut Endpoint, channel: ChannelId, sdus: &mut Sdus) -> Result<(), SendError> {
        match &mut self.by {
            By::Windows(window) => window.send(endpoint, channel, sdus.numbered()),
            _ => endpoint.send_copy(channel, sdus.pdu(self)),
        }
    }

    fn receive(&mut self, endpoint: &mut Endpoint, patience: Duration, wanted: bool) -> Result<Option<Received>> {
        Ok(match &mut self.by {
            By::Plain => ttcp::Plain.receive(endpoint, patience, wanted)?,
            By::Windows(window) => window.receive(endpoint, Some(patience), wanted)?,
            By::Adapter(adapter) => adapter.receive(endpoint, patience)?.map(|sdu| (sdu.len(), wanted.then_some(sdu))),
        })
    }
}

fn text(figures: &Figures) -> String {
    let windows = figures.windows.map(|w| {
        format!(
            "\nby windows: {} pages protected, {} of them copied, {} received pages mapped, {} octets copied",
            w.pages_protected, w.pages_copied, w.pages_mapped, w.octets_copied
        )
    });
    let adapter = figures.adapter.as_ref().map(|a| {
        format!(
            "\nby {}: {} PDUs as predicted, {} not, {} for nobody, {} dropped; {} trailers repaired, {} changes of buffers; {} pages \
             mapped, {} octets copied; memory crossed {:.2} times",
            a.name,
            a.pdus_predicted,
            a.pdus_mispredicted,
            a.pdus_unclaimed,
            a.pdus_dropped,
            a.trailers_repaired,
            a.strategies_changed,
            a.pages_mapped,
            a.octets_copied,
            a.crossings
        )
    });
    ttcp::text(&figures.plain) + &windows.unwrap_or_default() + &adapter.unwrap_or_default()
}
