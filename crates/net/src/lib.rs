//! Links, switches and the topology that joins them.
