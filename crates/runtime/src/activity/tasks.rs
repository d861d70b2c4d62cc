//! Activities that another worker runs than the one that owns their instance, as tasks in the store.
//!
//! A worker offers what it does not run itself, with the turn that asks for it, and runs what others offer for its queues. That is what
//! is for a queue that it does not serve, what is not registered here, and what it has no room for while others are there, now or soon. The end
//! of an attempt reaches the instance as a message.
//!
//! What is not registered here waits for a worker that has it, which may be on its way. But a name that nobody who ever used the store
//! could run, in a store that nobody else uses now, is a slip: such a task is taken here and fails (`names_to_take`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use perdure_engine::{ActivityTask, AttemptResult, Effect, EventId, EventKind, TurnOutput, incarnation_of};
use perdure_provider::{
    Outcome, PageLimit, ProviderError, ProviderErrorKind, Task, TaskDone, TaskName, TaskOffer, TaskRequest, Write,
};
use perdure_scheduler::Class;

use crate::activity::attempt::{AbortReason, Attempt, Borrowed, Origin};
use crate::activity::lent::Lent;
use crate::commit::committer::Patience;
use crate::lane::job::Queued;
use crate::lane::log_record::Level;
use crate::options::{RETRY_DELAYS, SAFETY_POLL, TASK_BYTES_MAX};
use crate::platform::retry::retrying;
use crate::worker::open_requests::Quiet;
use crate::worker::owned::Owned;
use crate::worker::session::{AtStore, Session};

/// What a turn has to do with tasks.
#[derive(Default)]
pub(crate) struct Division {
    pub(crate) offers: Vec<TaskOffer>,
    pub(crate) withdrawn: Vec<EventId>,
    /// Schedules that were offered and are over: whoever ran them may have left heartbeats.
    pub(crate) over: Vec<EventId>,
}

/// Take out of a turn's effects what concerns other workers.
pub(crate) fn divide(session: &Session, lent: &mut Lent, output: &mut TurnOutput) -> Division {
    let mut division = Division::default();
    for event in &output.events {
        let Some(scheduled) = event.ref_id else { continue };
        match event.kind {
            EventKind::ActivityCompleted | EventKind::ActivityFailed if lent.end(scheduled) => {
                division.over.push(scheduled);
            }
            EventKind::ActivityAttemptFailed => drop(lent.offered.remove(&scheduled)),
            _ => {}
        }
    }
    let mut room = session.room_beside_others();
    output.effects.retain(|effect| match effect {
        Effect::StartActivity { task, .. } if lent.offered.contains(&task.scheduled) => false,
        Effect::StartActivity {
            task,
            attempt,
            not_before_ms,
        } if lent.before.contains(&task.scheduled) || !session.runs_itself(task, &mut room) => {
            // What was told of its progress elsewhere goes with a task, to whoever takes it.
            lent.offer(task.scheduled);
            division.offers.push(TaskOffer {
                scheduled: task.scheduled,
                attempt: *attempt,
                queue: task.options.queue().to_owned(),
                name: task.name.clone(),
                priority: task.options.priority,
                due_at_ms: *not_before_ms,
                deadline_ms: task.deadline_ms,
            });
            false
        }
        Effect::AbortActivity { scheduled } if lent.before.contains(scheduled) => {
            if lent.offered.contains(scheduled) {
                division.withdrawn.push(*scheduled);
            }
            lent.end(*scheduled);
            division.over.push(*scheduled);
            false
        }
        Effect::StartActivity { .. } | Effect::AbortActivity { .. } => true,
    });
    division
}

/// Where the attempts of a turn can go here.
struct Room {
    /// Slots that are free.
    slots: usize,
    /// How many of the turn are to wait for one.
    waiting: usize,
}

