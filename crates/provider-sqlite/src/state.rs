//! The states of instances: values that their code publishes under names.

use perdure_engine::StateChange;
use perdure_provider::{InstanceKey, StateRequest, StateValue, StoredState};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::error::Failure;
use crate::rows::{number, status};
use crate::session::Session;

/// Carries out the changes of a turn (P19).
pub(crate) fn change(session: &Session<'_>, key: InstanceKey, changes: &[StateChange]) -> Result<(), Failure> {
    if changes.is_empty() {
        return Ok(());
    }
    let version: i64 = session.query_one(
        "UPDATE instances SET state_version = state_version + 1 WHERE key = ?1 RETURNING state_version",
        params![key.0],
        |row| row.get(0),
    )?;
    for change in changes {
        match change {
            StateChange::Set { name, value } => session.execute(
                "INSERT INTO state (instance_key, name, value, version) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (instance_key, name) DO UPDATE SET value = excluded.value, version = excluded.version",
                params![key.0, name, value, version],
            )?,
            StateChange::Deleted { name } => session.execute(
                "DELETE FROM state WHERE instance_key = ?1 AND name = ?2",
                params![key.0, name],
            )?,
        };
    }
    Ok(())
}

/// Returns the state of an instance, or one value of it. `None`: there is no instance of that id.
pub(crate) fn read(connection: &Connection, request: &StateRequest) -> Result<Option<StoredState>, Failure> {
    let moment = connection
        .is_autocommit()
        .then(|| connection.unchecked_transaction())
        .transpose()?;
    let found = connection
        .prepare_cached("SELECT key, status, state_version FROM instances WHERE id = ?1")?
        .query_row(params![request.id], |row| {
            Ok(StoredState {
                key: InstanceKey(row.get(0)?),
                status: status(row, 1)?,
                version: number(row, 2)?,
                values: Vec::new(),
            })
        })
        .optional()?;
    let Some(mut state) = found else { return Ok(None) };
    let sql = match request.name {
        Some(_) => "SELECT name, value, version FROM state WHERE instance_key = ?1 AND name = ?2",
        None => "SELECT name, value, version FROM state WHERE instance_key = ?1 AND ?2 IS NULL ORDER BY name",
    };
    state.values = connection
        .prepare_cached(sql)?
        .query_map(params![state.key.0, request.name], value)?
        .collect::<rusqlite::Result<_>>()?;
    moment.map(|transaction| transaction.finish()).transpose()?;
    Ok(Some(state))
}

fn value(row: &Row<'_>) -> rusqlite::Result<StateValue> {
    Ok(StateValue {
        name: row.get(0)?,
        value: row.get(1)?,
        version: number(row, 2)?,
    })
}
