//! A start that depends on the instance that its key has (P26), unless it is one of a batch.

use std::borrow::Cow;

use perdure_provider::{InstanceKey, KeyHolder, KeyedStart, KeyedStep, NewInstance, NewMessage, Outcome, Write};

use super::layers::Layer;
use super::mailbox::Messages;
use super::outgoing::Outgoing;
use super::{message, start};
use crate::error::Failure;
use crate::params::P;
use crate::rows::{status, text};
use crate::session::Session;
use crate::statement::named;
use crate::text::encode;

/// Locks the rows of keys, and makes those that are not there. Transactions lock them in the same order.
const LOCK: &str = "INSERT INTO {schema}.start_keys (rule, scope, start_key)
  SELECT DISTINCT rule, scope, start_key FROM {k} ORDER BY rule, scope, start_key
  ON CONFLICT (rule, scope, start_key) DO UPDATE SET since = {schema}.start_keys.since";

/// Locks the instance of a key, whose row is locked. An instance in a queue is ahead until its start time.
const HOLDER: &str = "SELECT i.key, i.id, i.status, i.epoch = 0 AND i.status = 'Pending' AND coalesce((
    SELECT q.queued_at FROM {schema}.queue_places q WHERE q.key = i.key AND q.place = 3), i.wake_at)
    > coalesce($now, {now}), k.since, coalesce($now, {now}), k.inputs
  FROM {schema}.start_keys k JOIN {schema}.instances i ON i.key = k.instance_key
  WHERE k.rule = $rule AND k.scope = $scope AND k.start_key = $start_key FOR NO KEY UPDATE OF i";

const PUT: &str = "INSERT INTO {schema}.start_keys (rule, scope, start_key, instance_key, since, inputs)
  VALUES ($rule, $scope, $start_key, $instance, coalesce($now, {now}), $inputs::int)
  ON CONFLICT (rule, scope, start_key) DO UPDATE
  SET instance_key = excluded.instance_key, since = excluded.since, inputs = excluded.inputs";

/// Deletes the row of a key that has no instance.
const DROP: &str = "DELETE FROM {schema}.start_keys
  WHERE rule = $rule AND scope = $scope AND start_key = $start_key AND instance_key IS NULL";

/// An instance in a queue has no due time (P24). If a pass has put it into the line meanwhile, it stays there.
const RENEW: &str = "WITH placed AS (
  UPDATE {schema}.queue_places SET queued_at = CASE WHEN place = 3 THEN $due_at ELSE queued_at END,
    version = $version, priority = $priority::int WHERE key = $key
), told AS (
  UPDATE {schema}.history SET time = $time, name = $event_name, payload = $payload, meta = $meta
  WHERE instance_key = $key AND execution = 1 AND event_id = 1
)
UPDATE {schema}.instances SET version = $version, tags = $tags, priority = $priority::int,
  wake_at = CASE WHEN wake_at IS NOT NULL THEN $due_at END, created_at = $time, updated_at = $time WHERE key = $key";

/// Locks the keys of all starts of a layer.
pub(super) async fn lock(session: &Session<'_>, layer: &Layer<'_>) -> Result<(), Failure> {
    let (mut rules, mut scopes, mut keys) = (Vec::new(), Vec::new(), Vec::<Cow<'_, str>>::new());
    for (_, write) in &layer.singles {
        if let Write::KeyedStart(keyed) = write {
            rules.push(keyed.rule.name());
            scopes.push(encode(&keyed.scope));
            keys.push(encode(&keyed.key));
        }
    }
    if !rules.is_empty() {
        named!(
            session.query,
            LOCK,
            {},
            k {
                rule: P::Names(&rules),
                scope: P::Texts(&scopes),
                start_key: P::Texts(&keys)
            }
        )
        .await?;
    }
    Ok(())
}

/// The row of a key, as parameters.
pub(super) struct Row<'a> {
    pub(super) rule: &'static str,
    pub(super) scope: Cow<'a, str>,
    pub(super) key: Cow<'a, str>,
}

