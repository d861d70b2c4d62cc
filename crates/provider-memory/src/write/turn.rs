//! The commit of a turn.

use perdure_engine::{Bug, EventId, MessageSeq, is_planted};
use perdure_provider::{
    AfterTurn, CrossInstanceOutcome, Epoch, InstanceKey, Outcome, ProbationStep, ProviderError, Status, Suspicion,
    TurnCommit, settlement,
};

use super::{cross_instance, mailbox};
use crate::error::internal;
use crate::rows::{InstanceRow, Parent};
use crate::tables::Tables;
use crate::{asks, history, logs, state, status, streams};

/// Commits the turn of an instance in an epoch. Key and epoch are the turn's own, or those of the start that the turn
/// is written with.
pub(super) fn commit(
    tables: &mut Tables,
    turn: &TurnCommit,
    key: InstanceKey,
    epoch: Epoch,
) -> Result<Outcome, ProviderError> {
    let next = turn.check().map_err(internal)?;
    if turn.wakes && !wake(tables, turn) {
        return Ok(Outcome::Fenced);
    }
    let Some(row) = tables.instance(key).filter(|row| is_of(turn, epoch, row)) else {
        return Ok(Outcome::Fenced);
    };
    let parent = row.parent;
    let wake_at_ms = advance(tables, turn, key, next);
    for event in &turn.events {
        history::append(tables, key, turn.execution, event);
    }
    if let AfterTurn::ContinueAsNew(next) = &turn.after {
        if is_planted(Bug::MessagesLostOnContinue) {
            let waiting: Vec<_> = tables.messages_after(key, MessageSeq(0)).map(|(seq, _)| seq).collect();
            waiting
                .into_iter()
                .filter(|seq| !turn.consumed.contains(seq))
                .for_each(|seq| {
                    tables.remove_message(key, seq);
                });
        }
        history::append(tables, key, turn.execution.next(), &next.first_event);
    }
    if is_planted(Bug::MessagesOutliveInstance) && matches!(turn.after, AfterTurn::End { .. }) {
        consume(tables, turn, key)?;
    } else if matches!(turn.after, AfterTurn::End { .. }) {
        // P6. No message can be added later: messages are only taken for instances that have not ended.
        tables.remove_messages(key);
    } else {
        consume(tables, turn, key)?;
    }
    for scheduled in turn.heartbeats_over.iter().filter(|_| !is_planted(Bug::HeartbeatsStay)) {
        tables.heartbeats.remove(&(key, turn.execution, *scheduled));
    }
    state::change(tables, key, &turn.state);
    asks::answer(tables, key, &turn.answers);
    for append in &turn.appends {
        streams::append(tables, key, append, streams::Writer::turn(turn.time_ms));
    }
    if let Some(logs) = &turn.logs {
        logs::add(tables, key, logs);
    }
    let row = tables.instance(key).expect("it was just moved on");
    let status = turn.tell_status.then(|| Box::new(status::of(tables, row)));
    let others = affect_others(tables, turn, key, parent)?;
    Ok(Outcome::Committed {
        status,
        wake_at_ms,
        others,
    })
}

/// Acquires the instance of a turn that wakes it (P20). Returns false if the turn is fenced off.
fn wake(tables: &mut Tables, turn: &TurnCommit) -> bool {
    let has_unseen = tables.messages_after(turn.key, turn.seen).next().is_some();
    let is_asleep = |row: &InstanceRow| {
        row.status == Status::Running
            && row.owner.is_none()
            && (!has_unseen || is_planted(Bug::WakePastMessage))
            && row.epoch.0 + 1 == turn.epoch.0
            && (row.execution, row.next_event_id) == (turn.execution, turn.next_event_id)
    };
    let is_known = turn.asked.as_ref().is_some_and(|ask| asks::has(tables, turn.key, ask));
    let can_wake = tables.instance(turn.key).is_some_and(is_asleep) && tables.is_registered(&turn.worker) && !is_known;
    if can_wake {
        if let Some(ask) = &turn.asked {
            asks::insert(tables, turn.key, ask);
        }
        tables.edit(turn.key, |row| {
            row.owner = Some(turn.worker.clone());
            row.epoch = turn.epoch;
            row.wake_at_ms = None;
        });
    }
    can_wake
}

