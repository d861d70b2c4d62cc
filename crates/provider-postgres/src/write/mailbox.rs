//! Messages to the mailboxes of instances, many with one statement. An instance that sleeps is woken, unless no worker
//! has acquired it yet (P25).
//!
//! A message gets its number under the lock of its instance's row, which an earlier statement took ([`Lock`]). So the
//! numbers of an instance rise in the order of commits (P5).

use std::borrow::Cow;

use perdure_engine::{MessageBody, MessageSeq, Payload};
use perdure_provider::{InstanceKey, NewMessage, Outcome, Receivers, Status, StoredMessage, WorkerId};
use tokio_postgres::Row;

use super::found::Parent;
use super::lock::Lock;
use super::outgoing::Outgoing;
use crate::error::Failure;
use crate::params::P;
use crate::query::Query;
use crate::rows::{index, integer, number, optional_number, status, worker};
use crate::session::Session;
use crate::statement::{columns, query};
use crate::text::{encode, encode_cow};

const SEND: &str = "WITH numbered AS MATERIALIZED (
  SELECT *, message_seq + count(*) FILTER (WHERE accepted) OVER (PARTITION BY key ORDER BY n) AS seq FROM (
    SELECT m.*, i.key, i.status, i.owner, i.message_seq,
      i.status = 'Suspended' OR i.epoch = 0 AND i.owner IS NULL AND (i.wake_at <= coalesce($now, {now})) IS NOT TRUE
        AS cannot_run,
      i.status NOT IN ('Completed', 'Failed', 'Cancelled', 'Terminated')
        AND coalesce(m.to_execution = i.execution, true)
        AND (m.ask IS NULL OR row_number() OVER (PARTITION BY i.key, m.ask ORDER BY m.n) = 1
          AND NOT EXISTS (SELECT FROM {schema}.asks d WHERE d.instance_key = ANY (ARRAY[i.key]) AND d.id = m.ask))
        AND coalesce(i.unread + row_number() OVER (PARTITION BY i.key ORDER BY m.n) <= m.unread_max, true) AS accepted
    FROM {m}
    JOIN {schema}.instances i
      ON i.key = ANY (ARRAY[coalesce(m.to_key, (SELECT key FROM {schema}.instances WHERE id = m.to_id))])
  ) m
), put AS (
  INSERT INTO {schema}.messages (instance_key, seq, kind, name, payload, time, execution, ref_id)
  SELECT key, seq, kind, name, payload, time, execution, ref_id FROM numbered WHERE accepted
), asked AS (
  INSERT INTO {schema}.asks (instance_key, id) SELECT key, ask FROM numbered WHERE accepted AND ask IS NOT NULL
), told AS (
  UPDATE {schema}.instances i SET unread = i.unread + c.count, message_seq = i.message_seq + c.count,
    wake_at = CASE WHEN i.owner IS NULL AND i.status <> 'Suspended' AND i.epoch > 0
      THEN least(i.wake_at, coalesce($now, {now})) ELSE i.wake_at END
  FROM (SELECT key, count(*) AS count FROM numbered WHERE accepted GROUP BY key) c WHERE i.key = ANY (ARRAY[c.key])
)
SELECT n, key, status, owner, CASE WHEN accepted THEN seq END, cannot_run FROM numbered";

/// Messages as columns.
#[derive(Default)]
pub(super) struct Messages<'w> {
    n: Vec<i64>,
    to_id: Vec<Option<Cow<'w, str>>>,
    to_key: Vec<Option<i64>>,
    to_execution: Vec<Option<i64>>,
    kind: Vec<Cow<'w, str>>,
    name: Vec<Option<Cow<'w, str>>>,
    payload: Vec<Option<Cow<'w, str>>>,
    execution: Vec<Option<i64>>,
    ref_id: Vec<Option<i64>>,
    time: Vec<i64>,
    unread_max: Vec<Option<i64>>,
    ask: Vec<Option<Cow<'w, str>>>,
}

impl<'w> Messages<'w> {
    /// Returns messages to instances by the ids that the user gave them.
    pub(super) fn to_ids(messages: impl IntoIterator<Item = Outgoing<'w>>) -> Self {
        let mut columns = Self::default();
        for Outgoing { message, ask } in messages {
            columns.ask.push(ask.map(encode));
            columns.to_id.push(Some(encode(&message.instance)));
            columns.to_key.push(None);
            columns.to_execution.push(None);
            columns.unread_max.push(message.unread_max.map(integer));
            columns.push(&message.body, message.time_ms);
        }
        columns
    }

    /// Adds a message to an instance. The message is refused if another execution than the waiting one is current.
    pub(super) fn settle(&mut self, waiting: &Parent, body: &'w MessageBody, time_ms: i64) {
        self.to(waiting.key, Some(integer(waiting.execution.0)), body, time_ms);
    }

    /// Adds a message to an instance in any execution.
    pub(super) fn send_to(&mut self, key: InstanceKey, body: &'w MessageBody, time_ms: i64) {
        self.to(key, None, body, time_ms);
    }

