//! The watchdog: code that does not give the thread of a lane back holds up only itself.
//!
//! - **W1** A thread is held up if its lane is not parked and it has not come by, to take a job or to let its event
//!   loop in, for all of [`LOOKS`] looks, into which the turn deadline is divided. A process that was stopped as a
//!   whole, or got no processor, does no looks either, and is not taken for one that is held up. A parked lane is not
//!   looked at.
//! - **W2** A thread that is held up takes no new work. While the first thread is held up, the worker takes no work at
//!   all: no instance, no claimed start, no task, until the thread comes by again. All workers of a store in one
//!   process share that thread, and all look for work of every kind then, including those that began while it was held
//!   up.
//! - **W3** The worker releases, in one commit, all that it owns and only that thread can run, as soon as a worker of
//!   another process is there to take it. With threads besides the first, that is what the thread has a generator of,
//!   and what is registered with the first thread alone. A release fences off the work that the thread still does on
//!   it (P7). Everything is forgotten here up to the epoch that was released; generators are dropped and attempts
//!   aborted when the thread comes by. If no other worker is there, a release would only abort what runs.
//! - **W4** An activity whose function holds the thread is not run twice: its instance stays, or its task. If the
//!   thread is held by code that runs outside of any job, such as the code after an `await`, any attempt that was begun
//!   may be the one, and all of them stay. A task whose attempt has ended stays, too: its end is on its way to the
//!   store.
//! - **W5** An instance whose turn holds the thread does not stay, and that is evidence against it (P14): a lease holds
//!   for no turn beyond the deadline. If the evidence is enough, the instance is suspended in the same commit.
//! - **W6** While the thread is held up it is looked at again and again: a claim or an acquisition that was under way
//!   is released, too.
//! - **W7** Work that was released is left to other workers until the next look. Then this worker looks for it, too:
//!   perhaps no other worker has the code or a place for it, and another thread of this one does.
//!
//! Nothing here waits for the thread. The host is told at once, so that it can report it by other means. The log and
//! its listeners live on that thread and hear of it when it comes by.

use std::mem;
use std::sync::Arc;

use perdure_engine::{Bug, is_planted};
use perdure_provider::{Epoch, InstanceKey, ReleaseMost, TaskName};
use perdure_scheduler::{LaneId, Place};

use crate::instance::instances::Instances;
use crate::lane::pulse::{CurrentWork, Pulse};
use crate::log::Level;
use crate::options::LOOKS;
use crate::poison::release::Request;
use crate::report::Report;
use crate::shared::{MAIN, Shared};
use crate::state::attempt::Origin;
use crate::state::{Instance, NO_KEY};

/// Watches a lane's thread until the session ends. A session may begin while the thread is held up. That is noticed in
/// this call, before any other task of the session checks if it takes work, and not at the first poll of the future.
pub(crate) fn watch(instances: Arc<Instances>, lane: LaneId) -> impl Future<Output = ()> + Send {
    let pulse = instances.shared.pulse(lane);
    let seen = pulse.beats();
    let looks = if pulse.is_held_up() { LOOKS } else { 0 };
    Watchdog { instances, lane }.watch_since(seen, looks)
}

/// The watchdog of one lane's thread.
struct Watchdog {
    instances: Arc<Instances>,
    lane: LaneId,
}

/// The instances and tasks that a worker keeps, and the instance that there is evidence against.
#[derive(Default)]
struct ReleasePlan {
    kept: Vec<InstanceKey>,
    kept_tasks: Vec<TaskName>,
    stalled: Option<(Arc<Instance>, Epoch)>,
}

impl ReleasePlan {
    fn keep(&mut self, origin: &Origin) {
        match origin {
            Origin::Instance(instance) => self.kept.push(instance.key()),
            Origin::Task(taken) => self.kept_tasks.push(taken.task),
        }
    }
}

impl Watchdog {
    fn shared(&self) -> &Shared {
        &self.instances.shared
    }

    fn pulse(&self) -> &Pulse {
        self.shared().pulse(self.lane)
    }

    /// Watches the thread, which has not come by since the beat `seen`, for `looks` looks.
    async fn watch_since(self, mut seen: u64, mut looks: u32) {
        let (pulse, lanes) = (self.pulse(), &self.shared().lanes);
        let mut has_released = false;
        loop {
            // A thread that was held up may have come by and be parked already. The workers that wait for it must still
            // be told.
            if looks < LOOKS {
                pulse.while_parked(lanes, self.lane).await;
            }
            crate::platform::time::sleep(self.shared().options.turn_deadline / LOOKS).await;
            let beats = pulse.beats();
            if beats != seen || lanes.is_parked(self.lane) {
                if looks >= LOOKS {
                    self.shared().store.takes_work_again();
                }
                (seen, looks) = (beats, 0);
                continue;
            }
            looks = looks.saturating_add(1);
            if looks == LOOKS {
                pulse.hold_up(beats);
                self.report_held_up();
            }
            if mem::take(&mut has_released) {
                self.shared().store.work_was_released();
            }
            let is_over = looks >= LOOKS && !is_planted(Bug::HeldUpForEver);
            if is_over && self.others_can_go_on().await && pulse.is_held_up() {
                has_released = self.release_most().await;
            }
        }
    }

