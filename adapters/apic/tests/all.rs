//! The tests of this crate in one program: each file by itself would take longer to link than to run.

mod apic;
mod apic_control;
mod apic_departing;
mod apic_host;
mod desk;
mod desk_devices;
mod desk_layouts;
mod desk_load;
mod desk_sums;
mod device;
mod kind;
#[path = "device/desk.rs"]
mod of_desk;
mod reused;
