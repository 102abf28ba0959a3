//! The states of Q.2110 and what each event does in them. What is not named is ignored.

use super::{Fault, Full, Signal, Sscop, State};
use wire::Time;
use wire::sscop::{MAX_DATA_OCTETS, Pdu, Sequence, Source};

impl Sscop {
    /// AA-ESTABLISH.request. `clear_buffers`: messages need not survive a recovery (BR of the standard).
    pub fn establish(&mut self, clear_buffers: bool, now: Time) {
        if matches!(self.state, State::Idle | State::OutgoingDisconnection) {
            self.clear_transmitter();
            self.clear_buffers = clear_buffers || self.state == State::OutgoingDisconnection;
            self.begin_connection_control(now);
            self.new_connection();
            self.send_begin();
            self.state = State::OutgoingConnection;
        }
    }

    /// AA-ESTABLISH.response.
    pub fn establish_response(&mut self, clear_buffers: bool, now: Time) {
        if self.state == State::IncomingConnection {
            self.clear_transmitter();
            self.clear_buffers = clear_buffers;
            self.init_window();
            self.send_begin_ack();
            self.open(now);
        }
    }

    /// AA-RELEASE.request.
    pub fn release(&mut self, now: Time) {
        match self.state {
            State::Idle | State::OutgoingDisconnection => {}
            State::IncomingConnection => {
                self.transmit(Pdu::BeginReject { uu: &[] });
                self.state = State::Idle;
            }
            _ => {
                if self.state == State::Ready {
                    self.stop_transfer();
                    self.prepare_retrieval();
                }
                self.begin_connection_control(now);
                self.end(Source::User);
                self.state = State::OutgoingDisconnection;
            }
        }
    }

    /// AA-RESYNC.request.
    pub fn resync(&mut self, now: Time) {
        match self.state {
            State::Ready => {
                self.stop_transfer();
                self.drop_all();
            }
            State::OutgoingRecovery | State::RecoveryResponse | State::IncomingRecovery => {}
            _ => return,
        }
        self.begin_connection_control(now);
        self.new_connection();
        self.send_resync();
        self.clear_transmitter();
        self.state = State::OutgoingResync;
    }

    /// AA-RESYNC.response.
    pub fn resync_response(&mut self, now: Time) {
        if self.state == State::IncomingResync {
            self.init_window();
            self.transmit(Pdu::ResyncAck { mr: self.vr_mr });
            self.clear_transmitter();
            self.open(now);
        }
    }

    /// AA-RECOVER.response.
    pub fn recover_response(&mut self, now: Time) {
        if !matches!(self.state, State::RecoveryResponse | State::IncomingRecovery) {
            return;
        }
        if !self.clear_buffers {
            self.sent.clear();
        }
        if self.state == State::IncomingRecovery {
            self.init_window();
            self.transmit(Pdu::RecoverAck { mr: self.vr_mr });
        }
        self.open(now);
    }

    /// AA-DATA.request: `message`, of at most 4096 octets, is sent in its turn. Dropped where there is no connection;
    /// kept during a recovery unless buffers are cleared by it.
    pub fn send(&mut self, message: Vec<u8>, now: Time) -> Result<(), Full> {
        let recovering =
            matches!(self.state, State::OutgoingRecovery | State::RecoveryResponse | State::IncomingRecovery);
        if self.backlog() >= self.config.queue || message.len() > MAX_DATA_OCTETS {
            return Err(Full(self.backlog()));
        }
        if self.state == State::Ready || recovering && !self.clear_buffers {
            self.queue.push_back(message);
            self.pump(now);
        }
        Ok(())
    }

    /// AA-UNITDATA.request: sent at once, in any state, without assurance.
    pub fn send_unit(&mut self, message: &[u8]) {
        self.transmit(Pdu::UnitData { data: &message[..message.len().min(MAX_DATA_OCTETS)] });
    }

