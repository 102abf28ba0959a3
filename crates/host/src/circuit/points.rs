//! The OAM end points of a circuit (I.610): of its end-to-end flow, and of the segment that ends here.

use super::Circuit;
use net::NodeIo;
use switch::oam::{Alarm, EndPoint, PointConfig};
use wire::oam::Flow;
use wire::{Cell, CellHeader, Time};

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Points {
    pub(crate) end: EndPoint,
    pub(crate) segment: Option<Box<EndPoint>>,
}

impl Points {
    pub(crate) fn new(config: PointConfig) -> Box<Self> {
        Box::new(Points { end: EndPoint::new(config), segment: None })
    }

    pub(crate) fn get_mut(&mut self, segment: bool) -> Option<&mut EndPoint> {
        if segment { self.segment.as_deref_mut() } else { Some(&mut self.end) }
    }

    /// The point of a flow, made where it is not there.
    pub(crate) fn make(&mut self, segment: bool) -> &mut EndPoint {
        let config = PointConfig { sees_cells: false, ..self.end.config() };
        if segment {
            return self.segment.get_or_insert_with(|| Box::new(EndPoint::new(config)));
        }
        &mut self.end
    }

    fn each(&mut self) -> impl Iterator<Item = &mut EndPoint> {
        [Some(&mut self.end), self.segment.as_deref_mut()].into_iter().flatten()
    }

    pub(crate) fn alarms(&self) -> impl Iterator<Item = Alarm> {
        self.end.alarms().chain(self.segment.iter().flat_map(|segment| segment.alarms()))
    }

    fn has_defect(&mut self) -> bool {
        self.each().any(|point| point.incoming_defect().is_some())
    }

    /// User cells came. True if that has ended an alarm.
    #[inline]
    pub(crate) fn handle_user_cells(&mut self, cells: &[Cell], now: Time) -> bool {
        let alarmed = self.has_defect();
        self.end.handle_user_cells(cells, now);
        if let Some(segment) = &mut self.segment {
            segment.handle_traffic(now);
        }
        alarmed
    }

    /// The same for a frame.
    pub(crate) fn handle_frame(&mut self, now: Time) -> bool {
        self.handle_user_cells(&[], now)
    }

    /// Whether a flow has nothing to keep and no timer: the segment's is forgotten then.
    pub(crate) fn is_at_rest(&mut self) -> bool {
        let rests = |point: &mut EndPoint| point.is_at_rest() && point.armed.is_none() && !point.awake;
        if self.segment.as_deref_mut().is_some_and(rests) {
            self.segment = None;
        }
        self.segment.is_none() && rests(&mut self.end)
    }
}

/// What may be done before user cells leave.
pub(crate) enum Before {
    /// So many may leave.
    Cells(usize),
    /// None before the pacer's time.
    Paced,
    /// None: the monitoring cell that is due has no room.
    Full,
}

impl Circuit {
    /// How many user cells may leave before the next monitoring cell; one that is due leaves now.
    #[inline]
    pub(crate) fn before_user_cells(&mut self, io: &mut NodeIo<'_>, most: usize, now: Time) -> Before {
        match self.points.as_deref().and_then(|points| points.end.cells_to_monitoring()) {
            None => Before::Cells(most),
            Some(0) => self.send_monitoring(io, most, now),
            Some(left) => Before::Cells(most.min(left)),
        }
    }

    #[cold]
    fn send_monitoring(&mut self, io: &mut NodeIo<'_>, most: usize, now: Time) -> Before {
        let port = usize::from(self.config.port);
        if self.pacer.as_ref().is_some_and(|pacer| pacer.allowed(now, 1) == 0) {
            return Before::Paced;
        }
        if io.cells_out(port).is_empty() {
            return Before::Full;
        }
        let Some(end) = self.points.as_deref_mut().map(|points| &mut points.end) else { return Before::Cells(most) };
        let left = |end: &EndPoint| end.cells_to_monitoring().map_or(most, |left| most.min(left));
        let Some(monitoring) = end.take_monitoring() else { return Before::Cells(left(end)) };
        let left = left(end);
        let header = CellHeader { circuit: self.id, ..CellHeader::default() };
        io.put_cell(port, &Cell::new(Flow::F5EndToEnd.header(header), monitoring.emit()));
        self.sent.cells = self.sent.cells.wrapping_add(1);
        match &mut self.pacer {
            Some(pacer) => {
                pacer.sent(1, now);
                match pacer.allowed(now, left) {
                    0 => Before::Paced,
                    allowed => Before::Cells(allowed),
                }
            }
            None => Before::Cells(left),
        }
    }

    /// User cells are about to leave. They are in the link's slots already.
    #[inline]
    pub(crate) fn note_sent(&mut self, cells: &[Cell], now: Time) {
        if let Some(points) = &mut self.points {
            points.end.handle_sent(cells, now);
        }
    }

    /// A frame has left.
    pub(crate) fn note_sent_frame(&mut self, now: Time) {
        if let Some(points) = &mut self.points {
            points.end.handle_sent_frame(now);
        }
    }

    /// Whether its end point has a cell to send.
    #[inline]
    pub(crate) fn has_oam_output(&self, now: Time) -> bool {
        self.points.as_ref().is_some_and(|points| points.end.has_output(now))
    }
}
