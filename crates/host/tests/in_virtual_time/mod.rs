//! Hosts of one thread whose time is said.

mod border;
mod closing_credits;
mod credits;
mod crossings;
mod departures;
mod intake;
mod oam;
mod oam_faults;
mod oam_forged;
mod oam_paths;
mod order;
mod ticks;
mod transmit_scheduler;
