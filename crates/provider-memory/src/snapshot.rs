//! A snapshot of a store at one moment, for a test that checks the result.

use std::sync::Arc;

use perdure_engine::{EventId, EventRecord, ExecutionId, MessageBody, MessageSeq};
use perdure_provider::{EntryKey, InstanceKey, Revoked, WorkerId};

use crate::rows::{InstanceRow, QueuePlaceRow, SessionRow, TaskRow, WorkerRow};
use crate::tables::Tables;

/// Everything that a store holds, each part in order of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The time of the store's clock, ms since 1970.
    pub now_ms: i64,
    /// Instances.
    pub instances: Vec<InstanceRow>,
    /// Histories of their executions, the former ones among them, and the histories of deleted instances as far as they
    /// were not swept away yet.
    pub executions: Vec<ExecutionRow>,
    /// Messages that wait, by instance and number.
    pub messages: Vec<MessageRow>,
    /// Kept details of heartbeats.
    pub heartbeats: Vec<HeartbeatRow>,
    /// Attempts that wait for a worker or are run by one.
    pub tasks: Vec<TaskRow>,
    /// Sessions of activities that workers hold.
    pub sessions: Vec<SessionRow>,
    /// The places of attempts in queues, and those of instances, until they have ended or are gone, and a look at the
    /// queue has found that.
    pub queue_places: Vec<(EntryKey, QueuePlaceRow)>,
    /// Registered workers with their leases.
    pub workers: Vec<WorkerRow>,
    /// Instances that were taken from workers that have not released them yet.
    pub revocations: Vec<(WorkerId, Revoked)>,
    /// Names of activities that any worker could ever run.
    pub activities: Vec<String>,
    /// Deleted instances that were not swept yet.
    pub deleted: Vec<InstanceKey>,
    /// The last number that a message got.
    pub last_seq: MessageSeq,
}

/// An execution with its history, or the part of it that was not pruned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutionRow {
    /// Instance of the execution.
    pub key: InstanceKey,
    /// Number of the execution.
    pub execution: ExecutionId,
    /// The events of the execution.
    pub events: Vec<EventRecord>,
}

/// A message that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageRow {
    /// The instance that the message waits for.
    pub key: InstanceKey,
    /// Number of the message.
    pub seq: MessageSeq,
    /// Content of the message.
    pub body: MessageBody,
}

/// The latest heartbeat of an activity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeartbeatRow {
    /// Instance of the activity.
    pub key: InstanceKey,
    /// Execution of the activity.
    pub execution: ExecutionId,
    /// The event that scheduled the activity.
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
        let heartbeats = heartbeats.map(|((key, execution, scheduled), kept)| HeartbeatRow {
            key: *key,
            execution: *execution,
            scheduled: *scheduled,
            details: kept.details.clone(),
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
            sessions: tables.sessions.iter().map(|(_, row)| row.clone()).collect(),
            queue_places: tables
                .queue_places
                .iter()
                .map(|(key, row)| (*key, row.clone()))
                .collect(),
            workers: tables.workers.iter().map(|(_, row)| row.clone()).collect(),
            revocations: revocations.collect(),
            activities: tables.activities.iter().cloned().collect(),
            deleted: tables.deleted.iter().map(|(key, ())| *key).collect(),
            last_seq: tables.last_seq(),
        }
    }

    /// Returns the instance of an id.
    #[must_use]
    pub fn instance(&self, id: &str) -> Option<&InstanceRow> {
        self.instances.iter().find(|row| row.id == id)
    }

    /// Returns the executions of an instance, in order.
    pub fn executions_of(&self, key: InstanceKey) -> impl Iterator<Item = &ExecutionRow> {
        self.executions.iter().filter(move |row| row.key == key)
    }

    /// Returns the history of an instance's current execution; empty if the instance is not in the snapshot.
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
