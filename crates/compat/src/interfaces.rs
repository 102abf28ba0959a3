//! ATM interfaces as the program sees them: the hosts that `CELLWAY_ITF` lists, with what `cellway status` says of
//! each.

use crate::abi::ITF_ANY;
use crate::service::{self, Failed, environment};
use rustix::io::Errno;
use serde_json::Value;
use wire::CircuitId;

/// What programs see as the type of the device; seven characters and a NUL at most.
pub(crate) const TYPE: &str = "cellway";
/// Cells per second of an OC-3c, as the kernel counts: for links without a rate of their own.
const OC3_CELLS_PER_S: i32 = 353_207;

/// What an adaptation layer has counted, as in `struct atm_aal_stats`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Statistics {
    pub(crate) sent: i32,
    pub(crate) send_errors: i32,
    pub(crate) received: i32,
    pub(crate) receive_errors: i32,
    pub(crate) dropped: i32,
}

impl Statistics {
    /// In the structure's order.
    pub(crate) fn numbers(&self) -> [i32; 5] {
        [self.sent, self.send_errors, self.received, self.receive_errors, self.dropped]
    }

    fn add(&mut self, end: &Value) {
        let (sent, received) = (&end["sent"], &end["received"]);
        let count = |v: &Value| v.as_u64().unwrap_or(0) as i32;
        let drops = |v: &Value| -> i32 { v["dropped"].as_object().into_iter().flatten().map(|(_, n)| count(n)).sum() };
        // A PDU without a buffer, or nobody to take it, is a drop; everything else was wrong with it.
        let unwanted = |v: &Value| -> i32 {
            ["no_buffer", "ring_full", "not_open"].iter().map(|name| count(&v["dropped"][name])).sum()
        };
        self.sent += count(&sent["pdus"]);
        self.send_errors += drops(sent);
        self.received += count(&received["pdus"]);
        self.dropped += unwanted(received);
        self.receive_errors += drops(received) - unwanted(received);
    }
}

/// A circuit that ends at the interface.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Circuit {
    pub(crate) id: CircuitId,
    /// Its adaptation layer, if somebody has it open.
    pub(crate) open: Option<String>,
    pub(crate) category: String,
    pub(crate) pcr: i32,
}

/// An interface.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Interface {
    pub(crate) number: i32,
    pub(crate) cells_per_s: i32,
    pub(crate) aal0: Statistics,
    pub(crate) aal34: Statistics,
    pub(crate) aal5: Statistics,
    pub(crate) circuits: Vec<Circuit>,
}

/// The host of an interface's number, or of the first for `ITF_ANY`.
///
/// # Errors
/// `ENODEV`: there is none.
pub(crate) fn host(number: i16) -> Result<(i16, &'static str), Errno> {
    let number = if number == ITF_ANY { 0 } else { number };
    let index = usize::try_from(number).map_err(|_| Errno::NODEV)?;
    environment().hosts.get(index).map(|host| (number, host.as_str())).ok_or(Errno::NODEV)
}

/// Numbers of all interfaces.
pub(crate) fn numbers() -> impl DoubleEndedIterator<Item = i32> {
    0..environment().hosts.len() as i32
}

/// What the service says of an interface.
///
/// # Errors
/// `ENODEV`, for want of such an interface or of the service.
pub(crate) fn ask(number: i32) -> Result<Interface, Failed> {
    let (_, host) = host(i16::try_from(number).map_err(|_| Errno::NODEV)?)?;
    Ok(read(number, host, &service::status()?))
}

/// All interfaces.
///
/// # Errors
/// No service.
pub(crate) fn all() -> Result<Vec<Interface>, Failed> {
    let status = service::status()?;
    Ok(numbers().zip(&environment().hosts).map(|(number, host)| read(number, host, &status)).collect())
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

fn read(number: i32, host: &str, status: &Value) -> Interface {
    let mut interface = Interface {
        number,
        cells_per_s: OC3_CELLS_PER_S,
        aal0: Statistics::default(),
        aal34: Statistics::default(),
        aal5: Statistics::default(),
        circuits: Vec::new(),
    };
    for link in list(status, "links") {
        let ours = list(link, "ends").filter_map(Value::as_str).any(|end| end.split(':').next() == Some(host));
        if let (true, Some(rate)) = (ours, link["rate_cells_per_s"].as_f64()) {
            interface.cells_per_s = rate as i32;
        }
    }
    for circuit in list(status, "circuits") {
        for end in list(circuit, "ends") {
            let name = end["end"].as_str().and_then(|end| end.split_once(' '));
            let Some(Ok(id)) = name.filter(|(station, _)| *station == host).map(|(_, id)| id.parse()) else { continue };
            let open = end["open"].as_str().map(str::to_owned);
            let counted = match open.as_deref() {
                Some("aal0") => &mut interface.aal0,
                Some("aal34") => &mut interface.aal34,
                _ => &mut interface.aal5,
            };
            counted.add(end);
            interface.circuits.push(Circuit {
                id,
                open,
                category: circuit["category"].as_str().unwrap_or_default().to_owned(),
                pcr: circuit["pcr_cells_per_s"].as_f64().unwrap_or(0.0) as i32,
            });
        }
    }
    interface.circuits.sort_by_key(|c| c.id);
    interface
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_interface_is_what_status_says_of_its_host() {
        let end = |name: &str, open: Value| {
            json!({
                "end": name, "open": open,
                "sent": { "pdus": 3, "dropped": { "link_down": 1 } },
                "received": { "pdus": 5, "dropped": { "no_buffer": 2, "crc": 4 } },
            })
        };
        let status = json!({
            "links": [{ "ends": ["alpha:0", "s1:0"], "rate_cells_per_s": 1000.5 }, { "ends": ["beta", "s1:1"] }],
            "circuits": [
                { "category": "cbr", "pcr_cells_per_s": 500.0,
                  "ends": [end("alpha 0.100", json!("aal5")), end("beta 0.100", Value::Null)] },
                { "category": "ubr", "ends": [end("alpha 0.42", json!("aal0"))] },
                { "category": "ubr", "ends": [end("alpha nonsense", json!("aal0"))] },
            ],
        });
        let alpha = read(0, "alpha", &status);
        assert_eq!((alpha.cells_per_s, alpha.circuits.len()), (1000, 2));
        assert_eq!(alpha.aal5.numbers(), [3, 1, 5, 4, 2]);
        assert_eq!(alpha.aal0.numbers(), [3, 1, 5, 4, 2]);
        assert_eq!(alpha.circuits[1].pcr, 500);
        assert_eq!(read(1, "beta", &status).cells_per_s, OC3_CELLS_PER_S);
        assert_eq!(read(1, "gamma", &json!(["nonsense"])).circuits, []);
    }
}
