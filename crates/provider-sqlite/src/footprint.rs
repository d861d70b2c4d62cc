//! The room that one instance takes. SQLite tells the length of a text without reading it.

use perdure_provider::{FOOTPRINT_MAILBOXES_MAX, Footprint, InstanceKey, mailbox_of};
use rusqlite::{Connection, params};

use crate::error::Failure;
use crate::rows::{integer, number};

const EVENTS: &str = "SELECT count(DISTINCT execution), count(*),
      coalesce(sum(coalesce(octet_length(name), 0) + coalesce(octet_length(payload), 0)
        + coalesce(octet_length(meta), 0)), 0)
    FROM history WHERE instance_key = ?1";

const MAILBOXES: &str = "SELECT kind, name, count(*) AS unread, sum(count(*)) OVER ()
    FROM messages INDEXED BY messages_mailbox WHERE instance_key = ?1 AND kind IN ('Event', 'Queue')
    GROUP BY kind, name ORDER BY unread DESC, kind, name LIMIT ?2";

pub(crate) fn of(connection: &Connection, key: InstanceKey) -> Result<Footprint, Failure> {
    let moment = connection
        .is_autocommit()
        .then(|| connection.unchecked_transaction())
        .transpose()?;
    let mut footprint = connection.prepare_cached(EVENTS)?.query_row(params![key.0], |row| {
        Ok(Footprint {
            executions: number(row, 0)?,
            events: number(row, 1)?,
            history_bytes: number(row, 2)?,
            ..Footprint::default()
        })
    })?;
    let mut statement = connection.prepare_cached(MAILBOXES)?;
    let mut rows = statement.query(params![key.0, integer(FOOTPRINT_MAILBOXES_MAX as u64)])?;
    while let Some(row) = rows.next()? {
        let kind: String = row.get(0)?;
        let mailbox = mailbox_of(&kind, row.get(1)?).expect("the query asks for mailboxes alone");
        footprint.mailboxes.push((mailbox, number(row, 2)?));
        footprint.unread = number(row, 3)?;
    }
    drop(rows);
    moment.map(|transaction| transaction.finish()).transpose()?;
    Ok(footprint)
}