    /// A PDU from the peer.
    pub fn handle_pdu(&mut self, octets: &[u8], now: Time) {
        let Ok(pdu) = Pdu::parse(octets) else {
            self.fault(Fault::Length);
            return;
        };
        match pdu {
            Pdu::Begin { sq, mr, .. } => self.on_begin(sq, mr, now),
            Pdu::BeginAck { mr, .. } => match self.state {
                State::Idle => self.refuse(Fault::BeginAck),
                State::OutgoingConnection => {
                    self.vt_ms = mr;
                    self.signal(Signal::EstablishConfirm);
                    self.open(now);
                }
                State::OutgoingDisconnection | State::OutgoingResync | State::Ready => {}
                _ => self.fault(Fault::BeginAck),
            },
            Pdu::BeginReject { .. } => match self.state {
                State::Idle => self.fault(Fault::BeginReject),
                State::OutgoingConnection => self.released(Source::User),
                State::OutgoingDisconnection => self.confirm_release(),
                _ => {
                    self.fault(Fault::BeginReject);
                    self.released(Source::Sscop);
                }
            },
            Pdu::End { source, .. } => match self.state {
                State::OutgoingConnection => {}
                State::Idle => self.transmit(Pdu::EndAck),
                State::OutgoingDisconnection => {
                    self.transmit(Pdu::EndAck);
                    self.confirm_release();
                }
                _ => {
                    self.transmit(Pdu::EndAck);
                    self.released(source);
                }
            },
            Pdu::EndAck => match self.state {
                State::Idle | State::OutgoingConnection => {}
                State::OutgoingDisconnection => self.confirm_release(),
                _ => {
                    self.fault(Fault::EndAck);
                    self.released(Source::Sscop);
                }
            },
            Pdu::Resync { sq, mr, .. } => self.on_resync(sq, mr, now),
            Pdu::ResyncAck { mr } => match self.state {
                State::Idle => self.refuse(Fault::ResyncAck),
                State::OutgoingResync => {
                    self.vt_ms = mr;
                    self.signal(Signal::ResyncConfirm);
                    self.open(now);
                }
                State::OutgoingConnection | State::OutgoingDisconnection | State::Ready => {}
                _ => self.fault(Fault::ResyncAck),
            },
            Pdu::Recover { sq, mr } => self.on_recover(sq, mr, now),
            Pdu::RecoverAck { mr } => match self.state {
                State::Idle => self.refuse(Fault::RecoverAck),
                State::OutgoingRecovery => self.recovered(mr, State::RecoveryResponse),
                State::IncomingConnection | State::IncomingResync | State::IncomingRecovery => {
                    self.fault(Fault::RecoverAck);
                }
                _ => {}
            },
            Pdu::Data { s, data } => match self.state {
                State::Ready => self.on_data(s, data, now),
                _ => self.unexpected(Fault::Data),
            },
            Pdu::Poll { s, ps } => match self.state {
                State::Ready => self.on_poll(s, ps, now),
                _ => self.unexpected(Fault::Poll),
            },
            Pdu::Stat { r, mr, ps, list } => match self.state {
                State::Ready => self.on_stat(r, mr, ps, list, now),
                _ => self.unexpected(Fault::Stat),
            },
            Pdu::UnsolicitedStat { r, mr, from, to } => match self.state {
                State::Ready => self.on_unsolicited_stat(r, mr, from, to, now),
                _ => self.unexpected(Fault::UnsolicitedStat),
            },
            Pdu::UnitData { data } => {
                if self.signals.len() < self.config.queue {
                    self.signal(Signal::UnitData(data.to_vec()));
                } else {
                    self.fault(Fault::Overrun);
                }
            }
            Pdu::ManagementData { .. } => {}
        }
    }

    /// The time has come that [`Self::poll_timeout`] gave.
    pub fn handle_timeout(&mut self, now: Time) {
        let due = |timer: &mut Option<Time>| timer.take_if(|at| *at <= now).is_some();
        if due(&mut self.cc_timer) {
            self.connection_control_expired(now);
        }
        if due(&mut self.no_response_timer) {
            self.stop_transfer();
            self.reject(Fault::NoResponse);
            self.prepare_retrieval();
        }
        if due(&mut self.idle_timer) {
            self.no_response_timer = Some(now + self.config.no_response);
            self.poll_peer(now);
        }
        let (polled, kept_alive) = (due(&mut self.poll_timer), due(&mut self.keep_alive_timer));
        if polled || kept_alive {
            self.poll_peer(now);
        }
    }

    fn connection_control_expired(&mut self, now: Time) {
        let more = self.vt_cc < self.config.max_connection_control;
        if more {
            self.vt_cc += 1;
            self.cc_timer = Some(now + self.config.connection_control);
        }
        match (self.state, more) {
            (State::OutgoingConnection, true) => self.send_begin(),
            (State::OutgoingResync, true) => self.send_resync(),
            (State::OutgoingRecovery, true) => self.transmit(Pdu::Recover { sq: self.vt_sq, mr: self.vr_mr }),
            (State::OutgoingDisconnection, true) => self.transmit(Pdu::End { source: self.end_source, uu: &[] }),
            (State::OutgoingDisconnection, false) => {
                self.fault(Fault::NoAnswer);
                self.confirm_release();
            }
            (_, false) => self.reject(Fault::NoAnswer),
            (_, true) => self.cc_timer = None,
        }
    }

