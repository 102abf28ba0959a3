//! The Rust version that the project needs, and what its texts say of it.

/// Numbers of a version, as they are compared.
type Numbers = Vec<u32>;

fn numbers(version: &str) -> Option<Numbers> {
    let mut numbers = version.split('.').map(|part| part.parse().ok()).collect::<Option<Numbers>>()?;
    numbers.resize(3, 0);
    Some(numbers)
}

/// A package and the Rust version that it states; whether it is one of ours.
#[derive(Debug, Clone, Copy)]
pub struct Package<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it states, if anything.
    pub rust_version: Option<&'a str>,
    /// Whether it is of this workspace.
    pub is_ours: bool,
}

/// What the project says of its Rust version that is not so. Each of its own packages, and each of `texts` (by its name) where it
/// speaks of Rust, states the largest version that a package needs.
pub fn false_versions(packages: &[Package<'_>], texts: &[(&str, &str)]) -> Vec<String> {
    let stated = packages.iter().filter_map(|package| Some((numbers(package.rust_version?)?, package)));
    let Some((needed, most)) = stated.max_by_key(|(numbers, package)| (numbers.clone(), !package.is_ours)) else {
        return vec!["no package states a Rust version".to_owned()];
    };
    let needs = format!("{} needs {}", most.name, most.rust_version.unwrap_or_default());
    let is_so = |version: &str| numbers(version).as_ref() == Some(&needed);
    let ours = packages.iter().filter(|package| package.is_ours && !package.rust_version.is_some_and(is_so));
    let mut bad: Vec<String> = ours
        .map(|package| format!("{}: {}, but {needs}", package.name, package.rust_version.unwrap_or("none")))
        .collect();
    for (name, text) in texts {
        let about_rust = text.lines().filter(|line| line.contains("Rust toolchain"));
        let said: Vec<&str> = about_rust.flat_map(versions).collect();
        if said.is_empty() {
            bad.push(format!("{name} does not state the Rust version, and {needs}"));
        }
        bad.extend(said.iter().filter(|said| !is_so(said)).map(|said| format!("{name}: {said}, but {needs}")));
    }
    bad
}

/// The versions in a line: `1.90`, `1.90.1`.
fn versions(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split(|c: char| !c.is_ascii_digit() && c != '.').map(|word| word.trim_matches('.'));
    words.filter(|word| word.starts_with("1.") && numbers(word).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn package(name: &'static str, rust_version: &'static str, is_ours: bool) -> Package<'static> {
        Package { name, rust_version: Some(rust_version), is_ours }
    }

    #[test]
    fn a_version_that_is_not_the_largest_one_needed_is_named_wherever_it_stands() {
        let needing = [package("a", "1.9", false), package("smoltcp", "1.91.0", false), package("b", "1.85", false)];
        let with = |ours| [&needing[..], &[package("wire", ours, true)]].concat();
        let readme =
            |version: &str| format!("# Name\n1.90 s\nA Rust toolchain ({version}, [rustup](x)) and a linker.\n");
        let found = |ours, version: &str| false_versions(&with(ours), &[("README.md", &readme(version))]);
        assert_eq!(found("1.91", "1.91"), [""; 0]);
        assert_eq!(found("1.91", "1.91 or later"), [""; 0]);
        assert_eq!(found("1.90", "1.91"), ["wire: 1.90, but smoltcp needs 1.91.0"]);
        assert_eq!(found("1.91", "1.90"), ["README.md: 1.90, but smoltcp needs 1.91.0"]);
        assert_eq!(found("1.91", "1.92").len(), 1);
        assert_eq!(found("1.91", "any").len(), 1, "it is not stated");
        assert_eq!(false_versions(&[Package { rust_version: None, ..needing[0] }], &[]).len(), 1);
        let silent = [needing[1], Package { name: "wire", rust_version: None, is_ours: true }];
        assert_eq!(false_versions(&silent, &[]), ["wire: none, but smoltcp needs 1.91.0"]);
    }
}
