//! Data on a terminal: text as it is, and what would change the terminal's state as digits.

use crate::output;
use std::io::{self, IsTerminal, Write};

/// Where a command's data go that are not written to a file.
pub(crate) fn data_out() -> Box<dyn Write> {
    if io::stdout().is_terminal() { Box::new(Visible::new(output::stdout())) } else { Box::new(output::stdout()) }
}

/// Writes text as it is, and every other octet as `\xNN`: escape sequences of a peer's do not reach the terminal.
#[derive(Debug)]
pub(crate) struct Visible<W> {
    to: W,
    /// The beginning of a character whose other octets are still to come.
    begun: Vec<u8>,
}

impl<W: Write> Visible<W> {
    pub(crate) fn new(to: W) -> Self {
        Visible { to, begun: Vec::new() }
    }
}

fn shown(text: &str, into: &mut String) {
    for c in text.chars() {
        if c.is_control() && !matches!(c, '\n' | '\t') {
            let mut octets = [0; 4];
            c.encode_utf8(&mut octets).bytes().for_each(|octet| digits(octet, into));
        } else {
            into.push(c);
        }
    }
}

fn digits(octet: u8, into: &mut String) {
    into.push_str(&format!("\\x{octet:02x}"));
}

impl<W: Write> Write for Visible<W> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        let mut all = std::mem::take(&mut self.begun);
        all.extend_from_slice(octets);
        let mut text = String::new();
        let mut left = all.as_slice();
        loop {
            match std::str::from_utf8(left) {
                Ok(rest) => {
                    shown(rest, &mut text);
                    break;
                }
                Err(e) => {
                    let (good, bad) = left.split_at(e.valid_up_to());
                    shown(std::str::from_utf8(good).unwrap_or_default(), &mut text);
                    let Some(n) = e.error_len() else {
                        self.begun = bad.to_vec();
                        break;
                    };
                    bad[..n].iter().for_each(|octet| digits(*octet, &mut text));
                    left = &bad[n..];
                }
            }
        }
        self.to.write_all(text.as_bytes())?;
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut text = String::new();
        self.begun.drain(..).for_each(|octet| digits(octet, &mut text));
        self.to.write_all(text.as_bytes())?;
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_passes_and_escapes_and_binary_are_digits() {
        let mut seen = Vec::new();
        let mut out = Visible::new(&mut seen);
        out.write_all("plain\ttext, gr\u{fc}n\n".as_bytes()).unwrap();
        out.write_all(b"\x1b[2J\0\xff").unwrap();
        // A character in two pieces, and one that is never completed.
        out.write_all(b"\xc3").unwrap();
        out.write_all(b"\xa4\xe2").unwrap();
        out.flush().unwrap();
        assert_eq!(String::from_utf8(seen).unwrap(), "plain\ttext, gr\u{fc}n\n\\x1b[2J\\x00\\xff\u{e4}\\xe2");
    }
}
