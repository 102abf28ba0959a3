//! Sends a million SDUs that are composed where the host reads them: `stream SOCKET alpha 0.100`.

use endpoint::{DataPath, Endpoint, EndpointConfig, OpenOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [socket, host, circuit] = <[String; 3]>::try_from(std::env::args().skip(1).collect::<Vec<_>>())
        .map_err(|_| "stream SOCKET HOST VPI.VCI")?;
    let config = EndpointConfig { host, path: DataPath::ZeroCopy, ..EndpointConfig::default() };
    let mut endpoint = Endpoint::create(socket.as_ref(), &config)?;
    let channel = endpoint.open(circuit.parse()?, OpenOptions::default())?;
    for n in 0..1_000_000u64 {
        endpoint.wait_send(None)?;
        let mut loan = endpoint.loan().ok_or("a buffer is free after wait_send")?;
        loan[..8].copy_from_slice(&n.to_be_bytes());
        endpoint.send(channel, loan, 9180).map_err(|(e, _)| e)?;
    }
    endpoint.wait_sent(None)?;
    Ok(())
}
