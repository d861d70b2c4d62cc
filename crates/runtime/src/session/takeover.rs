//! The takeover of dead workers.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use perdure_provider::{ProviderErrorKind, TakenOver, Worker, WorkerId};
use tokio::time::Instant;

use crate::log::Level;
use crate::options::{SAFETY_POLL, WORKERS_LOOK};
use crate::platform::retry::retrying;
use crate::report::Report;
use crate::session::Session;

/// Takes over dead workers: at once if their process on this machine is gone, otherwise when their lease has ended.
///
/// The processes of this machine are checked every second, which needs no request to the store. The store is asked when
/// the next lease may have ended, and from time to time, because new workers come.
pub(super) async fn run(session: Arc<Session>) {
    let machine = &session.shared.store.machine;
    let provider = &session.shared.store.provider;
    let report = Report::of_death().into_text();
    loop {
        let mut others = other_workers(&session).await;
        let look_again = Instant::now() + until_next_end(&session, &others);
        loop {
            let gone: Vec<WorkerId> = others
                .iter()
                .filter(|other| machine.knows_gone(other))
                .map(|other| other.id.clone())
                .collect();
            others.retain(|other| !gone.contains(&other.id));
            for worker in gone {
                match provider.take_over_worker(&worker, &report).await {
                    Ok(mut taken) => {
                        // This worker counts and logs the takeover even if another worker was first.
                        taken.workers = vec![worker];
                        taken_over(&session, taken);
                    }
                    // The takeover may have been carried out.
                    Err(_) => session.shared.store.work_was_released(),
                }
            }
            let now = Instant::now();
            if now >= look_again {
                break;
            }
            crate::platform::time::sleep(SAFETY_POLL.min(look_again - now)).await;
        }
        if others
            .iter()
            .all(|other| other.lease_until_ms > session.worker.now_ms())
        {
            continue;
        }
        match provider.take_over_expired_workers(&report).await {
            Ok(taken) => taken_over(&session, taken),
            Err(error) if error.kind == ProviderErrorKind::Closed => return,
            // The takeover is tried again soon. But this one may have been carried out, and then no worker finds the
            // dead one again.
            Err(_) => session.shared.store.work_was_released(),
        }
    }
}

/// Returns the other workers of the store, and notes if there are any.
pub(crate) async fn other_workers(session: &Session) -> Vec<Worker> {
    let provider = &session.shared.store.provider;
    let mut others = retrying(|| provider.workers()).await.unwrap_or_default();
    others.retain(|worker| worker.id != session.worker.id);
    session
        .activities
        .has_other_workers
        .store(!others.is_empty(), Ordering::Relaxed);
    others
}

/// Returns the time until the first lease of the others ends, within the bounds of [`WORKERS_LOOK`].
fn until_next_end(session: &Session, others: &[Worker]) -> Duration {
    let (least, most) = WORKERS_LOOK;
    let first = others.iter().map(|other| other.lease_until_ms).min();
    let left = first.map(|end| u64::try_from(end - session.worker.now_ms()).unwrap_or(0));
    left.map_or(most, |left| Duration::from_millis(left).clamp(least, most))
}

fn taken_over(session: &Session, taken: TakenOver) {
    let shared = &session.shared;
    for poison_pill in taken.poison_pills {
        shared.poison_pill_suspended(poison_pill);
    }
    for worker in taken.workers {
        shared.metrics.takeovers.add(1);
        shared.log(
            Level::Info,
            format!("worker {worker} is gone; its instances continue on other workers"),
        );
        shared.store.work_was_released();
    }
}