    fn to(&mut self, key: InstanceKey, execution: Option<i64>, body: &'w MessageBody, time_ms: i64) {
        self.ask.push(None);
        self.to_id.push(None);
        self.to_key.push(Some(key.0));
        self.to_execution.push(execution);
        self.unread_max.push(None);
        self.push(body, time_ms);
    }

    fn push(&mut self, body: &'w MessageBody, time_ms: i64) {
        let kept = StoredMessage::of(body);
        self.n.push(index(self.n.len()));
        self.kind.push(kept.kind);
        self.name.push(kept.name.map(encode_cow));
        self.payload.push(kept.payload.map(encode_cow));
        self.execution.push(kept.execution.map(|id| integer(id.0)));
        self.ref_id.push(kept.scheduled.map(|id| integer(id.0)));
        self.time.push(time_ms);
    }

    pub(super) fn len(&self) -> usize {
        self.n.len()
    }

    columns! {
        n: Ints,
        to_id: MaybeTexts,
        to_key: MaybeInts,
        to_execution: MaybeInts,
        kind: Texts,
        name: MaybeTexts,
        payload: MaybeTexts,
        execution: MaybeInts,
        ref_id: MaybeInts,
        time: Ints,
        unread_max: MaybeInts,
        ask: MaybeTexts,
    }

    /// Returns the statement. `None`: there are no messages.
    pub(super) fn query(&self, session: &Session<'_>) -> Option<Query<'_>> {
        (!self.n.is_empty()).then(|| query!(SEND, { now: session.now() }; m: Messages = self))
    }

    /// Locks the receivers and sends the messages. Returns the result of each, in order.
    pub(super) async fn send(&self, session: &Session<'_>) -> Result<Vec<Sent>, Failure> {
        let Some(query) = self.query(session) else {
            return Ok(Vec::new());
        };
        let lock = Lock::of_receivers(
            self.to_key.iter().flatten().copied(),
            self.to_id.iter().flatten().map(|id| &**id),
        );
        let lock = lock.query();
        let queries: Vec<&Query<'_>> = lock.iter().chain([&query]).collect();
        session.connection().prepare(&queries).await?;
        let (_, rows) = tokio::try_join!(biased; session.run(lock.as_ref()), session.run(Some(&query)))?;
        sent(&rows, self.len())
    }
}

/// The result of sending a message.
pub(super) enum Sent {
    NotFound,
    Delivered {
        key: InstanceKey,
        seq: MessageSeq,
        owner: Option<WorkerId>,
        /// True if none of the code of the instance can run now: it is suspended, or no worker has acquired it yet and
        /// it is not due.
        cannot_run: bool,
    },
    /// The instance has ended, its mailbox is full, or the execution that waited is over.
    Refused(Status),
}

/// Returns the result of each of `count` messages, in order.
pub(super) fn sent(rows: &[Row], count: usize) -> Result<Vec<Sent>, Failure> {
    let mut all: Vec<Sent> = (0..count).map(|_| Sent::NotFound).collect();
    for row in rows {
        let n = usize::try_from(number(row, 0)?).unwrap_or(usize::MAX);
        let seq = optional_number(row, 4)?;
        let place = all
            .get_mut(n)
            .ok_or_else(|| Failure::internal("a message that was not sent"))?;
        *place = match seq {
            Some(seq) => Sent::Delivered {
                key: InstanceKey(row.try_get(1)?),
                seq: MessageSeq(seq),
                owner: worker(row, 3)?,
                cannot_run: row.try_get(5)?,
            },
            None => Sent::Refused(status(row, 2)?),
        };
    }
    Ok(all)
}

impl Sent {
    /// Returns the outcome for the sender.
    pub(super) fn outcome(self, message: &NewMessage) -> Outcome {
        match self {
            Sent::NotFound => Outcome::NotFound,
            Sent::Delivered { key, seq, owner, .. } => Outcome::Delivered { key, seq, owner },
            Sent::Refused(status) if status.is_terminal() => Outcome::Ended { status },
            Sent::Refused(_) => Outcome::MailboxFull {
                max: message.unread_max.unwrap_or(0),
            },
        }
    }
}

/// A request to cancel an instance that cannot run, whose row is locked.
pub(super) struct CancelAtOnce {
    pub(super) key: InstanceKey,
    pub(super) reason: Payload,
}

impl CancelAtOnce {
    /// Returns the request. Returns `None` if the message is no request to cancel, or its receiver can run.
    pub(super) fn of(body: &MessageBody, sent: &Sent) -> Option<Self> {
        match (body, sent) {
            (
                MessageBody::Cancel { reason },
                Sent::Delivered {
                    key, cannot_run: true, ..
                },
            ) => Some(Self {
                key: *key,
                reason: reason.clone(),
            }),
            _ => None,
        }
    }
}

/// Adds the owner of an instance that got a message.
pub(super) fn add_receiver(receivers: &mut Receivers, owner: Option<WorkerId>) {
    if receivers.last() != Some(&owner) {
        receivers.push(owner);
    }
}
