//! The tasks of the store in memory.

use std::collections::BTreeMap;

use perdure_engine::{EventId, EventRecord, ExecutionId};
use perdure_provider::{AcquiredTasks, InstanceKey, Task, TaskName, TaskOffer, TaskRequest, WorkerId};

struct Row {
    offer: TaskOffer,
    owner: Option<WorkerId>,
}

/// By instance, execution and schedule.
#[derive(Default)]
pub(super) struct Queues(BTreeMap<(i64, ExecutionId, EventId), Row>);

impl Queues {
    pub(super) fn offer(&mut self, key: i64, execution: ExecutionId, offer: &TaskOffer) {
        let row = Row {
            offer: offer.clone(),
            owner: None,
        };
        let before = self.0.insert((key, execution, offer.scheduled), row);
        assert!(before.is_none(), "an attempt is offered once");
    }

    pub(super) fn withdraw(&mut self, key: i64, execution: ExecutionId, scheduled: EventId) -> Option<WorkerId> {
        self.0.remove(&(key, execution, scheduled)).and_then(|row| row.owner)
    }

    pub(super) fn withdraw_all(&mut self, key: i64) -> Vec<WorkerId> {
        let gone = self.0.extract_if(
            (key, ExecutionId(0), EventId(0))..(key + 1, ExecutionId(0), EventId(0)),
            |_, _| true,
        );
        gone.filter_map(|(_, row)| row.owner).collect()
    }

    pub(super) fn is_run_by(&self, worker: &WorkerId, task: TaskName) -> bool {
        let row = self.0.get(&(task.key.0, task.execution, task.scheduled));
        row.is_some_and(|row| row.owner.as_ref() == Some(worker) && row.offer.attempt == task.attempt)
    }

    pub(super) fn of_instance(&self, key: i64, execution: ExecutionId) -> Vec<EventId> {
        let of = self
            .0
            .range((key, execution, EventId(0))..=(key, execution, EventId(u64::MAX)));
        of.map(|((_, _, scheduled), _)| *scheduled).collect()
    }

    pub(super) fn waiting(&self) -> usize {
        self.0.values().filter(|row| row.owner.is_none()).count()
    }

    pub(super) fn release(&mut self, worker: &WorkerId) {
        for row in self.0.values_mut() {
            row.owner.take_if(|owner| owner == worker);
        }
    }

    pub(super) fn release_but(&mut self, worker: &WorkerId, kept: &[TaskName]) {
        for (at, row) in &mut self.0 {
            if !kept.contains(&name(*at, row)) {
                row.owner.take_if(|owner| owner == worker);
            }
        }
    }

    pub(super) fn of_worker(&self, worker: &WorkerId) -> Vec<TaskName> {
        let of = self.0.iter().filter(|(_, row)| row.owner.as_ref() == Some(worker));
        of.map(|(at, row)| name(*at, row)).collect()
    }

    /// `described` gives an instance's id, orchestration and current history, and the details of heartbeats.
    pub(super) fn acquire(
        &mut self,
        now: i64,
        request: &TaskRequest,
        described: impl Fn(i64, EventId) -> (String, String, EventRecord, Option<String>),
    ) -> AcquiredTasks {
        let mut acquired = AcquiredTasks::default();
        let mut open: Vec<_> = self.0.iter_mut().filter(|(_, row)| row.owner.is_none()).collect();
        open.sort_by_key(|(_, row)| (-row.offer.priority, row.offer.due_at_ms));
        for (at, row) in open {
            if !request.queues.contains(&row.offer.queue) || !request.names.contains(&row.offer.name) {
                continue;
            }
            let due = row.offer.due_at_ms;
            if due > now || acquired.tasks.len() == request.limit {
                acquired.next_due_ms = Some(acquired.next_due_ms.map_or(due, |next| next.min(due)));
                continue;
            }
            row.owner = Some(request.worker.clone());
            let (instance_id, orchestration, scheduled, last_heartbeat) = described(at.0, at.2);
            acquired.tasks.push(Task {
                task: name(*at, row),
                instance_id,
                orchestration,
                name: row.offer.name.clone(),
                input: scheduled.payload,
                options: scheduled.meta,
                deadline_ms: row.offer.deadline_ms,
                last_heartbeat,
            });
        }
        acquired
    }
}

fn name(at: (i64, ExecutionId, EventId), row: &Row) -> TaskName {
    TaskName {
        key: InstanceKey(at.0),
        execution: at.1,
        scheduled: at.2,
        attempt: row.offer.attempt,
    }
}
