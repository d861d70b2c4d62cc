//! Fencing: a turn that is not the owner's next one does not pass (P2).

use perdure_engine::{EventId, ExecutionId};
use perdure_provider::{AfterTurn, Epoch, Outcome, Status, TurnCommit, WorkerId, Write};

use crate::store::{Store, completed, custom_status, event, instance, scheduled, turn};

/// Checks that a turn with every kind of effect does not pass after `change` has altered it.
async fn fenced(store: &Store, change: impl FnOnce(&mut TurnCommit)) {
    let store = store.first();
    let worker = store.worker("w").await;
    store.worker("other").await;
    store.start(instance("a")).await;
    let seq = store.deliver("a", event("go", "1")).await;
    let owned = store.acquire_one(&worker).await;
    let mut late = TurnCommit {
        events: vec![scheduled(2)],
        consumed: vec![seq],
        custom_status: custom_status("\"late\""),
        ..turn(&owned, &worker)
    };
    let right = late.clone();
    change(&mut late);
    let before = store.status("a").await;
    let afters = [
        AfterTurn::Hold,
        AfterTurn::Release { wake_at_ms: Some(0) },
        AfterTurn::Suspend {
            report: "late".into(),
            mismatched_code: Some("late".into()),
        },
        AfterTurn::End {
            status: Status::Completed,
        },
    ];
    for after in afters {
        let mut late = TurnCommit { after, ..late.clone() };
        if matches!(late.after, AfterTurn::End { .. }) {
            late.events = vec![completed(late.next_event_id.0, None)];
        }
        assert_eq!(store.turn(late.clone()).await, Outcome::Fenced, "{:?}", late.after);
        assert_eq!(store.status("a").await, before);
        assert_eq!(store.history(owned.key).await.len(), 1);
        assert_eq!(store.messages(owned.key).await.len(), 1);
    }
    // The owner still owns the instance.
    store.commit(right).await;
}

/// The turn names another worker.
pub async fn keep_off_another_owner(store: &Store) {
    fenced(store, |turn| turn.worker = WorkerId("other".into())).await;
}

/// The turn names another epoch than the owner's.
pub async fn keep_off_another_epoch(store: &Store) {
    fenced(store, |turn| turn.epoch = Epoch(turn.epoch.0 - 1)).await;
}

/// The turn does not follow the last one.
pub async fn keep_off_another_next_event_id(store: &Store) {
    fenced(store, |turn| {
        turn.next_event_id = EventId(3);
        turn.events = vec![scheduled(3)];
    })
    .await;
}

/// The turn belongs to another execution.
pub async fn keep_off_another_execution(store: &Store) {
    fenced(store, |turn| turn.execution = ExecutionId(2)).await;
}

/// After a lost acknowledgement the same turn is written again. The second write is fenced off, and the history shows
/// why.
pub async fn keep_off_a_turn_written_twice(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    let once = TurnCommit {
        events: vec![scheduled(2)],
        ..turn(&owned, &worker)
    };
    store.commit(once.clone()).await;
    assert_eq!(store.turn(once).await, Outcome::Fenced);
    assert_eq!(store.history(owned.key).await.len(), 2);
}

/// A turn that does not match is dropped whole. The other turns of the batch commit (P2).
pub async fn leave_the_others_of_the_batch(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let mut turns = Vec::new();
    for id in ["a", "b", "c"] {
        let owned = store.owned(id, &worker).await;
        turns.push(TurnCommit {
            events: vec![scheduled(2)],
            custom_status: custom_status("1"),
            ..turn(&owned, &worker)
        });
    }
    turns[1].epoch = Epoch(9);
    let outcomes = store
        .batch(turns.iter().map(|turn| Write::Turn(Box::new(turn.clone()))).collect())
        .await;
    let committed = Outcome::Committed {
        status: None,
        wake_at_ms: None,
        others: None,
    };
    assert_eq!(outcomes, [committed.clone(), Outcome::Fenced, committed]);
    let mut events = Vec::new();
    for turn in turns {
        events.push(store.history(turn.key).await.len());
    }
    assert_eq!(events, [2, 1, 2]);
}
