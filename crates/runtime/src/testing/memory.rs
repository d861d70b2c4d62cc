//! A store in memory, as much of one as the runtime asks for.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use perdure_engine::{
    AttemptResult, ChildFailure, EventId, EventRecord, ExecutionId, Mailbox, Message, MessageBody, MessageSeq, Payload,
    Refusal, Settlement,
};
use perdure_provider::{
    Acquire, Acquired, AcquiredInstance, AcquiredTasks, AfterTurn, Candidate, ChangeListener, Clock, CommitDone,
    Convict, Epoch, GiveBack, GivenBack, Inbox, InboxPosition, InstanceKey, InstanceStatus, ListPage, ListRequest,
    MessagePage, NewInstance, NewMessage, NewWorker, Others, Outcome, Place, Provider, ProviderError,
    ProviderErrorKind, ProviderInfo, PruneExecutions, PruneRequest, Pruned, PrunedExecutions, ResumeUnfit, Status,
    StoreStats, Suspicion, TakenOver, TaskName, TaskRequest, Teller, ToOthers, TrialStep, TurnCommit, Unfit, Worker,
    WorkerId, Write,
};
use tokio::sync::Notify;

use super::queues::Queues;

/// Calls that a test can let fail or hold back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Call {
    Commit,
    Register,
    Renew,
    Release,
    GiveBack,
    Acquire,
    History,
    Inbox,
    Tasks,
    ResumeUnfit,
    Messages,
    Statuses,
    List,
    Prune,
    Sweep,
}

#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) owner: Option<WorkerId>,
    pub(crate) epoch: u64,
    pub(crate) wake_at_ms: Option<i64>,
    pub(crate) status: Status,
    pub(crate) next_event_id: EventId,
    pub(crate) turns: u64,
    pub(crate) execution: ExecutionId,
    pub(crate) history: Vec<EventRecord>,
    /// Histories of the executions before.
    pub(crate) former: Vec<Vec<EventRecord>>,
    pub(crate) report: Option<String>,
    pub(crate) unfit_code: Option<String>,
    pub(crate) custom_status: Payload,
    pub(crate) custom_status_version: u64,
    pub(crate) parent: Option<Parent>,
    pub(crate) created_at_ms: i64,
    pub(crate) suspicion: Suspicion,
    pub(crate) on_trial: TrialStep,
}

impl Row {
    /// Its owner is gone, and so much speaks against it now; `Some`: it is suspended by that.
    fn suspect(&mut self, now: i64, suspicion: Suspicion, report: &str) -> Option<Convict> {
        self.owner = None;
        self.on_trial = TrialStep::End;
        self.suspicion = suspicion;
        if !suspicion.is_enough() {
            self.wake_at_ms = Some(now + suspicion.rest_ms());
            return None;
        }
        self.status = Status::Suspended;
        self.report = Some(report.to_owned());
        Some(Convict {
            id: self.id.clone(),
            name: self.name.clone(),
            version: self.version.clone(),
            execution: self.execution.0,
        })
    }

    fn candidate(&self) -> Candidate<'_> {
        Candidate {
            id: &self.id,
            name: &self.name,
            version: &self.version,
            status: self.status,
            parent_id: None,
            tags: None,
            created_at_ms: self.created_at_ms,
            completed_at_ms: None,
        }
    }

    /// It was suspended.
    fn go_on(&mut self, now: i64) {
        self.status = Status::Running;
        self.wake_at_ms = Some(now);
        self.report = None;
        self.unfit_code = None;
        self.suspicion = Suspicion::default();
    }

    fn seen_by_clients(&self, key: i64) -> InstanceStatus {
        InstanceStatus {
            key: InstanceKey(key),
            id: self.id.clone(),
            name: self.name.clone(),
            version: self.version.clone(),
            execution: self.execution,
            status: self.status,
            result: None,
            custom_status: self.custom_status.clone(),
            custom_status_version: self.custom_status_version,
            created_at_ms: self.created_at_ms,
            updated_at_ms: 0,
            completed_at_ms: None,
            parent_id: None,
            tags: None,
        }
    }
}

type Held = (Arc<Vec<Write>>, CommitDone);
type Refuse = Box<dyn Fn(&Write) -> bool + Send>;

#[derive(Default)]
struct State {
    rows: BTreeMap<i64, Row>,
    messages: BTreeMap<u64, (i64, MessageBody)>,
    /// By instance, execution and schedule.
    heartbeats: BTreeMap<(i64, ExecutionId, EventId), String>,
    queues: Queues,
    heartbeat_writes: usize,
    trials: usize,
    last_key: i64,
    last_seq: u64,
    /// Events of deleted instances.
    unswept: usize,
    workers: HashMap<WorkerId, i64>,
    activities: BTreeSet<String>,
    faults: HashMap<Call, VecDeque<ProviderErrorKind>>,
    held: HashSet<Call>,
    held_commits: VecDeque<Held>,
    refusal: Option<Refuse>,
    answers_at_once: bool,
    batches: Vec<usize>,
    closed: bool,
}

/// The store.
pub(crate) struct Memory {
    clock: Arc<dyn Clock>,
    concurrent: usize,
    state: Mutex<State>,
    let_go: Notify,
}

impl Memory {
    pub(crate) fn new(clock: Arc<dyn Clock>, concurrent: usize) -> Arc<Self> {
        Arc::new(Self {
            clock,
            concurrent,
            state: Mutex::default(),
            let_go: Notify::new(),
        })
    }

