//! System calls that only measurements make.

#![allow(unsafe_code)]

pub mod remapping;
pub mod waiting;
