//! The ways in which the provider runs its operations: on its thread, with a connection or in a transaction.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use perdure_provider::{Change, ProviderError, ProviderErrorKind};

use super::PostgresProvider;
use crate::connection::Connection;
use crate::error::Failure;
use crate::session::{Session, Work, read_only, transaction};

impl PostgresProvider {
    /// Runs work on the provider's thread. The work goes on to its end even if the caller stops waiting.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) -> Result<T, Failure> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Failure::Found(ProviderErrorKind::Closed, String::new()));
        }
        let done = self.at_work.spawn_on(work, self.runtime().handle()).await;
        done.unwrap_or_else(|_| Err(Failure::internal("an operation panicked").of_unknown_outcome()))
    }

    /// Like [`run`](Self::run), for a caller that uses the store.
    pub(super) async fn serve<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) -> Result<T, ProviderError> {
        let done = self.run(work).await;
        done.map_err(|failure| failure.named_of_open(&self.connections.location))
    }

    pub(super) async fn write<T: Send + 'static>(
        &self,
        work: impl for<'t> Fn(&'t Session<'t>) -> Work<'t, T> + Send + Sync + 'static,
    ) -> Result<T, ProviderError> {
        let connections = Arc::clone(&self.connections);
        self.serve(async move { transaction(&connections, work).await }).await
    }

    pub(super) async fn read<T: Send + 'static>(
        &self,
        work: impl for<'t> FnOnce(&'t Connection) -> Work<'t, T> + Send + 'static,
    ) -> Result<T, ProviderError> {
        let connections = Arc::clone(&self.connections);
        self.serve(async move {
            let connection = connections.get().await?;
            work(&connection).await
        })
        .await
    }

    /// Reads in a transaction whose reads all see one moment.
    pub(super) async fn read_moment<T: Send + 'static>(
        &self,
        work: impl for<'t> FnOnce(&'t Connection) -> Work<'t, T> + Send + 'static,
    ) -> Result<T, ProviderError> {
        let connections = Arc::clone(&self.connections);
        self.serve(async move { read_only(&connections, work).await }).await
    }

    /// Tells other processes that instances and tasks of a worker are due. `statuses` is true if some of the instances
    /// were suspended instead.
    pub(super) fn released(&self, statuses: bool) {
        self.notifier.tell(Change {
            work: true,
            tasks: true,
            statuses,
            ..Change::default()
        });
    }
}
