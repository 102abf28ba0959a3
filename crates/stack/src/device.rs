//! Where IP packets come from and go to: a TUN or TAP device, a TCP/IP stack in this process, or `pppd`.

pub mod inprocess;
pub mod netstack;
pub mod pppd;
pub mod tun;
