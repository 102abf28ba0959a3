//! Traffic contracts, pacing and policing.
