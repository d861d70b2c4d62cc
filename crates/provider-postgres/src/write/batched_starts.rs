//! Starts of batches (P26). Those of one key that are written together need one look at the instance of the key, and
//! their inputs are sent by one statement.

use perdure_provider::{KeyHolder, KeyedStart, KeyedStep, NewMessage, Outcome, StartTime, Status, Write};

use super::keyed_start::Row;
use super::mailbox::Messages;
use super::outgoing::Outgoing;
use crate::error::Failure;
use crate::params::P;
use crate::rows::integer;
use crate::session::Session;
use crate::statement::named;

/// Counts inputs. With the last one, their instance is due.
const JOINED: &str = "WITH counted AS (
  UPDATE {schema}.start_keys SET inputs = inputs + $count::int
  WHERE rule = $rule AND scope = $scope AND start_key = $start_key
), placed AS (
  UPDATE {schema}.queue_places SET queued_at = coalesce($now, {now}) WHERE key = $key AND place = 3 AND $is_last
)
UPDATE {schema}.instances SET wake_at = coalesce($now, {now}) WHERE key = $key AND wake_at IS NOT NULL AND $is_last";

/// Returns the start, if a write is one of a batch.
pub(super) fn of(write: &Write) -> Option<&KeyedStart> {
    match write {
        Write::KeyedStart(keyed) if keyed.input.is_some() => Some(keyed),
        _ => None,
    }
}

/// Carries out starts of batches, whose keys are locked, with their places in `outcomes`.
pub(super) async fn carry_out(
    session: &Session<'_>,
    mut starts: Vec<(usize, &KeyedStart)>,
    outcomes: &mut [Option<Outcome>],
) -> Result<(), Failure> {
    // Those of one key keep their order.
    starts.sort_by_key(|(_, keyed)| (&keyed.scope, &keyed.key));
    for of_key in starts.chunk_by(|(_, a), (_, b)| (&a.scope, &a.key) == (&b.scope, &b.key)) {
        let row = Row::of(of_key[0].1);
        let (holder, now_ms) = row.holder(session).await?.unzip();
        let mut batch = Batch {
            session,
            row,
            holder,
            joined: Vec::new(),
        };
        for (place, keyed) in of_key {
            keyed.check().map_err(Failure::internal)?;
            outcomes[*place] = Some(batch.add(keyed, now_ms.unwrap_or(0)).await?);
        }
        batch.send(false).await?;
    }
    Ok(())
}

/// The batch of a key.
struct Batch<'a, 'c> {
    session: &'a Session<'c>,
    row: Row<'a>,
    /// The instance of the key, as it will be when the inputs are sent.
    holder: Option<KeyHolder>,
    /// Inputs for that instance.
    joined: Vec<NewMessage>,
}

impl Batch<'_, '_> {
    /// Adds an input to the instance of the key, or starts the next one.
    async fn add(&mut self, keyed: &KeyedStart, now_ms: i64) -> Result<Outcome, Failure> {
        let step = keyed.rule.step(&keyed.start.id, self.holder.as_ref(), now_ms);
        if let (KeyedStep::Join { is_last }, Some(holder)) = (step, &mut self.holder) {
            let id = holder.id.clone();
            self.joined.extend(keyed.message(id.clone()));
            holder.inputs += 1;
            if is_last {
                holder.is_ahead = false;
                self.send(true).await?;
            }
            return Ok(Outcome::Joined { id });
        }
        self.send(false).await?;
        let outcome = self.row.begin(self.session, keyed, None).await?;
        if let Outcome::Started { key, .. } = outcome {
            self.holder = Some(KeyHolder {
                key,
                id: keyed.start.id.clone(),
                status: Status::Pending,
                is_ahead: keyed.rule.due() != Some(StartTime::Now),
                since_ms: now_ms,
                inputs: 1,
            });
        }
        Ok(outcome)
    }

    /// Sends the inputs. With the last one, the instance is due.
    async fn send(&mut self, is_last: bool) -> Result<(), Failure> {
        let (messages, Some(holder)) = (std::mem::take(&mut self.joined), &self.holder) else {
            return Ok(());
        };
        if messages.is_empty() {
            return Ok(());
        }
        let session = self.session;
        Messages::to_ids(messages.iter().map(Outgoing::of))
            .send(session)
            .await?;
        named!(
            session.query,
            JOINED,
            {
                now: session.now(),
                count: P::Int(integer(messages.len() as u64)),
                rule: P::Text(self.row.rule),
                scope: P::Text(&self.row.scope),
                start_key: P::Text(&self.row.key),
                key: P::Int(holder.key.0),
                is_last: P::Bool(is_last),
            }
        )
        .await?;
        Ok(())
    }
}
