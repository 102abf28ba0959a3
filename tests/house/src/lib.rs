//! What `make test` asks of the project itself rather than of its behaviour: see `tests/`.
#![forbid(unsafe_code)]

pub mod allowed_waits;
pub mod modules;
pub mod named;
pub mod rooms;
pub mod versions;
pub mod waits;
pub mod words;

/// Whether a licence expression (SPDX, or the older `MIT/Apache-2.0`) can be met with licences from `allowed`.
///
/// An expression that cannot be read cannot be met.
pub fn satisfiable(expression: &str, allowed: &[&str]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words = spaced.split_whitespace().peekable();
    let met = any(&mut words, allowed);
    met == Some(true) && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any(words: &mut Words<'_>, allowed: &[&str]) -> Option<bool> {
    let mut met = all(words, allowed)?;
    while words.next_if_eq(&"OR").is_some() {
        met |= all(words, allowed)?;
    }
    Some(met)
}

fn all(words: &mut Words<'_>, allowed: &[&str]) -> Option<bool> {
    let mut met = one(words, allowed)?;
    while words.next_if_eq(&"AND").is_some() {
        met &= one(words, allowed)?;
    }
    Some(met)
}

fn one(words: &mut Words<'_>, allowed: &[&str]) -> Option<bool> {
    let word = words.next()?;
    if word == "(" {
        let met = any(words, allowed)?;
        return words.next_if_eq(&")").map(|_| met);
    }
    let with = words.next_if_eq(&"WITH").and_then(|_| words.next());
    let name = with.map_or_else(|| word.to_owned(), |exception| format!("{word} WITH {exception}"));
    Some(allowed.contains(&name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::satisfiable;

    #[test]
    fn expressions_are_met_as_spdx_means_them() {
        let allowed = ["MIT", "Apache-2.0", "Unicode-3.0", "Apache-2.0 WITH LLVM-exception"];
        for met in [
            "MIT",
            "MIT/Apache-2.0",
            "MIT OR GPL-3.0",
            "GPL-3.0 OR (MIT AND Apache-2.0)",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert!(satisfiable(met, &allowed), "{met}");
        }
        for unmet in ["", "GPL-3.0", "MIT AND GPL-3.0", "MIT OR", "(MIT", "MIT MIT", "GPL-2.0 OR MIT AND GPL-3.0"] {
            assert!(!satisfiable(unmet, &allowed), "{unmet}");
        }
    }
}
