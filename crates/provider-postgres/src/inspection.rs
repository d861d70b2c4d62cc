//! The setup of a store, and its workers.

use perdure_provider::Inspection;

use crate::connection::Connection;
use crate::error::Failure;
use crate::params::P;
use crate::rows::number;
use crate::statement::named;
use crate::{schema, worker};

/// Settings of the server, in the order of the columns. They tell what a commit survives, and what the server does on
/// its own.
const SETTINGS: [&str; 6] = [
    "server_version",
    "synchronous_commit",
    "fsync",
    "full_page_writes",
    "autovacuum",
    "max_connections",
];

const OF_SERVER: &str = "SELECT coalesce($now, {now}),
  (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_catalog.pg_class c
   WHERE c.relnamespace = to_regnamespace($schema) AND c.relkind = 'r'),
  current_setting('server_version', true), current_setting('synchronous_commit', true), current_setting('fsync', true),
  current_setting('full_page_writes', true), current_setting('autovacuum', true),
  current_setting('max_connections', true)";

pub(crate) async fn of_store(connection: &Connection) -> Result<Inspection, Failure> {
    let schema = &connection.from.schema;
    let row = named!(
        connection.query_one,
        OF_SERVER,
        { now: P::MaybeInt(connection.from.clock_ms()), schema: P::Text(schema) }
    )
    .await?;
    let mut settings = Vec::with_capacity(SETTINGS.len());
    for (n, name) in SETTINGS.into_iter().enumerate() {
        let value: Option<String> = row.try_get(2 + n)?;
        settings.extend(value.map(|value| (name, value)));
    }
    Ok(Inspection {
        now_ms: row.try_get(0)?,
        schema_version: schema::version(connection.client(), schema).await?,
        bytes: number(&row, 1)?,
        settings,
        workers: worker::loads(connection).await?,
    })
}
