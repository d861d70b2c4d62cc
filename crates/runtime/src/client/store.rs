//! A store as one process uses it: its committer, its waits, and the operations of clients that start, wait and
//! terminate. The other operations are in `sending.rs`, `suspension.rs`, `reading.rs` and `housekeeping.rs`.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use perdure_engine::{
    Admission, Bug, EventId, EventRecord, ExecutionStarted, Mailbox, Payload, StartConflict, StateValues, TimeLimit,
    TraceContext, is_planted,
};
use perdure_provider::{
    AnswerListener, Change, Clock, Epoch, InstanceKey, InstanceStatus, NewInstance, OPEN_VERSION, OnConflict, Outcome,
    Provider, ProviderError, ProviderErrorKind, QueueEntry, StartTime, Terminate, WorkerId, Write,
};
use tokio::runtime::Handle;

use crate::client::abandoning::Deletions;
use crate::client::pending_wake::PendingWake;
use crate::client::sending::MessagesUnderWay;
use crate::client::watch::{Asks, Awaiting, Instances, Streams, WaitId, Watch};
use crate::commit::committer::{Committer, Patience, WriteDone};
use crate::error::RuntimeError;
use crate::platform::machine::{Machine, new_start};
use crate::platform::store_clock::StoreClock;

/// The callback that receives the answer of a client operation. It is called on any thread and must not block.
pub type Reply<T> = Box<dyn FnOnce(Result<T, RuntimeError>) + Send>;

/// No acquisition has a later epoch: an instance that has ended is not acquired again.
const NEVER_AGAIN: Epoch = Epoch(u64::MAX);

/// A client's request to start an instance.
#[derive(Clone, Debug)]
pub struct StartRequest {
    /// Id of the instance.
    pub id: String,
    /// Name of the orchestration.
    pub name: String,
    /// Version of the orchestration; `None`: the highest that is registered in this process, or else
    /// [open](OPEN_VERSION).
    pub version: Option<String>,
    /// Its input.
    pub input: Payload,
    /// Tags as a JSON object of strings.
    pub tags: Option<String>,
    /// Instances with a higher priority are acquired first.
    pub priority: i32,
    /// Trace context of the start.
    pub trace: TraceContext,
    /// Behaviour when the id is in use.
    pub conflict: StartConflict,
    /// When, and through which queue, the instance comes to run; `None`: at once.
    pub admission: Option<Box<Admission>>,
}

/// Returns the queue and the start time of an admission for the store, and the time limit for the first event.
pub(crate) fn parts_of_admission(
    admission: Option<Box<Admission>>,
) -> (Option<QueueEntry>, StartTime, Option<TimeLimit>) {
    let admission = admission.map(|admission| *admission).unwrap_or_default();
    let time_limit = admission.time_limit();
    let Admission {
        queue,
        key,
        delay_ms,
        start_at_ms,
        ..
    } = admission;
    let queue = queue.map(|queue| QueueEntry {
        queue,
        key: key.unwrap_or_default(),
    });
    let due = match (delay_ms, start_at_ms) {
        (Some(delay_ms), _) => StartTime::After(delay_ms),
        (None, Some(at_ms)) => StartTime::At(at_ms),
        (None, None) => StartTime::Now,
    };
    (queue, due, time_limit)
}

/// Returns the reaction of the store to a start whose id is in use.
pub(crate) const fn of_store(conflict: StartConflict) -> OnConflict {
    match conflict {
        StartConflict::Error | StartConflict::Return => OnConflict::Keep,
        StartConflict::RestartIfTerminal | StartConflict::ReturnOrRestart => OnConflict::RestartIfTerminal,
        StartConflict::RestartIfFailed => OnConflict::RestartIfFailed,
        StartConflict::TerminateAndRestart => OnConflict::TerminateAndRestart,
    }
}

