//! Attempts of activities that wait in queues. Workers take them, and a release of the worker returns them.

use std::cmp::Reverse;

use perdure_engine::{Bug, EventId, EventRecord, is_planted};
use perdure_provider::{
    ATTEMPT_VERSION, AcquiredTasks, EntryKey, InstanceKey, LATE_TASKS_MAX, Outcome, PageLimit, ROUTE_ANY, ROUTE_LINE,
    ROUTE_OPEN, ReleaseTask, Task, TaskName, TaskRequest, WorkerId, start_by_ms,
};

use crate::admission::{self, Taker};
use crate::rows::TaskRow;
use crate::tables::{EventKey, Tables, of_instance};
use crate::{activity_sessions, queues};

/// Returns the key of a task's row.
pub(crate) const fn place(task: &TaskName) -> EventKey {
    (task.key, task.execution, task.scheduled)
}

/// Acquires tasks by priority, and within a priority the longest due first.
pub(crate) fn acquire(tables: &mut Tables, request: &TaskRequest) -> AcquiredTasks {
    let mut acquired = AcquiredTasks::default();
    // A worker that was removed meanwhile gets nothing: no other worker would ever return its tasks.
    if !tables.is_registered(&request.worker) {
        return acquired;
    }
    let late = take_late(tables, &request.worker);
    if request.limit.rows > 0 {
        acquired = acquire_due(tables, request);
    }
    acquired.tasks.splice(..0, late);
    if let Some((at_ms, _)) = late_tasks(tables, i64::MAX).min() {
        acquired.look_again_at(at_ms);
    }
    acquired
}

fn acquire_due(tables: &mut Tables, request: &TaskRequest) -> AcquiredTasks {
    let mut acquired = AcquiredTasks::default();
    let routed = activity_sessions::route(tables, request);
    acquired.handed_on = routed.handed_on;
    let waiting =
        |row: &&TaskRow| row.worker.is_none() && request.queues.serve(&row.queue) && request.names.contains(&row.name);
    let rows = || tables.tasks.iter().map(|(_, row)| row).filter(waiting);
    let open = rows().filter(|row| row.route == ROUTE_OPEN);
    let next_open = open.map(|row| row.due_at_ms).min();
    let (mut due, later): (Vec<_>, Vec<_>) = rows()
        .filter(|row| activity_sessions::is_open_to(&row.route, &request.worker))
        .map(|row| (Reverse(row.priority), row.due_at_ms, row.task))
        .partition(|(_, due_at_ms, _)| *due_at_ms <= tables.now_ms);
    due.sort_unstable();
    let mut bytes = 0;
    let fits = |(taken, (_, _, task)): (usize, &(_, _, TaskName))| {
        let fits = !request.limit.is_reached(taken, bytes);
        bytes += given_bytes(tables, task);
        fits
    };
    let taken = due.iter().enumerate().map(fits).take_while(|fits| *fits).count();
    let left_behind = due.split_off(taken);
    acquired.next_due_ms = later
        .iter()
        .chain(&left_behind)
        .map(|(_, due_at_ms, _)| *due_at_ms)
        .chain(next_open.and_then(|at| match routed.is_full {
            false => Some(at),
            // The worker has to wait until one of its sessions is idle.
            true => activity_sessions::next_idle(tables, &request.worker),
        }))
        .min();
    let mut taker = FromQueues {
        request,
        rows: taken,
        bytes: due.iter().map(|(_, _, task)| given_bytes(tables, task)).sum(),
        acquired,
    };
    taker.acquired.tasks = (due.into_iter())
        .map(|(_, _, task)| take(tables, &request.worker, task))
        .collect();
    admission::admit(tables, &mut taker);
    taker.acquired
}

/// Returns the tasks that wait and are late at a time, with the time from which they are.
fn late_tasks(tables: &Tables, at_ms: i64) -> impl Iterator<Item = (i64, TaskName)> {
    let waiting = tables.tasks.iter().filter(|(_, row)| row.worker.is_none());
    waiting.filter_map(move |(_, row)| Some((row.start_by_ms.filter(|start_by| *start_by <= at_ms)?, row.task)))
}

/// Takes late tasks, which leave their sessions and the line (P28).
fn take_late(tables: &mut Tables, worker: &WorkerId) -> Vec<Task> {
    let mut late: Vec<(i64, TaskName)> = late_tasks(tables, tables.now_ms).collect();
    if is_planted(Bug::LateAttemptWaits) {
        late.clear();
    }
    late.sort_unstable();
    late.truncate(LATE_TASKS_MAX);
    let take_one = |(_, task)| {
        let left = tables.tasks.edit(&place(&task), |row| {
            let in_line = row.route == ROUTE_LINE;
            ROUTE_ANY.clone_into(&mut row.route);
            row.session = None;
            row.place_key.take_if(|_| in_line)
        });
        if let Some(key) = left.expect("it waits") {
            queues::leave(tables, key);
        }
        take(tables, worker, task)
    };
    late.into_iter().map(take_one).collect()
}

/// A request that takes attempts out of the line.
struct FromQueues<'a> {
    request: &'a TaskRequest,
    acquired: AcquiredTasks,
    /// Number of attempts that were taken, or got a slot.
    rows: usize,
    /// Bytes of the data that they are given.
    bytes: usize,
}

