//! Many endpoints in one epoll loop: `many SOCKET beta 0.100 0.101 ...` prints what comes on which circuit.

use endpoint::{Endpoint, EndpointConfig, OpenOptions};
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (socket, host) = arguments.next().zip(arguments.next()).ok_or("many SOCKET HOST VPI.VCI ...")?;
    let all = epoll::create(CreateFlags::CLOEXEC)?;
    let mut circuits = Vec::new();
    for (i, circuit) in arguments.enumerate() {
        let config = EndpointConfig { host: host.clone(), ..EndpointConfig::default() };
        let mut endpoint = Endpoint::create(socket.as_ref(), &config)?;
        endpoint.open(circuit.parse()?, OpenOptions::default())?;
        epoll::add(&all, &endpoint, EventData::new_u64(i as u64), EventFlags::IN)?;
        circuits.push((circuit, endpoint));
    }
    let mut ready = [Event { flags: EventFlags::IN, data: EventData::new_u64(0) }; 64];
    loop {
        for (circuit, endpoint) in &mut circuits {
            endpoint.arm();
            endpoint.take_each(|_, sdu| println!("{circuit}: {} octets", sdu.len()));
        }
        let n = epoll::wait(&all, &mut ready, None)?;
        for event in &ready[..n] {
            let data = event.data;
            circuits[data.u64() as usize].1.disarm()?;
        }
    }
}
