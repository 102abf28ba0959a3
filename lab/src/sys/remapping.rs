//! What it costs to map pages in place of copying them: asked of the machine at hand.

/// What [`measure_remap`] found, each for one time; medians, and means of page faults.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Remapping {
    /// Nanoseconds to map pages of a memfd over others and to read them.
    pub remap_ns: f64,
    /// Nanoseconds to copy as many octets and to read them.
    pub copy_ns: f64,
    /// Page faults of the first.
    pub remap_faults: f64,
    /// Page faults of the second.
    pub copy_faults: f64,
}

/// Page faults of the calling thread until now.
fn page_faults() -> i64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel writes a structure of this layout there, and where it does not, zeros are valid.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    usage.ru_minflt + usage.ru_majflt
}

/// What it costs this machine to map pages of a memfd over others, and to copy as many; each read afterwards, a cache
/// line's first octet at a time.
///
/// Gives zeros where the system has no memory for it.
pub fn measure_remap(octets: usize) -> Remapping {
    use rustix::mm::{MapFlags, ProtFlags};
    let octets = octets.next_multiple_of(4096);
    let Ok((source, fd)) = endpoint::shared::SharedMemory::create(2 * octets) else { return Remapping::default() };
    source.copy_in(0, &vec![1; 2 * octets]);
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing of this process.
    let place = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), octets, access, MapFlags::PRIVATE) };
    let Ok(place) = place else { return Remapping::default() };
    let mut private = vec![0u8; octets];
    let (mut remaps, mut copies, mut faults) = (Vec::new(), Vec::new(), [0; 2]);
    for round in 0..200u64 {
        let offset = (round % 2) * octets as u64;
        let faults_before = page_faults();
        let begin = std::time::Instant::now();
        // SAFETY: over the mapping made above, of the same size, to which there is no reference at this moment.
        let mapped =
            unsafe { rustix::mm::mmap(place, octets, access, MapFlags::SHARED | MapFlags::FIXED, &fd, offset) };
        if mapped.is_err() {
            break;
        }
        // SAFETY: mapped just now, `octets` long, and nobody writes it until it is mapped anew.
        let seen = unsafe { std::slice::from_raw_parts(place.cast::<u8>(), octets) };
        std::hint::black_box(seen.iter().step_by(64).fold(0u8, |sum, octet| sum.wrapping_add(*octet)));
        remaps.push(begin.elapsed().as_nanos() as f64);
        let faults_between = page_faults();
        let begin = std::time::Instant::now();
        let from = source.octets(offset as usize, octets);
        // SAFETY: both are `octets` long, nobody else writes either, and this process's own memory overlaps no shared memory.
        unsafe { from.as_ptr().cast::<u8>().copy_to_nonoverlapping(private.as_mut_ptr(), octets) };
        std::hint::black_box(private.iter().step_by(64).fold(0u8, |sum, octet| sum.wrapping_add(*octet)));
        copies.push(begin.elapsed().as_nanos() as f64);
        faults[0] += faults_between - faults_before;
        faults[1] += page_faults() - faults_between;
    }
    // SAFETY: the mapping made above, to which no reference is left.
    let _ = unsafe { rustix::mm::munmap(place, octets) };
    let rounds = copies.len().max(1) as f64;
    let middle = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied().unwrap_or_default()
    };
    Remapping {
        remap_ns: middle(remaps),
        copy_ns: middle(copies),
        remap_faults: faults[0] as f64 / rounds,
        copy_faults: faults[1] as f64 / rounds,
    }
}
