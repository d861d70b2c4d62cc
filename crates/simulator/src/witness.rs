//! The witness sees everything that happens in the store and outside, in its order, and reports a violation at once.
//!
//! The witness knows nothing of the beliefs of a process. It knows only each write and the answer of the store, and
//! which attempts began and ended.

mod attempts;
mod limited;
mod lines;
mod streams;
mod writes;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::AddAssign;
use std::time::Duration;

pub(crate) use lines::LineFacts;
use lines::{Lines, StoreTime};
use parking_lot::Mutex;
use perdure_engine::{EventId, ExecutionId, MessageSeq};
use perdure_provider::{Epoch, InstanceKey, ReleaseMost, ReleasedMost, StreamReset, TaskName, WorkerId};
use tokio::time::Instant;

/// One activity of one execution.
pub(crate) type Step = (InstanceKey, ExecutionId, EventId);

/// A message and its instance. The number of a message may be unique for its instance alone.
pub(crate) type MessageId = (InstanceKey, MessageSeq);

/// The facts that are known of an instance.
#[derive(Clone, Debug)]
pub(crate) struct KnownInstance {
    pub(crate) id: String,
    pub(crate) epoch: Epoch,
    pub(crate) owner: Option<WorkerId>,
    pub(crate) execution: ExecutionId,
    next: EventId,
    pub(crate) state: InstanceState,
}

/// The state of an instance: open, suspended or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InstanceState {
    Open,
    Suspended,
    Ended,
}

/// An attempt that began.
struct Begun {
    by: String,
    /// The count of disturbances of that process when the attempt began, or when the process took it from a queue. A
    /// disturbance in between may have cost the process the attempt without its knowing.
    since: u64,
    /// True if the attempt was taken from a queue.
    is_task: bool,
    has_ended: bool,
    /// True if the attempt was given back while it ran, or begins after that because its process has not heard of it.
    /// Other processes begin it, too.
    is_released: bool,
    /// True if its instance was taken from its process, which had not heard of that.
    is_unaware: bool,
}

/// The instances and tasks that a process keeps when it gives back the rest.
struct KeptWork {
    instances: BTreeSet<InstanceKey>,
    tasks: BTreeSet<TaskName>,
}

/// An attempt that has a slot.
struct Slot {
    key: String,
    worker: WorkerId,
    /// True if the attempt may have got its slot by an earlier request, of another worker.
    is_late: bool,
}

/// The appends of activities.
#[derive(Default)]
struct Appended {
    /// The first entry of each activity in each stream, and of its last run.
    runs: BTreeMap<(Step, String), StreamReset>,
    /// The entries that each chunk replaces, by the index of its first entry.
    replaced: BTreeMap<(InstanceKey, String, u64), Option<StreamReset>>,
}

#[derive(Default)]
struct WitnessState {
    violations: Vec<String>,
    instances: BTreeMap<InstanceKey, KnownInstance>,
    keys: BTreeMap<String, InstanceKey>,
    /// Steps whose completion is recorded.
    completed: BTreeSet<Step>,
    /// Attempts that began, each with its latest begin.
    begun: BTreeMap<(Step, u32), Begun>,
    /// Processes that have given something back in the store and not heard of that, each with what it keeps. Until then
    /// they go on with all of it.
    releasing: BTreeMap<String, KeptWork>,
    /// Attempts that were taken from queues and have not begun.
    taken: BTreeMap<(Step, u32), (String, u64)>,
    /// True if a process may die while the store carries out its request. What it was given is not seen then.
    misses_answers: bool,
    /// Attempts that have slots of the queue of activities.
    attempt_slots: BTreeMap<TaskName, Slot>,
    /// The number of times that a suspension, an end or a give-back took the attempts of an instance back.
    disturbed_instances: BTreeMap<InstanceKey, u64>,
    disturbances: BTreeMap<String, u64>,
    /// Processes of workers.
    processes: HashMap<WorkerId, String>,
    /// Processes that owned an instance when it was suspended or terminated from outside, and have not heard of that,
    /// and since when.
    unaware: BTreeMap<(InstanceKey, String), Instant>,
    /// Messages that clients sent, by the number in their payload.
    messages: BTreeMap<i64, MessageId>,
    consumed: BTreeSet<MessageId>,
    /// Ids of the instances that messages of clients have started.
    started_by_message: BTreeSet<String>,
    /// The last instance that was started under each key.
    under_keys: BTreeMap<String, InstanceKey>,
    /// Inputs of the instances of batches.
    inputs: BTreeMap<InstanceKey, u32>,
    lines: Lines,
    streams: Appended,
    time: StoreTime,
    figures: Figures,
}

