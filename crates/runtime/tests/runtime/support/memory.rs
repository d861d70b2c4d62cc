//! The store in memory, under the control of a test: its calls fail, wait and are refused when the test says so, and
//! its rows can be changed. `rows.rs` reads its rows.

use std::collections::{HashMap, HashSet, VecDeque};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use perdure_engine::{EventRecord, Mailbox, MessageBody};
use perdure_provider::{
    Change, ChangeListener, Clock, CommitDone, InstanceKey, Load, NewMessage, NewWorker, Newest, Outcome, PageLimit,
    Probation, ProbationStep, Provider, ProviderError, ProviderErrorKind, Queues, SessionLimits, Task, TaskRequest,
    WorkerId, Write,
};
use perdure_provider_memory::{InstanceRow, MemoryProvider, MemoryStore};
use tokio::sync::Notify;

/// Calls that a test can let fail or hold back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Call {
    Commit,
    Register,
    AnnounceVersions,
    Renew,
    Owned,
    Release,
    /// The answer of this call is lost when it fails.
    TakeOver,
    ReleaseMost,
    /// The release request, held before it reaches the store.
    ReleaseRequest,
    Acquire,
    Load,
    History,
    Inbox,
    Tasks,
    ResumeMismatched,
    Messages,
    Statuses,
    List,
    Prune,
    Sweep,
}

type Held = (Arc<Vec<Write>>, CommitDone);
type Refuse = Box<dyn Fn(&Write) -> bool + Send>;

#[derive(Default)]
struct Control {
    faults: HashMap<Call, VecDeque<ProviderError>>,
    panics: HashSet<Call>,
    held: HashSet<Call>,
    held_commits: VecDeque<Held>,
    refusal: Option<(ProviderErrorKind, Refuse)>,
    answers_at_once: bool,
    batches: Vec<usize>,
    heartbeat_writes: usize,
    renewals: Vec<Option<String>>,
    history_reads: usize,
    lists_of_owned: usize,
    lists_of_tasks: usize,
    probations: usize,
    /// An instance that takes down each process that loads it.
    poison: Option<InstanceKey>,
    /// An instance that is too large to be loaded.
    unloadable: Option<(InstanceKey, ProviderErrorKind)>,
    /// The most bytes of histories that were loaded together.
    loaded_bytes_max: usize,
    closed: bool,
}

/// The store.
pub(crate) struct Memory {
    pub(super) concurrent: usize,
    pub(super) store: Arc<MemoryStore>,
    /// The handle of the runtimes under test.
    pub(super) provider: Arc<MemoryProvider>,
    /// The handle of other processes.
    others: Arc<MemoryProvider>,
    /// Hears of the changes that [`send`](Self::send) makes.
    listener: Mutex<Option<ChangeListener>>,
    control: Mutex<Control>,
    resumed: Notify,
}

impl Memory {
    pub(crate) fn new(clock: Arc<dyn Clock>, concurrent: usize) -> Arc<Self> {
        let store = MemoryStore::new(clock);
        Arc::new(Self {
            concurrent,
            provider: store.connect(),
            others: store.connect(),
            listener: Mutex::default(),
            store,
            control: Mutex::default(),
            resumed: Notify::new(),
        })
    }

    // ---- what a test says ----

    /// Lets the next `times` calls fail.
    pub(crate) fn fail(&self, call: Call, kind: ProviderErrorKind, times: usize) {
        let mut control = self.control.lock();
        let faults = control.faults.entry(call).or_default();
        faults.extend(std::iter::repeat_n(planned(kind), times));
    }

    /// Lets the next call fail without telling if it wrote.
    pub(crate) fn fail_unknown(&self, call: Call, kind: ProviderErrorKind) {
        let mut control = self.control.lock();
        control
            .faults
            .entry(call)
            .or_default()
            .push_back(planned(kind).of_unknown_outcome());
    }

    /// Lets the next call panic, as a defect would.
    pub(crate) fn panic_at(&self, call: Call) {
        self.control.lock().panics.insert(call);
    }

    /// Returns how often the instances and tasks that a worker owns were listed.
    pub(crate) fn lists_of_owned(&self) -> usize {
        self.control.lock().lists_of_owned
    }

    /// Returns how often the tasks of a worker were listed.
    pub(crate) fn lists_of_tasks(&self) -> usize {
        self.control.lock().lists_of_tasks
    }

    pub(super) fn note_list_of_tasks(&self) {
        self.control.lock().lists_of_tasks += 1;
    }

    /// Refuses for good each batch in which `refusal` is true of a write.
    pub(crate) fn refuse(&self, refusal: impl Fn(&Write) -> bool + Send + 'static) {
        self.fail_those(ProviderErrorKind::Internal, refusal);
    }

    /// Lets each batch fail with `kind` in which `which` is true of a write.
    pub(crate) fn fail_those(&self, kind: ProviderErrorKind, which: impl Fn(&Write) -> bool + Send + 'static) {
        self.control.lock().refusal = Some((kind, Box::new(which)));
    }

