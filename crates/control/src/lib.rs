//! What a daemon decides about its network.
//!
//! In: descriptions ([`config`]), requests of commands ([`manage`]), circuits that peers open. Each source
//! ([`sources`]) wants objects ([`objects`]). The [`intent`] plans the difference to what is ([`plan`]) and tries it on
//! a model ([`step`]); the [`controller`] carries it out in slices ([`execution`]) on the network of an engine
//! ([`network_target`]). Kinds of station beside hosts and switches are registered ([`kinds`]). Out: that network, who may open what ([`policy`]), and what is told of it ([`status`], [`capture`]).
#![forbid(unsafe_code)]

pub mod adapters;
pub mod asking;
pub mod audit;
pub mod calls;
pub mod capture;
pub mod config;
pub mod controller;
mod counter_status;
pub mod daemon;
pub mod delivery;
pub mod description;
pub mod deviations;
pub mod diagnostic;
mod door;
pub mod drops;
pub mod ended;
pub mod execution;
pub mod export;
pub mod fault;
pub mod folder;
mod gathering;
pub mod history;
mod hops;
pub mod import;
pub mod inject;
pub mod intent;
pub mod kinds;
pub mod lines;
pub mod manage;
pub mod memory;
pub mod metrics;
pub mod names;
pub mod network_target;
pub mod objects;
pub mod once;
pub mod openers;
mod outcome;
pub mod path;
pub mod placement;
pub mod plan;
pub mod policy;
pub mod processors;
pub mod protocol;
pub mod quantity;
pub mod reference;
pub mod results;
mod service_status;
pub mod shells;
pub mod sources;
pub mod state;
pub mod state_writer;
pub mod status;
pub mod step;
pub mod text;
pub mod trial;
pub mod version;
