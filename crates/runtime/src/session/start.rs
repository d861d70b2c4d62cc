//! The start of a session: the tasks that run until it ends.

use std::pin::Pin;
use std::sync::Arc;

use crate::activity::tasks;
use crate::client::store::LocalWorker;
use crate::instance::cache;
use crate::poison::{mismatched, watchdog};
use crate::session::{Session, acquisition, inbox, old_entries, old_lines, ownership, renewal, takeover};

impl Session {
    /// Starts the tasks of the session, so that it takes work. Its worker was just registered.
    pub(crate) fn start_tasks(self: &Arc<Self>) {
        let local: Arc<dyn LocalWorker> = self.clone();
        self.shared.store.attach(&local);
        let mut tasks: Vec<Pin<Box<dyn Future<Output = ()> + Send>>> = vec![
            Box::pin(Arc::clone(self).run_alarms()),
            Box::pin(acquisition::run(Arc::clone(self))),
            Box::pin(inbox::run(Arc::clone(self))),
            Box::pin(mismatched::resume(Arc::clone(&self.instances))),
            Box::pin(renewal::run(Arc::clone(self))),
            Box::pin(ownership::run(Arc::clone(&self.instances))),
            Box::pin(takeover::run(Arc::clone(self))),
            Box::pin(tasks::run(Arc::clone(&self.activities))),
            Box::pin(cache::run(Arc::clone(&self.instances))),
            Box::pin(old_lines::run(Arc::clone(self))),
            Box::pin(old_entries::run(Arc::clone(self))),
        ];
        for lane in self.shared.all_lanes() {
            tasks.push(Box::pin(watchdog::watch(Arc::clone(&self.instances), lane)));
        }
        self.worker
            .keep_tasks(tasks.into_iter().map(|task| self.worker.spawn(task)).collect());
    }
}
