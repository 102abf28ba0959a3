//! The tests of this crate in one program: each file by itself would take longer to link than to run.

mod between;
mod cells;
mod credit;
mod cut;
mod external;
mod heartbeat;
mod mesh;
mod relay;
mod texts;
mod tls;
