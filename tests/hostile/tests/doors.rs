//! The engine's thread never does what another can make slow, and what an application passes along stalls nobody else.
//! A test program of its own: it opens files whose close takes long, which a child of another test would inherit.

use endpoint::control::{Request, Response};
use endpoint::layout::{ANY_NEWS, CLIENT_SLEEPS, CLIENT_WAITS, Descriptor, Head};
use endpoint::seqpacket::Packets;
use endpoint::{Connection, DataPath, Events};
use hostile::{Attack, Class, Field, Ground, Raw, Stalling, Trial, lingering};
use net::LinkConfig;
use rustix::event::epoll;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::OFlags;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use traffic::Contract;

/// Says to this program that it is the attacker, and where the service is.
const ATTACKER: &str = "HOSTILE_ATTACKER";
/// A user who is nobody else here.
const STRANGER: u32 = 65_534;

/// The innocent circuit 0.100, and eve's, 0.200.
fn ground() -> Ground {
    let ground = Ground::build()
        .host("alpha")
        .host("beta")
        .switch("s1")
        .link("alpha", "s1:0", LinkConfig::default())
        .link("beta", "s1:1", LinkConfig::default())
        .circuit("alpha 0.100", "beta 0.100", Contract::default())
        .circuit("alpha 0.200", "beta 0.200", Contract::default())
        .up();
    // Others than this user may reach the socket.
    let folder = ground.socket().parent().unwrap();
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(ground.socket(), std::fs::Permissions::from_mode(0o666)).unwrap();
    ground
}

/// Makes a descriptor block, and fills what it leads to.
fn choke(fd: &OwnedFd) {
    let _ = rustix::io::write(fd, &(u64::MAX - 1).to_ne_bytes());
    while rustix::net::send(fd, &[0; 4096], rustix::net::SendFlags::DONTWAIT).is_ok() {}
    let flags = rustix::fs::fcntl_getfl(fd).unwrap();
    rustix::fs::fcntl_setfl(fd, flags - OFlags::NONBLOCK).unwrap();
}

#[test]
fn descriptors_that_a_client_fills_and_makes_blocking_do_not_stop_the_engine() {
    Trial::new(Class::Engine, ground).withstand(|ground, attack| {
        let mut eve = Raw::new(ground.socket(), "alpha", 200);
        eve.provoke();
        eve.fds[1..].iter().for_each(choke);
        while attack.goes_on() {
            eve.segment.word32(endpoint::layout::HOST_SLEEPS).store(0, Ordering::SeqCst);
            eve.segment.word32(CLIENT_SLEEPS).store(ANY_NEWS, Ordering::SeqCst);
            eve.send.push(Head::of_buffer(Descriptor::INLINE));
            std::thread::sleep(Duration::from_micros(200));
        }
        let _ = &eve.packets;
    });
}

#[test]
fn a_client_that_rings_without_end_costs_little_more_than_its_own_time() {
    Trial::new(Class::Engine, ground).withstand(|ground, attack| {
        let eve = Raw::new(ground.socket(), "alpha", 200);
        while attack.goes_on() {
            eve.ring();
        }
    });
}

/// Some twenty thousand epoll registrations of a descriptor.
fn watch_often(fd: &OwnedFd) -> Vec<OwnedFd> {
    let copies: Vec<OwnedFd> = (0..200).map(|_| fd.try_clone().unwrap()).collect();
    let mut all = Vec::new();
    for _ in 0..100 {
        let watcher = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        for (i, copy) in copies.iter().enumerate() {
            let data = epoll::EventData::new_u64(i as u64);
            epoll::add(&watcher, copy, data, epoll::EventFlags::IN | epoll::EventFlags::ET).unwrap();
        }
        all.push(watcher);
    }
    all.extend(copies);
    all
}

#[test]
fn a_bell_with_thousands_of_watchers_is_rung_by_somebody_else() {
    Trial::new(Class::Engine, ground).withstand(|ground, attack| {
        let mut eve = Raw::new(ground.socket(), "alpha", 200);
        // Both that a client has: what is rung for it, and what it rings.
        let _watchers: Vec<_> = eve.fds[1..].iter().map(watch_often).collect();
        while attack.goes_on() {
            eve.segment.word32(CLIENT_SLEEPS).store(ANY_NEWS, Ordering::SeqCst);
            eve.send.push(eve.message());
            eve.ring();
            std::thread::sleep(Duration::from_millis(20));
        }
    });
}

