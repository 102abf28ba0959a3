//! Answers to the peer's requests: what it reads, and what it sets.

use super::objects::{INVALID, VALID, address_of, address_row, forum, prefix_of, prefix_row, system};
use super::{Event, Ilmi, Side, Step};
use wire::Time;
use wire::aesa::Aesa;
use wire::ilmi::{Binding, ErrorStatus, Head, Kind, Message, Oid, Value};

/// Variables of one request; more is too big.
const MOST_VARIABLES: usize = 24;

impl Ilmi {
    /// All objects that the peer can read, in order.
    fn objects(&self, now: Time) -> Vec<(Oid, Value<'_>)> {
        let config = &self.config;
        let (vpi_bits, vci_bits) = config.bits;
        let number = |n: u32| Value::Integer(n.into());
        let is_user = config.side == Side::User;
        let mut objects = vec![
            (system(&[1, 0]), Value::Octets(b"Cellway")),
            (system(&[2, 0]), Value::Oid(super::objects::enterprise())),
            (system(&[3, 0]), Value::Ticks(self.up_time(now))),
            // A stock `ilmid` asks for the whole group, and ends itself if one of these is missing.
            (system(&[4, 0]), Value::Octets(b"unknown")),
            (system(&[5, 0]), Value::Octets(b"unknown")),
            (system(&[6, 0]), Value::Octets(b"unknown")),
            (system(&[7, 0]), number(2)),
            (forum(&[1, 1, 1, 1, 0]), number(0)),
            (forum(&[1, 1, 1, 7, 0]), Value::Octets(b"atm0")),
            (forum(&[1, 1, 1, 8, 0]), number(config.identity.interface)),
            (forum(&[1, 4, 0]), Value::Octets(&config.identity.system)),
            (forum(&[2, 1, 1, 1, 0]), number(0)),
            (forum(&[2, 1, 1, 2, 0]), number(0)),
            (forum(&[2, 1, 1, 3, 0]), number(1 << vci_bits.min(16))),
            (forum(&[2, 1, 1, 4, 0]), number(0)),
            (forum(&[2, 1, 1, 5, 0]), number(2)),
            (forum(&[2, 1, 1, 6, 0]), number(vpi_bits.into())),
            (forum(&[2, 1, 1, 7, 0]), number(vci_bits.into())),
            // Private UNI, version 4.0, ILMI 4.0.
            (forum(&[2, 1, 1, 8, 0]), number(2)),
            (forum(&[2, 1, 1, 9, 0]), number(4)),
            (forum(&[2, 1, 1, 10, 0]), number(if is_user { 1 } else { 2 })),
            (forum(&[2, 1, 1, 11, 0]), number(2)),
            // Addresses can be registered.
            (forum(&[11, 1, 1, 2, 0]), number(1)),
        ];
        // Each side reads what it has set at the other: prefixes at the user, addresses at the network.
        if is_user {
            objects.extend(self.prefixes.iter().map(|prefix| (prefix_row(prefix), Value::Integer(VALID))));
        } else {
            objects.extend(self.addresses.iter().map(|address| (address_row(address), Value::Integer(VALID))));
        }
        objects.sort_by_key(|(name, _)| *name);
        objects
    }

    pub(super) fn on_request(
        &mut self,
        kind: Kind,
        id: i32,
        message: &Message<'_>,
        is_taken: &dyn Fn(&Aesa) -> bool,
        now: Time,
    ) {
        let asked: Vec<Binding<'_>> = message.bindings().take(MOST_VARIABLES + 1).collect();
        let answer = |status, index: usize| Head::Request { kind: Kind::Response, id, status, index: index as u8 };
        if asked.len() > MOST_VARIABLES {
            return self.send(&answer(ErrorStatus::TOO_BIG, 0), &[]);
        }
        if kind == Kind::Set {
            // All or nothing: what cannot be set is found before anything is.
            let (status, index) =
                self.first_refused(&asked, is_taken).map_or((ErrorStatus::NONE, 0), |(status, i)| (status, i + 1));
            self.send(&answer(status, index), &asked);
            if status == ErrorStatus::NONE {
                asked.iter().for_each(|binding| self.set(binding));
                self.ask_next(now);
            } else {
                self.refused += 1;
            }
            return;
        }
        let objects = self.objects(now);
        let mut values = Vec::with_capacity(asked.len());
        for (i, binding) in asked.iter().enumerate() {
            // What is asked for carries no value that means anything.
            let at = objects.partition_point(|(name, _)| match kind {
                Kind::GetNext => *name <= binding.name,
                _ => *name < binding.name,
            });
            let found = objects.get(at).filter(|(name, _)| kind == Kind::GetNext || *name == binding.name);
            match found {
                Some((name, value)) => values.push((*name, *value)),
                None => return self.send(&answer(ErrorStatus::NO_SUCH_NAME, i + 1), &asked),
            }
        }
        let mut octets = vec![0; 4 * wire::ilmi::MAX_OCTETS];
        let bindings: Vec<Binding<'_>> =
            values.iter().map(|(name, value)| Binding { name: *name, value: *value }).collect();
        let n = wire::ilmi::emit(&answer(ErrorStatus::NONE, 0), &bindings, &mut octets);
        if let Some(n) = n.filter(|_| self.out.len() < super::OUT_LIMIT) {
            octets.truncate(n);
            self.out.push_back(octets);
        }
    }

