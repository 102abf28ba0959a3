//! The echo in a mio loop, which may wait for other descriptors too: `mio_echo beta 0.100`.
use endpoint::{EndpointConfig, OpenOptions, SendError, Service};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use std::os::fd::{AsFd as _, AsRawFd as _};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let (host, circuit) = words.next().zip(words.next()).ok_or("usage: mio_echo HOST VPI.VCI")?;
    let config = EndpointConfig { host, ..EndpointConfig::default() };
    let mut endpoint = Service::connect_default()?.endpoint(&config)?;
    let channel = endpoint.open(circuit.parse()?, OpenOptions::default())?;
    let (mut poll, mut events) = (Poll::new()?, Events::with_capacity(16));
    let fd = endpoint.as_fd().as_raw_fd();
    poll.registry().register(&mut SourceFd(&fd), Token(0), Interest::READABLE)?;
    loop {
        endpoint.arm();
        // What has come before `arm` is told by no bell.
        while let Some(sdu) = endpoint.try_receive().map(|sdu| sdu.to_vec()) {
            while endpoint.send_copy(channel, &sdu) == Err(SendError::Full) {
                endpoint.wait_send(None)?;
            }
            endpoint.arm();
        }
        poll.poll(&mut events, None)?;
        endpoint.disarm()?;
    }
}