#[test]
fn a_bell_whose_lock_somebody_holds_for_ever_stops_neither_the_engine_nor_other_users() {
    Trial::new(Class::Engine, ground).withstand(|ground, attack| {
        let (near, far) = UnixStream::pair().unwrap();
        let mut holder = Command::new("python3");
        holder.args(["-c", include_str!("hold.py")]).stdin(OwnedFd::from(far.try_clone().unwrap()));
        let mut holder = match holder.stdout(Stdio::piped()).stderr(Stdio::null()).spawn() {
            Ok(holder) => holder,
            Err(e) => return println!("skipped: python3: {e}"),
        };
        // The holder receives this, and has the socket's lock until it is killed.
        near.set_nonblocking(true).unwrap();
        while (&near).write(&[0; 4096]).is_ok() {}
        let mut ready = [0; 6];
        if holder.stdout.as_mut().unwrap().read_exact(&mut ready).is_err() {
            let _ = holder.wait();
            return println!("skipped: this user has no userfaultfd");
        }
        let mut eve = Raw::with_bell(ground.socket(), "alpha", 200, far.as_fd());
        while attack.goes_on() {
            // Its bell is to be rung, and to be emptied.
            eve.segment.word32(CLIENT_WAITS).store(1, Ordering::SeqCst);
            eve.provoke();
            std::thread::sleep(Duration::from_micros(500));
        }
        assert!((&near).write(&[0]).is_err(), "the bell has been emptied: nobody held its lock");
        holder.kill().unwrap();
        holder.wait().unwrap();
    });
}

/// Watches a descriptor by thousands, and writes to it: each write walks all watchers, with the processor's interrupts off.
fn trouble(fd: &OwnedFd, meanwhile: impl FnOnce()) {
    let _watchers = watch_often(fd);
    meanwhile();
    for _ in 0..20 {
        let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
    }
}

#[test]
fn endpoints_whose_doorbells_are_watched_by_thousands_end_without_the_engine() {
    // Interrupts that are off hold up every thread of the machine, and anybody can do that with an eventfd of their own: beside
    // that the doorbell of an endpoint that ends must make no difference.
    let alone = |attack: &Attack| {
        while attack.goes_on() {
            let own = rustix::event::eventfd(0, rustix::event::EventfdFlags::NONBLOCK).unwrap();
            // As the service has it, for the reaper to let go of meanwhile.
            let other = own.try_clone().unwrap();
            trouble(&own, || drop(std::thread::spawn(move || drop(watch_once(&other)))));
        }
    };
    Trial::new(Class::Engine, ground).withstand_beside(alone, |ground, attack| {
        while attack.goes_on() {
            let mut eve = Raw::new(ground.socket(), "alpha", 200);
            eve.provoke();
            let Raw { packets, fds, .. } = eve;
            // The engine lets go of the doorbell while its watchers are walked.
            trouble(&fds[1], || drop(packets));
        }
    });
}

/// One more watcher.
fn watch_once(fd: &OwnedFd) -> OwnedFd {
    let watcher = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    epoll::add(&watcher, fd, epoll::EventData::new_u64(0), epoll::EventFlags::IN | epoll::EventFlags::ET).unwrap();
    watcher
}

/// One kind of attack by descriptors whose close takes time: each is passed, and closed by whoever had it last.
fn pass_lingering(socket: &Path, way: u32) {
    let (slow, far) = lingering(Duration::from_secs(2));
    pass(socket, way, slow.as_fd());
    drop(slow);
    // Until now this end has kept the data from being taken.
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(4));
        drop(far);
    });
}

/// Passes a descriptor to the service in one of five ways.
fn pass(socket: &Path, way: u32, slow: BorrowedFd<'_>) {
    let packets = Packets::connect(socket).unwrap();
    match way % 5 {
        // With the greeting.
        0 => drop(packets.send(&Request::hello(), &[slow])),
        // With garbage.
        1 => drop(packets.send(&"garbage", &[slow])),
        // Left in the queue of a connection.
        2 => {
            for _ in 0..4 {
                let _ = packets.send(&"garbage", &[slow]);
            }
        }
        // As the bell, and inside the bell.
        way => {
            let (near, far_end) = UnixStream::pair().unwrap();
            let inside = Packets::from(OwnedFd::from(near));
            packets.send(&Request::hello(), &[]).unwrap();
            packets.receive::<Response>().unwrap();
            let (events, path) = (Events::Interrupt, DataPath::Shared);
            let create = Request::CreateEndpoint { host: "alpha".into(), geometry: Raw::GEOMETRY, events, path };
            let bell = if way == 3 { slow } else { far_end.as_fd() };
            let _ = inside.send(&"inside", &[slow]);
            packets.send(&create, &[bell]).unwrap();
            let _ = packets.receive::<Response>();
        }
    }
}

