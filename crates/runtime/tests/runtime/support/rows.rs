//! The rows of the store, as a test reads them.

use perdure_engine::{EventId, EventRecord, ExecutionId};
use perdure_provider::{ProbationStep, Status, Suspicion, WorkerId};

use super::Memory;

/// An instance with its histories.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) version: String,
    pub(crate) owner: Option<WorkerId>,
    pub(crate) epoch: u64,
    pub(crate) wake_at_ms: Option<i64>,
    pub(crate) status: Status,
    pub(crate) next_event_id: EventId,
    pub(crate) turns: u64,
    pub(crate) execution: ExecutionId,
    /// The history of the current execution.
    pub(crate) history: Vec<EventRecord>,
    /// The histories of the executions before.
    pub(crate) former: Vec<Vec<EventRecord>>,
    pub(crate) report: Option<String>,
    pub(crate) mismatched_code: Option<String>,
    pub(crate) suspicion: Suspicion,
    pub(crate) on_probation: ProbationStep,
}

impl Memory {
    pub(crate) fn get(&self, id: &str) -> Row {
        let snapshot = self.store.snapshot();
        let row = snapshot.instance(id).expect("the instance is there").clone();
        let mut former: Vec<Vec<EventRecord>> = vec![Vec::new(); row.execution.0 as usize];
        for execution in snapshot.executions_of(row.key) {
            former[execution.execution.0 as usize - 1].clone_from(&execution.events);
        }
        let history = former.pop().expect("it has a current execution");
        Row {
            version: row.version,
            owner: row.owner,
            epoch: row.epoch.0,
            wake_at_ms: row.wake_at_ms,
            status: row.status,
            next_event_id: row.next_event_id,
            turns: row.turns,
            execution: row.execution,
            history,
            former,
            report: row.report,
            mismatched_code: row.mismatched_code,
            suspicion: row.suspicion,
            on_probation: row.probation,
        }
    }

    /// Returns the number of messages that wait for an instance.
    pub(crate) fn waiting(&self, id: &str) -> usize {
        let snapshot = self.store.snapshot();
        let key = snapshot.instance(id).expect("the instance is there").key;
        snapshot.messages.iter().filter(|message| message.key == key).count()
    }

    /// Returns the details of heartbeats that are kept.
    pub(crate) fn heartbeats(&self) -> Vec<String> {
        let kept = self.store.snapshot().heartbeats;
        kept.into_iter().map(|kept| kept.details).collect()
    }

    /// Returns the number of events of deleted instances that are not swept away.
    pub(crate) fn unswept(&self) -> usize {
        let snapshot = self.store.snapshot();
        let deleted = snapshot.deleted.iter();
        deleted
            .flat_map(|key| snapshot.executions_of(*key))
            .map(|execution| execution.events.len())
            .sum()
    }

    /// Returns the number of tasks that wait for a worker.
    pub(crate) fn waiting_tasks(&self) -> usize {
        let tasks = self.store.snapshot().tasks;
        tasks.iter().filter(|task| task.worker.is_none()).count()
    }

    pub(crate) fn workers_len(&self) -> usize {
        self.store.snapshot().workers.len()
    }
}
