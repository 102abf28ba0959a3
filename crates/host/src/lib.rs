//! The host interface: service, network-interface loop, data paths and event strategies.
