//! A contract that a program asks for by `SO_ATMQOS`, beside the one that its permanent circuit has. The kernel's drivers
//! pace what a program asks for; here the description decides. In: both. Out: a sentence where the circuit keeps less
//! than what was asked.

use crate::abi::Address;
use crate::interfaces::{self, Circuit};
use crate::qos::{Asked, Qos};
use crate::service::complain;
use wire::CircuitId;

/// Says on standard error what of a program's contract its circuit does not keep. Best effort is always kept, and asks
/// nobody.
pub(crate) fn compare(host: &str, address: Address, circuit: CircuitId, qos: &Qos) {
    let Some(asked) = qos.asked() else { return };
    let name = format!("{}.{circuit} at {host}", address.itf);
    let Ok(interface) = interfaces::ask(address.itf.into()) else {
        complain(&format!(
            "{name}: {asked} was asked for (SO_ATMQOS); the contract is the circuit's, which the service does not show \
             to you"
        ));
        return;
    };
    let found = interface.circuits.iter().find(|found| found.id == circuit);
    if let Some(says) = found.and_then(|found| difference(&asked, found)) {
        complain(&format!("{name}: {says}"));
    }
}

/// What a circuit does not keep of what was asked, and what to do.
fn difference(asked: &Asked, circuit: &Circuit) -> Option<String> {
    let has = match circuit.category.as_str() {
        "ubr" => "is best effort (ubr)".to_owned(),
        category if circuit.pcr > 0 => format!("has {category} at {} cell/s", circuit.pcr),
        category => format!("has {category}"),
    };
    let kept = match circuit.category.as_str() {
        "ubr" => false,
        _ => asked.cells_per_s.is_none_or(|asked| circuit.pcr >= asked),
    };
    let rate = asked.cells_per_s.map_or("20 Mbit/s".into(), |rate| format!("{rate} cell/s"));
    let add = format!("category = \"{}\" and pcr = \"{rate}\"", asked.category);
    (!kept).then(|| {
        format!(
            "{asked} was asked for (SO_ATMQOS), but the circuit {has}: its own contract is in force. Give the circuit \
             {add} in the description"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circuit(category: &str, pcr: i32) -> Circuit {
        Circuit { id: CircuitId::new(0, 100).unwrap(), open: None, category: category.into(), pcr }
    }

    #[test]
    fn what_a_circuit_does_not_keep_is_said_with_the_cure() {
        let asked = |cells_per_s| Asked { category: "cbr", cells_per_s };
        let said = difference(&asked(Some(170)), &circuit("ubr", 0)).unwrap();
        assert!(said.contains("cbr at 170 cell/s was asked for") && said.contains("best effort"), "{said}");
        assert!(said.contains("category = \"cbr\" and pcr = \"170 cell/s\""), "{said}");
        let said = difference(&asked(Some(170)), &circuit("cbr", 100)).unwrap();
        assert!(said.contains("has cbr at 100 cell/s"), "{said}");
        assert_eq!(difference(&asked(Some(170)), &circuit("cbr", 170)), None);
        assert_eq!(difference(&asked(None), &circuit("cbr", 100)), None, "as much as there is");
        assert!(difference(&asked(None), &circuit("ubr", 0)).is_some());
    }
}
