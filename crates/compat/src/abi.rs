//! Numbers and structures of Linux's ATM sockets (`linux/atm.h`, `linux/atmdev.h`), as octets of the program's memory.
//!
//! Parsing never fails to say why in the kernel's errno; nothing here touches memory that is not a slice.

use rustix::io::Errno;
use wire::CircuitId;
use wire::aesa::Aesa;

/// Address family of permanent circuits.
pub(crate) const AF_ATMPVC: i32 = 8;
/// Address family of signalled circuits.
pub(crate) const AF_ATMSVC: i32 = 20;

/// Level of the options.
pub(crate) const SOL_ATM: i32 = 264;
/// Whether cells leave with their loss priority set.
pub(crate) const SO_SETCLP: i32 = 0x4200_0004;
/// Traffic parameters of both ways.
pub(crate) const SO_ATMQOS: i32 = 0x4202_0054;
/// The circuit's address, to be read.
pub(crate) const SO_ATMPVC: i32 = 0x4204_000c;

/// Higher and lower layers of a call.
pub(crate) const SO_ATMSAP: i32 = 0x4203_0028;
/// Whether a call is to be to many.
pub(crate) const SO_MULTIPOINT: i32 = 0x4205_0004;

/// No adaptation layer said: AAL5 once connected.
pub(crate) const ATM_NO_AAL: u8 = 0;
/// AAL3/4.
pub(crate) const ATM_AAL34: u8 = 3;
/// AAL5.
pub(crate) const ATM_AAL5: u8 = 5;
/// Cells.
pub(crate) const ATM_AAL0: u8 = 13;

/// First device of all.
pub(crate) const ITF_ANY: i16 = -1;
/// Any free VPI or VCI.
pub(crate) const ANY: i32 = -1;
/// A VPI or VCI that a later bind says.
pub(crate) const UNSPEC: i32 = -2;
/// VCIs below are for those who may.
pub(crate) const FIRST_USER_VCI: i32 = 32;
/// Bits of the VPIs of an interface (UNI).
pub(crate) const VPI_BITS: u32 = 8;
/// Bits of its VCIs.
pub(crate) const VCI_BITS: u32 = 16;

/// Octets of `struct sockaddr_atmpvc`.
pub(crate) const SOCKADDR_OCTETS: usize = 12;
/// Octets of `struct sockaddr_atmsvc`.
pub(crate) const CALLED_OCTETS: usize = 44;
/// Octets of `struct atm_sap`.
pub(crate) const SAP_OCTETS: usize = 40;
/// Octets of an AAL0 message: header without HEC, in the machine's order, and payload.
pub(crate) const CELL_OCTETS: usize = 52;
/// VPI and VCI in such a header.
pub(crate) const HEADER_VPI_VCI: u32 = 0x0fff_fff0;

/// Octets `at..at + N` of a slice that has been checked to be long enough; zeros if not.
pub(crate) fn part<const N: usize>(octets: &[u8], at: usize) -> [u8; N] {
    octets.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
}

/// `struct sockaddr_atmpvc`: interface, VPI and VCI, with their wildcards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Address {
    pub(crate) itf: i16,
    pub(crate) vpi: i16,
    pub(crate) vci: i32,
}

impl Address {
    /// What a program gave to `bind` or `connect`.
    ///
    /// # Errors
    /// Another length (`EINVAL`), another family (`EAFNOSUPPORT`).
    pub(crate) fn parse(octets: &[u8]) -> Result<Self, Errno> {
        if octets.len() != SOCKADDR_OCTETS {
            return Err(Errno::INVAL);
        }
        if i32::from(u16::from_ne_bytes(part(octets, 0))) != AF_ATMPVC {
            return Err(Errno::AFNOSUPPORT);
        }
        Ok(Address {
            itf: i16::from_ne_bytes(part(octets, 4)),
            vpi: i16::from_ne_bytes(part(octets, 6)),
            vci: i32::from_ne_bytes(part(octets, 8)),
        })
    }

    /// As a program is given it.
    pub(crate) fn emit(self) -> [u8; SOCKADDR_OCTETS] {
        let mut octets = [0; SOCKADDR_OCTETS];
        octets[..2].copy_from_slice(&(AF_ATMPVC as u16).to_ne_bytes());
        octets[4..6].copy_from_slice(&self.itf.to_ne_bytes());
        octets[6..8].copy_from_slice(&self.vpi.to_ne_bytes());
        octets[8..].copy_from_slice(&self.vci.to_ne_bytes());
        octets
    }

