//! The folder `/proc/net/atm` by its paths: what is in it, of which kind, and who may read it. Its files are opened in
//! `files.rs`.
//!
//! What begins with a descriptor of the folder (`fdopendir`, `fstatat` with one, `find`) finds nothing: there is no
//! such descriptor.

use super::number;
use crate::real;
use crate::{files, system::is_capable};
use libc::{DIR, c_char, c_int, c_long, dirent, dirent64};
use rustix::io::Errno;
use rustix::thread::CapabilitySet;
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a path leads to, if it leads into the folder.
#[derive(Clone, Copy)]
enum FolderEntry<'a> {
    Folder,
    File(&'a str),
    Nothing,
}

/// # Safety
/// A path that is not null ends with a NUL.
unsafe fn place<'a>(path: *const c_char) -> Option<FolderEntry<'a>> {
    if path.is_null() {
        return None;
    }
    // SAFETY: as the caller says.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    let folder = path.strip_suffix(b"/").unwrap_or(path);
    if folder == files::FOLDER.as_bytes() {
        return Some(FolderEntry::Folder);
    }
    files::name_of(path).map(|name| if files::is_file(name) { FolderEntry::File(name) } else { FolderEntry::Nothing })
}

/// Kind, rights, links and number of what is there, as the kernel has them.
fn about(place: FolderEntry<'_>) -> Result<(libc::mode_t, u32, u64), Errno> {
    const NUMBERS: u64 = 0x0a74_6d00;
    match place {
        FolderEntry::Folder => Ok((libc::S_IFDIR | 0o555, 2, NUMBERS)),
        FolderEntry::File(name) => {
            let at = files::names().iter().position(|other| other == name).unwrap_or_default();
            Ok((libc::S_IFREG | 0o444, 1, NUMBERS + 1 + at as u64))
        }
        FolderEntry::Nothing => Err(Errno::NOENT),
    }
}

/// # Safety
/// `into` is the program's, to be written.
unsafe fn fill(place: FolderEntry<'_>, into: *mut libc::stat) -> c_int {
    number(about(place).map(|(mode, links, inode)| {
        // SAFETY: all of it is numbers, for which zero is a value; `into` as the caller says. The time is asked for as
        // C does.
        unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            stat.st_mode = mode;
            stat.st_nlink = links.into();
            stat.st_ino = inode;
            stat.st_blksize = 1024;
            let now = libc::time(std::ptr::null_mut());
            (stat.st_atime, stat.st_mtime, stat.st_ctime) = (now, now, now);
            into.write(stat);
        }
        0
    }))
}

macro_rules! stat {
    ($($name:ident ($($before:ident: $type:ty),*; $($after:ident)?);)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C-unwind" fn $name(
            $($before: $type,)* path: *const c_char, into: *mut libc::stat $(, $after: c_int)?
        ) -> c_int {
            // SAFETY: the program's arguments, passed on with the program's promises.
            unsafe {
                match place(path) {
                    Some(place) => fill(place, into),
                    None => real::$name($($before,)* path, into $(, $after)?),
                }
            }
        }
    )*};
}

