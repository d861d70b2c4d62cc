//! The deletion of old lines that orchestrations logged, by each worker that keeps lines.

use std::sync::Arc;

use crate::options::{LOG_PRUNE_BATCH, LOG_PRUNE_INTERVAL};
use crate::session::Session;

/// Deletes old lines from time to time until the session ends.
pub(super) async fn run(session: Arc<Session>) {
    let Some(keep) = session.shared.options.keep_logs.clone() else {
        return;
    };
    let age_ms = i64::try_from(keep.age.as_millis()).unwrap_or(i64::MAX);
    loop {
        let before_ms = session.instances.now_ms().saturating_sub(age_ms);
        // After an error of the store, the lines are deleted the next time.
        while matches!(
            session
                .shared
                .store
                .provider
                .prune_logs(before_ms, LOG_PRUNE_BATCH)
                .await,
            Ok(true)
        ) {}
        crate::platform::time::sleep(LOG_PRUNE_INTERVAL).await;
    }
}
