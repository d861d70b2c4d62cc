//! Workers, their leases, and the release of their instances (P7, P9).

use perdure_provider::{
    Epoch, InstanceKey, NewWorker, Outcome, OwnedDigest, ProviderError, Renewal, Status, TurnCommit, Worker, WorkerId,
};

use crate::store::{LEASE_MS, START_MS, Store, instance, new_worker, release, scheduled, start, suspend, turn};

const LEASE: i64 = LEASE_MS as i64;

async fn leases(store: crate::store::Handle<'_>) -> Vec<(String, i64)> {
    let workers = store.provider.workers().await.expect("the store answers");
    let mut leases: Vec<_> = workers
        .into_iter()
        .map(|worker| (worker.id.to_string(), worker.lease_until_ms))
        .collect();
    leases.sort();
    leases
}

async fn expired(store: crate::store::Handle<'_>) -> Vec<WorkerId> {
    let taken_over = store.provider.take_over_expired_workers("why").await;
    taken_over.expect("the store answers").workers
}

/// The list has everything needed to find out if such a process still runs.
pub async fn are_listed_with_their_leases(store: &Store) {
    let store = store.first();
    assert_eq!(store.provider.workers().await, Ok(Vec::new()));
    let new = NewWorker {
        pid: u32::MAX,
        ..new_worker("w")
    };
    store
        .provider
        .register_worker(new.clone())
        .await
        .expect("the worker is registered");
    let NewWorker {
        id,
        name,
        host,
        pid,
        process_start,
        ..
    } = new;
    let expected = Worker {
        id,
        name,
        host,
        pid,
        process_start,
        lease_until_ms: START_MS + LEASE,
    };
    assert_eq!(store.provider.workers().await, Ok(vec![expected]));
}

/// The caller may not have heard of its first registration.
pub async fn registered_twice_are_one(store: &Store) {
    let store = store.first();
    store.worker("w").await;
    store.clock.advance(10);
    store.worker("w").await;
    assert_eq!(leases(store).await, [("w".to_owned(), START_MS + 10 + LEASE)]);
}

/// Any text is kept as it is until the worker tells another one. Each worker may tell a text or not.
pub async fn tell_of_themselves(store: &Store) {
    let store = store.first();
    let told = async || {
        let found = store.provider.inspect().await.expect("the store answers");
        let told: Vec<_> = found.workers.into_iter().map(|load| load.description).collect();
        told
    };
    let (silent, id) = (store.worker("silent").await, WorkerId("w".into()));
    let text = |text: &str| Some(text.to_owned());
    let new = NewWorker {
        description: text("{\"a\":1}"),
        ..new_worker("w")
    };
    let registered = store.provider.register_worker(new).await;
    registered.expect("the worker is registered");
    assert_eq!(told().await, [None, text("{\"a\":1}")]);
    let tell = async |worker: &WorkerId, description: Option<&str>| {
        let renewed = store.provider.renew_worker(worker, LEASE_MS, description).await;
        assert_eq!(shown(renewed), Ok(Some(store.now_ms())));
    };
    tell(&id, Some("not JSON: \0\u{1}\u{1F600}")).await;
    tell(&id, None).await;
    tell(&silent, None).await;
    assert_eq!(told().await, [None, text("not JSON: \0\u{1}\u{1F600}")]);
    tell(&silent, Some("")).await;
    assert_eq!(told().await, [text(""), text("not JSON: \0\u{1}\u{1F600}")]);
}

/// The time of the store's clock that came with a renewal.
fn shown(renewed: Result<Option<Renewal>, ProviderError>) -> Result<Option<i64>, ProviderError> {
    renewed.map(|renewal| renewal.map(|renewal| renewal.now_ms))
}

/// A new lease counts from the time of the store's clock, not from the end of the old one.
pub async fn renew_their_lease_from_now(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    store.worker("other").await;
    store.clock.advance(1_000);
    assert_eq!(
        shown(store.provider.renew_worker(&worker, 500, None).await),
        Ok(Some(store.now_ms()))
    );
    let expected = [
        ("other".to_owned(), START_MS + LEASE),
        ("w".to_owned(), START_MS + 1_500),
    ];
    assert_eq!(leases(store).await, expected);
    // The renewal is late, but no other worker has taken over.
    store.clock.advance(1_000_000);
    assert_eq!(
        shown(store.provider.renew_worker(&worker, 500, None).await),
        Ok(Some(store.now_ms()))
    );
}

/// The answer to the renewal tells a worker that it was removed.
pub async fn that_were_removed_cannot_renew(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    store
        .provider
        .release_worker(&worker)
        .await
        .expect("the worker is removed");
    assert_eq!(store.provider.renew_worker(&worker, LEASE_MS, None).await, Ok(None));
    assert_eq!(leases(store).await, []);
}

