//! Queues of instances and of attempts: limits that hold over all workers of a store (P24, P27).

use serde_json::{Map, Value, json};

use crate::{InstanceKey, Rate};

/// Most queues of a store.
pub const QUEUES_MAX: usize = 1_000;

/// The first key of an attempt in a queue. Instances have smaller keys.
pub const ATTEMPT_ENTRIES_FROM: i64 = 1 << 62;

/// The version that the rows of attempts in queues have. No orchestration has it.
pub const ATTEMPT_VERSION: &str = "\u{7f}";

/// The key of an entry of a queue: that of an instance, or a number of its own for an attempt
/// ([`ATTEMPT_ENTRIES_FROM`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryKey(pub i64);

impl EntryKey {
    /// Returns true if the entry is an attempt.
    #[must_use]
    pub const fn is_attempt(self) -> bool {
        self.0 >= ATTEMPT_ENTRIES_FROM
    }

    /// Returns the key of the instance. `None`: the entry is an attempt.
    #[must_use]
    pub const fn instance(self) -> Option<InstanceKey> {
        if self.is_attempt() {
            None
        } else {
            Some(InstanceKey(self.0))
        }
    }
}

impl From<InstanceKey> for EntryKey {
    fn from(key: InstanceKey) -> Self {
        Self(key.0)
    }
}

/// The queue and the key of a new instance, or of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueEntry {
    /// Name of the queue.
    pub queue: String,
    /// Key in the queue; empty: there is none.
    pub key: String,
}

/// The limits of a queue, for its entries: instances and attempts. A limit that is `None` does not hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueSettings {
    /// Most entries that have a slot at once, at least 1.
    pub concurrency: Option<u32>,
    /// Most entries with a slot that a worker owns when it takes another one, at least 1.
    pub per_worker: Option<u32>,
    /// Most entries that get a slot in a span of time.
    pub rate: Option<Rate>,
    /// Most entries of one key that have a slot at once, at least 1.
    pub key_concurrency: Option<u32>,
    /// Most entries of one key that get a slot in a span of time.
    pub key_rate: Option<Rate>,
    /// True if keys take turns among the waiting entries of one priority. Otherwise the first come is the first
    /// served.
    pub is_fair: bool,
}

impl QueueSettings {
    /// Returns the JSON text.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut object = Map::new();
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                object.insert(name.to_owned(), value);
            }
        };
        let rate = |rate: Option<Rate>| rate.map(|rate| json!([rate.limit, rate.per_ms]));
        put("concurrency", self.concurrency.map(Value::from));
        put("perWorker", self.per_worker.map(Value::from));
        put("rate", rate(self.rate));
        put("keyConcurrency", self.key_concurrency.map(Value::from));
        put("keyRate", rate(self.key_rate));
        put("fair", self.is_fair.then_some(Value::Bool(true)));
        Value::Object(object).to_string()
    }

    /// Reads a text. `None` if another program has changed it, so that it is no such text.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let object = serde_json::from_str::<Map<String, Value>>(text).ok()?;
        let number = |name: &str| -> Option<Option<u32>> {
            let Some(value) = object.get(name) else {
                return Some(None);
            };
            let number = u32::try_from(value.as_u64()?).ok()?;
            (number > 0).then_some(Some(number))
        };
        let rate = |name: &str| -> Option<Option<Rate>> {
            let Some(value) = object.get(name) else {
                return Some(None);
            };
            let [limit, per_ms] = value.as_array()?.as_slice() else {
                return None;
            };
            let limit = u32::try_from(limit.as_u64()?).ok()?;
            let per_ms = per_ms.as_u64()?;
            (limit > 0 && per_ms > 0).then_some(Some(Rate { limit, per_ms }))
        };
        Some(Self {
            concurrency: number("concurrency")?,
            per_worker: number("perWorker")?,
            rate: rate("rate")?,
            key_concurrency: number("keyConcurrency")?,
            key_rate: rate("keyRate")?,
            is_fair: object.get("fair") == Some(&Value::Bool(true)),
        })
    }

    /// Returns true if the slots that are taken matter to the next admission.
    #[must_use]
    pub const fn counts_slots(&self) -> bool {
        self.concurrency.is_some() || self.per_worker.is_some() || self.key_concurrency.is_some()
    }

    /// Returns true if keys have limits of their own.
    #[must_use]
    pub const fn limits_keys(&self) -> bool {
        self.key_concurrency.is_some() || self.key_rate.is_some()
    }
}

