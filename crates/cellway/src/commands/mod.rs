//! The commands of the program, a file each.

pub(crate) mod apply;
pub(crate) mod call;
pub(crate) mod capture;
pub(crate) mod circuit;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod elsewhere;
pub(crate) mod ip;
pub(crate) mod lane;
pub(crate) mod link;
pub(crate) mod myrinet;
pub(crate) mod oam;
pub(crate) mod ping;
pub(crate) mod recording;
pub(crate) mod relay;
pub(crate) mod report;
pub(crate) mod run;
pub mod schema;
pub(crate) mod status;
pub(crate) mod trace;
pub(crate) mod transfer;
pub mod ttcp;
pub(crate) mod up;
pub(crate) mod url;
pub(crate) mod vm;