    fn report_held_up(&self) {
        let (shared, lane) = (self.shared(), self.lane);
        let ms = shared.options.turn_deadline.as_millis();
        let what = match self.pulse().work() {
            CurrentWork::Turn(instance) => format!(
                "a turn of instance '{}' ({} {}); a turn must not compute for so long",
                instance.id, instance.name, instance.version
            ),
            CurrentWork::Activity(token) => match self.instances.activities.attempts.lock().get(token) {
                Some(attempt) => format!(
                    "activity '{}' of instance '{}', {}",
                    attempt.task.name,
                    attempt.origin.instance_id(),
                    if lane == MAIN {
                        "whose synchronous work needs a worker thread (see the option threads)"
                    } else {
                        "which computes synchronously"
                    }
                ),
                None => "an activity".to_owned(),
            },
            CurrentWork::Other => "code outside of turns and activities".to_owned(),
        };
        let thread = match lane {
            MAIN => "takes no work: its event loop".to_owned(),
            LaneId(n) => format!("takes no work on thread {n}: its event loop"),
        };
        let message = format!(
            "worker {} {thread} has been held up for more than {ms} ms by {what}",
            self.instances.worker.id
        );
        shared.notify_host(lane, &message);
        shared.log(Level::Warn, message);
    }

    /// True if another worker lives, on another thread. A store that takes longer than a turn may take is asked again.
    async fn others_can_go_on(&self) -> bool {
        let (store, now) = (&self.shared().store, self.instances.now_ms());
        let workers = tokio::select! {
            biased;
            workers = store.provider.workers() => workers.unwrap_or_default(),
            () = crate::platform::time::sleep(self.shared().options.turn_deadline) => return false,
        };
        workers
            .iter()
            .any(|worker| worker.lease_until_ms > now && !store.has_worker(&worker.id))
    }

    /// Releases the instances and tasks that the thread does not come to (W3). Returns `true` if the store did that.
    async fn release_most(&self) -> bool {
        let instances = &self.instances;
        if self.lane == MAIN {
            instances.release_starts();
        }
        instances.release_wakes();
        let open = Request::open(instances);
        let ReleasePlan {
            kept,
            kept_tasks,
            stalled,
        } = self.plan();
        let owned = instances.table.lock().len();
        let keeps_tasks = {
            let attempts = instances.activities.attempts.lock();
            attempts.taken_tasks().iter().all(|task| kept_tasks.contains(task))
        };
        if owned <= kept.len() && keeps_tasks {
            return false;
        }
        let request = ReleaseMost {
            worker: instances.worker.id.clone(),
            stalled: stalled.as_ref().map(|(instance, epoch)| (instance.key(), *epoch)),
            kept,
            kept_tasks,
            report: Report::of_stall(self.shared().options.turn_deadline).into_text(),
        };
        open.keep(&request);
        if !self.pulse().is_held_up() {
            // The thread has come back meanwhile. Its job may be over and not stored yet, and must not go to another
            // worker. The check comes after the request has said what it keeps, so that no attempt that begins from
            // here on is released.
            return false;
        }
        let released = open.send(request).await;
        // After an error the next look tries again.
        if let Err(error) = &released {
            let message = format!("the work of the blocked thread could not be released: {error}");
            self.shared().log(Level::Warn, message);
        }
        released.is_ok()
    }

    fn plan(&self) -> ReleasePlan {
        let instances = &self.instances;
        let mut plan = ReleasePlan::default();
        if self.shared().lanes.count() > 1 {
            self.keep_work_of_others(&mut plan);
        }
        match self.pulse().work() {
            CurrentWork::Turn(instance) => {
                let table = instances.table.lock();
                if instance.key() != NO_KEY && table.owns(&instance) {
                    let epoch = instance.lock().epoch;
                    plan.stalled = Some((instance, epoch));
                }
            }
            CurrentWork::Activity(token) => {
                if let Some(attempt) = instances.activities.attempts.lock().get(token) {
                    plan.keep(&attempt.origin);
                }
            }
            CurrentWork::Other => instances
                .activities
                .attempts
                .lock()
                .begun_at(self.lane)
                .for_each(|attempt| plan.keep(&attempt.origin)),
        }
        // This comes last: an attempt that ends meanwhile is found either running above or here. It must not be run
        // again, because its work is done.
        plan.kept_tasks.extend(instances.worker.releasing_tasks());
        plan.kept.sort_unstable();
        plan.kept.dedup();
        plan.kept_tasks.sort_unstable();
        plan.kept_tasks.dedup();
        plan
    }

    /// Keeps the instances and tasks that other threads have begun or may begin.
    fn keep_work_of_others(&self, plan: &mut ReleasePlan) {
        let (instances, shared, lane) = (&self.instances, self.shared(), self.lane);
        let owned: Vec<Arc<Instance>> = instances.table.lock().owned().cloned().collect();
        for instance in owned {
            if shared.place_of_turn(&instance) != Place::At(lane) {
                plan.kept.push(instance.key());
            }
        }
        for attempt in instances.activities.attempts.lock().not_begun_at(lane) {
            if let Origin::Task(taken) = &attempt.origin
                && shared.place_of_attempt(attempt) != Place::At(lane)
            {
                plan.kept_tasks.push(taken.task);
            }
        }
    }
}
