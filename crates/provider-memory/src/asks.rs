//! Asks: messages that get an answer (P22).

use std::ops::Range;

use perdure_engine::{AnsweredAsk, Bug, is_planted};
use perdure_provider::{ANSWERS_KEPT, AskName, AskState, InstanceKey};

use crate::rows::{AskKey, AskRow};
use crate::tables::Tables;

fn of_instance(key: InstanceKey) -> Range<AskKey> {
    (key, String::new())..(InstanceKey(key.0 + 1), String::new())
}

/// Adds the answers of a turn, and drops those beyond the last [`ANSWERS_KEPT`].
pub(crate) fn answer(tables: &mut Tables, key: InstanceKey, answers: &[AnsweredAsk]) {
    if answers.is_empty() || is_planted(Bug::AnswerNotStored) {
        return;
    }
    let numbers = tables
        .asks
        .range(of_instance(key))
        .filter_map(|(_, row)| row.answer.as_ref());
    let mut last = numbers.map(|(number, _)| *number).max().unwrap_or_default();
    for AnsweredAsk { ask, answer } in answers {
        let at = (key, ask.clone());
        if tables.asks.get(&at).is_some_and(|row| row.answer.is_none()) {
            last += 1;
            let answer = Some((last, answer.clone()));
            tables.asks.insert(at, AskRow { answer });
        }
    }
    let is_old = |row: &AskRow| matches!(&row.answer, Some((number, _)) if number + ANSWERS_KEPT <= last);
    let rows = tables.asks.range(of_instance(key)).filter(|(_, row)| is_old(row));
    for at in rows.map(|(at, _)| at.clone()).collect::<Vec<_>>() {
        tables.asks.remove(&at);
    }
}

/// Returns true if an instance has an ask of this id.
pub(crate) fn has(tables: &Tables, key: InstanceKey, ask: &str) -> bool {
    tables.asks.get(&(key, ask.to_owned())).is_some() && !is_planted(Bug::AskNotKnown)
}

/// Adds an ask without an answer.
pub(crate) fn insert(tables: &mut Tables, key: InstanceKey, ask: &str) {
    tables.asks.insert((key, ask.to_owned()), AskRow::default());
}

/// Removes the asks of an instance.
pub(crate) fn remove(tables: &mut Tables, key: InstanceKey) {
    tables.asks.remove_range(of_instance(key));
}

/// Returns the state of an ask. `None`: there is no such ask.
pub(crate) fn read(tables: &Tables, name: &AskName) -> Option<AskState> {
    let instance = tables.find(&name.instance)?;
    let row = tables.asks.get(&(instance.key, name.ask.clone()))?;
    Some(match &row.answer {
        Some((_, answer)) => AskState::Answered(answer.clone()),
        None if instance.status.is_terminal() => AskState::Ended {
            status: instance.status,
        },
        None => AskState::Open,
    })
}
