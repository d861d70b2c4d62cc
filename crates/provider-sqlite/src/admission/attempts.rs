//! Attempts as entries of queues (P27).

use perdure_provider::{
    ATTEMPT_VERSION, AcquiredTasks, EntryKey, PageLimit, ROUTE_ANY, ROUTE_OPEN, TaskName, TaskRequest, WorkerId,
};
use rusqlite::params;

use super::{Answer, Request};
use crate::error::Failure;
use crate::rows::integer;
use crate::session::Session;
use crate::tasks;
use crate::tasks::due::task_name;

impl Request for TaskRequest {
    fn worker(&self) -> &WorkerId {
        &self.worker
    }

    fn limit(&self) -> PageLimit {
        self.limit
    }

    fn serves(&self, queue: &str) -> bool {
        self.queues.serve(queue)
    }

    fn can_run(&self, (name, version): &(String, String)) -> bool {
        version == ATTEMPT_VERSION && self.names.contains(name)
    }
}

impl Answer for AcquiredTasks {
    type Request = TaskRequest;

    fn rows(&self) -> usize {
        self.tasks.len()
    }

    fn bytes(&self) -> usize {
        self.tasks.iter().map(perdure_provider::Task::given_bytes).sum()
    }

    fn size(session: &Session<'_>, _: &TaskRequest, entry: EntryKey) -> Result<usize, Failure> {
        let (task, _) = of_entry(session, entry)?;
        session.query_one(
            "SELECT coalesce(octet_length(h.payload), 0) + coalesce(octet_length(h.meta), 0)
               + coalesce(octet_length(b.details), 0)
             FROM history h LEFT JOIN heartbeats b
               ON b.instance_key = h.instance_key AND b.execution = h.execution AND b.event_id = h.event_id
             WHERE h.instance_key = ?1 AND h.execution = ?2 AND h.event_id = ?3",
            params![task.key.0, integer(task.execution.0), integer(task.scheduled.0)],
            |row| crate::rows::number(row, 0).map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
        )
    }

    /// The version of an attempt is never open.
    fn settle(_: &Session<'_>, _: &TaskRequest, _: EntryKey) -> Result<bool, Failure> {
        Ok(true)
    }

    fn take(
        &mut self,
        session: &mut Session<'_>,
        request: &TaskRequest,
        entries: &[(EntryKey, usize)],
    ) -> Result<(), Failure> {
        for &(entry, _) in entries {
            let (task, has_session) = of_entry(session, entry)?;
            let route = if has_session { ROUTE_OPEN } else { ROUTE_ANY };
            session.execute(
                "UPDATE tasks SET route = ?2 WHERE place_key = ?1",
                params![entry.0, route],
            )?;
            if has_session {
                // The next request finds the worker of the session.
                self.look_again_at(session.now_ms());
            } else {
                self.tasks.extend(tasks::take(session, &request.worker, task)?);
            }
        }
        Ok(())
    }

    fn look_again_at(&mut self, at_ms: i64) {
        Self::look_again_at(self, at_ms);
    }

    fn want_slots(&mut self) {
        self.slots_wanted = true;
    }
}

/// Returns the attempt that has a place, and true if it is of a session.
fn of_entry(session: &Session<'_>, entry: EntryKey) -> Result<(TaskName, bool), Failure> {
    session.query_one(
        "SELECT instance_key, execution, event_id, attempt, session IS NOT NULL FROM tasks WHERE place_key = ?1",
        params![entry.0],
        |row| Ok((task_name(row, 0)?, row.get(4)?)),
    )
}
