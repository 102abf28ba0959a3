//! The kinds of station and of virtual adapter that the program links.

use apic::kind::DeskKind;
use control::kinds::Kinds;
use eni155p::kind::Eni155pKind;
use lanai::kind::MyrinetKind;

/// The kinds of station and of virtual adapter that the program links.
pub fn kinds() -> Kinds {
    Kinds::none().with::<MyrinetKind>().with::<DeskKind>().with_adapter::<Eni155pKind>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_in_order() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
        let mut n = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|e| e == "toml") {
                control::config::load(&kinds(), &path).unwrap();
                n += 1;
            }
        }
        assert!(n >= 5, "{n} examples");
    }
}
