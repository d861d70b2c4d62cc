//! A copy of the store while it is in use, by SQLite's online backup.
//!
//! The copy is of one moment: all pages are read in one transaction, which blocks no writer. It is written under
//! another name and synced, and gets its own name when it is whole. Any file under that name is therefore a complete
//! store.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use perdure_provider::{ProviderError, ProviderErrorKind as Kind};
use rusqlite::Connection;
use rusqlite::backup::Backup;

use crate::connection::{log_of, make_private, open_reader};
use crate::error::Failure;
use crate::options::BACKUP_PAGES;

/// Copies the store at `from` to `to`. Returns the bytes of the copy.
pub(crate) fn copy(from: &Path, to: &Path, replace: bool) -> Result<u64, ProviderError> {
    let target = Target::at(from, to, replace).map_err(|failure| failure.named(&to.display().to_string()))?;
    let copied = copy_pages(from, &target.temporary).map_err(|failure| failure.named(&from.display().to_string()));
    let placed = copied.and_then(|()| {
        target
            .place()
            .map_err(|failure| failure.named(&to.display().to_string()))
    });
    if placed.is_err() {
        // The removal is useful but not needed: a file that is left has a name that says what it is.
        let _ = fs::remove_file(&target.temporary);
    }
    placed
}

fn copy_pages(from: &Path, to: &Path) -> Result<(), Failure> {
    let source = open_reader(from)?;
    // The transaction lasts until all pages are copied: a commit in between would begin the copy anew.
    source.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema")?;
    let mut copy = Connection::open(to)?;
    // The copy is synced as a whole afterwards.
    copy.pragma_update(None, "synchronous", 0)?;
    let backup = Backup::new(&source, &mut copy)?;
    backup.run_to_completion(BACKUP_PAGES, Duration::ZERO, None)?;
    drop(backup);
    copy.close().map_err(|(_, error)| error)?;
    source.execute_batch("COMMIT")?;
    Ok(())
}

/// The place of a copy.
struct Target {
    path: PathBuf,
    directory: PathBuf,
    /// Path beside the final one, so that the file can be renamed.
    temporary: PathBuf,
    replace: bool,
}

impl Target {
    /// Refuses a path that cannot hold a copy: one without a directory, an existing file unless it is a regular one and
    /// to be replaced, the store itself, and a path with a write-ahead log beside it.
    fn at(from: &Path, to: &Path, replace: bool) -> Result<Self, Failure> {
        let refuse = |detail: &str| Err(Failure::Found(Kind::CannotOpen, detail.into()));
        let path = std::path::absolute(to).map_err(io)?;
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
            return refuse("the path is not a file.");
        };
        if !directory.is_dir() {
            return refuse("its directory does not exist; create it first.");
        }
        if fs::symlink_metadata(&path).is_ok() {
            if !replace {
                return refuse("the file exists; choose another path, or replace it (`--force`, `replace: true`).");
            }
            if !path.is_file() {
                return refuse("it is not a regular file.");
            }
            if fs::canonicalize(&path).map_err(io)? == fs::canonicalize(from).map_err(io)? {
                return refuse("it is the store itself.");
            }
        }
        // SQLite would take the existing log for the log of the copy.
        if log_of(&path).exists() {
            return refuse("there is a write-ahead log next to it: a store is in use there, or was not closed.");
        }
        let mut temporary = name.to_owned();
        temporary.push(format!(".{}.part", std::process::id()));
        let temporary = directory.join(temporary);
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(io(error)),
            // The file was left by a dead process of the same process id.
            _ => {}
        }
        make_private(&temporary)?;
        Ok(Self {
            directory: directory.to_owned(),
            path,
            temporary,
            replace,
        })
    }

    /// Gives the copy its name, durably.
    fn place(&self) -> Result<u64, Failure> {
        let file = File::open(&self.temporary).map_err(io)?;
        file.sync_all().map_err(io)?;
        let bytes = file.metadata().map_err(io)?.len();
        drop(file);
        if self.replace {
            fs::rename(&self.temporary, &self.path).map_err(io)?;
        } else {
            // A link, unlike a rename, replaces no existing file.
            fs::hard_link(&self.temporary, &self.path).map_err(io)?;
            fs::remove_file(&self.temporary).map_err(io)?;
        }
        // Only Unix can open a directory; elsewhere the file system keeps names by itself.
        #[cfg(unix)]
        File::open(&self.directory)
            .and_then(|directory| directory.sync_all())
            .map_err(io)?;
        #[cfg(not(unix))]
        let _ = &self.directory;
        Ok(bytes)
    }
}

fn io(error: std::io::Error) -> Failure {
    match error.kind() {
        ErrorKind::StorageFull => Failure::Found(Kind::Full, error.to_string()),
        ErrorKind::AlreadyExists => Failure::Found(Kind::CannotOpen, "the file exists.".into()),
        _ => Failure::Found(Kind::CannotOpen, format!("{error}.")),
    }
}
