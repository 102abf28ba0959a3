//! Which OAM cells end at a switch, the answers to loopback cells, and how AIS of a segment goes on end to end.

use wire::oam::{Flow, Function, Location};
use wire::{Cell, CellHeader, DropReason};

/// What becomes of an OAM cell.
pub(crate) enum Fate {
    /// It goes on with the circuit.
    Passes,
    /// It goes on, and this goes back where it came from, on the same labels.
    PassesAnswered(Cell),
    /// It ends here, and this goes back.
    Answered(Cell),
    /// It ends here, and this goes on with the circuit while that goes back: AIS of a segment (I.610).
    Indicated(Cell, Cell),
    /// It ends here.
    Ends(DropReason),
}

/// What a switch that is called `name` does with an OAM cell of a path (`is_path`) or channel, or of a path whose
/// channels it switches one by one (`path_ends_here`).
///
/// A segment flow ends at the switch, that of a channel inside a switched path excepted. On an end-to-end flow the
/// switch is a connecting point: a request for every point it answers and passes on, one for its own name it turns
/// round.
pub(crate) fn fate(cell: &Cell, is_path: bool, path_ends_here: bool, name: Option<Location>) -> Fate {
    let header = cell.header();
    if path_ends_here || ends_at_switch(header, is_path) {
        return match Function::parse(&cell.payload) {
            Ok(Function::Loopback(loopback)) if loopback.request => {
                let for_us = [Location::END_POINT, Location::EVERY_POINT].contains(&loopback.location);
                // A request for another name between the end points is for who has that name.
                if !for_us && Some(loopback.location) != name {
                    return Fate::Ends(DropReason::NotOpen);
                }
                Fate::Answered(Cell::new(header, Function::Loopback(loopback.returned(name)).emit()))
            }
            Ok(Function::Ais(defect)) if !path_ends_here => {
                let end_to_end = if is_path { Flow::F4EndToEnd } else { Flow::F5EndToEnd };
                let on = Cell::new(end_to_end.header(header), cell.payload);
                Fate::Indicated(on, Cell::new(header, Function::Rdi(defect).emit()))
            }
            Ok(_) => Fate::Ends(DropReason::NotOpen),
            Err(wire::Error::Checksum { .. }) => Fate::Ends(DropReason::Crc),
            Err(_) => Fate::Ends(DropReason::Malformed),
        };
    }
    let is_connecting_point = match Flow::of(header) {
        Some(Flow::F4EndToEnd) => is_path,
        Some(Flow::F5EndToEnd) => !is_path,
        _ => false,
    };
    let Some(name) = name.filter(|_| is_connecting_point) else { return Fate::Passes };
    match Function::parse(&cell.payload) {
        Ok(Function::Loopback(loopback)) if loopback.request => {
            let reply = || Cell::new(header, Function::Loopback(loopback.returned(Some(name))).emit());
            match loopback.location {
                Location::EVERY_POINT => Fate::PassesAnswered(reply()),
                location if location == name => Fate::Answered(reply()),
                _ => Fate::Passes,
            }
        }
        _ => Fate::Passes,
    }
}

/// Whether a flow of this header ends at a switch that forwards it by a path (`is_path`) or by its channel.
fn ends_at_switch(header: CellHeader, is_path: bool) -> bool {
    match Flow::of(header) {
        Some(Flow::F4Segment) => true,
        Some(Flow::F5Segment) => !is_path,
        _ => false,
    }
}
