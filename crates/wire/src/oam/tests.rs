//! Layouts of OAM cells against the octets of the recommendation.

use super::*;
use proptest::prelude::*;
use std::string::ToString;

fn crc(payload: &[u8; 48]) -> u16 {
    u16::from_be_bytes([payload[46], payload[47]])
}

#[test]
fn computed_vectors_of_the_four_fault_management_cells() {
    let mut lb = Function::Loopback(Loopback::request(1)).emit();
    let unspecified = Defect::UNSPECIFIED;
    let vectors =
        [(Function::Ais(unspecified), 0x3b9), (Function::Rdi(unspecified), 0x0af), (Function::ContinuityCheck, 0x387)];
    for (function, want) in vectors {
        let p = function.emit();
        assert_eq!(crc(&p), want);
        assert_eq!(Function::parse(&p), Ok(function));
    }
    // The vector has a source of 6A.
    lb[22..38].fill(UNUSED);
    lb[46] = 0;
    lb[47] = 0;
    assert_eq!(checksum(&lb), 0x309);
}

#[test]
fn computed_vectors_of_monitoring_and_activation() {
    let monitoring = Monitoring { sequence: 1, cells: 128, parities: 0, cells_clp0: 128, stamp: None };
    let p = Function::Monitoring(monitoring).emit();
    assert_eq!(p[..12], [0x20, 1, 0, 0x80, 0, 0, 0, 0x80, 0xff, 0xff, 0xff, 0xff]);
    assert!(p[12..46].iter().all(|octet| *octet == UNUSED));
    assert_eq!(crc(&p), 0x350);
    let both = Activation {
        subject: Subject::ContinuityCheck,
        message: Message::Activate,
        directions: Directions::Both,
        tag: 1,
        blocks: [BlockCode::NONE; 2],
    };
    let p = Function::Activation(both).emit();
    assert_eq!(p[..5], [0x81, 7, 1, 0, UNUSED]);
    assert_eq!(crc(&p), 0x37b);
}

