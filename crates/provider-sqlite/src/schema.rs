//! The identity of a file, its schema version, and the migration to the newest version.

use perdure_provider::ProviderErrorKind as Kind;
use rusqlite::{Connection, TransactionBehavior};

use crate::error::Failure;
use crate::pragma::read_pragma;
use crate::queues::next_turn_sql;

/// `PRAGMA application_id` of every store: "Perd".
const APPLICATION_ID: i64 = 0x5065_7264;

/// The version that the first migration makes (`PRAGMA user_version`). Development versions before the first release
/// counted from 1, and their tables are of another shape.
const FIRST_VERSION: u32 = 100;

/// The migrations. The first one makes an empty file a store of version [`FIRST_VERSION`], and each one after it brings
/// a store to the next version.
const MIGRATIONS: &[&str] = &[concat!(
    include_str!("migrations/0001_first.sql"),
    include_str!("views.sql")
)];

/// Queries for the first and last row of each tree, in the order in which the tree is kept.
const PROBES: &[&str] = &[
    "SELECT * FROM instances ORDER BY key LIMIT 1",
    "SELECT * FROM instances ORDER BY key DESC LIMIT 1",
    "SELECT id FROM instances ORDER BY id LIMIT 1",
    "SELECT wake_at FROM instances INDEXED BY instances_due WHERE wake_at IS NOT NULL
     ORDER BY name, version, priority, wake_at LIMIT 1",
    "SELECT owner FROM instances INDEXED BY instances_owner WHERE owner IS NOT NULL ORDER BY owner LIMIT 1",
    "SELECT parent_key FROM instances INDEXED BY instances_parent WHERE parent_key IS NOT NULL ORDER BY parent_key
     LIMIT 1",
    "SELECT mismatched_code FROM instances INDEXED BY instances_mismatched WHERE mismatched_code IS NOT NULL
     ORDER BY name, version, mismatched_code LIMIT 1",
    "SELECT created_at FROM instances INDEXED BY instances_created ORDER BY created_at LIMIT 1",
    "SELECT created_at FROM instances INDEXED BY instances_open WHERE completed_at IS NULL ORDER BY created_at LIMIT 1",
    "SELECT status FROM instances INDEXED BY instances_unsuccessful
     WHERE status IN ('Suspended', 'Failed', 'Cancelled', 'Terminated')
       ORDER BY status, created_at LIMIT 1",
    "SELECT parent_id FROM instances INDEXED BY instances_children WHERE parent_id IS NOT NULL
     ORDER BY parent_id, created_at LIMIT 1",
    "SELECT completed_at FROM instances INDEXED BY instances_ended WHERE completed_at IS NOT NULL ORDER BY completed_at
     LIMIT 1",
    "SELECT key FROM instances INDEXED BY instances_continued WHERE execution > 1 ORDER BY key LIMIT 1",
    "SELECT * FROM deleted_instances ORDER BY key LIMIT 1",
    "SELECT * FROM history ORDER BY rowid LIMIT 1",
    "SELECT * FROM history ORDER BY rowid DESC LIMIT 1",
    "SELECT event_id FROM history ORDER BY instance_key, execution, event_id LIMIT 1",
    "SELECT event_id FROM history ORDER BY instance_key DESC, execution DESC, event_id DESC LIMIT 1",
    "SELECT * FROM messages ORDER BY seq LIMIT 1",
    "SELECT * FROM messages ORDER BY seq DESC LIMIT 1",
    "SELECT instance_key FROM messages INDEXED BY messages_instance ORDER BY instance_key LIMIT 1",
    "SELECT name FROM messages INDEXED BY messages_mailbox ORDER BY instance_key, kind, name LIMIT 1",
    "SELECT * FROM queues ORDER BY name LIMIT 1",
    "SELECT * FROM queue_places ORDER BY key LIMIT 1",
    "SELECT name FROM queue_places INDEXED BY queue_places_line WHERE place = 0 ORDER BY queue LIMIT 1",
    "SELECT name FROM queue_places INDEXED BY queue_places_held WHERE place = 1 ORDER BY queue, queue_key LIMIT 1",
    "SELECT name FROM queue_places INDEXED BY queue_places_held_sorts WHERE place = 1 ORDER BY queue, name LIMIT 1",
    "SELECT queue FROM queue_places INDEXED BY queue_places_slots WHERE place = 2 ORDER BY queue LIMIT 1",
    "SELECT queue FROM queue_places INDEXED BY queue_places_delayed WHERE place = 3 ORDER BY queue, queued_at LIMIT 1",
    "SELECT name FROM queue_places INDEXED BY queue_places_delayed_sorts WHERE place = 3 ORDER BY queue, name LIMIT 1",
    "SELECT turn FROM queue_places INDEXED BY queue_places_turns ORDER BY queue, queue_key LIMIT 1",
    "SELECT * FROM queue_keys ORDER BY queue, queue_key LIMIT 1",
    "SELECT next_at FROM queue_keys INDEXED BY queue_keys_waiting ORDER BY queue, waits_for LIMIT 1",
    "SELECT * FROM start_keys ORDER BY rule, scope, start_key LIMIT 1",
    "SELECT instance_key FROM start_keys INDEXED BY start_keys_instance ORDER BY instance_key LIMIT 1",
    "SELECT * FROM workers ORDER BY id LIMIT 1",
    "SELECT * FROM revocations ORDER BY worker, instance_key LIMIT 1",
    "SELECT * FROM activities ORDER BY name LIMIT 1",
    "SELECT * FROM tasks ORDER BY instance_key, execution, event_id LIMIT 1",
    "SELECT name FROM tasks INDEXED BY tasks_due WHERE owner IS NULL ORDER BY route LIMIT 1",
    "SELECT start_by FROM tasks INDEXED BY tasks_late
     WHERE owner IS NULL AND start_by IS NOT NULL ORDER BY start_by LIMIT 1",
    "SELECT owner FROM tasks INDEXED BY tasks_owner WHERE owner IS NOT NULL ORDER BY owner LIMIT 1",
    "SELECT place_key FROM tasks INDEXED BY tasks_place WHERE place_key IS NOT NULL ORDER BY place_key LIMIT 1",
    "SELECT route FROM tasks INDEXED BY tasks_session WHERE session IS NOT NULL ORDER BY queue, session LIMIT 1",
    "SELECT * FROM sessions ORDER BY queue, session LIMIT 1",
    "SELECT worker FROM sessions INDEXED BY sessions_worker ORDER BY worker LIMIT 1",
    "SELECT * FROM heartbeats ORDER BY instance_key, execution, event_id LIMIT 1",
    "SELECT * FROM takeovers INDEXED BY takeovers_instance ORDER BY instance_key LIMIT 1",
    "SELECT * FROM state ORDER BY instance_key, name LIMIT 1",
    "SELECT * FROM asks ORDER BY instance_key, id LIMIT 1",
    "SELECT number FROM asks INDEXED BY asks_answered WHERE number IS NOT NULL ORDER BY instance_key LIMIT 1",
    "SELECT * FROM streams ORDER BY instance_key, name LIMIT 1",
    "SELECT * FROM stream_chunks ORDER BY instance_key, name, first_index LIMIT 1",
    "SELECT expires_at FROM stream_chunks INDEXED BY stream_chunks_expiring WHERE expires_at IS NOT NULL
     ORDER BY expires_at LIMIT 1",
    "SELECT * FROM stream_writers ORDER BY instance_key, execution, event_id, name LIMIT 1",
    "SELECT * FROM logs ORDER BY instance_key, execution, event_id, line LIMIT 1",
    "SELECT time FROM logs INDEXED BY logs_time ORDER BY time LIMIT 1",
];