    // ---- what a test says ----

    /// The next `times` calls fail.
    pub(crate) fn fail(&self, call: Call, kind: ProviderErrorKind, times: usize) {
        let mut state = self.state.lock();
        state
            .faults
            .entry(call)
            .or_default()
            .extend(std::iter::repeat_n(kind, times));
    }

    /// Refuse for good what a batch says where this is true of one of its writes.
    pub(crate) fn refuse(&self, refusal: impl Fn(&Write) -> bool + Send + 'static) {
        self.state.lock().refusal = Some(Box::new(refusal));
    }

    /// Hold the answers of a call back (commits are held before they are written).
    pub(crate) fn hold(&self, call: Call) {
        self.state.lock().held.insert(call);
    }

    /// Let the answers of a call go, and no longer hold them back.
    pub(crate) fn let_go(&self, call: Call) {
        let commits = {
            let mut state = self.state.lock();
            state.held.remove(&call);
            if call == Call::Commit {
                std::mem::take(&mut state.held_commits)
            } else {
                VecDeque::new()
            }
        };
        self.let_go.notify_waiters();
        for (batch, done) in commits {
            self.write_batch(&batch, done);
        }
    }

    /// Write one batch that is held back and return its answer, to be given later.
    pub(crate) fn write_held(&self) -> impl FnOnce() + use<> {
        let (batch, done) = self.state.lock().held_commits.pop_front().expect("a batch is held");
        let outcomes: Vec<Outcome> = batch.iter().map(|w| self.apply(w)).collect();
        move || done(Ok(outcomes))
    }

    /// Take a batch that is held back, to be written later.
    pub(crate) fn take_held(self: &Arc<Self>) -> impl FnOnce() + use<> {
        let (batch, done) = self.state.lock().held_commits.pop_front().expect("a batch is held");
        let this = Arc::clone(self);
        move || this.write_batch(&batch, done)
    }

    /// Answer commits within the call, as a store does that is closed.
    pub(crate) fn answer_at_once(&self) {
        self.state.lock().answers_at_once = true;
    }

    /// Do what another process did.
    pub(crate) fn row<T>(&self, id: &str, f: impl FnOnce(&mut Row) -> T) -> T {
        let mut state = self.state.lock();
        f(state
            .rows
            .values_mut()
            .find(|r| r.id == id)
            .expect("the instance is there"))
    }

    pub(crate) fn get(&self, id: &str) -> Row {
        self.row(id, |row| row.clone())
    }

    /// How many messages wait for an instance.
    pub(crate) fn waiting(&self, id: &str) -> usize {
        let state = self.state.lock();
        let is_its = |key: &i64| state.rows[key].id == id;
        state.messages.values().filter(|(key, _)| is_its(key)).count()
    }

    /// A worker has died, and another process has found that.
    pub(crate) fn bury_worker(&self, worker: &str) {
        let worker = WorkerId(Arc::from(worker));
        take_over(&mut self.state.lock(), self.clock.now_ms(), &worker, "it died");
    }

    /// Another process has a worker.
    pub(crate) fn add_worker(&self, worker: &str) {
        let worker = WorkerId(Arc::from(worker));
        self.state.lock().workers.insert(worker, i64::MAX);
    }

    pub(crate) fn remove_worker(&self, worker: &str) {
        let mut state = self.state.lock();
        state.workers.retain(|id, _| &*id.0 != worker);
        let now = self.clock.now_ms();
        release(&mut state, now, &WorkerId(Arc::from(worker)));
    }

    /// The details that are kept of heartbeats.
    pub(crate) fn heartbeats(&self) -> Vec<String> {
        self.state.lock().heartbeats.values().cloned().collect()
    }

    /// Events of deleted instances that are not swept away.
    pub(crate) fn unswept(&self) -> usize {
        self.state.lock().unswept
    }

    /// How often details of heartbeats were written.
    pub(crate) fn heartbeat_writes(&self) -> usize {
        self.state.lock().heartbeat_writes
    }

    /// How many turns were announced.
    pub(crate) fn trials(&self) -> usize {
        self.state.lock().trials
    }

    /// The store forgets the last events of an instance, as one does that took a standby's place.
    pub(crate) fn lose_events(&self, id: &str, count: usize) {
        let mut state = self.state.lock();
        let row = state.rows.values_mut().find(|row| row.id == id).expect("it is there");
        row.history.truncate(row.history.len() - count);
        row.next_event_id = EventId(row.next_event_id.0 - count as u64);
    }

    /// Tasks that wait for a worker.
    pub(crate) fn waiting_tasks(&self) -> usize {
        self.state.lock().queues.waiting()
    }

    pub(crate) fn workers_len(&self) -> usize {
        self.state.lock().workers.len()
    }

    /// Sizes of the batches handed over.
    pub(crate) fn batches(&self) -> Vec<usize> {
        self.state.lock().batches.clone()
    }

    // ---- what it does ----

    async fn enter(&self, call: Call) -> Result<(), ProviderError> {
        let fault = {
            let mut state = self.state.lock();
            if state.closed {
                return Err(ProviderError::new(ProviderErrorKind::Closed, "closed"));
            }
            state.faults.get_mut(&call).and_then(VecDeque::pop_front)
        };
        fault.map_or(Ok(()), |kind| Err(ProviderError::new(kind, "planned")))
    }