    fn on_begin(&mut self, sq: u8, mr: Sequence, now: Time) {
        let again = self.is_again(sq);
        match (self.state, again) {
            // The standard refuses a BGN with the last connection's number here. It is taken as a new request, since a
            // peer that was started anew may choose that number.
            (State::Idle, _) => {
                self.vt_ms = mr;
                self.signal(Signal::EstablishIndication);
                self.state = State::IncomingConnection;
            }
            (State::OutgoingConnection, false) => {
                self.vt_ms = mr;
                self.init_window();
                self.send_begin_ack();
                self.signal(Signal::EstablishConfirm);
                self.open(now);
            }
            (State::OutgoingConnection | State::IncomingConnection, true) => {}
            (State::OutgoingDisconnection, true) => {
                self.send_begin_ack();
                self.transmit(Pdu::End { source: self.end_source, uu: &[] });
            }
            (State::OutgoingDisconnection, false) => {
                self.cc_timer = None;
                self.vt_ms = mr;
                self.signal(Signal::ReleaseConfirm);
                self.signal(Signal::EstablishIndication);
                self.state = State::IncomingConnection;
            }
            (State::OutgoingResync, true) => {
                self.send_begin_ack();
                self.send_resync();
            }
            (State::Ready, true) => {
                self.restart_no_response(now);
                self.send_begin_ack();
            }
            (_, true) => self.fault(Fault::Begin),
            (state, false) => {
                if state == State::Ready {
                    self.stop_transfer();
                    self.prepare_retrieval();
                }
                self.cc_timer = None;
                self.vt_ms = mr;
                self.signal(Signal::ReleaseIndication(Source::User));
                self.signal(Signal::EstablishIndication);
                self.state = State::IncomingConnection;
            }
        }
    }

    fn on_resync(&mut self, sq: u8, mr: Sequence, now: Time) {
        match self.state {
            State::Idle => return self.refuse(Fault::Resync),
            State::IncomingConnection => return self.fault(Fault::Resync),
            State::OutgoingConnection | State::OutgoingDisconnection => return,
            _ => {}
        }
        match (self.state, self.is_again(sq)) {
            (State::OutgoingResync, false) => {
                self.vt_ms = mr;
                self.init_window();
                self.transmit(Pdu::ResyncAck { mr: self.vr_mr });
                self.signal(Signal::ResyncConfirm);
                self.open(now);
            }
            (State::OutgoingResync | State::IncomingResync, true) => {}
            (State::IncomingResync, false) => self.fault(Fault::Resync),
            (State::Ready, true) => {
                self.restart_no_response(now);
                self.transmit(Pdu::ResyncAck { mr: self.vr_mr });
            }
            (_, true) => self.fault(Fault::Resync),
            (state, false) => {
                if state == State::Ready {
                    self.stop_transfer();
                    self.prepare_retrieval();
                }
                self.cc_timer = None;
                self.vt_ms = mr;
                self.signal(Signal::ResyncIndication);
                self.state = State::IncomingResync;
            }
        }
    }

    fn on_recover(&mut self, sq: u8, mr: Sequence, now: Time) {
        match self.state {
            State::Idle => return self.refuse(Fault::Recover),
            State::IncomingConnection | State::IncomingResync => return self.fault(Fault::Recover),
            State::OutgoingConnection | State::OutgoingDisconnection | State::OutgoingResync => return,
            _ => {}
        }
        match (self.state, self.is_again(sq)) {
            (State::OutgoingRecovery, false) => {
                self.init_window();
                self.transmit(Pdu::RecoverAck { mr: self.vr_mr });
                self.recovered(mr, State::RecoveryResponse);
            }
            (State::RecoveryResponse, true) => self.transmit(Pdu::RecoverAck { mr: self.vr_mr }),
            (State::IncomingRecovery, true) => {}
            (State::Ready, true) => {
                self.restart_no_response(now);
                self.transmit(Pdu::RecoverAck { mr: self.vr_mr });
            }
            (State::Ready, false) => {
                self.stop_transfer();
                self.prepare_recovery();
                self.recovered(mr, State::IncomingRecovery);
            }
            _ => self.fault(Fault::Recover),
        }
    }

    /// Data transfer PDUs where there is none.
    fn unexpected(&mut self, fault: Fault) {
        let is_list = matches!(fault, Fault::Stat | Fault::UnsolicitedStat);
        match self.state {
            State::Idle => self.refuse(fault),
            State::IncomingConnection | State::IncomingResync | State::IncomingRecovery => self.reject(fault),
            State::RecoveryResponse if is_list => self.reject(fault),
            _ => {}
        }
    }

