//! Where IP packets and Ethernet frames come from and go to: a TUN or TAP device, a TCP/IP stack in this process, or
//! `pppd`.

pub mod calls;
pub mod inprocess;
pub mod lane;
pub mod netstack;
pub mod pppd;
pub mod tun;
