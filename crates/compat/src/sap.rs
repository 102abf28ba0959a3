//! `struct atm_sap`: what runs on a call, as octets of the program's, and as Cellway says it.

use crate::abi::{SAP_OCTETS, part};
use endpoint::calls::Sap;
use rustix::io::Errno;
use wire::q2931::{HighLayer, Layer2, Layer3, LowLayer, Octets};

// `struct atm_bhli`: type, length, information.
const HIGH_LENGTH: usize = 1;
const HIGH_INFO: usize = 2;
const ISO: u8 = 1;
const USER: u8 = 2;
const PROFILE: u8 = 3;
const VENDOR: u8 = 4;
// The first `struct atm_blli`: layer 2 with two octets, layer 3 with six.
const LOW: usize = 10;
const LAYER3: usize = LOW + 3;
/// Octets of one `struct atm_blli`.
const LOW_OCTETS: usize = 10;
const LAYER2_USER: u8 = 0x10;
const LAYER3_USER: u8 = 0x10;
const TR9577: u8 = 0x0b;
const H310: u8 = 0x0c;
const SNAP: u8 = 0x80;

/// What a program gave to `SO_ATMSAP`. Of three alternatives for the lower layers the first counts.
///
/// # Errors
/// `EINVAL`: a type that there is not, or a length that does not fit.
pub(crate) fn parse(octets: &[u8; SAP_OCTETS]) -> Result<Sap, Errno> {
    let info: [u8; 8] = part(octets, HIGH_INFO);
    let short = || {
        let info = info.get(..usize::from(octets[HIGH_LENGTH]));
        info.and_then(Octets::new).ok_or(Errno::INVAL)
    };
    let high = match octets[0] {
        0 => None,
        ISO => Some(HighLayer::Iso(short()?)),
        USER => Some(HighLayer::User(short()?)),
        PROFILE => Some(HighLayer::Profile(part(&info, 0))),
        VENDOR => Some(HighLayer::Vendor { oui: part(&info, 0), application: part(&info, 3) }),
        _ => return Err(Errno::INVAL),
    };
    let given = |value: u8| (value != 0).then_some(value);
    let [protocol, mode, window] = part(octets, LOW);
    let layer2 = given(protocol).map(|protocol| {
        let is_user = protocol == LAYER2_USER;
        let with_mode = !is_user && mode != 0;
        Layer2 {
            protocol,
            mode: with_mode.then_some((mode, 0)),
            window: given(window).filter(|_| with_mode),
            user: is_user.then_some(mode),
        }
    });
    let [protocol, first, second, third] = part(octets, LAYER3);
    let layer3 = match protocol {
        0 => None,
        TR9577 if first == SNAP => Some(Layer3::Snap(part(octets, LAYER3 + 2), part(octets, LAYER3 + 5))),
        TR9577 => Some(Layer3::Initial(first)),
        H310 => Some(Layer3::H310(first, given(second).map(|forward| (forward, third)))),
        LAYER3_USER => Some(Layer3::User(first)),
        6..=8 if first != 0 => {
            let size = given(second).map(|size| (size, given(third)));
            Some(Layer3::Packet { protocol, mode: first, size })
        }
        _ => Some(Layer3::Plain(protocol)),
    };
    let low = LowLayer { layer1: None, layer2, layer3 };
    Ok(Sap { high, low: (low != LowLayer::default()).then_some(low) })
}

/// As a program is given it.
pub(crate) fn emit(sap: &Sap) -> [u8; SAP_OCTETS] {
    let mut octets = [0; SAP_OCTETS];
    let mut put = |at: usize, from: &[u8]| octets[at..at + from.len()].copy_from_slice(from);
    match &sap.high {
        None => {}
        Some(HighLayer::Iso(info)) => {
            put(0, &[ISO, info.get().len() as u8]);
            put(HIGH_INFO, info.get());
        }
        Some(HighLayer::User(info)) => {
            put(0, &[USER, info.get().len() as u8]);
            put(HIGH_INFO, info.get());
        }
        Some(HighLayer::Profile(info)) => {
            put(0, &[PROFILE, 4]);
            put(HIGH_INFO, info);
        }
        Some(HighLayer::Vendor { oui, application }) => {
            put(0, &[VENDOR, 7]);
            put(HIGH_INFO, oui);
            put(HIGH_INFO + 3, application);
        }
    }
    if let Some(Layer2 { protocol, mode, window, user }) = sap.low.and_then(|low| low.layer2) {
        let mode = mode.map(|(mode, _)| mode).or(user).unwrap_or(0);
        put(LOW, &[protocol, mode, window.unwrap_or(0)]);
    }
    match sap.low.and_then(|low| low.layer3) {
        None => {}
        Some(Layer3::Plain(protocol)) => put(LAYER3, &[protocol]),
        Some(Layer3::Initial(first)) => put(LAYER3, &[TR9577, first]),
        Some(Layer3::Snap(oui, pid)) => {
            put(LAYER3, &[TR9577, SNAP]);
            put(LAYER3 + 2, &oui);
            put(LAYER3 + 5, &pid);
        }
        Some(Layer3::User(octet)) => put(LAYER3, &[LAYER3_USER, octet]),
        Some(Layer3::H310(terminal, more)) => {
            let (forward, backward) = more.unwrap_or((0, 0));
            put(LAYER3, &[H310, terminal, forward, backward]);
        }
        Some(Layer3::Packet { protocol, mode, size }) => {
            let (size, window) = size.unwrap_or((0, None));
            put(LAYER3, &[protocol, mode, size, window.unwrap_or(0)]);
        }
    }
    octets
}

const _: () = assert!(LOW + 3 * LOW_OCTETS == SAP_OCTETS);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_tools_service_access_points_are_understood() {
        let mut octets = [0; SAP_OCTETS];
        assert_eq!(parse(&octets), Ok(Sap::ANY));
        octets[LOW] = 0x0c;
        assert_eq!(parse(&octets), Ok(Sap::LLC));
        // ttcp_atm, and LAN emulation.
        octets[..9].copy_from_slice(&[4, 7, 0, 0x60, 0xd7, 1, 0, 0, 3]);
        assert_eq!(parse(&octets).unwrap().to_string(), "llc,vendor:0060d7-01000003");
        let mut lane = [0; SAP_OCTETS];
        lane[LAYER3..LAYER3 + 7].copy_from_slice(&[0x0b, 0x80, 0, 0xa0, 0x3e, 0, 1]);
        assert_eq!(parse(&lane).unwrap(), Sap::snap([0, 0xa0, 0x3e], 1));
        lane[0] = 9;
        assert_eq!(parse(&lane), Err(Errno::INVAL));
    }

    proptest! {
        #[test]
        fn what_is_understood_is_given_back_as_it_was(octets in proptest::collection::vec(any::<u8>(), SAP_OCTETS)) {
            let octets: [u8; SAP_OCTETS] = octets.try_into().unwrap();
            if let Ok(sap) = parse(&octets) {
                prop_assert_eq!(parse(&emit(&sap)), Ok(sap));
            }
        }
    }
}
