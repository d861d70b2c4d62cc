//! What a worker is: its id, its lease, its tasks, and its end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use perdure_provider::{Clock, WorkerId};
use perdure_scheduler::Drain;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::log::Level;
use crate::platform::panics::{contained, guarded};
use crate::shared::Shared;
use crate::state::attempt::AbortReason;
use crate::worker::lease::Lease;
use crate::worker::owned::Ownership;
use crate::worker::release_requests::ReleaseRequests;
use crate::worker::slots::Slots;

/// The session of a worker, which ends as a whole.
pub(crate) trait Ends: Send + Sync {
    /// Ends the session and forgets all that it knows.
    fn end(&self, reason: AbortReason);
}

/// One start of a runtime under an id of its own.
pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: WorkerId,
    pub(crate) lease: Lease,
    pub(crate) ownership: Ownership,
    pub(crate) releases: ReleaseRequests,
    /// The time of the next look for due instances, ms since 1970. `None`: no look until something asks for one.
    pub(crate) next_acquire_ms: Mutex<Option<i64>>,
    pub(crate) acquire_wanted: Notify,
    pub(crate) slots: Slots,
    pub(crate) inbox_wanted: Notify,
    pub(crate) renewal_wanted: Notify,
    /// Notified when an orchestration was registered that suspended instances may wait for.
    pub(crate) resume_wanted: Notify,
    /// The number of [operations](Self::begin_operation) of the store that a shutdown waits for.
    begin_operation: Mutex<usize>,
    /// A drain that has begun: the worker takes no new work; see
    /// [`Runtime::begin_shutdown`](crate::Runtime::begin_shutdown).
    pub(crate) draining: Drain,
    session: Weak<dyn Ends>,
    ended: AtomicBool,
    over: Notify,
    /// The tasks of the worker; aborted when it ends.
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

/// An operation of the store that a shutdown waits for. It is over when this is dropped.
pub(crate) struct PendingOperation(Arc<Worker>);

impl Drop for PendingOperation {
    fn drop(&mut self) {
        *self.0.begin_operation.lock() -= 1;
        self.0.draining.tell();
    }
}

impl Worker {
    /// Returns a worker whose registration was asked for at `asked`.
    pub(crate) fn new(shared: Arc<Shared>, id: WorkerId, asked: Instant, session: Weak<dyn Ends>) -> Arc<Self> {
        let lease = Lease::new(shared.options.lease, asked);
        Arc::new(Self {
            shared,
            id,
            lease,
            ownership: Ownership::default(),
            releases: ReleaseRequests::default(),
            next_acquire_ms: Mutex::new(Some(0)),
            acquire_wanted: Notify::new(),
            slots: Slots::default(),
            inbox_wanted: Notify::new(),
            renewal_wanted: Notify::new(),
            resume_wanted: Notify::new(),
            begin_operation: Mutex::default(),
            draining: Drain::default(),
            session,
            ended: AtomicBool::new(false),
            over: Notify::new(),
            tasks: Mutex::default(),
        })
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.shared.clock.now_ms()
    }

    /// True if this worker takes new work at all.
    pub(crate) fn takes_work(&self) -> bool {
        !self.draining.has_begun() && !self.shared.store.is_held_up()
    }

    /// Notes that an instance without an owner is due at a time, or that one that was due already can be run from now
    /// on.
    pub(crate) fn due_at(&self, at_ms: i64) {
        let mut next = self.next_acquire_ms.lock();
        if next.is_none_or(|n| at_ms <= n) {
            *next = Some(at_ms);
            drop(next);
            self.acquire_wanted.notify_one();
        }
    }

    // ---- operations of the store ----

    /// Notes that the store begins an operation that a shutdown waits for, until the returned value is dropped.
    pub(crate) fn begin_operation(self: &Arc<Self>) -> PendingOperation {
        *self.begin_operation.lock() += 1;
        PendingOperation(Arc::clone(self))
    }

    /// Returns the number of operations that the store is at.
    pub(crate) fn pending_operations(&self) -> usize {
        *self.begin_operation.lock()
    }

    // ---- tasks ----

    /// Runs a task of the worker. A panic in it ends the session: the state that it worked on may be half changed, and
    /// another worker goes on from what is stored.
    pub(crate) fn spawn(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        let this = Arc::clone(self);
        self.shared.store.tokio.spawn(async move {
            if let Err(reason) = guarded(work).await {
                this.fail(&reason);
            }
        })
    }

    /// Carries out an answer of the store. A panic in it ends the session, like a panic in one of its tasks.
    pub(crate) fn run_answer(&self, answer: impl FnOnce()) {
        if let Err(reason) = contained(answer) {
            self.fail(&reason);
        }
    }

    /// Ends the session after a panic in its work.
    fn fail(&self, reason: &str) {
        if self.has_ended() {
            return;
        }
        let message = format!(
            "worker {} starts over, because one of its tasks failed; its instances continue from the store. This is a \
             defect of Perdure: {reason}",
            self.id
        );
        self.shared.log(Level::Error, message);
        self.end_session(AbortReason::LeaseLost);
    }

    pub(crate) fn keep_tasks(&self, tasks: Vec<JoinHandle<()>>) {
        let mut kept = self.tasks.lock();
        if self.has_ended() {
            tasks.iter().for_each(JoinHandle::abort);
        } else {
            *kept = tasks;
        }
    }

    // ---- the end ----

    /// Ends the session of the worker and all that it has.
    pub(crate) fn end_session(&self, reason: AbortReason) {
        if let Some(session) = self.session.upgrade() {
            session.end(reason);
        }
    }

    /// Marks the worker as ended and aborts its tasks. The session calls this first when it ends.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.shared.store.detach(&self.id);
        for task in self.tasks.lock().drain(..) {
            task.abort();
        }
    }

    /// Tells the caller of [`over`](Self::over) that nothing of the session can be found any more.
    pub(crate) fn tell_over(&self) {
        self.over.notify_one();
    }

    /// Waits until the session has ended.
    pub(crate) async fn over(&self) {
        self.over.notified().await;
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}