/// Returns the schema version of a file that is a Perdure store or still empty, and an error for every other file. Only
/// reads.
pub(crate) fn identify(connection: &Connection) -> Result<u32, Failure> {
    let found = read_version(connection)?;
    check_known(found, newest(MIGRATIONS))?;
    Ok(found)
}

/// Returns the schema version, 0 for an empty file.
fn read_version(connection: &Connection) -> Result<u32, Failure> {
    // All pragmas are read at one moment: between two reads another opener may have made the file a Perdure store.
    let moment = connection
        .is_autocommit()
        .then(|| connection.unchecked_transaction())
        .transpose()?;
    let application: i64 = read_pragma(connection, "application_id")?;
    let version: i64 = read_pragma(connection, "user_version")?;
    let objects: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    moment.map(|transaction| transaction.finish()).transpose()?;
    match (application, version, objects) {
        (0, 0, 0) => Ok(0),
        (APPLICATION_ID, version, _) => {
            u32::try_from(version).map_err(|_| Failure::corrupt(format!("its schema has version {version}")))
        }
        _ => Err(Failure::Found(
            Kind::NotADatabase,
            "it is the SQLite file of another application. It was left as it is; choose another path.".into(),
        )),
    }
}

/// Refuses the versions that this Perdure can neither use nor migrate.
fn check_known(found: u32, supported: u32) -> Result<(), Failure> {
    let detail = if found > supported {
        format!(
            "it was made by a newer Perdure: its schema has version {found}, this Perdure knows versions up to \
             {supported}. Use a newer Perdure."
        )
    } else if found != 0 && found < FIRST_VERSION {
        format!(
            "it was made by a development version of Perdure: its schema has version {found}, and this Perdure knows \
             versions from {FIRST_VERSION} on. It was left as it is; choose another path, or delete it."
        )
    } else {
        return Ok(());
    };
    Err(Failure::Found(Kind::SchemaVersion { found, supported }, detail))
}

