//! The room that one instance takes. The server tells the length of a value without reading it.

use perdure_provider::{FOOTPRINT_MAILBOXES_MAX, Footprint, InstanceKey, mailbox_of};

use crate::connection::Connection;
use crate::error::Failure;
use crate::params::P;
use crate::rows::{index, number, optional_text, text};
use crate::statement::named;

/// One row for each mailbox, or one without a mailbox.
const FOOTPRINT: &str = "WITH events AS MATERIALIZED (
  SELECT count(DISTINCT execution) AS executions, count(*) AS count,
    coalesce(sum(coalesce(octet_length(name), 0) + coalesce(octet_length(payload), 0)
      + coalesce(octet_length(meta), 0)), 0)::bigint AS bytes
  FROM {schema}.history WHERE instance_key = $key
), mailboxes AS (
  SELECT kind, name, count(*) AS unread, (sum(count(*)) OVER ())::bigint AS all_unread FROM {schema}.messages
  WHERE instance_key = $key AND kind IN ('Event', 'Queue')
  GROUP BY kind, name ORDER BY unread DESC, kind, name LIMIT $mailboxes
)
SELECT e.executions, e.count, e.bytes, coalesce(m.all_unread, 0), coalesce(m.unread, 0), m.kind, m.name
FROM events e LEFT JOIN mailboxes m ON true ORDER BY m.unread DESC, m.kind, m.name";

pub(crate) async fn of(connection: &Connection, key: InstanceKey) -> Result<Footprint, Failure> {
    let rows = named!(
        connection.query,
        FOOTPRINT,
        { key: P::Int(key.0), mailboxes: P::Int(index(FOOTPRINT_MAILBOXES_MAX)) }
    )
    .await?;
    let mut footprint = Footprint::default();
    for row in &rows {
        footprint.executions = number(row, 0)?;
        footprint.events = number(row, 1)?;
        footprint.history_bytes = number(row, 2)?;
        footprint.unread = number(row, 3)?;
        if let Some(kind) = optional_text(row, 5)? {
            let mailbox = mailbox_of(&kind, text(row, 6)?).expect("the query asks for mailboxes alone");
            footprint.mailboxes.push((mailbox, number(row, 4)?));
        }
    }
    Ok(footprint)
}
