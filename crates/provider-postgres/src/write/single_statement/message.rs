//! One message to an instance that accepts it.

use perdure_engine::MessageSeq;
use perdure_provider::{InstanceKey, NewMessage, Outcome, StoredMessage};
use tokio_postgres::Row;

use crate::connection::Connection;
use crate::error::Failure;
use crate::marks::{self, Mark};
use crate::params::P;
use crate::rows::{integer, number, worker};
use crate::statement::named;
use crate::text::{encode, encode_cow};

/// The update locks the instance (P5). If it had to wait for another transaction, it checks the row again as that
/// transaction has left it.
fn sql() -> String {
    let marked = marks::leaving("FROM told");
    format!(
        "WITH told AS (
  UPDATE {{schema}}.instances SET unread = unread + 1, message_seq = message_seq + 1,
    wake_at = CASE WHEN owner IS NULL AND status <> 'Suspended' AND epoch > 0
      THEN least(wake_at, coalesce($now, {{now}})) ELSE wake_at END
  WHERE id = $id AND status NOT IN ('Completed', 'Failed', 'Cancelled', 'Terminated')
  AND coalesce(unread < $unread_max, true)
  RETURNING key, message_seq, owner
), put AS (
  INSERT INTO {{schema}}.messages (instance_key, seq, kind, name, payload, time, execution, ref_id)
  SELECT key, message_seq, $kind, $name, $payload, $time, $execution, $ref_id FROM told
), marked AS (
  {marked}
)
SELECT key, message_seq, owner FROM told"
    )
}

/// A message that is written by one statement.
pub(crate) struct Message<'w>(pub(super) &'w NewMessage);

impl Message<'_> {
    /// See [`Marked::write`](super::Marked::write).
    pub(super) async fn write(&self, connection: &Connection, mark: &Mark) -> Result<Option<Outcome>, Failure> {
        let Self(message) = self;
        let kept = StoredMessage::of(&message.body);
        let (id, kind) = (encode(&message.instance), kept.kind);
        let [name, payload] = [kept.name, kept.payload].map(|text| text.map(encode_cow));
        let rows = named!(
            connection.query,
            &sql(),
            {
                now: P::MaybeInt(connection.from.clock_ms()),
                id: P::Text(&id),
                unread_max: P::MaybeInt(message.unread_max.map(integer)),
                kind: P::Text(&kind),
                name: P::MaybeText(name.as_deref()),
                payload: P::MaybeText(payload.as_deref()),
                time: P::Int(message.time_ms),
                execution: P::MaybeInt(kept.execution.map(|id| integer(id.0))),
                ref_id: P::MaybeInt(kept.scheduled.map(|id| integer(id.0))),
                mark_slot: P::Text(&mark.slot),
                mark_number: P::Int(mark.number),
            }
        )
        .await?;
        let Some(row) = rows.first() else { return Ok(None) };
        connection.from.count_transaction();
        // The message is written, but its outcome cannot be told to the sender.
        delivered(row).map(Some).map_err(Failure::of_unknown_outcome)
    }

    /// See [`Marked::recover_outcome`](super::Marked::recover_outcome).
    pub(super) async fn recover_outcome(&self, connection: &Connection) -> Result<Outcome, Failure> {
        let id = encode(&self.0.instance);
        let found = "SELECT key, message_seq, owner FROM {schema}.instances WHERE id = $1";
        let rows = connection.query(found, &[P::Text(&id)]).await?;
        // An instance that took the message and was deleted after that is not found.
        rows.first().map_or(Ok(Outcome::NotFound), delivered)
    }
}

fn delivered(row: &Row) -> Result<Outcome, Failure> {
    Ok(Outcome::Delivered {
        key: InstanceKey(row.try_get(0)?),
        seq: MessageSeq(number(row, 1)?),
        owner: worker(row, 2)?,
    })
}
