//! A desk-area network's chips under control cells of anybody, and a display under any cells.

use apic::control_cell::{Control, Operation, Way};
use apic::desk::device::{Device, Display, DisplaySettings};
use apic::desk::video::Part;
use apic::{Apic, Config, Connection, Controller, Port};
use bus::memory::NoMemory;
use wire::{Cell, CellHeader, CircuitId, PayloadType, Time};

fn vc(vci: u16) -> CircuitId {
    CircuitId::new(0, vci).expect("in range")
}

/// Requests, six octets each: the port and what is wrong with the cell, a register, a value. Connections beyond the
/// controller's range are as they were.
pub(crate) fn control(octets: &[u8]) {
    let mut chip = Apic::new(Config::default());
    let answers = (Port::Left, vc(60));
    chip.set_controller(0, Some(Controller { answers, vcis: Some(100..=109) }));
    let own = Connection::to_controller(0);
    let theirs = Connection::to(Port::Right, vc(201)).and_channel(1);
    chip.connect(Port::Left, vc(40), own).expect("there is room");
    chip.connect(Port::Left, vc(105), theirs).expect("there is room");
    let mut now = Time::ZERO;
    for part in octets.as_chunks::<6>().0 {
        let [kind, a, b, c, d, e] = *part;
        let request = Control {
            operation: if kind & 1 == 0 { Operation::Write } else { Operation::Read },
            way: if kind & 6 == 6 { Way::Done } else { Way::Request },
            number: kind.into(),
            register: u32::from_be_bytes([0, 0, a & 1, b]),
            value: u32::from(c) << 16 | u32::from(d) << 8 | u32::from(e),
        };
        let mut payload = request.emit();
        if kind & 0xf0 == 0xf0 {
            payload[usize::from(e) % 48] ^= d;
        }
        let header = CellHeader { circuit: vc(if kind & 8 == 0 { 40 } else { 105 }), ..CellHeader::default() };
        chip.handle_cell(Port::Left, &Cell::new(header, payload), now);
        for _ in 0..16 {
            now += std::time::Duration::from_nanos(400);
            chip.handle_timeout(now, &mut NoMemory);
            while let Some(cell) = chip.poll_cell(Port::Left) {
                if cell.circuit() == vc(60) {
                    let answer = Control::parse(&cell.payload).expect("an answer");
                    assert_ne!(answer.way, Way::Request);
                }
            }
            let _ = (chip.poll_cell(Port::Right), chip.poll_cell(Port::Memory));
        }
    }
    assert_eq!(chip.connection(Port::Left, vc(40)).map(|(connection, _)| connection), Some(own));
    assert_eq!(chip.connection(Port::Left, vc(105)).map(|(connection, _)| connection), Some(theirs));
    for vci in 0..300 {
        for port in Port::ALL {
            let Some((connection, _)) = chip.connection(port, vc(vci)) else { continue };
            let known = port == Port::Left && (vci == 40 || vci == 105);
            assert!(known || (100..=109).contains(&vci));
            assert!(known || connection.channel.is_none() && connection.controller.is_none());
        }
    }
}

/// SDUs of a display's circuit, or cells as they are: nothing is shown that is not whole.
pub(crate) fn display(octets: &[u8]) {
    if let Ok((part, image)) = Part::parse(octets) {
        assert!(part.offset as usize + image.len() <= part.frame_octets());
        assert_eq!(&part.emit()[..], &octets[..apic::desk::video::HEAD_OCTETS]);
    }
    let mut display = Display::new(DisplaySettings::default());
    display.set_circuit(vc(100), true);
    let mut cells = [Cell::default(); 64];
    for sdu in octets.chunks(2048).filter(|sdu| !sdu.is_empty()) {
        let segmentation = sar::Segmentation::new(vc(100), sdu.len(), sar::SduMeta::default());
        let n = segmentation.expect("not too long").fill(sdu, &mut cells);
        display.handle_cells(&cells[..n], Time::ZERO);
    }
    for payload in octets.as_chunks::<48>().0 {
        let payload_type = PayloadType::User { congestion: false, end: payload[47] & 1 == 1 };
        let header = CellHeader { circuit: vc(100 + u16::from(payload[46] & 1)), payload_type, clp: false };
        display.handle_cells(&[Cell::new(header, *payload)], Time::ZERO);
    }
    let seen = display.seen();
    assert!(seen.shown + seen.late + seen.damaged <= octets.len() as u64);
}