/// Take tasks whenever some may be due and there is room for them, until the session ends.
pub(crate) async fn run(session: Arc<Session>) {
    let mut delay = RETRY_DELAYS.0;
    let mut noted = None;
    loop {
        session.stop_withdrawn().await;
        let limit = session.room_for_tasks();
        let names = session.names_to_take(&mut noted).await;
        let mut next_due_ms = None;
        if limit > 0 && !names.is_empty() {
            let request = TaskRequest {
                worker: session.worker.clone(),
                queues: session.shared.options.queues.clone(),
                names,
                limit: PageLimit {
                    rows: limit,
                    bytes: TASK_BYTES_MAX,
                },
            };
            let quiet = session.giving_back.until_quiet().await;
            let claim = session.claim();
            match session.shared.store.provider.acquire_tasks(request).await {
                Ok(acquired) => {
                    delay = RETRY_DELAYS.0;
                    next_due_ms = acquired.next_due_ms;
                    session.borrow(acquired.tasks, quiet).await;
                    drop(claim);
                }
                Err(error) if error.kind == ProviderErrorKind::Closed => return,
                Err(error) => {
                    let message = format!("tasks could not be read, trying again: {error}");
                    session.shared.log(Level::Warn, message);
                    crate::platform::time::sleep(delay).await;
                    delay = (delay * 2).min(RETRY_DELAYS.1);
                    continue;
                }
            }
        }
        let now = session.now_ms();
        // First: whoever gives a slot back from here on says so.
        session.wants_room.store(true, Ordering::Release);
        let is_full = session.room_for_tasks() == 0;
        session.wants_room.store(is_full, Ordering::Release);
        match next_due_ms {
            Some(at) if !is_full => {
                let wait = Duration::from_millis(u64::try_from(at.saturating_sub(now)).unwrap_or(0)).min(SAFETY_POLL);
                tokio::select! {
                    biased;
                    () = session.tasks_wanted.notified() => {}
                    () = crate::platform::time::sleep(wait) => {}
                }
            }
            _ => session.tasks_wanted.notified().await,
        }
    }
}

impl Session {
    /// Whether this worker runs an activity of its own instances itself. Without `room` it has it for any number, because nobody else would.
    fn runs_itself(&self, task: &ActivityTask, room: &mut Option<Room>) -> bool {
        if task.options.inline {
            return true;
        }
        let queue = task.options.queue();
        if !self.shared.options.queues.iter().any(|served| served == queue) {
            return false;
        }
        if !self.shared.registry.lock().has_activity(&task.name) {
            self.strange.lock().insert(task.name.clone());
            return false;
        }
        match room {
            None => true,
            Some(Room { slots, .. }) if *slots > 0 => {
                *slots -= 1;
                true
            }
            Some(Room { waiting, .. }) => {
                let is_soon = self.activities.lock().has_slot_soon(&task.name, *waiting);
                *waiting += usize::from(is_soon);
                is_soon
            }
        }
    }

    /// The room that is here, if others are there who may have some.
    fn room_beside_others(&self) -> Option<Room> {
        self.has_company.load(Ordering::Relaxed).then(|| Room {
            slots: self.activities.lock().room(),
            waiting: 0,
        })
    }

    /// Names of activities whose tasks are taken here: those that can be run, and those that nobody will ever run.
    async fn names_to_take(&self, noted: &mut Option<usize>) -> Vec<String> {
        let mut names = self.shared.registry.lock().activities();
        let strange: Vec<String> = self.strange.lock().iter().cloned().collect();
        if *noted == Some(names.len()) && strange.is_empty() {
            return names;
        }
        let provider = &self.shared.store.provider;
        // Without an answer they wait, and the next look asks again.
        let Ok(known) = retrying(|| provider.know_activities(names.clone())).await else {
            return names;
        };
        *noted = Some(names.len());
        if strange.is_empty() {
            return names;
        }
        let Ok(workers) = retrying(|| provider.workers()).await else {
            return names;
        };
        let is_alone = workers.iter().all(|worker| worker.id == self.worker);
        for name in strange {
            if is_alone && known.binary_search(&name).is_err() {
                names.push(name);
                continue;
            }
            self.strange.lock().remove(&name);
            if self.expected.lock().insert(name.clone()) {
                let message =
                    format!("activity '{name}' is not registered in this runtime and waits for a worker that has it");
                self.shared.log(Level::Warn, message);
            }
        }
        names
    }

    fn room_for_tasks(&self) -> usize {
        if !self.takes_work() {
            0
        } else {
            self.activities.lock().room()
        }
    }

