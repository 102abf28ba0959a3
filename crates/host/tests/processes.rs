//! Processes that share windows. A test program of its own: its children inherit what other tests have open.

mod children;
mod family;
mod lan;
mod readers;
mod sharing;
