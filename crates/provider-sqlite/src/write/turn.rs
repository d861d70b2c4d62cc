//! The commit of a turn: one fenced update and one insert for each event; the rest only when
//! it is needed.

use perdure_engine::EventId;
use perdure_provider::{
    AfterTurn, CrossInstanceOutcome, Epoch, InstanceKey, NextExecution, Outcome, Status, TurnCommit, settlement,
};
use rusqlite::params;

use super::cross_instance::{self, Origin};
use super::found::{self, Parent};
use super::{heartbeat, mailbox};
use crate::error::Failure;
use crate::rows::integer;
use crate::session::Session;
use crate::statement::{Fence, fenced, named};
use crate::{asks, logs, state, status, streams};

/// Commits the turn of an instance in an epoch. Key and epoch are the turn's own, or those of the start that the turn
/// is written with.
pub(super) fn commit(
    session: &mut Session<'_>,
    turn: &TurnCommit,
    key: InstanceKey,
    epoch: Epoch,
) -> Result<Outcome, Failure> {
    let next = turn.check().map_err(Failure::internal)?;
    if turn.wakes && !wake(session, turn)? {
        return Ok(Outcome::Fenced);
    }
    let Some(Advanced { wake_at_ms, parent }) = advance(session, turn, key, epoch, next)? else {
        return Ok(Outcome::Fenced);
    };
    for event in &turn.events {
        session.append_event(key, integer(turn.execution.0), event)?;
    }
    if let AfterTurn::ContinueAsNew(next) = &turn.after {
        session.append_event(key, integer(turn.execution.next().0), &next.first_event)?;
    }
    if matches!(turn.after, AfterTurn::End { .. }) {
        // P6. No message can be added later: messages are only taken for instances that have not ended.
        session.execute("DELETE FROM messages WHERE instance_key = ?1", params![key.0])?;
    } else {
        consume(session, turn, key)?;
    }
    for scheduled in &turn.heartbeats_over {
        let activity = params![key.0, integer(turn.execution.0), integer(scheduled.0)];
        session.execute(heartbeat::FORGET, activity)?;
    }
    if let Some(change) = &turn.custom_status {
        session.execute(
            "UPDATE instances SET custom_status = ?2, custom_status_version = custom_status_version + 1 WHERE key = ?1",
            params![key.0, change.value],
        )?;
    }
    state::change(session, key, &turn.state)?;
    asks::answer(session, key, &turn.answers)?;
    for append in &turn.appends {
        streams::append(session, key, append, streams::Writer::turn(turn.time_ms))?;
    }
    if let Some(lines) = &turn.logs {
        logs::add(session, key, lines)?;
    }
    let status = turn
        .tell_status
        .then(|| status::of(session.connection(), key))
        .transpose()?;
    let others = affect_others(session, turn, key, parent)?;
    Ok(Outcome::Committed {
        status: status.map(Box::new),
        wake_at_ms,
        others,
    })
}

/// Acquires the instance of a turn that wakes it (P20). Returns false if the turn is fenced off.
fn wake(session: &Session<'_>, turn: &TurnCommit) -> Result<bool, Failure> {
    let acquired = named!(
        session.execute,
        "UPDATE instances SET owner = $owner, epoch = $epoch, wake_at = NULL
         WHERE key = $key AND owner IS NULL AND status = 'Running' AND epoch = $epoch - 1
           AND execution = $execution AND next_event_id = $first
           AND EXISTS (SELECT 1 FROM workers WHERE id = $owner)
           AND NOT EXISTS (SELECT 1 FROM messages WHERE instance_key = $key AND seq > $seen)
           AND NOT EXISTS (SELECT 1 FROM asks WHERE instance_key = $key AND id = $asked)",
        {
            key: turn.key.0,
            owner: &*turn.worker.0,
            epoch: integer(turn.epoch.0),
            execution: integer(turn.execution.0),
            first: integer(turn.next_event_id.0),
            seen: integer(turn.seen.0),
            asked: turn.asked,
        }
    )?;
    if let (1, Some(ask)) = (acquired, &turn.asked) {
        asks::insert(session, turn.key, ask)?;
    }
    Ok(acquired == 1)
}

/// Carries out the effects of the turn on other instances, and tells the parent of the end.
fn affect_others(
    session: &mut Session<'_>,
    turn: &TurnCommit,
    key: InstanceKey,
    parent: Option<Parent>,
) -> Result<Option<Box<CrossInstanceOutcome>>, Failure> {
    let mut others = match &turn.cross_instance {
        None if parent.is_none() => return Ok(None),
        None => CrossInstanceOutcome::default(),
        Some(effects) => {
            let origin = Origin {
                key,
                execution: turn.execution,
                time_ms: turn.time_ms,
            };
            cross_instance::carry_out(session, origin, effects)?
        }
    };
    if let (Some(parent), AfterTurn::End { status }) = (parent, &turn.after) {
        let result = turn.events.last().and_then(|last| last.payload.clone());
        let settlement = settlement(*status, result);
        mailbox::settle(session, &parent, settlement, turn.time_ms, &mut others.receivers)?;
    }
    Ok(Some(Box::new(others)))
}

/// The effect of a turn that was not fenced off.
#[derive(Default)]
struct Advanced {
    /// Time at which the instance is due, if it was released.
    wake_at_ms: Option<i64>,
    /// Parent that is to be told of the end, if the instance has ended.
    parent: Option<Parent>,
}

