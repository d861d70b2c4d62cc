//! Waiting in real time. This crate waits for nothing but a server.

use std::time::Duration;

#[expect(
    clippy::disallowed_methods,
    reason = "the one place in which this crate sleeps: between two tries to reach a server, and two looks at it"
)]
pub(crate) async fn sleep(duration: Duration) {
    tokio::time::sleep(duration).await;
}