    /// Wait for as long as the answers of a call are held back.
    async fn leave(&self, call: Call) {
        loop {
            let let_go = self.let_go.notified();
            if !self.state.lock().held.contains(&call) {
                return;
            }
            let_go.await;
        }
    }

    fn write_batch(&self, batch: &Arc<Vec<Write>>, done: CommitDone) {
        let result = {
            let mut state = self.state.lock();
            let fault = state.faults.get_mut(&Call::Commit).and_then(VecDeque::pop_front);
            let refused = state.refusal.as_ref().is_some_and(|refuse| batch.iter().any(refuse));
            let kind = match (state.closed, fault, refused) {
                (true, _, _) => Some(ProviderErrorKind::Closed),
                (_, Some(kind), _) => Some(kind),
                (_, _, true) => Some(ProviderErrorKind::Internal),
                _ => None,
            };
            kind.map_or(Ok(()), |kind| Err(ProviderError::new(kind, "planned")))
        };
        let result = result.map(|()| batch.iter().map(|write| self.apply(write)).collect());
        done(result);
    }

    fn apply(&self, write: &Write) -> Outcome {
        let now = self.clock.now_ms();
        let mut state = self.state.lock();
        let state = &mut *state;
        match write {
            Write::Start(new) => start(state, now, new, None),
            Write::Turn(turn) => commit_turn(state, now, turn),
            Write::Message(new) => send(state, now, new),
            Write::Heartbeat(heartbeat) => {
                let row = &state.rows[&heartbeat.key.0];
                let is_its_own = match heartbeat.by {
                    Teller::Owner(epoch) => {
                        let fence = (row.owner.as_ref(), row.epoch, row.execution);
                        fence == (Some(&heartbeat.worker), epoch.0, heartbeat.execution)
                    }
                    Teller::Runner { attempt } => {
                        let task = TaskName {
                            key: heartbeat.key,
                            execution: heartbeat.execution,
                            scheduled: heartbeat.scheduled,
                            attempt,
                        };
                        state.queues.is_run_by(&heartbeat.worker, task)
                    }
                };
                if !is_its_own {
                    return Outcome::Fenced;
                }
                state.heartbeat_writes += 1;
                let activity = (heartbeat.key.0, heartbeat.execution, heartbeat.scheduled);
                match &heartbeat.details {
                    Some(details) => state.heartbeats.insert(activity, details.clone()),
                    None => state.heartbeats.remove(&activity),
                };
                Outcome::Noted
            }
            Write::TaskDone(done) => {
                let TaskName {
                    key,
                    execution,
                    scheduled,
                    attempt,
                } = done.task;
                if !state.queues.is_run_by(&done.worker, done.task) {
                    return Outcome::Fenced;
                }
                state.queues.withdraw(key.0, execution, scheduled);
                if matches!(done.result, AttemptResult::Completed(_)) {
                    state.heartbeats.remove(&(key.0, execution, scheduled));
                }
                let result = done.result.clone();
                let told = tell(
                    state,
                    now,
                    (key.0, execution, scheduled),
                    Settlement::Attempted { attempt, result },
                );
                Outcome::Told {
                    receivers: told.into_iter().collect(),
                }
            }
            Write::Terminate(terminate) => {
                let Some((key, row)) = state.rows.iter_mut().find(|(_, r)| r.id == terminate.id) else {
                    return Outcome::NotFound;
                };
                let key = *key;
                state.heartbeats.retain(|(of, _, _), _| *of != key);
                row.status = Status::Terminated;
                row.unfit_code = None;
                row.wake_at_ms = None;
                let owner = row.owner.take();
                let settlement = Settlement::Failed(ChildFailure::Terminated, terminate.reason.clone());
                let mut receivers = tell_parent(state, now, key, settlement);
                let children: Vec<i64> = children_of(state, key, |_| true);
                receivers.extend(children.into_iter().map(|child| put(state, now, child, CANCEL)));
                Outcome::Terminated {
                    key: InstanceKey(key),
                    owner,
                    receivers,
                    stopped: state.queues.withdraw_all(key),
                }
            }
            Write::Suspend(suspension) => {
                let Some((key, row)) = state.rows.iter_mut().find(|(_, r)| r.id == suspension.id) else {
                    return Outcome::NotFound;
                };
                if row.status.is_terminal() {
                    return Outcome::Ended { status: row.status };
                }
                if row.status != Status::Suspended {
                    row.status = Status::Suspended;
                    row.report = Some(suspension.report.clone());
                    row.wake_at_ms = None;
                }
                Outcome::Suspended {
                    key: InstanceKey(*key),
                    epoch: Epoch(row.epoch),
                    owner: row.owner.take(),
                }
            }
            Write::Trial(trial) => {
                let row = state.rows.get_mut(&trial.key.0).expect("the instance is there");
                let fence = (row.owner.as_ref(), row.epoch);
                if fence != (Some(&trial.worker), trial.epoch.0) {
                    return Outcome::Fenced;
                }
                row.on_trial = trial.step;
                if trial.step == TrialStep::End {
                    row.suspicion = row.suspicion.after_acquittal();
                } else {
                    state.trials += 1;
                }
                Outcome::Noted
            }
            Write::LetGo(let_go) => {
                let row = state.rows.get_mut(&let_go.key.0).expect("the instance is there");
                if (row.owner.as_ref(), row.epoch) != (Some(&let_go.worker), let_go.epoch.0) {
                    return Outcome::Fenced;
                }
                row.owner = None;
                row.wake_at_ms = Some(now);
                Outcome::Noted
            }
            Write::Delete { id } => {
                let Some((key, row)) = state.rows.iter().find(|(_, r)| r.id == *id) else {
                    return Outcome::NotFound;
                };
                if !row.status.is_terminal() {
                    return Outcome::NotEnded { status: row.status };
                }
                delete(state, *key);
                Outcome::Deleted
            }
            Write::Resume { id, .. } => {
                let Some(row) = state.rows.values_mut().find(|r| r.id == *id) else {
                    return Outcome::NotFound;
                };
                if row.status != Status::Suspended {
                    return Outcome::NotSuspended { status: row.status };
                }
                row.go_on(now);
                Outcome::Resumed
            }
        }
    }
}

