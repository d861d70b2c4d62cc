//! The witness sees everything that happens in the store and outside, in its order, and reports a violation at once.
//!
//! The witness knows nothing of the beliefs of a process. It knows only each write and the answer of the store, and
//! which attempts began and ended.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::AddAssign;
use std::time::Duration;

use parking_lot::Mutex;
use perdure_engine::{EventId, ExecutionId, MessageBody, MessageSeq};
use perdure_provider::{
    Acquired, AfterTurn, Epoch, InstanceKey, NewInstance, Outcome, ReleaseMost, ReleasedMost, Task, TaskName,
    TurnCommit, WorkerId, Write,
};

use tokio::time::Instant;

use crate::checker::is_completion;
use crate::log::Log;

/// One activity of one execution.
pub(crate) type Step = (InstanceKey, ExecutionId, EventId);

/// A message and its instance. The number of a message may be unique for its instance alone.
pub(crate) type Waiting = (InstanceKey, MessageSeq);

/// The facts that are known of an instance.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) id: String,
    pub(crate) epoch: Epoch,
    pub(crate) owner: Option<WorkerId>,
    pub(crate) execution: ExecutionId,
    next: EventId,
    pub(crate) standing: Standing,
}

/// The state of an instance: open, suspended or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Open,
    Suspended,
    Ended,
}

#[derive(Default)]
struct Known {
    violations: Vec<String>,
    instances: BTreeMap<InstanceKey, Seen>,
    keys: BTreeMap<String, InstanceKey>,
    /// Steps whose completion is recorded.
    completed: BTreeSet<Step>,
    /// Attempts that began, each with its latest begin.
    begun: BTreeMap<(Step, u32), Begun>,
    /// Processes that have given something back in the store and not heard of that, each with what it keeps. Until then
    /// they go on with all of it.
    giving_back: BTreeMap<String, Kept>,
    /// Attempts that were taken from queues and have not begun.
    taken: BTreeMap<(Step, u32), (String, u64)>,
    /// The number of times that a suspension, an end or a give-back took the attempts of an instance back.
    disturbed_instances: BTreeMap<InstanceKey, u64>,
    disturbances: BTreeMap<String, u64>,
    /// Processes of workers.
    processes: HashMap<WorkerId, String>,
    /// Processes that owned an instance when it was suspended or terminated from outside, and have not heard of that,
    /// and since when.
    unaware: BTreeMap<(InstanceKey, String), Instant>,
    /// Messages that clients sent, by the number in their payload.
    messages: BTreeMap<i64, Waiting>,
    consumed: BTreeSet<Waiting>,
    figures: Figures,
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
    is_given_back: bool,
    /// True if its instance was taken from its process, which had not heard of that.
    is_unaware: bool,
}

/// The instances and tasks that a process keeps when it gives back the rest.
struct Kept {
    instances: BTreeSet<InstanceKey>,
    tasks: BTreeSet<TaskName>,
}

/// The figures of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Turns that were stored.
    pub turns: u64,
    /// Events in them. While this rises, something gets on.
    pub events: u64,
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
}

impl AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        self.turns += other.turns;
        self.events += other.events;
        self.attempts += other.attempts;
        self.repeated += other.repeated;
        self.stale += other.stale;
        self.unaware += other.unaware;
        self.cleanups += other.cleanups;
        self.flat += other.flat;
    }
}

/// The witness of a run.
#[derive(Default)]
pub(crate) struct Witness(Mutex<Known>);