impl Taker for FromQueues<'_> {
    fn worker(&self) -> &WorkerId {
        &self.request.worker
    }

    fn serves(&self, queue: &str) -> bool {
        self.request.queues.serve(queue)
    }

    fn can_run(&self, name: &str, version: &str) -> bool {
        version == ATTEMPT_VERSION && self.request.names.iter().any(|other| other == name)
    }

    fn limit(&self) -> PageLimit {
        self.request.limit
    }

    fn taken(&self) -> (usize, usize) {
        (self.rows, self.bytes)
    }

    fn bytes(&self, tables: &Tables, key: EntryKey) -> usize {
        given_bytes(tables, &in_line(tables, key))
    }

    fn settle(&self, _tables: &mut Tables, _key: EntryKey) -> bool {
        true
    }

    fn take(&mut self, tables: &mut Tables, key: EntryKey) {
        let task = in_line(tables, key);
        self.rows += 1;
        self.bytes += given_bytes(tables, &task);
        let is_of_session = tables.tasks.edit(&place(&task), |row| {
            let is_of_session = row.session.is_some();
            row.route = if is_of_session { ROUTE_OPEN } else { ROUTE_ANY }.to_owned();
            is_of_session
        });
        if is_of_session.expect("it waits") {
            // The next request routes it.
            self.look_again_at(tables.now_ms);
        } else {
            self.acquired.tasks.push(take(tables, &self.request.worker, task));
        }
    }

    fn look_again_at(&mut self, at_ms: i64) {
        self.acquired.look_again_at(at_ms);
    }

    fn want_slots(&mut self) {
        self.acquired.slots_wanted = true;
    }
}

fn in_line(tables: &Tables, key: EntryKey) -> TaskName {
    let row = tables.queue_places.get(&key).expect("it is in line");
    row.task.expect("no orchestration has the version of attempts")
}

/// Returns the bytes of the data that an attempt is given.
fn given_bytes(tables: &Tables, task: &TaskName) -> usize {
    let place = place(task);
    let scheduled = tables.history.get(&place).map_or(0, EventRecord::bytes);
    scheduled + tables.heartbeats.get(&place).map_or(0, |kept| kept.details.len())
}

fn take(tables: &mut Tables, worker: &WorkerId, task: TaskName) -> Task {
    let (place, now_ms) = (place(&task), tables.now_ms);
    let mut is_late = false;
    let row = (tables.tasks)
        .edit(&place, |row| {
            row.worker = Some(worker.clone());
            is_late = row.start_by_ms.is_some_and(|at_ms| at_ms <= now_ms);
            if is_late {
                row.start_within_ms = Some(0);
            }
            row.clone()
        })
        .expect("it waits");
    if let Some(of_session) = row.session {
        activity_sessions::used(tables, &(row.queue, of_session));
    }
    let instance = tables.instance(task.key).expect("a task goes with its instance");
    let scheduled = tables.history.get(&place);
    let started = tables.history.get(&(task.key, task.execution, EventId::FIRST));
    Task {
        task,
        instance_id: instance.id.clone(),
        orchestration: instance.name.clone(),
        version: instance.version.clone(),
        tags: instance.tags.clone(),
        started: started.and_then(|event| event.meta.clone()),
        name: row.name,
        input: scheduled.and_then(|event| event.payload.clone()),
        options: scheduled.and_then(|event| event.meta.clone()),
        deadline_ms: row.deadline_ms,
        start_by_ms: row.start_by_ms,
        is_late,
        last_heartbeat: tables.heartbeats.get(&place).map(|kept| kept.details.clone()),
    }
}

/// Notes names of activities. Returns all names that were ever noted.
pub(crate) fn know(tables: &mut Tables, names: Vec<String>) -> Vec<String> {
    tables.activities.extend(names);
    tables.activities.iter().cloned().collect()
}

/// Returns the tasks that a worker runs.
pub(crate) fn of_worker(tables: &Tables, worker: &WorkerId) -> Vec<TaskName> {
    let rows = tables.tasks.iter().map(|(_, row)| row);
    let own = rows.filter(|row| row.worker.as_ref() == Some(worker));
    own.map(|row| row.task).collect()
}

/// Removes a task, and its place in the queue. Returns its row, if there was one.
pub(crate) fn remove(tables: &mut Tables, place: &EventKey) -> Option<TaskRow> {
    let row = tables.tasks.get(place)?.clone();
    tables.tasks.remove(place);
    if let Some(key) = row.place_key.filter(|_| !is_planted(Bug::EndedAttemptKeepsPlace)) {
        queues::leave(tables, key);
    }
    Some(row)
}

/// Removes all tasks of an instance. Returns their rows.
pub(crate) fn remove_all(tables: &mut Tables, key: InstanceKey) -> Vec<TaskRow> {
    let places: Vec<EventKey> = tables.tasks.range(of_instance(key)).map(|(place, _)| *place).collect();
    places.iter().filter_map(|place| remove(tables, place)).collect()
}

/// Returns a task of a worker to its queue.
pub(crate) fn release_one(tables: &mut Tables, ReleaseTask { worker, task }: &ReleaseTask) -> Outcome {
    let is_own = |row: &TaskRow| row.task == *task && row.worker.as_ref() == Some(worker);
    if !tables.tasks.get(&place(task)).is_some_and(is_own) {
        return Outcome::Fenced;
    }
    give_back(tables, task);
    Outcome::Noted
}

/// Returns all tasks of a worker to their queues, except those that it keeps.
pub(crate) fn release(tables: &mut Tables, worker: &WorkerId, kept: &[TaskName]) {
    for task in of_worker(tables, worker) {
        if !kept.contains(&task) {
            give_back(tables, &task);
        }
    }
}

/// Returns a task to its queue, where it waits anew (P28).
fn give_back(tables: &mut Tables, task: &TaskName) {
    let now_ms = tables.now_ms;
    tables.tasks.edit(&place(task), |row| {
        row.worker = None;
        row.start_by_ms = start_by_ms(row.due_at_ms.max(now_ms), row.start_within_ms, row.deadline_ms);
    });
}
