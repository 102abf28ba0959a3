//! The tests of this package in one program: each file by itself would take longer to link than to run.

mod c;
mod facade;
mod header;
mod pages;
mod python;
mod rust;
mod speed;
