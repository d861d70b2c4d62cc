//! Several handles on one store, and the end of a handle.

use std::sync::Arc;

use perdure_engine::{EventId, ExecutionId};
use perdure_provider::{Acquire, InboxPosition, InstanceKey, PageLimit, ProviderError, ProviderErrorKind, TurnCommit};
use tokio::sync::Notify;

use crate::store::{Handle, Store, answer, event, instance, new_worker, release, start, turn, within};

/// The identity of a store is that of each handle.
pub async fn tell_the_same_identity(store: &Store) {
    let id = store.first().provider.store_id().await.expect("the store answers");
    assert!(!id.is_empty());
    if let Some(second) = store.second() {
        assert_eq!(second.provider.store_id().await, Ok(id));
    }
}

/// The second handle finds everything that the first one wrote, at once.
pub async fn a_second_handle_sees_the_writes_of_the_first(store: &Store) {
    let first = store.first();
    let Some(second) = store.second() else { return };
    let worker = first.worker("w").await;
    assert_eq!(second.provider.workers().await.expect("the store answers").len(), 1);
    let owned = first.owned("a", &worker).await;
    assert_eq!(second.status("a").await.key, owned.key);
    let seq = second.deliver("a", event("go", "1")).await;
    let inbox = first
        .provider
        .read_inbox(&worker, &InboxPosition::default(), PageLimit::rows(10))
        .await
        .expect("the store answers");
    assert_eq!(
        inbox
            .messages
            .iter()
            .map(|(key, message)| (*key, message.as_ref().expect("it can be read").seq))
            .collect::<Vec<_>>(),
        [(owned.key, seq)]
    );
    first
        .commit(TurnCommit {
            consumed: vec![seq],
            seen: seq,
            ..turn(&owned, &worker)
        })
        .await;
    assert_eq!(second.messages(owned.key).await, []);
    assert_eq!(second.provider.release_worker(&worker).await, Ok(1));
    assert_eq!(first.provider.renew_worker(&worker, 1, None).await, Ok(None));
}

fn listen(handle: Handle<'_>) -> Arc<Notify> {
    let told = Arc::new(Notify::new());
    let tell = Arc::clone(&told);
    handle.provider.on_foreign_change(Box::new(move |_| tell.notify_one()));
    told
}

/// Each change by another handle is followed by a call, also of a listener that was added later.
pub async fn a_foreign_change_is_told(store: &Store) {
    let first = store.first();
    let Some(second) = store.second() else { return };
    let told = listen(first);
    for n in 0..3 {
        second.start(instance(&format!("a{n}"))).await;
        within(told.notified()).await;
    }
    let later = listen(first);
    second.start(instance("b")).await;
    within(told.notified()).await;
    within(later.notified()).await;
}

/// A handle's own commits do not hide those of others.
pub async fn a_foreign_change_is_told_to_a_busy_handle(store: &Store) {
    let first = store.first();
    let Some(second) = store.second() else { return };
    let told = listen(first);
    for n in 0..20 {
        second.start(instance(&format!("b{n}"))).await;
        first.start(instance(&format!("a{n}"))).await;
        within(told.notified()).await;
    }
}

/// A worker of one handle does not get an instance that a worker of the other handle owns.
pub async fn handles_do_not_take_the_same_instance(store: &Store) {
    let first = store.first();
    let Some(second) = store.second() else { return };
    let (one, two) = (first.worker("one").await, second.worker("two").await);
    first.start(instance("a")).await;
    let owned = second.acquire_one(&two).await;
    first.assert_nothing_due(&one).await;
    second.commit(release(&owned, &two, Some(0))).await;
    assert_eq!(first.acquire_one(&one).await.id, "a");
    second.assert_nothing_due(&two).await;
}

/// Batches that were handed over before the close are written and answered.
pub async fn closing_finishes_pending_batches(store: &Store) {
    let mut answers = Vec::new();
    for n in 0..100 {
        let (done, answered) = answer();
        store
            .provider
            .commit(Arc::new(vec![start(instance(&format!("a{n}")))]), done);
        answers.push(answered);
    }
    within(store.provider.close()).await;
    for answered in answers {
        within(answered)
            .await
            .expect("a batch is answered")
            .expect("the batch is written");
    }
    if let Some(second) = store.second() {
        assert!(second.find("a99").await.is_some());
    }
}

/// Every call answers that the handle is closed. A batch is still not answered within the call.
pub async fn a_closed_handle_answers_closed(store: &Store) {
    fn closed<T: std::fmt::Debug>(result: Result<T, ProviderError>) {
        let error = result.expect_err("it is closed");
        assert_eq!(error.kind, ProviderErrorKind::Closed);
        assert!(!error.retryable());
    }
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    within(store.provider.close()).await;
    let provider = store.provider;
    let request = Acquire {
        worker: worker.clone(),
        registered: Vec::new(),
        limit: PageLimit::rows(1),
        history_page: PageLimit::rows(1),
        left_ms: 0,
        looked: false,
    };
    closed(store.try_batch(vec![start(instance("b"))]).await);
    closed(provider.register_worker(new_worker("v")).await);
    closed(provider.renew_worker(&worker, 1, None).await);
    closed(provider.owned_by(&worker, InstanceKey(0), 1).await);
    closed(provider.workers().await);
    closed(provider.release_worker(&worker).await);
    closed(provider.take_over_worker(&worker, "").await);
    closed(provider.take_over_expired_workers("").await);
    closed(provider.acquire(request).await);
    closed(
        provider
            .read_history(owned.key, ExecutionId::FIRST, EventId::FIRST, PageLimit::rows(1))
            .await,
    );
    closed(
        provider
            .read_inbox(&worker, &InboxPosition::default(), PageLimit::rows(1))
            .await,
    );
    closed(provider.read_messages(owned.key, None, PageLimit::rows(1)).await);
    closed(provider.statuses(vec!["a".into()]).await);
    provider.on_foreign_change(Box::new(|_| {}));
    assert!(!provider.info().location.is_empty());
    assert!(!store.is_answered_within_the_call(vec![start(instance("c"))]).await);
}

/// A handle can be closed any number of times, also at once.
pub async fn closing_twice_is_closing_once(store: &Store) {
    within(async { tokio::join!(store.provider.close(), store.provider.close()) }).await;
    within(store.provider.close()).await;
}

/// The end of a handle is not the end of the store.
pub async fn closing_one_handle_leaves_the_other(store: &Store) {
    let Some(second) = store.second() else { return };
    store.first().start(instance("a")).await;
    within(store.provider.close()).await;
    assert!(second.find("a").await.is_some());
    second.start(instance("b")).await;
}
