//! Instances whose start named no version.

use perdure_provider::{Acquire, Acquired, NewInstance, NewWorker, Newest, OPEN_VERSION, PageLimit, WorkerId};

use crate::store::{Handle, LEASE_MS, NAME, Store, instance, new_worker};

fn newest(version: &str) -> Newest {
    Newest(vec![(NAME.into(), version.into())])
}

/// A worker that tells its newest version with its registration.
async fn worker(store: Handle<'_>, id: &str, version: &str) -> WorkerId {
    let new = NewWorker {
        newest: newest(version),
        ..new_worker(id)
    };
    let registered = store.provider.register_worker(new).await;
    registered.expect("the worker is registered");
    WorkerId(id.into())
}

async fn start(store: Handle<'_>, id: &str) {
    let version = OPEN_VERSION.into();
    store
        .start(NewInstance {
            version,
            ..instance(id)
        })
        .await;
}

async fn acquire(store: Handle<'_>, worker: &WorkerId, versions: &[&str]) -> Acquired {
    let versions = versions.iter().chain(&[OPEN_VERSION]);
    let registered = versions.map(|version| (NAME.to_owned(), (*version).to_owned()));
    let request = Acquire {
        worker: worker.clone(),
        registered: registered.collect(),
        limit: PageLimit::rows(10),
        history_page: PageLimit::rows(100),
        left_ms: 0,
        looked: false,
    };
    store.request(request).await
}

/// Ids and versions of the instances that a worker acquires.
async fn taken(store: Handle<'_>, worker: &WorkerId, versions: &[&str]) -> Vec<(String, String)> {
    let acquired = acquire(store, worker, versions).await.instances;
    acquired
        .into_iter()
        .map(|instance| (instance.id, instance.version))
        .collect()
}

fn one(id: &str, version: &str) -> Vec<(String, String)> {
    vec![(id.into(), version.into())]
}

/// The first worker that acquires an open instance settles its version, and the row has that version from then on.
pub async fn that_are_open_are_settled_by_an_acquisition(store: &Store) {
    let store = store.first();
    start(store, "i").await;
    assert_eq!(store.status("i").await.version, OPEN_VERSION);
    let strict = store.worker("strict").await;
    store.assert_nothing_due(&strict).await;
    let w = worker(store, "w", "1.10.0").await;
    assert_eq!(taken(store, &w, &["1.9.0", "1.10.0"]).await, one("i", "1.10.0"));
    assert_eq!(store.status("i").await.version, "1.10.0");
}

/// A worker with an older version leaves the instance to a worker with the newest one. Versions are compared by their
/// numbers.
pub async fn that_are_open_become_the_newest_of_a_live_worker(store: &Store) {
    let store = store.first();
    let (old, new) = (
        worker(store, "old", "1.9.0").await,
        worker(store, "new", "1.10.0").await,
    );
    start(store, "i").await;
    let acquired = acquire(store, &old, &["1.9.0"]).await;
    assert_eq!((acquired.instances.len(), acquired.next_wake_at_ms), (0, None));
    assert_eq!(store.status("i").await.version, "1.10.0");
    assert_eq!(taken(store, &new, &["1.10.0"]).await, one("i", "1.10.0"));
}

/// A version that a worker tells later counts like one that it told at its registration.
pub async fn that_a_worker_tells_of_later_count(store: &Store) {
    let store = store.first();
    let (old, new) = (worker(store, "old", "1.0.0").await, worker(store, "new", "1.0.0").await);
    let told = store.provider.announce_versions(&new, newest("2.0.0")).await;
    assert_eq!(told, Ok(()));
    start(store, "i").await;
    assert_eq!(taken(store, &old, &["1.0.0"]).await, []);
    assert_eq!(taken(store, &new, &["1.0.0", "2.0.0"]).await, one("i", "2.0.0"));
    let gone = WorkerId("gone".into());
    assert_eq!(store.provider.announce_versions(&gone, newest("3.0.0")).await, Ok(()));
    start(store, "j").await;
    assert_eq!(taken(store, &new, &["1.0.0", "2.0.0"]).await, one("j", "2.0.0"));
}

/// The versions of a worker that left, or whose lease has ended, do not count.
pub async fn of_workers_that_are_gone_do_not_count(store: &Store) {
    let store = store.first();
    let left = worker(store, "left", "3.0.0").await;
    worker(store, "silent", "2.0.0").await;
    let released = store.provider.release_worker(&left).await;
    released.expect("the worker is released");
    store.clock.advance(LEASE_MS as i64);
    let w = worker(store, "w", "1.0.0").await;
    start(store, "i").await;
    assert_eq!(taken(store, &w, &["1.0.0"]).await, one("i", "1.0.0"));
}
