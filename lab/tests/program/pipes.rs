//! A reader that has gone, as `head` does: the program ends then, quietly and well.

use super::program;

#[test]
fn what_is_printed_ends_the_program_quietly_where_nobody_reads_it() {
    for words in [&["--help"][..], &["bench", "--help"], &["list"], &["man"], &["schema"], &["completions", "bash"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = program(words).stdout(writer).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{words:?}: {output:?}");
    }
}
