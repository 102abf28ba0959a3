//! The tests of this crate in one program: each file by itself would take longer to link than to run.

#[path = "../examples/all_to_all.rs"]
#[allow(dead_code)] // It has a main function too.
mod all_to_all;
#[path = "../../host/tests/lan/mod.rs"]
mod lan;
mod live;
#[path = "../examples/ping_pong.rs"]
#[allow(dead_code)]
mod ping_pong;
mod properties;
mod world;
