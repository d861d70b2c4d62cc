//! The schema of a store: its name, its version, and its migration to the newest version.

pub(crate) mod names;

use perdure_provider::ProviderErrorKind as Kind;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use crate::change_notifier::channel;
use crate::error::Failure;
use crate::index_builds;
use crate::queues::{enter_made, locked_queues};

use names::fill_in;

/// The version that the first migration makes. Development versions before the first release counted from 1, and their
/// tables are of another shape.
const FIRST_VERSION: u32 = 100;

/// Migrations. The first one makes an empty schema a store of version [`FIRST_VERSION`], and each one after it brings a
/// store to the next version. An index on a table that has rows is a statement of its own, on columns of an earlier
/// migration, and begins with `CREATE INDEX IF NOT EXISTS`: see `index_builds.rs`.
const MIGRATIONS: &[&str] = &[concat!(
    include_str!("migrations/0001_first.sql"),
    include_str!("functions.sql")
)];

/// Returns the version that the last of some migrations makes.
const fn newest(migrations: &[&str]) -> u32 {
    FIRST_VERSION + migrations.len() as u32 - 1
}

/// Returns the migrations that a version lacks, 0 for an empty schema.
fn missing<'m>(migrations: &'m [&'static str], version: u32) -> &'m [&'static str] {
    &migrations[(version + 1).saturating_sub(FIRST_VERSION) as usize..]
}

/// Fills into the functions of a migration what they share with the code. After a release, a change of these parts
/// needs a migration that makes the functions again.
fn with_shared_parts(migration: &str, schema: &str) -> String {
    migration
        .replace("{channel}", &channel(schema))
        .replace("{locked_queues}", locked_queues!("queue_names"))
        .replace("{enter_queues}", enter_made!())
}

/// Migrates a schema to the newest version, once: of several processes one migrates, and the others find it done.
///
/// A new schema is made in one transaction. A schema that has rows goes from version to version, each in a transaction
/// of its own. Its indexes are built before that while others write, if the connection is kept between two statements
/// (`keeps_session`). Behind a pooler that gives each transaction another connection, they are built in the
/// transaction, and writers wait.
pub(crate) async fn migrate(client: &Client, schema: &str, keeps_session: bool) -> Result<(), Failure> {
    migrate_with(client, schema, keeps_session, MIGRATIONS).await
}

async fn migrate_with(
    client: &Client,
    schema: &str,
    keeps_session: bool,
    migrations: &[&'static str],
) -> Result<(), Failure> {
    loop {
        let found = known_version(client, schema, newest(migrations)).await?;
        let Some(next) = missing(migrations, found).first() else {
            return Ok(());
        };
        if found > 0 && keeps_session && !index_builds::build(client, schema, found, next).await? {
            continue;
        }
        client
            // The transaction waits for other processes that migrate, and an index takes as long as its table is large.
            .batch_execute(
                "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0",
            )
            .await?;
        let migrated = migrate_step(client, schema, found, migrations).await;
        let end = if migrated.is_ok() { "COMMIT" } else { "ROLLBACK" };
        let ended = client.batch_execute(end).await;
        migrated?;
        ended?;
    }
}

/// Refuses a schema that [`migrate`] would change.
pub(crate) async fn check_newest(client: &Client, schema: &str) -> Result<(), Failure> {
    let (found, supported) = (version(client, schema).await?, newest(MIGRATIONS));
    if found == 0 {
        let detail =
            format!("it has no schema {schema} with a store; run `perdure migrate`, or open it with `migrate: true`.");
        return Err(Failure::Found(Kind::CannotOpen, detail));
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

/// Migrates to the next version, or from nothing to the newest. Does nothing if another process has migrated meanwhile.
async fn migrate_step(
    client: &Client,
    schema: &str,
    expected: u32,
    migrations: &[&'static str],
) -> Result<(), Failure> {
    // The lock belongs to the transaction, because a pooler may give the next one another connection.
    let name = format!("perdure {schema}");
    client
        .query_typed(
            "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))",
            &[(&name, Type::TEXT)],
        )
        .await?;
    let found = known_version(client, schema, newest(migrations)).await?;
    if found != expected {
        return Ok(());
    }
    let missing = missing(migrations, found);
    let (steps_to_take, to) = if found == 0 {
        (missing, newest(migrations))
    } else {
        (&missing[..1], found + 1)
    };
    let mut steps = String::new();
    if found == 0 {
        if !finds(client, SCHEMA, schema).await? {
            steps.push_str(&format!("CREATE SCHEMA {schema};\n"));
        }
        steps.push_str(&format!(
            "CREATE TABLE {schema}.schema_version (version integer NOT NULL);\n\
             INSERT INTO {schema}.schema_version VALUES (0);\n"
        ));
    }
    for migration in steps_to_take {
        if found > 0 {
            index_builds::drop_invalid(client, schema, migration).await?;
        }
        steps.push_str(&fill_in(&with_shared_parts(migration, schema), schema));
    }
    steps.push_str(&format!("UPDATE {schema}.schema_version SET version = {to};"));
    client.batch_execute(&steps).await.map_err(|error| match error.code() {
        Some(state) if [SqlState::DUPLICATE_TABLE, SqlState::DUPLICATE_FUNCTION].contains(state) => Failure::Found(
            Kind::NotADatabase,
            format!(
                "the schema {schema} has tables or functions of another application. It was left as it is; choose \
                 another schema."
            ),
        ),
        _ => error.into(),
    })
}

/// Returns true if a query of the catalogue finds a row. Functions such as `to_regclass` answer from a cache of the
/// connection, which a lock does not refresh. A query sees all that was committed before it.
async fn finds(client: &Client, sql: &str, schema: &str) -> Result<bool, Failure> {
    let rows = client.query_typed(sql, &[(&schema, Type::TEXT)]).await?;
    Ok(!rows.is_empty())
}

const SCHEMA: &str = "SELECT FROM pg_catalog.pg_namespace WHERE '\"' || replace(nspname, '\"', '\"\"') || '\"' = $1";

const VERSION: &str = "SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE c.relname = 'schema_version' AND '\"' || replace(n.nspname, '\"', '\"\"') || '\"' = $1";

/// Returns the version of a schema, or 0 if it has no store yet. Fails for a version that this Perdure can neither use
/// nor migrate.
pub(crate) async fn version(client: &Client, schema: &str) -> Result<u32, Failure> {
    known_version(client, schema, newest(MIGRATIONS)).await
}

async fn known_version(client: &Client, schema: &str, supported: u32) -> Result<u32, Failure> {
    let found = stored_version(client, schema).await?;
    check_known(found, supported)?;
    Ok(found)
}

/// Returns the version that a schema tells.
pub(crate) async fn stored_version(client: &Client, schema: &str) -> Result<u32, Failure> {
    if !finds(client, VERSION, schema).await? {
        return Ok(0);
    }
    let rows = client
        .query_typed(&format!("SELECT version FROM {schema}.schema_version"), &[])
        .await?;
    let [row] = &rows[..] else {
        return Err(Failure::corrupt(
            "its table schema_version does not have exactly one row",
        ));
    };
    let version: i32 = row.try_get(0)?;
    u32::try_from(version).map_err(|_| Failure::corrupt(format!("its schema has version {version}")))
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
             versions from {FIRST_VERSION} on. It was left as it is; choose another schema, or drop it."
        )
    } else {
        return Ok(());
    };
    Err(Failure::Found(Kind::SchemaVersion { found, supported }, detail))
}

#[cfg(test)]
mod tests;
