//! The echo as a tokio task, beside others on its thread: `tokio_echo beta 0.100`.
use endpoint::{Endpoint, EndpointConfig, OpenOptions, SendError, Service};
use std::os::fd::AsFd as _;
use tokio::io::Interest;
use tokio::net::UnixStream;

/// The next SDU; the thread runs other tasks until it has come.
async fn receive(endpoint: &mut Endpoint, bell: &UnixStream) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    loop {
        endpoint.arm();
        // What has come before `arm` is told by no bell.
        if let Some(sdu) = endpoint.try_receive() {
            return Ok(sdu.to_vec());
        }
        bell.readable().await?;
        endpoint.disarm()?;
        // The bell is empty by now: the next `readable` waits.
        let empty = || Err::<(), _>(std::io::ErrorKind::WouldBlock.into());
        let _ = bell.try_io(Interest::READABLE, empty);
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let (host, circuit) = words.next().zip(words.next()).ok_or("usage: tokio_echo HOST VPI.VCI")?;
    let config = EndpointConfig { host, ..EndpointConfig::default() };
    let mut endpoint = Service::connect_default()?.endpoint(&config)?;
    let channel = endpoint.open(circuit.parse()?, OpenOptions::default())?;
    // The descriptor is that of a stream socket.
    let bell = UnixStream::from_std(endpoint.as_fd().try_clone_to_owned()?.into())?;
    loop {
        let sdu = receive(&mut endpoint, &bell).await?;
        while endpoint.send_copy(channel, &sdu) == Err(SendError::Full) {
            tokio::task::yield_now().await;
        }
    }
}