/// A queue, as clients see it. Its numbers count instances and attempts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueInfo {
    /// Name of the queue.
    pub name: String,
    /// Its limits.
    pub settings: QueueSettings,
    /// Since when the queue is paused, ms since 1970; `None`: it is not.
    pub paused_at_ms: Option<i64>,
    /// Entries that wait for a slot, or are suspended before they have one.
    pub waiting: u64,
    /// Entries whose time has not come.
    pub delayed: u64,
    /// Entries that have a slot.
    pub running: u64,
    /// Number of entries that the rate allows now; `None`: there is no rate.
    pub tokens: Option<u32>,
    /// When the entry that waits longest began to wait, ms since 1970; `None`: none waits.
    pub oldest_ms: Option<i64>,
}

/// The outcome of the deletion of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueDeletion {
    /// The queue is gone.
    Deleted,
    /// There is no such queue.
    NotFound,
    /// Entries wait in the queue, or have a slot of it. Nothing changed.
    InUse {
        /// Entries that wait, for a slot or for their time.
        waiting: u64,
        /// Entries that have a slot.
        running: u64,
    },
}

/// The state of an entry in its queue, as a row keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueuePlace {
    /// The entry is in line.
    Waits = 0,
    /// The entry waits behind others of its key, which had no slot or no token when the entry was first in line.
    Held = 1,
    /// The entry has a slot.
    Slot = 2,
    /// The time of the entry has not come.
    Delayed = 3,
    /// The instance was suspended before it had a slot.
    Suspended = 4,
}

impl QueuePlace {
    /// Returns the number that stores keep.
    #[must_use]
    pub const fn number(self) -> i64 {
        self as i64
    }

    /// Returns the place of a number. A number that another program has written is taken for the last one.
    #[must_use]
    pub const fn of(number: i64) -> Self {
        match number {
            0 => Self::Waits,
            1 => Self::Held,
            2 => Self::Slot,
            3 => Self::Delayed,
            _ => Self::Suspended,
        }
    }
}

/// An instance or an attempt in line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The instance or the attempt.
    pub entry: EntryKey,
    /// Its key in the queue; empty: it has none.
    pub key: String,
    /// An entry of a higher priority gets a slot first.
    pub priority: i32,
    /// The round in which its key gets this slot; 0 if keys do not take turns.
    pub turn: i64,
    /// When it began to wait, ms since 1970.
    pub queued_at_ms: i64,
}

impl Waiting {
    /// Returns what the order of the line is by.
    #[must_use]
    pub fn rank(&self) -> impl Ord + use<> {
        let first = (std::cmp::Reverse(self.priority), self.turn);
        (first, self.queued_at_ms, self.entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_they_were_written() {
        let settings = QueueSettings {
            concurrency: Some(20),
            per_worker: Some(5),
            rate: Some(Rate {
                limit: 50,
                per_ms: 1_000,
            }),
            key_concurrency: Some(2),
            key_rate: Some(Rate {
                limit: 1,
                per_ms: 864_000_000,
            }),
            is_fair: true,
        };
        assert_eq!(QueueSettings::read(&settings.to_text()), Some(settings));
        assert_eq!(QueueSettings::read("{}"), Some(QueueSettings::default()));
        assert_eq!(QueueSettings::default().to_text(), "{}");
    }

    #[test]
    fn settings_that_another_program_broke_are_none() {
        for text in ["", "[]", r#"{"concurrency":0}"#, r#"{"rate":[5]}"#, r#"{"rate":[5,0]}"#] {
            assert_eq!(QueueSettings::read(text), None, "{text}");
        }
    }
}
