//! Tasks: activities in the store that a worker other than the owner of their instance runs.
//!
//! A worker runs the tasks that others offer for its queues. It offers the activities that it does not run itself, with
//! the turn that schedules them: those that name a queue, those that are not registered here, those of a session, and
//! those that it has no room for, now or soon, while other workers are there. The default queue is offered only by
//! workers that do not serve it. The end of an attempt reaches the instance as a message.
//!
//! An activity that names a queue is offered even here, because only the store can keep the limits of a queue (P27).
//!
//! An activity that is not registered here waits for a worker that has it; that worker may be starting. But if no
//! worker that ever used the store knows the name, and no other worker uses the store now, the name is a mistake: the
//! task is taken here and fails (`names_to_take`).

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
use tokio::time::Instant;

use crate::activity::activities::Activities;
use crate::commit::committer::Patience;
use crate::lane::job::Queued;
use crate::log::Level;
use crate::options::{RETRY_DELAYS, SAFETY_POLL, TASK_BYTES_MAX};
use crate::platform::retry::retrying;
use crate::state::attempt::{AbortReason, Attempt, Origin, StartLimit, TakenTask};
use crate::state::remote_activities::RemoteActivities;
use crate::worker::owned::Owned;
use crate::worker::release_requests::NoneOpen;
use crate::worker::worker::PendingOperation;

/// The part of a turn that concerns tasks.
#[derive(Default)]
pub(crate) struct TaskChanges {
    pub(crate) offers: Vec<TaskOffer>,
    pub(crate) withdrawn: Vec<EventId>,
    /// The schedules that were offered and are over. The workers that ran them may have left heartbeats.
    pub(crate) over: Vec<EventId>,
}

/// Takes the effects that concern other workers out of a turn's output.
pub(crate) fn split_tasks(
    activities: &Activities,
    remote: &mut RemoteActivities,
    output: &mut TurnOutput,
) -> TaskChanges {
    let mut changes = TaskChanges::default();
    for event in &output.events {
        let Some(scheduled) = event.ref_id else { continue };
        match event.kind {
            EventKind::ActivityCompleted | EventKind::ActivityFailed if remote.end(scheduled) => {
                changes.over.push(scheduled);
            }
            EventKind::ActivityAttemptFailed => drop(remote.offered.remove(&scheduled)),
            _ => {}
        }
    }
    let mut room = activities.shared_slots();
    output.effects.retain(|effect| match effect {
        Effect::StartActivity { task, .. } if remote.offered.contains(&task.scheduled) => false,
        Effect::StartActivity {
            task,
            attempt,
            not_before_ms,
            ..
        } if remote.before.contains(&task.scheduled) || !activities.runs_itself(task, &mut room) => {
            // Details of heartbeats from elsewhere are in the store. A task carries them to the worker that takes it.
            remote.offer(task.scheduled);
            changes.offers.push(TaskOffer {
                scheduled: task.scheduled,
                attempt: *attempt,
                queue: task.options.queue().to_owned(),
                key: task.options.key_in_queue().map(str::to_owned),
                name: task.name.clone(),
                session: task.options.session.clone(),
                priority: task.options.priority,
                due_at_ms: *not_before_ms,
                deadline_ms: task.deadline_ms,
                start_within_ms: task.start_within_ms(),
            });
            false
        }
        Effect::AbortActivity { scheduled } if remote.before.contains(scheduled) => {
            if remote.offered.contains(scheduled) {
                changes.withdrawn.push(*scheduled);
            }
            remote.end(*scheduled);
            changes.over.push(*scheduled);
            false
        }
        Effect::StartActivity { .. } | Effect::AbortActivity { .. } => true,
    });
    changes
}

/// The room of this worker for the attempts of one turn.
struct FreeSlots {
    /// The number of free slots.
    slots: usize,
    /// The number of the turn's attempts that are to wait for a slot.
    waiting: usize,
}

