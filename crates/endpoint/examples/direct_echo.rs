//! Echo over a direct circuit, both sides: `direct_echo SOCKET HOST VPI.VCI [serve]`, once with `serve` at one end.

use endpoint::direct::{Direct, DirectConfig};
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [socket, host, circuit, rest @ ..] = &words[..] else { return Err("SOCKET HOST VPI.VCI [serve]".into()) };
    let mut direct = Direct::open(Path::new(socket), host, circuit.parse()?, &DirectConfig::default())?;
    if rest.is_empty() {
        let mut loan = direct.sender.loan(1000).ok_or("no blocks")?;
        loan[..1000].fill(42);
        loan.send(1000).map_err(|(e, _)| e)?;
    }
    while let Ok(Some(message)) = direct.receiver.receive(None) {
        println!("{} octets, {:?}", message.len(), message.guarantee());
        let copy = message.to_vec();
        drop(message);
        direct.sender.send_copy(&copy)?;
    }
    Ok(())
}
