//! Waiting in real time. This crate waits for nothing but the codec.

use std::time::Duration;

pub(crate) use tokio::time::timeout;

#[expect(
    clippy::disallowed_methods,
    reason = "the one place in which this crate sleeps: between two tries to reach the codec"
)]
pub(crate) async fn sleep(duration: Duration) {
    tokio::time::sleep(duration).await;
}
