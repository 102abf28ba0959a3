//! Peers that `cellway-lab bench endpoint` measures beside Cellway.
//!
//! `peers iceoryx2 HERE THERE` starts a second process, pins the two to these processors, and answers lines of its standard
//! input, `trip OCTETS BATCH BATCHES` or `rate OCTETS BATCH BATCHES`, with nanoseconds of one round trip or of one message:
//! the middle of the batches. Both sides look again and again; whoever sends writes every octet, whoever receives adds
//! them up.
#![forbid(unsafe_code)]

use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;
use std::error::Error;
use std::hint::{black_box, spin_loop};
use std::io::{BufRead, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn Error>>;
type Service = ipc::Service;

/// Samples on their way at most.
const DEPTH: usize = 32;
const MOST_OCTETS: usize = 65_536;

struct Side {
    publisher: Publisher<Service, [u8], ()>,
    subscriber: Subscriber<Service, [u8], ()>,
    _node: Node<Service>,
}

impl Side {
    /// `out` and `into` are names of the two directions.
    fn open(out: &str, into: &str) -> Result<Self> {
        let node = NodeBuilder::new().create::<Service>()?;
        let service = |name: &str| -> Result<_> {
            Ok(node
                .service_builder(&name.try_into()?)
                .publish_subscribe::<[u8]>()
                .enable_safe_overflow(false)
                .history_size(0)
                .subscriber_max_buffer_size(DEPTH)
                .max_publishers(1)
                .max_subscribers(1)
                .open_or_create()?)
        };
        let publisher = service(out)?
            .publisher_builder()
            .initial_max_slice_len(MOST_OCTETS)
            .backpressure_strategy(BackpressureStrategy::RetryUntilDelivered)
            .create()?;
        let subscriber = service(into)?.subscriber_builder().create()?;
        Ok(Side { publisher, subscriber, _node: node })
    }

    #[inline]
    fn send(&self, octets: usize, value: u8) -> Result<()> {
        let sample = self.publisher.loan_slice_uninit(octets)?;
        sample.write_from_fn(|_| value).send()?;
        Ok(())
    }

    #[inline]
    fn receive(&self) -> Result<u64> {
        loop {
            if let Some(sample) = self.subscriber.receive()? {
                let (words, rest) = sample.payload().as_chunks::<8>();
                let sum = words.iter().fold(0u64, |s, w| s.wrapping_add(u64::from_ne_bytes(*w)));
                return Ok(rest.iter().fold(sum, |s, b| s.wrapping_add(u64::from(*b))));
            }
            spin_loop();
        }
    }

    fn pong(&self, octets: usize, count: usize) -> Result<()> {
        for i in 0..count {
            black_box(self.receive()?);
            self.send(octets, i as u8)?;
        }
        Ok(())
    }

    fn ping(&self, octets: usize, batch: usize, batches: usize) -> Result<Vec<Duration>> {
        let mut times = Vec::new();
        for _ in 0..batches {
            let begin = Instant::now();
            for i in 0..batch {
                self.send(octets, i as u8)?;
                black_box(self.receive()?);
            }
            times.push(begin.elapsed());
        }
        Ok(times)
    }

    fn drain(&self, batch: usize, batches: usize) -> Result<Vec<Duration>> {
        let mut times = Vec::new();
        let mut begin = Instant::now();
        for _ in 0..batches {
            for _ in 0..batch {
                black_box(self.receive()?);
            }
            let now = Instant::now();
            times.push(now - begin);
            begin = now;
        }
        Ok(times)
    }

    fn flood(&self, octets: usize, count: usize) -> Result<()> {
        for i in 0..count {
            self.send(octets, i as u8)?;
        }
        Ok(())
    }
}

fn pin(processor: usize) -> Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    set.set(processor);
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

fn middle(times: &[Duration], batch: usize) -> f64 {
    let mut times = times[1..].to_vec();
    times.sort();
    times[(times.len() - 1) / 2].as_nanos() as f64 / batch as f64
}

fn task(line: &str) -> Result<(&str, usize, usize, usize)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [what, octets, batch, batches] = words[..] else { return Err(format!("no task: {line}").into()) };
    Ok((what, octets.parse()?, batch.parse()?, batches.parse()?))
}

fn second(name: &str, processor: usize) -> Result<()> {
    pin(processor)?;
    let side = Side::open(&format!("{name}/back"), &format!("{name}/there"))?;
    println!("ready");
    for line in std::io::stdin().lines() {
        let line = line?;
        let (what, octets, batch, batches) = task(&line)?;
        // The first batch waits for the other side.
        if what == "trip" {
            side.pong(octets, batch * (batches + 1))?;
            println!("done");
        } else {
            println!("{}", middle(&side.drain(batch, batches + 1)?, batch));
        }
    }
    Ok(())
}

fn first(here: usize, there: usize) -> Result<()> {
    let name = format!("cellway-bench-{}", std::process::id());
    let mut child = Command::new(std::env::current_exe()?)
        .args(["second", &name, &there.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut to = child.stdin.take().ok_or("its standard input")?;
    let mut from = std::io::BufReader::new(child.stdout.take().ok_or("its standard output")?).lines();
    let mut answer = move || -> Result<String> { Ok(from.next().ok_or("the second process has gone")??) };
    pin(here)?;
    let side = Side::open(&format!("{name}/there"), &format!("{name}/back"))?;
    answer()?;
    for line in std::io::stdin().lines() {
        let line = line?;
        let (what, octets, batch, batches) = task(&line)?;
        writeln!(to, "{line}")?;
        to.flush()?;
        if what == "trip" {
            let times = side.ping(octets, batch, batches + 1)?;
            answer()?;
            println!("{}", middle(&times, batch));
        } else {
            side.flood(octets, batch * (batches + 1))?;
            println!("{}", answer()?);
        }
    }
    drop(to);
    child.wait()?;
    Ok(())
}

fn main() -> Result<()> {
    set_log_level(LogLevel::Error);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["iceoryx2", here, there] => first(here.parse()?, there.parse()?),
        ["second", name, processor] => second(name, processor.parse()?),
        _ => Err("usage: peers iceoryx2 HERE THERE".into()),
    }
}