/// The figures of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Turns that were stored.
    pub turns: u64,
    /// Events in them. While this rises, something gets on.
    pub events: u64,
    /// Turns that woke their instances.
    pub wakes: u64,
    /// Attempts of activities that began.
    pub attempts: u64,
    /// Attempts that began more than once, because of a fault.
    pub repeated: u64,
    /// Writes that were fenced off.
    pub stale: u64,
    /// Attempts that began in a process that had not heard that the instance was suspended or terminated from outside.
    pub unaware: u64,
    /// Guarded blocks that were cancelled and cleaned up.
    pub cleanups: u64,
    /// Executions whose fibers were cancelled by the flat rules, although their programs have others by now.
    pub flat: u64,
    /// Instances that got a slot of a queue.
    pub admitted: u64,
    /// Instances among them that got it with their start.
    pub admitted_at_once: u64,
    /// Instances among them that waited for it.
    pub waited: u64,
    /// Instances that began after a delay.
    pub delayed: u64,
    /// Pauses of queues.
    pub pauses: u64,
}

impl AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        self.turns += other.turns;
        self.events += other.events;
        self.wakes += other.wakes;
        self.attempts += other.attempts;
        self.repeated += other.repeated;
        self.stale += other.stale;
        self.unaware += other.unaware;
        self.cleanups += other.cleanups;
        self.flat += other.flat;
        self.admitted += other.admitted;
        self.admitted_at_once += other.admitted_at_once;
        self.waited += other.waited;
        self.delayed += other.delayed;
        self.pauses += other.pauses;
    }
}

/// The witness of a run.
#[derive(Default)]
pub(crate) struct Witness(Mutex<WitnessState>);

impl Witness {
    /// Returns the witness of a store that is out of the virtual world, or within it.
    pub(crate) fn of(is_outside: bool) -> Self {
        let witness = Self::default();
        witness.0.lock().misses_answers = is_outside;
        witness
    }

    pub(crate) fn take_violations(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().violations)
    }

    pub(crate) fn report(&self, violation: String) {
        self.0.lock().violations.push(violation);
    }

    /// Counts blocks that were cleaned up, and an execution with the flat rules whose program has the scoped rules by
    /// now.
    pub(crate) fn cleaned_up(&self, cleanups: u64, is_flat: bool) {
        let figures = &mut self.0.lock().figures;
        figures.cleanups += cleanups;
        figures.flat += u64::from(is_flat);
    }

    pub(crate) fn figures(&self) -> Figures {
        self.0.lock().figures
    }

    pub(crate) fn instances(&self) -> Vec<(InstanceKey, KnownInstance)> {
        self.0
            .lock()
            .instances
            .iter()
            .map(|(key, seen)| (*key, seen.clone()))
            .collect()
    }

    pub(crate) fn find(&self, id: &str) -> Option<(InstanceKey, KnownInstance)> {
        let known = self.0.lock();
        let key = *known.keys.get(id)?;
        Some((key, known.instances[&key].clone()))
    }

    /// True if a message of a client has reached the store.
    pub(crate) fn has_message(&self, number: i64) -> bool {
        self.0.lock().messages.contains_key(&number)
    }

    /// A message of a client as the store names it.
    pub(crate) fn message(&self, number: i64) -> Option<MessageId> {
        self.0.lock().messages.get(&number).copied()
    }

    /// True if a message of a client has started an instance.
    pub(crate) fn was_started_by_message(&self, id: &str) -> bool {
        self.0.lock().started_by_message.contains(id)
    }

    /// True if a message was consumed.
    pub(crate) fn is_consumed(&self, message: MessageId) -> bool {
        self.0.lock().consumed.contains(&message)
    }

    /// A process registers a worker.
    pub(crate) fn registers(&self, worker: &WorkerId, process: &str) {
        self.0.lock().processes.insert(worker.clone(), process.to_owned());
    }

    /// The process of a worker.
    pub(crate) fn process_of(&self, worker: &WorkerId) -> Option<String> {
        self.0.lock().processes.get(worker).cloned()
    }

    /// Releases all instances of a worker.
    pub(crate) fn gone(&self, worker: &WorkerId) {
        let mut known = self.0.lock();
        let known = &mut *known;
        for seen in known.instances.values_mut() {
            seen.owner.take_if(|owner| owner == worker);
        }
        // The process has lost its lease, or will find that it has.
        if let Some(process) = known.processes.get(worker) {
            known.unaware.retain(|(_, unaware), _| unaware != process);
            *known.disturbances.entry(process.clone()).or_default() += 1;
        }
    }

    /// A process has given something back, of which it will hear. An attempt that it keeps must not begin again
    /// elsewhere, nor must a task whose attempt was over.
    pub(crate) fn releases_most(&self, process: &str, request: &ReleaseMost, given: &ReleasedMost) {
        let mut known = self.0.lock();
        let known = &mut *known;
        for (key, _) in &given.instances {
            known.disown(*key);
            known.disturb_instance(*key);
        }
        let kept = KeptWork {
            instances: request.kept.iter().copied().collect(),
            tasks: request.kept_tasks.iter().copied().collect(),
        };
        for (attempt, begun) in &mut known.begun {
            let is_lost = begun.is_task && !begun.has_ended && !kept.tasks.contains(&task_of(attempt));
            begun.is_released |= begun.by == process && is_lost;
        }
        known.releasing.insert(process.to_owned(), kept);
    }

    /// A process has heard of what it gave back, or that it gave back nothing.
    pub(crate) fn has_released_most(&self, process: &str) {
        self.0.lock().releasing.remove(process);
    }

    /// Returns the instances that were taken from a process longer ago than `longer` without its being told.
    pub(crate) fn unheard(&self, process: &str, longer: Duration) -> Vec<InstanceKey> {
        let known = self.0.lock();
        let unaware = known.unaware.iter();
        let unheard = unaware.filter(|((_, unaware), since)| unaware == process && since.elapsed() > longer);
        unheard.map(|((key, _), _)| *key).collect()
    }

    /// A process is told that it owns these instances again, unless they were taken from it while the answer was on its
    /// way.
    pub(crate) fn has_again(&self, process: &str, keys: impl Iterator<Item = InstanceKey>) {
        let mut known = self.0.lock();
        let known = &mut *known;
        for key in keys {
            let owner = known.instances.get(&key).and_then(|seen| seen.owner.as_ref());
            if owner.is_some_and(|owner| known.processes.get(owner).is_some_and(|owner| owner == process)) {
                known.unaware.remove(&(key, process.to_owned()));
            }
        }
    }

    /// A process is told which instances were taken from it.
    pub(crate) fn note_revocations(&self, process: &str, keys: impl Iterator<Item = InstanceKey>) {
        let mut known = self.0.lock();
        for key in keys {
            known.unaware.remove(&(key, process.to_owned()));
        }
    }

    /// An instance was suspended because of the evidence against it.
    pub(crate) fn suspended_as_poison_pill(&self, id: &str) {
        let mut known = self.0.lock();
        if let Some(key) = known.keys.get(id).copied() {
            known.take_away(key, InstanceState::Suspended);
        }
    }

    /// An instance was found to have ended that is suspended, or that no worker has acquired.
    pub(crate) fn has_ended(&self, key: InstanceKey) {
        let mut known = self.0.lock();
        if let Some(seen) = known
            .instances
            .get_mut(&key)
            .filter(|seen| seen.state == InstanceState::Suspended || seen.epoch == Epoch(0))
        {
            seen.state = InstanceState::Ended;
        }
    }

    /// An instance was resumed because other code was registered.
    pub(crate) fn resumed(&self, key: InstanceKey) {
        self.0.lock().resumed(Some(key));
    }
}