/// Decides what becomes of a start, whose key is locked, and carries it out.
pub(super) async fn start(session: &Session<'_>, keyed: &KeyedStart) -> Result<Outcome, Failure> {
    keyed.check().map_err(Failure::internal)?;
    let row = Row::of(keyed);
    let (holder, now_ms) = row.holder(session).await?.unzip();
    let new = &keyed.start;
    // Without an instance of the key, the time does not count.
    match (keyed.rule.step(&new.id, holder.as_ref(), now_ms.unwrap_or(0)), holder) {
        (KeyedStep::Keep, Some(KeyHolder { id, .. })) => Ok(Outcome::Joined { id }),
        (KeyedStep::Readdress, Some(KeyHolder { id, .. })) => Ok(Outcome::Readdress { id }),
        (KeyedStep::Renew { due_at_ms }, Some(KeyHolder { key, id, .. })) => {
            renew(session, key, new, due_at_ms).await?;
            Ok(Outcome::Joined { id })
        }
        (step, holder) => {
            let before = holder.filter(|_| step == KeyedStep::Supersede);
            row.begin(session, keyed, before).await
        }
    }
}

impl<'a> Row<'a> {
    pub(super) fn of(keyed: &'a KeyedStart) -> Self {
        Self {
            rule: keyed.rule.name(),
            scope: encode(&keyed.scope),
            key: encode(&keyed.key),
        }
    }

    /// Returns the instance of the key, and the time by the store's clock.
    pub(super) async fn holder(&self, session: &Session<'_>) -> Result<Option<(KeyHolder, i64)>, Failure> {
        let row = named!(
            session.query_optional,
            HOLDER,
            { now: session.now(), rule: P::Text(self.rule), scope: P::Text(&self.scope), start_key: P::Text(&self.key) }
        )
        .await?;
        let Some(row) = row else { return Ok(None) };
        let holder = KeyHolder {
            key: InstanceKey(row.try_get(0)?),
            id: text(&row, 1)?,
            status: status(&row, 2)?,
            is_ahead: row.try_get::<_, Option<bool>>(3)?.unwrap_or(false),
            since_ms: row.try_get(4)?,
            inputs: u32::try_from(row.try_get::<_, i32>(6)?).unwrap_or(u32::MAX),
        };
        Ok(Some((holder, row.try_get(5)?)))
    }

    /// Starts the instance, which the key has from then on, and asks the one before to cancel.
    pub(super) async fn begin(
        &self,
        session: &Session<'_>,
        keyed: &KeyedStart,
        before: Option<KeyHolder>,
    ) -> Result<Outcome, Failure> {
        let mut outcome = start::restart(session, &keyed.start).await?;
        let Outcome::Started { key, terminated, .. } = &mut outcome else {
            named!(
                session.query,
                DROP,
                { rule: P::Text(self.rule), scope: P::Text(&self.scope), start_key: P::Text(&self.key) }
            )
            .await?;
            return Ok(outcome);
        };
        named!(
            session.query,
            PUT,
            {
                now: session.now(),
                rule: P::Text(self.rule),
                scope: P::Text(&self.scope),
                start_key: P::Text(&self.key),
                instance: P::Int(key.0),
                inputs: P::Int(keyed.input.is_some().into()),
            }
        )
        .await?;
        if let Some(message) = keyed.message(keyed.start.id.clone()) {
            send(session, &message).await?;
        }
        if let Some(before) = before {
            *terminated = Some(Box::new(send(session, &keyed.cancellation(before.id)).await?));
        }
        Ok(outcome)
    }
}

async fn send(session: &Session<'_>, message: &NewMessage) -> Result<Outcome, Failure> {
    let sent = Messages::to_ids([Outgoing::of(message)]).send(session).await?;
    match sent.into_iter().next() {
        Some(sent) => message::outcome(session, message, sent).await,
        None => Ok(Outcome::NotFound),
    }
}

/// Gives an instance that no worker has acquired what another start brings.
async fn renew(session: &Session<'_>, key: InstanceKey, new: &NewInstance, due_at_ms: i64) -> Result<(), Failure> {
    let event = &new.first_event;
    let version = encode(&new.version);
    let [tags, name, payload, meta] =
        [&new.tags, &event.name, &event.payload, &event.meta].map(|text| text.as_deref().map(encode));
    named!(
        session.query,
        RENEW,
        {
            key: P::Int(key.0),
            due_at: P::Int(due_at_ms),
            version: P::Text(&version),
            priority: P::Int(new.priority.into()),
            tags: P::MaybeText(tags.as_deref()),
            time: P::Int(event.time_ms),
            event_name: P::MaybeText(name.as_deref()),
            payload: P::MaybeText(payload.as_deref()),
            meta: P::MaybeText(meta.as_deref()),
        }
    )
    .await?;
    Ok(())
}
