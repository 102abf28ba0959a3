//! The innocent circuit: a PDU each millisecond, and how long each took.

use crate::field::Field;
use endpoint::{ChannelId, Endpoint, EndpointConfig, Geometry, SendError};
use std::time::{Duration, Instant};

/// A PDU that takes longer is lost.
const PATIENCE: Duration = Duration::from_millis(2500);
/// From one PDU to the next.
const PAUSE: Duration = Duration::from_millis(1);
/// Inside a descriptor, in one buffer of few cells, in many cells.
const SIZES: [usize; 3] = [40, 1500, 9180];

/// What became of the innocent circuit's PDUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Report {
    /// Sent, or tried.
    pub sent: usize,
    /// Not delivered in time, or not taken.
    pub lost: usize,
    /// Delivered with other octets.
    pub damaged: usize,
    /// The longest time from `send` to the receiver's `receive`.
    pub worst: Duration,
}

/// Sender and receiver of an innocent circuit.
#[derive(Debug)]
pub struct Watch {
    sender: Endpoint,
    channel: ChannelId,
    receiver: Endpoint,
}

impl Watch {
    /// Opens a circuit at both ends.
    ///
    /// # Panics
    /// If the service refuses it.
    pub fn new(field: &impl Field, from: &str, to: &str, vci: u16, geometry: Geometry) -> Self {
        let open =
            |host: &str| field.open_as(vci, &EndpointConfig { host: host.into(), geometry, ..Default::default() });
        let (sender, channel) = open(from);
        let (receiver, _) = open(to);
        Watch { sender, channel, receiver }
    }

    /// Sends and receives while `goes_on`, ten PDUs at least.
    pub fn run(&mut self, mut goes_on: impl FnMut() -> bool) -> Report {
        let mut report = Report::default();
        while report.sent < 10 || goes_on() {
            self.exchange(&mut report);
            // None may be lost; more patience shows nothing else.
            if report.lost > 0 {
                break;
            }
            std::thread::sleep(PAUSE);
        }
        report
    }

    fn exchange(&mut self, report: &mut Report) {
        let number = report.sent;
        report.sent += 1;
        let sdu: Vec<u8> = (0..SIZES[number % SIZES.len()]).map(|i| (i * 31 + number) as u8).collect();
        let begin = Instant::now();
        match self.sender.send_copy(self.channel, &sdu) {
            Ok(()) => {}
            Err(SendError::Full) => return report.lost += 1,
            Err(error) => panic!("the innocent sender: {error}"),
        }
        match self.receiver.receive(Some(PATIENCE)) {
            Ok(Some(got)) => {
                report.worst = report.worst.max(begin.elapsed());
                report.damaged += usize::from(got[..] != sdu);
            }
            Ok(None) => report.lost += 1,
            Err(error) => panic!("the innocent receiver: {error}"),
        }
    }
}
