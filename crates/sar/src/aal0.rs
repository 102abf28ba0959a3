//! AAL0: the bare cell. A message is a cell without HEC: four header octets, 48 of payload (as Linux has it, but the
//! header always in network order).

use wire::octets::{CELL52_OCTETS, Format, emit52, parse52};
use wire::{Cell, CellHeader, CircuitId};

/// The cell of a 52-octet message, on `circuit` whatever its header says; payload type and loss priority are the
/// message's. `None` if the message has another length.
pub fn to_cell(message: &[u8], circuit: CircuitId) -> Option<Cell> {
    if message.len() != CELL52_OCTETS {
        return None;
    }
    let mut cell = parse52(message, Format::Nni).ok()?;
    cell.set_header(CellHeader { circuit, ..cell.header() });
    Some(cell)
}

/// The message of a cell.
pub fn to_message(cell: &Cell) -> [u8; CELL52_OCTETS] {
    emit52(cell)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_goes_on_its_own_circuit_only() {
        let circuit: CircuitId = "0.100".parse().unwrap();
        let mut message = [7; 52];
        message[..4].copy_from_slice(&[0xff, 0xff, 0xff, 0xf9]);
        let cell = to_cell(&message, circuit).unwrap();
        assert_eq!((cell.circuit(), cell.header().payload_type.bits(), cell.header().clp), (circuit, 4, true));
        assert_eq!(to_cell(&to_message(&cell), circuit), Some(cell));
        assert_eq!(to_cell(&message[1..], circuit), None);
    }
}
