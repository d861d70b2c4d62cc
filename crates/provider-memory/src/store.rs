//! The store itself, which several handles share as several processes share a database.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use perdure_engine::{EventId, EventRecord, ExecutionId};
use perdure_provider::{Change, Clock, ProviderError};

use crate::change_notifier::ChangeNotifier;
use crate::history;
use crate::provider::MemoryProvider;
use crate::rows::InstanceRow;
use crate::snapshot::Snapshot;
use crate::tables::{Tables, of_execution};

/// A store in memory. It exists as long as the store or a handle on it is held.
pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    tables: Mutex<Tables>,
    /// The wakers of the open handles, in the order in which the handles were opened.
    wakers: Mutex<Vec<Arc<ChangeNotifier>>>,
    before_answers: OnceLock<BeforeAnswers>,
}

/// The callback that is told that a batch was written, or was not, before its caller is told.
pub type BeforeAnswers = Box<dyn Fn() + Send + Sync>;

impl MemoryStore {
    /// Creates an empty store. Leases and due times are compared with this clock alone (P9).
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            clock,
            tables: Mutex::default(),
            wakers: Mutex::default(),
            before_answers: OnceLock::new(),
        })
    }

    /// Opens a handle on the store, as one process has one.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime, because the answers of the handle are given in that runtime.
    #[must_use]
    pub fn connect(self: &Arc<Self>) -> Arc<MemoryProvider> {
        MemoryProvider::connect(self)
    }

    /// Calls `listener` from now on before each answer to a batch. At that moment the writes are kept and no effect of
    /// them has reached the caller: a process may die there. Only one listener can be set, and it is not told whose
    /// batch it is.
    pub fn before_answers(&self, listener: BeforeAnswers) {
        let is_first = self.before_answers.set(listener).is_ok();
        debug_assert!(is_first, "one listener is enough for all that is written");
    }

    pub(crate) fn answers(&self) {
        if let Some(listener) = self.before_answers.get() {
            listener();
        }
    }

    /// Returns the current execution of an instance and its last event.
    #[must_use]
    pub fn last_event(&self, id: &str) -> Option<(ExecutionId, EventId)> {
        let tables = self.tables.lock();
        let row = tables.find(id)?;
        Some((row.execution, EventId(row.next_event_id.0 - 1)))
    }

    /// Returns everything that is stored now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::of(&self.tables.lock(), self.clock.now_ms())
    }

    /// Changes the row of an instance without any notification, as damage or a person with a console of the database
    /// would: no handle is told, no other table follows, and the columns may contradict each other. Only the key must
    /// stay. Returns `None` if no instance has that id.
    pub fn edit_instance<T>(&self, id: &str, change: impl FnOnce(&mut InstanceRow) -> T) -> Option<T> {
        self.transaction(|tables| {
            let key = tables.find(id)?.key;
            Some(tables.edit_unchecked(key, change))
        })
    }

    /// Changes the history of an instance's current execution without any notification, as
    /// [`edit_instance`](Self::edit_instance) does: a standby that took a store's place may have lost the last of its
    /// events. The id of the next event follows. Returns `None` if no instance has that id.
    pub fn edit_history<T>(&self, id: &str, change: impl FnOnce(&mut Vec<EventRecord>) -> T) -> Option<T> {
        self.transaction(|tables| {
            let row = tables.find(id)?;
            let (key, execution) = (row.key, row.execution);
            let range = of_execution(key, execution);
            let events = tables.history.range(range.clone());
            let mut events = events.map(|(_, event)| event.clone()).collect();
            let result = change(&mut events);
            tables.history.remove_range(range);
            for event in &events {
                history::append(tables, key, execution, event);
            }
            if let Some(last) = events.last() {
                tables.edit_unchecked(key, |row| row.next_event_id = last.event_id.next());
            }
            Some(result)
        })
    }

    /// Runs work that cannot be refused.
    pub(crate) fn transaction<T>(&self, work: impl FnOnce(&mut Tables) -> T) -> T {
        let mut tables = self.tables.lock();
        tables.begin(self.clock.now_ms());
        let result = work(&mut tables);
        tables.keep();
        result
    }

    /// Runs work of which nothing stays if it is refused (P1).
    pub(crate) fn try_transaction<T>(
        &self,
        work: impl FnOnce(&mut Tables) -> Result<T, ProviderError>,
    ) -> Result<T, ProviderError> {
        let mut tables = self.tables.lock();
        tables.begin(self.clock.now_ms());
        let result = work(&mut tables);
        if result.is_ok() {
            tables.keep();
        } else {
            tables.take_back();
        }
        result
    }

    pub(crate) fn add_waker(&self, notifier: &Arc<ChangeNotifier>) {
        self.wakers.lock().push(Arc::clone(notifier));
    }

    /// Removes a notifier. Does nothing if the notifier was removed before.
    pub(crate) fn remove_waker(&self, notifier: &Arc<ChangeNotifier>) {
        self.wakers.lock().retain(|other| !Arc::ptr_eq(other, notifier));
    }

    /// Tells every handle but this one.
    pub(crate) fn tell(&self, from: &Arc<ChangeNotifier>, change: &Change) {
        if *change == Change::default() {
            return;
        }
        let wakers = self.wakers.lock();
        for notifier in wakers.iter().filter(|notifier| !Arc::ptr_eq(notifier, from)) {
            notifier.hear(change);
        }
    }
}
