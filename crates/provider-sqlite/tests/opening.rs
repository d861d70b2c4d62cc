//! The files that may stand at the path of a store, and the error for each.

mod common;

use std::fs;
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::thread;

use perdure_provider::{Provider, ProviderError, ProviderErrorKind as Kind};
use perdure_provider_sqlite::{Durability, SqliteOptions, SqliteProvider};
use rusqlite::Connection;

use common::{Directory, commit, open, start, started, system_clock};

fn refused(path: impl AsRef<Path>) -> ProviderError {
    match SqliteProvider::open(path.as_ref(), SqliteOptions::default()) {
        Ok(_) => panic!("'{}' is not to be opened", path.as_ref().display()),
        Err(error) => error,
    }
}

/// Asserts that opening is refused with an error of this kind that names the file and contains these texts. The file is
/// unchanged, and no other file was created.
fn refused_untouched(directory: &Directory, path: &Path, kind: Kind, says: &[&str]) {
    let files = || {
        let entries = fs::read_dir(directory.join("")).expect("the directory is there");
        let mut files: Vec<_> = entries.map(|entry| entry.expect("it is read").path()).collect();
        files.sort();
        files
    };
    let before = (files(), fs::read(path).ok());
    let error = refused(path);
    assert_eq!(error.kind, kind, "{error}");
    assert!(!error.retryable());
    for text in says.iter().copied().chain(path.to_str()) {
        assert!(error.message.contains(text), "'{error}' does not say '{text}'");
    }
    assert_eq!((files(), fs::read(path).ok()), before);
}

#[test]
fn a_store_is_made_and_opened_again() {
    let directory = Directory::new();
    let path = directory.join("store.db");
    for _ in 0..3 {
        let store = open(&path, system_clock());
        assert_eq!(store.info().location, path.to_str().unwrap());
        assert_eq!(store.info().kind, "sqlite");
    }
    assert!(
        !directory.join("store.db-wal").exists(),
        "the last handle to close leaves no log"
    );
    let raw = Connection::open(&path).unwrap();
    let pragma = |name| raw.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!((pragma("application_id"), pragma("user_version")), (0x5065_7264, 100));
    assert_eq!(
        raw.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0))
            .unwrap(),
        "ok"
    );
}

/// The mode in which a read-only tool opens a store. A slip in a path creates no file, and a store that workers of an
/// older release use keeps its schema.
#[test]
fn without_migrations_only_a_store_as_it_should_be_is_opened() {
    let directory = Directory::new();
    let look = |name: &str| {
        let options = SqliteOptions {
            migrate: false,
            ..SqliteOptions::default()
        };
        SqliteProvider::open(directory.join(name), options).err()
    };
    let absent = look("absent.db").expect("it is refused");
    assert_eq!(absent.kind, Kind::CannotOpen);
    assert!(absent.message.contains("no such file"), "{absent}");
    assert!(!directory.join("absent.db").exists());
    fs::write(directory.join("empty.db"), "").unwrap();
    let empty = look("empty.db").expect("it is refused");
    assert!(
        empty.kind == Kind::CannotOpen && empty.message.contains("no store yet"),
        "{empty}"
    );
    assert!(fs::read(directory.join("empty.db")).unwrap().is_empty());

    open(&directory.join("store.db"), system_clock());
    assert_eq!(look("store.db"), None);
    let raw = Connection::open(directory.join("store.db")).unwrap();
    raw.pragma_update(None, "user_version", 9).unwrap();
    drop(raw);
    let before = fs::read(directory.join("store.db")).unwrap();
    let older = look("store.db").expect("it is refused");
    assert_eq!(
        older.kind,
        Kind::SchemaVersion {
            found: 9,
            supported: 100
        }
    );
    assert!(older.message.contains("version 9"), "{older}");
    assert_eq!(fs::read(directory.join("store.db")).unwrap(), before);
}

#[test]
fn an_empty_file_becomes_a_store() {
    let directory = Directory::new();
    fs::write(directory.join("store.db"), "").unwrap();
    open(&directory.join("store.db"), system_clock());
}

/// No other user of the machine can read the stored data. An existing file keeps the mode that it was given.
#[cfg(unix)]
#[test]
fn the_files_of_a_new_store_are_their_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let directory = Directory::new();
    let path = directory.join("store.db");
    let modes = || {
        ["store.db", "store.db-wal", "store.db-shm"].map(|name| {
            let found = fs::metadata(directory.join(name)).expect("it is there while the store is open");
            format!("{:o}", found.permissions().mode() & 0o777)
        })
    };
    let store = open(&path, system_clock());
    started(&commit(&store, vec![start("one")]));
    assert_eq!(modes(), ["600", "600", "600"]);
    drop(store);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o660)).unwrap();
    let store = open(&path, system_clock());
    started(&commit(&store, vec![start("two")]));
    assert_eq!(modes(), ["660", "660", "660"]);
}

