//! What is kept is read again, of a torn file the one before, and what cannot be used is refused and left alone.

use super::format::{VERSION, head};
use super::*;
use crate::objects::ObjectId;
use crate::sources::commands::Kept;
use std::fs;

fn kept(n: usize) -> Stored {
    let down = (0..n).map(|i| ObjectId::Link(format!("a - s:{i}"), 0)).collect();
    Stored { revision: n as u64, commands: Kept { down, ..Kept::default() }, ..Stored::default() }
}

/// A folder with these two files, if any.
fn folder_of(current: Option<&[u8]>, before: Option<&[u8]>) -> (tempfile::TempDir, StateFolder) {
    let folder = tempfile::tempdir().unwrap();
    for (name, octets) in [(CURRENT, current), (BEFORE, before)] {
        octets.iter().for_each(|octets| fs::write(folder.path().join(name), octets).unwrap());
    }
    let state = StateFolder::open(folder.path()).unwrap();
    (folder, state)
}

fn whole(n: usize) -> Vec<u8> {
    written(&kept(n)).unwrap()
}

fn set_aside(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut all: Vec<_> = names.filter(|name| name.contains("set-aside")).collect();
    all.sort();
    all.into_iter().map(|name| (name.clone(), fs::read(folder.join(name)).unwrap())).collect()
}

#[test]
fn what_was_kept_last_is_read_and_of_a_torn_file_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let mut state = StateFolder::open(&folder.path().join("s")).unwrap();
    let read = |state: &StateFolder| state.read(false).unwrap();
    assert_eq!(read(&state), None);
    for n in 0..4 {
        state.write(&kept(n)).unwrap();
        assert_eq!(read(&state), Some(kept(n)));
    }
    let path = state.path.join(CURRENT);
    let whole = fs::read(&path).unwrap();
    for cut in 0..whole.len() {
        fs::write(&path, &whole[..cut]).unwrap();
        assert_eq!(read(&state), Some(kept(2)), "torn after {cut} octets");
    }
    let mut flipped = whole.clone();
    *flipped.last_mut().unwrap() ^= 1;
    fs::write(&path, &flipped).unwrap();
    assert_eq!(read(&state), Some(kept(2)));
    // A torn one does not take the place of the whole one before it, and stays.
    state.write(&kept(9)).unwrap();
    assert_eq!(read(&state), Some(kept(9)));
    assert_eq!(set_aside(&state.path), [("state.json.set-aside-1".to_owned(), flipped)]);
    fs::write(&path, b"").unwrap();
    assert_eq!(read(&state), Some(kept(2)));
}

#[test]
fn what_cannot_be_used_is_refused_and_left_alone_or_set_aside_under_names_that_stay() {
    let (torn, good, newer) = (&whole(3)[..20], whole(4), b"cellway-state 3 3 abc\n{}".as_slice());
    let body = br#"{"revision":1,"commands":{"added":[],"removed":[],"down":[],"more":1}}"#;
    let unknown = [format!("{}\n", head(VERSION, body)).as_bytes(), body].concat();
    let cases = [
        (Some(torn), Some(torn), "torn"),
        (Some(b"".as_slice()), None, "torn"),
        (None, Some(torn), "torn"),
        (Some(newer), None, "version 3"),
        (Some(newer), Some(good.as_slice()), "version 3"),
        (Some(torn), Some(newer), "version 3"),
        (None, Some(newer), "version 3"),
        (Some(unknown.as_slice()), Some(good.as_slice()), "unknown field `more`"),
    ];
    for (current, before, why) in cases {
        let (folder, mut state) = folder_of(current, before);
        for _ in 0..2 {
            let said = state.read(false).unwrap_err().to_string();
            let file = folder.path().join(if current.is_some() { CURRENT } else { BEFORE });
            assert!(said.starts_with(&*file.to_string_lossy()) && said.contains(why), "{said}");
            assert!(said.contains("--state-reset"), "{said}");
        }
        let there = |name| fs::read(folder.path().join(name)).ok();
        assert_eq!((there(CURRENT).as_deref(), there(BEFORE).as_deref()), (current, before), "{why}");
        // Set aside, it outlives later writes and later resets.
        assert_eq!(state.read(true).unwrap(), None);
        (0..4).for_each(|n| state.write(&kept(n)).unwrap());
        let mut first = Vec::new();
        first.extend(before.map(|octets| (format!("{BEFORE}.set-aside-1"), octets.to_vec())));
        first.extend(current.map(|octets| (format!("{CURRENT}.set-aside-1"), octets.to_vec())));
        assert_eq!(set_aside(folder.path()), first, "{why}");
        [CURRENT, BEFORE].iter().for_each(|name| fs::write(folder.path().join(name), "again").unwrap());
        assert_eq!(state.read(true).unwrap(), None);
        let all = set_aside(folder.path());
        assert!(all.len() == first.len() + 2 && first.iter().all(|one| all.contains(one)), "{all:?}");
    }
}

