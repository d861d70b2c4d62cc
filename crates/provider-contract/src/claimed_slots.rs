//! Starts of a queue that a worker claims: one gets its slot in its own commit, if nothing waits (P24).

use perdure_provider::{Epoch, NewInstance, Outcome, QueueSettings, StartTime, Status, TurnCommit, WorkerId};

use crate::queues::{finish, gets, info, of_key, per_second, queued, set, slots};
use crate::starts::with_turn;
use crate::store::{Handle, Store, end, event, start, turn};

fn claimed(id: &str, worker: &WorkerId) -> NewInstance {
    NewInstance {
        claim: Some(worker.clone()),
        ..queued(id)
    }
}

/// Returns true if the worker has the instance from its start on.
fn is_claimed(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Started { claimed, .. } => claimed.is_some(),
        other => panic!("started, not {other:?}"),
    }
}

/// Starts instances one after the other. Returns those that have their slots at once.
pub(crate) async fn starts(store: Handle<'_>, worker: &WorkerId, ids: &[&'static str]) -> Vec<&'static str> {
    let mut at_once = Vec::new();
    for id in ids {
        if is_claimed(&store.write(start(claimed(id, worker))).await) {
            at_once.push(*id);
        }
    }
    at_once
}

/// A claimed start has a slot while there are some. The next one waits, and the claim is left aside.
pub async fn get_the_slots_that_are_free(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    set(store, slots(2)).await;
    let at_once = starts(store, &worker, &["a", "b", "c"]).await;
    assert_eq!(at_once, ["a", "b"]);
    let counts = info(store).await;
    assert_eq!((counts.running, counts.waiting), (2, 1));
    assert_eq!(store.status("c").await.status, Status::Pending);
    let none = store.acquire(&worker).await;
    assert!(none.instances.is_empty() && none.slots_wanted);
    store.terminate("a", None).await;
    let next = gets(store, &worker, &["c"]).await;
    assert_eq!(next[0].epoch, Epoch(1));
    finish(store, &next, &worker).await;
    store.terminate("b", None).await;
    assert_eq!(starts(store, &worker, &["d"]).await, ["d"]);
    assert_eq!(info(store).await.running, 1);
}

/// Starts of one batch share the slots that are left.
pub async fn share_the_slots_in_a_batch(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    set(store, slots(3)).await;
    assert_eq!(starts(store, &worker, &["first"]).await, ["first"]);
    let ids: Vec<String> = (0..10).map(|n| format!("of batch {n}")).collect();
    let outcomes = store
        .batch(ids.iter().map(|id| start(claimed(id, &worker))).collect())
        .await;
    assert_eq!(outcomes.iter().filter(|outcome| is_claimed(outcome)).count(), 2);
    let counts = info(store).await;
    assert_eq!((counts.running, counts.waiting), (3, 8));
    store.assert_nothing_due(&worker).await;
}

/// Nothing that waits is overtaken: neither what is in line, nor what is held, nor what has just become due.
pub async fn overtake_nothing_that_waits(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let settings = QueueSettings {
        key_concurrency: Some(1),
        ..slots(4)
    };
    set(store, settings).await;
    store.start(queued("in line")).await;
    assert!(starts(store, &worker, &["behind it"]).await.is_empty());
    let all = gets(store, &worker, &["in line", "behind it"]).await;
    finish(store, &all, &worker).await;

    for id in ["with the slot", "held"] {
        store.start(of_key("k", id)).await;
    }
    let first = gets(store, &worker, &["with the slot"]).await;
    assert!(starts(store, &worker, &["behind the held one"]).await.is_empty());
    let behind = gets(store, &worker, &["behind the held one"]).await;
    finish(store, &first, &worker).await;
    let held = gets(store, &worker, &["held"]).await;
    finish(store, &held, &worker).await;
    finish(store, &behind, &worker).await;

    let later = NewInstance {
        due: StartTime::After(1_000),
        ..queued("later")
    };
    store.start(later).await;
    assert_eq!(starts(store, &worker, &["before it"]).await, ["before it"]);
    store.clock.advance(1_001);
    assert!(starts(store, &worker, &["behind the due one"]).await.is_empty());
    gets(store, &worker, &["later", "behind the due one"]).await;
}

