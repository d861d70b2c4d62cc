//! Sessions of activities (P18): which worker holds which session, and the routes of their tasks.

use std::collections::BTreeSet;

use perdure_engine::{Bug, is_planted};
use perdure_provider::{
    ROUTE_ANY, ROUTE_LINE, ROUTE_OPEN, ROUTED_SESSIONS_MAX, ROUTED_TASKS_MAX, SessionLimits, TaskRequest, WorkerId,
};

use crate::rows::{SessionKey, SessionRow, TaskRow};
use crate::tables::{EventKey, Tables};

/// The result of routing.
#[derive(Default)]
pub(crate) struct Routed {
    /// True if tasks went to other workers.
    pub(crate) handed_on: bool,
    /// True if the worker can bind no further session now.
    pub(crate) is_full: bool,
}

fn is_of(row: &TaskRow, (queue, name): &SessionKey) -> bool {
    row.queue == *queue && row.session.as_ref() == Some(name)
}

fn tasks_of<'t>(tables: &'t Tables, key: &'t SessionKey) -> impl Iterator<Item = (&'t EventKey, &'t TaskRow)> {
    let tasks = tables.tasks.iter();
    tasks.filter(move |(_, row)| is_of(row, key) && row.route != ROUTE_LINE)
}

fn has_open(tables: &Tables, key: &SessionKey) -> bool {
    tasks_of(tables, key).any(|(_, row)| row.route == ROUTE_OPEN)
}

/// Routes the due tasks whose routes are open and that the request may take or hand on.
pub(crate) fn route(tables: &mut Tables, request: &TaskRequest) -> Routed {
    let mut routed = Routed::default();
    if !tables.tasks.iter().any(|(_, row)| row.route == ROUTE_OPEN) {
        return routed;
    }
    unbind_idle(tables, &request.worker);
    for key in sessions_of(tables, &request.worker) {
        if has_open(tables, &key) {
            used(tables, &key);
            route_all(tables, &key, &request.worker);
        }
    }
    let SessionLimits { max, idle_ms } = request.sessions;
    let held = sessions_of(tables, &request.worker).len();
    // A session that has to wait for a slot here may find one at another worker.
    let mut room = max
        .saturating_sub(held)
        .min(request.limit.rows)
        .min(ROUTED_SESSIONS_MAX);
    routed.is_full = held >= max;
    if room == 0 {
        return routed;
    }
    for key in due_sessions(tables, request) {
        match holder(tables, &key) {
            Some(holder) => {
                used(tables, &key);
                route_all(tables, &key, &holder);
                routed.handed_on |= holder != request.worker;
            }
            None if room > 0 => {
                let row = SessionRow {
                    queue: key.0.clone(),
                    session: key.1.clone(),
                    worker: request.worker.clone(),
                    idle_ms,
                    used_at_ms: tables.now_ms,
                };
                tables.sessions.insert(key.clone(), row);
                route_all(tables, &key, &request.worker);
                room -= 1;
            }
            None => {}
        }
    }
    routed.is_full = sessions_of(tables, &request.worker).len() >= max;
    routed
}

/// Returns the sessions of the first due tasks whose routes are open, in the order in which tasks are taken.
fn due_sessions(tables: &Tables, request: &TaskRequest) -> Vec<SessionKey> {
    let mut due: Vec<&TaskRow> = (tables.tasks.iter().map(|(_, row)| row))
        .filter(|row| row.route == ROUTE_OPEN && row.worker.is_none() && row.due_at_ms <= tables.now_ms)
        .filter(|row| request.queues.serve(&row.queue) && request.names.contains(&row.name))
        .collect();
    due.sort_unstable_by_key(|row| (std::cmp::Reverse(row.priority), row.due_at_ms, row.task));
    let mut seen = BTreeSet::new();
    let keys = due
        .into_iter()
        .filter_map(|row| Some((row.queue.clone(), row.session.clone()?)));
    keys.filter(|key| seen.insert(key.clone()))
        .take(ROUTED_SESSIONS_MAX)
        .collect()
}

/// Returns the worker that holds a session which has a waiting task. A session is unbound if all its tasks came after
/// its idle time.
fn holder(tables: &Tables, key: &SessionKey) -> Option<WorkerId> {
    let row = tables.sessions.get(key)?;
    let idle_from = row.used_at_ms.saturating_add(row.idle_ms);
    let is_used = |(_, task): (&EventKey, &TaskRow)| task.route != ROUTE_OPEN || task.due_at_ms <= idle_from;
    let is_held = tables.is_registered(&row.worker) && tasks_of(tables, key).any(is_used);
    (is_held && !is_planted(Bug::SessionTaken)).then(|| row.worker.clone())
}

/// Routes tasks of a session whose routes are open to a worker.
fn route_all(tables: &mut Tables, key: &SessionKey, worker: &WorkerId) {
    let open: Vec<EventKey> = tasks_of(tables, key)
        .filter(|(_, row)| row.route == ROUTE_OPEN && row.worker.is_none())
        .map(|(place, _)| *place)
        .take(ROUTED_TASKS_MAX)
        .collect();
    for place in open {
        tables.tasks.edit(&place, |row| row.route = worker.0.to_string());
    }
}

fn sessions_of(tables: &Tables, worker: &WorkerId) -> Vec<SessionKey> {
    let rows = tables.sessions.iter().filter(|(_, row)| row.worker == *worker);
    rows.map(|(key, _)| key.clone()).collect()
}

/// Unbinds the sessions of a worker that had no task for their idle time.
fn unbind_idle(tables: &mut Tables, worker: &WorkerId) {
    for key in sessions_of(tables, worker) {
        let is_over = tables
            .sessions
            .get(&key)
            .is_some_and(|row| row.used_at_ms.saturating_add(row.idle_ms) < tables.now_ms);
        if is_over && tasks_of(tables, &key).next().is_none() {
            tables.sessions.remove(&key);
        }
    }
}

/// Returns the time at which a worker that holds as many sessions as it may can bind another one at the earliest:
/// `None` if it holds none. A session with tasks is idle no sooner than its idle time after they are done.
pub(crate) fn next_idle(tables: &Tables, worker: &WorkerId) -> Option<i64> {
    let rows = tables.sessions.iter().filter(|(_, row)| row.worker == *worker);
    let idle = rows.map(|(key, row)| {
        let is_used = tasks_of(tables, key).next().is_some();
        let from = if is_used {
            row.used_at_ms.max(tables.now_ms)
        } else {
            row.used_at_ms
        };
        from.saturating_add(row.idle_ms).saturating_add(1)
    });
    idle.min()
}

/// Notes that a session is used now.
pub(crate) fn used(tables: &mut Tables, key: &SessionKey) {
    let now_ms = tables.now_ms;
    let _ = tables.sessions.edit(key, |row| row.used_at_ms = now_ms);
}

/// Unbinds the sessions of a worker that is removed, and opens the routes of their tasks, which the worker no longer
/// runs.
pub(crate) fn unbind_all(tables: &mut Tables, worker: &WorkerId) {
    for key in sessions_of(tables, worker) {
        tables.sessions.remove(&key);
    }
    let routed: Vec<EventKey> = (tables.tasks.iter())
        .filter(|(_, row)| row.worker.is_none() && row.route == *worker.0)
        .map(|(place, _)| *place)
        .collect();
    for place in routed {
        tables.tasks.edit(&place, |row| row.route = ROUTE_OPEN.to_owned());
    }
}

/// Returns true if a request may take a task of this route.
pub(crate) fn is_open_to(route: &str, worker: &WorkerId) -> bool {
    route == ROUTE_ANY || route == &*worker.0
}
