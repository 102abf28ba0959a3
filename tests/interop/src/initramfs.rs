//! Files as a cpio archive of the "newc" format (Linux: Documentation/driver-api/early-userspace/buffer-format.rst),
//! which a kernel unpacks before the archive that follows it in the same initramfs.

/// One archive with `files` (path without leading slash, content), folders first, padded to 512 octets.
pub fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut folders: Vec<&str> = files.iter().filter_map(|(path, _)| Some(path.rsplit_once('/')?.0)).collect();
    folders.sort_unstable();
    folders.dedup();
    for folder in folders {
        entry(&mut out, folder, 0o040_755, &[]);
    }
    for (path, content) in files {
        entry(&mut out, path, 0o100_755, content);
    }
    entry(&mut out, "TRAILER!!!", 0, &[]);
    out.resize(out.len().next_multiple_of(512), 0);
    out
}

fn entry(out: &mut Vec<u8>, name: &str, mode: u32, content: &[u8]) {
    // Each file its own inode number, or the kernel takes them for hard links.
    let inode = out.len() as u32;
    let links = if mode & 0o040_000 == 0 { 1 } else { 2 };
    let (size, name_size) = (content.len() as u32, name.len() as u32 + 1);
    let fields = [inode, mode, 0, 0, links, 0, size, 0, 0, 0, 0, name_size, 0];
    out.extend_from_slice(b"070701");
    for field in fields {
        out.extend_from_slice(format!("{field:08X}").as_bytes());
    }
    out.extend_from_slice(name.as_bytes());
    out.push(0);
    out.resize(out.len().next_multiple_of(4), 0);
    out.extend_from_slice(content);
    out.resize(out.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::archive;

    #[test]
    fn an_entry_has_a_head_of_110_octets_and_is_padded_to_four() {
        let octets = archive(&[("test/script", b"true\n")]);
        assert_eq!(octets.len() % 512, 0);
        // Folder: head, "test\0", padded to 116. File: head, "test/script\0", padded, then its content.
        assert_eq!(&octets[..6], b"070701");
        assert_eq!(&octets[110..115], b"test\0");
        assert_eq!(&octets[116..122], b"070701");
        let content = 116 + (110_usize + 12).next_multiple_of(4);
        assert_eq!(&octets[content..content + 5], b"true\n");
    }
}