#[test]
fn fields_of_defects_reports_and_blocks_stand_where_the_tables_say() {
    let defect = Defect::found(DefectType::LINK, Location::named("s1"));
    let p = Function::Ais(defect).emit();
    assert_eq!(p[..5], [0x10, 1, b's', b'1', 0]);
    assert_eq!((p[17], p[18]), (0, UNUSED));
    assert_eq!((defect.kind.to_string(), DefectType(0xee).to_string()), ("link".into(), "ee".into()));
    let sent =
        Monitoring { sequence: 2, cells: 0x0304, parities: 0x0506, cells_clp0: 0x0708, stamp: Some(0x090a_0b0c) };
    let report = Report { sent, cells: 0x1112, cells_clp0: 0x1314, errored_parities: Some(5) };
    let p = Function::Report(report).emit();
    assert_eq!(p[..12], [0x21, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    assert_eq!(p[40..46], [UNUSED, 0x13, 0x14, 5, 0x11, 0x12]);
    for cells in [128, 256, 512, 1024] {
        assert_eq!(BlockCode::of_cells(cells).unwrap().cells(), Some(cells));
    }
    assert_eq!((BlockCode::of_cells(100), BlockCode::NONE.cells()), (None, None));
    let request = Activation {
        subject: Subject::Monitoring,
        message: Message::Deactivate,
        directions: Directions::FromUs,
        tag: 9,
        blocks: [BlockCode::of_cells(128).unwrap(), BlockCode::of_cells(1024).unwrap()],
    };
    assert_eq!(Function::Activation(request).emit()[..4], [0x80, 0x16, 9, 0x81]);
    assert_eq!(request.answered(false).message, Message::DeactivationDenied);
}

#[test]
fn an_activation_cell_that_says_nothing_known_is_another_cell() {
    let mut body = [UNUSED; 46];
    for (octets, known) in [([0x81, 0x07], true), ([0x81, 0x04], false), ([0x81, 0x13], false), ([0x83, 0x07], false)] {
        body[..2].copy_from_slice(&octets);
        let mut p = [0; 48];
        p[..46].copy_from_slice(&body);
        [p[46], p[47]] = checksum(&p).to_be_bytes();
        let parsed = Function::parse(&p).unwrap();
        assert_eq!(matches!(parsed, Function::Activation(_)), known, "{octets:02x?}");
        assert_eq!(parsed == Function::Other(octets[0]), !known);
    }
}

#[test]
fn flows_stand_in_the_header() {
    let user = CellHeader { circuit: crate::CircuitId::new(1, 100).unwrap(), ..CellHeader::default() };
    assert_eq!(Flow::of(user), None);
    for flow in [Flow::F4Segment, Flow::F4EndToEnd, Flow::F5Segment, Flow::F5EndToEnd] {
        assert_eq!(Flow::of(flow.header(user)), Some(flow));
    }
}

#[test]
fn names_are_locations_and_printed_as_such() {
    for name in ["s1", "sixteen-octets-x"] {
        assert_eq!(Location::named(name).unwrap().to_string(), name);
    }
    assert_eq!(Location::named("seventeen-octets-x").unwrap().name(), Some("seventeen-octets"));
    assert_eq!(Location::named(""), None);
    assert_eq!(Location([0x6a; 16]).to_string(), "jjjjjjjjjjjjjjjj");
    for odd in ["a b", "a\0b", "\u{e9}", "a\n"] {
        let location = Location::named(odd).unwrap();
        assert_eq!((location.name(), location.to_string().len()), (None, 32), "{odd:?}");
    }
    assert_eq!(Location::END_POINT.to_string(), "ff".repeat(16));
}

fn monitoring() -> impl Strategy<Value = Monitoring> {
    (any::<u8>(), any::<u16>(), any::<u16>(), any::<u16>(), proptest::option::of(0..u32::MAX)).prop_map(
        |(sequence, cells, parities, cells_clp0, stamp)| Monitoring { sequence, cells, parities, cells_clp0, stamp },
    )
}

fn function() -> impl Strategy<Value = Function> {
    let defect = (any::<u8>(), any::<[u8; 16]>())
        .prop_map(|(kind, location)| Defect { kind: DefectType(kind), location: Location(location) });
    let loopback = (any::<bool>(), any::<u32>(), any::<[u8; 16]>(), any::<[u8; 16]>()).prop_map(
        |(request, correlation, location, source)| {
            Function::Loopback(Loopback {
                request,
                correlation,
                location: Location(location),
                source: Location(source),
            })
        },
    );
    let report = (monitoring(), any::<u16>(), any::<u16>(), proptest::option::of(0..u8::MAX)).prop_map(
        |(sent, cells, cells_clp0, errored_parities)| {
            Function::Report(Report { sent, cells, cells_clp0, errored_parities })
        },
    );
    let size = || prop_oneof![Just(0), Just(128u16), Just(256), Just(512), Just(1024)];
    let activation =
        (0usize..3, 0usize..6, 0usize..3, any::<u8>(), size(), size()).prop_map(|(s, m, d, tag, ab, ba)| {
            Function::Activation(Activation {
                subject: [Subject::Monitoring, Subject::ContinuityCheck, Subject::ForwardMonitoring][s],
                message: [
                    Message::Activate,
                    Message::ActivationConfirmed,
                    Message::ActivationDenied,
                    Message::Deactivate,
                    Message::DeactivationConfirmed,
                    Message::DeactivationDenied,
                ][m],
                directions: [Directions::ToUs, Directions::FromUs, Directions::Both][d],
                tag,
                blocks: [ab, ba].map(|cells| BlockCode::of_cells(cells).unwrap_or_default()),
            })
        });
    prop_oneof![
        defect.clone().prop_map(Function::Ais),
        defect.prop_map(Function::Rdi),
        Just(Function::ContinuityCheck),
        loopback,
        monitoring().prop_map(Function::Monitoring),
        report,
        activation,
    ]
}

proptest! {
    #[test]
    fn every_cell_comes_back_and_damage_is_seen(function in function(), bit in 0usize..384) {
        let mut p = function.emit();
        prop_assert_eq!(Function::parse(&p), Ok(function));
        p[bit / 8] ^= 0x80 >> (bit % 8);
        // The six reserved bits are covered by the CRC as well.
        prop_assert!(Function::parse(&p).is_err());
    }

    #[test]
    fn bip16_is_the_parity_of_each_bit_of_all_half_words(payloads in proptest::collection::vec(any::<[u8; 24]>(), 0..5)) {
        let payloads: std::vec::Vec<[u8; 48]> = payloads
            .iter()
            .map(|half| core::array::from_fn(|i| half[i % 24].wrapping_mul(i as u8 | 1)))
            .collect();
        let got = payloads.iter().fold(0, bip16);
        for bit in 0..16 {
            let ones = payloads.iter().flat_map(|p| p.chunks(2)).filter(|w| (w[bit / 8] >> (7 - bit % 8)) & 1 == 1).count();
            prop_assert_eq!(usize::from(got >> (15 - bit) & 1), ones % 2, "bit {}", bit);
        }
    }
}
