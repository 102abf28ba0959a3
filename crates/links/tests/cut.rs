//! A link that is cut in the middle of traffic both ways, and made again: every PDU arrives once and whole, or is accounted
//! for, to the last one: at the ends by their counters, on the way by the proxy that cuts.

use links::tcp::{Role, Shell};
use net::{Carries, End, FrameAal, FramePool, LinkConfig, LinkId, Network, Node, NodeId, NodeIo};
use sar::SduMeta;
use std::any::Any;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wire::atmtcp::{HEAD_OCTETS, Head};
use wire::{CircuitId, DropReason, Time};

/// Sends numbered PDUs of many sizes as long as it is told to, and checks what comes.
struct Talker {
    circuit: CircuitId,
    talks: bool,
    sent: u64,
    /// PDUs for which the link had no room.
    refused: u64,
    received: u64,
    next: u64,
    wrong: Vec<String>,
}

fn pdu(number: u64) -> Vec<u8> {
    let octets = 8 + (number.wrapping_mul(2_654_435_761) % 20_000) as usize;
    let mut pdu: Vec<u8> = (0..octets as u64).map(|i| (number.wrapping_mul(31) + i * 7) as u8).collect();
    pdu[..8].copy_from_slice(&number.to_be_bytes());
    pdu
}

impl Node for Talker {
    fn run(&mut self, io: &mut NodeIo<'_>, _: Time) -> bool {
        let mut busy = false;
        while let Some((_, octets)) = io.frame_in(0) {
            let number = u64::from_be_bytes(*octets.first_chunk().unwrap());
            if octets != pdu(number) || number < self.next {
                self.wrong.push(format!("{number}, {} octets, after {}", octets.len(), self.next));
            }
            self.next = number + 1;
            self.received += 1;
            io.release_frame(0);
            busy = true;
        }
        for _ in 0..if self.talks { 4 } else { 0 } {
            let octets = pdu(self.sent);
            let frame = io.pool_mut().copy_in(self.circuit, FrameAal::Aal5, SduMeta::default(), &octets);
            let Some(frame) = frame else { break };
            if let Err(frame) = io.put_frame(0, frame) {
                io.pool_mut().release(frame);
                self.refused += 1;
                break;
            }
            self.sent += 1;
            busy = true;
        }
        busy
    }
    fn poll_timeout(&self) -> Option<Time> {
        None
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// One end: a talker, and its link to outside.
struct Side {
    network: Network,
    talker: NodeId,
    link: LinkId,
}

impl Side {
    fn new(role: Role) -> (Self, Option<SocketAddr>) {
        let mut network = Network::new(FramePool::new(64, 65_568));
        let circuit = "0.100".parse().unwrap();
        let talker = Talker { circuit, talks: false, sent: 0, refused: 0, received: 0, next: 0, wrong: Vec::new() };
        let talker = network.add_node("talker", Box::new(talker));
        let config = LinkConfig { carries: Carries::Frames, queue_cells: 16, ..LinkConfig::default() };
        let link = network.connect(End::Port(talker, 0), End::External, config).unwrap();
        let shell = Shell::new(role).unwrap();
        let address = shell.local_address().ok();
        assert!(network.attach(link, Box::new(shell)));
        (Side { network, talker, link }, address)
    }

    fn talker(&mut self) -> &mut Talker {
        self.network.node_mut(self.talker).unwrap()
    }

    fn is_up(&self) -> bool {
        self.network.link_info(self.link).unwrap().up
    }

    fn status(&self) -> String {
        let shell = self.network.externals().next().unwrap().1;
        format!("{} (reads: {}, writes: {})", shell.status(), shell.wants_read(), shell.wants_write())
    }

    /// What the link lost because it was down, or went down: to the outside, and from there.
    fn lost(&self) -> (u64, u64) {
        let info = self.network.link_info(self.link).unwrap();
        (info.from_a.sent.dropped(DropReason::LinkDown), info.from_b.sent.dropped(DropReason::LinkDown))
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.network.externals().next().unwrap().1.poll_timeout()
    }

    /// Some rounds, and what the engine does between them.
    fn step(&mut self, start: Instant) {
        let now = now(start);
        let ready: Vec<_> = self.network.externals().map(|(id, e)| (id, e.wants_read(), e.wants_write())).collect();
        for (id, read, write) in ready {
            self.network.handle_ready(id, read, write, now);
        }
        for _ in 0..8 {
            self.network.run(now);
        }
    }
}

fn now(start: Instant) -> Time {
    Time::ZERO + start.elapsed()
}

/// What one direction of a proxied connection has seen: octets passed on, and octets swallowed after the cut.
#[derive(Default)]
struct Passed {
    forwarded: Vec<u8>,
    swallowed: Vec<u8>,
}

impl Passed {
    /// PDUs whose first octet was never passed on and whose last one came: nobody but the proxy knows of them. The
    /// one that was passed on in part is the receiver's to count, the one that did not come whole the sender's.
    fn lost_on_the_way(&self) -> u64 {
        let all = [self.forwarded.as_slice(), self.swallowed.as_slice()].concat();
        let (mut at, mut lost) = (0, 0);
        while let Some(head) = all[at..].first_chunk::<HEAD_OCTETS>() {
            let head = Head::parse(head).unwrap();
            let end = at + HEAD_OCTETS + head.octets;
            if end > all.len() {
                break;
            }
            // The receiver knows of a PDU as soon as it has its head.
            let unknown = at + HEAD_OCTETS > self.forwarded.len();
            lost += u64::from(unknown && !head.is_control());
            at = end;
        }
        lost
    }
}

/// Passes octets on until the cut; then both sides see the connection's end, and what still comes goes nowhere.
fn proxy(listener: &TcpListener, to: SocketAddr, cut: &Arc<AtomicBool>) -> [JoinHandle<Passed>; 2] {
    let near = listener.accept().unwrap().0;
    let far = TcpStream::connect(to).unwrap();
    let pass = |mut from: TcpStream, mut to: TcpStream| {
        let cut = cut.clone();
        std::thread::spawn(move || {
            from.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
            let (mut passed, mut octets) = (Passed::default(), [0; 3001]);
            loop {
                let is_cut = cut.load(Ordering::Relaxed);
                if is_cut {
                    let _ = to.shutdown(Shutdown::Write);
                }
                match from.read(&mut octets) {
                    Ok(0) => {
                        // The other end saw the cut first.
                        let _ = to.shutdown(Shutdown::Write);
                        return passed;
                    }
                    Ok(n) if is_cut => passed.swallowed.extend_from_slice(&octets[..n]),
                    Ok(n) => {
                        // What an end that has aborted does not take is lost on the way, too.
                        if to.write_all(&octets[..n]).is_ok() {
                            passed.forwarded.extend_from_slice(&octets[..n]);
                        } else {
                            passed.swallowed.extend_from_slice(&octets[..n]);
                        }
                    }
                    Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                    Err(_) => {
                        let _ = to.shutdown(Shutdown::Write);
                        return passed;
                    }
                }
            }
        })
    };
    [pass(near.try_clone().unwrap(), far.try_clone().unwrap()), pass(far, near)]
}

#[test]
fn a_link_cut_in_mid_transfer_comes_back_and_every_pdu_is_whole_and_once_or_counted() {
    let start = Instant::now();
    let (mut b, to) = Side::new(Role::Listen("127.0.0.1:0".parse().unwrap()));
    let to = to.unwrap();
    let mut listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (mut a, _) = Side::new(Role::Connect(address));
    let until = |a: &mut Side, b: &mut Side, what: &str, done: &mut dyn FnMut(&mut Side, &mut Side) -> bool| {
        let begin = Instant::now();
        while !done(a, b) {
            assert!(begin.elapsed() < Duration::from_secs(20), "{what}: {}; {}", a.status(), b.status());
            a.step(start);
            b.step(start);
        }
    };
    let mut next_attempt = Time::ZERO;
    let (mut on_the_way_to_b, mut on_the_way_to_a) = (0, 0);
    for round in 0..3 {
        let cut = Arc::new(AtomicBool::new(false));
        let at_work = std::thread::spawn({
            let cut = cut.clone();
            move || proxy(&listener, to, &cut)
        });
        until(&mut a, &mut b, "up", &mut |a, b| a.is_up() && b.is_up());
        // Cut for a moment: refused at least once, and then no sooner than the back-off says.
        assert!(now(start) >= next_attempt, "up before {next_attempt}, in round {round}");
        let (before_a, before_b) = (a.talker().received, b.talker().received);
        a.talker().talks = true;
        b.talker().talks = true;
        until(&mut a, &mut b, "traffic both ways", &mut |a, b| {
            a.talker().received >= before_a + 500 && b.talker().received >= before_b + 500
        });
        cut.store(true, Ordering::Relaxed);
        until(&mut a, &mut b, "both ends see it", &mut |a, b| !a.is_up() && !b.is_up());
        // Traffic goes on for a while into the void.
        let (sent_a, sent_b) = (a.talker().sent, b.talker().sent);
        until(&mut a, &mut b, "sent while down", &mut |a, b| {
            a.talker().sent >= sent_a + 20 && b.talker().sent >= sent_b + 20
        });
        a.talker().talks = false;
        b.talker().talks = false;
        let [to_b, to_a] = at_work.join().unwrap().map(|direction| direction.join().unwrap());
        on_the_way_to_b += to_b.lost_on_the_way();
        on_the_way_to_a += to_a.lost_on_the_way();
        let refused = Instant::now();
        until(&mut a, &mut b, "attempts are refused", &mut |a, _| {
            // An attempt that is under way has ten seconds.
            let waits = a.poll_timeout().filter(|at| at.since(now(start)) < Duration::from_secs(9));
            next_attempt = waits.unwrap_or_default();
            refused.elapsed() > Duration::from_millis(700) && next_attempt > now(start)
        });
        assert!(!a.is_up());
        listener = TcpListener::bind(address).unwrap();
    }
    for side in [&mut a, &mut b] {
        assert!(side.talker().wrong.is_empty(), "{:?}", side.talker().wrong);
        assert_eq!(side.network.pool().in_use(), 0);
    }
    let ((a_out, a_in), (b_out, b_in)) = (a.lost(), b.lost());
    assert!(a_out >= 60 && b_out >= 60, "counted at the senders: {a_out}, {b_out}");
    // Of what the peer's system has not acknowledged nobody knows whether it came; it is counted as lost.
    let to_b = (a.talker().sent - b.talker().received, a_out + b_in + on_the_way_to_b);
    let to_a = (b.talker().sent - a.talker().received, b_out + a_in + on_the_way_to_a);
    for (lost, counted) in [to_b, to_a] {
        assert!(lost <= counted && counted - lost <= 100, "{lost} lost, {counted} counted");
    }
}
