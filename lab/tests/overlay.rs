//! TCP/IP through two cards as one device: hosts with a Segmenter and a Reassembler each, a wire between them.

use lab::overlay::OverlayHost;
use smoltcp::iface::SocketHandle;
use std::net::Ipv4Addr;
use std::time::Duration;
use wire::{Cell, Time};

const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
const PORT: u16 = 5001;

struct Transfer {
    hosts: [OverlayHost; 2],
    sockets: [SocketHandle; 2],
    now: Time,
    /// Octets to send each way; sent and received, by host.
    data: [Vec<u8>; 2],
    sent: [usize; 2],
    received: [Vec<u8>; 2],
    cells: u64,
}

impl Transfer {
    fn new(octets: [usize; 2], tick: Duration) -> Self {
        let of = |number: usize| OverlayHost::new(ADDRESSES[number], number as u16 + 1, 9180, tick).unwrap();
        let mut hosts = [of(0), of(1)];
        let listens = hosts[1].stack().listen(PORT).unwrap();
        let connects = hosts[0].stack().connect(ADDRESSES[1], PORT, 50_000).unwrap();
        let data = [0, 1].map(|n: usize| (0..octets[n]).map(|i| (i * 31 + i / 251 + n) as u8).collect());
        let (sent, received) = ([0; 2], [Vec::new(), Vec::new()]);
        Transfer { hosts, sockets: [connects, listens], now: Time::ZERO, data, sent, received, cells: 0 }
    }

    fn is_over(&self) -> bool {
        self.received[0].len() >= self.data[1].len() && self.received[1].len() >= self.data[0].len()
    }

    /// Applications write what there is room for and read what is there.
    fn applications(&mut self) {
        for at in 0..2 {
            let host = &mut self.hosts[at];
            let socket = host.stack().tcp_socket(self.sockets[at]);
            let mut used = false;
            if socket.may_send() && self.sent[at] < self.data[at].len() {
                let n = socket.send_slice(&self.data[at][self.sent[at]..]).unwrap();
                self.sent[at] += n;
                used |= n > 0;
            }
            while socket.can_recv() {
                let take = |octets: &mut [u8]| (octets.len(), octets.to_vec());
                self.received[at].extend(socket.recv(take).unwrap());
                used = true;
            }
            if used {
                host.wake();
            }
        }
    }

    /// Runs until all has come; each `lost`th cell is lost.
    fn run(&mut self, limit: Time, lost: u64) {
        let mut cells = [Cell::default(); 8];
        while !self.is_over() && self.now < limit {
            self.applications();
            let now = self.now;
            let next = self.hosts.iter_mut().map(|host| host.poll_timeout(now)).min().unwrap();
            self.now = next.max(now);
            let now = self.now;
            for at in 0..2 {
                let n = self.hosts[at].cards().fill(&mut cells, now);
                for cell in &cells[..n] {
                    self.cells += 1;
                    if lost == 0 || !self.cells.is_multiple_of(lost) {
                        self.hosts[1 - at].cards().handle_cells(std::slice::from_ref(cell), now);
                    }
                }
            }
            for host in &mut self.hosts {
                host.handle_timeout(now).unwrap();
            }
        }
    }
}

/// E-8: a connection between two such hosts, both ways at once: each PDU of each goes out by one card and comes in by the other.
#[test]
fn tcp_goes_both_ways_through_two_cards_that_are_one_device() {
    let mut transfer = Transfer::new([300_000, 100_000], Duration::from_millis(2));
    transfer.run(Time::from_millis(20_000), 0);
    assert!(transfer.received[1] == transfer.data[0] && transfer.received[0] == transfer.data[1]);
    let counters = [0, 1].map(|at: usize| transfer.hosts[at].cards().counters());
    for at in 0..2 {
        let ([sent, _], [_, received]) = (counters[at], counters[1 - at]);
        // The connection's last acknowledgements may be on their way.
        assert!(sent.pdus > 10 && received.pdus > 0 && sent.pdus - received.pdus <= 4, "{sent:?} {received:?}");
        assert!(received.dropped_total() == 0 && sent.dropped_total() == 0);
    }
    let seconds = transfer.now.as_secs_f64();
    assert!(seconds < 1.0, "{seconds} s for 400 kB: windows wait for ticks of 2 ms, and for nothing longer");
}

/// A PDU that has lost a cell is shorter, and no application sees that.
#[test]
fn lost_cells_are_sent_again_by_tcp_and_never_delivered_as_something_else() {
    let mut transfer = Transfer::new([200_000, 0], Duration::from_millis(2));
    transfer.run(Time::from_millis(200_000), 1013);
    assert!(transfer.received[1] == transfer.data[0], "{} of 200000 octets", transfer.received[1].len());
    assert!(transfer.cells > 200_000 / 44 + 200, "some were sent again: {} cells", transfer.cells);
}