/// Returns true if a turn is that of the instance's owner and starts at the instance's next event (P2). An instance
/// without an owner, which includes every ended or suspended instance, matches no worker.
fn is_of(turn: &TurnCommit, epoch: Epoch, row: &InstanceRow) -> bool {
    let is_owner = row.owner.as_ref() == Some(&turn.worker) || is_planted(Bug::NoOwnerCheck);
    let is_epoch = row.epoch == epoch || is_planted(Bug::NoEpochCheck) || is_planted(Bug::NoOwnerCheck);
    let follows = row.next_event_id == turn.next_event_id || is_planted(Bug::NoEventIdCheck);
    is_owner && is_epoch && row.execution == turn.execution && follows
}

/// Advances the instance up to this event. Returns the time at which the instance is due, if it was released.
fn advance(tables: &mut Tables, turn: &TurnCommit, key: InstanceKey, next: EventId) -> Option<i64> {
    let now_ms = tables.now_ms;
    // A message that the worker has not seen came between its last look and this commit.
    let sleeps_on = is_planted(Bug::SleepsThroughMessage);
    let has_unseen = !sleeps_on && tables.messages_after(key, turn.seen).next().is_some();
    tables.edit(key, |row| {
        let gets_on = next > row.next_event_id;
        row.next_event_id = next;
        row.turns += 1;
        row.status = Status::Running;
        row.updated_at_ms = turn.time_ms;
        if gets_on {
            row.suspicion = Suspicion::default();
            row.probation = ProbationStep::End;
        }
        if let Some(change) = &turn.custom_status {
            row.custom_status = change.value.clone();
            row.custom_status_version += 1;
        }
        if !matches!(turn.after, AfterTurn::Suspend { .. }) {
            row.open_work = turn.open_work.clone();
        }
        if matches!(turn.after, AfterTurn::Release { .. }) {
            row.released_by = Some(turn.worker.clone());
        }
        match &turn.after {
            AfterTurn::Hold => {}
            AfterTurn::Release { wake_at_ms } if has_unseen => {
                row.disown(Some(wake_at_ms.map_or(now_ms, |at| at.min(now_ms))));
            }
            AfterTurn::Release { wake_at_ms } => row.disown(*wake_at_ms),
            AfterTurn::End { status } => {
                row.disown(None);
                row.status = *status;
                row.unread = 0;
                row.completed_at_ms = Some(turn.time_ms);
            }
            AfterTurn::ContinueAsNew(next) => {
                row.execution = row.execution.next();
                row.version = next.version.clone();
                row.next_event_id = EventId::FIRST.next();
                row.turns = 0;
                if !next.hold {
                    row.disown(Some(now_ms));
                }
            }
            AfterTurn::Suspend {
                report,
                mismatched_code,
            } => {
                row.disown(None);
                row.status = Status::Suspended;
                row.report = Some(report.clone());
                row.mismatched_code = mismatched_code.clone();
                // A suspension without events is no turn: an instance whose first turn never came about stays fresh.
                row.turns -= u64::from(!gets_on);
            }
        }
        row.wake_at_ms
    })
}

/// Deletes the consumed messages with the turn that consumed them (P5). Only the owner consumes, so a message that does
/// not exist was consumed twice.
fn consume(tables: &mut Tables, turn: &TurnCommit, key: InstanceKey) -> Result<(), ProviderError> {
    if turn.consumed.is_empty() || is_planted(Bug::ConsumedMessagesStay) {
        return Ok(());
    }
    for seq in &turn.consumed {
        if !tables.remove_message(key, *seq) {
            return Err(internal(format_args!(
                "a turn of instance {} consumed message {seq}, which does not wait for it",
                key.0
            )));
        }
    }
    tables.edit(key, |row| row.unread -= turn.consumed.len() as u64);
    Ok(())
}

/// Carries out the effects of the turn on other instances, and tells the parent of the end.
fn affect_others(
    tables: &mut Tables,
    turn: &TurnCommit,
    key: InstanceKey,
    parent: Option<Parent>,
) -> Result<Option<Box<CrossInstanceOutcome>>, ProviderError> {
    let mut others = match &turn.cross_instance {
        Some(effects) => Some(cross_instance::carry_out(
            tables,
            key,
            turn.execution,
            effects,
            turn.time_ms,
        )?),
        None => None,
    };
    if let (Some(parent), AfterTurn::End { status }, false) = (parent, &turn.after, is_planted(Bug::ChildNotTold)) {
        let result = turn.events.last().and_then(|last| last.payload.clone());
        let settlement = settlement(*status, result);
        let receivers = &mut others.get_or_insert_default().receivers;
        mailbox::settle(tables, parent, settlement, receivers);
    }
    Ok(others.map(Box::new))
}
