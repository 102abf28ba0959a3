//! Drivers of our own for the adapters: what tests, benchmarks and experiments drive the models with.

pub mod eni;
pub mod jit;
pub mod oc12;
pub mod penn;
pub mod plain;
pub mod receiver;
pub mod sockets;

/// How a driver reaches its adapter.
pub trait Bus {
    /// Reads configuration space.
    fn config_read(&mut self, offset: usize, data: &mut [u8]);

    /// Writes configuration space.
    fn config_write(&mut self, offset: usize, data: &[u8]);

    /// Reads a word of the memory window.
    fn read(&mut self, offset: u32) -> u32;

    /// Writes a word of the memory window.
    fn write(&mut self, offset: u32, value: u32);

    /// Zeroes `octets` of the memory window from `offset` on, both multiples of four.
    fn clear(&mut self, offset: u32, octets: u32) {
        for at in (0..octets).step_by(4) {
            self.write(offset + at, 0);
        }
    }
}
