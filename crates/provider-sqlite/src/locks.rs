//! Locks that hold against other copies of SQLite in this process.
//!
//! SQLite locks a file with POSIX locks, which belong to a process. Two copies of SQLite in one process, such as this
//! crate's and that of `better-sqlite3`, do not see each other's locks: both write at once, and the one that closes the
//! file deletes the write-ahead log that the other one uses (<https://sqlite.org/howtocorrupt.html>, 2.2.1). On Linux,
//! this copy therefore takes *open file description locks*, which other copies and other processes see as those of
//! another process.
//!
//! - **K1** All locks of a file are on one open file, which exists for them alone. SQLite takes a lock through the file
//!   of one connection and releases it through that of another one.
//! - **K2** The locks of a file end when SQLite has closed all its files, as POSIX locks would.
//! - **K3** Closing a file takes away the POSIX locks that this process has on it. So no file is closed while another
//!   copy of SQLite has the same file open. It is kept, and closed later.
//!
//! Another system than Linux has no such locks, or locks that belong to an open file anyway (Windows).

/// Makes SQLite take such locks from now on. It has to be called before a file is opened.
pub(crate) fn install() {
    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    linux::install();
}

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod linux {
    use std::collections::HashMap;
    use std::ffi::{CStr, CString, c_int, c_void};
    use std::fs;
    use std::mem::zeroed;
    use std::sync::{LazyLock, Once};

    use parking_lot::Mutex;
    use rusqlite::ffi;

    /// A file, however it was opened: device and inode.
    type Inode = (u64, u64);

    /// The files that SQLite has locked.
    static TABLE: LazyLock<Mutex<Table>> = LazyLock::new(Mutex::default);

    #[derive(Default)]
    struct Table {
        inodes: HashMap<c_int, Inode>,
        files: HashMap<Inode, Locked>,
    }

    struct Locked {
        /// The open file that has the locks (K1). `None`: the system has no such locks, and POSIX locks are taken.
        holder: Option<c_int>,
        /// The files that SQLite has open.
        open: Vec<c_int>,
        /// Files that SQLite has closed, and that are still open (K3).
        kept: Vec<c_int>,
    }

    pub(super) fn install() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            replace(c"fcntl", fcntl as *const c_void);
            replace(c"close", close as *const c_void);
        });
    }

    fn replace(name: &CStr, with: *const c_void) {
        // SAFETY: SQLite is initialized, the VFS of its own exists for ever, and the function has the signature that
        // SQLite calls: on Linux, variable arguments are passed as others are.
        unsafe {
            assert_eq!(ffi::sqlite3_initialize(), ffi::SQLITE_OK, "SQLite starts");
            let vfs = ffi::sqlite3_vfs_find(c"unix".as_ptr());
            let set = (*vfs).xSetSystemCall.expect("SQLite's own VFS has it");
            let call: ffi::sqlite3_syscall_ptr = std::mem::transmute(with);
            assert_eq!(set(vfs, name.as_ptr(), call), ffi::SQLITE_OK, "the call is known");
        }
    }

    extern "C" fn fcntl(file: c_int, command: c_int, argument: *mut c_void) -> c_int {
        let command_of_file = match command {
            libc::F_SETLK => libc::F_OFD_SETLK,
            libc::F_GETLK => libc::F_OFD_GETLK,
            // SAFETY: the call is SQLite's own.
            _ => return unsafe { libc::fcntl(file, command, argument) },
        };
        match TABLE.lock().holder_of(file) {
            // SAFETY: the argument of these commands is a `flock` of the caller.
            Some(holder) => unsafe {
                (*argument.cast::<libc::flock>()).l_pid = 0;
                libc::fcntl(holder, command_of_file, argument)
            },
            // SAFETY: the call is SQLite's own.
            None => unsafe { libc::fcntl(file, command, argument) },
        }
    }

    extern "C" fn close(file: c_int) -> c_int {
        if TABLE.lock().forget(file) {
            // The file is closed as far as SQLite knows.
            return 0;
        }
        // SAFETY: SQLite closes its own file.
        unsafe { libc::close(file) }
    }

    impl Table {
        /// Returns the open file on which the locks of a file are taken.
        fn holder_of(&mut self, file: c_int) -> Option<c_int> {
            let inode = match self.inodes.get(&file) {
                Some(inode) => *inode,
                None => {
                    let inode = inode_of(file)?;
                    self.inodes.insert(file, inode);
                    let locked = self.files.entry(inode).or_insert_with(|| Locked {
                        holder: open_again(file),
                        open: Vec::new(),
                        kept: Vec::new(),
                    });
                    locked.open.push(file);
                    inode
                }
            };
            self.files.get(&inode)?.holder
        }

        /// Forgets a file that SQLite closes. Returns true if it is closed here or kept open.
        fn forget(&mut self, file: c_int) -> bool {
            let Some(inode) = self.inodes.remove(&file) else {
                return false;
            };
            let Some(locked) = self.files.get_mut(&inode) else {
                return false;
            };
            let Some(holder) = locked.holder else {
                return false;
            };
            locked.open.retain(|open| *open != file);
            locked.kept.push(file);
            let is_last = locked.open.is_empty();
            if is_last {
                unlock(holder);
            }
            let own: Vec<c_int> = [&locked.open[..], &locked.kept[..], &[holder]].concat();
            if has_others(inode, &own) {
                return true;
            }
            let mut closed = std::mem::take(&mut locked.kept);
            if is_last {
                closed.push(holder);
                self.files.remove(&inode);
            }
            for file in closed {
                // SAFETY: no one else knows these files any more.
                unsafe { libc::close(file) };
            }
            true
        }
    }

    fn inode_of(file: c_int) -> Option<Inode> {
        // SAFETY: the structure is plain data, and is filled by the call.
        unsafe {
            let mut found: libc::stat = zeroed();
            (libc::fstat(file, &raw mut found) == 0).then_some((found.st_dev, found.st_ino))
        }
    }

    /// Opens the same file once more. Returns `None` if that is impossible, or if its file system has no locks of open
    /// files.
    fn open_again(file: c_int) -> Option<c_int> {
        let path = CString::new(format!("/proc/self/fd/{file}")).ok()?;
        // SAFETY: the path ends with NUL.
        let open = |mode| unsafe { libc::open(path.as_ptr(), mode | libc::O_CLOEXEC) };
        let opened = match open(libc::O_RDWR) {
            -1 => open(libc::O_RDONLY),
            opened => opened,
        };
        if opened == -1 {
            return None;
        }
        // A file that was just opened has no lock to lose.
        if unlock(opened) {
            return Some(opened);
        }
        // SAFETY: the file was opened here.
        unsafe { libc::close(opened) };
        None
    }

    /// Releases all locks of an open file. Returns false if it can have none.
    fn unlock(file: c_int) -> bool {
        // SAFETY: the structure is plain data, and zero stands for the whole file.
        unsafe {
            let mut all: libc::flock = zeroed();
            all.l_type = libc::F_UNLCK as libc::c_short;
            libc::fcntl(file, libc::F_OFD_SETLK, &raw mut all) == 0
        }
    }

    /// Returns true if this process has a file open beside its own ones.
    fn has_others(inode: Inode, own: &[c_int]) -> bool {
        let Ok(files) = fs::read_dir("/proc/self/fd") else {
            return false;
        };
        let mut files = files
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        files.any(|file| !own.contains(&file) && inode_of(file) == Some(inode))
    }
}