/// Their instances are due at once, in the state of their last turn, and the former owner is fenced off (P7).
pub async fn that_are_removed_release_their_instances(store: &Store) {
    let store = store.first();
    let (worker, next) = (store.worker("w").await, store.worker("next").await);
    let turned = store.owned("turned", &worker).await;
    store
        .commit(TurnCommit {
            events: vec![scheduled(2)],
            ..turn(&turned, &worker)
        })
        .await;
    store.owned("fresh", &worker).await;
    let asleep = store.owned("asleep", &worker).await;
    store.commit(release(&asleep, &worker, None)).await;
    let held = store.owned("held", &worker).await;
    store.commit(suspend(&held, &worker, "why")).await;
    let kept = store.owned("kept", &next).await;

    assert_eq!(store.provider.release_worker(&worker).await, Ok(2));
    assert_eq!(store.provider.release_worker(&worker).await, Ok(0));
    let late = TurnCommit {
        next_event_id: perdure_engine::EventId(3),
        ..turn(&turned, &worker)
    };
    assert_eq!(store.turn(late.clone()).await, Outcome::Fenced);
    let taken = store.acquire(&next).await.instances;
    let mut found: Vec<_> = taken
        .iter()
        .map(|taken| (taken.id.as_str(), taken.fresh, taken.history.len()))
        .collect();
    found.sort_unstable();
    assert_eq!(found, [("fresh", true, 1), ("turned", false, 2)]);
    assert_eq!(store.turn(late).await, Outcome::Fenced);
    assert_eq!(store.status("turned").await.status, Status::Running);
    assert_eq!(store.status("fresh").await.status, Status::Pending);
    store.commit(turn(&kept, &next)).await;
}

/// A worker is taken over at the end of its lease by the store's clock, not before.
pub async fn whose_lease_ended_are_taken_over(store: &Store) {
    let store = store.first();
    let (early, late) = (store.worker("early").await, store.worker("late").await);
    let owned = store.owned("a", &early).await;
    store.clock.advance(LEASE - 1);
    assert_eq!(expired(store).await, []);
    assert_eq!(
        shown(store.provider.renew_worker(&late, LEASE_MS, None).await),
        Ok(Some(store.now_ms()))
    );
    store.clock.advance(1);
    assert_eq!(expired(store).await, std::slice::from_ref(&early));
    assert_eq!(expired(store).await, []);
    let taken = store.acquire_one(&late).await;
    assert_eq!(taken.id, "a");
    assert!(taken.epoch > owned.epoch);
    assert_eq!(store.turn(turn(&owned, &early)).await, Outcome::Fenced);
    assert_eq!(store.provider.renew_worker(&early, LEASE_MS, None).await, Ok(None));
    store.assert_nothing_due(&early).await;
}

/// A lease holds until its very end.
pub async fn whose_lease_has_not_ended_keep_their_instances(store: &Store) {
    let store = store.first();
    let (worker, other) = (store.worker("w").await, store.worker("other").await);
    let owned = store.owned("a", &worker).await;
    for _ in 0..5 {
        store.clock.advance(LEASE - 1);
        assert_eq!(
            shown(store.provider.renew_worker(&worker, LEASE_MS, None).await),
            Ok(Some(store.now_ms()))
        );
        assert!(!expired(store).await.contains(&worker));
    }
    store.assert_nothing_due(&other).await;
    store.commit(turn(&owned, &worker)).await;
}

/// An unknown worker does not affect others.
pub async fn that_are_unknown_release_nothing(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    store.batch(vec![start(instance("a"))]).await;
    let owned = store.acquire_one(&worker).await;
    assert_eq!(store.provider.release_worker(&WorkerId("unknown".into())).await, Ok(0));
    store.commit(turn(&owned, &worker)).await;
}

/// A renewal tells what the worker owns in the store, so that the worker can compare it with its own table (P16).
pub async fn get_a_list_of_their_instances_and_tasks(store: &Store) {
    let store = store.first();
    let (worker, other) = (store.worker("w").await, store.worker("other").await);
    let told = async |worker: &WorkerId| {
        let renewed = store.provider.renew_worker(worker, LEASE_MS, None).await;
        let Renewal { owned, tasks, .. } = renewed.expect("the store answers").expect("it is registered");
        (owned, tasks)
    };
    let list = async |worker: &WorkerId, after: InstanceKey, limit: usize| {
        let owned = store.provider.owned_by(worker, after, limit).await;
        owned.expect("the store answers")
    };
    assert_eq!(told(&worker).await, (OwnedDigest::default(), 0));
    let mut owned = Vec::new();
    for id in ["1", "2", "3"] {
        let acquired = store.owned(id, &worker).await;
        owned.push((acquired.key, acquired.epoch));
    }
    let foreign = store.owned("foreign", &other).await;
    // The instance has another epoch once it is acquired again.
    let asleep = store.owned("asleep", &worker).await;
    store.commit(release(&asleep, &worker, Some(0))).await;
    let again = store.acquire_one(&worker).await;
    assert!(again.epoch > asleep.epoch);
    owned.push((again.key, again.epoch));
    owned.sort_unstable();
    let keys = |owned: &[(InstanceKey, Epoch)]| owned.iter().map(|(key, _)| *key).collect::<OwnedDigest>();
    assert_eq!(told(&worker).await, (keys(&owned), 0));
    assert_eq!(told(&other).await.0, [foreign.key].into_iter().collect());
    assert_eq!(list(&worker, InstanceKey(0), 100).await, owned);
    assert_eq!(list(&worker, InstanceKey(0), 3).await, owned[..3]);
    assert_eq!(list(&worker, owned[2].0, 3).await, owned[3..]);
    assert_eq!(list(&WorkerId("nobody".into()), InstanceKey(0), 100).await, []);
    // An instance that is released, ends, is suspended or belonged to a worker that is gone has no owner.
    store.commit(release(&again, &worker, None)).await;
    store.terminate("1", None).await;
    store.suspend("2", "why").await;
    let left: Vec<_> = owned.iter().copied().filter(|(key, _)| *key == owned[2].0).collect();
    assert_eq!(list(&worker, InstanceKey(0), 100).await, left);
    assert_eq!(told(&worker).await, (keys(&left), 0));
    store
        .provider
        .release_worker(&worker)
        .await
        .expect("the worker is removed");
    assert_eq!(list(&worker, InstanceKey(0), 100).await, []);
}
