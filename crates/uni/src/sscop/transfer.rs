//! Data transfer (state 10): sending with polls, reports of what is missing, selective retransmission.

use super::{Fault, Sent, Signal, Sscop, State, is_behind};
use wire::Time;
use wire::sscop::{Pdu, Sequence, StatList};

impl Sscop {
    /// Sends what may be sent: what is asked for again first, then new messages as far as there is credit.
    pub(super) fn pump(&mut self, now: Time) {
        while self.state == State::Ready {
            if let Some(number) = self.again.pop_front() {
                self.send_again(number, now);
            } else if self.queue.is_empty() {
                return;
            } else if self.has_credit() {
                if let Some(message) = self.queue.pop_front() {
                    let number = self.vt_s;
                    self.vt_s = number.plus(1);
                    self.transmit(Pdu::Data { s: number, data: &message });
                    self.sent.push_back(Sent { data: Some(message), stamp: self.vt_ps, queued: false });
                    self.after_data(now);
                }
            } else if self.idle_timer.take().is_some() {
                // Without credit in the idle phase: the peer's answer to a POLL may bring some.
                self.no_response_timer = Some(now + self.config.no_response);
                self.poll_peer(now);
                return;
            } else {
                return;
            }
        }
    }

    fn has_credit(&self) -> bool {
        !is_behind(self.vt_ms, self.vt_a) && self.vt_s.since(self.vt_a) < self.vt_ms.since(self.vt_a)
    }

    fn send_again(&mut self, number: Sequence, now: Time) {
        let index = number.since(self.vt_a) as usize;
        let stamp = self.vt_ps;
        let Some(sent) = self.sent.get_mut(index) else { return };
        sent.queued = false;
        sent.stamp = stamp;
        if let Some(message) = sent.data.take() {
            self.transmit(Pdu::Data { s: number, data: &message });
            if let Some(sent) = self.sent.get_mut(index) {
                sent.data = Some(message);
            }
            self.after_data(now);
        }
    }

    /// Timers and polls after each SD.
    fn after_data(&mut self, now: Time) {
        self.vt_pd += 1;
        if self.poll_timer.is_none() {
            if self.idle_timer.take().is_some() {
                self.no_response_timer = Some(now + self.config.no_response);
            } else {
                self.keep_alive_timer = None;
            }
            self.poll_timer = Some(now + self.config.poll);
        }
        if self.vt_pd >= self.config.max_data {
            self.send_poll();
            self.poll_timer = Some(now + self.config.poll);
        }
    }

    fn send_poll(&mut self) {
        self.vt_ps = self.vt_ps.plus(1);
        self.transmit(Pdu::Poll { s: self.vt_s, ps: self.vt_ps });
        self.vt_pd = 0;
    }

    /// Timer_POLL, Timer_KEEP-ALIVE or Timer_IDLE has expired.
    pub(super) fn poll_peer(&mut self, now: Time) {
        if self.state != State::Ready {
            return;
        }
        self.send_poll();
        if self.queue.is_empty() && self.sent.is_empty() {
            self.keep_alive_timer = Some(now + self.config.keep_alive);
        } else {
            self.poll_timer = Some(now + self.config.poll);
        }
    }

    pub(super) fn on_data(&mut self, number: Sequence, data: &[u8], now: Time) {
        let (at, highest, limit) = (number.since(self.vr_r), self.vr_h.since(self.vr_r), self.vr_mr.since(self.vr_r));
        if is_behind(number, self.vr_r) {
            self.fault(Fault::Old);
        } else if at >= limit {
            if highest < limit {
                self.report_gap(self.vr_h, self.vr_mr);
                self.hold_up_to(limit);
            }
        } else if at > highest {
            self.report_gap(self.vr_h, number);
            self.hold_up_to(at);
            self.received.push_back(Some(data.to_vec()));
            self.vr_h = number.plus(1);
        } else if at == highest && at > 0 {
            self.received.push_back(Some(data.to_vec()));
            self.vr_h = number.plus(1);
        } else if at == 0 {
            self.deliver(data.to_vec());
            if highest == 0 {
                self.vr_h = self.vr_r;
            } else {
                self.received.pop_front();
            }
            while let Some(Some(next)) = self.received.front_mut().map(Option::take) {
                self.received.pop_front();
                self.deliver(next);
            }
        } else if let Some(slot) = self.received.get_mut(at as usize) {
            if slot.is_some() {
                self.recover(Fault::Sequence, now);
            } else {
                *slot = Some(data.to_vec());
            }
        }
    }

    fn deliver(&mut self, data: Vec<u8>) {
        self.vr_r = self.vr_r.plus(1);
        self.signal(Signal::Data(data));
    }

    /// VR(H) becomes `at` numbers beyond VR(R); what lies between is missing. At most the window's size.
    fn hold_up_to(&mut self, at: u32) {
        self.received.resize_with(at as usize, || None);
        self.vr_h = self.vr_r.plus(at);
    }

    fn report_gap(&mut self, from: Sequence, to: Sequence) {
        self.transmit(Pdu::UnsolicitedStat { r: self.vr_r, mr: self.vr_mr, from, to });
    }

