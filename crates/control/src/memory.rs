//! How much memory this process may have: of its control group, of those around it, and of the machine.
//!
//! Users' memory is shared memory that this process's proxies make, and so it counts in this process's control group.
//! The kernel kills a process of a group that has no memory left. So users have a share of what there is.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// Memory for the program itself, its network and its processes, which users do not get.
const OWN_OCTETS: u64 = 64 << 20;
/// Where nothing can be known, users have so much together.
const FALLBACK_OCTETS: u64 = 1 << 30;
const CGROUP: &str = "/sys/fs/cgroup";

/// Memory that there is, and who says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Available {
    /// In octets.
    pub octets: u64,
    /// In words.
    pub source: String,
}

impl Available {
    /// What there is now: the least of what the control group, and each around it, allows, and of what the machine has
    /// left.
    pub fn now() -> Self {
        let groups = read_to_string("/proc/self/cgroup").unwrap_or_default();
        let limits = limits(&groups).into_iter().filter_map(|file| {
            let octets = read_to_string(&file).ok()?.trim().parse().ok()?;
            Some(Available { octets, source: file.display().to_string() })
        });
        let left = read_to_string("/proc/meminfo").ok().and_then(|text| left(&text));
        let left = left.map(|octets| Available { octets, source: "MemAvailable of /proc/meminfo".into() });
        let fallback = || Available { octets: FALLBACK_OCTETS, source: "nothing known of this system".into() };
        limits.chain(left).min_by_key(|available| available.octets).unwrap_or_else(fallback)
    }

    /// What all users may have of it together: three quarters of what the program does not need itself, and a quarter of
    /// all where it would need most.
    pub fn for_users(&self) -> u64 {
        (self.octets.saturating_sub(OWN_OCTETS) / 4 * 3).max(self.octets / 4)
    }
}

/// The files that may bound the memory of a process whose `/proc/PID/cgroup` is `groups`.
fn limits(groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (root, name) = match controllers {
            "" => (CGROUP.to_owned(), "memory.max"),
            of if of.split(',').any(|c| c == "memory") => (format!("{CGROUP}/memory"), "memory.limit_in_bytes"),
            _ => continue,
        };
        // In a container the group may be named as it is outside: its own files are at the root then.
        let inside = Path::new(path.trim_start_matches('/'));
        files.extend(inside.ancestors().map(|part| Path::new(&root).join(part).join(name)));
    }
    files
}

/// `MemAvailable` of `/proc/meminfo`, in octets.
fn left(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(groups: &str) -> Vec<String> {
        limits(groups).iter().map(|file| file.display().to_string()).collect()
    }

    #[test]
    fn the_limits_of_a_group_and_of_all_around_it_count_in_both_versions() {
        let unified = names("0::/system.slice/cellway.service\n");
        let wanted = ["/system.slice/cellway.service", "/system.slice", ""];
        assert_eq!(unified, wanted.map(|part| format!("/sys/fs/cgroup{part}/memory.max")));
        let mixed = names("5:cpu,cpuacct:/x\n4:memory:/a/b\n");
        assert_eq!(mixed, ["/a/b", "/a", ""].map(|part| format!("/sys/fs/cgroup/memory{part}/memory.limit_in_bytes")));
        assert!(names("nothing of the kind\n").is_empty());
    }

    #[test]
    fn what_the_machine_has_left_is_read_and_nonsense_is_not() {
        assert_eq!(left("MemTotal:  16 kB\nMemAvailable:    2048 kB\n"), Some(2 << 20));
        assert_eq!(left("MemAvailable: much\n"), None);
        assert!(Available::now().octets > 0);
    }

    #[test]
    fn users_get_what_the_program_does_not_need() {
        let of = |octets| Available { octets, source: String::new() }.for_users();
        assert_eq!(of(256 << 20), 144 << 20);
        assert_eq!(of(64 << 20), 16 << 20);
        assert_eq!(of(0), 0);
    }
}
