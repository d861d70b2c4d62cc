//! All tables of a store. The operations on them are in the files of their subjects.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use perdure_engine::{EventId, EventRecord, ExecutionId, MessageBody, MessageSeq};
use perdure_provider::{
    ATTEMPT_ENTRIES_FROM, EntryKey, Epoch, InstanceKey, KeyState, LogLine, LogPlace, QueueState, StateValue, Takeover,
    WorkerId,
};

use crate::indexes::Indexes;
use crate::rows::{
    AskKey, AskRow, ChunkKey, ChunkRow, InstanceRow, KeptHeartbeat, QueuePlaceRow, SessionKey, SessionRow, StartKey,
    StartKeyRow, StreamKey, StreamRow, TaskRow, ValueKey, WorkerRow, WriterKey, WriterRow,
};
use crate::table::{Journal, Table};

/// Key of a row that belongs to an execution: an event of its history, or a row of the activity that this event
/// scheduled.
pub(crate) type EventKey = (InstanceKey, ExecutionId, EventId);

/// The tables, inside of a transaction.
#[derive(Default)]
pub(crate) struct Tables {
    /// The time of the store's clock when the transaction began (P9).
    pub(crate) now_ms: i64,
    instances: Table<InstanceKey, InstanceRow>,
    pub(crate) indexes: Indexes,
    pub(crate) history: Table<EventKey, EventRecord>,
    pub(crate) messages: Table<(InstanceKey, MessageSeq), MessageBody>,
    /// The same messages by number, which is the order in which they came.
    pub(crate) arrivals: Table<MessageSeq, InstanceKey>,
    pub(crate) heartbeats: Table<EventKey, KeptHeartbeat>,
    pub(crate) tasks: Table<EventKey, TaskRow>,
    /// Sessions of activities that workers hold, by queue and name.
    pub(crate) sessions: Table<SessionKey, SessionRow>,
    pub(crate) state: Table<ValueKey, StateValue>,
    pub(crate) asks: Table<AskKey, AskRow>,
    pub(crate) streams: Table<StreamKey, StreamRow>,
    /// The entries of the streams.
    pub(crate) stream_chunks: Table<ChunkKey, ChunkRow>,
    /// The activities that write to the streams.
    pub(crate) stream_writers: Table<WriterKey, WriterRow>,
    pub(crate) queues: Table<String, QueueState>,
    /// The queues that are paused, with the time since which each is, ms since 1970.
    pub(crate) paused_queues: Table<String, i64>,
    /// The places of instances and attempts in queues.
    pub(crate) queue_places: Table<EntryKey, QueuePlaceRow>,
    /// Keys of queues, by queue and key.
    pub(crate) queue_keys: Table<(String, String), KeyState>,
    /// The instances of the keys of starts.
    pub(crate) start_keys: Table<StartKey, StartKeyRow>,
    pub(crate) keys_of_instances: Table<InstanceKey, StartKey>,
    pub(crate) logs: Table<(InstanceKey, LogPlace), LogLine>,
    /// The last takeovers of each instance that lived through any.
    pub(crate) takeovers: Table<InstanceKey, Vec<Takeover>>,
    pub(crate) workers: Table<Arc<str>, WorkerRow>,
    /// Instances that were taken from workers that have not released them yet, with the epoch in which the worker
    /// owned each (P15).
    pub(crate) revocations: Table<(Arc<str>, InstanceKey), Epoch>,
    /// Deleted instances whose history and chunks are still to be swept away.
    pub(crate) deleted: Table<InstanceKey, ()>,
    /// Names of activities that a worker of this store can run, or could.
    pub(crate) activities: BTreeSet<String>,
    last_key: i64,
    /// Number of attempts that were ever in queues.
    attempt_entries: i64,
    last_seq: u64,
}

impl Tables {
    pub(crate) fn begin(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
        // A panic leaves a transaction open, and nothing of it is to stay.
        self.take_back();
    }

    pub(crate) fn keep(&mut self) {
        self.all().for_each(|table| table.keep());
    }

    pub(crate) fn take_back(&mut self) {
        self.all().for_each(|table| table.take_back());
    }

    fn all(&mut self) -> impl Iterator<Item = &mut dyn Journal> {
        let tables: [&mut dyn Journal; 22] = [
            &mut self.instances,
            &mut self.history,
            &mut self.messages,
            &mut self.arrivals,
            &mut self.heartbeats,
            &mut self.tasks,
            &mut self.sessions,
            &mut self.state,
            &mut self.asks,
            &mut self.streams,
            &mut self.stream_chunks,
            &mut self.stream_writers,
            &mut self.queues,
            &mut self.queue_places,
            &mut self.queue_keys,
            &mut self.start_keys,
            &mut self.keys_of_instances,
            &mut self.logs,
            &mut self.takeovers,
            &mut self.workers,
            &mut self.revocations,
            &mut self.deleted,
        ];
        tables.into_iter().chain(self.indexes.tables())
    }

    // ---- instances ----

    pub(crate) fn instance(&self, key: InstanceKey) -> Option<&InstanceRow> {
        self.instances.get(&key)
    }

    pub(crate) fn find(&self, id: &str) -> Option<&InstanceRow> {
        self.instance(*self.indexes.ids.get(id)?)
    }

    /// Returns the instances in order of their keys.
    pub(crate) fn instances(&self) -> impl Iterator<Item = &InstanceRow> {
        self.instances_from(InstanceKey(i64::MIN))
    }