    pub(super) fn on_poll(&mut self, number: Sequence, ps: Sequence, now: Time) {
        let (at, highest, limit) = (number.since(self.vr_r), self.vr_h.since(self.vr_r), self.vr_mr.since(self.vr_r));
        if is_behind(number, self.vr_r) || at < highest {
            self.recover(Fault::Sequence, now);
            return;
        }
        self.hold_up_to(at.min(limit));
        self.send_stat(ps);
    }

    /// STAT: where missing and present SDs begin, in turn. A list too long for one PDU goes on in the next, which
    /// begins with the element that ended the one before.
    fn send_stat(&mut self, ps: Sequence) {
        let mut list: Vec<[u8; 4]> = Vec::new();
        let mut missing = false;
        for i in 0..self.received.len() {
            if self.received[i].is_none() == missing {
                continue;
            }
            missing = !missing;
            let element = self.vr_r.plus(i as u32).get().to_be_bytes();
            list.push(element);
            if missing && list.len() >= self.config.max_stat {
                self.transmit(Pdu::Stat { r: self.vr_r, mr: self.vr_mr, ps, list: StatList::new(&list) });
                list.clear();
                list.push(element);
            }
        }
        if !self.received.is_empty() {
            list.push(self.vr_h.get().to_be_bytes());
        }
        self.transmit(Pdu::Stat { r: self.vr_r, mr: self.vr_mr, ps, list: StatList::new(&list) });
    }

    pub(super) fn on_stat(&mut self, r: Sequence, mr: Sequence, ps: Sequence, list: StatList<'_>, now: Time) {
        // Before the first POLL, VT(PS) is one less than VT(PA), and no STAT is due.
        let none_due = self.vt_ps.plus(1) == self.vt_pa;
        if none_due || ps.since(self.vt_pa) > self.vt_ps.since(self.vt_pa) {
            return self.recover(Fault::PollSequence, now);
        }
        if r.since(self.vt_a) > self.vt_s.since(self.vt_a) {
            return self.recover(Fault::StatList, now);
        }
        self.acknowledge(r);
        self.vt_pa = ps;
        self.vt_ms = mr;
        let mut asked = 0;
        let mut i = 0;
        while let (Some(missing), Some(present)) = (list.get(i), list.get(i + 1)) {
            let (from, to) = (missing.since(self.vt_a), present.since(self.vt_a));
            if from >= to || !self.holds(from, to) {
                return self.recover(Fault::StatList, now);
            }
            asked += self.ask_again(from, to, Some(ps));
            if let Some(next) = list.get(i + 2) {
                let end = next.since(self.vt_a);
                if end <= to || end > self.vt_s.since(self.vt_a) {
                    return self.recover(Fault::StatList, now);
                }
                if self.clear_buffers {
                    self.sent.range_mut(to as usize..end as usize).for_each(|sent| sent.data = None);
                }
            }
            i += 2;
        }
        if asked > 0 {
            self.count(Fault::Retransmission, asked);
        }
        let credit = self.has_credit();
        if credit != self.credit {
            self.credit = credit;
            self.fault(if credit { Fault::Credit } else { Fault::NoCredit });
        }
        if self.poll_timer.is_some() {
            self.no_response_timer = Some(now + self.config.no_response);
        } else if self.idle_timer.is_none() {
            self.keep_alive_timer = None;
            self.no_response_timer = None;
            self.idle_timer = Some(now + self.config.idle);
        }
        self.pump(now);
    }

    pub(super) fn on_unsolicited_stat(&mut self, r: Sequence, mr: Sequence, from: Sequence, to: Sequence, now: Time) {
        let sent = self.vt_s.since(self.vt_a);
        let (acknowledged, begin, end) = (r.since(self.vt_a), from.since(self.vt_a), to.since(self.vt_a));
        let in_order = acknowledged < sent && begin < end && end <= sent && acknowledged <= begin;
        if !in_order || !self.holds(begin, end) {
            return self.recover(Fault::UnsolicitedList, now);
        }
        self.acknowledge(r);
        self.vt_ms = mr;
        let asked = self.ask_again(begin - acknowledged, end - acknowledged, None);
        if asked > 0 {
            self.count(Fault::Retransmission, asked);
        }
        self.pump(now);
    }

    /// The peer has everything before `r`.
    fn acknowledge(&mut self, r: Sequence) {
        let n = (r.since(self.vt_a) as usize).min(self.sent.len());
        self.sent.drain(..n);
        self.vt_a = r;
        if !self.again.is_empty() {
            let sent = self.vt_s.since(r);
            self.again.retain(|number| number.since(r) < sent);
        }
    }

    /// Whether the SDs from `from` to `to`, counted from VT(A), can be sent again.
    fn holds(&self, from: u32, to: u32) -> bool {
        to as usize <= self.sent.len() && self.sent.range(from as usize..to as usize).all(|sent| sent.data.is_some())
    }

    /// Queues SDs to be sent again, counted from VT(A), unless they already are, or were last sent after POLL `since`;
    /// how many.
    fn ask_again(&mut self, from: u32, to: u32, since: Option<Sequence>) -> u64 {
        let mut asked = 0;
        for at in from..to {
            let Some(sent) = self.sent.get_mut(at as usize) else { break };
            let before_poll = since.is_none_or(|ps| ps != sent.stamp && !is_behind(ps, sent.stamp));
            if before_poll && !sent.queued {
                sent.queued = true;
                self.again.push_back(self.vt_a.plus(at));
                asked += 1;
            }
        }
        asked
    }
}
