//! Asks: messages that get an answer (P22).

use perdure_engine::{Answer, AnsweredAsk};
use perdure_provider::{ANSWERS_KEPT, AskName, AskState, InstanceKey, LIST_BYTES_MAX};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::error::Failure;
use crate::rows::{integer, status};
use crate::session::Session;

/// Adds the answers of a turn, and deletes those beyond the last [`ANSWERS_KEPT`]. An answer to an ask that is not
/// there, or was answered before, changes nothing.
pub(crate) fn answer(session: &Session<'_>, key: InstanceKey, answers: &[AnsweredAsk]) -> Result<(), Failure> {
    for AnsweredAsk { ask, answer } in answers {
        let outcome = match answer {
            Answer::Value(_) => "Value",
            Answer::Error(_) => "Error",
        };
        session.execute(
            "UPDATE asks SET outcome = ?3, answer = ?4,
               number = 1 + coalesce((SELECT max(number) FROM asks WHERE instance_key = ?1 AND number IS NOT NULL), 0)
             WHERE instance_key = ?1 AND id = ?2 AND outcome IS NULL",
            params![key.0, ask, outcome, answer.payload()],
        )?;
    }
    if !answers.is_empty() {
        session.execute(
            "DELETE FROM asks WHERE instance_key = ?1 AND number IS NOT NULL
               AND number <= (SELECT max(number) FROM asks WHERE instance_key = ?1 AND number IS NOT NULL) - ?2",
            params![key.0, integer(ANSWERS_KEPT)],
        )?;
    }
    Ok(())
}

/// Adds an ask without an answer.
pub(crate) fn insert(session: &Session<'_>, key: InstanceKey, ask: &str) -> Result<(), Failure> {
    session.execute(
        "INSERT INTO asks (instance_key, id) VALUES (?1, ?2)",
        params![key.0, ask],
    )?;
    Ok(())
}

/// Returns the state of each ask, or of the first of them, all at one moment.
pub(crate) fn states(connection: &Connection, names: &[AskName]) -> Result<Vec<Option<AskState>>, Failure> {
    let moment = (names.len() > 1 && connection.is_autocommit())
        .then(|| connection.unchecked_transaction())
        .transpose()?;
    let (mut states, mut bytes) = (Vec::new(), 0);
    for name in names {
        if bytes > LIST_BYTES_MAX {
            break;
        }
        let state = state(connection, name)?;
        if let Some(AskState::Answered(answer)) = &state {
            bytes += answer.payload().as_ref().map_or(0, String::len);
        }
        states.push(state);
    }
    moment.map(|transaction| transaction.finish()).transpose()?;
    Ok(states)
}

/// Returns the state of an ask. `None`: there is no such ask.
pub(crate) fn state(connection: &Connection, name: &AskName) -> Result<Option<AskState>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT a.outcome, a.answer, i.status FROM instances i JOIN asks a ON a.instance_key = i.key
         WHERE i.id = ?1 AND a.id = ?2",
    )?;
    Ok(statement
        .query_row(params![name.instance, name.ask], ask_state)
        .optional()?)
}

fn ask_state(row: &Row<'_>) -> rusqlite::Result<AskState> {
    let outcome: Option<String> = row.get(0)?;
    Ok(match outcome.as_deref() {
        Some("Value") => AskState::Answered(Answer::Value(row.get(1)?)),
        Some(_) => AskState::Answered(Answer::Error(row.get(1)?)),
        None => match status(row, 2)? {
            status if status.is_terminal() => AskState::Ended { status },
            _ => AskState::Open,
        },
    })
}
