//! A capture as pcapng with one ERF interface: cells as type 3, AAL5 PDUs, put together where cells pass, as type 4. At
//! its end stands how many cells or frames were missed.

use super::What;
use super::assemble::{Passed, Recorder, Sink};
use anyhow::Result;
use net::Side;
use pcap_file::DataLink;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{InterfaceDescriptionBlock, InterfaceDescriptionOption};
use pcap_file::pcapng::blocks::interface_statistics::{InterfaceStatisticsBlock, InterfaceStatisticsOption};
use std::borrow::Cow;
use std::io::Write;
use std::time::Duration;
use wire::erf::{Head, LINKTYPE};

/// Octets of a PDU that a record has room for.
const MAX_PAYLOAD_OCTETS: usize = 65_000;

/// Writes records.
pub(crate) struct Pcapng<W: Write>(PcapNgWriter<W>);

impl<W: Write> Pcapng<W> {
    pub(crate) fn new(out: W, link: &str) -> Result<Self> {
        let mut out = PcapNgWriter::new(out)?;
        out.write_pcapng_block(InterfaceDescriptionBlock {
            linktype: DataLink::Unknown(u32::from(LINKTYPE)),
            snaplen: 0,
            options: vec![
                InterfaceDescriptionOption::IfName(Cow::Owned(link.to_owned())),
                InterfaceDescriptionOption::IfTsResol(9),
            ],
        })?;
        Ok(Pcapng(out))
    }
}

impl<W: Write> Recorder<Pcapng<W>> {
    pub(crate) fn new(out: W, link: &str, what: What, epoch: Duration) -> Result<Self> {
        Ok(Recorder::to(Pcapng::new(out, link)?, what, epoch))
    }
}

impl<W: Write> Sink for Pcapng<W> {
    fn write(&mut self, passed: &Passed<'_>) -> Result<bool> {
        let payload = &passed.payload[..passed.payload.len().min(MAX_PAYLOAD_OCTETS)];
        let interface = u8::from(passed.side == Side::B);
        let Passed { time, kind, header, .. } = *passed;
        let head = Head { time, kind, interface, header, payload_octets: payload.len() as u16 };
        let mut data = head.emit().to_vec();
        data.extend_from_slice(payload);
        self.0.write_pcapng_block(EnhancedPacketBlock {
            interface_id: 0,
            timestamp: time,
            original_len: data.len() as u32,
            data: Cow::Owned(data),
            options: Vec::new(),
        })?;
        Ok(true)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(self.0.get_mut().flush()?)
    }

    fn finish(&mut self, latest: Duration, missed: u64) -> Result<()> {
        self.0.write_pcapng_block(InterfaceStatisticsBlock {
            interface_id: 0,
            timestamp: latest.as_nanos() as u64,
            options: vec![InterfaceStatisticsOption::IsbIfDrop(missed)],
        })?;
        self.flush()
    }
}
