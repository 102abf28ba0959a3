//! Whether a group is its user's own: then a folder that the group may write is one that nobody else may write. Where
//! each user has a private group, umask 002 is the default, and all folders of a user are writable by that group.
//!
//! In: the rights of a file, /etc/passwd and /etc/group. A group that these do not list belongs to a directory service,
//! whose members they do not tell: it counts as shared.

use rustix::fd::{AsFd, AsRawFd as _};
use rustix::fs::Stat;
use rustix::io::Errno;

/// Whether the group's right to write gives it to nobody but this process's user.
pub(super) fn is_of_user_alone(file: impl AsFd, is: &Stat) -> bool {
    let user = rustix::process::geteuid().as_raw();
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    is.st_uid == user && !has_list(file) && is_private(&read("/etc/passwd"), &read("/etc/group"), user, is.st_gid)
}

/// Whether a file may have an access control list. With one, the group's rights are the most that any entry grants, so
/// they say nothing about who has them (acl(5)).
fn has_list(file: impl AsFd) -> bool {
    // A descriptor of a path alone has no attributes, but by this name.
    let name = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    let found = rustix::fs::getxattr(name, "system.posix_acl_access", &mut [0_u8; 0][..]);
    !matches!(found, Err(Errno::NODATA | Errno::OPNOTSUPP))
}

/// Whether a group is the primary group of one user alone and has no other members. Never root's: containers give group
/// 0 to users that no file lists.
fn is_private(passwd: &str, groups: &str, user: u32, group: u32) -> bool {
    let fields = |text: &str| text.lines().map(|line| line.split(':').map(str::to_owned).collect()).collect();
    let (users, groups): (Vec<Vec<String>>, Vec<Vec<String>>) = (fields(passwd), fields(groups));
    let number = |line: &[String], field: usize| line.get(field).and_then(|text| text.parse::<u32>().ok());
    // name:password:user:group:...
    let primary: Vec<_> = users.iter().filter(|line| number(line, 3) == Some(group)).collect();
    let names: Vec<&str> = users.iter().filter(|line| number(line, 2) == Some(user)).map(|line| &*line[0]).collect();
    // name:password:group:member,...
    let lines: Vec<_> = groups.iter().filter(|line| number(line, 2) == Some(group)).collect();
    let is_users = |member: &str| member.is_empty() || names.contains(&member);
    group != 0
        && !primary.is_empty()
        && primary.iter().all(|line| number(line, 2) == Some(user))
        && !lines.is_empty()
        && lines.iter().all(|line| line.get(3).is_some_and(|members| members.split(',').all(|m| is_users(m.trim()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str =
        "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/var/ann:/bin/sh\nbob:x:1001:1001::/:/bin/sh\n";
    const GROUP: &str = "root:x:0:\nann:x:1000:\nbob:x:1001:\nstaff:x:50:\n";

    fn is_anns(passwd: &str, group: &str) -> bool {
        is_private(passwd, group, 1000, 1000)
    }

    #[test]
    fn a_primary_group_without_other_members_is_its_users_own() {
        assert!(is_anns(PASSWD, GROUP));
        assert!(is_anns(PASSWD, &GROUP.replace("ann:x:1000:", "ann:x:1000:ann")));
        // A second name of the same user.
        assert!(is_anns(&format!("{PASSWD}toor:x:1000:1000::/:/bin/sh\n"), &GROUP.replace(":1000:", ":1000:toor")));
    }

    #[test]
    fn a_group_that_anybody_else_has_or_that_no_file_lists_is_shared() {
        assert!(!is_private(PASSWD, GROUP, 1000, 1001), "another user's");
        assert!(!is_private(PASSWD, GROUP, 1000, 50), "nobody's");
        assert!(!is_private(PASSWD, GROUP, 0, 0), "root's");
        assert!(!is_anns(PASSWD, &GROUP.replace("ann:x:1000:", "ann:x:1000:ann,bob")), "a member");
        assert!(!is_anns(PASSWD, &format!("{GROUP}too:x:1000:bob\n")), "a member by another name of the group");
        assert!(!is_anns(&PASSWD.replace(":1001:1001", ":1001:1000"), GROUP), "two users' primary group");
        assert!(!is_anns(PASSWD, &GROUP.replace("ann:x:1000:\n", "")), "a group of a directory service");
        assert!(!is_anns(&PASSWD.replace("ann:x:1000:1000", "ann:x:1000:50"), GROUP), "not the primary group");
        assert!(!is_anns("", "") && !is_anns("ann:x:1000", GROUP) && !is_anns(PASSWD, "ann:x:1000"), "damaged files");
        // The names of NIS end the file.
        assert!(!is_anns(PASSWD, "+:::\n"));
    }

    #[test]
    fn a_file_with_an_access_control_list_is_seen() {
        let here = tempfile::tempdir().unwrap();
        let open = || rustix::fs::open(here.path(), rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
        assert!(!has_list(open()));
        // Version 2; the owner, user 65534, the group, the mask and others (acl(5)): tag, rights, number.
        let entries = [(1, 7, u32::MAX), (2, 7, 65534), (4, 0, u32::MAX), (16, 7, u32::MAX), (32, 0, u32::MAX)];
        let mut list = 2_u32.to_le_bytes().to_vec();
        for (tag, rights, number) in entries {
            list.extend([u16::to_le_bytes(tag), u16::to_le_bytes(rights)].concat());
            list.extend(u32::to_le_bytes(number));
        }
        match rustix::fs::setxattr(here.path(), "system.posix_acl_access", &list, rustix::fs::XattrFlags::empty()) {
            Ok(()) => assert!(has_list(open())),
            Err(e) => {
                assert_eq!(e, Errno::OPNOTSUPP);
                eprintln!("left out: the file system has no access control lists");
            }
        }
    }
}
