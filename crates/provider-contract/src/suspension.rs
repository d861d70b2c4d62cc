//! Instances that are suspended until they are resumed.

use perdure_engine::EventId;
use perdure_provider::{InstanceKey, Mismatched, NewInstance, Outcome, PageLimit, Status, TurnCommit};

use crate::store::{Handle, Store, custom_status, instance, scheduled, suspend, suspend_mismatched, turn};

/// A suspended instance has no owner and is not acquired. Its report is its result.
pub async fn holds_the_instance_with_its_report(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    assert_eq!(store.commit(suspend(&owned, &worker, "two\nlines")).await, None);
    let status = store.status("a").await;
    assert_eq!(
        (status.status, status.result.as_deref()),
        (Status::Suspended, Some("two\nlines"))
    );
    assert_eq!(status.completed_at_ms, None);
    store.clock.advance(1_000_000);
    store.assert_nothing_due(&worker).await;
    assert_eq!(store.provider.release_worker(&worker).await, Ok(0));
    assert_eq!(
        store.history(owned.key).await.len(),
        1,
        "nothing of the turn was stored"
    );
}

/// The report is gone, and any worker may acquire the instance.
pub async fn ends_with_resume_and_is_due_at_once(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    store
        .commit(TurnCommit {
            events: vec![scheduled(2)],
            ..turn(&owned, &worker)
        })
        .await;
    let held = TurnCommit {
        next_event_id: EventId(3),
        ..suspend(&owned, &worker, "why")
    };
    store.commit(held).await;
    store.clock.advance(5);
    assert_eq!(store.resume("a").await, Outcome::Resumed);
    let status = store.status("a").await;
    assert_eq!(
        (status.status, status.result, status.updated_at_ms),
        (Status::Running, None, store.now_ms())
    );
    let taken = store.acquire_one(&worker).await;
    assert_eq!(
        (taken.fresh, taken.next_event_id, taken.history.len()),
        (false, EventId(3), 2)
    );
    assert!(taken.epoch > owned.epoch);
}

/// The first turn of the instance was never committed, for example because its code did not load.
pub async fn keeps_an_instance_fresh(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    store.commit(suspend(&owned, &worker, "why")).await;
    store.resume("a").await;
    assert_eq!(store.status("a").await.status, Status::Pending);
    assert!(store.acquire_one(&worker).await.fresh);
}

/// An instance whose first turn was committed is not fresh again.
pub async fn is_no_first_turn_for_an_instance_that_had_one(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    store
        .commit(TurnCommit {
            custom_status: custom_status("1"),
            ..turn(&owned, &worker)
        })
        .await;
    store.commit(suspend(&owned, &worker, "why")).await;
    assert_eq!(store.status("a").await.custom_status.as_deref(), Some("1"));
    store.resume("a").await;
    assert_eq!(store.status("a").await.status, Status::Running);
    assert!(!store.acquire_one(&worker).await.fresh);
}

/// Turns of the former owner come too late, before and after the resume.
pub async fn fences_off_the_former_owner(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    store.commit(suspend(&owned, &worker, "why")).await;
    assert_eq!(store.turn(turn(&owned, &worker)).await, Outcome::Fenced);
    store.resume("a").await;
    assert_eq!(store.turn(turn(&owned, &worker)).await, Outcome::Fenced);
    store.acquire_one(&worker).await;
    assert_eq!(store.turn(turn(&owned, &worker)).await, Outcome::Fenced);
}

/// The outcome tells the status of the instance instead.
pub async fn resume_changes_nothing_else(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    assert_eq!(store.resume("a").await, Outcome::NotFound);
    store.start(instance("a")).await;
    let not = |status| Outcome::NotSuspended { status };
    assert_eq!(store.resume("a").await, not(Status::Pending));
    let owned = store.acquire_one(&worker).await;
    store.commit(turn(&owned, &worker)).await;
    let before = store.status("a").await;
    assert_eq!(store.resume("a").await, not(Status::Running));
    assert_eq!(store.status("a").await, before);
    store.commit(turn(&owned, &worker)).await;
    store.terminate("a", None).await;
    assert_eq!(store.resume("a").await, not(Status::Terminated));
}

fn mismatched(code: &str, key: InstanceKey) -> Mismatched {
    Mismatched { code: code.into(), key }
}

/// An instance that is suspended because this code does not fit its history.
async fn mismatched_one(store: &Handle<'_>, id: &str, code: &str) -> InstanceKey {
    let worker = store.worker("w").await;
    let owned = store.owned(id, &worker).await;
    store.commit(suspend_mismatched(&owned, &worker, code)).await;
    owned.key
}

