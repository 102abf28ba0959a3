//! Where IP packets come from and go to: a TUN or TAP device, a TCP/IP stack in this process, or `pppd`.

pub mod inprocess;
pub mod netstack;
pub mod pppd;
pub mod tun;

use crate::ip::IpInterface;
use endpoint::{ChannelId, Endpoint};

/// Sends what the interface itself has to say, as far as the ring allows. True if anything was.
pub(crate) fn speak(endpoint: &mut Endpoint, ip: &mut IpInterface) -> bool {
    let mut any = false;
    let mut sdu = [0; wire::atmarp::MAX_OCTETS + wire::llc::ROUTED_OCTETS];
    while ip.has_pdu() && endpoint.send_space() > 0 {
        let Some((circuit, octets)) = ip.poll_pdu(&mut sdu) else { break };
        // What finds no buffer after all is asked again when its time comes.
        any |= endpoint.send_copy(ChannelId(circuit), &sdu[..octets]).is_ok();
    }
    any
}