impl Advanced {
    fn due(wake_at_ms: Option<i64>) -> Self {
        Self {
            wake_at_ms,
            parent: None,
        }
    }
}

/// Advances the instance if the turn is still its owner's. Returns `None` if the turn is fenced off (P2). The fence is
/// the update's own condition.
fn advance(
    session: &mut Session<'_>,
    turn: &TurnCommit,
    key: InstanceKey,
    epoch: Epoch,
    next: EventId,
) -> Result<Option<Advanced>, Failure> {
    let fence = Fence {
        key: key.0,
        owner: &turn.worker.0,
        epoch: integer(epoch.0),
        execution: integer(turn.execution.0),
        first: integer(turn.next_event_id.0),
    };
    let next = integer(next.0);
    let changed = match &turn.after {
        AfterTurn::Hold => session.hold_turn(&fence, next, turn)?,
        AfterTurn::Release { wake_at_ms } => return release(session, turn, &fence, next, *wake_at_ms),
        AfterTurn::End { status } => return end_instance(session, turn, &fence, next, *status),
        AfterTurn::ContinueAsNew(next) => return continue_as_new(session, turn, &fence, next),
        // A suspension without events is no turn: an instance whose first turn never came about stays fresh.
        AfterTurn::Suspend {
            report,
            mismatched_code,
        } => fenced!(
            session.execute,
            fence,
            "UPDATE instances SET next_event_id = $next, turns = turns + $turns, updated_at = $time,
             status = 'Suspended',
               owner = NULL, wake_at = NULL, report = $report, mismatched_code = $mismatched_code",
            {
                next: next,
                time: turn.time_ms,
                turns: i64::from(next > fence.first),
                report: report,
                mismatched_code: mismatched_code,
            }
        )?,
    };
    Ok((changed == 1).then(Advanced::default))
}

/// Releases the instance. It is due at once if the worker has not seen a message, which came between its last look and
/// this commit.
fn release(
    session: &Session<'_>,
    turn: &TurnCommit,
    fence: &Fence<'_>,
    next: i64,
    wake_at_ms: Option<i64>,
) -> Result<Option<Advanced>, Failure> {
    fenced!(
        session.query_optional,
        fence,
        "UPDATE instances SET next_event_id = $next, turns = turns + 1, updated_at = $time, status = 'Running',
         owner = NULL, released_by = $owner, open_work = $open_work,
           suspicion = CASE WHEN $next > $first THEN 0 ELSE suspicion END,
           wake_at = CASE WHEN EXISTS (SELECT 1 FROM messages WHERE instance_key = $key AND seq > $seen)
             THEN min($now, coalesce($wake_at, $now)) ELSE $wake_at END"
            returning "RETURNING wake_at",
        {
            next: next,
            time: turn.time_ms,
            open_work: turn.open_work,
            seen: integer(turn.seen.0),
            now: session.now_ms(),
            wake_at: wake_at_ms,
        },
        |row| row.get(0).map(Advanced::due)
    )
}

fn end_instance(
    session: &Session<'_>,
    turn: &TurnCommit,
    fence: &Fence<'_>,
    next: i64,
    status: Status,
) -> Result<Option<Advanced>, Failure> {
    fenced!(
        session.query_optional,
        fence,
        "UPDATE instances SET next_event_id = $next, turns = turns + 1, updated_at = $time, status = $status,
         owner = NULL, open_work = NULL,
           wake_at = NULL, unread = 0, completed_at = $time"
            returning "RETURNING parent_key, parent_execution, parent_event",
        {
            next: next,
            time: turn.time_ms,
            status: status.as_str(),
        },
        |row| {
            let parent = found::parent(row)?;
            Ok(Advanced {
                wake_at_ms: None,
                parent,
            })
        }
    )
}

fn continue_as_new(
    session: &Session<'_>,
    turn: &TurnCommit,
    fence: &Fence<'_>,
    next: &NextExecution,
) -> Result<Option<Advanced>, Failure> {
    let due = (!next.hold).then(|| session.now_ms());
    let changed = fenced!(
        session.execute,
        fence,
        "UPDATE instances SET execution = execution + 1, version = $version, next_event_id = $next, turns = 0,
           updated_at = $time, status = 'Running', suspicion = 0, probation = 0, open_work = NULL,
           owner = CASE WHEN $due IS NULL THEN owner END, wake_at = $due",
        {
            time: turn.time_ms,
            version: next.version,
            next: integer(EventId::FIRST.next().0),
            due: due,
        }
    )?;
    Ok((changed == 1).then(|| Advanced::due(due)))
}

/// Deletes the consumed messages with the turn that consumed them (P5). Only the owner consumes, so a message that does
/// not exist was consumed twice.
fn consume(session: &Session<'_>, turn: &TurnCommit, key: InstanceKey) -> Result<(), Failure> {
    if turn.consumed.is_empty() {
        return Ok(());
    }
    for seq in &turn.consumed {
        let gone = session.execute(
            "DELETE FROM messages WHERE seq = ?1 AND instance_key = ?2",
            params![integer(seq.0), key.0],
        )?;
        if gone != 1 {
            return Err(Failure::internal(format!(
                "a turn of instance {} consumed message {seq}, which does not wait for it",
                key.0
            )));
        }
    }
    session.execute(
        "UPDATE instances SET unread = unread - ?2 WHERE key = ?1",
        params![key.0, integer(turn.consumed.len() as u64)],
    )?;
    Ok(())
}
