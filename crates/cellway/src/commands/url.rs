//! Links to elsewhere as URLs: `atmtcp://HOST:PORT` connects, `atmtcp-listen://ADDRESS:PORT` listens; with `-tls` by TLS.
//! `cells-tcp` does the same for cells over TCP, and `cells-udp://PEER:PORT?local=ADDRESS:PORT` is cells in datagrams.

use anyhow::Result;
use control::config::Udp;
use control::quantity::parse_socket;

/// What a URL may be.
pub(crate) const FORMS: &str = "atmtcp://HOST:PORT, atmtcp-listen://ADDRESS:PORT, cells-tcp:// and cells-tcp-listen://, each with \
                                -tls for TLS (atmtcp-tls://), or cells-udp://PEER:PORT?local=ADDRESS:PORT";

/// What a URL says.
#[derive(Debug, PartialEq)]
pub(crate) enum Url {
    /// ATM over TCP: `connect HOST:PORT` or `listen ADDRESS:PORT`; by TLS.
    AtmTcp(String, bool),
    /// Cells over TCP, likewise.
    CellsTcp(String, bool),
    /// Cells in datagrams.
    CellsUdp(Udp),
}

/// Schemes of the release before, and those of today.
const OLD: [(&str, &str); 4] =
    [("tcp", "atmtcp"), ("tcp-listen", "atmtcp-listen"), ("tls", "atmtcp-tls"), ("tls-listen", "atmtcp-tls-listen")];

/// Reads a URL; `None` of a word that is none. A scheme of the release before is read with a warning on standard error.
///
/// # Errors
/// A scheme or parameter that there is not.
pub(crate) fn parse(word: &str) -> Result<Option<Url>> {
    let Some((scheme, rest)) = word.split_once("://") else { return Ok(None) };
    let new = OLD.iter().find(|(old, _)| *old == scheme).map(|(_, new)| *new);
    if let Some(new) = new {
        crate::output::note(format_args!(
            "warning: {scheme}:// is an old name, read for one release: write {new}://{rest}"
        ));
    }
    let scheme = new.unwrap_or(scheme);
    if scheme == "cells-udp" {
        return Ok(Some(Url::CellsUdp(udp(word, rest)?)));
    }
    let (scheme, verb) = scheme.strip_suffix("-listen").map_or((scheme, "connect"), |scheme| (scheme, "listen"));
    let (scheme, tls) = scheme.strip_suffix("-tls").map_or((scheme, false), |scheme| (scheme, true));
    let says = format!("{verb} {rest}");
    match scheme {
        "atmtcp" => Ok(Some(Url::AtmTcp(says, tls))),
        "cells-tcp" => Ok(Some(Url::CellsTcp(says, tls))),
        _ => crate::usage!("{word}: no such link: write {FORMS}"),
    }
}

fn udp(word: &str, rest: &str) -> Result<Udp> {
    let (peer, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let (mut local, mut form, mut header) = (None, "cell".to_owned(), "uni".to_owned());
    for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
        match parameter.split_once('=') {
            Some(("local", address)) => local = Some(address),
            Some(("form", word)) => form = word.to_owned(),
            Some(("header", word)) => header = word.to_owned(),
            _ => crate::usage!(
                "{word}: `{parameter}` is none of local=ADDRESS:PORT, form=cell, form=batch, header=uni, header=nni"
            ),
        }
    }
    match (local.map(parse_socket), parse_socket(peer)) {
        (Some(Ok(local)), Ok(peer)) => Ok(Udp { local, peer, form, header }),
        _ => crate::usage!("{word}: write cells-udp://PEER:PORT?local=ADDRESS:PORT, with IP addresses or localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_says_the_protocol_who_connects_and_whether_by_tls() {
        let url = |word: &str| parse(word).unwrap().unwrap();
        assert_eq!(url("atmtcp://host:1"), Url::AtmTcp("connect host:1".into(), false));
        assert_eq!(url("atmtcp-tls-listen://[::1]:2"), Url::AtmTcp("listen [::1]:2".into(), true));
        assert_eq!(url("cells-tcp-listen://0.0.0.0:3"), Url::CellsTcp("listen 0.0.0.0:3".into(), false));
        // Of the release before.
        for (old, new) in OLD {
            assert_eq!(url(&format!("{old}://host:1")), url(&format!("{new}://host:1")));
        }
        assert_eq!(url("cells-udp://localhost:4?local=localhost:5"), url("cells-udp://127.0.0.1:4?local=127.0.0.1:5"));
        let udp = url("cells-udp://192.0.2.1:4?local=0.0.0.0:5&form=batch");
        let (local, peer) = ("0.0.0.0:5".parse().unwrap(), "192.0.2.1:4".parse().unwrap());
        assert_eq!(udp, Url::CellsUdp(Udp { local, peer, form: "batch".into(), header: "uni".into() }));
        assert_eq!(parse("alpha").unwrap(), None);
        for (word, says) in [
            ("udp://host:1", "cells-udp://"),
            ("cells-udp://192.0.2.1:4", "?local="),
            ("cells-udp://192.0.2.1:4?local=host:1", "IP addresses"),
            ("cells-udp://192.0.2.1:4?port=1", "`port=1`"),
        ] {
            let e = parse(word).unwrap_err().to_string();
            assert!(e.contains(says), "{word}: {e}");
        }
    }
}