const CANCEL: MessageBody = MessageBody::Cancel { reason: None };

/// Put a message into a mailbox; the receiver's owner.
fn put(state: &mut State, now: i64, key: i64, body: MessageBody) -> Option<WorkerId> {
    let row = state.rows.get_mut(&key).expect("the instance is there");
    if row.owner.is_none() && row.status != Status::Suspended {
        row.wake_at_ms = Some(now);
    }
    state.last_seq += 1;
    state.messages.insert(state.last_seq, (key, body));
    row.owner.clone()
}

fn send(state: &mut State, now: i64, new: &NewMessage) -> Outcome {
    let Some((key, row)) = state.rows.iter().find(|(_, r)| r.id == new.instance) else {
        return Outcome::NotFound;
    };
    if row.status.is_terminal() {
        return Outcome::Ended { status: row.status };
    }
    let key = *key;
    let unread = state.messages.values().filter(|(of, _)| *of == key).count() as u64;
    if let Some(max) = new.unread_max.filter(|max| unread >= *max) {
        return Outcome::MailboxFull { max };
    }
    let owner = put(state, now, key, new.body.clone());
    Outcome::Delivered {
        key: InstanceKey(key),
        seq: MessageSeq(state.last_seq),
        owner,
    }
}

/// Where a child reports to: key and execution of its parent, and the event that started it.
type Parent = (i64, ExecutionId, EventId);

fn children_of(state: &State, key: i64, is_asked_for: impl Fn(&Parent) -> bool) -> Vec<i64> {
    let children = state.rows.iter().filter(|(_, row)| {
        let parent = row.parent.filter(|parent| parent.0 == key && is_asked_for(parent));
        parent.is_some() && !row.status.is_terminal()
    });
    children.map(|(key, _)| *key).collect()
}

fn tell(state: &mut State, now: i64, parent: Parent, settlement: Settlement) -> Option<Option<WorkerId>> {
    let (key, execution, scheduled) = parent;
    // It may be deleted.
    let row = state.rows.get(&key)?;
    if row.status.is_terminal() || row.execution != execution {
        return None;
    }
    let body = MessageBody::Settled {
        execution,
        scheduled,
        settlement,
    };
    Some(put(state, now, key, body))
}

fn tell_parent(state: &mut State, now: i64, child: i64, settlement: Settlement) -> Vec<Option<WorkerId>> {
    let parent = state.rows[&child].parent;
    parent
        .and_then(|parent| tell(state, now, parent, settlement))
        .into_iter()
        .collect()
}

fn do_to_others(state: &mut State, now: i64, turn: &TurnCommit, to_others: &ToOthers) -> Others {
    let mut others = Others::default();
    let mut refused = Vec::new();
    for other in &to_others.starts {
        let parent = (turn.key.0, turn.execution, other.scheduled);
        let outcome = start(state, now, &other.instance, other.is_child.then_some(parent));
        if outcome == Outcome::Exists {
            refused.push((other.scheduled, Refusal::InstanceExists));
        }
        others.started.push(outcome);
    }
    for other in &to_others.messages {
        match send(state, now, &other.message) {
            Outcome::Delivered { owner, .. } => others.receivers.push(owner),
            Outcome::NotFound => refused.push((other.scheduled, Refusal::InstanceNotFound)),
            Outcome::MailboxFull { max } => refused.push((other.scheduled, Refusal::MailboxFull { max })),
            _ => refused.push((other.scheduled, Refusal::InstanceEnded)),
        }
    }
    for event in &to_others.cancelled {
        for child in children_of(state, turn.key.0, |parent| {
            (parent.1, parent.2) == (turn.execution, *event)
        }) {
            let owner = put(state, now, child, CANCEL);
            others.receivers.push(owner);
        }
    }
    for (scheduled, refusal) in refused {
        let itself = (turn.key.0, turn.execution, scheduled);
        if let Some(owner) = tell(state, now, itself, Settlement::Refused(refusal)) {
            others.refused = true;
            others.receivers.push(owner);
        }
    }
    for offer in &to_others.offers {
        state.queues.offer(turn.key.0, turn.execution, offer);
    }
    for scheduled in &to_others.withdrawn {
        let owner = state.queues.withdraw(turn.key.0, turn.execution, *scheduled);
        others.stopped.extend(owner);
    }
    others
}