/// Takes tasks when some may be due and there is room for them, until the session ends.
pub(crate) async fn run(activities: Arc<Activities>) {
    let mut delay = RETRY_DELAYS.0;
    let mut noted = None;
    let mut late_looked = Instant::now();
    loop {
        activities.compare().await;
        let limit = activities.task_slots();
        let names = activities.names_to_take(&mut noted).await;
        let mut next_due_ms = None;
        // A worker without room still ends the attempts that are late (P28), but does not ask at each notice.
        if limit > 0 || (activities.worker.takes_work() && late_looked.elapsed() >= SAFETY_POLL) {
            late_looked = Instant::now();
            let request = TaskRequest {
                worker: activities.worker.id.clone(),
                queues: activities.shared.options.queues.clone(),
                names,
                limit: PageLimit {
                    rows: limit,
                    bytes: TASK_BYTES_MAX,
                },
                sessions: activities.shared.options.session_limits(),
            };
            let none_open = activities.worker.releases.until_none_open().await;
            let claim = activities.worker.claim();
            let ends = activities.queue_slots.ends();
            match activities.shared.store.provider.acquire_tasks(request).await {
                Ok(acquired) => {
                    delay = RETRY_DELAYS.0;
                    next_due_ms = acquired.next_due_ms;
                    if acquired.handed_on {
                        activities.shared.store.look_at_tasks();
                    }
                    if activities.queue_slots.wanted(acquired.slots_wanted, ends) {
                        activities.tasks_wanted.notify_one();
                    }
                    activities.run_tasks(acquired.tasks, none_open).await;
                    drop(claim);
                }
                Err(error) if error.kind == ProviderErrorKind::Closed => return,
                Err(error) => {
                    let message = format!("tasks could not be read from the store; the read is retried: {error}");
                    activities.shared.log(Level::Warn, message);
                    crate::platform::time::sleep(delay).await;
                    delay = (delay * 2).min(RETRY_DELAYS.1);
                    continue;
                }
            }
        }
        let now = activities.worker.now_ms();
        // This comes before the room is counted: a slot that is freed from here on wakes this task.
        activities.tasks_may_wait.store(true, Ordering::Release);
        let is_full = activities.task_slots() == 0;
        activities.tasks_may_wait.store(is_full, Ordering::Release);
        if limit == 0 && !is_full {
            // A place has become free since the room was counted, when this task was not to be woken.
            continue;
        }
        let wait = match next_due_ms {
            _ if is_full => activities.worker.takes_work().then_some(SAFETY_POLL),
            Some(at) => {
                let until_due = Duration::from_millis(u64::try_from(at.saturating_sub(now)).unwrap_or(0));
                Some(until_due.min(SAFETY_POLL))
            }
            None => None,
        };
        *activities.next_tasks_ms.lock() = next_due_ms;
        activities.wait_for_tasks(wait).await;
    }
}

impl Activities {
    /// True if this worker runs an activity of its own instance itself. Without `room` there is no limit, because no
    /// other worker would run it.
    fn runs_itself(&self, task: &ActivityTask, room: &mut Option<FreeSlots>) -> bool {
        if task.options.inline {
            return true;
        }
        let queue = task.options.queue();
        if !self.shared.options.queues.serve(queue) {
            return false;
        }
        if !self.shared.registry.lock().has_activity(&task.name) {
            self.unregistered.lock().insert(task.name.clone());
            return false;
        }
        // Only the store knows which worker holds the session, and which slots the queue has. Both may come here.
        if task.options.session.is_some() || task.options.key_in_queue().is_some() {
            return false;
        }
        match room {
            None => true,
            Some(FreeSlots { slots, .. }) if *slots > 0 => {
                *slots -= 1;
                true
            }
            Some(FreeSlots { waiting, .. }) => {
                let is_soon = self.attempts.lock().has_slot_soon(&task.name, *waiting);
                *waiting += usize::from(is_soon);
                is_soon
            }
        }
    }

    /// Returns the room of this worker if other workers may have room, too.
    fn shared_slots(&self) -> Option<FreeSlots> {
        self.has_other_workers.load(Ordering::Relaxed).then(|| FreeSlots {
            slots: self.attempts.lock().room(),
            waiting: 0,
        })
    }