#[cfg(unix)]
#[test]
fn the_file_of_a_link_to_none_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let directory = Directory::new();
    let (link, target) = (directory.join("link.db"), directory.join("target.db"));
    std::os::unix::fs::symlink(&target, &link).unwrap();
    let store = open(&link, system_clock());
    started(&commit(&store, vec![start("one")]));
    let found = fs::metadata(&target).expect("the link leads to it");
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_store_opens_with_less_durability() {
    let directory = Directory::new();
    let options = SqliteOptions {
        durability: Durability::Normal,
        ..SqliteOptions::default()
    };
    SqliteProvider::open(directory.join("store.db"), options).unwrap();
}

/// SQLite gives some names a meaning of their own; here a path is a path.
#[test]
fn special_names_are_files() {
    let directory = Directory::new();
    for name in [
        ":memory:",
        "file:store.db?mode=memory",
        "a b%20c#d?e.db",
        "ä\u{1F600}.db",
    ] {
        open(&directory.join(name), system_clock());
        assert!(directory.join(name).is_file(), "{name}");
    }
}

#[test]
fn a_missing_directory_is_to_be_created_by_the_user() {
    let directory = Directory::new();
    let path = directory.join("missing/store.db");
    let missing = directory.join("missing");
    refused_untouched(
        &directory,
        &path,
        Kind::CannotOpen,
        &["does not exist", "create it", missing.to_str().unwrap()],
    );
}

#[test]
fn a_directory_is_no_store() {
    let directory = Directory::new();
    let error = refused(directory.join(""));
    assert_eq!(error.kind, Kind::CannotOpen);
    assert!(error.message.contains("is a directory"), "{error}");
}

#[test]
fn a_file_is_no_directory() {
    let directory = Directory::new();
    fs::write(directory.join("file"), "text").unwrap();
    let error = refused(directory.join("file/store.db"));
    assert_eq!(error.kind, Kind::CannotOpen);
}

#[test]
fn a_path_is_needed() {
    for path in ["", "a\0b"] {
        assert_eq!(refused(path).kind, Kind::CannotOpen);
    }
}

#[cfg(unix)]
#[test]
fn a_file_that_may_not_be_written_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let directory = Directory::new();
    let path = directory.join("store.db");
    open(&path, system_clock());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    if fs::OpenOptions::new().write(true).open(&path).is_ok() {
        eprintln!("not checked: this user (root?) may write to a file without permission");
        return;
    }
    refused_untouched(&directory, &path, Kind::CannotOpen, &["may not write"]);
}

#[test]
fn a_file_of_another_kind_is_left_alone() {
    let directory = Directory::new();
    for (name, content) in [("short", &b"hi"[..]), ("text", &[b'x'; 10_000]), ("zeros", &[0; 4_096])] {
        let path = directory.join(name);
        fs::write(&path, content).unwrap();
        refused_untouched(
            &directory,
            &path,
            Kind::NotADatabase,
            &["is not a Perdure store", "left as it is"],
        );
    }
}

#[test]
fn the_database_of_another_application_is_left_alone() {
    let directory = Directory::new();
    for (name, sql) in [
        ("tables.db", "CREATE TABLE instances (id)"),
        ("wal.db", "PRAGMA journal_mode = wal; CREATE TABLE t (id)"),
        ("version.db", "PRAGMA user_version = 7"),
        ("named.db", "PRAGMA application_id = 7"),
        ("view.db", "CREATE VIEW v AS SELECT 1"),
    ] {
        let path = directory.join(name);
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        refused_untouched(&directory, &path, Kind::NotADatabase, &["another application"]);
    }
}

/// The log of another application's database is left alone, too.
#[test]
fn the_database_of_another_application_in_use_is_left_alone() {
    let directory = Directory::new();
    let path = directory.join("wal.db");
    let raw = Connection::open(&path).unwrap();
    raw.execute_batch("PRAGMA journal_mode = wal; CREATE TABLE t (id); INSERT INTO t VALUES (1)")
        .unwrap();
    let log = fs::read(directory.join("wal.db-wal")).unwrap();
    refused_untouched(&directory, &path, Kind::NotADatabase, &["another application"]);
    assert_eq!(fs::read(directory.join("wal.db-wal")).unwrap(), log);
}

