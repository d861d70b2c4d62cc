//! The identity of a file, its schema version, and the migration to the newest version.

use perdure_provider::ProviderErrorKind as Kind;
use rusqlite::{Connection, TransactionBehavior};

use crate::connection::read_pragma;
use crate::error::Failure;

/// `PRAGMA application_id` of every store: "Perd".
const APPLICATION_ID: i64 = 0x5065_7264;

/// The migrations. The one at place n brings version n to version n + 1 (`PRAGMA user_version`).
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_first.sql"),
    include_str!("migrations/0002_children.sql"),
    include_str!("migrations/0003_heartbeats.sql"),
    include_str!("migrations/0004_unread.sql"),
    include_str!("migrations/0005_tasks.sql"),
    include_str!("migrations/0006_unfit_code.sql"),
    include_str!("migrations/0007_listing.sql"),
    include_str!("migrations/0008_suspicion.sql"),
    include_str!("migrations/0009_activities.sql"),
    include_str!("migrations/0010_revocations.sql"),
    include_str!("migrations/0011_about.sql"),
    include_str!("migrations/0012_narrow_lists.sql"),
    include_str!("migrations/0013_newest_versions.sql"),
];

/// Queries for the first and last row of each tree, in the order in which the tree is kept.
const PROBES: &[&str] = &[
    "SELECT * FROM instances ORDER BY key LIMIT 1",
    "SELECT * FROM instances ORDER BY key DESC LIMIT 1",
    "SELECT id FROM instances ORDER BY id LIMIT 1",
    "SELECT wake_at FROM instances INDEXED BY instances_due WHERE wake_at IS NOT NULL ORDER BY name, version, priority, wake_at LIMIT 1",
    "SELECT owner FROM instances INDEXED BY instances_owner WHERE owner IS NOT NULL ORDER BY owner LIMIT 1",
    "SELECT parent_key FROM instances INDEXED BY instances_parent WHERE parent_key IS NOT NULL ORDER BY parent_key LIMIT 1",
    "SELECT unfit_code FROM instances INDEXED BY instances_unfit WHERE unfit_code IS NOT NULL ORDER BY name, version, unfit_code LIMIT 1",
    "SELECT created_at FROM instances INDEXED BY instances_created ORDER BY created_at LIMIT 1",
    "SELECT created_at FROM instances INDEXED BY instances_open WHERE completed_at IS NULL ORDER BY created_at LIMIT 1",
    "SELECT status FROM instances INDEXED BY instances_troubled WHERE status IN ('Suspended', 'Failed', 'Cancelled', 'Terminated')
       ORDER BY status, created_at LIMIT 1",
    "SELECT parent_id FROM instances INDEXED BY instances_children WHERE parent_id IS NOT NULL ORDER BY parent_id, created_at LIMIT 1",
    "SELECT completed_at FROM instances INDEXED BY instances_ended WHERE completed_at IS NOT NULL ORDER BY completed_at LIMIT 1",
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
    "SELECT * FROM workers ORDER BY id LIMIT 1",
    "SELECT * FROM revocations ORDER BY worker, instance_key LIMIT 1",
    "SELECT * FROM activities ORDER BY name LIMIT 1",
    "SELECT * FROM tasks ORDER BY instance_key, execution, event_id LIMIT 1",
    "SELECT name FROM tasks INDEXED BY tasks_due WHERE owner IS NULL ORDER BY queue LIMIT 1",
    "SELECT owner FROM tasks INDEXED BY tasks_owner WHERE owner IS NOT NULL ORDER BY owner LIMIT 1",
    "SELECT * FROM heartbeats ORDER BY instance_key, execution, scheduled LIMIT 1",
];

/// Returns the schema version of a file that is a Perdure store or still empty, and an error for every other file. Only
/// reads.
pub(crate) fn identify(connection: &Connection) -> Result<u32, Failure> {
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
            let found =
                u32::try_from(version).map_err(|_| Failure::corrupt(format!("its schema has version {version}")))?;
            let supported = newest();
            if found <= supported {
                return Ok(found);
            }
            Err(Failure::Found(
                Kind::SchemaVersion { found, supported },
                format!(
                    "its schema has version {found}, this Perdure knows versions up to {supported}. Use a newer Perdure."
                ),
            ))
        }
        _ => Err(Failure::Found(
            Kind::NotADatabase,
            "it is the SQLite file of another application. It was left as it is; choose another path.".into(),
        )),
    }
}

/// Refuses a file that [`migrate`] would change.
pub(crate) fn check_newest(connection: &Connection) -> Result<(), Failure> {
    let (found, supported) = (identify(connection)?, newest());
    if found == 0 {
        return Err(Failure::Found(Kind::CannotOpen, "it holds no store yet.".into()));
    }
    if found < supported {
        let detail = format!(
            "its schema has version {found} and was not to be brought to version {supported}, which this Perdure needs."
        );
        return Err(Failure::Found(Kind::SchemaVersion { found, supported }, detail));
    }
    Ok(())
}

const fn newest() -> u32 {
    MIGRATIONS.len() as u32
}

/// Brings a file to the newest version, once: of several openers one migrates, and the others find it done.
pub(crate) fn migrate(connection: &mut Connection) -> Result<(), Failure> {
    if identify(connection)? == newest() {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // The version is read again: another opener may have migrated the file while this one waited for the lock.
    let version = identify(&transaction)?;
    for migration in &MIGRATIONS[version as usize..] {
        transaction.execute_batch(migration)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", newest())?;
    transaction.commit()?;
    assert_eq!(
        identify(connection)?,
        newest(),
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
                Failure::corrupt(format!("its schema is not that of version {}: {message}", newest()))
            }
            rusqlite::Error::SqlInputError { msg, .. } => {
                Failure::corrupt(format!("its schema is not that of version {}: {msg}", newest()))
            }
            other => Failure::from(other),
        })?;
    }
    Ok(())
}