fn start(state: &mut State, now: i64, new: &NewInstance, parent: Option<Parent>) -> Outcome {
    if state.rows.values().any(|r| r.id == new.id) {
        return Outcome::Exists;
    }
    let owner = new.claim.clone().filter(|w| state.workers.contains_key(w));
    state.last_key += 1;
    let key = state.last_key;
    let claimed = owner.as_ref().map(|_| Epoch(1));
    state.rows.insert(
        key,
        Row {
            id: new.id.clone(),
            name: new.name.clone(),
            version: new.version.clone(),
            epoch: u64::from(owner.is_some()),
            wake_at_ms: owner.is_none().then_some(now),
            owner,
            status: Status::Pending,
            next_event_id: EventId(2),
            turns: 0,
            execution: ExecutionId::FIRST,
            history: vec![new.first_event.clone()],
            former: Vec::new(),
            report: None,
            unfit_code: None,
            custom_status: None,
            custom_status_version: 0,
            parent,
            created_at_ms: new.first_event.time_ms,
            suspicion: Suspicion::default(),
            on_trial: TrialStep::End,
        },
    );
    let turn = new.first_turn.as_ref().zip(claimed).map(|(turn, epoch)| {
        let turn = TurnCommit {
            key: InstanceKey(key),
            epoch,
            ..(**turn).clone()
        };
        Box::new(commit_turn(state, now, &turn))
    });
    Outcome::Started {
        key: InstanceKey(key),
        claimed,
        turn,
    }
}

fn commit_turn(state: &mut State, now: i64, turn: &TurnCommit) -> Outcome {
    let row = state.rows.get_mut(&turn.key.0).expect("the instance is there");
    let fence = (row.owner.as_ref(), row.epoch, row.execution, row.next_event_id);
    if fence != (Some(&turn.worker), turn.epoch.0, turn.execution, turn.next_event_id) {
        return Outcome::Fenced;
    }
    for event in &turn.events {
        assert_eq!(event.event_id, row.next_event_id, "event ids are without gap");
        row.next_event_id = row.next_event_id.next();
        row.history.push(event.clone());
    }
    for seq in &turn.consumed {
        assert!(*seq <= turn.seen, "what was consumed was seen");
        let gone = state.messages.remove(&seq.0).expect("it waits");
        assert_eq!(gone.0, turn.key.0);
    }
    for scheduled in &turn.heartbeats_over {
        state.heartbeats.remove(&(turn.key.0, turn.execution, *scheduled));
    }
    row.turns += 1;
    if !turn.events.is_empty() {
        row.on_trial = TrialStep::End;
        row.suspicion = Suspicion::default();
    }
    row.status = Status::Running;
    if let Some(change) = &turn.custom_status {
        row.custom_status = change.value.clone();
        row.custom_status_version += 1;
    }
    let mut due = None;
    match &turn.after {
        AfterTurn::Hold => {}
        AfterTurn::Release { wake_at_ms } => {
            let unseen = state
                .messages
                .iter()
                .any(|(seq, (key, _))| *key == turn.key.0 && *seq > turn.seen.0);
            row.owner = None;
            row.wake_at_ms = if unseen { Some(now) } else { *wake_at_ms };
            due = row.wake_at_ms;
        }
        AfterTurn::End { status } => {
            row.owner = None;
            row.status = *status;
            state.messages.retain(|_, (key, _)| *key != turn.key.0);
        }
        AfterTurn::ContinueAsNew(next) => {
            row.execution = row.execution.next();
            row.version = next.version.clone();
            row.next_event_id = EventId::FIRST.next();
            row.turns = 0;
            let first = vec![next.first_event.clone()];
            row.former.push(std::mem::replace(&mut row.history, first));
            if !next.hold {
                row.owner = None;
                row.wake_at_ms = Some(now);
                due = Some(now);
            }
        }
        AfterTurn::Suspend { report, unfit_code } => {
            row.owner = None;
            row.status = Status::Suspended;
            row.report = Some(report.clone());
            row.unfit_code = unfit_code.clone();
            row.turns -= 1;
        }
    }
    let status = turn.tell_status.then(|| Box::new(row.seen_by_clients(turn.key.0)));
    let mut others = (turn.to_others.as_deref()).map(|to_others| do_to_others(state, now, turn, to_others));
    if let AfterTurn::End { status } = turn.after {
        let result = turn.events.last().and_then(|last| last.payload.clone());
        let settlement = match status {
            Status::Failed => Settlement::Failed(ChildFailure::Failed, result),
            Status::Cancelled => Settlement::Failed(ChildFailure::Cancelled, result),
            _ => Settlement::Completed(result),
        };
        let told = tell_parent(state, now, turn.key.0, settlement);
        others.get_or_insert_default().receivers.extend(told);
    }
    Outcome::Committed {
        status,
        wake_at_ms: due,
        others: others.map(Box::new),
    }
}

fn delete(state: &mut State, key: i64) {
    let row = state.rows.remove(&key).expect("the instance is there");
    state.unswept += row.history.len() + row.former.iter().map(Vec::len).sum::<usize>();
    state.heartbeats.retain(|(of, _, _), _| *of != key);
    state.queues.withdraw_all(key);
}

fn take_over(state: &mut State, now: i64, worker: &WorkerId, report: &str) -> TakenOver {
    let was_registered = state.workers.remove(worker).is_some();
    state.queues.release(worker);
    let owned = state.rows.values_mut().filter(|r| r.owner.as_ref() == Some(worker));
    let convicts = owned.filter_map(|row| row.suspect(now, row.suspicion.after_death(row.on_trial), report));
    TakenOver {
        convicts: convicts.collect(),
        workers: was_registered.then(|| worker.clone()).into_iter().collect(),
    }
}

fn release(state: &mut State, now: i64, worker: &WorkerId) -> u64 {
    state.queues.release(worker);
    let mut released = 0;
    for row in state.rows.values_mut().filter(|r| r.owner.as_ref() == Some(worker)) {
        row.owner = None;
        row.wake_at_ms = Some(now);
        released += 1;
    }
    released
}