    /// Lets each load of this instance stay without an answer, as if the loading process was gone.
    pub(crate) fn poison(&self, key: InstanceKey) {
        self.control.lock().poison = Some(key);
    }

    /// Lets a load of this instance fail, and that of others together with it.
    pub(crate) fn fail_load_of(&self, key: InstanceKey, kind: ProviderErrorKind) {
        self.control.lock().unloadable = Some((key, kind));
    }

    pub(super) fn is_poison(&self, load: &Load) -> bool {
        let poison = self.control.lock().poison;
        load.instances.iter().any(|one| Some(one.key) == poison)
    }

    /// Returns the kind of error with which a load fails, if it does.
    pub(super) fn failure_of(&self, load: &Load) -> Option<ProviderErrorKind> {
        let (key, kind) = self.control.lock().unloadable?;
        load.instances.iter().any(|one| one.key == key).then_some(kind)
    }

    pub(super) fn note_load(&self, bytes: usize) {
        let mut control = self.control.lock();
        control.loaded_bytes_max = control.loaded_bytes_max.max(bytes);
    }

    /// Returns the most bytes of histories that were loaded together.
    pub(crate) fn loaded_bytes_max(&self) -> usize {
        self.control.lock().loaded_bytes_max
    }

    /// Holds the answers of a call back (commits are held before they are written).
    pub(crate) fn hold(&self, call: Call) {
        self.control.lock().held.insert(call);
    }

    /// Lets the answers of a call go, and no longer holds them back.
    pub(crate) fn resume(&self, call: Call) {
        let commits = {
            let mut control = self.control.lock();
            control.held.remove(&call);
            if call == Call::Commit {
                std::mem::take(&mut control.held_commits)
            } else {
                VecDeque::new()
            }
        };
        self.resumed.notify_waiters();
        for (batch, done) in commits {
            self.write_batch(batch, done);
        }
    }

    /// Writes one batch that is held back and returns its answer, to be given later.
    pub(crate) fn write_held(&self) -> impl FnOnce() + use<> {
        let (batch, done) = self.control.lock().held_commits.pop_front().expect("a batch is held");
        let result = self.write(&batch);
        move || done(result)
    }

    /// Takes a batch that is held back, to be written later.
    pub(crate) fn take_held(self: &Arc<Self>) -> impl FnOnce() + use<> {
        let (batch, done) = self.control.lock().held_commits.pop_front().expect("a batch is held");
        let this = Arc::clone(self);
        move || this.write_batch(batch, done)
    }

    /// Answers commits within the call, which no store does that keeps its contract.
    pub(crate) fn answer_at_once(&self) {
        self.control.lock().answers_at_once = true;
    }

    /// Changes the row of an instance, as another process would.
    pub(crate) fn row<T>(&self, id: &str, change: impl FnOnce(&mut InstanceRow) -> T) -> T {
        self.store.edit_instance(id, change).expect("the instance is there")
    }

    /// Changes the history of an instance's current execution.
    pub(crate) fn history<T>(&self, id: &str, change: impl FnOnce(&mut Vec<EventRecord>) -> T) -> T {
        self.store.edit_history(id, change).expect("the instance is there")
    }

    /// Lets the store forget the last events of an instance, like a store that was replaced by a standby that lags
    /// behind.
    pub(crate) fn lose_events(&self, id: &str, count: usize) {
        self.history(id, |events| events.truncate(events.len() - count));
    }

    /// Takes over a worker that has died, as another process would.
    pub(crate) fn bury_worker(&self, worker: &str) {
        at_once(self.others.take_over_worker(&WorkerId(worker.into()), "it died")).expect("it is open");
    }

    /// Sends an event to an instance, as another process would.
    pub(crate) fn send(&self, id: &str, event: &str) {
        let message = NewMessage {
            instance: id.into(),
            body: MessageBody::Mail {
                mailbox: Mailbox::Event(event.into()),
                payload: None,
            },
            unread_max: None,
            time_ms: 0,
        };
        let outcomes = self.others.write(&[Write::Message(message)]).expect("it is open");
        assert!(matches!(outcomes[..], [Outcome::Delivered { .. }]), "{outcomes:?}");
        let change = Change {
            work: true,
            ..Change::default()
        };
        self.listener.lock().iter().for_each(|listener| listener(&change));
    }

    pub(super) fn listen(&self, listener: ChangeListener) {
        *self.listener.lock() = Some(listener);
    }

    /// Adds a worker of another process.
    pub(crate) fn add_worker(&self, worker: &str) {
        self.add_worker_for(worker, u64::MAX);
    }

    /// Adds a worker of another process, whose lease ends after `lease_ms`.
    pub(crate) fn add_worker_for(&self, worker: &str, lease_ms: u64) {
        let worker = NewWorker {
            id: WorkerId(worker.into()),
            name: String::new(),
            host: String::new(),
            pid: 1,
            process_start: String::new(),
            lease_ms,
            description: None,
            newest: Newest::default(),
        };
        at_once(self.others.register_worker(worker)).expect("it is open");
    }

