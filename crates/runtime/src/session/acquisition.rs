//! The acquisition of due instances. An instance whose generator was kept is woken instead, and acquired by its turn.

use std::sync::Arc;
use std::time::Duration;

use perdure_engine::{Bug, is_planted};
use perdure_provider::{Acquire, DueRequest, PageLimit, ProviderError, ProviderErrorKind};
use tokio::sync::oneshot;

use crate::client::pending_wake::WakeEnd;
use crate::instance::places::ReservedPlaces;
use crate::log::Level;
use crate::options::{
    ACQUIRE_BATCH, DUE_BATCH, DUE_MESSAGES, HISTORY_PAGE, LEFT_MS, RETRY_DELAYS, SAFETY_POLL, WAKES_PATIENCE,
};
use crate::platform::retry::retrying;
use crate::platform::time::sleep;
use crate::session::Session;

/// Names and versions of orchestrations.
type Names = Vec<(String, String)>;

/// Acquires due instances when some may be due.
pub(super) async fn run(session: Arc<Session>) {
    let mut delay = RETRY_DELAYS.0;
    loop {
        let Some((limit, places)) = room_for_due(&session).await else {
            continue;
        };
        let former = is_planted(Bug::AcquiresForFormerNames).then(|| session.shared.registry.lock().acquirable());
        announce_versions(&session).await;
        match wake_or_acquire(&session, limit, places, former).await {
            Ok(()) => delay = RETRY_DELAYS.0,
            Err(error) if error.kind == ProviderErrorKind::Closed => return,
            Err(error) => {
                let message = format!("due instances could not be read from the store; the read is retried: {error}");
                session.shared.log(Level::Warn, message);
                sleep(delay).await;
                delay = (delay * 2).min(RETRY_DELAYS.1);
                session.worker.due_at(0);
            }
        }
    }
}

/// Returns the room for due instances if one may be due and there is a place for it. Otherwise waits until that may
/// have changed, and returns `None`.
async fn room_for_due(session: &Session) -> Option<(PageLimit, ReservedPlaces)> {
    let due = *session.worker.next_acquire_ms.lock();
    let now = session.worker.now_ms();
    let can_run = session.shared.registry.lock().has_orchestrations();
    let wait = match due {
        Some(at) if at > now && can_run => {
            Duration::from_millis(u64::try_from(at.saturating_sub(now)).unwrap_or(0)).min(SAFETY_POLL)
        }
        Some(_) if can_run && session.instances.has_place_for_due() => Duration::ZERO,
        // A place that becomes free is notified, and so is a registration.
        _ => SAFETY_POLL,
    };
    if !wait.is_zero() {
        tokio::select! {
            biased;
            () = session.worker.acquire_wanted.notified() => {}
            () = sleep(wait) => {}
        }
        return None;
    }
    // The acquired instances are read together, and the budget must have room for them.
    let bytes = session.instances.loads.room();
    if bytes == 0 {
        tokio::select! {
            biased;
            () = session.instances.loads.freed() => {}
            () = sleep(SAFETY_POLL) => {}
        }
        return None;
    }
    let places = session.instances.reserve_for_due(ACQUIRE_BATCH)?;
    let rows = places.count;
    Some((PageLimit { rows, bytes }, places))
}

/// Announces the newest registered versions to the store, if they are not announced yet.
async fn announce_versions(session: &Session) {
    let shared = &session.shared;
    let newest = shared.registry.lock().newest();
    if newest == *shared.announced_versions.lock() {
        return;
    }
    let provider = &shared.store.provider;
    // Without an answer the store is closed, or the session has ended.
    let announce = || provider.announce_versions(&session.worker.id, newest.clone());
    if retrying(announce).await.is_ok() {
        *shared.announced_versions.lock() = newest;
    }
}

/// Wakes the instances that are due and whose generators were kept, and acquires the others.
async fn wake_or_acquire(
    session: &Session,
    mut limit: PageLimit,
    places: ReservedPlaces,
    names: Option<Names>,
) -> Result<(), ProviderError> {
    let looks = names.is_none() && session.instances.keeps_any();
    if looks {
        let Woken { count, has_others } = wake_kept(session, limit.rows).await?;
        if !has_others {
            return Ok(());
        }
        // The woken ones have their places.
        limit.rows -= count;
        if limit.rows == 0 {
            session.worker.due_at(0);
            return Ok(());
        }
    }
    acquire(session, limit, places, names, looks).await
}

/// The result of waking the instances that are due and whose generators were kept.
struct Woken {
    /// Number of the instances that were woken.
    count: usize,
    /// True if others may be due.
    has_others: bool,
}

/// Wakes the instances that are due and whose generators were kept. The answer waits for their turns: in the store they
/// are due until then.
async fn wake_kept(session: &Session, rows: usize) -> Result<Woken, ProviderError> {
    let (shared, worker) = (&session.shared, &session.worker);
    *worker.next_acquire_ms.lock() = None;
    let request = DueRequest {
        worker: worker.id.clone(),
        left_ms: LEFT_MS,
        registered: shared.registry.lock().acquirable(),
        rows: rows.min(DUE_BATCH),
        messages: DUE_MESSAGES,
    };
    let requested = shared.clock.request_time();
    let due = shared.store.provider.due(request).await?;
    shared.clock.synchronize(requested, due.now_ms);
    let (mut has_others, mut turns) = (due.has_others, Vec::new());
    for instance in due.instances {
        let (tell, told) = oneshot::channel();
        let done = Box::new(|end| drop(tell.send(end)));
        if session.instances.wake_due(instance, done) {
            turns.push(told);
        } else {
            has_others = true;
        }
    }
    let count = turns.len();
    let all_written = async {
        let mut all_written = true;
        for end in turns {
            all_written &= matches!(end.await, Ok(WakeEnd::Written));
        }
        all_written
    };
    has_others |= tokio::select! {
        biased;
        all_written = all_written => !all_written,
        () = sleep(WAKES_PATIENCE) => true,
    };
    if !has_others {
        session.instances.places.not_wanted();
    }
    if let Some(at) = due.next_wake_at_ms {
        worker.due_at(at);
    }
    Ok(Woken { count, has_others })
}

async fn acquire(
    session: &Session,
    limit: PageLimit,
    places: ReservedPlaces,
    names: Option<Names>,
    looked: bool,
) -> Result<(), ProviderError> {
    let (shared, worker) = (&session.shared, &session.worker);
    // The time is cleared before the request is made: an instance that becomes due from here on, or whose orchestration
    // is registered from here on, must lead to another look.
    *worker.next_acquire_ms.lock() = None;
    let request = Acquire {
        worker: worker.id.clone(),
        registered: names.unwrap_or_else(|| shared.registry.lock().acquirable()),
        limit,
        history_page: HISTORY_PAGE,
        left_ms: LEFT_MS,
        looked,
    };
    let requested = shared.clock.request_time();
    let claim = worker.claim();
    let ends = worker.slots.ends();
    session.instances.acquire();
    let acquired = shared.store.provider.acquire(request).await?;
    // The clock is set first: an instance that is due for the store must be due for its engine.
    shared.clock.synchronize(requested, acquired.now_ms);
    let is_full = acquired.instances.len() == limit.rows;
    session.instances.acquired(acquired.instances);
    if !is_full {
        session.instances.places.not_wanted();
    }
    drop((claim, places));
    if worker.slots.wanted(acquired.slots_wanted, ends) {
        worker.due_at(0);
    }
    if let Some(at) = if is_full { Some(0) } else { acquired.next_wake_at_ms } {
        worker.due_at(at);
    }
    Ok(())
}
