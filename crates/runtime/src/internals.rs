//! What the tests of this crate see and change beyond the public interface. Nothing else may use it.

use std::sync::Arc;

use perdure_engine::Completion;
use perdure_provider::{Clock, InstanceKey};

use crate::client::store::Store;
use crate::runtime::Runtime;
use crate::session::Session;
use crate::state::attempt::AbortReason;

pub use crate::commit::committer::{Committer, Patience};

/// The limits of queues, caches, batches and retries.
pub mod limits {
    pub use crate::options::{
        BATCH_BYTES_MAX, CACHE_IDLE_EVENTS, CACHE_KEPT, CLIENT_PATIENCE, HEARTBEAT_INTERVAL_MS, HISTORY_PAGE,
        LOAD_BYTES_MAX, MESSAGE_BYTES_HELD_MAX, MESSAGE_PAGE, MESSAGES_HELD_MAX, NO_MEMORY_PATIENCE, PRUNE_BATCH,
        RESUME_BATCH, SEARCHED_MAX, SLOT_SOON, TOGETHER_PATIENCE,
    };
}

/// A session of a runtime, seen from a test. It stays the same session after the runtime has begun another one.
pub struct Inspection(Arc<Session>);

impl Inspection {
    /// Returns the session of a runtime; `None`: the runtime is not started.
    #[must_use]
    pub fn of(runtime: &Runtime) -> Option<Self> {
        runtime.session().map(Self)
    }

    /// Returns the id of the worker.
    #[must_use]
    pub fn worker_id(&self) -> String {
        self.0.worker.id.to_string()
    }

    /// Returns the number of alarms that are set.
    #[must_use]
    pub fn alarms(&self) -> usize {
        self.0.instances.services.alarms.len()
    }

    /// Returns the number of messages of an instance that are in memory; none if the instance is not here.
    #[must_use]
    pub fn held_messages(&self, id: &str) -> usize {
        let table = self.0.instances.table.lock();
        let mut owned = table.owned().filter(|instance| instance.id == id);
        owned.next().map_or(0, |instance| instance.lock().held_messages())
    }

    /// True if no claim is open and nothing is being released.
    #[must_use]
    pub fn owns_what_it_knows(&self) -> bool {
        self.0.worker.ownership.is_at_rest()
    }

    /// True if the instance with this id is owned.
    #[must_use]
    pub fn owns(&self, id: &str) -> bool {
        self.0.instances.table.lock().owns_id(id)
    }

    /// True if the worker takes new work.
    #[must_use]
    pub fn takes_work(&self) -> bool {
        self.0.worker.takes_work()
    }

    /// True if nothing runs and nothing is being committed.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.0.instances.is_drained()
    }

    /// Delivers a message of the inbox.
    pub fn receive(&self, key: InstanceKey, completion: Completion) {
        self.0.instances.receive(key, completion);
    }

    /// Makes the worker read its inbox.
    pub fn look_for_messages(&self) {
        self.0.worker.inbox_wanted.notify_one();
    }

    /// Forgets all tasks as if other workers had them. Returns their number.
    pub fn forget_tasks(&self) -> usize {
        let tasks = self.0.activities.attempts.lock().taken_tasks();
        let count = tasks.len();
        self.0.activities.abort_tasks(tasks, AbortReason::LeaseLost);
        count
    }
}

/// Sets the counters of a runtime's tokens as if as many instances had been loaded, and attempts taken in, as 32 bits
/// can number.
pub fn work_for_years(runtime: &Runtime) {
    runtime.shared.has_worked_for_years();
}

/// Returns the number of waits for the status of an instance.
#[must_use]
pub fn waits(store: &Store) -> usize {
    store.watch.len() + store.asks.len() + store.streams.len()
}

/// Returns the time of a store as it is known here, ms since 1970.
#[must_use]
pub fn now_ms(store: &Store) -> i64 {
    store.clock.now_ms()
}

/// Makes the workers of a store look for instances that are due.
pub fn look_for_work(store: &Store) {
    store.work_is_due();
}

/// Makes the workers of a store look for tasks.
pub fn look_for_tasks(store: &Store) {
    store.look_at_tasks();
}
