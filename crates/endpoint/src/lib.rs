//! What an application links: endpoints on virtual circuits through shared memory.