/// Events of this name stand for rows that cannot be read.
fn is_damaged(body: &MessageBody) -> bool {
    matches!(body, MessageBody::Mail { mailbox: Mailbox::Event(name), .. } if name == "damaged")
}

fn messages_of(state: &State, key: i64, mailboxes: Option<&[Mailbox]>, limit: usize) -> MessagePage {
    let all: Vec<Message> = (state.messages.iter().filter(|(_, (k, _))| *k == key))
        .map(|(seq, (_, body))| Message {
            seq: MessageSeq(*seq),
            body: body.clone(),
        })
        .collect();
    let (waiting, last) = (all.len(), all.last().map(|last| last.seq));
    let mut mail = 0;
    let wanted = all.into_iter().filter(|message| match &message.body {
        MessageBody::Mail { mailbox, .. } if mailboxes.is_none_or(|wanted| wanted.contains(mailbox)) => {
            mail += 1;
            mail <= limit
        }
        MessageBody::Mail { .. } => false,
        _ => true,
    });
    let messages: Vec<Message> = wanted.collect();
    let more_up_to = last.filter(|_| messages.len() < waiting);
    MessagePage { messages, more_up_to }
}

#[async_trait::async_trait]
impl Provider for Memory {
    fn info(&self) -> ProviderInfo {
        ProviderInfo {
            kind: "memory",
            location: "memory".into(),
            concurrent_commits: self.concurrent,
            batch_max: 4,
        }
    }

    fn commit(&self, batch: Arc<Vec<Write>>, done: CommitDone) {
        let at_once = {
            let mut state = self.state.lock();
            state.batches.push(batch.len());
            if state.held.contains(&Call::Commit) {
                return state.held_commits.push_back((batch, done));
            }
            state.answers_at_once
        };
        if at_once {
            return self.write_batch(&batch, done);
        }
        // It is answered later, like a store's thread does; what is written is written now, in order.
        let (answer, taken) = std::sync::mpsc::channel();
        self.write_batch(
            &batch,
            Box::new(move |result| answer.send(result).expect("it is taken below")),
        );
        drop(batch);
        let result = taken.recv().expect("it was just sent");
        tokio::spawn(async move { done(result) });
    }

    fn on_foreign_change(&self, _: ChangeListener) {}

    async fn register_worker(&self, worker: NewWorker) -> Result<i64, ProviderError> {
        self.enter(Call::Register).await?;
        let until = self.clock.now_ms() + i64::try_from(worker.lease_ms).expect("a test's lease is short");
        self.state.lock().workers.insert(worker.id, until);
        self.leave(Call::Register).await;
        Ok(self.clock.now_ms())
    }

    async fn renew_worker(&self, worker: &WorkerId, lease_ms: u64) -> Result<Option<i64>, ProviderError> {
        self.enter(Call::Renew).await?;
        self.leave(Call::Renew).await;
        let now = self.clock.now_ms();
        let until = now + i64::try_from(lease_ms).expect("a test's lease is short");
        Ok(self.state.lock().workers.get_mut(worker).map(|u| {
            *u = until;
            now
        }))
    }

    /// All of another machine: only their leases tell of them.
    async fn workers(&self) -> Result<Vec<Worker>, ProviderError> {
        let state = self.state.lock();
        let worker = |(id, lease_until_ms): (&WorkerId, &i64)| Worker {
            id: id.clone(),
            name: String::new(),
            host: "another machine".into(),
            pid: 1,
            process_start: String::new(),
            lease_until_ms: *lease_until_ms,
        };
        Ok(state.workers.iter().map(worker).collect())
    }

    async fn release_worker(&self, worker: &WorkerId) -> Result<u64, ProviderError> {
        self.enter(Call::Release).await?;
        self.leave(Call::Release).await;
        let mut state = self.state.lock();
        state.workers.remove(worker);
        let now = self.clock.now_ms();
        Ok(release(&mut state, now, worker))
    }

    async fn take_over_worker(&self, worker: &WorkerId, report: &str) -> Result<TakenOver, ProviderError> {
        Ok(take_over(&mut self.state.lock(), self.clock.now_ms(), worker, report))
    }

    async fn take_over_expired_workers(&self, report: &str) -> Result<TakenOver, ProviderError> {
        let mut state = self.state.lock();
        let now = self.clock.now_ms();
        let expired: Vec<WorkerId> = state
            .workers
            .iter()
            .filter(|(_, until)| **until <= now)
            .map(|(id, _)| id.clone())
            .collect();
        let mut all = TakenOver::default();
        for worker in &expired {
            let TakenOver { workers, convicts } = take_over(&mut state, now, worker, report);
            all.workers.extend(workers);
            all.convicts.extend(convicts);
        }
        Ok(all)
    }

    async fn give_back(&self, request: GiveBack) -> Result<GivenBack, ProviderError> {
        self.enter(Call::GiveBack).await?;
        let given = {
            let mut state = self.state.lock();
            let now = self.clock.now_ms();
            let mut given = GivenBack::default();
            for (key, row) in &mut state.rows {
                let key = InstanceKey(*key);
                if row.owner.as_ref() != Some(&request.worker) || request.kept.contains(&key) {
                    continue;
                }
                let epoch = Epoch(row.epoch);
                given.instances.push((key, epoch));
                if request.stalled == Some((key, epoch)) {
                    given.convict = row.suspect(now, row.suspicion.after_stall(), &request.report);
                } else {
                    row.owner = None;
                    row.wake_at_ms = Some(now);
                }
            }
            state.queues.release_but(&request.worker, &request.kept_tasks);
            given
        };
        self.leave(Call::GiveBack).await;
        Ok(given)
    }

