//! The test world in virtual time.