/// Not a test of its own: what another user's process does to the service.
#[test]
fn attacker() {
    let Ok(socket) = std::env::var(ATTACKER) else { return };
    for way in 0..10 {
        let socket = socket.clone();
        // A user proxy that is held up holds up this user; others of its threads go on attacking.
        std::thread::spawn(move || pass_lingering(Path::new(&socket), way));
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(Duration::from_millis(300));
}

#[test]
fn descriptors_that_take_long_to_close_hold_up_neither_the_engine_nor_other_users() {
    Trial::new(Class::Engine, ground).length(Duration::from_secs(1)).withstand(|ground, attack| {
        let mut other = Command::new(std::env::current_exe().unwrap());
        other.args(["--exact", "attacker"]).env(ATTACKER, ground.socket());
        let others_can = rustix::process::geteuid().is_root();
        if others_can {
            other.uid(STRANGER).gid(STRANGER);
        }
        let mut other = other.stdout(Stdio::null()).spawn().unwrap();
        let mut worst = Duration::ZERO;
        while attack.goes_on() {
            let begin = Instant::now();
            // Without a second user, there is the engine only to be looked at.
            if others_can {
                drop(Connection::open(ground.socket()).unwrap());
            }
            worst = worst.max(begin.elapsed());
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = other.kill();
        let _ = other.wait();
        attack.took("a connection of another user", worst, Duration::from_millis(500));
    });
}

#[test]
fn descriptors_that_take_long_to_close_do_not_keep_their_own_users_next_connection_waiting() {
    let ground = ground();
    Connection::open(ground.socket()).unwrap();
    for way in 0..5 {
        pass_lingering(ground.socket(), way);
        // The user proxy has them by now.
        std::thread::sleep(Duration::from_millis(50));
        let begin = Instant::now();
        Connection::open(ground.socket()).unwrap();
        // The close that it would wait for takes two seconds.
        assert!(begin.elapsed() < Duration::from_millis(1500), "way {way}: {:?}", begin.elapsed());
    }
}

#[test]
fn descriptors_that_are_not_closed_while_their_file_system_stalls_hold_up_neither_the_engine_nor_their_user() {
    if Stalling::mount().is_none() {
        return;
    }
    Trial::new(Class::Engine, ground).length(Duration::from_secs(1)).withstand(|ground, attack| {
        // Of each attack its own: the acceptor of a network that comes up later would inherit its files, and never have closed them.
        let stalling = Stalling::mount().expect("it could be mounted before");
        let mut passed = Vec::new();
        while attack.goes_on() {
            let slow = stalling.open();
            pass(ground.socket(), passed.len() as u32, slow.as_fd());
            passed.push(slow);
            let begin = Instant::now();
            drop(Connection::open(ground.socket()).unwrap());
            attack.took("a connection", begin.elapsed(), Duration::from_millis(500));
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(stalling.closing() > 0, "nobody has begun to close any of {}", passed.len());
        // They are closed once the file system is gone.
        drop((stalling, passed));
    });
}

#[test]
fn silent_connections_keep_nobody_out() {
    Trial::new(Class::Other, ground).withstand(|ground, attack| {
        let mut silent = Vec::new();
        while attack.goes_on() {
            silent.extend((0..20).filter_map(|_| Packets::connect(ground.socket()).ok()));
            let begin = Instant::now();
            Connection::open(ground.socket()).unwrap();
            attack.took("a connection", begin.elapsed(), Duration::from_secs(1));
        }
        assert!(silent.len() > 100, "only {} silent connections", silent.len());
    });
}

#[test]
fn a_receiver_that_takes_one_message_a_millisecond_does_not_keep_clocked_senders_from_sending() {
    fn clocked() -> Ground {
        Ground::build()
            .host("alpha")
            .host("beta")
            .host("eve")
            .switch("s1")
            .link("alpha", "s1:0", LinkConfig::default())
            .link("beta", "s1:1", LinkConfig::default())
            .link("eve", "s1:2", LinkConfig::default())
            .circuit("alpha 0.100", "beta 0.100", Contract::default())
            .circuit("alpha 0.101", "beta 0.101", Contract::default())
            .circuit("alpha 0.200", "eve 0.200", Contract::default())
            .up()
    }
    Trial::new(Class::Other, clocked).withstand(|ground, attack| {
        let (mut sender, channel) = ground.open("alpha", 200);
        let (mut slow, _) = ground.open("eve", 200);
        let events = Events::Clocked { hertz: 1000 };
        let clocked = |host: &str| endpoint::EndpointConfig { host: host.into(), events, ..Default::default() };
        let (mut innocent, on) = ground.open_as(101, &clocked("alpha"));
        let (mut receiver, _) = ground.open_as(101, &clocked("beta"));
        std::thread::scope(|scope| {
            scope.spawn(move || {
                while attack.goes_on() {
                    while sender.send_copy(channel, &[1; 40]).is_ok() {}
                    std::thread::sleep(Duration::from_micros(500));
                }
            });
            scope.spawn(move || {
                while attack.goes_on() {
                    slow.try_receive();
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            std::thread::sleep(Duration::from_millis(50));
            while attack.goes_on() {
                let begin = Instant::now();
                innocent.send_copy(on, &[2; 40]).unwrap();
                let got = receiver.receive(Some(Duration::from_secs(2))).unwrap().is_some();
                assert!(got, "nothing has come");
                attack.took("an SDU of a clocked sender", begin.elapsed(), Duration::from_millis(500));
            }
        });
    });
}
