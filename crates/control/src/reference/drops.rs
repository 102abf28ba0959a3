//! The page of the reasons to drop, made of [`DropReason`].

use super::MADE;
use std::fmt::Write as _;
use wire::DropReason;

/// The page.
pub fn drops() -> String {
    let mut page = format!(
        "# Reference: reasons to drop\n\n{MADE}\nEach cell or PDU that is dropped is counted under one of these reasons.\n\
         `status`, `drops`, metrics and JSON use these names; `cellway explain REASON` prints a row of this table.\n\n\
         | reason | meaning | cure |\n|---|---|---|\n"
    );
    for reason in DropReason::ALL {
        let _ = writeln!(page, "| `{}` | {} | {} |", reason.name(), reason.meaning(), reason.cure());
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_a_row() {
        let page = drops();
        let rows = page.lines().filter(|line| line.starts_with("| `")).count();
        assert_eq!(rows, DropReason::COUNT);
        for reason in DropReason::ALL {
            assert!(page.contains(&format!("| `{reason}` | {} | {} |", reason.meaning(), reason.cure())), "{reason}");
        }
    }
}
