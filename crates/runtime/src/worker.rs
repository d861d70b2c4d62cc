//! What a worker does besides turns: it renews its lease, takes due instances, reads its inbox, and takes dead workers over.

use std::sync::Arc;
use std::time::Duration;

use perdure_engine::{Completion, MessageSeq};
use perdure_provider::{Acquire, NewWorker, ProviderErrorKind, WorkerId};
use tokio::time::Instant;

use crate::activities::AbortReason;
use crate::error::RuntimeError;
use crate::job::Level;
use crate::liveness::ThisProcess;
use crate::options::{ACQUIRE_BATCH, HISTORY_PAGE, INBOX_PAGE, MESSAGE_PAGE, RETRY_DELAYS, SAFETY_POLL};
use crate::retry::retrying;
use crate::session::Session;
use crate::shared::Shared;
use crate::store::LocalWorker;
use crate::unfit;

/// Register a new worker.
pub(crate) async fn register(shared: &Shared) -> Result<WorkerId, RuntimeError> {
    let process = ThisProcess::read();
    let worker = WorkerId(Arc::from(uuid::Uuid::now_v7().hyphenated().to_string()));
    let row = NewWorker {
        id: worker.clone(),
        name: shared.options.worker_name.clone(),
        host: process.host,
        pid: process.pid,
        process_start: process.start,
        lease_ms: lease_ms(shared),
    };
    shared.store.provider.register_worker(row).await?;
    Ok(worker)
}

/// Let a session whose worker was just registered take work.
pub(crate) fn set_going(session: &Arc<Session>) {
    let local: Arc<dyn LocalWorker> = session.clone();
    session.shared.store.attach(&local);
    let tasks: [std::pin::Pin<Box<dyn Future<Output = ()> + Send>>; 7] = [
        Box::pin(Arc::clone(session).run_alarms()),
        Box::pin(acquire(Arc::clone(session))),
        Box::pin(inbox(Arc::clone(session))),
        Box::pin(unfit::resume(Arc::clone(session))),
        Box::pin(renew(Arc::clone(session))),
        Box::pin(take_over(Arc::clone(session))),
        Box::pin(crate::tasks::run(Arc::clone(session))),
    ];
    let tokio = &session.shared.store.tokio;
    session.keep_tasks(tasks.into_iter().map(|task| tokio.spawn(task)).collect());
}

/// Give back what a worker owns, and its row.
pub(crate) async fn release(shared: &Shared, worker: &WorkerId) {
    if let Err(error) = shared.store.provider.release_worker(worker).await {
        let message = format!("what worker {worker} owned is taken over when its lease ends: {error}");
        shared.log(Level::Warn, message);
    }
}

fn lease_ms(shared: &Shared) -> u64 {
    u64::try_from(shared.options.lease.as_millis()).unwrap_or(u64::MAX)
}

/// Take due instances whenever some may be due.
async fn acquire(session: Arc<Session>) {
    let shared = &session.shared;
    let mut delay = RETRY_DELAYS.0;
    loop {
        let due = *session.next_acquire_ms.lock();
        let now = session.now_ms();
        let room = session.room();
        let registered = shared.registry.lock().all();
        match due {
            Some(at) if at <= now && room > 0 && !registered.is_empty() => {}
            Some(at) if room > 0 && !registered.is_empty() => {
                let wait = Duration::from_millis(u64::try_from(at - now).unwrap_or(0)).min(SAFETY_POLL);
                tokio::select! {
                    () = session.acquire_wanted.notified() => {}
                    () = crate::time::sleep(wait) => {}
                }
                continue;
            }
            _ => {
                // Room comes back with ended instances, and a registration tells; the poll is for the former.
                tokio::select! {
                    () = session.acquire_wanted.notified() => {}
                    () = crate::time::sleep(SAFETY_POLL) => {}
                }
                continue;
            }
        }
        // What becomes due from here on must lead to another look.
        *session.next_acquire_ms.lock() = None;
        let limit = room.min(ACQUIRE_BATCH);
        let request = Acquire {
            worker: session.worker.clone(),
            registered,
            limit,
            history_page: HISTORY_PAGE,
            message_page: MESSAGE_PAGE,
        };
        match shared.store.provider.acquire(request).await {
            Ok(acquired) => {
                delay = RETRY_DELAYS.0;
                let full = acquired.instances.len() == limit;
                for instance in acquired.instances {
                    session.insert(instance);
                }
                if let Some(at) = if full { Some(0) } else { acquired.next_wake_at_ms } {
                    session.due_at(at);
                }
            }
            Err(error) if error.kind == ProviderErrorKind::Closed => return,
            Err(error) => {
                shared.log(
                    Level::Warn,
                    format!("due instances could not be read, trying again: {error}"),
                );
                crate::time::sleep(delay).await;
                delay = (delay * 2).min(RETRY_DELAYS.1);
                session.due_at(0);
            }
        }
    }
}