    /// Run tasks that were asked for when nothing was being given back, but for those that were given back since, which are others' then, and
    /// over perhaps (B2).
    async fn borrow(self: &Arc<Self>, tasks: Vec<Task>, mut quiet: Quiet) {
        let mut attempts: Vec<(TaskName, Attempt)> =
            tasks.into_iter().filter_map(|task| self.attempt_of(task)).collect();
        while !attempts.is_empty() {
            {
                let mut activities = self.activities.lock();
                if self.has_ended() {
                    return;
                }
                // Under the lock, under which it is looked what stays when something is given back: either that finds these, or this finds that.
                if self.giving_back.quiet() == Some(quiet) {
                    for (_, attempt) in attempts {
                        self.take_on(&mut activities, attempt, None);
                        self.admit(&mut activities);
                    }
                    return;
                }
            }
            quiet = self.giving_back.until_quiet().await;
            let provider = &self.shared.store.provider;
            // Without an answer the store is closed, or the session has ended.
            let Ok(own) = retrying(|| provider.tasks_of(&self.worker)).await else {
                return;
            };
            attempts.retain(|(name, _)| own.contains(name));
        }
    }

    fn attempt_of(&self, task: Task) -> Option<(TaskName, Attempt)> {
        let Task {
            task: name,
            instance_id,
            orchestration,
            started,
            name: activity,
            input,
            options,
            deadline_ms,
            last_heartbeat,
        } = task;
        let options = serde_json::from_str(options.as_deref().unwrap_or("{}"));
        let incarnation = incarnation_of(started.as_deref().unwrap_or("{}"));
        let (Ok(options), Ok(incarnation)) = (options, incarnation) else {
            // It stays where it is until somebody looks: whoever owns the instance cannot read its history either.
            let message = format!(
                "the options of activity '{activity}' of instance '{instance_id}', or its start, cannot be read"
            );
            self.shared.log(Level::Error, message);
            return None;
        };
        let attempt = Attempt {
            origin: Origin::Task(Arc::new(Borrowed {
                task: name,
                instance_id,
                orchestration,
                incarnation,
                heartbeats: Mutex::default(),
            })),
            task: Arc::new(ActivityTask {
                scheduled: name.scheduled,
                name: activity,
                input,
                options,
                deadline_ms,
            }),
            number: name.attempt,
            last_heartbeat,
        };
        Some((name, attempt))
    }

    /// An attempt of a task is over: tell its instance.
    pub(crate) fn report(self: &Arc<Self>, borrowed: &Borrowed, result: AttemptResult, writing: AtStore) {
        borrowed.heartbeats.lock().clear(&self.alarms);
        let done = TaskDone {
            worker: self.worker.clone(),
            task: borrowed.task,
            result,
            time_ms: self.now_ms(),
        };
        let (this, id) = (Arc::clone(self), borrowed.instance_id.clone());
        let leaving = self.leaving(Owned::Task(borrowed.task));
        let done_with = Box::new(move |answer: Result<Outcome, ProviderError>| {
            match answer {
                Ok(Outcome::Told { receivers }) => this.shared.store.told(&receivers),
                // It was withdrawn, or is another worker's by now.
                Ok(_) => {}
                Err(error) if error.kind == ProviderErrorKind::Closed => {}
                Err(error) => this.shared.log(
                    Level::Error,
                    format!("the end of an activity of instance '{id}' could not be stored, it is run again: {error}"),
                ),
            }
            drop((writing, leaving));
        });
        self.shared
            .store
            .committer
            .submit(Write::TaskDone(Box::new(done)), Patience::Endless, done_with);
    }

    /// Abort what runs here and nobody waits for any more.
    async fn stop_withdrawn(self: &Arc<Self>) {
        let running = self.activities.lock().borrowed();
        if running.is_empty() {
            return;
        }
        let provider = &self.shared.store.provider;
        // Without an answer they run on, to no purpose and to no harm.
        let Ok(kept) = retrying(|| provider.tasks_of(&self.worker)).await else {
            return;
        };
        let kept: BTreeSet<TaskName> = kept.into_iter().collect();
        let lost = running.into_iter().filter(|name| !kept.contains(name));
        self.give_up_borrowed(lost, AbortReason::Cancelled);
    }

    /// Attempts of these tasks are not this worker's any more.
    pub(crate) fn give_up_borrowed(self: &Arc<Self>, tasks: impl IntoIterator<Item = TaskName>, reason: AbortReason) {
        let mut activities = self.activities.lock();
        for name in tasks {
            if let Some((token, lane)) = activities.cancel_borrowed(name) {
                self.shared.push(Class::First, Queued::Abort(token, reason, lane));
            }
        }
        self.admit(&mut activities);
    }
}
