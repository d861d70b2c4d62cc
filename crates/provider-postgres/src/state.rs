//! The states of instances: values that their code publishes under names.

use std::borrow::Cow;

use perdure_engine::StateChange;
use perdure_provider::{InstanceKey, StateRequest, StateValue, StoredState};
use tokio_postgres::Row;

use crate::connection::Connection;
use crate::error::Failure;
use crate::params::P;
use crate::rows::{number, optional_text, status, text};
use crate::session::Session;
use crate::statement::named;
use crate::text::encode;

/// The turns have raised the versions of the states.
const CHANGE: &str = "WITH gone AS (
  DELETE FROM {schema}.state d USING {c} WHERE d.instance_key = ANY (ARRAY[c.instance_key]) AND d.name = c.name
    AND NOT c.is_set
)
INSERT INTO {schema}.state (instance_key, name, value, version)
SELECT c.instance_key, c.name, c.value, i.state_version FROM {c}
  JOIN {schema}.instances i ON i.key = ANY (ARRAY[c.instance_key])
WHERE c.is_set ORDER BY c.instance_key, c.name
ON CONFLICT (instance_key, name) DO UPDATE SET value = excluded.value, version = excluded.version";

/// Carries out the changes of turns that are written (P19).
pub(crate) async fn change(session: &Session<'_>, turns: &[(InstanceKey, &[StateChange])]) -> Result<(), Failure> {
    if turns.is_empty() {
        return Ok(());
    }
    let all = || turns.iter().flat_map(|(_, changes)| *changes);
    let keys: Vec<i64> = (turns.iter())
        .flat_map(|(key, changes)| std::iter::repeat_n(key.0, changes.len()))
        .collect();
    let names: Vec<Cow<'_, str>> = all().map(|change| encode(change.name())).collect();
    let values: Vec<Option<Cow<'_, str>>> = all().map(|change| change.value().map(encode)).collect();
    let sets: Vec<bool> = all().map(|change| matches!(change, StateChange::Set { .. })).collect();
    named!(
        session.query,
        CHANGE,
        {},
        c {
            instance_key: P::Ints(&keys),
            name: P::Texts(&names),
            value: P::MaybeTexts(&values),
            is_set: P::Bools(&sets),
        }
    )
    .await?;
    Ok(())
}

const INSTANCE: &str = "SELECT key, status, state_version FROM {schema}.instances WHERE id = $1";

const READ: &str = "SELECT name, value, version FROM {schema}.state
WHERE instance_key = $key AND ($name::text IS NULL OR name = $name) ORDER BY name";

/// Returns the state of an instance, or one value of it. `None`: there is no instance of that id. The reads are to see
/// one snapshot.
pub(crate) async fn read(connection: &Connection, request: &StateRequest) -> Result<Option<StoredState>, Failure> {
    let found = connection.query(INSTANCE, &[P::Text(&encode(&request.id))]).await?;
    let Some(found) = found.first() else { return Ok(None) };
    let key = InstanceKey(found.try_get(0)?);
    let name = request.name.as_deref().map(encode);
    let rows = named!(connection.query, READ, { key: P::Int(key.0), name: P::MaybeText(name.as_deref()) }).await?;
    Ok(Some(StoredState {
        key,
        status: status(found, 1)?,
        version: number(found, 2)?,
        values: rows.iter().map(value).collect::<Result<_, Failure>>()?,
    }))
}

fn value(row: &Row) -> Result<StateValue, Failure> {
    Ok(StateValue {
        name: text(row, 0)?,
        value: optional_text(row, 1)?,
        version: number(row, 2)?,
    })
}
