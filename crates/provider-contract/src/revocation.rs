//! Instances that a termination or a suspension takes from their owners, and how the owners are told (P15).

use perdure_provider::{
    Change, Epoch, Inbox, InboxPosition, InstanceKey, Outcome, PageLimit, ReleaseInstance, Revoked, WorkerId, Write,
};
use tokio::sync::mpsc;

use crate::store::{Handle, Store, instance, release, within};

async fn inbox(store: Handle<'_>, worker: &WorkerId, since: &InboxPosition) -> Inbox {
    let inbox = store.provider.read_inbox(worker, since, PageLimit::rows(10)).await;
    inbox.expect("the store answers")
}

async fn revoked(store: Handle<'_>, worker: &WorkerId) -> Vec<Revoked> {
    inbox(store, worker, &InboxPosition::default()).await.revoked
}

async fn release_revoked(store: Handle<'_>, worker: &WorkerId, Revoked { key, epoch }: Revoked) -> Outcome {
    let write = Write::ReleaseInstance(ReleaseInstance {
        key,
        worker: worker.clone(),
        epoch,
    });
    store.write(write).await
}

const fn of(key: InstanceKey, epoch: Epoch) -> Revoked {
    Revoked { key, epoch }
}

/// The owner is told at each read of its inbox, from any position, until it releases the instance.
pub async fn is_told_until_the_owner_lets_go(store: &Store) {
    let store = store.first();
    let (worker, other) = (store.worker("w").await, store.worker("other").await);
    let (a, b) = (store.owned("a", &worker).await, store.owned("b", &worker).await);
    store.owned("c", &worker).await;
    let position = inbox(store, &worker, &InboxPosition::default()).await.position;
    assert_eq!(revoked(store, &worker).await, []);
    store.terminate("a", None).await;
    store.suspend("b", "held").await;
    let both = [of(a.key, a.epoch), of(b.key, b.epoch)];
    let mut position = position;
    for _ in 0..2 {
        let read = inbox(store, &worker, &position).await;
        assert_eq!(read.revoked, both);
        position = read.position;
    }
    assert_eq!(revoked(store, &other).await, [], "it is nobody else's");
    assert_eq!(release_revoked(store, &worker, both[0]).await, Outcome::Fenced);
    assert_eq!(revoked(store, &worker).await, both[1..]);
    assert_eq!(release_revoked(store, &worker, both[1]).await, Outcome::Fenced);
    assert_eq!(revoked(store, &worker).await, []);
}

/// A worker may own the instance again before it has heard that it lost it.
pub async fn of_an_earlier_epoch_is_reported_to_an_owner_that_has_it_again(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let first = store.owned("a", &worker).await;
    store.suspend("a", "held").await;
    assert_eq!(store.resume("a").await, Outcome::Resumed);
    let again = store.acquire_one(&worker).await;
    assert_eq!(revoked(store, &worker).await, [of(first.key, first.epoch)]);
    store.suspend("a", "held").await;
    let second = of(again.key, again.epoch);
    assert_eq!(revoked(store, &worker).await, [second]);
    release_revoked(store, &worker, of(first.key, first.epoch)).await;
    assert_eq!(
        revoked(store, &worker).await,
        [second],
        "the answer to the first was late"
    );
    release_revoked(store, &worker, second).await;
    assert_eq!(revoked(store, &worker).await, []);
}

/// An instance without an owner has no worker to tell.
pub async fn of_an_instance_without_owner_is_no_news(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    store.commit(release(&owned, &worker, None)).await;
    store.start(instance("b")).await;
    store.suspend("a", "held").await;
    store.terminate("a", None).await;
    store.terminate("b", None).await;
    assert_eq!(revoked(store, &worker).await, []);
}

/// The revocations of a worker go when it is released or taken over. Until then a deleted instance is told of, too.
pub async fn is_forgotten_with_the_worker(store: &Store) {
    let store = store.first();
    let (left, dead) = (store.worker("left").await, store.worker("dead").await);
    let a = store.owned("a", &left).await;
    let b = store.owned("b", &dead).await;
    for id in ["a", "b"] {
        store.terminate(id, None).await;
        assert_eq!(store.delete(id).await, Outcome::Deleted);
    }
    assert_eq!(revoked(store, &left).await, [of(a.key, a.epoch)]);
    assert_eq!(revoked(store, &dead).await, [of(b.key, b.epoch)]);
    store.provider.release_worker(&left).await.expect("it is released");
    let taken = store.provider.take_over_worker(&dead, "it died").await;
    taken.expect("it is taken over");
    for worker in [left, dead] {
        assert_eq!(revoked(store, &worker).await, []);
    }
}

/// The change wakes the process of the owner.
pub async fn wakes_the_owner_elsewhere(store: &Store) {
    let first = store.first();
    let Some(second) = store.second() else { return };
    let worker = first.worker("w").await;
    let a = first.owned("a", &worker).await;
    let b = first.owned("b", &worker).await;
    for (id, owned) in [("a", a), ("b", b)] {
        let (tell, mut told) = mpsc::unbounded_channel();
        let of_worker = worker.clone();
        first.provider.on_foreign_change(Box::new(move |change: &Change| {
            if change.is_for(&of_worker) {
                // The receiver is dropped once the check is over.
                let _ = tell.send(());
            }
        }));
        if id == "a" {
            second.terminate(id, None).await;
        } else {
            second.suspend(id, "held").await;
        }
        within(told.recv()).await.expect("it tells as long as it lives");
        let taken = of(owned.key, owned.epoch);
        assert_eq!(revoked(first, &worker).await, [taken]);
        release_revoked(first, &worker, taken).await;
    }
}