/// The instance is resumed like any other: due at once, without its report, as fresh as it was.
pub async fn of_other_code_ends_when_code_is_registered(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let fresh = mismatched_one(&store, "fresh", "old").await;
    let owned = store.owned("under way", &worker).await;
    store
        .commit(TurnCommit {
            events: vec![scheduled(2)],
            ..turn(&owned, &worker)
        })
        .await;
    let held = TurnCommit {
        next_event_id: EventId(3),
        ..suspend_mismatched(&owned, &worker, "old")
    };
    store.commit(held).await;
    let before = store.status("fresh").await;
    assert_eq!(
        (before.status, before.result.as_deref()),
        (Status::Suspended, Some("it does not fit"))
    );
    store.clock.advance(5);
    assert_eq!(
        store.resume_mismatched("new", None, 100).await,
        [mismatched("old", fresh), mismatched("old", owned.key)]
    );
    for (id, status) in [("fresh", Status::Pending), ("under way", Status::Running)] {
        let now = store.status(id).await;
        assert_eq!(
            (now.status, now.result, now.updated_at_ms),
            (status, None, store.now_ms())
        );
    }
    let acquired = store.acquire(&worker).await;
    let found: Vec<_> = acquired.instances.iter().map(|i| (i.id.as_str(), i.fresh)).collect();
    assert_eq!(found, [("fresh", true), ("under way", false)]);
    assert_eq!(
        store.resume_mismatched("newer", None, 100).await,
        [],
        "they are suspended no more"
    );
}

/// The same code would not fit again.
pub async fn of_the_same_code_lasts(store: &Store) {
    let store = store.first();
    mismatched_one(&store, "a", "same").await;
    let [before, between, after] = ["other", "sama", "samf"];
    let mut others = Vec::new();
    for code in [before, between, after] {
        others.push(mismatched(code, mismatched_one(&store, code, code).await));
    }
    assert_eq!(store.resume_mismatched("same", None, 100).await, others);
    assert_eq!(store.status("a").await.status, Status::Suspended);
    assert_eq!(store.resume_mismatched("same", None, 100).await, []);
}

/// The registered code belongs to another orchestration or version.
pub async fn of_other_orchestrations_lasts(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    for (id, name, version) in [("name", "other", "1.0.0"), ("version", "flow", "2.0.0")] {
        store
            .start(NewInstance {
                name: name.into(),
                version: version.into(),
                ..instance(id)
            })
            .await;
        let request = perdure_provider::Acquire {
            worker: worker.clone(),
            registered: vec![(name.into(), version.into())],
            limit: PageLimit::rows(1),
            history_page: PageLimit::rows(100),
            left_ms: 0,
            looked: false,
        };
        let owned = store.request(request).await.instances.remove(0);
        store.commit(suspend_mismatched(&owned, &worker, "old")).await;
    }
    assert_eq!(store.resume_mismatched("new", None, 100).await, []);
    for id in ["name", "version"] {
        assert_eq!(store.status(id).await.status, Status::Suspended);
    }
}

/// Such a suspension has nothing to do with the code of the instance.
pub async fn that_names_no_code_lasts(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    store.commit(suspend(&owned, &worker, "why")).await;
    assert_eq!(store.resume_mismatched("new", None, 100).await, []);
    assert_eq!(store.status("a").await.status, Status::Suspended);
}

/// A later suspension or end is not mistaken for one of other code.
pub async fn that_is_over_is_forgotten_with_its_code(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    for id in ["held again", "running"] {
        mismatched_one(&store, id, "old").await;
        assert_eq!(store.resume(id).await, Outcome::Resumed);
        let owned = store.acquire_one(&worker).await;
        if id == "held again" {
            store.commit(suspend(&owned, &worker, "why")).await;
        }
    }
    mismatched_one(&store, "ended", "old").await;
    store.terminate("ended", None).await;
    let ids = ["held again", "running", "ended"];
    let mut before = Vec::new();
    for id in ids {
        before.push(store.status(id).await);
    }
    assert_eq!(store.resume_mismatched("new", None, 100).await, []);
    for (id, before) in ids.into_iter().zip(before) {
        assert_eq!(store.status(id).await, before);
    }
}

/// Pages come in order of code and key, with no instance twice and none left out.
pub async fn of_other_code_ends_in_pages(store: &Store) {
    let store = store.first();
    let mut all = Vec::new();
    for (n, code) in ["b", "a", "new", "b", "a", "c"].into_iter().enumerate() {
        let key = mismatched_one(&store, &format!("a{n}"), code).await;
        all.push(mismatched(code, key));
    }
    all.sort();
    all.retain(|one| one.code != "new");
    let mut resumed: Vec<Mismatched> = Vec::new();
    loop {
        let page = store.resume_mismatched("new", resumed.last().cloned(), 2).await;
        let is_last = page.len() < 2;
        resumed.extend(page);
        if is_last {
            break;
        }
    }
    assert_eq!(resumed, all);
    assert_eq!(store.resume_mismatched("new", None, 0).await, []);
}

/// A worker with bad code may suspend an instance that was just resumed. The walk over the pages comes to an end all
/// the same.
pub async fn of_other_code_again_is_met_once(store: &Store) {
    let store = store.first();
    let worker = store.worker("bad").await;
    let key = mismatched_one(&store, "a", "old").await;
    let first = store.resume_mismatched("new", None, 1).await;
    assert_eq!(first, [mismatched("old", key)]);
    let owned = store.acquire_one(&worker).await;
    store.commit(suspend_mismatched(&owned, &worker, "old")).await;
    assert_eq!(store.resume_mismatched("new", first.last().cloned(), 1).await, []);
    assert_eq!(
        store.resume_mismatched("newer", None, 1).await,
        first,
        "the next one looks anew"
    );
}
