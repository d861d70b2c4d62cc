//! A request to cancel a suspended instance. No code can run for the instance, so it ends in the commit that brings the
//! request.

use perdure_engine::{EventId, EventRecord, MessageBody, NoteEvent, Payload, TerminationEvent};
use perdure_provider::{InstanceKey, Outcome, Status, TurnCommit};

use crate::store::{Handle, Store, event, instance, scheduled, suspend, turn};

fn request(reason: Option<&str>) -> MessageBody {
    MessageBody::Cancel {
        reason: reason.map(str::to_owned),
    }
}

/// The last events of an execution that ends without its code, as the store records them.
pub(crate) fn ended(first: u64, time_ms: i64, reason: Payload) -> [EventRecord; 2] {
    let requested = NoteEvent::CancelRequested { reason };
    let cancelled = TerminationEvent::ExecutionCancelled { error: None };
    [
        EventRecord::new(EventId(first), time_ms, requested),
        EventRecord::new(EventId(first + 1), time_ms, cancelled),
    ]
}

/// Cancels instance `a`, which has `events` events, and checks all that remains of it.
async fn cancelled(store: Handle<'_>, key: InstanceKey, events: u64) {
    store.clock.advance(3);
    let outcome = store.send("a", request(Some("\"enough\""))).await;
    let nobody = Outcome::Terminated {
        key,
        owner: None,
        receivers: Vec::new(),
        stopped: Vec::new(),
    };
    assert_eq!(outcome, nobody);
    let status = store.status("a").await;
    assert_eq!((status.status, status.result.clone()), (Status::Cancelled, None));
    assert_eq!(
        (status.completed_at_ms, status.updated_at_ms),
        (Some(store.now_ms()), store.now_ms())
    );
    let history = store.history(key).await;
    assert_eq!(history.len() as u64, events + 2);
    let last = ended(events + 1, store.now_ms(), Some("\"enough\"".into()));
    assert_eq!(history[events as usize..], last);
    assert_eq!(store.messages(key).await, []);
    store.clock.advance(1_000_000);
    let next = store.worker("next").await;
    store.assert_nothing_due(&next).await;
    let again = store.send("a", request(None)).await;
    let status_of_end = Status::Cancelled;
    assert_eq!(again, Outcome::Ended { status: status_of_end });
    assert_eq!(store.resume("a").await, Outcome::NotSuspended { status: status_of_end });
    assert_eq!(store.status("a").await, status);
}

/// The messages, tasks and report of the instance go with it.
pub async fn ends_a_suspended_instance(store: &Store) {
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
    store.deliver("a", event("go", "1")).await;
    cancelled(store, owned.key, 2).await;
}

/// The instance never ran, and a client holds it.
pub async fn ends_one_that_never_ran(store: &Store) {
    let store = store.first();
    let key = store.start(instance("a")).await;
    store.suspend("a", "why").await;
    cancelled(store, key, 1).await;
}

/// The worker that runs an attempt of the instance is told that it is withdrawn.
pub async fn withdraws_its_tasks(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let offering = store.offered(&worker, 2).await;
    let task = store.take_one(&worker).await.task;
    store.suspend("a", "why").await;
    let outcome = store.send("a", request(None)).await;
    let Outcome::Terminated { key, stopped, .. } = outcome else {
        panic!("it is ended, not {outcome:?}");
    };
    assert_eq!((key, stopped), (offering.key, vec![worker.clone()]));
    assert!(
        !store
            .provider
            .tasks_of(&worker)
            .await
            .expect("the store answers")
            .contains(&task)
    );
}

/// Code may run for an instance in any other state, so the request is delivered to it as a message.
pub async fn waits_for_any_other(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let key = store.start(instance("pending")).await;
    store.deliver("pending", request(None)).await;
    assert_eq!(store.status("pending").await.status, Status::Pending);
    assert_eq!(store.bodies(key).await, [request(None)]);
    let resumed = store.start(instance("resumed")).await;
    store.suspend("resumed", "why").await;
    store.resume("resumed").await;
    store.deliver("resumed", request(None)).await;
    assert_eq!(store.bodies(resumed).await, [request(None)]);
    assert_eq!(store.acquire(&worker).await.instances.len(), 2);
}

/// Any other message neither wakes nor ends a suspended instance.
pub async fn is_asked_for_by_no_other_message(store: &Store) {
    let store = store.first();
    store.start(instance("a")).await;
    store.suspend("a", "why").await;
    store.deliver("a", event("go", "1")).await;
    assert_eq!(store.status("a").await.status, Status::Suspended);
}
