//! The state's files of every version so far are read: `tests/state/` has what each version's program wrote.

use control::objects::ObjectId;
use control::sources::commands::Written;
use control::state::StateFolder;
use control::state::format::VERSION;
use control::state::stored::Stored;
use std::fs;
use std::path::{Path, PathBuf};

fn fixtures() -> Vec<(String, PathBuf)> {
    let files = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/state")).unwrap();
    let mut all: Vec<(String, PathBuf)> =
        files.map(|file| file.unwrap()).map(|file| (file.file_name().into_string().unwrap(), file.path())).collect();
    all.sort();
    all
}

/// What a daemon finds in a folder whose state is this file.
fn read(fixture: &Path) -> Stored {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(fixture, folder.path().join("state.json")).unwrap();
    let mut state = StateFolder::open(folder.path()).unwrap();
    let stored = state.read(false).unwrap().expect("there is one");
    // What it writes then is the same, and the old file stays as the one before.
    state.write(&stored).unwrap();
    assert_eq!(state.read(false).unwrap().as_ref(), Some(&stored));
    assert_eq!(fs::read(folder.path().join("state.1.json")).unwrap(), fs::read(fixture).unwrap());
    let line = fs::read_to_string(folder.path().join("state.json")).unwrap();
    assert!(line.starts_with(&format!("cellway-state {VERSION} ")), "{line}");
    stored
}

#[test]
fn the_state_of_every_version_is_read_whole_and_written_as_the_present_one() {
    let fixtures = fixtures();
    for version in 1..=VERSION {
        let name = format!("version-{version}.json");
        assert!(fixtures.iter().any(|(file, _)| *file == name), "tests/state/{name} is missing");
    }
    for (name, path) in &fixtures {
        let Stored { revision, commands, answered, trial } = read(path);
        let [Written::Link(link), Written::Circuit(circuit)] = &commands.added[..] else {
            panic!("{name}: {:?}", commands.added)
        };
        assert_eq!(link.ends, ["alpha:1", "far"], "{name}");
        assert_eq!(circuit.ends, ["alpha 0.200", "beta 0.200"], "{name}");
        assert_eq!(commands.removed, [ObjectId::Circuit("alpha 0.100 - beta 0.100".into())], "{name}");
        assert_eq!(commands.down, [ObjectId::Link("alpha - beta".into(), 0)], "{name}");
        let old = (&link.real, &link.tcp, &link.udp);
        assert_eq!(old, (&None, &None, &None), "{name}: keys have their present names");
        match name.as_str() {
            "version-1-without-ids.json" => assert!(commands.ids.is_empty() && link.cells_udp.is_some()),
            "version-1-old-keys.json" => {
                assert_eq!((commands.ids.len(), link.peer_circuits_to.as_deref()), (2, Some("beta")));
            }
            _ => {
                assert_eq!(commands.up, [ObjectId::Link("alpha:1 - far".into(), 0)], "{name}");
                assert_eq!((commands.ids.len(), link.cells_tcp.is_some()), (2, true), "{name}");
            }
        }
        if name == "version-2.json" {
            assert_eq!((revision, answered.len()), (1027, 1));
            assert!(trial.is_some_and(|trial| trial.undone && trial.before.name == "net.toml"));
        } else {
            assert!(revision == 0 && answered.is_empty() && trial.is_none(), "{name}");
        }
    }
}