    /// Takes the tasks of one name from a queue, as another process would.
    pub(crate) fn take_tasks(&self, worker: &str, queue: &str, name: &str) -> Vec<Task> {
        let request = TaskRequest {
            worker: WorkerId(worker.into()),
            queues: Queues::Named(vec![queue.to_owned()]),
            names: vec![name.to_owned()],
            limit: PageLimit {
                rows: usize::MAX,
                bytes: usize::MAX,
            },
            sessions: SessionLimits {
                max: usize::MAX,
                idle_ms: 1_000,
            },
        };
        at_once(self.others.acquire_tasks(request)).expect("it is open").tasks
    }

    pub(crate) fn remove_worker(&self, worker: &str) {
        at_once(self.others.release_worker(&WorkerId(worker.into()))).expect("it is open");
    }

    /// Returns how often details of heartbeats were written.
    pub(crate) fn heartbeat_writes(&self) -> usize {
        self.control.lock().heartbeat_writes
    }

    /// Returns the workers' reports about themselves, one entry for each renewal of a lease.
    pub(crate) fn renewals(&self) -> Vec<Option<String>> {
        self.control.lock().renewals.clone()
    }

    pub(super) fn note_renewal(&self, description: Option<&str>) {
        self.control.lock().renewals.push(description.map(str::to_owned));
    }

    /// Returns the number of probations that were announced.
    pub(crate) fn probations(&self) -> usize {
        self.control.lock().probations
    }

    /// Returns the number of pages of histories that were requested.
    pub(crate) fn history_reads(&self) -> usize {
        self.control.lock().history_reads
    }

    /// Returns the sizes of the batches that were handed over.
    pub(crate) fn batches(&self) -> Vec<usize> {
        self.control.lock().batches.clone()
    }

    // ---- what its calls do ----

    /// Begins a call, unless it is to fail.
    pub(super) fn enter(&self, call: Call) -> Result<(), ProviderError> {
        let mut control = self.control.lock();
        control.history_reads += usize::from(call == Call::History);
        control.lists_of_owned += usize::from(call == Call::Owned);
        if control.panics.remove(&call) {
            drop(control);
            panic!("planned");
        }
        if control.closed {
            return Err(planned(ProviderErrorKind::Closed));
        }
        let fault = control.faults.get_mut(&call).and_then(VecDeque::pop_front);
        fault.map_or(Ok(()), Err)
    }

    /// Waits for as long as the answers of a call are held back.
    pub(super) async fn leave(&self, call: Call) {
        loop {
            let resumed = self.resumed.notified();
            if !self.control.lock().held.contains(&call) {
                return;
            }
            resumed.await;
        }
    }

    pub(super) fn hand_over(&self, batch: Arc<Vec<Write>>, done: CommitDone) {
        let at_once = {
            let mut control = self.control.lock();
            control.batches.push(batch.len());
            if control.held.contains(&Call::Commit) {
                return control.held_commits.push_back((batch, done));
            }
            control.answers_at_once
        };
        if at_once {
            return self.write_batch(batch, done);
        }
        // The answer comes later; the batch is written now, so that batches keep their order.
        let result = self.try_write(&batch);
        drop(batch);
        tokio::spawn(async move { done(result) });
    }

    fn write_batch(&self, batch: Arc<Vec<Write>>, done: CommitDone) {
        let result = self.try_write(&batch);
        drop(batch);
        done(result);
    }

    fn try_write(&self, batch: &[Write]) -> Result<Vec<Outcome>, ProviderError> {
        self.enter(Call::Commit)?;
        if let Some((kind, refusal)) = &self.control.lock().refusal
            && batch.iter().any(refusal)
        {
            return Err(planned(*kind));
        }
        self.write(batch)
    }

    fn write(&self, batch: &[Write]) -> Result<Vec<Outcome>, ProviderError> {
        let outcomes = self.provider.write(batch)?;
        let mut control = self.control.lock();
        for (write, _) in batch
            .iter()
            .zip(&outcomes)
            .filter(|(_, outcome)| **outcome == Outcome::Noted)
        {
            match write {
                Write::Heartbeat(_) => control.heartbeat_writes += 1,
                Write::Probation(Probation {
                    step: ProbationStep::Alone | ProbationStep::WithOthers,
                    ..
                }) => control.probations += 1,
                _ => {}
            }
        }
        Ok(outcomes)
    }

    pub(super) fn refuse_all(&self) {
        self.control.lock().closed = true;
    }
}

pub(super) fn planned(kind: ProviderErrorKind) -> ProviderError {
    ProviderError::new(kind, "planned")
}

/// True if the message stands for a row that cannot be read: an event of this name.
pub(super) fn is_damaged(body: &MessageBody) -> bool {
    matches!(body, MessageBody::Mail { mailbox: Mailbox::Event(name), .. } if name == "damaged")
}

/// Returns the answer of a call of the store in memory, which waits for nothing.
fn at_once<T>(call: impl Future<Output = T>) -> T {
    match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("it waits for nothing"),
    }
}