    pub(crate) fn instances_from(&self, key: InstanceKey) -> impl Iterator<Item = &InstanceRow> {
        self.instances.range(key..).map(|(_, row)| row)
    }

    /// Returns the instances that a worker owns, in order of the keys.
    pub(crate) fn owned_by(&self, worker: &WorkerId) -> Vec<InstanceKey> {
        let of = |key| (Arc::clone(&worker.0), InstanceKey(key));
        let owned = self.indexes.owned.range(of(i64::MIN)..=of(i64::MAX));
        owned.map(|((_, key), ())| *key).collect()
    }

    /// Returns the children of an instance that have not ended: all of them, or that of one event of an execution.
    pub(crate) fn children_of(&self, parent: InstanceKey, of: Option<(ExecutionId, EventId)>) -> Vec<InstanceKey> {
        let range = match of {
            None => of_instance(parent),
            Some((execution, event)) => (parent, execution, event)..(parent, execution, event.next()),
        };
        let children = self.indexes.children.range(range).map(|(_, key)| *key);
        let is_open = |key: &InstanceKey| self.instance(*key).is_some_and(|row| !row.status.is_terminal());
        children.filter(is_open).collect()
    }

    /// Returns a key that no instance has or had.
    pub(crate) const fn next_key(&mut self) -> InstanceKey {
        self.last_key += 1;
        InstanceKey(self.last_key)
    }

    pub(crate) fn add_instance(&mut self, row: InstanceRow) {
        row.check();
        assert!(self.instance(row.key).is_none(), "a key is not used again");
        self.indexes.follow(None, Some(&row));
        self.instances.insert(row.key, row);
    }

    /// Changes an existing instance.
    pub(crate) fn edit<T>(&mut self, key: InstanceKey, change: impl FnOnce(&mut InstanceRow) -> T) -> T {
        self.edit_unchecked(key, |row| {
            let result = change(row);
            row.check();
            result
        })
    }

    /// Changes an instance like [`edit`](Self::edit), but without the check, as no code of this crate would.
    pub(crate) fn edit_unchecked<T>(&mut self, key: InstanceKey, change: impl FnOnce(&mut InstanceRow) -> T) -> T {
        let before = self.instances.get(&key).expect("it was found in this transaction");
        let mut after = before.clone();
        let result = change(&mut after);
        assert_eq!(after.key, key, "an instance keeps its key");
        self.indexes.follow(Some(before), Some(&after));
        self.instances.insert(key, after);
        result
    }

    /// Removes the row of an instance. Its other rows are left.
    pub(crate) fn remove_row(&mut self, key: InstanceKey) {
        let row = self.instances.get(&key).expect("it was found in this transaction");
        self.indexes.follow(Some(row), None);
        self.instances.remove(&key);
    }

    // ---- workers ----

    pub(crate) fn is_registered(&self, worker: &WorkerId) -> bool {
        self.workers.contains(&worker.0)
    }

    // ---- queues ----

    /// Returns a key that no attempt in a queue has or had.
    pub(crate) const fn next_attempt_entry(&mut self) -> EntryKey {
        let key = EntryKey(ATTEMPT_ENTRIES_FROM + self.attempt_entries);
        self.attempt_entries += 1;
        key
    }

    // ---- messages ----

    /// Returns the last number that a message got, even if it no longer waits.
    pub(crate) const fn last_seq(&self) -> MessageSeq {
        MessageSeq(self.last_seq)
    }

    /// Adds a message for an instance. The caller adds it to the count of the instance. Numbers rise in the order in
    /// which messages can be read (P5).
    pub(crate) fn add_message(&mut self, key: InstanceKey, body: MessageBody) -> MessageSeq {
        self.last_seq += 1;
        let seq = MessageSeq(self.last_seq);
        self.messages.insert((key, seq), body);
        self.arrivals.insert(seq, key);
        seq
    }

    /// Removes a message. Returns false if it does not wait for this instance.
    pub(crate) fn remove_message(&mut self, key: InstanceKey, seq: MessageSeq) -> bool {
        self.messages.remove(&(key, seq)) && self.arrivals.remove(&seq)
    }

    pub(crate) fn remove_messages(&mut self, key: InstanceKey) {
        let seqs: Vec<MessageSeq> = self.messages_after(key, MessageSeq(0)).map(|(seq, _)| seq).collect();
        for seq in seqs {
            self.remove_message(key, seq);
        }
    }

    /// Returns the messages that wait for an instance and have a higher number than this, in order.
    pub(crate) fn messages_after(
        &self,
        key: InstanceKey,
        seq: MessageSeq,
    ) -> impl DoubleEndedIterator<Item = (MessageSeq, &MessageBody)> {
        let last = MessageSeq(u64::MAX);
        let after = MessageSeq(seq.0.saturating_add(1));
        self.messages
            .range((key, after)..=(key, last))
            .map(|((_, seq), body)| (*seq, body))
    }
}

/// Returns the range of all rows of an instance.
pub(crate) const fn of_instance(key: InstanceKey) -> Range<EventKey> {
    (key, ExecutionId(0), EventId(0))..(InstanceKey(key.0 + 1), ExecutionId(0), EventId(0))
}

/// Returns the range of all rows of an execution.
pub(crate) const fn of_execution(key: InstanceKey, execution: ExecutionId) -> Range<EventKey> {
    (key, execution, EventId(0))..(key, execution.next(), EventId(0))
}
