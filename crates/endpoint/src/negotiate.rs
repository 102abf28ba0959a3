//! What library and service agree on before anything else: a version of the messages, and features.
//!
//! Each side speaks a range of versions; the newest that both speak is used. A feature is a name: the library says
//! which it knows, the service answers with those of them that it has. So a newer library works with an older service
//! as far as what it needs is there, and is told what is missing where it is not.

/// Newest version of the messages that this crate speaks.
pub const VERSION: u32 = 2;
/// Oldest version that it speaks.
pub const OLDEST: u32 = 2;
/// Direct circuits, in layout version [`crate::direct::layout::VERSION`].
pub const DIRECT: &str = "direct";
/// Own memory to send from and receive into, made by the service: [`crate::app_memory`].
pub const OWN_MEMORY: &str = "memory";
/// The endpoint's segment may be mapped again, by a program that inherits it through `exec`: it is not sealed. For the
/// service's own user only, who can do worse; not asked for by [`all_features`].
pub const REMAP: &str = "remap";
/// Channels of AAL3/4.
pub const AAL34: &str = "aal34";
/// A sleeping client is woken by a futex in its segment if it asks for that ([`crate::layout::BY_FUTEX`]).
pub const FUTEX: &str = "futex";
/// Long answers to management requests come as sealed memory files ([`crate::sealed`]).
pub const MEMORY_ANSWERS: &str = "memory-answers";
/// SDUs whose octets lie on a list of pages of own memory: [`crate::window`].
pub const PAGES: &str = "pages";
/// Endpoints that lend their memory to receivers, and receivers that borrow it: [`crate::client::SharedSdu`].
pub const LEND: &str = "lend";
/// Circuits opened by an application that speaks reliable transfer: [`crate::OpenOptions::reliable`].
pub const RELIABLE: &str = "reliable";
/// Management requests that change something may have an id, and the revision that the client expects:
/// [`crate::client::Change`].
pub const CHANGE_IDS: &str = "change-ids";
/// All features of this crate's version.
pub const FEATURES: &[&str] = &[DIRECT, OWN_MEMORY, AAL34, FUTEX, MEMORY_ANSWERS, PAGES, LEND, RELIABLE, CHANGE_IDS];

/// The newest version that both speak, if there is one: here [`OLDEST`] to [`VERSION`], there `oldest` to `newest`.
pub fn agree_version(oldest: u32, newest: u32) -> Option<u32> {
    let version = newest.min(VERSION);
    (version >= oldest.max(OLDEST)).then_some(version)
}

/// Those of `asked` that this crate's version has.
pub fn agree_features(asked: &[String]) -> Vec<String> {
    asked.iter().filter(|name| FEATURES.contains(&name.as_str())).cloned().collect()
}

/// All features by name, to ask for.
pub fn all_features() -> Vec<String> {
    FEATURES.iter().map(|name| (*name).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_that_both_speak_is_used() {
        assert_eq!(agree_version(VERSION, VERSION), Some(VERSION));
        assert_eq!(agree_version(OLDEST, VERSION + 5), Some(VERSION));
        assert_eq!(agree_version(VERSION + 1, VERSION + 5), None);
        assert_eq!(agree_version(0, OLDEST - 1), None);
    }

    #[test]
    fn a_feature_that_is_unknown_here_is_left_out() {
        let asked = [DIRECT.to_owned(), "teleport".to_owned()];
        assert_eq!(agree_features(&asked), [DIRECT]);
        assert_eq!(agree_features(&all_features()), FEATURES);
    }
}
