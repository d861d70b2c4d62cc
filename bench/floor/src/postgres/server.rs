//! Commands for the server, not for a store in it.

use super::store;
use crate::Failure;
use crate::arguments::Arguments;

/// Checks that the server answers. Returns its version and the settings that make its commits durable.
pub(crate) fn ping(arguments: &Arguments) -> Result<String, Failure> {
    let setting = "current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit')";
    let row = store::connect(arguments)?.query_one(&format!("SELECT {setting}"), &[])?;
    let (version, fsync, synchronous): (String, String, String) = (row.get(0), row.get(1), row.get(2));
    Ok(format!(
        r#"{{"version":"{version}","fsync":"{fsync}","synchronousCommit":"{synchronous}"}}"#
    ))
}

/// Makes a database, named by `--schema` as a schema would be.
pub(crate) fn create_database(arguments: &Arguments) -> Result<String, Failure> {
    let name = store::schema(arguments)?;
    store::connect(arguments)?.batch_execute(&format!("CREATE DATABASE {name}"))?;
    Ok("{}".to_owned())
}

/// Removes the schemas and databases whose names begin with `--schema`.
pub(crate) fn drop(arguments: &Arguments) -> Result<String, Failure> {
    let prefix = store::schema(arguments)?;
    let mut client = store::connect(arguments)?;
    let statements = client.query(
        "SELECT format('DROP SCHEMA %I CASCADE', nspname) FROM pg_namespace WHERE starts_with(nspname::text, $1)
         UNION ALL
         SELECT format('DROP DATABASE %I WITH (FORCE)', datname) FROM pg_database WHERE starts_with(datname::text, $1)",
        &[&prefix],
    )?;
    for statement in &statements {
        client.batch_execute(statement.get(0))?;
    }
    Ok(format!(r#"{{"dropped":{}}}"#, statements.len()))
}

/// Transactions that the database `--schema` has seen. A statement by itself is one. The server counts those of a
/// connection at the latest ten seconds after it has gone idle.
pub(crate) fn transactions(arguments: &Arguments) -> Result<String, Failure> {
    let row = store::connect(arguments)?.query_one(
        "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = $1",
        &[&store::schema(arguments)?],
    )?;
    Ok(format!(r#"{{"transactions":{}}}"#, row.get::<_, i64>(0)))
}
