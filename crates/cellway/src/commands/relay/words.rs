//! The links of `cellway relay`, as URLs or in the words of `atmtcp`'s command line, from left to right.

use crate::commands::url::{self, Url};
use anyhow::{Context as _, Result, anyhow, bail};
use control::config::{LinkTls, parse_atmtcp};
use links::tcp::{Role, TlsTexts};
use std::path::{Path, PathBuf};

/// One link. Its number is its place, as `atmtcp` counts.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// A connection.
    Socket { name: String, role: Role, tls: Option<TlsTexts> },
    /// A recording that is played, whole or one of its streams.
    Read { file: PathBuf, stream: Option<u32> },
    /// A recording of all links.
    Write(PathBuf),
    /// What all links say, in hexadecimal digits.
    Print,
}

/// What of the command line comes next.
struct Words<'a> {
    left: &'a [String],
}

impl<'a> Words<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let (first, rest) = self.left.split_first()?;
        self.left = rest;
        Some(first)
    }

    fn next_if(&mut self, fits: impl Fn(&str) -> bool) -> Option<&'a str> {
        if fits(self.left.first()?) { self.next() } else { None }
    }

    fn needed(&mut self, after: &str, what: &str) -> Result<&'a str> {
        self.next().ok_or_else(|| anyhow!("`{after}`: {what} is missing after it"))
    }
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|octet| octet.is_ascii_digit())
}

/// `[ADDRESS:]PORT`
fn is_place(word: &str) -> bool {
    is_number(word) || word.rsplit_once(':').is_some_and(|(address, port)| !address.ends_with('/') && is_number(port))
}

/// Reads the command line.
pub(super) fn parse(words: &[String], tls: Option<&LinkTls>) -> Result<Vec<Link>> {
    let mut words = Words { left: words };
    let mut links = Vec::new();
    while let Some(word) = words.next() {
        let link = match word {
            "listen" | "listen-bg" => {
                let place = words.next_if(is_place).map_or_else(|| wire::atmtcp::PORT.to_string(), str::to_owned);
                // As `atmtcp` does where only a port is named: on all addresses.
                let place = if is_number(&place) { format!("0.0.0.0:{place}") } else { place };
                socket(format!("listen {place}"), None)?
            }
            "connect" => {
                let host = words.needed(word, "the host")?;
                let port = words.next_if(is_number).map(|port| format!(":{port}")).unwrap_or_default();
                socket(format!("connect {host}{port}"), None)?
            }
            "read" => {
                let file = words.needed(word, "the file")?.into();
                let stream = words.next_if(is_number).map(str::parse).transpose()?;
                Link::Read { file, stream }
            }
            "write" => Link::Write(words.needed(word, "the file")?.into()),
            "print" => Link::Print,
            "virtual" | "create" | "remove" => bail!(
                "`{word}` was about an interface of the kernel's: let this relay listen, and have your network connect to it, \
                 `cellway link add atmtcp://127.0.0.1:PORT`"
            ),
            "real" => bail!(
                "`real` belongs to the network that has the host: let this relay listen, and there \
                 `cellway link add atmtcp://127.0.0.1:PORT --peer-circuits-to HOST`"
            ),
            "switch" => bail!(
                "`switch`: nothing that still exists speaks its protocol; a switch is a [switch] of a description"
            ),
            "bg" | "wait" => bail!("`{word}`: the shell does that, with & and with sleep"),
            _ => url(word, tls)?,
        };
        links.push(link);
    }
    Ok(links)
}

fn url(word: &str, tls: Option<&LinkTls>) -> Result<Link> {
    match url::parse(word)? {
        Some(Url::AtmTcp(says, false)) => socket(says, None),
        Some(Url::AtmTcp(says, true)) => {
            let Some(tls) = tls else {
                bail!("{word}: TLS needs --certificate FILE, --key FILE and --trust FILE, all PEM")
            };
            let texts = tls.read(Path::new(""), control::config::atmtcp_host(&says))?;
            socket(says, Some(texts))
        }
        Some(_) => bail!("{word}: a relay joins links of ATM over TCP: write atmtcp://HOST:PORT"),
        None => bail!(
            "`{word}` is no link: write atmtcp://HOST:PORT, atmtcp-listen://ADDRESS:PORT, atmtcp-tls for TLS, or, as for atmtcp, \
             connect HOST [PORT], listen [[ADDRESS:]PORT], read FILE [STREAM], write FILE, print"
        ),
    }
}

fn socket(name: String, tls: Option<TlsTexts>) -> Result<Link> {
    let role = parse_atmtcp(&name).with_context(|| format!("`{name}`"))?;
    Ok(Link::Socket { name, role, tls })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(line: &str) -> Result<Vec<Link>> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>(), None)
    }

    fn role(text: &str) -> Link {
        Link::Socket { name: text.into(), role: parse_atmtcp(text).unwrap(), tls: None }
    }

    #[test]
    fn the_words_of_atmtcp_and_urls_mean_the_same_links() {
        let stock =
            links("listen connect 127.0.0.1 listen 3000 connect 127.0.0.1 3001 print write rec read rec read rec 2");
        let recorded = |stream| Link::Read { file: "rec".into(), stream };
        let expected = [
            role("listen 0.0.0.0:2812"),
            role("connect 127.0.0.1"),
            role("listen 0.0.0.0:3000"),
            role("connect 127.0.0.1:3001"),
            Link::Print,
            Link::Write("rec".into()),
            recorded(None),
            recorded(Some(2)),
        ];
        assert_eq!(stock.unwrap(), expected);
        let urls = links("atmtcp-listen://127.0.0.1:3000 atmtcp://127.0.0.1:3001 listen [::1]:5");
        let expected = [role("listen 127.0.0.1:3000"), role("connect 127.0.0.1:3001"), role("listen [::1]:5")];
        assert_eq!(urls.unwrap(), expected);
    }

    #[test]
    fn what_is_no_link_is_told_with_a_cure() {
        for (line, says) in [
            ("virtual 0 listen", "cellway link add atmtcp://"),
            ("real 0 listen", "--peer-circuits-to HOST"),
            ("connect", "the host is missing"),
            ("listen write", "the file is missing"),
            ("atmtcp-tls://127.0.0.1:1", "--certificate FILE"),
            ("udp://127.0.0.1:1", "atmtcp://HOST:PORT"),
            ("cells-tcp://127.0.0.1:1", "a relay joins"),
            ("elsewhere", "atmtcp://HOST:PORT"),
            ("bg", "&"),
        ] {
            let e = format!("{:#}", links(line).unwrap_err());
            assert!(e.contains(says), "{line}: {e}");
        }
    }
}
