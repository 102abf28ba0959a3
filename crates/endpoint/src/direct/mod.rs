//! Direct circuits: two endpoints on one machine, best effort. The service brings them together and stays out of the
//! way.
//!
//! Each side has memory that it alone writes and the other maps for reading only: a ring of lines, blocks for messages
//! that do not fit a line, and a ring on which it gives back the other side's blocks. A message of up to 40 octets
//! travels inside its line, which is one cache line with its sequence number: one transfer between two cores. Longer
//! ones are filled in place ([`Sender::loan`]) and read in place ([`Message`]), whatever their size: no copy, no system
//! call.
//!
//! What the sender changes after sending can harm only itself: the receiver is told which guarantee a message has
//! ([`Guarantee`]), sees shared octets as atomics only, and can take a copy of its own ([`Message::checked_copy`]).
//!
//! ```
//! use endpoint::direct::{Direct, DirectConfig};
//!
//! // In two processes: Direct::open(socket, host, circuit, &DirectConfig::default()).
//! let (mut here, mut there) = Direct::pair(&DirectConfig::default())?;
//! let echo = std::thread::spawn(move || {
//!     while let Ok(Some(message)) = there.receiver.receive(None) {
//!         let octets = message.to_vec();
//!         drop(message);
//!         let _ = there.sender.send_copy(&octets);
//!     }
//! });
//! let mut loan = here.sender.loan(100_000).ok_or("no blocks")?;
//! loan[..100_000].fill(7);
//! loan.send(100_000).map_err(|(e, _)| e)?;
//! let answer = here.receiver.receive(None)?.ok_or("no answer")?;
//! assert_eq!(answer.to_vec(), vec![7; 100_000]);
//! drop(answer);
//! drop(here);
//! echo.join().map_err(|_| "the echo")?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Using a loan after it was sent does not compile:
//!
//! ```compile_fail,E0382
//! # use endpoint::direct::{Direct, DirectConfig};
//! # let (mut here, _there) = Direct::pair(&DirectConfig::default()).unwrap();
//! let mut loan = here.sender.loan(100).unwrap();
//! loan.send(100).map_err(|(e, _)| e).unwrap();
//! loan[0] = 1;
//! ```
//!
//! A module each: the layout in `layout`, the rings in `ring`, the record of blocks in `pool`, mappings in `memory`, how
//! long to look before sleeping in `spin`.

#[cfg(not(loom))]
#[doc(hidden)]
pub mod held;
#[cfg(not(loom))]
mod link;
#[cfg(all(test, loom))]
mod loom;
#[cfg(not(loom))]
#[doc(hidden)]
pub mod memory;
#[doc(hidden)]
pub mod pool;
#[cfg(not(loom))]
mod receiver;
#[doc(hidden)]
pub mod ring;
#[cfg(not(loom))]
mod sender;
#[doc(hidden)]
pub mod spin;

#[cfg(not(loom))]
mod open;
#[cfg(all(test, not(loom)))]
mod tests;

#[doc(hidden)]
pub use crate::layout::direct as layout;
pub use layout::DirectGeometry;
#[cfg(not(loom))]
pub use link::Gone;
#[cfg(not(loom))]
#[doc(hidden)]
pub use open::bells;
#[cfg(not(loom))]
pub use open::{Direct, DirectConfig};
#[cfg(not(loom))]
pub use receiver::{Changed, Guarantee, Message, Receiver};
#[cfg(not(loom))]
pub use sender::{Loan, Sender};
pub use spin::Spin;