    /// Returns the names of the activities whose tasks are taken here: those that can be run here, and those that no
    /// worker will ever run.
    async fn names_to_take(&self, noted: &mut Option<usize>) -> Vec<String> {
        let mut names = self.shared.registry.lock().activities();
        let unregistered: Vec<String> = self.unregistered.lock().iter().cloned().collect();
        if *noted == Some(names.len()) && unregistered.is_empty() {
            return names;
        }
        let provider = &self.shared.store.provider;
        // Without an answer the unregistered names wait, and the next look asks again.
        let Ok(known) = retrying(|| provider.announce_activities(names.clone())).await else {
            return names;
        };
        *noted = Some(names.len());
        if unregistered.is_empty() {
            return names;
        }
        let Ok(workers) = retrying(|| provider.workers()).await else {
            return names;
        };
        let is_alone = workers.iter().all(|worker| worker.id == self.worker.id);
        for name in unregistered {
            if is_alone && known.binary_search(&name).is_err() {
                names.push(name);
                continue;
            }
            self.unregistered.lock().remove(&name);
            if self.registered_elsewhere.lock().insert(name.clone()) {
                let message = format!(
                    "activity '{name}' is not registered in this runtime, and waits for a worker that has registered it"
                );
                self.shared.log(Level::Warn, message);
            }
        }
        names
    }

    /// Waits until there may be tasks to take, at most for a time.
    async fn wait_for_tasks(&self, most: Option<Duration>) {
        let notified = self.tasks_wanted.notified();
        match most {
            Some(most) => tokio::select! {
                biased;
                () = notified => {}
                () = crate::platform::time::sleep(most) => {}
            },
            None => notified.await,
        }
    }

    fn task_slots(&self) -> usize {
        if !self.worker.takes_work() {
            0
        } else {
            self.attempts.lock().room()
        }
    }

    /// Runs tasks that were acquired. `none_open` was taken when no release request was open, before the tasks were
    /// asked for. Tasks that were released since are left out: other workers have them then, and may have finished
    /// them (B2).
    async fn run_tasks(self: &Arc<Self>, tasks: Vec<Task>, mut none_open: NoneOpen) {
        let mut new: Vec<(TaskName, Attempt)> = tasks.into_iter().filter_map(|task| self.attempt_of(task)).collect();
        while !new.is_empty() {
            {
                let mut attempts = self.attempts.lock();
                if self.worker.has_ended() {
                    return;
                }
                // The lock is held because a release reads what it keeps under the same lock: either it finds these
                // attempts, or the check here finds the request.
                if self.worker.releases.none_open() == Some(none_open) {
                    for (_, attempt) in new {
                        self.take_on(&mut attempts, attempt, None);
                        self.admit(&mut attempts);
                    }
                    return;
                }
            }
            none_open = self.worker.releases.until_none_open().await;
            let provider = &self.shared.store.provider;
            // Without an answer the store is closed, or the session has ended.
            let Ok(own) = retrying(|| provider.tasks_of(&self.worker.id)).await else {
                return;
            };
            new.retain(|(name, _)| own.contains(name));
        }
    }

