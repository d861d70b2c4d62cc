//! `TestStore`: a store in memory with a clock of its own, for `perdure/testing`.
//!
//! Each operation is done within its call, on the thread that calls.

use std::sync::{Arc, Weak};

use napi_derive::napi;
use parking_lot::Mutex;
use perdure_engine::{EventId, ExecutionId};
use perdure_provider_memory::MemoryStore;
use perdure_runtime::{Machine, Runtime, VirtualTime};

use crate::errors::argument;
use crate::runtime::NativeRuntime;
use crate::store::Store;

/// A store in memory, and the time that passes for its users.
#[napi]
pub struct TestStore {
    /// `None` once it is closed.
    time: Option<VirtualTime>,
    machine: Arc<dyn Machine>,
    memory: Arc<MemoryStore>,
    store: Arc<perdure_runtime::Store>,
    crash: Arc<Crash>,
}

/// The planned crash of a runtime, if there is one.
#[derive(Default)]
struct Crash(Mutex<Option<PlannedFault>>);

struct PlannedFault {
    runtime: Weak<Runtime>,
    instance: String,
    after: (ExecutionId, EventId),
}

impl Crash {
    /// Crashes the runtime if the planned event is in the batch that was written.
    fn crash_if_due(&self, memory: &MemoryStore) {
        let mut planned = self.0.lock();
        let is_due = |planned: &mut PlannedFault| {
            memory
                .last_event(&planned.instance)
                .is_some_and(|last| last >= planned.after)
        };
        let runtime = planned.take_if(is_due).and_then(|planned| planned.runtime.upgrade());
        drop(planned);
        if let Some(runtime) = runtime {
            runtime.crash();
        }
    }
}

#[napi]
impl TestStore {
    /// Creates an empty store, whose clock shows `now_ms`.
    #[napi(constructor)]
    pub fn new(now_ms: f64, seed: f64) -> napi::Result<Self> {
        let time = VirtualTime::new(now_ms as i64, seed as u64)
            .map_err(|error| napi::Error::from_reason(format!("a test's store could not be made: {error}")))?;
        let machine = time.machine();
        let memory = MemoryStore::new(machine.clone());
        let provider = {
            let _tasks = time.handle().enter();
            memory.connect()
        };
        let crash = Arc::<Crash>::default();
        let (looks, written) = (Arc::clone(&crash), Arc::downgrade(&memory));
        memory.before_answers(Box::new(move || {
            if let Some(memory) = written.upgrade() {
                looks.crash_if_due(&memory);
            }
        }));
        let store = perdure_runtime::Store::new(provider, machine.clone(), time.handle().clone());
        Ok(Self {
            time: Some(time),
            machine,
            memory,
            store,
            crash,
        })
    }

    /// Returns the store, for runtimes and clients.
    #[napi]
    pub fn store(&self) -> Store {
        Store::on(Arc::clone(&self.store))
    }

    /// Time of the clock, ms since 1970.
    #[napi]
    pub fn now_ms(&self) -> f64 {
        self.machine.now_ms() as f64
    }

    /// Lets all work go on that needs no JavaScript. `true`: nothing waits for JavaScript, neither a job nor a reply of
    /// `store`.
    #[napi]
    pub fn settle(&self, store: &Store, runtime: &NativeRuntime) -> napi::Result<bool> {
        self.time()?.settle();
        Ok(store.replies.is_empty() && runtime.inner.is_idle())
    }

    /// Sets the clock forward.
    #[napi]
    pub fn set(&self, to_ms: f64) -> napi::Result<()> {
        self.time()?.set(to_ms as i64);
        Ok(())
    }

    /// Due time of a runtime's next timer, ms since 1970.
    #[napi]
    pub fn next_due_ms(&self, runtime: &NativeRuntime) -> Option<f64> {
        runtime.inner.next_due_ms().map(|at_ms| at_ms as f64)
    }

    /// Crashes a runtime now.
    #[napi]
    pub fn crash(&self, runtime: &NativeRuntime) {
        runtime.inner.crash();
    }

    /// Crashes a runtime when an event of an instance is stored, before the event has any effect.
    #[napi]
    pub fn crash_after(&self, runtime: &NativeRuntime, instance: String, execution: f64, event: f64) {
        *self.crash.0.lock() = Some(PlannedFault {
            runtime: Arc::downgrade(&runtime.inner),
            instance,
            after: (ExecutionId(execution as u64), EventId(event as u64)),
        });
        // The event may already be stored.
        self.crash.crash_if_due(&self.memory);
    }

    /// True if a planned crash is still to come.
    #[napi]
    pub fn is_crash_planned(&self) -> bool {
        self.crash.0.lock().is_some()
    }

    /// Drops all work that still waits here. Time does not pass any more afterwards.
    #[napi]
    pub fn close(&mut self) {
        self.time = None;
    }

    fn time(&self) -> napi::Result<&VirtualTime> {
        self.time
            .as_ref()
            .ok_or_else(|| argument("the test's store is closed".to_owned()))
    }
}