impl Witness {
    pub(crate) fn take_violations(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().violations)
    }

    pub(crate) fn accuse(&self, violation: String) {
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

    pub(crate) fn instances(&self) -> Vec<(InstanceKey, Seen)> {
        self.0
            .lock()
            .instances
            .iter()
            .map(|(key, seen)| (*key, seen.clone()))
            .collect()
    }

    pub(crate) fn find(&self, id: &str) -> Option<(InstanceKey, Seen)> {
        let known = self.0.lock();
        let key = *known.keys.get(id)?;
        Some((key, known.instances[&key].clone()))
    }

    /// True if a message of a client has reached the store.
    pub(crate) fn has_message(&self, number: i64) -> bool {
        self.0.lock().messages.contains_key(&number)
    }

    /// A message of a client as the store names it.
    pub(crate) fn message(&self, number: i64) -> Option<Waiting> {
        self.0.lock().messages.get(&number).copied()
    }

    /// True if a message was consumed.
    pub(crate) fn is_consumed(&self, message: Waiting) -> bool {
        self.0.lock().consumed.contains(&message)
    }

    // ---- what comes to pass in the store ----

    pub(crate) fn wrote(&self, log: &Log, who: &str, write: &Write, outcome: &Outcome) {
        let mut known = self.0.lock();
        if *outcome == Outcome::Fenced {
            known.figures.stale += 1;
        }
        match (write, outcome) {
            (Write::Turn(turn), outcome) => known.turn(log, who, turn, outcome),
            (Write::Start(new), outcome) => known.started(log, who, new, outcome),
            (Write::Message(new), Outcome::Delivered { key, seq, .. }) => {
                log.say(who, format_args!("message {seq} for {} ({:?})", new.instance, new.body));
                if let MessageBody::Mail {
                    payload: Some(number), ..
                } = &new.body
                {
                    let number = number.parse().expect("every message here holds a number");
                    known.messages.insert(number, (*key, *seq));
                }
            }
            (Write::Message(new), Outcome::Terminated { key, .. }) => {
                log.say(who, format_args!("cancel {}, which is suspended", new.instance));
                known.take_away(*key, Standing::Ended);
            }
            (Write::Terminate(terminate), Outcome::Terminated { key, .. }) => {
                log.say(who, format_args!("terminate {}", terminate.id));
                known.take_away(*key, Standing::Ended);
            }
            (Write::Suspend(suspend), Outcome::Suspended { key, epoch, .. }) => {
                log.say(who, format_args!("suspend {} in epoch {}", suspend.id, epoch.0));
                known.take_away(*key, Standing::Suspended);
            }
            (Write::Resume { id, .. }, Outcome::Resumed) => {
                log.say(who, format_args!("resume {id}"));
                let key = known.keys.get(id).copied();
                known.resumed(key);
            }
            (Write::ReleaseInstance(let_go), outcome) => {
                log.say(who, format_args!("let go {} {outcome:?}", let_go.key.0));
                // The process knows by a turn that was fenced off, or was told.
                known.unaware.remove(&(let_go.key, who.to_owned()));
                if *outcome != Outcome::Fenced {
                    known.disown(let_go.key);
                }
            }
            (write, outcome) => log.say(who, format_args!("{} {}", short(write), short_of(outcome))),
        }
    }

    pub(crate) fn acquired(&self, log: &Log, who: &str, worker: &WorkerId, acquired: &Acquired) {
        let mut known = self.0.lock();
        for instance in &acquired.instances {
            log.say(
                who,
                format_args!("acquires {} in epoch {}", instance.id, instance.epoch.0),
            );
            let known = &mut *known;
            let Some(seen) = known.instances.get_mut(&instance.key) else {
                known
                    .violations
                    .push(format!("{} was acquired and never started", instance.id));
                continue;
            };
            if instance.epoch <= seen.epoch {
                let epochs = (instance.epoch.0, seen.epoch.0);
                known.violations.push(format!(
                    "S8: {} was acquired in epoch {} after {}",
                    seen.id, epochs.0, epochs.1
                ));
            }
            if let Some(owner) = &seen.owner {
                known
                    .violations
                    .push(format!("S9: {} was acquired while worker {owner} owned it", seen.id));
            }
            if seen.standing != Standing::Open {
                known
                    .violations
                    .push(format!("S7: {} was acquired while it was {:?}", seen.id, seen.standing));
            }
            if (instance.execution, instance.next_event_id) != (seen.execution, seen.next) {
                known.violations.push(format!(
                    "S3: {} was acquired at execution {} event {}, not {} event {}",
                    seen.id, instance.execution, instance.next_event_id, seen.execution, seen.next
                ));
            }
            (seen.epoch, seen.owner) = (instance.epoch, Some(worker.clone()));
        }
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
    pub(crate) fn gives_back(&self, process: &str, request: &ReleaseMost, given: &ReleasedMost) {
        let mut known = self.0.lock();
        let known = &mut *known;
        for (key, _) in &given.instances {
            known.disown(*key);
            known.disturb_instance(*key);
        }
        let kept = Kept {
            instances: request.kept.iter().copied().collect(),
            tasks: request.kept_tasks.iter().copied().collect(),
        };
        for (attempt, begun) in &mut known.begun {
            let is_lost = begun.is_task && !begun.has_ended && !kept.tasks.contains(&task_of(attempt));
            begun.is_given_back |= begun.by == process && is_lost;
        }
        known.giving_back.insert(process.to_owned(), kept);
    }

    /// A process has heard of what it gave back, or that it gave back nothing.
    pub(crate) fn has_given_back(&self, process: &str) {
        self.0.lock().giving_back.remove(process);
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
    pub(crate) fn hears(&self, process: &str, keys: impl Iterator<Item = InstanceKey>) {
        let mut known = self.0.lock();
        for key in keys {
            known.unaware.remove(&(key, process.to_owned()));
        }
    }

    /// An instance was suspended because of the evidence against it.
    pub(crate) fn convicted(&self, id: &str) {
        let mut known = self.0.lock();
        if let Some(key) = known.keys.get(id).copied() {
            known.take_away(key, Standing::Suspended);
        }
    }

    /// A suspended instance was found to have ended.
    pub(crate) fn has_ended(&self, key: InstanceKey) {
        let mut known = self.0.lock();
        if let Some(seen) = known
            .instances
            .get_mut(&key)
            .filter(|seen| seen.standing == Standing::Suspended)
        {
            seen.standing = Standing::Ended;
        }
    }

    /// An instance was resumed because other code was registered.
    pub(crate) fn resumed(&self, key: InstanceKey) {
        self.0.lock().resumed(Some(key));
    }

    // ---- what comes to pass outside ----

    /// Something happened to a process, after which its attempts may begin anew elsewhere.
    pub(crate) fn disturb(&self, process: &str) {
        *self.0.lock().disturbances.entry(process.to_owned()).or_default() += 1;
    }

    /// An attempt begins.
    pub(crate) fn begins(
        &self,
        log: &Log,
        process: &str,
        instance: &str,
        execution: u64,
        scheduled: EventId,
        attempt: u32,
    ) {
        let mut known = self.0.lock();
        let known = &mut *known;
        known.figures.attempts += 1;
        log.say(
            process,
            format_args!("attempt {attempt} of {instance} {execution} #{scheduled} begins"),
        );
        let Some(key) = known.keys.get(instance).copied() else {
            return known.violations.push(format!(
                "invariant 1: an activity of {instance} began before the instance was stored"
            ));
        };
        let step = (key, ExecutionId(execution), scheduled);
        let owner = known.instances[&key]
            .owner
            .as_ref()
            .and_then(|owner| known.processes.get(owner));
        if owner.is_none_or(|owner| owner != process) && known.unaware.contains_key(&(key, process.to_owned())) {
            known.figures.unaware += 1;
            return;
        }
        if known.completed.contains(&step) {
            known.violations.push(format!(
                "S5: {instance} {execution} #{scheduled} began again in {process} after its completion was recorded"
            ));
        }
        let taken = known.taken.remove(&(step, attempt)).filter(|(by, _)| by == process);
        let before = known.begun.get(&(step, attempt));
        // A task that was handed to another thread of its process was taken before.
        let is_task = taken.is_some() || before.is_some_and(|before| before.by == process && before.is_task);
        let is_given_back = known.giving_back.get(process).is_some_and(|kept| match is_task {
            true => !kept.tasks.contains(&task_of(&(step, attempt))),
            false => !kept.instances.contains(&key),
        });
        if let Some(before) = before {
            known.figures.repeated += 1;
            let by = &before.by;
            let is_unaware = known.unaware.contains_key(&(key, by.clone())) || before.is_unaware;
            let is_expected = is_unaware || is_given_back || before.is_given_back;
            if known.disturbed(by, key) == before.since && !is_expected {
                let violation = format!(
                    "S6: attempt {attempt} of {instance} {execution} #{scheduled} began in {process} although nothing had happened to {by}"
                );
                known.violations.push(violation);
            }
        }
        let begun = Begun {
            by: process.to_owned(),
            since: taken.map_or_else(|| known.disturbed(process, key), |(_, since)| since),
            is_task,
            has_ended: false,
            is_given_back,
            is_unaware: known.unaware.contains_key(&(key, process.to_owned())),
        };
        known.begun.insert((step, attempt), begun);
    }

    /// An attempt is over, and its process knows the result.
    pub(crate) fn ends(&self, process: &str, instance: &str, execution: u64, scheduled: EventId, attempt: u32) {
        let mut known = self.0.lock();
        let Some(key) = known.keys.get(instance).copied() else {
            return;
        };
        let step = (key, ExecutionId(execution), scheduled);
        if let Some(begun) = known
            .begun
            .get_mut(&(step, attempt))
            .filter(|begun| begun.by == process)
        {
            begun.has_ended = true;
        }
    }

    /// A process takes an attempt from a queue.
    pub(crate) fn takes(&self, log: &Log, process: &str, Task { task, instance_id, .. }: &Task) {
        log.say(
            process,
            format_args!(
                "takes attempt {} of {instance_id} {} #{}",
                task.attempt, task.execution, task.scheduled
            ),
        );
        let mut known = self.0.lock();
        let disturbed = known.disturbed(process, task.key);
        let step = (task.key, task.execution, task.scheduled);
        known
            .taken
            .insert((step, task.attempt), (process.to_owned(), disturbed));
    }
}

impl Known {
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

    fn take_away(&mut self, key: InstanceKey, standing: Standing) {
        self.disturb_instance(key);
        let Some(seen) = self.instances.get_mut(&key) else {
            return;
        };
        if seen.standing == Standing::Ended {
            self.violations
                .push(format!("S7: {} had ended and became {standing:?}", seen.id));
        }
        let owner = seen.owner.take();
        seen.standing = standing;
        if let Some(process) = owner.and_then(|owner| self.processes.get(&owner)) {
            self.unaware.insert((key, process.clone()), Instant::now());
        }
    }

    fn resumed(&mut self, key: Option<InstanceKey>) {
        if let Some(seen) = key.and_then(|key| self.instances.get_mut(&key)) {
            seen.standing = Standing::Open;
        }
    }

    fn started(&mut self, log: &Log, who: &str, new: &NewInstance, outcome: &Outcome) {
        log.say(who, format_args!("start {} {}", new.id, short_of(outcome)));
        let Outcome::Started { key, claimed, turn } = outcome else {
            return;
        };
        self.insert(*key, new, *claimed);
        if let (Some(turn), Some(committed), Some(epoch)) = (&new.first_turn, turn, claimed) {
            let turn = TurnCommit {
                key: *key,
                epoch: *epoch,
                ..(**turn).clone()
            };
            self.turn(log, who, &turn, committed);
        }
    }

    fn insert(&mut self, key: InstanceKey, new: &NewInstance, claimed: Option<Epoch>) {
        let seen = Seen {
            id: new.id.clone(),
            epoch: claimed.unwrap_or(Epoch(0)),
            owner: claimed.and(new.claim.clone()),
            execution: ExecutionId::FIRST,
            next: EventId::FIRST.next(),
            standing: Standing::Open,
        };
        if self.keys.insert(new.id.clone(), key).is_some() {
            self.violations.push(format!("S17: {} was started twice", new.id));
        }
        self.instances.insert(key, seen);
    }

    fn turn(&mut self, log: &Log, who: &str, turn: &TurnCommit, outcome: &Outcome) {
        let Some(seen) = self.instances.get_mut(&turn.key) else {
            return self
                .violations
                .push(format!("a turn of the unknown instance {} was written", turn.key.0));
        };
        let kinds: Vec<&str> = turn.events.iter().map(|event| event.kind.as_str()).collect();
        log.say(
            who,
            format_args!(
                "turn of {} {} epoch {} from #{}: {} consumes {:?}, {} {}",
                seen.id,
                turn.execution,
                turn.epoch.0,
                turn.next_event_id,
                kinds.join(" "),
                turn.consumed,
                short_after(&turn.after),
                short_of(outcome)
            ),
        );
        let Outcome::Committed { others, .. } = outcome else {
            return;
        };
        let id = seen.id.clone();
        let mut wrong = |what: String| self.violations.push(what);
        if seen.owner.as_ref() != Some(&turn.worker) || seen.epoch != turn.epoch {
            wrong(format!(
                "S8: a turn of {id} committed as worker {} in epoch {}, but it is {:?} in {}",
                turn.worker, turn.epoch.0, seen.owner, seen.epoch.0
            ));
        }
        if seen.standing != Standing::Open {
            wrong(format!("S7: a turn of {id} committed while it was {:?}", seen.standing));
        }
        if (turn.execution, turn.next_event_id) != (seen.execution, seen.next) {
            wrong(format!(
                "S3: a turn of {id} committed from {} #{}, not {} #{}",
                turn.execution, turn.next_event_id, seen.execution, seen.next
            ));
        }
        for (event, next) in turn.events.iter().zip(turn.next_event_id.0..) {
            if event.event_id.0 != next {
                wrong(format!("S3: {id} has a gap before event {}", event.event_id));
            }
            if let (true, Some(scheduled)) = (is_completion(event.kind), event.ref_id)
                && !self.completed.insert((turn.key, turn.execution, scheduled))
            {
                wrong(format!(
                    "S4: #{scheduled} of {id} {} has two completions",
                    turn.execution
                ));
            }
        }
        for seq in &turn.consumed {
            if !self.consumed.insert((turn.key, *seq)) {
                wrong(format!("S11: message {seq} of {id} was consumed twice"));
            }
        }
        self.figures.turns += 1;
        self.figures.events += turn.events.len() as u64;
        seen.next = EventId(turn.next_event_id.0 + turn.events.len() as u64);
        match &turn.after {
            AfterTurn::Hold => {}
            AfterTurn::Release { .. } => seen.owner = None,
            AfterTurn::End { .. } => (seen.owner, seen.standing) = (None, Standing::Ended),
            AfterTurn::Suspend { report, .. } => {
                // No other reason suspends an instance by a turn here.
                if !report.contains("NONDETERMINISM") {
                    wrong(format!("S14: {id} is suspended although its code fits: {report}"));
                }
                (seen.owner, seen.standing) = (None, Standing::Suspended);
                // The results of its attempts are not recorded, so they begin again.
                self.disturb_instance(turn.key);
            }
            AfterTurn::ContinueAsNew(next) => {
                (seen.execution, seen.next) = (seen.execution.next(), EventId::FIRST.next());
                if !next.hold {
                    seen.owner = None;
                }
            }
        }
        if let (Some(cross_instance), Some(others)) = (&turn.cross_instance, others) {
            for (start, outcome) in cross_instance.starts.iter().zip(&others.started) {
                self.started(log, who, &start.instance, outcome);
            }
        }
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

fn short(write: &Write) -> String {
    let text = format!("{write:?}");
    text.chars().take(120).collect()
}

fn short_after(after: &AfterTurn) -> String {
    match after {
        AfterTurn::ContinueAsNew(next) => format!("continues, hold {}", next.hold),
        AfterTurn::Suspend { unfit_code, .. } => format!("suspends, unfit {unfit_code:?}"),
        after => format!("{after:?}"),
    }
}

fn short_of(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Committed { .. } => "committed".into(),
        Outcome::Started { key, claimed, .. } => format!("started as {} claimed {claimed:?}", key.0),
        outcome => format!("{outcome:?}"),
    }
}
