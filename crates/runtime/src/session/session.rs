//! A session: one start of a runtime, with a worker, the instances that it owns, and their activities.
//!
//! A session ends when the runtime shuts down or loses its lease. A runtime that lost its lease starts another session
//! by itself.

use std::sync::{Arc, Weak};

use perdure_engine::Mailbox;
use perdure_provider::{Epoch, InstanceKey, NewInstance, Outcome, WorkerId};
use tokio::time::Instant;

use crate::activity::activities::Activities;
use crate::client::pending_wake::PendingWake;
use crate::client::store::LocalWorker;
use crate::commit::committer::WriteDone;
use crate::instance::instances::Instances;
use crate::platform::alarms::Alarms;
use crate::shared::{MAIN, Shared};
use crate::state::alarm::Alarm;
use crate::state::attempt::AbortReason;
use crate::worker::Worker;
use crate::worker::worker::Ends;

/// The parts of a session. It adds nothing to them but the order of its end.
pub(crate) struct Session {
    pub(crate) shared: Arc<Shared>,
    pub(crate) worker: Arc<Worker>,
    pub(crate) activities: Arc<Activities>,
    pub(crate) instances: Arc<Instances>,
}

impl Session {
    /// Returns the session of a worker. Its registration was asked for at `asked`.
    pub(crate) fn new(shared: Arc<Shared>, worker: WorkerId, asked: Instant) -> Arc<Self> {
        let alarms = Arc::new(Alarms::new(Arc::clone(&shared.clock) as Arc<_>));
        Arc::new_cyclic(|this: &Weak<Self>| {
            let worker = Worker::new(Arc::clone(&shared), worker, asked, Weak::clone(this) as Weak<dyn Ends>);
            let activities = Activities::new(Arc::clone(&worker), alarms);
            Self {
                shared,
                instances: Instances::new(Arc::clone(&activities)),
                worker,
                activities,
            }
        })
    }

    /// Ends the session and forgets all that it knows. Results and commits that come later find nothing.
    pub(crate) fn end(&self, reason: AbortReason) {
        self.worker.end();
        self.drain();
        self.activities.end(reason);
        self.instances.end();
        self.shared.store.mark_all_changed();
        // This comes last: the next session begins when nothing of this one can be found any more.
        self.worker.tell_over();
    }

    /// Stops new work: no instance is taken and no activity starts.
    pub(crate) fn drain(&self) {
        self.worker.draining.begin();
        self.activities.attempts.lock().close();
    }

    /// Handles alarms until the session ends.
    pub(crate) async fn run_alarms(self: Arc<Self>) {
        let (instances, activities) = (&self.instances, &self.activities);
        loop {
            match instances.services.alarms.next().await {
                (id, Alarm::Timer(instance)) => {
                    if let Some(instance) = instance.upgrade() {
                        instance.lock().alarm.take_if(|alarm| *alarm == id);
                        instances.wake(&instance);
                    }
                }
                (_, Alarm::Attempt(token)) => activities.due(token),
                (_, Alarm::Probation(instance)) => {
                    if let Some(instance) = instance.upgrade() {
                        instances.pass_probation(&instance);
                    }
                }
                (id, Alarm::Heartbeat(origin, scheduled)) => activities.heartbeat_pause_over(&origin, scheduled, id),
            }
        }
    }
}

impl Ends for Session {
    fn end(&self, reason: AbortReason) {
        self.end(reason);
    }
}

impl LocalWorker for Session {
    fn worker(&self) -> &WorkerId {
        &self.worker.id
    }

    fn can_take(&self, new: &NewInstance) -> bool {
        let slots = &self.worker.slots;
        let may_claim = new.queue.as_ref().is_none_or(|entry| slots.may_claim(&entry.queue));
        may_claim && self.instances.has_place_for_start() && self.shared.registry.lock().has(&new.name, &new.version)
    }

    fn highest_version(&self, name: &str) -> Option<String> {
        self.shared.registry.lock().highest(name).map(str::to_owned)
    }

    fn start(self: Arc<Self>, new: Box<NewInstance>, done: WriteDone) {
        let Some(entry) = &new.queue else {
            return self.instances.start_here(new, done);
        };
        let (worker, queue) = (Arc::clone(&self.worker), entry.queue.clone());
        worker.slots.claims(&queue);
        let counted: WriteDone = Box::new(move |answer| {
            let has_slot = match &answer {
                Ok(Outcome::Started { claimed, .. }) => Some(claimed.is_some()),
                _ => None,
            };
            worker.slots.answered(&queue, has_slot);
            done(answer);
        });
        self.instances.start_here(new, counted);
    }

    fn can_wake(&self, id: &str, mailbox: &Mailbox) -> bool {
        self.instances.can_wake(id, mailbox)
    }

    fn wake(self: Arc<Self>, id: &str, wake: PendingWake) {
        self.instances.wake_here(id, wake);
    }

    fn is_held_up(&self) -> bool {
        self.shared.pulse(MAIN).is_held_up()
    }

    fn runs(&self, id: &str) -> bool {
        self.instances.table.lock().owns_id(id)
    }

    fn revoke(self: Arc<Self>, key: InstanceKey, until: Epoch) {
        self.instances.revoke(key, until, AbortReason::Cancelled);
    }

    fn look_for_messages(&self) {
        self.worker.inbox_wanted.notify_one();
    }

    fn look_at_lease(&self) {
        self.worker.renewal_wanted.notify_one();
    }

    fn look_for_work(&self) {
        self.worker.due_at(0);
    }

    fn slot_may_be_free(&self) {
        if self.worker.slots.ended() {
            self.worker.due_at(0);
        }
        if self.activities.queue_slots.ended() {
            self.activities.tasks_wanted.notify_one();
        }
    }

    fn look_at_tasks(&self) {
        self.activities.tasks_wanted.notify_one();
    }
}