    async fn acquire(&self, request: Acquire) -> Result<Acquired, ProviderError> {
        self.enter(Call::Acquire).await?;
        let acquired = {
            let mut state = self.state.lock();
            let state = &mut *state;
            let now = self.clock.now_ms();
            let mut acquired = Acquired {
                now_ms: now,
                ..Acquired::default()
            };
            if state.workers.contains_key(&request.worker) {
                for (key, row) in &mut state.rows {
                    let is_registered = request.registered.contains(&(row.name.clone(), row.version.clone()));
                    let Some(at) = row.wake_at_ms.filter(|_| row.owner.is_none() && is_registered) else {
                        continue;
                    };
                    if at > now || acquired.instances.len() == request.limit {
                        acquired.next_wake_at_ms = Some(acquired.next_wake_at_ms.map_or(at, |next| next.min(at)));
                        continue;
                    }
                    row.owner = Some(request.worker.clone());
                    row.epoch += 1;
                    row.on_trial = TrialStep::End;
                    row.wake_at_ms = None;
                    acquired.instances.push(AcquiredInstance {
                        key: InstanceKey(*key),
                        id: row.id.clone(),
                        name: row.name.clone(),
                        version: row.version.clone(),
                        parent_id: None,
                        execution: row.execution,
                        epoch: Epoch(row.epoch),
                        next_event_id: row.next_event_id,
                        fresh: row.turns == 0,
                        history: row.history.iter().take(request.history_page).cloned().collect(),
                        messages: MessagePage::default(),
                        seen: MessageSeq(state.last_seq),
                        heartbeats: Vec::new(),
                        tasks: state.queues.of_instance(*key, row.execution),
                        suspicion: row.suspicion,
                    });
                }
            }
            for instance in &mut acquired.instances {
                instance.messages = messages_of(state, instance.key.0, None, request.message_page);
                let of = (instance.key.0, instance.execution);
                let kept = state
                    .heartbeats
                    .range((of.0, of.1, EventId(0))..=(of.0, of.1, EventId(u64::MAX)));
                instance.heartbeats = kept.map(|((_, _, id), details)| (*id, details.clone())).collect();
            }
            acquired
        };
        self.leave(Call::Acquire).await;
        Ok(acquired)
    }

    async fn acquire_tasks(&self, request: TaskRequest) -> Result<AcquiredTasks, ProviderError> {
        self.enter(Call::Tasks).await?;
        let acquired = {
            let mut state = self.state.lock();
            if !state.workers.contains_key(&request.worker) {
                return Ok(AcquiredTasks::default());
            }
            let State {
                queues,
                rows,
                heartbeats,
                ..
            } = &mut *state;
            queues.acquire(self.clock.now_ms(), &request, |key, scheduled| {
                let row = &rows[&key];
                let event = row.history[scheduled.0 as usize - 1].clone();
                let kept = heartbeats.get(&(key, row.execution, scheduled)).cloned();
                (row.id.clone(), row.name.clone(), event, kept)
            })
        };
        self.leave(Call::Tasks).await;
        Ok(acquired)
    }

    async fn know_activities(&self, names: Vec<String>) -> Result<Vec<String>, ProviderError> {
        let mut state = self.state.lock();
        state.activities.extend(names);
        Ok(state.activities.iter().cloned().collect())
    }

    async fn tasks_of(&self, worker: &WorkerId) -> Result<Vec<TaskName>, ProviderError> {
        self.enter(Call::Tasks).await?;
        Ok(self.state.lock().queues.of_worker(worker))
    }

    async fn resume_unfit(&self, request: ResumeUnfit) -> Result<Vec<Unfit>, ProviderError> {
        self.enter(Call::ResumeUnfit).await?;
        let resumed = {
            let mut state = self.state.lock();
            let is_its = |row: &Row| (&row.name, &row.version) == (&request.name, &request.version);
            let mut unfit: Vec<Unfit> = (state.rows.iter().filter(|(_, row)| is_its(row)))
                .filter_map(|(key, row)| {
                    let (code, key) = (row.unfit_code.clone()?, InstanceKey(*key));
                    Some(Unfit { code, key })
                })
                .filter(|unfit| unfit.code != request.code && Some(unfit) > request.after.as_ref())
                .collect();
            unfit.sort();
            unfit.truncate(request.limit);
            let now = self.clock.now_ms();
            for unfit in &unfit {
                let row = state.rows.get_mut(&unfit.key.0).expect("it was just found");
                row.go_on(now);
            }
            unfit
        };
        self.leave(Call::ResumeUnfit).await;
        Ok(resumed)
    }

    async fn read_history(
        &self,
        key: InstanceKey,
        execution: ExecutionId,
        from: EventId,
        limit: usize,
    ) -> Result<Vec<EventRecord>, ProviderError> {
        self.enter(Call::History).await?;
        let page = {
            let state = self.state.lock();
            let Some(row) = state.rows.get(&key.0) else {
                return Ok(Vec::new());
            };
            let history = (execution != row.execution).then(|| &row.former[execution.0 as usize - 1]);
            history
                .unwrap_or(&row.history)
                .iter()
                .filter(|e| e.event_id >= from)
                .take(limit)
                .cloned()
                .collect()
        };
        self.leave(Call::History).await;
        Ok(page)
    }