/// Read the messages that come for owned instances, whenever some may have come.
async fn inbox(session: Arc<Session>) {
    let mut after = MessageSeq(0);
    loop {
        session.inbox_wanted.notified().await;
        loop {
            let provider = &session.shared.store.provider;
            let messages = match retrying(|| provider.read_inbox(&session.worker, after, INBOX_PAGE)).await {
                Ok(messages) => messages,
                Err(error) if error.kind == ProviderErrorKind::Closed => return,
                Err(error) => {
                    // Without its messages the worker would hold its instances for nothing.
                    let message = format!("messages could not be read, trying again: {error}");
                    session.shared.log(Level::Error, message);
                    crate::time::sleep(RETRY_DELAYS.1).await;
                    continue;
                }
            };
            let full = messages.len() == INBOX_PAGE;
            for (key, message) in messages {
                match message {
                    Ok(message) => {
                        after = after.max(message.seq);
                        session.receive(key, Completion::Message(message));
                    }
                    Err(unreadable) => {
                        after = after.max(unreadable);
                        session.reread(key);
                    }
                }
            }
            if !full {
                break;
            }
        }
    }
}

/// Renew the lease in time, or give everything up before it ends.
async fn renew(session: Arc<Session>) {
    let shared = Arc::clone(&session.shared);
    let lease = shared.options.lease;
    // By a clock that nobody can set: a wall clock that jumps must neither end a lease nor prolong it.
    let mut renewed = Instant::now();
    loop {
        crate::time::sleep(lease / 3).await;
        let asked = Instant::now();
        let answer = retry_until(renewed + lease, &session).await;
        match answer {
            Some(true) => renewed = asked,
            lost => {
                let why = if lost.is_none() {
                    "the store did not answer in time"
                } else {
                    "another worker took it over"
                };
                shared.log(
                    Level::Warn,
                    format!("worker {} lost its lease: {why}; it starts over", session.worker),
                );
                session.end(AbortReason::LeaseLost);
                return;
            }
        }
    }
}

/// Renew, again and again while the store fails, until the lease is about to end; then `None`.
async fn retry_until(end: Instant, session: &Session) -> Option<bool> {
    let lease = lease_ms(&session.shared);
    let provider = &session.shared.store.provider;
    let renewal = retrying(|| provider.renew_worker(&session.worker, lease));
    tokio::select! {
        answer = renewal => answer.ok(),
        () = tokio::time::sleep_until(end) => None,
    }
}

/// Take dead workers over: at once when their process on this machine is gone, else when their lease has ended.
async fn take_over(session: Arc<Session>) {
    let process = ThisProcess::read();
    let shared = &session.shared;
    let provider = &shared.store.provider;
    loop {
        let mut taken: Vec<WorkerId> = Vec::new();
        for worker in retrying(|| provider.workers()).await.unwrap_or_default() {
            let gone = process.knows_gone(&worker);
            if worker.id != session.worker && gone && provider.release_worker(&worker.id).await.is_ok() {
                taken.push(worker.id);
            }
        }
        match provider.release_expired_workers().await {
            Ok(expired) => taken.extend(expired),
            Err(error) if error.kind == ProviderErrorKind::Closed => return,
            // It is tried again a second later.
            Err(_) => {}
        }
        for worker in taken {
            shared.metrics.takeover();
            shared.log(Level::Info, format!("worker {worker} is gone; its instances go on"));
            session.due_at(0);
            session.tasks_wanted.notify_one();
        }
        crate::time::sleep(SAFETY_POLL).await;
    }
}
