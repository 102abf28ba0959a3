//! The objects of ILMI's MIB that we have and ask for (ILMI 4.0 section 8).

use wire::aesa::{Aesa, ESI_OCTETS, PREFIX_OCTETS};
use wire::ilmi::Oid;

/// The ATM Forum's tree, 1.3.6.1.4.1.353.2, and `arcs` in it.
pub(super) fn forum(arcs: &[u32]) -> Oid {
    let root = Oid::new(&[1, 3, 6, 1, 4, 1, 353, 2]).unwrap_or_default();
    root.with(arcs).unwrap_or_default()
}

/// MIB-II's system group, and `arcs` in it.
pub(super) fn system(arcs: &[u32]) -> Oid {
    let root = Oid::new(&[1, 3, 6, 1, 2, 1, 1]).unwrap_or_default();
    root.with(arcs).unwrap_or_default()
}

/// The enterprise of our traps: the ATM Forum's.
pub(super) fn enterprise() -> Oid {
    Oid::new(&[1, 3, 6, 1, 4, 1, 353]).unwrap_or_default()
}

/// atmfAddressStatus, the column, and its row of an address at interface 0.
pub(super) fn address_column() -> Oid {
    forum(&[6, 1, 1, 3])
}

pub(super) fn address_row(address: &Aesa) -> Oid {
    let mut arcs = vec![0, address.0.len() as u32];
    arcs.extend(address.0.iter().map(|octet| u32::from(*octet)));
    address_column().with(&arcs).unwrap_or_default()
}

/// The address of such a row, if `name` is one.
pub(super) fn address_of(name: &Oid) -> Option<Aesa> {
    row(name, &address_column()).map(Aesa)
}

/// atmfNetPrefixStatus: the row of a prefix at interface 0.
pub(super) fn prefix_row(prefix: &[u8; PREFIX_OCTETS]) -> Oid {
    let mut arcs = vec![0, PREFIX_OCTETS as u32];
    arcs.extend(prefix.iter().map(|octet| u32::from(*octet)));
    forum(&[7, 1, 1, 3]).with(&arcs).unwrap_or_default()
}

/// The prefix of such a row, if `name` is one.
pub(super) fn prefix_of(name: &Oid) -> Option<[u8; PREFIX_OCTETS]> {
    row(name, &forum(&[7, 1, 1, 3]))
}

/// A row's index is interface, length and octets. The interface is 0: this one.
fn row<const N: usize>(name: &Oid, column: &Oid) -> Option<[u8; N]> {
    let mut arcs = name.strip_prefix(column)?;
    if arcs.next()? != 0 || arcs.next()? != N as u32 {
        return None;
    }
    let mut octets = [0; N];
    for octet in &mut octets {
        *octet = u8::try_from(arcs.next()?).ok()?;
    }
    arcs.next().is_none().then_some(octets)
}

/// MyIfIdentifier, MySystemIdentifier and sysUpTime: who the peer is, and since when.
pub(super) fn identity() -> [Oid; 3] {
    [forum(&[1, 1, 1, 8, 0]), forum(&[1, 4, 0]), system(&[3, 0])]
}

/// Who a system is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    /// MySystemIdentifier: six octets, as of a MAC address.
    pub system: [u8; ESI_OCTETS],
    /// MyIfIdentifier.
    pub interface: u32,
}

/// Status of a row.
pub(super) const VALID: i64 = 1;
pub(super) const INVALID: i64 = 2;
