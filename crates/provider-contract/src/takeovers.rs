//! The takeovers that are stored with each instance.

use perdure_engine::{EventId, ExecutionId};
use perdure_provider::{InstanceKey, REST_MS, TAKEOVERS_KEPT, Takeover, WorkerId};

use crate::store::{Handle, LEASE_MS, START_MS, Store, end, instance};

impl Handle<'_> {
    async fn takeovers(&self, key: InstanceKey) -> Vec<Takeover> {
        self.provider.takeovers(key).await.expect("the store answers")
    }

    async fn bury(&self, worker: &WorkerId) {
        self.provider
            .take_over_worker(worker, "")
            .await
            .expect("it is taken over");
    }
}

/// Other instances, and later owners that leave in good order, add nothing.
pub async fn name_the_worker_that_owned_the_instance(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    let other = store.start(instance("other")).await;
    store.clock.advance(7);
    store.bury(&worker).await;
    store.bury(&worker).await;
    let takeover = Takeover {
        time_ms: START_MS + 7,
        execution: ExecutionId::FIRST,
        event: owned.next_event_id,
        activity: None,
        worker_name: "w of the contract".into(),
        worker,
    };
    assert_eq!(store.takeovers(owned.key).await, std::slice::from_ref(&takeover));
    assert_eq!(store.takeovers(other).await, []);
    let next = store.worker("next").await;
    store.acquire(&next).await;
    store.provider.release_worker(&next).await.expect("it leaves");
    assert_eq!(store.takeovers(owned.key).await, [takeover]);
    assert_eq!(store.takeovers(other).await, []);
}

/// The owner of the instance lives on.
pub async fn name_the_worker_that_ran_an_attempt(store: &Store) {
    let store = store.first();
    let (worker, helper) = (store.worker("w").await, store.worker("h").await);
    let owned = store.offered(&worker, 3).await;
    store.tasks(&helper, 1).await;
    store.clock.advance(10_000);
    let renewed = store.provider.renew_worker(&worker, LEASE_MS, None).await;
    renewed.expect("the owner is registered");
    store.clock.advance(10_000);
    store
        .provider
        .take_over_expired_workers("")
        .await
        .expect("the helper is taken over");
    let takeovers = store.takeovers(owned.key).await;
    let [takeover] = &takeovers[..] else {
        panic!("one, not {takeovers:?}")
    };
    assert_eq!(
        (&takeover.worker, takeover.worker_name.as_str()),
        (&helper, "h of the contract")
    );
    assert_eq!((takeover.activity, takeover.event), (Some(EventId(2)), EventId(4)));
}

/// The last ones are kept, in order.
pub async fn are_bounded(store: &Store) {
    let store = store.first();
    let key = store.start(instance("a")).await;
    let count = TAKEOVERS_KEPT + 3;
    for n in 0..count {
        let worker = store.worker(&format!("w{n}")).await;
        store.clock.advance(100 * REST_MS);
        let owned = store.acquire_one(&worker).await;
        assert_eq!(owned.key, key);
        store.bury(&worker).await;
    }
    let names: Vec<String> = (store.takeovers(key).await.into_iter())
        .map(|takeover| takeover.worker_name)
        .collect();
    let last: Vec<String> = (3..count).map(|n| format!("w{n} of the contract")).collect();
    assert_eq!(names, last);
}

/// The instance that is started anew under the same id has none.
pub async fn go_with_the_instance(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    store.bury(&worker).await;
    let next = store.worker("next").await;
    store.clock.advance(100 * REST_MS);
    let owned = perdure_provider::AcquiredInstance {
        next_event_id: owned.next_event_id,
        ..store.acquire_one(&next).await
    };
    store.commit(end(&owned, &next, None)).await;
    let anew = store.acquire_anew("a", &next).await;
    assert_eq!(store.takeovers(anew.key).await, []);
    assert_eq!(store.takeovers(owned.key).await, []);
}
