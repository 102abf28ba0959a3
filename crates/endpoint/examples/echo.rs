//! Sends back what comes: `cellway up examples/two-hosts.toml`, then `echo beta 0.100`.
use endpoint::{EndpointConfig, OpenOptions, SendError, Service};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let (host, circuit) = words.next().zip(words.next()).ok_or("usage: echo HOST VPI.VCI")?;
    let config = EndpointConfig { host, ..EndpointConfig::default() };
    let mut endpoint = Service::connect_default()?.endpoint(&config)?;
    let channel = endpoint.open(circuit.parse()?, OpenOptions::default())?;
    loop {
        let Some(sdu) = endpoint.receive(None)?.map(|sdu| sdu.to_vec()) else { continue };
        while endpoint.send_copy(channel, &sdu) == Err(SendError::Full) {
            endpoint.wait_send(None)?;
        }
    }
}