impl WitnessState {
    /// The number of disturbances of a process and an instance. Each is a reason for attempts to begin again elsewhere.
    fn disturbed(&self, process: &str, key: InstanceKey) -> u64 {
        let of_process = self.disturbances.get(process).copied().unwrap_or(0);
        of_process + self.disturbed_instances.get(&key).copied().unwrap_or(0)
    }

    fn disown(&mut self, key: InstanceKey) {
        if let Some(seen) = self.instances.get_mut(&key) {
            seen.owner = None;
        }
    }

    fn disturb_instance(&mut self, key: InstanceKey) {
        *self.disturbed_instances.entry(key).or_default() += 1;
    }

    fn take_away(&mut self, key: InstanceKey, state: InstanceState) {
        self.disturb_instance(key);
        let Some(seen) = self.instances.get_mut(&key) else {
            return;
        };
        if seen.state == InstanceState::Ended {
            self.violations
                .push(format!("S7: {} had ended and became {state:?}", seen.id));
        }
        let owner = seen.owner.take();
        seen.state = state;
        if state == InstanceState::Ended {
            self.attempt_slots.retain(|task, _| task.key != key);
        }
        if let Some(process) = owner.and_then(|owner| self.processes.get(&owner)) {
            self.unaware.insert((key, process.clone()), Instant::now());
        }
    }

    fn resumed(&mut self, key: Option<InstanceKey>) {
        let Some(key) = key else { return };
        if let Some(seen) = self.instances.get_mut(&key) {
            seen.state = InstanceState::Open;
        }
        self.goes_on(key);
    }
}

/// The name that an attempt has as a task.
fn task_of(((key, execution, scheduled), attempt): &(Step, u32)) -> TaskName {
    TaskName {
        key: *key,
        execution: *execution,
        scheduled: *scheduled,
        attempt: *attempt,
    }
}