/// The rate counts a start that gets its slot at once, and so does the limit of the worker.
pub async fn count_for_the_rate_and_for_the_worker(store: &Store) {
    let store = store.first();
    let (worker, other) = (store.worker("w").await, store.worker("other").await);
    set(store, per_second(2)).await;
    assert_eq!(starts(store, &worker, &["a", "b", "c"]).await, ["a", "b"]);
    store.assert_nothing_due(&worker).await;
    store.clock.advance(1_010);
    gets(store, &worker, &["c"]).await;
    assert_eq!(starts(store, &worker, &["d", "e"]).await, ["d"]);
    store.clock.advance(1_010);
    let settings = QueueSettings {
        per_worker: Some(1),
        ..QueueSettings::default()
    };
    for id in ["a", "b", "c", "d", "e"] {
        store.terminate(id, None).await;
    }
    set(store, settings).await;
    assert_eq!(starts(store, &worker, &["f", "g"]).await, ["f"]);
    gets(store, &other, &["g"]).await;
}

/// The claim of a worker that is not registered is left aside: the instance is in line, and not due.
pub async fn wait_if_their_worker_is_not_registered(store: &Store) {
    let store = store.first();
    let (gone, worker) = (WorkerId("gone".into()), store.worker("w").await);
    set(store, slots(1)).await;
    store.start(queued("first")).await;
    let first = gets(store, &worker, &["first"]).await;
    finish(store, &first, &worker).await;
    assert!(starts(store, &gone, &["a"]).await.is_empty());
    store.start(queued("b")).await;
    gets(store, &worker, &["a"]).await;
    assert_eq!(info(store).await.waiting, 1);
}

/// The first turn is written with a start that gets its slot, and with no other one.
pub async fn bring_their_first_turns_with_a_slot(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    set(store, slots(1)).await;
    let model = store.owned("model", &worker).await;
    let with_turn = |id: &str, first: TurnCommit| NewInstance {
        queue: queued(id).queue,
        ..with_turn(id, &worker, first)
    };
    let ends = store.write(start(with_turn("ends", end(&model, &worker, None)))).await;
    assert!(matches!(&ends, Outcome::Started { turn: Some(_), .. }), "{ends:?}");
    assert_eq!(store.status("ends").await.status, Status::Completed);
    // An instance that has ended has no slot.
    let goes_on = store.write(start(with_turn("goes on", turn(&model, &worker)))).await;
    assert!(
        matches!(&goes_on, Outcome::Started { turn: Some(_), .. }),
        "{goes_on:?}"
    );
    let waits = store.write(start(with_turn("waits", end(&model, &worker, None)))).await;
    assert!(
        matches!(
            &waits,
            Outcome::Started {
                turn: None,
                claimed: None,
                ..
            }
        ),
        "{waits:?}"
    );
    store.send("waits", event("e", "1")).await;
    store.assert_nothing_due(&worker).await;
    store.terminate("goes on", None).await;
    let waits = gets(store, &worker, &["waits"]).await;
    assert_eq!(waits[0].history.len(), 1);
}

/// A claimed start into a queue that is not there is refused. One whose id is in use takes no slot, and no rate counts
/// it.
pub async fn are_refused_as_others_are(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    assert_eq!(store.write(start(claimed("a", &worker))).await, Outcome::NoQueue);
    set(store, slots(2)).await;
    assert_eq!(starts(store, &worker, &["a"]).await, ["a"]);
    assert_eq!(store.write(start(claimed("a", &worker))).await, Outcome::Exists);
    assert_eq!(info(store).await.running, 1);
    assert_eq!(starts(store, &worker, &["b"]).await, ["b"]);

    set(store, per_second(3)).await;
    assert_eq!(starts(store, &worker, &["c"]).await, ["c"]);
    let twice = ["c", "d", "d"].map(|id| start(claimed(id, &worker)));
    let outcomes = store.batch(twice.into()).await;
    assert_eq!((&outcomes[0], &outcomes[2]), (&Outcome::Exists, &Outcome::Exists));
    assert!(is_claimed(&outcomes[1]));
    assert_eq!(starts(store, &worker, &["e", "f"]).await, ["e"]);
}