    fn attempt_of(&self, task: Task) -> Option<(TaskName, Attempt)> {
        let Task {
            task: name,
            instance_id,
            orchestration,
            version,
            tags,
            started,
            name: activity,
            input,
            options,
            deadline_ms,
            start_by_ms,
            is_late,
            last_heartbeat,
        } = task;
        let options = serde_json::from_str(options.as_deref().unwrap_or("{}"));
        let incarnation = incarnation_of(started.as_deref().unwrap_or("{}"));
        let (Ok(options), Ok(incarnation)) = (options, incarnation) else {
            // The task stays in the store until a person looks at it: the owner of the instance cannot read its history
            // either.
            let message = format!(
                "the options of activity '{activity}' of instance '{instance_id}', or its start, cannot be read"
            );
            self.shared.log(Level::Error, message);
            return None;
        };
        let attempt = Attempt {
            origin: Origin::Task(Arc::new(TakenTask {
                task: name,
                instance_id,
                orchestration,
                version,
                tags,
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
            is_untried: false,
            last_heartbeat,
            start: StartLimit {
                at_ms: start_by_ms,
                is_over: is_late,
            },
        };
        Some((name, attempt))
    }

    /// Writes the end of a task's attempt, which reaches its instance as a message.
    pub(crate) fn report(self: &Arc<Self>, task: &TakenTask, result: AttemptResult, writing: PendingOperation) {
        task.heartbeats.lock().clear(&self.alarms);
        let done = TaskDone {
            worker: self.worker.id.clone(),
            task: task.task,
            result,
            time_ms: self.worker.now_ms(),
        };
        let (this, id) = (Arc::clone(self), task.instance_id.clone());
        let releasing = self.worker.releasing(Owned::Task(task.task));
        let done_with = Box::new(move |answer: Result<Outcome, ProviderError>| {
            match answer {
                Ok(Outcome::TaskDone { receivers, freed }) => {
                    this.shared.store.notify_receivers(&receivers);
                    if freed {
                        this.shared.store.slot_may_be_free();
                    }
                }
                // The task was withdrawn, or is another worker's by now.
                Ok(_) => {}
                Err(error) if error.kind == ProviderErrorKind::Closed => {}
                Err(error) => this.shared.log(
                    Level::Error,
                    format!(
                        "the end of an activity of instance '{id}' could not be stored; the activity runs again: \
                         {error}"
                    ),
                ),
            }
            drop((writing, releasing));
        });
        self.shared
            .store
            .committer
            .submit(Write::TaskDone(Box::new(done)), Patience::Endless, done_with);
    }

    /// Returns the tasks that are this worker's as far as it knows: those that run or wait here, and those whose end or
    /// release is on its way to the store.
    pub(crate) fn known_tasks(&self) -> BTreeSet<TaskName> {
        // In this order: a task is noted as one that is being released before it leaves the attempts.
        let mut known: BTreeSet<TaskName> = self.attempts.lock().taken_tasks().into_iter().collect();
        known.extend(self.worker.releasing_tasks());
        known
    }

    /// Asks for a comparison of the tasks that the store lists as this worker's with those that it knows (O6).
    pub(crate) fn compare_tasks(&self) {
        self.worker.ownership.tasks_differ.store(true, Ordering::Release);
        self.tasks_wanted.notify_one();
    }

    /// Aborts the tasks that run here and were withdrawn. If a comparison was asked for, releases the tasks that the
    /// store lists as this worker's and that it does not know. No request for tasks is under way, and none is made
    /// before the releases are answered: a release that comes late would release a task that was taken again.
    async fn compare(self: &Arc<Self>) {
        let finds_orphans = self.worker.ownership.tasks_differ.swap(false, Ordering::AcqRel);
        let running = self.attempts.lock().taken_tasks();
        if running.is_empty() && !finds_orphans {
            return;
        }
        let known = finds_orphans.then(|| self.known_tasks());
        let provider = &self.shared.store.provider;
        // Without an answer they run on, which is useless and harmless.
        let Ok(listed) = retrying(|| provider.tasks_of(&self.worker.id)).await else {
            return;
        };
        let listed: BTreeSet<TaskName> = listed.into_iter().collect();
        let lost = running.into_iter().filter(|name| !listed.contains(name));
        self.abort_tasks(lost, AbortReason::Cancelled);
        if let Some(known) = known {
            let orphans = listed.difference(&known).copied().map(Owned::Task).collect();
            for is_answered in self.worker.release_orphans(&orphans) {
                // The channel is closed without a value.
                let _ = is_answered.await;
            }
        }
    }

    /// Gives up the attempts of tasks that are not this worker's any more.
    pub(crate) fn abort_tasks(self: &Arc<Self>, tasks: impl IntoIterator<Item = TaskName>, reason: AbortReason) {
        let mut attempts = self.attempts.lock();
        for name in tasks {
            if let Some((token, lane)) = attempts.cancel_task(name) {
                self.shared.push(Class::First, Queued::Abort(token, reason, lane));
            }
        }
        self.admit(&mut attempts);
    }
}
