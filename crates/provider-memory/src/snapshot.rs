//! All of a store at one moment, for whoever checks what it came to.

use std::sync::Arc;

use perdure_engine::{EventId, EventRecord, ExecutionId, MessageBody, MessageSeq};
use perdure_provider::{InstanceKey, Revoked, WorkerId};

use crate::rows::{InstanceRow, TaskRow, WorkerRow};
use crate::tables::Tables;

/// Everything that a store holds, each part in order of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// What the store's clock showed, ms since 1970.
    pub now_ms: i64,
    /// Instances.
    pub instances: Vec<InstanceRow>,
    /// Histories of their executions, the former ones among them, and of deleted instances what was not swept away yet.
    pub executions: Vec<ExecutionRow>,
    /// Messages that wait, by instance and number.
    pub messages: Vec<MessageRow>,
    /// Kept details of heartbeats.
    pub heartbeats: Vec<HeartbeatRow>,
    /// Attempts that wait for a worker or are run by one.
    pub tasks: Vec<TaskRow>,
    /// Registered workers with their leases.
    pub workers: Vec<WorkerRow>,
    /// What was taken from workers that have not let go of it yet.
    pub revocations: Vec<(WorkerId, Revoked)>,
    /// Names of activities that anybody ever could run.
    pub activities: Vec<String>,
    /// Deleted instances that were not swept yet.
    pub deleted: Vec<InstanceKey>,
    /// The last number that a message got.
    pub last_seq: MessageSeq,
}

/// An execution with its history, or what was not pruned of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutionRow {
    /// Its instance.
    pub key: InstanceKey,
    /// Which one.
    pub execution: ExecutionId,
    /// Its history.
    pub events: Vec<EventRecord>,
}

/// A message that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageRow {
    /// The instance that it waits for.
    pub key: InstanceKey,
    /// Its number.
    pub seq: MessageSeq,
    /// What it says.
    pub body: MessageBody,
}

/// What an activity told last of its progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeartbeatRow {
    /// Its instance.
    pub key: InstanceKey,
    /// Its execution.
    pub execution: ExecutionId,
    /// The event that scheduled it.
    pub scheduled: EventId,
    /// The details.
    pub details: String,
}

impl Snapshot {
    pub(crate) fn of(tables: &Tables, now_ms: i64) -> Self {
        let messages = tables.messages.iter().map(|((key, seq), body)| MessageRow {
            key: *key,
            seq: *seq,
            body: body.clone(),
        });
        let heartbeats = tables.heartbeats.iter();
        let heartbeats = heartbeats.map(|((key, execution, scheduled), details)| HeartbeatRow {
            key: *key,
            execution: *execution,
            scheduled: *scheduled,
            details: details.clone(),
        });
        let revocations = tables.revocations.iter().map(|((worker, key), epoch)| {
            let revoked = Revoked {
                key: *key,
                epoch: *epoch,
            };
            (WorkerId(Arc::clone(worker)), revoked)
        });
        Self {
            now_ms,
            instances: tables.instances().cloned().collect(),
            executions: executions(tables),
            messages: messages.collect(),
            heartbeats: heartbeats.collect(),
            tasks: tables.tasks.iter().map(|(_, row)| row.clone()).collect(),
            workers: tables.workers.iter().map(|(_, row)| row.clone()).collect(),
            revocations: revocations.collect(),
            activities: tables.activities.iter().cloned().collect(),
            deleted: tables.deleted.iter().map(|(key, ())| *key).collect(),
            last_seq: tables.last_seq(),
        }
    }

    /// The instance of an id.
    #[must_use]
    pub fn instance(&self, id: &str) -> Option<&InstanceRow> {
        self.instances.iter().find(|row| row.id == id)
    }

    /// The executions of an instance, in order.
    pub fn executions_of(&self, key: InstanceKey) -> impl Iterator<Item = &ExecutionRow> {
        self.executions.iter().filter(move |row| row.key == key)
    }

    /// The history of an instance's current execution; of one that is not here, nothing.
    #[must_use]
    pub fn history(&self, id: &str) -> &[EventRecord] {
        let current = self.instance(id).and_then(|instance| {
            let mut executions = self.executions_of(instance.key);
            executions.find(|row| row.execution == instance.execution)
        });
        current.map_or(&[], |row| &row.events)
    }
}

fn executions(tables: &Tables) -> Vec<ExecutionRow> {
    let mut rows: Vec<ExecutionRow> = Vec::new();
    for ((key, execution, _), event) in tables.history.iter() {
        match rows.last_mut() {
            Some(row) if (row.key, row.execution) == (*key, *execution) => row.events.push(event.clone()),
            _ => rows.push(ExecutionRow {
                key: *key,
                execution: *execution,
                events: vec![event.clone()],
            }),
        }
    }
    rows
}
