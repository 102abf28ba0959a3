//! A TUN device over IP over ATM: the machine's own TCP/IP stack on circuits.

use super::shuttle;
use crate::ip::IpInterface;
use endpoint::Endpoint;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};
use tun_rs::{DeviceBuilder, SyncDevice};
use wire::Time;

/// A device and the endpoint whose circuits it leads to.
pub struct Tun {
    device: SyncDevice,
    endpoint: Endpoint,
    ip: IpInterface,
    epoch: Instant,
    mtu: usize,
}

impl std::fmt::Debug for Tun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tun").field("ip", &self.ip).finish_non_exhaustive()
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.endpoint.as_fd()
    }
}

impl Tun {
    /// Makes the device `name` with an address, over channels that are open on `endpoint`.
    ///
    /// # Errors
    /// No right to make one (`CAP_NET_ADMIN`), or no `/dev/net/tun`.
    pub fn new(
        name: &str,
        endpoint: Endpoint,
        address: Ipv4Addr,
        prefix: u8,
        mtu: usize,
        channels: &[u32],
    ) -> io::Result<Self> {
        let device = DeviceBuilder::new()
            .name(name)
            .ipv4(address, prefix, None)
            .mtu(u16::try_from(mtu).unwrap_or(u16::MAX))
            .build_sync()
            .map_err(|e| {
                let cure = "this needs CAP_NET_ADMIN and /dev/net/tun; without, use the in-process stack";
                io::Error::new(e.kind(), format!("TUN device {name}: {e} ({cure})"))
            })?;
        device.set_nonblocking(true)?;
        let mut ip = IpInterface::new(address, mtu);
        for channel in channels {
            ip.add_circuit(*channel, None, Time::ZERO);
        }
        Ok(Tun { device, endpoint, ip, epoch: Instant::now(), mtu })
    }

    /// Moves packets until `stop` says so; looks at it at least every 100 ms.
    ///
    /// # Errors
    /// The device or the service has gone.
    pub fn run(&mut self, mut stop: impl FnMut() -> bool) -> io::Result<()> {
        let mut packet = vec![0; self.mtu.max(1500) + 64];
        while !stop() {
            let now = Time::ZERO + self.epoch.elapsed();
            self.ip.handle_timeout(now);
            let mut any = shuttle(&mut self.endpoint, &mut self.ip, now);
            while let Some(packet) = self.ip.poll_packet() {
                match self.device.send(&packet) {
                    Ok(_) => {}
                    // The device's queue is full, or the packet is no IP: lost, as on any interface.
                    Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::InvalidInput) => {
                        self.ip.received.drop_one(wire::DropReason::QueueFull);
                    }
                    Err(e) => return Err(e),
                }
                any = true;
            }
            for _ in 0..32 {
                if self.ip.has_pdu() {
                    break;
                }
                match self.device.recv(&mut packet) {
                    Ok(n) => {
                        self.ip.handle_packet(&packet[..n]);
                        shuttle(&mut self.endpoint, &mut self.ip, now);
                        any = true;
                    }
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                    Err(e) => return Err(e),
                }
            }
            if !any {
                self.sleep()?;
            }
        }
        Ok(())
    }

    fn sleep(&mut self) -> io::Result<()> {
        self.endpoint.arm();
        let now = Time::ZERO + self.epoch.elapsed();
        if !shuttle(&mut self.endpoint, &mut self.ip, now) {
            let wait = Duration::from_millis(if self.ip.has_pdu() { 1 } else { 100 });
            let spec = Timespec { tv_sec: 0, tv_nsec: i64::from(wait.subsec_nanos()) };
            let mut fds = [
                PollFd::new(&self.device, PollFlags::IN),
                PollFd::from_borrowed_fd(self.endpoint.as_fd(), PollFlags::IN),
            ];
            match poll(&mut fds, Some(&spec)) {
                // A signal: the caller's `stop` knows whether it means the end.
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        self.endpoint.disarm();
        Ok(())
    }
}