/// A worker of this process, as its store sees it.
pub(crate) trait LocalWorker: Send + Sync {
    fn worker(&self) -> &WorkerId;
    /// Returns true if the worker can run a new instance and has a place for it.
    fn can_take(&self, new: &NewInstance) -> bool;
    fn highest_version(&self, name: &str) -> Option<String>;
    /// Starts an instance, which is this worker's from the first moment. `done` receives the outcome.
    fn start(self: Arc<Self>, new: Box<NewInstance>, done: WriteDone);
    /// Returns true if a message for a mailbox may be handed to an instance that sleeps in the store.
    fn can_wake(&self, id: &str, mailbox: &Mailbox) -> bool;
    /// Hands a message to a sleeping instance. The wake is given up if the instance cannot be woken any more.
    fn wake(self: Arc<Self>, id: &str, wake: PendingWake);
    /// Returns true if the worker's thread is held up. All workers of a store share that thread.
    fn is_held_up(&self) -> bool;
    /// Returns true if an instance is among the worker's own.
    fn runs(&self, id: &str) -> bool;
    /// Takes an instance away if the worker acquired it in this epoch or before. The instance was terminated, or
    /// suspended from outside.
    fn revoke(self: Arc<Self>, key: InstanceKey, until: Epoch);
    /// Looks for messages, which may have come for the worker's instances.
    fn look_for_messages(&self);
    /// Looks at the worker's lease, which may be gone.
    fn look_at_lease(&self);
    /// Looks for instances that may be due.
    fn look_for_work(&self);
    /// Looks for instances, and for tasks, if some wait for a slot: an instance or a task has ended, which may have had
    /// one.
    fn slot_may_be_free(&self);
    /// Looks for tasks that may have been offered or withdrawn.
    fn look_at_tasks(&self);
}

/// An opened store.
pub struct Store {
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) machine: Arc<dyn Machine>,
    pub(crate) clock: Arc<StoreClock>,
    pub(crate) tokio: Handle,
    pub(crate) committer: Arc<Committer>,
    /// Waits for instances.
    pub(crate) watch: Arc<Watch<Instances>>,
    /// Waits for answers to asks.
    pub(crate) asks: Arc<Watch<Asks>>,
    /// Waits for entries of streams.
    pub(crate) streams: Arc<Watch<Streams>>,
    pub(crate) deletions: Arc<Deletions>,
    pub(crate) messages: MessagesUnderWay,
    workers: Mutex<Vec<Weak<dyn LocalWorker>>>,
    watching: [tokio::task::JoinHandle<()>; 3],
}

impl Store {
    /// Uses an opened provider on a machine. The work of the store runs in tasks of `tokio`.
    pub fn new(provider: Arc<dyn Provider>, machine: Arc<dyn Machine>, tokio: Handle) -> Arc<Self> {
        let (watch, asks) = (Arc::new(Watch::default()), Arc::new(Watch::default()));
        let streams: Arc<Watch<Streams>> = Arc::default();
        let store = Arc::new(Self {
            committer: Committer::new(Arc::clone(&provider), tokio.clone()),
            watching: [
                tokio.spawn(Arc::clone(&watch).run(Arc::clone(&provider))),
                tokio.spawn(Arc::clone(&asks).run(Arc::clone(&provider))),
                tokio.spawn(Arc::clone(&streams).run(Arc::clone(&provider))),
            ],
            watch,
            asks,
            streams,
            deletions: Arc::default(),
            messages: MessagesUnderWay::default(),
            workers: Mutex::default(),
            provider,
            clock: Arc::new(StoreClock::new(machine.clone())),
            machine,
            tokio,
        });
        let weak = Arc::downgrade(&store);
        store.provider.on_foreign_change(Box::new(move |change| {
            if let Some(store) = weak.upgrade() {
                store.changed(change);
            }
        }));
        store
    }

    /// Registers a listener that is called when the answer to a waiting request is about to be told. See
    /// [`Provider::on_answer_coming`].
    pub fn on_answer_coming(&self, listener: AnswerListener) {
        self.provider.on_answer_coming(listener);
    }

