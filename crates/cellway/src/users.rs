//! Users by name, as this machine's /etc/passwd has them.

use control::openers::Opener;
use std::collections::HashMap;
use std::path::Path;

/// The names that have been looked up.
#[derive(Debug, Default)]
pub(crate) struct Users {
    names: Option<HashMap<u32, String>>,
}

impl Users {
    /// A user's name, or the number of one without.
    pub(crate) fn name(&mut self, uid: u32) -> String {
        let names = self.names.get_or_insert_with(|| read(Path::new("/etc/passwd")));
        names.get(&uid).cloned().unwrap_or_else(|| uid.to_string())
    }

    /// Who has something open: user, program and process.
    pub(crate) fn shown(&mut self, opener: &Opener) -> String {
        let user = self.name(opener.uid);
        let program: String = opener.program.chars().filter(|c| !c.is_control()).collect();
        format!("{user} {program}[{}]", opener.pid)
    }
}

fn read(file: &Path) -> HashMap<u32, String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let user = |line: &str| {
        let mut fields = line.split(':');
        let (name, uid) = (fields.next()?, fields.nth(1)?);
        Some((uid.parse().ok()?, name.to_owned()))
    };
    text.lines().filter_map(user).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_a_name_if_the_machine_has_one_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("passwd");
        std::fs::write(&file, "root:x:0:0:root:/root:/bin/sh\nbad line\nada:x:1000:1000::/nonexistent:/bin/sh\n")
            .unwrap();
        let mut users = Users { names: Some(read(&file)) };
        let mut shown = |uid| users.shown(&Opener { uid, pid: 42, program: "cell\x1bway".into() });
        assert_eq!(shown(1000), "ada cellway[42]");
        assert_eq!(shown(1001), "1001 cellway[42]");
    }
}