/// Refuses a file that [`migrate`] would change.
pub(crate) fn check_newest(connection: &Connection) -> Result<(), Failure> {
    let (found, supported) = (identify(connection)?, newest(MIGRATIONS));
    if found == 0 {
        return Err(Failure::Found(
            Kind::CannotOpen,
            "it holds no store yet; run `perdure migrate`, or open it with `migrate: true`.".into(),
        ));
    }
    if found < supported {
        return Err(not_migrated(found, supported));
    }
    Ok(())
}

fn not_migrated(found: u32, supported: u32) -> Failure {
    let detail =
        format!("its schema has version {found}, this Perdure needs version {supported}, and migration is disabled.");
    Failure::Found(Kind::SchemaVersion { found, supported }, detail)
}

/// Returns the version that the last of some migrations makes.
const fn newest(migrations: &[&str]) -> u32 {
    FIRST_VERSION + migrations.len() as u32 - 1
}

/// Brings a file to the newest version, once: of several openers one migrates, and the others find it done.
pub(crate) fn migrate(connection: &mut Connection) -> Result<(), Failure> {
    migrate_with(connection, MIGRATIONS)
}

fn migrate_with(connection: &mut Connection, migrations: &[&str]) -> Result<(), Failure> {
    let version = |connection: &Connection| {
        let found = read_version(connection)?;
        check_known(found, newest(migrations)).map(|()| found)
    };
    if version(connection)? == newest(migrations) {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // The version is read again: another opener may have migrated the file while this one waited for the lock.
    let done = match version(&transaction)? {
        0 => 0,
        found => (found - FIRST_VERSION + 1) as usize,
    };
    for migration in &migrations[done..] {
        // The views share this query with the code. After a release, a change of it needs a migration, too.
        transaction.execute_batch(&migration.replace("{next_turn}", next_turn_sql!("i.queue", "i.queue_key")))?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", newest(migrations))?;
    transaction.commit()?;
    assert_eq!(
        version(connection)?,
        newest(migrations),
        "the version was written with the tables"
    );
    Ok(())
}

/// Probes the file in a few page reads, so that a damaged header, schema or first page is reported at open and not in
/// the middle of the night. Deeper damage is reported when it is read; a full check would read the whole file.
pub(crate) fn probe(connection: &Connection) -> Result<(), Failure> {
    for sql in PROBES {
        let look = || -> Result<(), rusqlite::Error> {
            let mut statement = connection.prepare(sql)?;
            let mut rows = statement.query([])?;
            rows.next()?;
            Ok(())
        };
        look().map_err(|error| match error {
            // The version is right and yet a table or column is missing: the schema itself was damaged or changed.
            rusqlite::Error::SqliteFailure(failure, Some(message)) if failure.code == rusqlite::ErrorCode::Unknown => {
                Failure::corrupt(format!(
                    "its schema is not that of version {}: {message}",
                    newest(MIGRATIONS)
                ))
            }
            rusqlite::Error::SqlInputError { msg, .. } => Failure::corrupt(format!(
                "its schema is not that of version {}: {msg}",
                newest(MIGRATIONS)
            )),
            other => Failure::from(other),
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A migration that some release may add.
    const NEXT: &str = "ALTER TABLE workers ADD COLUMN region TEXT; UPDATE workers SET region = 'none'";

    fn version(connection: &Connection) -> u32 {
        read_version(connection).expect("it is a store")
    }

    fn older() -> Connection {
        let mut connection = Connection::open_in_memory().expect("SQLite works");
        migrate(&mut connection).expect("the store is made");
        connection
            .execute_batch("INSERT INTO workers VALUES ('w', 'n', 'h', 5, '1', 900, NULL, NULL)")
            .expect("it is a row");
        connection
    }

    #[test]
    fn each_table_and_index_has_a_probe() {
        let connection = older();
        let mut all = connection
            .prepare(
                "SELECT type, name FROM sqlite_schema WHERE type IN ('table', 'index') AND name NOT LIKE 'sqlite%'",
            )
            .expect("it is a statement");
        let all = all.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
        for found in all.expect("it is answered") {
            let (kind, name): (String, String) = found.expect("they are texts");
            let before = if kind == "index" { "BY" } else { "FROM" };
            let is_probed = PROBES.iter().any(|probe| {
                let words: Vec<&str> = probe.split_whitespace().collect();
                words.windows(2).any(|words| words == [before, &*name])
            });
            assert!(is_probed || name == "identity", "{kind} {name}");
        }
    }

    #[test]
    fn a_migration_keeps_the_rows() {
        let mut connection = older();
        assert_eq!(version(&connection), newest(MIGRATIONS));
        let migrations = [MIGRATIONS, &[NEXT]].concat();
        for _ in 0..2 {
            migrate_with(&mut connection, &migrations).expect("it is migrated");
            assert_eq!(version(&connection), newest(MIGRATIONS) + 1);
        }
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let row: (String, String) = connection
            .query_row("SELECT id, region FROM workers", [], read)
            .expect("the row is there");
        assert_eq!(row, ("w".into(), "none".into()));
        // The release before does not know the new version.
        let refused = identify(&connection).expect_err("it is newer");
        assert!(refused.to_string().contains("newer Perdure"), "{refused}");
    }

    #[test]
    fn a_migration_that_fails_changes_nothing() {
        let mut connection = older();
        let migrations = [MIGRATIONS, &[NEXT, "ALTER TABLE absent ADD COLUMN a TEXT"]].concat();
        migrate_with(&mut connection, &migrations).expect_err("there is no such table");
        assert_eq!(version(&connection), newest(MIGRATIONS));
        connection
            .query_row("SELECT region FROM workers", [], |_| Ok(()))
            .expect_err("the column was rolled back");
    }

    #[test]
    fn a_migration_makes_the_whole_schema_of_an_empty_file() {
        let mut connection = Connection::open_in_memory().expect("SQLite works");
        migrate_with(&mut connection, &[MIGRATIONS, &[NEXT]].concat()).expect("the store is made");
        assert_eq!(version(&connection), newest(MIGRATIONS) + 1);
    }

    #[test]
    fn an_older_version_is_told_to_be_migrated() {
        let refused = not_migrated(100, 101);
        assert!(
            refused
                .to_string()
                .contains("version 100, this Perdure needs version 101")
        );
    }
}