    /// Tells the watch and the workers what another process has changed in the store.
    fn changed(&self, change: &Change) {
        if change.statuses {
            self.mark_all_changed();
        } else if change.streams {
            self.streams.mark_all_changed();
        }
        for worker in self.workers() {
            if change.is_for(worker.worker()) {
                worker.look_for_messages();
            }
            if change.leases {
                worker.look_at_lease();
            }
            if change.work {
                worker.look_for_work();
            }
            if change.tasks {
                worker.look_at_tasks();
                // A task that has ended elsewhere may have had a slot that instances wait for.
                worker.slot_may_be_free();
            }
        }
    }

    pub(crate) fn attach(&self, worker: &Arc<dyn LocalWorker>) {
        self.workers.lock().push(Arc::downgrade(worker));
    }

    pub(crate) fn detach(&self, worker: &WorkerId) {
        self.workers
            .lock()
            .retain(|w| w.upgrade().is_some_and(|w| w.worker() != worker));
    }

    pub(crate) fn workers(&self) -> Vec<Arc<dyn LocalWorker>> {
        self.workers.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Returns true if the thread of the store's workers is held up.
    pub(crate) fn is_held_up(&self) -> bool {
        self.workers().iter().any(|worker| worker.is_held_up())
    }

    /// Returns true if a worker is attached to this store.
    pub(crate) fn has_worker(&self, worker: &WorkerId) -> bool {
        self.workers().iter().any(|local| local.worker() == worker)
    }

    /// Returns true if a runtime of this process uses the store.
    #[must_use]
    pub fn in_use(&self) -> bool {
        !self.workers().is_empty()
    }

    /// Starts an instance. If a runtime of this process can run the instance, the instance is that runtime's from the
    /// first moment.
    pub fn start(self: &Arc<Self>, request: StartRequest, reply: Reply<()>) {
        let reply = if is_planted(Bug::AnswerBeforeCommit) {
            reply(Ok(()));
            Box::new(|_| {})
        } else {
            reply
        };
        let (id, conflict) = (request.id.clone(), request.conflict);
        let new = self.new_instance(request);
        let queue = new.queue.clone();
        // A worker may still run the instance that is replaced, and learns of that after the commit.
        let may_terminate = conflict == StartConflict::TerminateAndRestart;
        let may_claim = !may_terminate && new.may_be_claimed();
        let mut workers = self.workers().into_iter().filter(|_| may_claim);
        let worker = workers.find(|worker| worker.can_take(&new));
        let this = Arc::clone(self);
        let done: WriteDone = Box::new(move |answer| match answer {
            Ok(started @ Outcome::Started { .. }) => {
                this.started(&started);
                reply(Ok(()));
            }
            refused => reply(not_started(refused.map_err(RuntimeError::from), &id, conflict, queue)),
        });
        match worker {
            Some(worker) => worker.start(new, done),
            None => self.committer.submit(Write::Start(new), Patience::Limited, done),
        }
    }

    /// Returns the instance that a request starts.
    pub(crate) fn new_instance(&self, request: StartRequest) -> Box<NewInstance> {
        let StartRequest {
            id,
            name,
            version,
            input,
            tags,
            priority,
            trace,
            conflict,
            admission,
        } = request;
        let (queue, due, time_limit) = parts_of_admission(admission);
        let version = version.unwrap_or_else(|| self.version_to_start(&name));
        let (seed, incarnation) = new_start(&*self.machine);
        let started = ExecutionStarted {
            name: name.clone(),
            version: version.clone(),
            input,
            seed,
            incarnation: Some(incarnation),
            parent: None,
            custom_status: None,
            state: StateValues::new(),
            closed_streams: Default::default(),
            time_limit,
            trace,
        };
        let first_event = EventRecord::new(EventId::FIRST, self.clock.now_ms(), started);
        Box::new(NewInstance {
            id,
            name,
            version,
            first_event,
            parent_id: None,
            tags,
            priority,
            claim: None,
            first_turn: None,
            on_conflict: of_store(conflict),
            queue,
            due,
        })
    }

    /// Follows up on a start: gives up the instance that it has replaced or asked to cancel, and tells workers of the
    /// new one.
    pub(crate) fn started(&self, outcome: &Outcome) {
        match outcome.terminated() {
            Some(Outcome::Terminated {
                key,
                owner,
                receivers,
                stopped,
            }) => {
                self.revoke(*key, NEVER_AGAIN, owner.as_ref());
                self.ended_from_outside(receivers, !stopped.is_empty());
            }
            Some(Outcome::Delivered { owner, .. }) => self.notify_receivers(std::slice::from_ref(owner)),
            _ => {}
        }
        if let Outcome::Started { claimed: None, .. } = outcome {
            self.work_is_due();
        }
    }

    /// Returns the version that an instance of an orchestration gets if its start names none: the highest that is
    /// registered in this process, or else [open](OPEN_VERSION) until a worker comes by it.
    #[must_use]
    pub fn version_to_start(&self, name: &str) -> String {
        let workers = self.workers();
        let highest = workers.iter().find_map(|worker| worker.highest_version(name));
        highest.unwrap_or_else(|| OPEN_VERSION.to_owned())
    }

    /// Ends an instance at once, regardless of its owner. An instance that has ended already stays as it is.
    pub fn terminate(self: &Arc<Self>, id: String, reason: Payload, reply: Reply<()>) {
        let write = Write::Terminate(Terminate {
            id: id.clone(),
            reason,
            time_ms: self.clock.now_ms(),
        });
        let this = Arc::clone(self);
        self.write(write, move |outcome| match outcome {
            Ok(Outcome::Terminated {
                key,
                owner,
                receivers,
                stopped,
            }) => {
                this.revoke(key, NEVER_AGAIN, owner.as_ref());
                this.ended_from_outside(&receivers, !stopped.is_empty());
                reply(Ok(()));
            }
            Ok(Outcome::NotFound) => reply(Err(RuntimeError::InstanceNotFound { id })),
            Ok(Outcome::Ended { .. }) => reply(Ok(())),
            other => reply(Err(unexpected(other))),
        });
    }

    /// Tells workers and waiters that a client has ended an instance. `stops` is true if other workers run attempts
    /// that no instance waits for any more.
    pub(crate) fn ended_from_outside(&self, receivers: &[Option<WorkerId>], stops: bool) {
        self.notify_receivers(receivers);
        if stops {
            self.look_at_tasks();
        }
        // Suspended children ended with the instance.
        self.mark_all_changed();
    }

    /// Marks an instance, its asks and its streams, that clients of this process may wait for: it may have changed.
    pub(crate) fn mark_changed(&self, id: &String) {
        self.watch.mark_changed(id);
        self.asks.mark_asks_of(id);
        self.streams.mark_streams_of(id);
    }

    /// Marks all instances, asks and streams that clients of this process wait for.
    pub(crate) fn mark_all_changed(&self) {
        self.watch.mark_all_changed();
        self.asks.mark_all_changed();
        self.streams.mark_all_changed();
        self.slot_may_be_free();
    }

    /// Tells workers that an instance or a task has ended, which may have had a slot of a queue.
    pub(crate) fn slot_may_be_free(&self) {
        for worker in self.workers() {
            worker.slot_may_be_free();
        }
    }

    /// Waits until an instance has ended, or its custom status or state has changed. Replies with the status, or with
    /// `InstanceNotFound`.
    pub fn wait(&self, wait: WaitId, id: String, awaiting: Awaiting, reply: Reply<InstanceStatus>) {
        let not_found = RuntimeError::InstanceNotFound { id: id.clone() };
        let done = Box::new(move |answer: Result<Option<InstanceStatus>, _>| {
            reply(answer.and_then(|status| status.ok_or(not_found)));
        });
        self.watch.add(wait, id.clone(), awaiting, done);
        // The end of an instance that runs here will be told. Each step that takes the instance away from here makes
        // its waiters look.
        let will_be_told = awaiting == Awaiting::End && self.workers().iter().any(|worker| worker.runs(&id));
        if !will_be_told {
            self.watch.mark_changed(&id);
        }
    }

    /// Forgets a wait, whose reply never comes, or ends a deletion before its next step.
    pub fn abandon(&self, wait: WaitId) {
        self.watch.remove(wait);
        self.asks.remove(wait);
        self.streams.remove(wait);
        self.deletions.abandon(wait);
    }

    /// Returns the number of deletions that are under way.
    #[must_use]
    pub fn open_deletions(&self) -> usize {
        self.deletions.len()
    }

    /// Closes the store. No runtime may be using it.
    pub fn close(self: &Arc<Self>, reply: Reply<()>) {
        if self.in_use() {
            return reply(Err(RuntimeError::State(
                "the provider is in use: shut down the runtimes of this provider first",
            )));
        }
        let this = Arc::clone(self);
        self.tokio.spawn(async move {
            this.provider.close().await;
            // The remaining waits are told that the store is closed.
            this.mark_all_changed();
            reply(Ok(()));
        });
    }

    /// Tells workers that their instances got messages. `receivers` are the owners of these instances.
    pub(crate) fn notify_receivers(&self, receivers: &[Option<WorkerId>]) {
        if receivers.contains(&None) {
            self.work_is_due();
        }
        for worker in self.workers() {
            if receivers.iter().flatten().any(|owner| owner == worker.worker()) {
                worker.look_for_messages();
            }
        }
    }

    /// Tells workers that an instance has no owner until it is acquired in a later epoch. The former owner finds in its
    /// inbox what it has to release.
    pub(crate) fn revoke(&self, key: InstanceKey, until: Epoch, owner: Option<&WorkerId>) {
        for worker in self.workers() {
            if owner == Some(worker.worker()) {
                worker.look_for_messages();
            }
            worker.revoke(key, until);
        }
    }

    /// Tells workers that tasks were offered or withdrawn.
    pub(crate) fn look_at_tasks(&self) {
        for worker in self.workers() {
            worker.look_at_tasks();
        }
    }

    /// Tells workers that an instance is due.
    pub(crate) fn work_is_due(&self) {
        for worker in self.workers() {
            worker.look_for_work();
        }
    }

    /// Tells workers that instances or tasks of another worker may be due. The provider tells other processes. Nothing
    /// else tells this process.
    pub(crate) fn work_was_released(&self) {
        self.work_is_due();
        self.look_at_tasks();
    }

    /// Tells workers that the thread which they share is no longer held up. Each worker may take work of every kind
    /// again.
    pub(crate) fn takes_work_again(&self) {
        for worker in self.workers() {
            worker.look_for_work();
            worker.look_at_tasks();
            worker.look_for_messages();
        }
    }

    pub(crate) fn write(
        self: &Arc<Self>,
        write: Write,
        done: impl FnOnce(Result<Outcome, RuntimeError>) + Send + 'static,
    ) {
        self.committer.submit(
            write,
            Patience::Limited,
            Box::new(move |answer| done(answer.map_err(RuntimeError::from))),
        );
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        for watching in &self.watching {
            watching.abort();
        }
    }
}

/// Returns the answer to a start that has made no instance: the error, unless the instance that has the id will do.
pub(crate) fn not_started(
    outcome: Result<Outcome, RuntimeError>,
    id: &str,
    conflict: StartConflict,
    queue: Option<QueueEntry>,
) -> Result<(), RuntimeError> {
    Err(match outcome {
        Ok(Outcome::NoQueue) => RuntimeError::QueueNotFound {
            queue: queue.map(|entry| entry.queue).unwrap_or_default(),
        },
        Ok(Outcome::Exists) if conflict.accepts_other() => return Ok(()),
        Ok(Outcome::Exists) => RuntimeError::InstanceExists { id: id.to_owned() },
        other => unexpected(other),
    })
}

pub(crate) fn unexpected(outcome: Result<Outcome, RuntimeError>) -> RuntimeError {
    match outcome {
        Err(error) => error,
        Ok(outcome) => {
            let message = format!("the store answered a write with the unexpected outcome {outcome:?}");
            ProviderError::new(ProviderErrorKind::Internal, message).into()
        }
    }
}
