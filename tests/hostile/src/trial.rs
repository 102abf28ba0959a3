//! A control run, an attack, and the judgement.

use crate::field::{Field, circuit};
use crate::watch::{Report, Watch};
use endpoint::{Endpoint, EndpointConfig, Geometry, OpenOptions};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a run takes, unless the attack says otherwise.
const RUN: Duration = Duration::from_millis(500);
/// A time slice that the system gives to somebody else can spoil a run; an attack that works spoils each.
const ATTEMPTS: usize = 6;

/// Trials of one test program, one at a time: they measure time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// What an attack goes for, and so how much later an innocent PDU may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The engine's thread itself: 5 ms.
    Engine,
    /// Anything else: 50 ms.
    Other,
}

impl Class {
    /// How much later than in the control run.
    pub fn bound(self) -> Duration {
        match self {
            Class::Engine => Duration::from_millis(5),
            Class::Other => Duration::from_millis(50),
        }
    }
}

/// An attack's view of its trial.
#[derive(Debug)]
pub struct Attack {
    until: Instant,
    over: AtomicBool,
    late: Mutex<Vec<String>>,
}

impl Attack {
    /// Whether the attack is to go on.
    pub fn goes_on(&self) -> bool {
        !self.over.load(Ordering::Relaxed) && Instant::now() < self.until
    }

    /// Sleeps to the end of the run.
    pub fn rest(&self) {
        while self.goes_on() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// What somebody else did beside the attack took so long. More than `most` spoils the run, as a late PDU of the innocent
    /// circuit does: once may be the machine's doing, each time is the attack's.
    pub fn took(&self, what: &str, time: Duration, most: Duration) {
        if time > most {
            let late = format!("{what} took {time:?}, {most:?} at most");
            self.late.lock().unwrap_or_else(PoisonError::into_inner).push(late);
        }
    }

    fn new(length: Duration) -> Self {
        Attack { until: Instant::now() + length, over: AtomicBool::new(false), late: Mutex::default() }
    }
}

/// What a run showed.
#[derive(Debug, Clone, Copy)]
struct Seen {
    innocent: Report,
    /// The longest time that a new client took to have its circuit, where there were any.
    newcomer: Duration,
}

/// An attack and what it must not disturb.
#[derive(Debug)]
pub struct Trial<F> {
    class: Class,
    field: fn() -> F,
    innocent: (&'static str, &'static str, u16),
    length: Duration,
    geometry: Geometry,
    newcomers: Option<u16>,
}

impl<F: Field> Trial<F> {
    /// On a field whose innocent circuit is 0.100 between `alpha` and `beta`. Each run has a field of its own.
    pub fn new(class: Class, field: fn() -> F) -> Self {
        let (innocent, geometry) = (("alpha", "beta", 100), Geometry::default());
        Trial { class, field, innocent, length: RUN, geometry, newcomers: None }
    }

    /// With another innocent circuit.
    #[must_use]
    pub fn innocent(mut self, from: &'static str, to: &'static str, vci: u16) -> Self {
        self.innocent = (from, to, vci);
        self
    }

    /// With an innocent circuit whose endpoints have little memory: 64 buffers of 16 KiB.
    #[must_use]
    pub fn small(mut self) -> Self {
        self.geometry = Geometry { send_ring: 64, receive_ring: 64, free_ring: 64, buffers: 64, buffer_octets: 16_384 };
        self
    }

    /// With new clients in both runs, one after another, each of which opens this circuit at the innocent sender's host. They are held to the
    /// bound that the innocent circuit's PDUs are held to.
    #[must_use]
    pub fn newcomers(mut self, vci: u16) -> Self {
        self.newcomers = Some(vci);
        self
    }

    /// With runs of this length.
    #[must_use]
    pub fn length(mut self, length: Duration) -> Self {
        self.length = length;
        self
    }

    /// Runs the attack beside the innocent circuit. The attack runs on a thread of its own until [`Attack::goes_on`] says no;
    /// it may panic if the field does not do what the attack needs.
    ///
    /// # Panics
    /// If the innocent circuit lost something, or was held up in each of six attempts.
    pub fn withstand(&self, attack: impl Fn(&F, &Attack) + Sync) {
        self.withstand_beside(
            |attack| {
                while attack.goes_on() {
                    std::hint::spin_loop();
                }
            },
            attack,
        );
    }

    /// The same with another control run: whatever any process can do that has never heard of the field.
    ///
    /// # Panics
    /// As [`Trial::withstand`].
    pub fn withstand_beside(&self, alone: impl Fn(&Attack) + Sync, attack: impl Fn(&F, &Attack) + Sync) {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let mut seen = Vec::new();
        for _ in 0..ATTEMPTS {
            let (control, _) = self.run(|_, attack| alone(attack));
            let (attacked, late) = self.run(&attack);
            let whole = |seen: &Seen| (seen.innocent.lost, seen.innocent.damaged);
            assert_eq!(whole(&control), (0, 0), "without an attack: {control:?}");
            assert_eq!(whole(&attacked), (0, 0), "the innocent circuit: {attacked:?}; without an attack: {control:?}");
            let bound = self.class.bound();
            let in_time = attacked.innocent.worst <= control.innocent.worst + bound;
            if in_time && attacked.newcomer <= control.newcomer + bound && late.is_empty() {
                return;
            }
            let times = |seen: Seen| (seen.innocent.worst, seen.newcomer);
            seen.push((times(control), times(attacked), late));
        }
        panic!(
            "the innocent circuit, or a new client, was held up by more than {:?}, or others were: (control, attacked, others) {seen:?}",
            self.class.bound()
        );
    }

    fn run(&self, attack: impl Fn(&F, &Attack) + Sync) -> (Seen, Vec<String>) {
        let field = (self.field)();
        let (from, to, vci) = self.innocent;
        let mut watch = Watch::new(&field, from, to, vci, self.geometry);
        let of_attack = Attack::new(self.length);
        let seen = std::thread::scope(|scope| {
            let (field, of_attack) = (&field, &of_attack);
            let attacker = scope.spawn(|| attack(field, of_attack));
            let newcomers = self.newcomers.map(|vci| scope.spawn(move || come(field, of_attack, from, vci)));
            let innocent = watch.run(|| of_attack.goes_on());
            of_attack.over.store(true, Ordering::Relaxed);
            let newcomer = newcomers.map_or(Ok(Duration::ZERO), |newcomers| newcomers.join());
            match (attacker.join(), newcomer) {
                (Ok(()), Ok(newcomer)) => Seen { innocent, newcomer },
                (Err(panic), _) | (_, Err(panic)) => std::panic::resume_unwind(panic),
            }
        });
        (seen, of_attack.late.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Opens a circuit as new clients; gives the longest time that one took.
fn come(field: &impl Field, attack: &Attack, host: &str, vci: u16) -> Duration {
    let geometry = Geometry { send_ring: 64, receive_ring: 64, free_ring: 64, buffers: 64, buffer_octets: 2048 };
    let config = EndpointConfig { host: host.into(), geometry, ..EndpointConfig::default() };
    let mut longest = Duration::ZERO;
    while attack.goes_on() {
        let begin = Instant::now();
        let mut client = Endpoint::create(field.socket(), &config).expect("an endpoint for a new client");
        client.open(circuit(vci), OpenOptions::default()).expect("a circuit for a new client");
        longest = longest.max(begin.elapsed());
    }
    longest
}
