//! The one place of this crate that sleeps.

use std::time::Duration;

/// Sleeps for at least `duration`.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that sleeps; everything else waits for a notification or an alarm"
)]
pub(crate) async fn sleep(duration: Duration) {
    tokio::time::sleep(duration).await;
}