    /// Whether VPI and VCI can be on an interface at all, wildcards included.
    ///
    /// # Errors
    /// `EINVAL` if not.
    pub(crate) fn check_range(self) -> Result<(), Errno> {
        let outside = |value: i32, bits: u32| value != ANY && value != UNSPEC && value >> bits != 0;
        if outside(i32::from(self.vpi), VPI_BITS) || outside(self.vci, VCI_BITS) {
            return Err(Errno::INVAL);
        }
        Ok(())
    }

    /// The circuit, if it is one.
    pub(crate) fn circuit(self) -> Option<CircuitId> {
        CircuitId::new(u16::try_from(self.vpi).ok()?, u16::try_from(self.vci).ok()?)
    }

    /// Whether a later bind has to say more.
    pub(crate) fn is_partial(self) -> bool {
        i32::from(self.vpi) == UNSPEC || self.vci == UNSPEC
    }
}

/// `struct sockaddr_atmsvc`: a private address (AESA) of 20 octets at 4, a public one (E.164 digits) at 24.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Called(pub(crate) [u8; CALLED_OCTETS]);

impl Called {
    /// What a program gave to `bind` or `connect`.
    ///
    /// # Errors
    /// As [`Address::parse`].
    pub(crate) fn parse(octets: &[u8]) -> Result<Self, Errno> {
        let octets: [u8; CALLED_OCTETS] = octets.try_into().map_err(|_| Errno::INVAL)?;
        if i32::from(u16::from_ne_bytes(part(&octets, 0))) != AF_ATMSVC {
            return Err(Errno::AFNOSUPPORT);
        }
        Ok(Called(octets))
    }

    /// That of a private address; `None`: one without an address.
    pub(crate) fn of(address: Option<Aesa>) -> Self {
        let mut octets = [0; CALLED_OCTETS];
        octets[..2].copy_from_slice(&(AF_ATMSVC as u16).to_ne_bytes());
        octets[4..24].copy_from_slice(&address.unwrap_or_default().0);
        Called(octets)
    }

    /// The private address, if there is one.
    pub(crate) fn aesa(&self) -> Option<Aesa> {
        let octets: [u8; 20] = part(&self.0, 4);
        (octets != [0; 20]).then_some(Aesa(octets))
    }

    /// Whether there is a public address.
    pub(crate) fn is_public(&self) -> bool {
        self.0[24] != 0
    }
}

/// The level that an option's number says, and the octets of its value.
pub(crate) fn option_parts(option: i32) -> (i32, usize) {
    ((option >> 22) & 0x1ff, (option & 0x3fff) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn option_numbers_say_level_and_size() {
        assert_eq!(option_parts(SO_ATMQOS), (SOL_ATM, crate::qos::QOS_OCTETS));
        assert_eq!(option_parts(SO_ATMPVC), (SOL_ATM, SOCKADDR_OCTETS));
        assert_eq!(option_parts(SO_SETCLP), (SOL_ATM, 4));
        assert_eq!(option_parts(SO_ATMSAP), (SOL_ATM, SAP_OCTETS));
        assert_eq!(option_parts(SO_MULTIPOINT), (SOL_ATM, 4));
    }

    #[test]
    fn an_address_is_where_linux_has_it() {
        let octets = Address { itf: 1, vpi: 2, vci: 300 }.emit();
        let mut want = [8, 0, 0, 0, 1, 0, 2, 0, 44, 1, 0, 0];
        if cfg!(target_endian = "big") {
            want = [0, 8, 0, 0, 0, 1, 0, 2, 0, 0, 1, 44];
        }
        assert_eq!(octets, want);
    }

    proptest! {
        #[test]
        fn any_octets_are_an_address_or_an_errno(octets in proptest::collection::vec(any::<u8>(), 0..40)) {
            match Address::parse(&octets) {
                Ok(address) => {
                    prop_assert_eq!(octets.len(), SOCKADDR_OCTETS);
                    prop_assert_eq!(Address::parse(&address.emit()), Ok(address));
                    if address.check_range().is_ok() && !address.is_partial() {
                        prop_assert!((-1..256).contains(&address.vpi) && (-1..65_536).contains(&address.vci));
                    }
                }
                Err(e) => prop_assert!(e == Errno::INVAL || e == Errno::AFNOSUPPORT),
            }
        }
    }
}
