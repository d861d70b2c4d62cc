//! The deletion of entries of streams whose time is over, by each worker.

use std::sync::Arc;

use crate::options::{STREAM_PRUNE_BATCH, STREAM_PRUNE_INTERVAL};
use crate::session::Session;

/// Deletes old entries from time to time until the session ends.
pub(super) async fn run(session: Arc<Session>) {
    loop {
        crate::platform::time::sleep(STREAM_PRUNE_INTERVAL).await;
        let now_ms = session.instances.now_ms();
        let provider = &session.shared.store.provider;
        // After an error of the store, the entries are deleted the next time.
        while matches!(provider.prune_streams(now_ms, STREAM_PRUNE_BATCH).await, Ok(true)) {}
    }
}
