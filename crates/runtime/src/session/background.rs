//! The tasks of a worker besides its turns: it renews its lease, acquires due instances, reads its inbox, and takes
//! over dead workers.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use perdure_engine::{Bug, Completion, is_planted};
use perdure_provider::{
    Acquire, CommitOutcome, InboxPosition, NewWorker, PageLimit, ProviderError, ProviderErrorKind, Renewal, TakenOver,
    Worker, WorkerId,
};
use tokio::time::Instant;

use crate::client::store::LocalWorker;
use crate::error::RuntimeError;
use crate::log::Level;
use crate::options::{ACQUIRE_BATCH, HISTORY_PAGE, INBOX_PAGE, RETRY_DELAYS, SAFETY_POLL, WORKERS_LOOK};
use crate::platform::machine::new_worker_id;
use crate::platform::retry::retrying;
use crate::poison::mismatched;
use crate::report::Report;
use crate::session::description::WorkerDescription;
use crate::session::session::Session;
use crate::shared::Shared;
use crate::state::attempt::AbortReason;

/// Registers a new worker. Returns its id and the time when the request was made. The store's lease begins no earlier
/// than that, and may begin long before the answer comes.
pub(crate) async fn register(shared: &Shared) -> Result<(WorkerId, Instant), RuntimeError> {
    let machine = &*shared.store.machine;
    let process = machine.process();
    let worker = new_worker_id(machine);
    let newest = shared.registry.lock().newest();
    let row = NewWorker {
        id: worker.clone(),
        name: shared.options.worker_name.clone(),
        host: process.host,
        pid: process.pid,
        process_start: process.start,
        lease_ms: lease_ms(shared),
        about: Some(WorkerDescription::of_runtime(shared).into_text()),
        newest: newest.clone(),
    };
    let asked = Instant::now();
    let question = shared.clock.ask();
    let now_ms = match shared.store.provider.register_worker(row).await {
        Ok(now_ms) => now_ms,
        Err(error) => {
            if error.outcome == CommitOutcome::Unknown {
                forget_registration(shared, worker);
            }
            return Err(error.into());
        }
    };
    shared.clock.hear(question, now_ms);
    *shared.announced_versions.lock() = newest;
    Ok((worker, asked))
}

/// Registers a new worker after a `former` one that lost its lease without dying. What the former one owned is released
/// in good order, unless others have taken it over.
pub(crate) async fn register_again(shared: &Shared, former: &WorkerId) -> Result<(WorkerId, Instant), RuntimeError> {
    released(shared, former).await?;
    register(shared).await
}

/// Releases a worker that may be registered although this process does not use it. Until its lease ends, other workers
/// would take it for one that could run what they release.
fn forget_registration(shared: &Shared, worker: WorkerId) {
    let provider = Arc::clone(&shared.store.provider);
    // If the store refuses that, the row goes when its lease ends.
    shared
        .store
        .tokio
        .spawn(async move { provider.release_worker(&worker).await.map(drop) });
}

/// Releases a worker in the store. After an error, too, the release may have been carried out, and then what the worker
/// owned is due.
async fn released(shared: &Shared, worker: &WorkerId) -> Result<(), ProviderError> {
    let released = shared.store.provider.release_worker(worker).await;
    shared.store.work_was_released();
    released.map(drop)
}

/// Starts the tasks of a session whose worker was just registered, so that it takes work.
pub(crate) fn start_tasks(session: &Arc<Session>) {
    let local: Arc<dyn LocalWorker> = session.clone();
    session.shared.store.attach(&local);
    let mut tasks: Vec<std::pin::Pin<Box<dyn Future<Output = ()> + Send>>> = vec![
        Box::pin(Arc::clone(session).run_alarms()),
        Box::pin(acquire(Arc::clone(session))),
        Box::pin(inbox(Arc::clone(session))),
        Box::pin(mismatched::resume(Arc::clone(&session.instances))),
        Box::pin(renew(Arc::clone(session))),
        Box::pin(crate::session::ownership::run(Arc::clone(&session.instances))),
        Box::pin(take_over(Arc::clone(session))),
        Box::pin(crate::activity::tasks::run(Arc::clone(&session.activities))),
        Box::pin(crate::instance::cache::run(Arc::clone(&session.instances))),
    ];
    for lane in session.shared.all_lanes() {
        tasks.push(Box::pin(crate::poison::watchdog::watch(
            Arc::clone(&session.instances),
            lane,
        )));
    }
    session
        .worker
        .keep_tasks(tasks.into_iter().map(|task| session.worker.spawn(task)).collect());
}