#[test]
fn a_reset_leaves_alone_what_can_be_used() {
    let (torn, good) = (&whole(3)[..20], whole(4));
    for (current, before) in [(&*good, torn), (torn, &*good), (&*good, &*good)] {
        let (folder, state) = folder_of(Some(current), Some(before));
        assert_eq!(state.read(true).unwrap(), Some(kept(4)));
        let stays = set_aside(folder.path());
        assert!(stays.iter().all(|(_, octets)| octets == torn), "{stays:?}");
    }
}

#[test]
fn one_daemon_has_the_folder_until_it_gives_it_up() {
    let folder = tempfile::tempdir().unwrap();
    let first = StateFolder::open(folder.path()).unwrap();
    assert_eq!(first.read(false).unwrap(), None);
    let refused = format!("{:#}", StateFolder::open(folder.path()).unwrap_err());
    assert!(refused.contains(&format!("(process {})", std::process::id())), "{refused}");
    assert!(refused.contains("--state"), "{refused}");
    drop(first);
    StateFolder::open(folder.path()).unwrap();
}

#[test]
fn a_link_in_the_place_of_a_file_is_never_written_through() {
    let folder = tempfile::tempdir().unwrap();
    let precious = folder.path().join("precious");
    fs::write(&precious, "as it was").unwrap();
    let of = folder.path().join("state");
    let mut state = StateFolder::open(&of).unwrap();
    std::os::unix::fs::symlink(&precious, of.join(NEW)).unwrap();
    state.write(&kept(1)).unwrap();
    fs::hard_link(&precious, of.join(NEW)).unwrap();
    state.write(&kept(2)).unwrap();
    assert_eq!(state.read(false).unwrap(), Some(kept(2)));
    std::os::unix::fs::symlink(&precious, of.join(audit_log::NAME)).unwrap();
    assert!(format!("{:#}", state.log().unwrap_err()).contains("symbolic link"));
    fs::remove_file(of.join(audit_log::NAME)).unwrap();
    fs::hard_link(&precious, of.join(audit_log::NAME)).unwrap();
    assert!(format!("{:#}", state.log().unwrap_err()).contains("hard link"));
    assert_eq!(fs::read(&precious).unwrap(), b"as it was");
}

/// Names and contents of a folder's files.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap());
    let mut all: Vec<_> =
        files.map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap())).collect();
    all.sort();
    all
}

#[test]
fn a_state_of_a_newer_version_is_refused_with_cause_and_cure_and_nothing_in_its_folder_is_changed() {
    let folder = tempfile::tempdir().unwrap();
    let newer = VERSION + 1;
    let files = [CURRENT, BEFORE, LOCK, NEW, "audit.jsonl", "audit.1.jsonl"];
    for name in files {
        fs::write(folder.path().join(name), format!("cellway-state {newer} 2 of {name}\n{{}}")).unwrap();
    }
    let before = contents(folder.path());
    let started = crate::state_writer::StateWriter::of(StateFolder::open(folder.path()).unwrap(), false);
    let said = format!("{:#}", started.err().expect("it is refused"));
    for words in [&format!("is of version {newer}"), "reads versions 1 to 2", "start the program that wrote it"] {
        assert!(said.contains(words), "{said}");
    }
    assert_eq!(contents(folder.path()), before);
}
