//! The indexes of a migration, built while workers of the version before go on writing.
//!
//! `CREATE INDEX` keeps all writers off a table until it is done. So a store that has rows gets its indexes by
//! `CREATE INDEX CONCURRENTLY`, outside of a transaction and before the transaction that does the rest of the
//! migration. A build that fails leaves an invalid index, which the next build drops and builds again. One process
//! builds, under a lock of its session. The others check now and then whether it is done. They must not wait for the
//! lock: a build waits for each statement that began before it.

use std::time::Duration;

use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};

use crate::error::Failure;
use crate::schema::names::fill_in;
use crate::schema::stored_version;
use crate::time::sleep;

/// The beginning of an index statement in a migration, at the beginning of a line. The statement ends with the next
/// semicolon. Its columns are those of an earlier migration.
const BEGIN: &str = "CREATE INDEX IF NOT EXISTS ";

/// The time between two checks whether another process is done.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Builds the indexes of the migration that begins with version `found`. Returns false if another process has done that
/// migration meanwhile.
pub(crate) async fn build(client: &Client, schema: &str, found: u32, migration: &str) -> Result<bool, Failure> {
    let indexes: Vec<&str> = statements(migration).collect();
    if indexes.is_empty() {
        return Ok(true);
    }
    let name = format!("perdure indexes {schema}");
    while !is_locked(client, &name).await? {
        sleep(LOOK_EVERY).await;
        if stored_version(client, schema).await? != found {
            return Ok(false);
        }
    }
    let built = build_locked(client, schema, &indexes).await;
    let unlock = "SELECT pg_advisory_unlock(hashtextextended($1, 0))";
    let unlocked = client.query_typed(unlock, &[(&name, Type::TEXT)]).await;
    built?;
    unlocked?;
    Ok(true)
}

async fn is_locked(client: &Client, name: &str) -> Result<bool, Failure> {
    let lock = "SELECT pg_try_advisory_lock(hashtextextended($1, 0))";
    let row = client.query_typed(lock, &[(&name, Type::TEXT)]).await?;
    Ok(row.first().is_some_and(|row| row.get(0)))
}

/// Selects the time limits of statements and of lock waits in this session.
const LIMITS: &str = "SELECT name, pg_catalog.current_setting(name)
FROM (VALUES ('statement_timeout'), ('lock_timeout')) AS limits (name)";

async fn build_locked(client: &Client, schema: &str, indexes: &[&str]) -> Result<(), Failure> {
    // A build has no time limit. The former limits hold for the statements that follow on this connection.
    let limits = client.query_typed(LIMITS, &[]).await?;
    client
        .batch_execute("SET statement_timeout = 0; SET lock_timeout = 0")
        .await?;
    let mut built = Ok(());
    for statement in indexes {
        built = build_one(client, schema, statement).await;
        if built.is_err() {
            break;
        }
    }
    for limit in &limits {
        let params: [(&(dyn ToSql + Sync), Type); 2] = [
            (&limit.get::<_, &str>(0), Type::TEXT),
            (&limit.get::<_, &str>(1), Type::TEXT),
        ];
        client
            .query_typed("SELECT pg_catalog.set_config($1, $2, false)", &params)
            .await?;
    }
    built
}

async fn build_one(client: &Client, schema: &str, statement: &str) -> Result<(), Failure> {
    let name = name_of(statement);
    if is_invalid(client, schema, name).await? {
        client
            .batch_execute(&format!("DROP INDEX CONCURRENTLY IF EXISTS {schema}.{name}"))
            .await?;
    }
    let concurrently = statement.replacen("CREATE INDEX", "CREATE INDEX CONCURRENTLY", 1);
    Ok(client.batch_execute(&fill_in(&concurrently, schema)).await?)
}

/// Drops the indexes that failed builds have left, within the transaction of a migration, so that the migration builds
/// them.
pub(crate) async fn drop_invalid(client: &Client, schema: &str, migration: &str) -> Result<(), Failure> {
    for name in statements(migration).map(name_of) {
        if is_invalid(client, schema, name).await? {
            client.batch_execute(&format!("DROP INDEX {schema}.{name}")).await?;
        }
    }
    Ok(())
}

fn name_of(statement: &str) -> &str {
    statement[BEGIN.len()..].split_whitespace().next().unwrap_or_default()
}

/// Returns true if an earlier build of that index has failed.
async fn is_invalid(client: &Client, schema: &str, name: &str) -> Result<bool, Failure> {
    let sql = "SELECT FROM pg_catalog.pg_index x JOIN pg_catalog.pg_class c ON c.oid = x.indexrelid
      JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
      WHERE c.relname = $1 AND '\"' || replace(n.nspname, '\"', '\"\"') || '\"' = $2 AND NOT x.indisvalid";
    let rows = client
        .query_typed(sql, &[(&name, Type::TEXT), (&schema, Type::TEXT)])
        .await?;
    Ok(!rows.is_empty())
}

fn statements(migration: &str) -> impl Iterator<Item = &str> {
    migration.match_indices(BEGIN).filter_map(|(at, _)| {
        let begins_a_line = at == 0 || migration[..at].ends_with('\n');
        let end = migration[at..].find(';')?;
        begins_a_line.then(|| &migration[at..at + end])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_indexes_of_a_migration_are_found() {
        let migration = "ALTER TABLE {schema}.workers ADD COLUMN region text;
CREATE INDEX IF NOT EXISTS instances_a ON {schema}.instances (status);
-- CREATE INDEX IF NOT EXISTS is built while others write.
CREATE INDEX IF NOT EXISTS instances_b ON {schema}.instances (key)
  WHERE parent_id IS NOT NULL;";
        let found: Vec<_> = statements(migration).collect();
        assert_eq!(found.len(), 2);
        assert!(found[0].starts_with("CREATE INDEX IF NOT EXISTS instances_a ON"));
        assert!(found[1].ends_with("WHERE parent_id IS NOT NULL"));
    }
}
