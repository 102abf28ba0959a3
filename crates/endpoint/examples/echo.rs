//! Sends back what comes: `cellway up examples/two-hosts.toml`, then `echo SOCKET beta 0.100`.

use endpoint::{Endpoint, EndpointConfig, OpenOptions, SendError};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [socket, host, circuit] = <[String; 3]>::try_from(std::env::args().skip(1).collect::<Vec<_>>())
        .map_err(|_| "echo SOCKET HOST VPI.VCI")?;
    let mut endpoint = Endpoint::create(socket.as_ref(), &EndpointConfig { host, ..EndpointConfig::default() })?;
    let channel = endpoint.open(circuit.parse()?, OpenOptions::default())?;
    loop {
        let Some(sdu) = endpoint.receive(None)?.map(|sdu| sdu.to_vec()) else { continue };
        while endpoint.send_copy(channel, &sdu) == Err(SendError::Full) {
            endpoint.wait_send(None)?;
        }
    }
}