/// A store of the versions before the first release, whose tables are of another shape.
#[test]
fn a_store_of_a_development_version_is_refused() {
    let directory = Directory::new();
    let path = directory.join("store.db");
    let raw = Connection::open(&path).unwrap();
    raw.execute_batch(
        "CREATE TABLE instances (key INTEGER PRIMARY KEY, old INTEGER) STRICT;
         PRAGMA application_id = 0x50657264; PRAGMA user_version = 13",
    )
    .unwrap();
    drop(raw);
    let kind = Kind::SchemaVersion {
        found: 13,
        supported: 100,
    };
    let texts = ["development version", "version 13", "choose another path"];
    refused_untouched(&directory, &path, kind, &texts);
}

#[test]
fn a_newer_schema_is_refused() {
    let directory = Directory::new();
    let path = directory.join("store.db");
    open(&path, system_clock());
    Connection::open(&path)
        .unwrap()
        .execute_batch("PRAGMA journal_mode = delete; PRAGMA user_version = 4711")
        .unwrap();
    let kind = Kind::SchemaVersion {
        found: 4711,
        supported: 100,
    };
    refused_untouched(&directory, &path, kind, &["newer Perdure", "version 4711", "up to 100"]);
}

/// Creates a store with a row in each table, checkpointed and closed.
fn filled(directory: &Directory) -> std::path::PathBuf {
    let path = directory.join("store.db");
    open(&path, system_clock());
    let raw = Connection::open(&path).expect("the file opens");
    raw.execute_batch(
        "WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
         INSERT INTO history (instance_key, execution, event_id, time, kind, payload)
         SELECT 1, 1, i, 0, 'ActivityCompleted', printf('%0200d', i) FROM n;
         INSERT INTO messages (instance_key, kind, time) VALUES (1, 'Cancel', 0);
         PRAGMA wal_checkpoint(TRUNCATE)",
    )
    .expect("the file is written");
    path
}

#[test]
fn a_damaged_file_is_told_at_open() {
    let page = 4_096;
    let magic = 16;
    // The place where each damage begins, and its length in the file. Damage that begins at the end cuts the file.
    for (what, from, to) in [
        ("the rest of the header", magic, 100),
        ("the schema", 100, page),
        ("the first pages", page, 8 * page),
        ("all but the magic", magic, usize::MAX),
    ] {
        let directory = Directory::new();
        let path = filled(&directory);
        let mut bytes = fs::read(&path).unwrap();
        let to = to.min(bytes.len());
        bytes[from..to].fill(0xA5);
        fs::write(&path, bytes).unwrap();
        let error = refused(&path);
        assert!(
            matches!(error.kind, Kind::Corrupt | Kind::NotADatabase),
            "{what}: {error:?}"
        );
        assert!(error.message.contains(path.to_str().unwrap()), "{error}");
    }
}

#[test]
fn a_truncated_file_is_told_at_open() {
    let directory = Directory::new();
    let path = filled(&directory);
    let bytes = fs::read(&path).unwrap();
    for length in [1_000, 4_096, 10_000, bytes.len() / 2, bytes.len() - 4_096] {
        fs::write(&path, &bytes[..length]).unwrap();
        let error = refused(&path);
        assert!(
            matches!(error.kind, Kind::Corrupt | Kind::NotADatabase),
            "{length} bytes: {error:?}"
        );
    }
}

#[test]
fn a_changed_schema_is_told_at_open() {
    for sql in [
        "DROP TABLE messages",
        "ALTER TABLE instances RENAME COLUMN epoch TO e; DROP INDEX instances_due",
    ] {
        let directory = Directory::new();
        let path = filled(&directory);
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let error = refused(&path);
        assert_eq!(error.kind, Kind::Corrupt, "{error}");
        assert!(error.message.contains("schema"), "{error}");
    }
}

/// One opener migrates, and all of them open the store.
#[test]
fn eight_openers_at_once_all_open() {
    for _ in 0..10 {
        let directory = Directory::new();
        let path = Arc::new(directory.join("store.db"));
        let barrier = Arc::new(Barrier::new(8));
        let openers: Vec<_> = (0..8)
            .map(|_| {
                let (path, barrier) = (Arc::clone(&path), Arc::clone(&barrier));
                thread::spawn(move || {
                    barrier.wait();
                    open(&path, system_clock());
                })
            })
            .collect();
        for opener in openers {
            opener.join().expect("every opener opens the store");
        }
    }
}
