//! Asks: messages that get an answer (P22).

use std::borrow::Cow;

use perdure_engine::{Answer, AnsweredAsk};
use perdure_provider::{ANSWERS_KEPT, AskName, AskState, InstanceKey, LIST_BYTES_MAX};
use tokio_postgres::Row;

use crate::connection::Connection;
use crate::error::Failure;
use crate::params::P;
use crate::rows::{index, integer, optional_text, status};
use crate::session::Session;
use crate::statement::{named, query};
use crate::text::encode;

/// Asks that are not there, or were answered before, get no answer.
const ANSWER: &str = "WITH open AS (
  SELECT a.*, row_number() OVER (PARTITION BY a.instance_key ORDER BY a.n)
    + coalesce((SELECT max(number) FROM {schema}.asks l WHERE l.instance_key = a.instance_key), 0) AS number
  FROM {a} JOIN {schema}.asks d ON d.instance_key = ANY (ARRAY[a.instance_key]) AND d.id = a.id AND d.outcome IS NULL
)
UPDATE {schema}.asks d SET outcome = open.outcome, answer = open.answer, number = open.number
FROM open WHERE d.instance_key = ANY (ARRAY[open.instance_key]) AND d.id = open.id";

const DROP_OLDEST: &str = "DELETE FROM {schema}.asks d USING (
  SELECT k.key, (SELECT max(number) FROM {schema}.asks l WHERE l.instance_key = k.key) AS last
  FROM unnest($keys::bigint[]) AS k (key)
) k WHERE d.instance_key = ANY (ARRAY[k.key]) AND d.number <= k.last - $kept::bigint";

/// Adds the answers of turns that are written, and deletes those beyond the last [`ANSWERS_KEPT`] of each instance.
pub(crate) async fn answer(session: &Session<'_>, turns: &[(InstanceKey, &[AnsweredAsk])]) -> Result<(), Failure> {
    if turns.is_empty() {
        return Ok(());
    }
    let all = || turns.iter().flat_map(|(_, answers)| *answers);
    let n: Vec<i64> = (0..all().count()).map(index).collect();
    let of: Vec<i64> = (turns.iter())
        .flat_map(|(key, answers)| std::iter::repeat_n(key.0, answers.len()))
        .collect();
    let ids: Vec<Cow<'_, str>> = all().map(|answered| encode(&answered.ask)).collect();
    let outcomes: Vec<Cow<'_, str>> = all().map(|answered| outcome(&answered.answer).into()).collect();
    let answers: Vec<Option<Cow<'_, str>>> = all()
        .map(|answered| answered.answer.payload().as_deref().map(encode))
        .collect();
    let keys: Vec<i64> = turns.iter().map(|(key, _)| key.0).collect();
    let answer = query!(
        ANSWER,
        {},
        a {
            n: P::Ints(&n),
            instance_key: P::Ints(&of),
            id: P::Texts(&ids),
            outcome: P::Texts(&outcomes),
            answer: P::MaybeTexts(&answers),
        }
    );
    let drop_oldest = query!(DROP_OLDEST, { keys: P::Ints(&keys), kept: P::Int(integer(ANSWERS_KEPT)) });
    session.connection().prepare(&[&answer, &drop_oldest]).await?;
    tokio::try_join!(biased; session.run(Some(&answer)), session.run(Some(&drop_oldest)))?;
    Ok(())
}

/// Returns the name of an answer's kind, as it is stored.
pub(crate) const fn outcome(answer: &Answer) -> &'static str {
    match answer {
        Answer::Value(_) => "Value",
        Answer::Error(_) => "Error",
    }
}

/// Selects a row for each ask, in order, until the answers of the rows have a number of bytes.
const STATES: &str = "SELECT * FROM (
  SELECT d.outcome, d.answer, i.status, d.id IS NOT NULL,
    sum(coalesce(octet_length(d.answer), 0)) OVER (ORDER BY a.n) - coalesce(octet_length(d.answer), 0) AS before, a.n
  FROM {a} LEFT JOIN {schema}.instances i ON i.id = a.instance
  LEFT JOIN {schema}.asks d ON d.instance_key = i.key AND d.id = a.ask
) w WHERE before <= $bytes::bigint ORDER BY n";

/// Returns the state of each ask, or of the first of them, all at one moment.
pub(crate) async fn states(connection: &Connection, names: &[AskName]) -> Result<Vec<Option<AskState>>, Failure> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let n: Vec<i64> = (0..names.len()).map(index).collect();
    let instances: Vec<Cow<'_, str>> = names.iter().map(|name| encode(&name.instance)).collect();
    let asks: Vec<Cow<'_, str>> = names.iter().map(|name| encode(&name.ask)).collect();
    let rows = named!(
        connection.query,
        STATES,
        { bytes: P::Int(integer(LIST_BYTES_MAX as u64)) },
        a { n: P::Ints(&n), instance: P::Texts(&instances), ask: P::Texts(&asks) }
    )
    .await?;
    rows.iter().map(state).collect()
}

fn state(row: &Row) -> Result<Option<AskState>, Failure> {
    if !row.try_get::<_, bool>(3)? {
        return Ok(None);
    }
    let outcome: Option<&str> = row.try_get(0)?;
    Ok(Some(match outcome {
        Some("Value") => AskState::Answered(Answer::Value(optional_text(row, 1)?)),
        Some(_) => AskState::Answered(Answer::Error(optional_text(row, 1)?)),
        None => match status(row, 2)? {
            status if status.is_terminal() => AskState::Ended { status },
            _ => AskState::Open,
        },
    }))
}