    async fn read_inbox(&self, worker: &WorkerId, since: &InboxPosition, limit: usize) -> Result<Inbox, ProviderError> {
        self.enter(Call::Inbox).await?;
        let mut last: u64 = since.0.parse().unwrap_or(0);
        let messages: Vec<_> = {
            let state = self.state.lock();
            let newer = state.messages.range(last + 1..);
            newer
                .filter(|(_, (key, _))| state.rows[key].owner.as_ref() == Some(worker))
                .take(limit)
                .map(|(seq, (key, body))| {
                    last = *seq;
                    let (seq, body) = (MessageSeq(*seq), body.clone());
                    let message = if is_damaged(&body) {
                        Err(seq)
                    } else {
                        Ok(Message { seq, body })
                    };
                    (InstanceKey(*key), message)
                })
                .collect()
        };
        self.leave(Call::Inbox).await;
        Ok(Inbox {
            more: messages.len() == limit,
            messages,
            position: InboxPosition(last.to_string()),
        })
    }

    async fn read_messages(
        &self,
        key: InstanceKey,
        mailboxes: Option<Vec<Mailbox>>,
        limit: usize,
    ) -> Result<MessagePage, ProviderError> {
        self.enter(Call::Messages).await?;
        let messages = messages_of(&self.state.lock(), key.0, mailboxes.as_deref(), limit);
        if messages.messages.iter().any(|message| is_damaged(&message.body)) {
            return Err(ProviderError::new(ProviderErrorKind::Corrupt, "damaged"));
        }
        self.leave(Call::Messages).await;
        Ok(messages)
    }

    async fn statuses(&self, ids: Vec<String>) -> Result<Vec<Option<InstanceStatus>>, ProviderError> {
        self.enter(Call::Statuses).await?;
        if ids.len() > 1 && ids.iter().any(|id| id == "damaged") || ids == ["damaged"] {
            return Err(ProviderError::new(ProviderErrorKind::Corrupt, "damaged"));
        }
        let statuses = {
            let state = self.state.lock();
            let status = |id: &String| {
                let (key, row) = state.rows.iter().find(|(_, r)| r.id == *id)?;
                Some(row.seen_by_clients(*key))
            };
            ids.iter().map(status).collect()
        };
        self.leave(Call::Statuses).await;
        Ok(statuses)
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage, ProviderError> {
        self.enter(Call::List).await?;
        let page = {
            let state = self.state.lock();
            let mut places: Vec<Place> = (state.rows.iter())
                .map(|(key, row)| Place {
                    at_ms: row.created_at_ms,
                    key: InstanceKey(*key),
                })
                .filter(|place| request.after.is_none_or(|after| *place < after))
                .collect();
            places.sort_by(|a, b| b.cmp(a));
            let mut page = ListPage::default();
            let mut last = request.after;
            for (walked, place) in places.into_iter().enumerate() {
                if walked >= request.walk_max || page.instances.len() >= request.limit {
                    page.next = last;
                    break;
                }
                let row = &state.rows[&place.key.0];
                if request.filter.matches(&row.candidate()) {
                    page.instances.push(row.seen_by_clients(place.key.0));
                }
                last = Some(place);
            }
            page
        };
        self.leave(Call::List).await;
        Ok(page)
    }

    /// By key: the ends have no times here.
    async fn prune(&self, request: PruneRequest) -> Result<Pruned, ProviderError> {
        self.enter(Call::Prune).await?;
        let mut pruned = Pruned::default();
        {
            let mut state = self.state.lock();
            let after = request.after.map_or(0, |place| place.key.0);
            let keys: Vec<i64> = state.rows.range(after + 1..).map(|(key, _)| *key).collect();
            let mut last = after;
            for (walked, key) in keys.into_iter().enumerate() {
                if walked >= request.walk_max || pruned.deleted >= request.limit {
                    pruned.next = Some(Place {
                        at_ms: 0,
                        key: InstanceKey(last),
                    });
                    break;
                }
                let row = &state.rows[&key];
                if row.status.is_terminal() && request.filter.matches(&row.candidate()) {
                    delete(&mut state, key);
                    pruned.deleted += 1;
                }
                last = key;
            }
        }
        self.leave(Call::Prune).await;
        Ok(pruned)
    }

    async fn prune_executions(&self, request: PruneExecutions) -> Result<PrunedExecutions, ProviderError> {
        self.enter(Call::Prune).await?;
        let mut pruned = PrunedExecutions::default();
        let mut state = self.state.lock();
        for row in state
            .rows
            .values_mut()
            .filter(|row| request.filter.matches(&row.candidate()))
        {
            let gone = row.execution.0.saturating_sub(request.keep) as usize;
            for history in row.former.iter_mut().take(gone) {
                pruned.deleted += usize::from(!history.is_empty());
                history.clear();
            }
        }
        Ok(pruned)
    }

    async fn sweep(&self, limit: usize) -> Result<bool, ProviderError> {
        self.enter(Call::Sweep).await?;
        let mut state = self.state.lock();
        state.unswept = state.unswept.saturating_sub(limit);
        Ok(state.unswept > 0)
    }

    async fn stats(&self) -> Result<StoreStats, ProviderError> {
        Ok(StoreStats::default())
    }

    async fn close(&self) {
        self.state.lock().closed = true;
    }
}
