//! Where IP packets come from and go to: a TUN device, or a TCP/IP stack in this process.

pub mod inprocess;
pub mod netstack;
pub mod tun;

use crate::ip::IpInterface;
use endpoint::{ChannelId, Endpoint, SendError};
use wire::Time;

/// Moves PDUs between an interface and its endpoint, as far as rings and queues allow. True if any moved.
pub(crate) fn shuttle(endpoint: &mut Endpoint, ip: &mut IpInterface, now: Time) -> bool {
    let mut any = false;
    for _ in 0..32 {
        let Some(pdu) = endpoint.try_receive() else { break };
        ip.handle_pdu(pdu.channel().0, &pdu, now);
        any = true;
    }
    while let Some((channel, pdu)) = ip.poll_pdu() {
        match endpoint.send_copy(ChannelId(channel), &pdu) {
            Err(SendError::Full) => {
                ip.unpoll_pdu(channel, pdu);
                break;
            }
            // What does not fit a buffer is beyond the MTU, which the interface has checked.
            Ok(()) | Err(_) => any = true,
        }
    }
    any
}