/// Releases a worker: what it owns, and its row.
pub(crate) async fn release(shared: &Shared, worker: &WorkerId) {
    if let Err(error) = released(shared, worker).await {
        let message = format!("what worker {worker} owned is taken over when its lease ends: {error}");
        shared.log(Level::Warn, message);
    }
}

fn lease_ms(shared: &Shared) -> u64 {
    u64::try_from(shared.options.lease.as_millis()).unwrap_or(u64::MAX)
}

/// Acquires due instances when some may be due.
async fn acquire(session: Arc<Session>) {
    let shared = &session.shared;
    let mut delay = RETRY_DELAYS.0;
    loop {
        let due = *session.worker.next_acquire_ms.lock();
        let now = session.worker.now_ms();
        let room = session.instances.room();
        let registered = shared.registry.lock().acquirable();
        match due {
            Some(at) if at <= now && room > 0 && !registered.is_empty() => {}
            Some(at) if room > 0 && !registered.is_empty() => {
                let wait = Duration::from_millis(u64::try_from(at.saturating_sub(now)).unwrap_or(0)).min(SAFETY_POLL);
                tokio::select! {
                    biased;
                    () = session.worker.acquire_wanted.notified() => {}
                    () = crate::platform::time::sleep(wait) => {}
                }
                continue;
            }
            _ => {
                // Room comes back when instances end, which is not notified: the poll is for that. A registration is
                // notified.
                tokio::select! {
                    biased;
                    () = session.worker.acquire_wanted.notified() => {}
                    () = crate::platform::time::sleep(SAFETY_POLL) => {}
                }
                continue;
            }
        }
        // The acquired instances are read together, and the budget must have room for them.
        let bytes = session.instances.loads.room();
        if bytes == 0 {
            tokio::select! {
                biased;
                () = session.instances.loads.freed() => {}
                () = crate::platform::time::sleep(SAFETY_POLL) => {}
            }
            continue;
        }
        let newest = shared.registry.lock().newest();
        if newest != *shared.announced_versions.lock() {
            // Without an answer the store is closed, or the session has ended.
            let telling = || {
                shared
                    .store
                    .provider
                    .announce_versions(&session.worker.id, newest.clone())
            };
            if retrying(telling).await.is_ok() {
                *shared.announced_versions.lock() = newest;
            }
        }
        // The time is cleared before the request: an instance that becomes due from here on must lead to another look.
        *session.worker.next_acquire_ms.lock() = None;
        let limit = PageLimit {
            rows: room.min(ACQUIRE_BATCH),
            bytes,
        };
        let request = Acquire {
            worker: session.worker.id.clone(),
            registered,
            limit,
            history_page: HISTORY_PAGE,
        };
        let asked = shared.clock.ask();
        let claim = session.worker.claim();
        session.instances.acquire();
        match shared.store.provider.acquire(request).await {
            Ok(acquired) => {
                delay = RETRY_DELAYS.0;
                // The clock is set first: an instance that is due for the store must be due for its engine.
                shared.clock.hear(asked, acquired.now_ms);
                let full = acquired.instances.len() == limit.rows;
                session.instances.acquired(acquired.instances);
                drop(claim);
                if let Some(at) = if full { Some(0) } else { acquired.next_wake_at_ms } {
                    session.worker.due_at(at);
                }
            }
            Err(error) if error.kind == ProviderErrorKind::Closed => return,
            Err(error) => {
                shared.log(
                    Level::Warn,
                    format!("due instances could not be read, trying again: {error}"),
                );
                crate::platform::time::sleep(delay).await;
                delay = (delay * 2).min(RETRY_DELAYS.1);
                session.worker.due_at(0);
            }
        }
    }
}

