//! The renewal of a worker's lease.

use std::sync::Arc;

use perdure_engine::{Bug, is_planted};
use perdure_provider::{ProviderErrorKind, Renewal};
use tokio::time::Instant;

use crate::log::Level;
use crate::options::RETRY_DELAYS;
use crate::session::Session;
use crate::session::description::WorkerDescription;
use crate::session::registration::lease_ms;
use crate::state::attempt::AbortReason;

/// Renews the lease in time, or ends the session before the lease ends. A renewal carries the worker's
/// description of itself when that has changed.
pub(super) async fn run(session: Arc<Session>) {
    let shared = Arc::clone(&session.shared);
    let mut written = String::new();
    // The interval is counted from the request and not from its answer, which may have taken most of the lease.
    let mut last_asked = session.worker.lease.given();
    loop {
        // The request is polled first, so that one renewal answers a request that comes as the next one is due.
        tokio::select! {
            biased;
            () = session.worker.renewal_wanted.notified() => {}
            () = tokio::time::sleep_until(last_asked + shared.options.lease / 3) => {}
        }
        let asked = Instant::now();
        last_asked = asked;
        let requested = shared.clock.request_time();
        let description = WorkerDescription::of_session(&session.instances).into_text();
        match retry_until_end(&session, (description != written).then_some(&description)).await {
            Answer::Renewed(renewal) if session.worker.lease.renew(asked) => {
                shared.clock.synchronize(requested, renewal.now_ms);
                written = description;
                session.worker.renewed(renewal);
            }
            _ if is_planted(Bug::LeaseNotHeeded) => {}
            lost => {
                let why = if matches!(lost, Answer::TakenOver) {
                    "another worker took it over"
                } else {
                    "the store did not respond in time"
                };
                shared.log(
                    Level::Warn,
                    format!("worker {} lost its lease: {why}; it starts over", session.worker.id),
                );
                session.end(AbortReason::LeaseLost);
                return;
            }
        }
    }
}

/// The answer of the store to a renewal.
enum Answer {
    Renewed(Renewal),
    /// The worker is no longer registered: another worker took it over.
    TakenOver,
    /// The lease ended, or the store was closed, before the store answered.
    None,
}

/// Renews the lease, and tries again after each error of the store, until the lease ends.
async fn retry_until_end(session: &Session, description: Option<&String>) -> Answer {
    let Some(end) = session.worker.lease.end() else {
        return Answer::None;
    };
    let lease = lease_ms(&session.shared);
    let provider = &session.shared.store.provider;
    let renewal = async {
        let (mut delay, most) = RETRY_DELAYS;
        loop {
            let renewed = provider.renew_worker(&session.worker.id, lease, description.map(String::as_str));
            match renewed.await {
                Ok(Some(renewal)) => return Answer::Renewed(renewal),
                Ok(None) => return Answer::TakenOver,
                Err(error) if error.kind == ProviderErrorKind::Closed => return Answer::None,
                Err(_) => {
                    crate::platform::time::sleep(delay).await;
                    delay = (delay * 2).min(most);
                }
            }
        }
    };
    tokio::select! {
        biased;
        () = tokio::time::sleep_until(end) => Answer::None,
        answer = renewal => answer,
    }
}
