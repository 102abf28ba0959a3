//! With which status a command ends, and why. The same list is in `cellway --help` and docs/promises.md.

/// Done.
pub const DONE: u8 = 0;
/// Not done, or not delivered.
pub const FAILED: u8 = 1;
/// Wrong usage, or a bad value.
pub const USAGE: u8 = 2;
/// No service, or one that does not answer.
pub const NO_SERVICE: u8 = 3;
/// Something would change.
pub const WOULD_CHANGE: u8 = 4;
/// The expected revision is not the current one.
pub const WRONG_REVISION: u8 = 5;

/// The list, for the help.
pub const HELP: &str = "\
Exit status:
  0  done, or the reader of the output has gone
  1  not done, or not delivered
  2  wrong usage, or a bad value
  3  no service, or it does not answer
  4  something would change (dry run)
  5  the expected revision is not the current one";

/// What the command line says cannot be: the program ends with [`USAGE`].
#[derive(Debug)]
pub struct Usage(String);

impl Usage {
    /// A bad value or a wrong combination, in the words of the command line.
    pub fn error(says: impl Into<String>) -> anyhow::Error {
        anyhow::Error::new(Usage(says.into()))
    }
}

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Wrong usage, where the value of an option or argument is what is wrong.
pub trait OrUsage<T> {
    /// The error, with its causes, as [`Usage`].
    ///
    /// # Errors
    /// The same in other clothes.
    fn or_usage(self) -> anyhow::Result<T>;
}

impl<T, E: Into<anyhow::Error>> OrUsage<T> for Result<T, E> {
    fn or_usage(self) -> anyhow::Result<T> {
        self.map_err(|e| Usage::error(crate::causes::with_causes(&e.into())))
    }
}

/// Ends the command with [`USAGE`], as `anyhow::bail` ends it with [`FAILED`].
#[macro_export]
macro_rules! usage {
    ($($says:tt)*) => {
        return Err($crate::exit_status::Usage::error(format!($($says)*)))
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_and_the_page_of_promises_have_one_list() {
        let page = include_str!("../../../docs/promises.md");
        let rows: Vec<(&str, &str)> =
            HELP.lines().skip(1).map(|line| line.trim_start().split_once("  ").unwrap()).collect();
        assert_eq!(rows.iter().map(|(n, _)| *n).collect::<String>(), "012345");
        for (n, says) in &rows {
            assert!(page.contains(&format!("| {n} | {says} |")), "docs/promises.md: {n} {says}");
        }
        let listed = page.lines().filter(|line| line.starts_with("| ") && line.as_bytes()[2].is_ascii_digit());
        assert_eq!(listed.count(), rows.len());
    }
}
