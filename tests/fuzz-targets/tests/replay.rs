//! Replays the corpus, and mutations of it, through every target: what a fuzzer has found stays found.

use fuzz_targets::TARGETS;
use std::path::PathBuf;

/// Mutations of each file.
const MUTATIONS: u64 = 600;

fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus")).join(target);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<_> = entries.map(|e| e.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|p| (p.clone(), std::fs::read(p).unwrap())).collect()
}

/// A small generator (xorshift): the same mutations in every run.
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below.max(1) as u64) as usize
    }
}

fn mutate(octets: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.next(4) {
        let at = random.next(octets.len());
        match random.next(6) {
            0 if !octets.is_empty() => octets[at] ^= 1 << random.next(8),
            1 if !octets.is_empty() => octets[at] = [0, 1, 0x7f, 0x80, 0xff][random.next(5)],
            2 if !octets.is_empty() => octets.truncate(at),
            3 => octets.insert(at.min(octets.len()), random.next(256) as u8),
            4 => {
                let end = (at + random.next(80)).min(octets.len());
                let part = octets[at.min(end)..end].to_vec();
                octets.extend_from_slice(&part);
            }
            _ => octets.extend((0..random.next(64)).map(|_| random.next(256) as u8).collect::<Vec<_>>()),
        }
    }
    octets.truncate(8192);
}

#[test]
fn every_target_survives_its_corpus_and_mutations_of_it() {
    for (name, target) in TARGETS {
        let files = corpus(name);
        assert!(!files.is_empty(), "target {name} has no corpus");
        for (i, (path, octets)) in files.iter().enumerate() {
            let feed = |octets: &[u8]| {
                let caught = std::panic::catch_unwind(|| target(octets));
                assert!(caught.is_ok(), "target {name}, from {}: {octets:02x?}", path.display());
            };
            feed(octets);
            let mut random = Random(0x9e37_79b9 + i as u64);
            let mut mutant = octets.clone();
            for round in 0..MUTATIONS {
                if round % 8 == 0 {
                    mutant = octets.clone();
                }
                mutate(&mut mutant, &mut random);
                feed(&mutant);
            }
        }
    }
}
