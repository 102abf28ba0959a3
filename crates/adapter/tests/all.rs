//! The tests of this crate in one program: each file by itself would take longer to link than to run.

mod apic;
mod apic_control;
mod apic_departing;
mod apic_host;
mod crossings;
mod desk;
mod desk_devices;
mod desk_layouts;
mod desk_sums;
mod device;
mod eni;
mod eni_ended;
mod hostile;
mod iocc;
mod jit;
mod jit_host;
mod lanai;
mod lanai_mapping;
mod lanai_sums;
mod myrinet;
mod myrinet_sums;
mod oc12;
#[path = "device/desk.rs"]
mod of_desk;
mod penn;
mod plain;
mod receiver;
mod reused;
mod single_copy;
mod vfio;
mod vfio_unread;