    /// The first variable of a request that cannot be set, and why.
    fn first_refused(&self, asked: &[Binding<'_>], is_taken: &dyn Fn(&Aesa) -> bool) -> Option<(ErrorStatus, usize)> {
        let mut added = 0;
        for (i, binding) in asked.iter().enumerate() {
            match self.can_set(binding, added, is_taken) {
                Ok(is_new) => added += usize::from(is_new),
                Err(status) => return Some((status, i)),
            }
        }
        None
    }

    /// Whether a variable can be set where `added` prefixes or addresses come before it in the request; true if it adds
    /// one.
    fn can_set(
        &self,
        binding: &Binding<'_>,
        added: usize,
        is_taken: &dyn Fn(&Aesa) -> bool,
    ) -> Result<bool, ErrorStatus> {
        let Value::Integer(VALID | INVALID) = binding.value else { return Err(ErrorStatus::BAD_VALUE) };
        let valid = binding.value == Value::Integer(VALID);
        let most = self.config.max_addresses;
        match self.config.side {
            Side::User => {
                let prefix = prefix_of(&binding.name).ok_or(ErrorStatus::NO_SUCH_NAME)?;
                let is_new = valid && !self.prefixes.contains(&prefix);
                let steps = self.steps.len() + (added + 1) * self.config.esis.len();
                let full = self.prefixes.len() + added >= most || steps > 2 * most;
                if is_new && full { Err(ErrorStatus::GENERAL) } else { Ok(is_new) }
            }
            Side::Network => {
                let address = address_of(&binding.name).ok_or(ErrorStatus::NO_SUCH_NAME)?;
                let is_new = valid && !self.addresses.contains(&address);
                if valid && (!self.config.prefixes.contains(&address.prefix()) || is_taken(&address)) {
                    return Err(ErrorStatus::BAD_VALUE);
                }
                let full = self.addresses.len() + added >= most;
                if is_new && full { Err(ErrorStatus::GENERAL) } else { Ok(is_new) }
            }
        }
    }

    fn set(&mut self, binding: &Binding<'_>) {
        let valid = binding.value == Value::Integer(VALID);
        match self.config.side {
            Side::User => {
                let Some(prefix) = prefix_of(&binding.name) else { return };
                if valid {
                    self.prefixes.insert(prefix);
                    let wanted: Vec<_> = self.wanted().filter(|a| a.prefix() == prefix).collect();
                    for address in wanted.into_iter().filter(|a| !self.addresses.contains(a)) {
                        let step = Step::SetAddress(address, true);
                        if !self.steps.contains(&step) {
                            self.steps.push_back(step);
                        }
                    }
                } else if self.prefixes.remove(&prefix) {
                    self.steps.retain(|step| !matches!(step, Step::SetAddress(a, true) if a.prefix() == prefix));
                    let gone: Vec<_> = self.addresses.iter().copied().filter(|a| a.prefix() == prefix).collect();
                    for address in gone {
                        self.addresses.remove(&address);
                        self.events.push_back(Event::Withdrawn(address));
                        self.withdraw_at_peer(address);
                    }
                }
            }
            Side::Network => {
                let Some(address) = address_of(&binding.name) else { return };
                if valid && self.addresses.insert(address) {
                    self.events.push_back(Event::Registered(address));
                } else if !valid && self.addresses.remove(&address) {
                    self.events.push_back(Event::Withdrawn(address));
                }
            }
        }
    }
}
