//! The request for work: what is due, taken in order (P3, P4).
//!
//! The partial index on `(name, version, priority, wake_at)` holds the active, unowned instances alone. For each
//! registered orchestration and each priority in use it is read from the longest due on and no further than the limit
//! plus one; so neither a million sleepers nor a backlog of what nobody has registered costs anything.

use std::cmp::Reverse;

use perdure_engine::{EventId, ExecutionId, MessageSeq};
use perdure_provider::{Acquire, Acquired, AcquiredInstance, Epoch, InstanceKey, MessagePage, Suspicion};
use rusqlite::params;

use crate::error::Failure;
use crate::inbox;
use crate::rows::{self, integer, number};
use crate::session::Session;
use crate::worker;

/// A due instance, in the order in which instances are taken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    priority: Reverse<i64>,
    wake_at_ms: i64,
    key: i64,
}

pub(crate) fn acquire(session: &mut Session<'_>, request: &Acquire) -> Result<Acquired, Failure> {
    // A worker that was removed meanwhile gets nothing: nobody would ever take it over from it.
    if !worker::is_registered(session, &request.worker)? {
        return Ok(Acquired {
            now_ms: session.now_ms(),
            ..Acquired::default()
        });
    }
    let mut registered = request.registered.clone();
    registered.sort_unstable();
    registered.dedup();
    let mut due = Vec::new();
    let mut next_wake_at_ms = None;
    for (name, version) in &registered {
        collect(session, name, version, request.limit, &mut due, &mut next_wake_at_ms)?;
    }
    due.sort_unstable();
    let left_behind = due.split_off(due.len().min(request.limit));
    for left in left_behind {
        earliest(&mut next_wake_at_ms, left.wake_at_ms);
    }
    let mut instances = Vec::with_capacity(due.len());
    if !due.is_empty() {
        let seen = inbox::last(session.connection())?;
        for taken in due {
            instances.extend(take(session, request, InstanceKey(taken.key), seen)?);
        }
    }
    Ok(Acquired {
        instances,
        next_wake_at_ms,
        now_ms: session.now_ms(),
    })
}

fn earliest(so_far: &mut Option<i64>, wake_at_ms: i64) {
    *so_far = Some(so_far.map_or(wake_at_ms, |earliest| earliest.min(wake_at_ms)));
}

/// What is due of one orchestration: at most `limit + 1` of each priority, and when the first that is not due yet will be.
fn collect(
    session: &Session<'_>,
    name: &str,
    version: &str,
    limit: usize,
    due: &mut Vec<Due>,
    next_wake_at_ms: &mut Option<i64>,
) -> Result<(), Failure> {
    let mut below = i64::MAX;
    while let Some(priority) = session.query_optional(
        "SELECT priority FROM instances WHERE wake_at IS NOT NULL AND name = ?1 AND version = ?2 AND priority < ?3
         ORDER BY priority DESC LIMIT 1",
        params![name, version, below],
        |row| row.get(0),
    )? {
        below = priority;
        let rows: Vec<(i64, i64)> = session.query_all(
            "SELECT key, wake_at FROM instances
             WHERE wake_at IS NOT NULL AND name = ?1 AND version = ?2 AND priority = ?3 ORDER BY wake_at, key LIMIT ?4",
            params![name, version, priority, integer(limit as u64).saturating_add(1)],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        for (key, wake_at_ms) in rows {
            if wake_at_ms > session.now_ms() {
                earliest(next_wake_at_ms, wake_at_ms);
                break;
            }
            due.push(Due {
                priority: Reverse(priority),
                wake_at_ms,
                key,
            });
        }
    }
    Ok(())
}

/// Whether anything is kept of an instance's activities.
struct Kept {
    heartbeats: bool,
    tasks: bool,
}

/// Make the worker the owner. `None` when rows of the instance cannot be read: it is held with the reason, because one
/// undecodable row must not keep all the others from being acquired.
fn take(
    session: &mut Session<'_>,
    request: &Acquire,
    key: InstanceKey,
    seen: MessageSeq,
) -> Result<Option<AcquiredInstance>, Failure> {
    let taken = session.query_optional(
        "UPDATE instances SET owner = ?2, epoch = epoch + 1, wake_at = NULL, on_trial = 0
         WHERE key = ?1 AND owner IS NULL AND wake_at IS NOT NULL
         RETURNING id, name, version, parent_id, execution, epoch, next_event_id, turns,
           EXISTS (SELECT 1 FROM heartbeats WHERE instance_key = ?1), EXISTS (SELECT 1 FROM tasks WHERE instance_key = ?1), suspicion",
        params![key.0, &*request.worker.0],
        |row| {
            let instance = AcquiredInstance {
                key,
                id: row.get(0)?,
                name: row.get(1)?,
                version: row.get(2)?,
                parent_id: row.get(3)?,
                execution: ExecutionId(number(row, 4)?),
                epoch: Epoch(number(row, 5)?),
                next_event_id: EventId(number(row, 6)?),
                fresh: number(row, 7)? == 0,
                history: Vec::new(),
                messages: MessagePage::default(),
                seen,
                heartbeats: Vec::new(),
                tasks: Vec::new(),
                suspicion: Suspicion(row.get(10)?),
            };
            let kept = Kept {
                heartbeats: row.get(8)?,
                tasks: row.get(9)?,
            };
            Ok((instance, kept))
        },
    );
    let loaded = match taken {
        // Perdure writes no time beside an owner.
        Ok(None) => {
            session.execute("UPDATE instances SET wake_at = NULL WHERE key = ?1", params![key.0])?;
            return Ok(None);
        }
        Ok(Some((mut instance, kept))) => load(session, request, &mut instance, &kept).map(|()| instance),
        Err(failure) => Err(failure),
    };
    match loaded {
        Ok(instance) => Ok(Some(instance)),
        Err(failure) if failure.is_undecodable() || failure.is_impossible() => {
            session.execute(
                "UPDATE instances SET status = 'Suspended', owner = NULL, wake_at = NULL, report = ?2 WHERE key = ?1",
                params![
                    key.0,
                    format!("Rows of this instance in the store cannot be read: {failure}")
                ],
            )?;
            Ok(None)
        }
        Err(failure) => Err(failure),
    }
}

fn load(session: &Session<'_>, request: &Acquire, instance: &mut AcquiredInstance, kept: &Kept) -> Result<(), Failure> {
    let history_page = request.history_page;
    let (key, execution) = (instance.key, instance.execution);
    instance.history = rows::history(session.connection(), key, execution, EventId::FIRST, history_page)?;
    let recorded = instance.next_event_id.0.saturating_sub(1);
    if instance.history.len() as u64 != recorded.min(history_page as u64) {
        return Err(Failure::corrupt(format!(
            "instance {} has {recorded} events and not all are there",
            key.0
        )));
    }
    instance.messages = inbox::of_instance(session.connection(), key, None, request.message_page)?;
    if kept.heartbeats {
        instance.heartbeats = session.query_all(
            "SELECT scheduled, details FROM heartbeats WHERE instance_key = ?1 AND execution = ?2 ORDER BY scheduled",
            params![key.0, integer(execution.0)],
            |row| Ok((EventId(number(row, 0)?), row.get(1)?)),
        )?;
    }
    if kept.tasks {
        instance.tasks = session.query_all(
            "SELECT event_id FROM tasks WHERE instance_key = ?1 AND execution = ?2 ORDER BY event_id",
            params![key.0, integer(execution.0)],
            |row| Ok(EventId(number(row, 0)?)),
        )?;
    }
    Ok(())
}
