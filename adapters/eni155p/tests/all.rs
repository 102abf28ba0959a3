//! The tests of this crate in one program: each file by itself would take longer to link than to run.

mod bursts;
mod crossings;
mod eni;
mod eni_ended;
mod hostile;
mod kind;
mod single_copy;
mod vfio;
mod vfio_unread;