// On 64-bit machines both structures are one. The names with underscores are those of programs for older C libraries.
stat! {
    stat(;);
    stat64(;);
    lstat(;);
    lstat64(;);
    fstatat(folder: c_int; flags);
    fstatat64(folder: c_int; flags);
    __xstat(version: c_int;);
    __xstat64(version: c_int;);
    __lxstat(version: c_int;);
    __lxstat64(version: c_int;);
    __fxstatat(version: c_int, folder: c_int; flags);
    __fxstatat64(version: c_int, folder: c_int; flags);
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn statx(
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    mask: libc::c_uint,
    into: *mut libc::statx,
) -> c_int {
    // SAFETY: the program's arguments, passed on with the program's promises; all of the structure is numbers.
    unsafe {
        let Some(place) = place(path) else { return real::statx(folder, path, flags, mask, into) };
        number(about(place).map(|(mode, links, inode)| {
            let mut stat: libc::statx = std::mem::zeroed();
            stat.stx_mask = libc::STATX_BASIC_STATS;
            (stat.stx_mode, stat.stx_nlink, stat.stx_ino) = (mode as u16, links, inode);
            stat.stx_blksize = 1024;
            let now = libc::time(std::ptr::null_mut());
            for time in [&mut stat.stx_atime, &mut stat.stx_mtime, &mut stat.stx_ctime] {
                time.tv_sec = now;
            }
            into.write(stat);
            0
        }))
    }
}

/// Whether what is there may be read, written or searched. Who overrides rights may write, as far as `open` goes.
fn allowed(place: FolderEntry<'_>, mode: c_int) -> c_int {
    let result = about(place).and_then(|_| {
        let folder = matches!(place, FolderEntry::Folder);
        let refused =
            mode & libc::W_OK != 0 && !is_capable(CapabilitySet::DAC_OVERRIDE) || mode & libc::X_OK != 0 && !folder;
        if refused { Err(Errno::ACCESS) } else { Ok(0) }
    });
    number(result)
}

macro_rules! access {
    ($($name:ident ($($before:ident)?; $($after:ident)?);)*) => {$(
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C-unwind" fn $name(
            $($before: c_int,)? path: *const c_char, mode: c_int $(, $after: c_int)?
        ) -> c_int {
            // SAFETY: the program's arguments, passed on with the program's promises.
            unsafe {
                match place(path) {
                    Some(place) => allowed(place, mode),
                    None => real::$name($($before,)? path, mode $(, $after)?),
                }
            }
        }
    )*};
}

access! {
    access(;);
    eaccess(;);
    euidaccess(;);
    faccessat(folder; flags);
}

/// The folder as it is being read. Programs get its address as their `DIR *`.
struct Listing {
    names: Vec<String>,
    next: usize,
    entry: dirent64,
}

/// How many are open: almost always none, and then nobody else's folders cost more than a look at this.
static OPEN: AtomicUsize = AtomicUsize::new(0);
/// By their addresses, which stay.
static LISTINGS: Mutex<BTreeMap<usize, Box<Listing>>> = Mutex::new(BTreeMap::new());

fn listings() -> MutexGuard<'static, BTreeMap<usize, Box<Listing>>> {
    LISTINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What `f` makes of a listing, if it is one of ours.
