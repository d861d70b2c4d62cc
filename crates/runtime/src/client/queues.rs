//! Operations of clients on queues.

use std::sync::Arc;

use perdure_provider::{QUEUES_MAX, QueueDeletion, QueueInfo, QueueSettings};

use crate::client::store::{Reply, Store};
use crate::error::RuntimeError;

impl Store {
    /// Sets the limits of a queue, and makes the queue if there is none.
    pub fn set_queue(self: &Arc<Self>, name: String, settings: QueueSettings, reply: Reply<()>) {
        let this = Arc::clone(self);
        self.tokio.spawn(async move {
            let result = this.provider.set_queue(name, settings).await;
            // Limits that are higher now let instances and tasks run that wait.
            this.work_is_due();
            this.look_at_tasks();
            reply(match result {
                Ok(true) => Ok(()),
                Ok(false) => Err(RuntimeError::TooManyQueues { max: QUEUES_MAX }),
                Err(error) => Err(error.into()),
            });
        });
    }

    /// Pauses a queue, or ends its pause.
    pub fn pause_queue(self: &Arc<Self>, name: String, is_paused: bool, reply: Reply<()>) {
        let this = Arc::clone(self);
        self.tokio.spawn(async move {
            let result = this.provider.pause_queue(name.clone(), is_paused).await;
            if !is_paused {
                this.work_is_due();
                this.look_at_tasks();
            }
            reply(match result {
                Ok(true) => Ok(()),
                Ok(false) => Err(RuntimeError::QueueNotFound { queue: name }),
                Err(error) => Err(error.into()),
            });
        });
    }

    /// Deletes a queue that no instance and no attempt is in.
    pub fn delete_queue(self: &Arc<Self>, name: String, reply: Reply<()>) {
        let this = Arc::clone(self);
        self.tokio.spawn(async move {
            let result = this.provider.delete_queue(name.clone()).await;
            reply(match result {
                Ok(QueueDeletion::Deleted) => Ok(()),
                Ok(QueueDeletion::NotFound) => Err(RuntimeError::QueueNotFound { queue: name }),
                Ok(QueueDeletion::InUse { waiting, running }) => Err(RuntimeError::QueueInUse {
                    queue: name,
                    waiting,
                    running,
                }),
                Err(error) => Err(error.into()),
            });
        });
    }

    /// Reads the queue of a name, or all queues.
    pub fn queues(self: &Arc<Self>, name: Option<String>, reply: Reply<Vec<QueueInfo>>) {
        let this = Arc::clone(self);
        self.tokio
            .spawn(async move { reply(this.provider.queues(name).await.map_err(RuntimeError::from)) });
    }
}