/// Reads the messages of owned instances when some may have come.
async fn inbox(session: Arc<Session>) {
    let mut position = InboxPosition::default();
    loop {
        session.worker.inbox_wanted.notified().await;
        loop {
            let provider = &session.shared.store.provider;
            let inbox = match retrying(|| provider.read_inbox(&session.worker.id, &position, INBOX_PAGE)).await {
                Ok(inbox) => inbox,
                Err(error) if error.kind == ProviderErrorKind::Closed => return,
                Err(error) => {
                    // The worker tries again for ever: without their messages it would hold its instances for nothing.
                    let message = format!("messages could not be read, trying again: {error}");
                    session.shared.log(Level::Error, message);
                    crate::platform::time::sleep(RETRY_DELAYS.1).await;
                    continue;
                }
            };
            for (key, message) in inbox.messages {
                match message {
                    Ok(message) => session.instances.receive(key, Completion::Message(message)),
                    Err(_) => session.instances.reread(key),
                }
            }
            let heard = inbox
                .revoked
                .into_iter()
                .filter(|_| !is_planted(Bug::RevocationUnheard));
            heard.for_each(|revoked| session.instances.revoked(revoked));
            position = inbox.position;
            if !inbox.more {
                break;
            }
        }
    }
}

/// Renews the lease in time, or ends the session before the lease ends. A renewal carries the worker's
/// description of itself when that has changed.
async fn renew(session: Arc<Session>) {
    let shared = Arc::clone(&session.shared);
    let mut written = String::new();
    // The interval is counted from the request and not from its answer, which may have taken most of the lease.
    let mut last_asked = session.worker.lease.given();
    loop {
        tokio::select! {
            () = tokio::time::sleep_until(last_asked + shared.options.lease / 3) => {}
            () = session.worker.renewal_wanted.notified() => {}
        }
        let asked = Instant::now();
        last_asked = asked;
        let question = shared.clock.ask();
        let description = WorkerDescription::of_session(&session.instances).into_text();
        match retry_until_end(&session, (description != written).then_some(&description)).await {
            Some(Some(renewal)) if session.worker.lease.renew(asked) => {
                shared.clock.hear(question, renewal.now_ms);
                written = description;
                session.worker.renewed(renewal);
            }
            _ if is_planted(Bug::LeaseNotHeeded) => {}
            lost => {
                let why = if lost == Some(None) {
                    "another worker took it over"
                } else {
                    "the store did not answer in time"
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

/// Renews the lease, and tries again after each error of the store, until the lease ends. Then it returns `None`.
async fn retry_until_end(session: &Session, description: Option<&String>) -> Option<Option<Renewal>> {
    let end = session.worker.lease.end()?;
    let lease = lease_ms(&session.shared);
    let provider = &session.shared.store.provider;
    let renewal = async {
        let (mut delay, most) = RETRY_DELAYS;
        loop {
            let renewed = provider.renew_worker(&session.worker.id, lease, description.map(String::as_str));
            match renewed.await {
                Ok(renewal) => return Some(renewal),
                Err(error) if error.kind == ProviderErrorKind::Closed => return None,
                Err(_) => {
                    crate::platform::time::sleep(delay).await;
                    delay = (delay * 2).min(most);
                }
            }
        }
    };
    tokio::select! {
        biased;
        () = tokio::time::sleep_until(end) => None,
        answer = renewal => answer,
    }
}

/// Takes over dead workers: at once if their process on this machine is gone, otherwise when their lease has ended.
///
/// The processes of this machine are checked every second, which needs no request to the store. The store is asked when
/// the next lease may have ended, and from time to time, because new workers come.
async fn take_over(session: Arc<Session>) {
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
        shared.log(Level::Info, format!("worker {worker} is gone; its instances go on"));
        shared.store.work_was_released();
    }
}