fn with_listing<R>(folder: *mut DIR, f: impl FnOnce(&mut Listing) -> R) -> Option<R> {
    if OPEN.load(Ordering::Relaxed) == 0 {
        return None;
    }
    listings().get_mut(&folder.addr()).map(|listing| f(listing))
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn opendir(path: *const c_char) -> *mut DIR {
    // SAFETY: the program's arguments, passed on with the program's promises.
    let place = match unsafe { place(path) } {
        Some(place) => place,
        // SAFETY: as above.
        None => return unsafe { real::opendir(path) },
    };
    let errno = match place {
        FolderEntry::Folder => {
            let names = [".".to_owned(), "..".to_owned()].into_iter().chain(files::names()).collect();
            // SAFETY: all of it is numbers, for which zero is a value.
            let entry = unsafe { std::mem::zeroed() };
            let mut listing = Box::new(Listing { names, next: 0, entry });
            let address: *mut DIR = (&raw mut *listing).cast();
            listings().insert(address.addr(), listing);
            OPEN.fetch_add(1, Ordering::Relaxed);
            return address;
        }
        FolderEntry::File(_) => libc::ENOTDIR,
        FolderEntry::Nothing => libc::ENOENT,
    };
    real::set_errno(errno);
    std::ptr::null_mut()
}

impl Listing {
    /// The next entry; null at the end.
    fn read(&mut self) -> *mut dirent64 {
        let Some(name) = self.names.get(self.next) else { return std::ptr::null_mut() };
        self.next += 1;
        let place = if name.starts_with('.') { FolderEntry::Folder } else { FolderEntry::File(name) };
        let (_, _, inode) = about(place).unwrap_or_default();
        self.entry.d_ino = inode;
        self.entry.d_off = self.next as i64;
        self.entry.d_reclen = size_of::<dirent64>() as u16;
        self.entry.d_type = if name.starts_with('.') { libc::DT_DIR } else { libc::DT_REG };
        let octets = name.as_bytes();
        let room = self.entry.d_name.len() - 1;
        let n = octets.len().min(room);
        for (to, from) in self.entry.d_name.iter_mut().zip(&octets[..n]) {
            *to = *from as c_char;
        }
        self.entry.d_name[n] = 0;
        &raw mut self.entry
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn readdir64(folder: *mut DIR) -> *mut dirent64 {
    // SAFETY: the program's arguments, passed on with the program's promises.
    with_listing(folder, Listing::read).unwrap_or_else(|| unsafe { real::readdir64(folder) })
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn readdir(folder: *mut DIR) -> *mut dirent {
    // On 64-bit machines both structures are one.
    // SAFETY: the program's arguments, passed on with the program's promises.
    with_listing(folder, |l| l.read().cast()).unwrap_or_else(|| unsafe { real::readdir(folder) })
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn closedir(folder: *mut DIR) -> c_int {
    if OPEN.load(Ordering::Relaxed) > 0 && listings().remove(&folder.addr()).is_some() {
        OPEN.fetch_sub(1, Ordering::Relaxed);
        return 0;
    }
    // SAFETY: the program's arguments, passed on with the program's promises.
    unsafe { real::closedir(folder) }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn rewinddir(folder: *mut DIR) {
    // SAFETY: the program's arguments, passed on with the program's promises.
    with_listing(folder, |l| l.next = 0).unwrap_or_else(|| unsafe { real::rewinddir(folder) });
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn telldir(folder: *mut DIR) -> c_long {
    // SAFETY: the program's arguments, passed on with the program's promises.
    with_listing(folder, |l| l.next as c_long).unwrap_or_else(|| unsafe { real::telldir(folder) })
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn seekdir(folder: *mut DIR, to: c_long) {
    // SAFETY: the program's arguments, passed on with the program's promises.
    with_listing(folder, |l| l.next = usize::try_from(to).unwrap_or_default())
        .unwrap_or_else(|| unsafe { real::seekdir(folder, to) });
}

#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C-unwind" fn dirfd(folder: *mut DIR) -> c_int {
    // SAFETY: the program's arguments, passed on with the program's promises.
    with_listing(folder, |_| number(Err(Errno::NOTSUP))).unwrap_or_else(|| unsafe { real::dirfd(folder) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_the_folder_are_ours_and_no_others() {
        // SAFETY: the texts end with a NUL.
        let of = |path: &CStr| unsafe { place(path.as_ptr()) };
        assert!(matches!(of(c"/proc/net/atm"), Some(FolderEntry::Folder)));
        assert!(matches!(of(c"/proc/net/atm/"), Some(FolderEntry::Folder)));
        assert!(matches!(of(c"/proc/net/atm/pvc"), Some(FolderEntry::File("pvc"))));
        assert!(matches!(of(c"/proc/net/atm/arp"), Some(FolderEntry::Nothing)));
        assert!(of(c"/proc/net").is_none() && of(c"/proc/net/atmosphere").is_none() && of(c"").is_none());
        assert!(
            allowed(FolderEntry::File("pvc"), libc::R_OK) == 0 && allowed(FolderEntry::File("pvc"), libc::X_OK) == -1
        );
    }

    #[test]
    fn the_folder_is_read_to_its_end_and_again() {
        // SAFETY: a text with its NUL, and what opendir has given until closedir takes it.
        unsafe {
            let folder = opendir(c"/proc/net/atm".as_ptr());
            let names = || -> Vec<String> {
                std::iter::from_fn(|| Some(readdir64(folder)).filter(|e| !e.is_null()))
                    .map(|e| CStr::from_ptr((&raw const (*e).d_name).cast()).to_str().unwrap().to_owned())
                    .collect()
            };
            let first = names();
            assert_eq!(first[..6], [".", "..", "devices", "pvc", "svc", "vc"]);
            assert_eq!(telldir(folder), first.len() as c_long);
            rewinddir(folder);
            assert_eq!(names(), first);
            assert_eq!((dirfd(folder), closedir(folder), OPEN.load(Ordering::Relaxed)), (-1, 0, 0));
        }
    }
}