    /// In Idle: a PDU that belongs to a connection is answered by its end.
    fn refuse(&mut self, fault: Fault) {
        self.fault(fault);
        self.transmit(Pdu::End { source: Source::Sscop, uu: &[] });
    }

    /// REJ: the connection is given up.
    fn reject(&mut self, fault: Fault) {
        self.fault(fault);
        self.end(Source::Sscop);
        self.released(Source::Sscop);
    }

    /// REC: a protocol error in state 10; both directions start anew.
    pub(super) fn recover(&mut self, fault: Fault, now: Time) {
        self.stop_transfer();
        self.fault(fault);
        self.begin_connection_control(now);
        self.new_connection();
        self.transmit(Pdu::Recover { sq: self.vt_sq, mr: self.vr_mr });
        self.prepare_recovery();
        self.state = State::OutgoingRecovery;
    }

    fn recovered(&mut self, mr: Sequence, state: State) {
        self.cc_timer = None;
        self.vt_ms = mr;
        let received = std::mem::take(&mut self.received);
        if !self.clear_buffers {
            received.into_iter().flatten().for_each(|data| self.signals.push_back(Signal::Data(data)));
        }
        self.signal(Signal::RecoverIndication);
        self.state = state;
    }

    fn released(&mut self, source: Source) {
        if self.state == State::Ready {
            self.stop_transfer();
            self.prepare_retrieval();
        }
        self.cc_timer = None;
        self.signal(Signal::ReleaseIndication(source));
        self.state = State::Idle;
    }

    fn confirm_release(&mut self) {
        self.cc_timer = None;
        self.signal(Signal::ReleaseConfirm);
        self.state = State::Idle;
    }

    /// Data transfer begins.
    fn open(&mut self, now: Time) {
        self.cc_timer = None;
        let zero = Sequence::ZERO;
        (self.vt_s, self.vt_ps, self.vt_a, self.vt_pa) = (zero, zero, zero, zero.plus(1));
        (self.vr_r, self.vr_h) = (zero, zero);
        self.vt_pd = 0;
        self.credit = true;
        self.sent.clear();
        self.again.clear();
        self.received.clear();
        self.state = State::Ready;
        self.poll_timer = Some(now + self.config.poll);
        self.no_response_timer = Some(now + self.config.no_response);
        self.pump(now);
    }

    fn stop_transfer(&mut self) {
        self.poll_timer = None;
        self.keep_alive_timer = None;
        self.no_response_timer = None;
        self.idle_timer = None;
    }

    /// Restarts Timer_NO-RESPONSE where it runs: in the idle phase there is nobody to wait for.
    fn restart_no_response(&mut self, now: Time) {
        if self.no_response_timer.is_some() {
            self.no_response_timer = Some(now + self.config.no_response);
        }
    }

    fn begin_connection_control(&mut self, now: Time) {
        self.vt_cc = 1;
        self.cc_timer = Some(now + self.config.connection_control);
    }

    /// A number for the connection, and what the peer may send at first.
    fn new_connection(&mut self) {
        self.vt_sq = self.vt_sq.wrapping_add(1);
        self.init_window();
    }

    /// What has not been taken counts against the new window.
    fn init_window(&mut self) {
        let waiting = self.signals.iter().filter(|signal| matches!(signal, Signal::Data(_))).count() as u32;
        self.vr_mr = Sequence::new(self.config.window.saturating_sub(waiting));
    }

    /// Whether the peer's connection number is the one that it used last; otherwise it is noted.
    fn is_again(&mut self, sq: u8) -> bool {
        std::mem::replace(&mut self.vr_sq, sq) == sq
    }

    fn end(&mut self, source: Source) {
        self.end_source = source;
        self.transmit(Pdu::End { source, uu: &[] });
    }

    fn send_begin(&mut self) {
        self.transmit(Pdu::Begin { sq: self.vt_sq, mr: self.vr_mr, uu: &[] });
    }

    fn send_begin_ack(&mut self) {
        self.transmit(Pdu::BeginAck { mr: self.vr_mr, uu: &[] });
    }

    fn send_resync(&mut self) {
        self.transmit(Pdu::Resync { sq: self.vt_sq, mr: self.vr_mr, uu: &[] });
    }

    fn clear_transmitter(&mut self) {
        if !self.clear_buffers {
            self.queue.clear();
            self.sent.clear();
        }
    }

    fn prepare_recovery(&mut self) {
        if self.clear_buffers {
            self.queue.clear();
            self.sent.clear();
        }
        self.again.clear();
    }

    fn prepare_retrieval(&mut self) {
        self.prepare_recovery();
        self.received.clear();
    }

    fn drop_all(&mut self) {
        self.queue.clear();
        self.sent.clear();
        self.again.clear();
        self.received.clear();
    }
}
