//! Connections of several chips, made together or not at all.

use crate::{Apic, Connection, ConnectionError, Port};
use net::RouteError;
use std::collections::BTreeMap;
use wire::CircuitId;

/// Where an element's port is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct At {
    pub(super) chip: usize,
    pub(super) port: Port,
}

/// What comes in by a port of a chip under a label.
pub(super) type Input = (At, CircuitId);
pub(super) type Connections = BTreeMap<Input, Connection>;

/// Connections of chips, from what they are to what they shall be; on an error they are as before.
pub(super) fn make(chips: &mut [Apic], had: &Connections, wanted: &Connections) -> Result<(), RouteError> {
    let mut done = Vec::new();
    for (input, connection) in wanted {
        let before = had.get(input);
        if before == Some(connection) {
            continue;
        }
        let (At { chip, port }, label) = *input;
        let made = match before {
            Some(_) => chips[chip].reconnect(port, label, *connection),
            None => chips[chip].connect(port, label, *connection),
        };
        if let Err(error) = made {
            for (At { chip, port }, label) in done {
                match had.get(&(At { chip, port }, label)) {
                    // Room for what was there is there again.
                    Some(before) => drop(chips[chip].reconnect(port, label, *before)),
                    None => drop(chips[chip].disconnect(port, label)),
                }
            }
            return Err(refused(error));
        }
        done.push(*input);
    }
    for (At { chip, port }, label) in had.keys().filter(|input| !wanted.contains_key(input)) {
        chips[*chip].disconnect(*port, *label);
    }
    // What waits for an output that the route has no more would leave under a label that another may have.
    for (input, connection) in had {
        let kept = wanted.get(input).map_or([None; 3], |wanted| wanted.outputs);
        let chip = &mut chips[input.0.chip];
        for (port, (label, kept)) in Port::ALL.into_iter().zip(connection.outputs.into_iter().zip(kept)) {
            if let Some(label) = label.filter(|label| kept != Some(*label)) {
                chip.drop_waiting(port, label);
            }
        }
    }
    Ok(())
}

fn refused(error: ConnectionError) -> RouteError {
    RouteError::Refused(match error {
        ConnectionError::Label(_) => "a chip's table ends before this label: take a VPI below 16, a VCI below 4096",
        ConnectionError::InUse(_) => "the label has a connection already",
        ConnectionError::TableFull(_) => "a chip's table has no entry left",
        ConnectionError::CacheFull(_) => "a chip has no place left for low-latency connections",
        ConnectionError::Unknown(_) => "a connection is gone",
    })
}