#[cfg(all(test, target_os = "linux", target_pointer_width = "64"))]
mod tests {
    use std::fs::File;
    use std::mem::zeroed;
    use std::os::fd::AsRawFd;
    use std::path::Path;

    use crate::connection::{open_reader, open_writer};
    use crate::options::Durability;
    use crate::testing::Directory;

    /// The range of bytes that stands for an open connection, and the byte that stands for the writer.
    const SHARED: (&str, i64, i64) = ("", 0x4000_0002, 510);
    const WRITER: (&str, i64, i64) = ("-shm", 120, 1);

    /// Another copy of SQLite with a file of a store.
    struct Other(File, i64, i64);

    impl Other {
        fn open(store: &Path, (end, start, length): (&str, i64, i64)) -> Self {
            let path = format!("{}{end}", store.display());
            let file = File::options()
                .read(true)
                .write(true)
                .open(path)
                .expect("the file is there");
            Self(file, start, length)
        }

        /// Takes the lock for itself alone, and returns true if it got it.
        fn takes(&self) -> bool {
            // SAFETY: the structure is plain data.
            unsafe {
                let mut lock: libc::flock = zeroed();
                (lock.l_type, lock.l_start, lock.l_len) = (libc::F_WRLCK as libc::c_short, self.1, self.2);
                libc::fcntl(self.0.as_raw_fd(), libc::F_SETLK, &raw mut lock) == 0
            }
        }
    }

    /// Two copies took their locks side by side, and the first one to close the file deleted the log of the other.
    #[test]
    fn another_copy_in_this_process_is_kept_out() {
        let directory = Directory::new();
        let path = directory.join("store.db");
        let writer = open_writer(&path, Durability::Normal, true).expect("the store opens");
        let reader = open_reader(&path).expect("a reader opens");
        let (shared, turn) = (Other::open(&path, SHARED), Other::open(&path, WRITER));
        writer.connection.execute_batch("BEGIN IMMEDIATE").expect("it is free");
        assert!(!turn.takes(), "a transaction is open");
        writer.connection.execute_batch("COMMIT").expect("it is done");
        assert!(turn.takes(), "no transaction is open");
        writer.busy_limit.limited(0, || {
            writer
                .connection
                .execute_batch("BEGIN IMMEDIATE")
                .expect_err("the other copy writes");
        });
        // Closing a file would take the lock of the other copy away.
        drop(reader);
        writer.busy_limit.limited(0, || {
            writer
                .connection
                .execute_batch("BEGIN IMMEDIATE")
                .expect_err("the other copy still writes");
        });
        drop(turn);
        writer
            .connection
            .execute_batch("BEGIN IMMEDIATE; COMMIT")
            .expect("it is free again");
        assert!(!shared.takes(), "the store is open");
        drop(shared);
        assert!(!Other::open(&path, SHARED).takes(), "the store is still open");
        drop(writer);
        assert!(Other::open(&path, SHARED).takes(), "the store is closed");
    }

    /// The last connection that closes a store removes its log, and no file stays open.
    #[test]
    fn a_closed_store_leaves_nothing_open() {
        let directory = Directory::new();
        let path = directory.join("store.db");
        let open = || {
            std::fs::read_dir("/proc/self/fd")
                .expect("it is there")
                .flatten()
                .filter(|entry| {
                    std::fs::read_link(entry.path()).is_ok_and(|target| target.starts_with(directory.join("")))
                })
        };
        for _ in 0..3 {
            let writer = open_writer(&path, Durability::Normal, true).expect("the store opens");
            let reader = open_reader(&path).expect("a reader opens");
            assert!(open().count() > 0);
            drop(writer);
            drop(reader);
            assert_eq!(open().count(), 0);
            assert!(!directory.join("store.db-wal").exists());
        }
    }
}
