//! An error in one sentence.

/// An error and its causes, but for those that it names itself.
pub(crate) fn with_causes(e: &anyhow::Error) -> String {
    e.chain().fold(String::new(), |said, cause| match cause.to_string() {
        cause if said.is_empty() => cause,
        cause if said.contains(&cause) => said,
        cause => format!("{said}: {cause}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn a_cause_is_said_once() {
        let cause = || std::io::Error::from_raw_os_error(2);
        let named = anyhow::Error::from(cause()).context(format!("no file: {} (is it there?)", cause()));
        assert_eq!(with_causes(&named).matches("No such file").count(), 1);
        let other: anyhow::Error = Err::<(), _>(cause()).context("reading it").unwrap_err();
        assert_eq!(with_causes(&other), format!("reading it: {}", cause()));
    }
}
