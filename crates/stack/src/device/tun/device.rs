//! The device itself: made, read, written. Packets go with a virtio header before them if there can be work left over.
//!
//! Each packet is one system call, made directly: the C library's may be cancelled, which each call prepares for.

use super::sys::leave_nothing;
use crate::ip::{VNET_OCTETS, VnetHeader};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, read, readv, write, writev};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

/// What a device is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceSettings {
    /// Its name.
    pub name: String,
    /// Its IPv4 address, and the bits of it that are the subnet's.
    pub address: Option<(Ipv4Addr, u8)>,
    /// Its IPv6 address, and the bits of it that are the link's.
    pub ipv6: Option<(Ipv6Addr, u8)>,
    /// The MAC address of a TAP device; without, one that the system draws.
    pub mac: Option<[u8; 6]>,
    /// Octets of the longest packet.
    pub mtu: usize,
    /// A TAP device, which gives and takes Ethernet frames; else a TUN device.
    pub ethernet: bool,
    /// Whether it may leave checksums and cutting over. One that cannot is made without.
    pub offload: bool,
    /// Whether packets with such work left over can be written to it, whatever it leaves over itself. One that cannot
    /// is made without.
    pub takes_long: bool,
    /// The network namespace to make it in; without, the calling thread's.
    pub namespace: Option<PathBuf>,
}

/// A TUN or TAP device. It is gone with its owner.
pub struct Device {
    device: SyncDevice,
    has_header: bool,
    mac: Option<[u8; 6]>,
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Device").field("has_header", &self.has_header).finish_non_exhaustive()
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

impl Device {
    /// Makes it; reading blocks until [`Device::set_nonblocking`].
    ///
    /// # Errors
    /// No right to make one (`CAP_NET_ADMIN`), no `/dev/net/tun`, no such namespace.
    pub fn new(settings: &DeviceSettings) -> io::Result<Self> {
        match &settings.namespace {
            None => build(settings),
            // A thread's namespace cannot always be left again: this one ends.
            Some(path) => std::thread::scope(|scope| {
                let made = scope.spawn(|| enter(path).and_then(|()| build(settings)));
                made.join().unwrap_or_else(|_| Err(io::Error::other("the thread that makes the device has panicked")))
            }),
        }
    }

    /// Lets reads return at once with [`ErrorKind::WouldBlock`] where nothing waits.
    ///
    /// # Errors
    /// As the system says.
    pub fn set_nonblocking(&self) -> io::Result<()> {
        self.device.set_nonblocking(true)
    }

    /// Gives a TAP device its MAC address.
    ///
    /// # Errors
    /// As the system says.
    pub fn set_mac(&self, mac: [u8; 6]) -> io::Result<()> {
        self.device.set_mac_address(mac)
    }

    /// The MAC address that a TAP device was made with.
    pub fn mac(&self) -> Option<[u8; 6]> {
        self.mac
    }

    /// Whether packets go with a header: those that are written may be long, and, of a device made so, those that are
    /// read.
    pub fn has_header(&self) -> bool {
        self.has_header
    }

    /// Reads a packet into `packet`; gives its header as it came, zeros from a device without, and its octets.
    ///
    /// # Errors
    /// As the system says.
    pub fn read(&self, packet: &mut [u8]) -> io::Result<([u8; VNET_OCTETS], usize)> {
        let mut header = [0; VNET_OCTETS];
        let octets = if self.has_header {
            let mut parts = [IoSliceMut::new(&mut header), IoSliceMut::new(packet)];
            readv(self, &mut parts).map_err(named)?.saturating_sub(VNET_OCTETS)
        } else {
            read(self, packet).map_err(named)?
        };
        Ok((header, octets))
    }

    /// Writes a packet.
    ///
    /// # Errors
    /// As the system says.
    pub fn write(&self, header: &[u8; VNET_OCTETS], packet: &[u8]) -> io::Result<()> {
        let written = if self.has_header {
            writev(self, &[IoSlice::new(header), IoSlice::new(packet)])
        } else {
            write(self, packet)
        };
        written.map_err(named).map(|_| ())
    }

    /// As [`Device::write`], with nothing left over.
    ///
    /// # Errors
    /// As the system says.
    pub fn write_whole(&self, packet: &[u8]) -> io::Result<()> {
        self.write(&VnetHeader::default().to_octets(), packet)
    }
}

/// A device that somebody has deleted, alone or with its namespace, says `EBADFD`, which tells nobody anything.
fn named(e: Errno) -> io::Error {
    match e {
        Errno::BADFD => io::Error::new(ErrorKind::NotConnected, "the device has been deleted"),
        e => e.into(),
    }
}

fn enter(namespace: &Path) -> io::Result<()> {
    let said = |e: io::Error| io::Error::new(e.kind(), format!("network namespace {}: {e}", namespace.display()));
    // What is no namespace is refused, a FIFO without waiting for who writes to it.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = open(namespace, flags, Mode::empty()).map_err(|e| said(e.into()))?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).map_err(|e| said(e.into()))
}

fn build(settings: &DeviceSettings) -> io::Result<Device> {
    let DeviceSettings { name, mtu, ethernet, offload, takes_long, .. } = settings;
    let build = |has_header| {
        let mut builder = DeviceBuilder::new()
            .name(name)
            .layer(if *ethernet { Layer::L2 } else { Layer::L3 })
            .offload(has_header)
            .mtu(u16::try_from(*mtu).unwrap_or(u16::MAX));
        if let Some((address, prefix)) = settings.address {
            builder = builder.ipv4(address, prefix, None);
        }
        if let Some((address, prefix)) = settings.ipv6 {
            builder = builder.ipv6(address, prefix);
        }
        if let Some(mac) = settings.mac.filter(|_| *ethernet) {
            builder = builder.mac_addr(mac);
        }
        let device = builder.build_sync()?;
        if has_header && !offload {
            leave_nothing(device.as_fd())?;
        }
        Ok(device)
    };
    let device = if *offload || *takes_long { build(true).or_else(|_: io::Error| build(false)) } else { build(false) };
    let device = device.map_err(|e| {
        let cure = match e.kind() {
            ErrorKind::PermissionDenied | ErrorKind::NotFound => {
                " (this needs CAP_NET_ADMIN and /dev/net/tun; without, use the in-process stack)"
            }
            _ => "",
        };
        io::Error::new(e.kind(), format!("device {name}: {e}{cure}"))
    })?;
    let has_header = device.tcp_gso();
    // The system is asked by the device's name, in the namespace that this thread is in.
    let mac = ethernet.then(|| device.mac_address()).transpose()?;
    Ok(Device { device, has_header, mac })
}
