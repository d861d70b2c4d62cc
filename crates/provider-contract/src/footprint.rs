//! The room that one instance takes.

use perdure_engine::Mailbox;
use perdure_provider::{FOOTPRINT_MAILBOXES_MAX, Footprint, InstanceKey, TurnCommit};

use crate::continue_as_new::{continued, next_of};
use crate::store::{Handle, Store, event, instance, queued, scheduled, turn};

async fn footprint(store: Handle<'_>, key: InstanceKey) -> Footprint {
    store.provider.footprint(key).await.expect("the store answers")
}

/// Events of former executions count, those of other instances do not.
pub async fn counts_the_events_of_every_execution(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    store.start(instance("other")).await;
    store.commit(continued(&owned, &worker, Some("2".into()), true)).await;
    let next = TurnCommit {
        events: vec![scheduled(2), scheduled(3)],
        ..turn(&next_of(&owned), &worker)
    };
    store.commit(next).await;
    let found = footprint(store, owned.key).await;
    assert_eq!((found.executions, found.events, found.unread), (2, 5, 0));
    assert!(found.mailboxes.is_empty());
}

/// The bytes are those of names, values and metadata.
pub async fn counts_the_bytes_of_each_event(store: &Store) {
    let store = store.first();
    let key = store.start(instance("a")).await;
    let events = store.history(key).await;
    let names: usize = events
        .iter()
        .filter_map(|event| event.name.as_ref())
        .map(String::len)
        .sum();
    let bytes: usize = names + events.iter().map(perdure_engine::EventRecord::bytes).sum::<usize>();
    assert_eq!(footprint(store, key).await.history_bytes, bytes as u64);
}

/// The fullest mailbox comes first. A cancellation is in no mailbox.
pub async fn counts_the_messages_of_each_mailbox(store: &Store) {
    let store = store.first();
    let key = store.start(instance("a")).await;
    store.start(instance("other")).await;
    for body in [
        queued("jobs", "1"),
        event("go", "2"),
        event("jobs", "3"),
        event("go", "4"),
    ] {
        store.deliver("a", body).await;
    }
    store.deliver("other", event("go", "1")).await;
    store
        .deliver("a", perdure_engine::MessageBody::Cancel { reason: None })
        .await;
    let found = footprint(store, key).await;
    assert_eq!(found.unread, 4);
    let expected = [
        (Mailbox::Event("go".into()), 2),
        (Mailbox::Event("jobs".into()), 1),
        (Mailbox::Queue("jobs".into()), 1),
    ];
    assert_eq!(found.mailboxes, expected);
}

/// More mailboxes than an answer names still count.
pub async fn names_the_fullest_mailboxes(store: &Store) {
    let store = store.first();
    let key = store.start(instance("a")).await;
    let count = FOOTPRINT_MAILBOXES_MAX + 2;
    for n in 0..count {
        store.deliver("a", event(&format!("event {n:04}"), "1")).await;
    }
    let fullest = format!("event {:04}", count - 1);
    store.deliver("a", event(&fullest, "2")).await;
    let found = footprint(store, key).await;
    assert_eq!(found.unread, count as u64 + 1);
    assert_eq!(found.mailboxes.len(), FOOTPRINT_MAILBOXES_MAX);
    assert_eq!(found.mailboxes[0], (Mailbox::Event(fullest), 2));
    assert_eq!(found.mailboxes[1], (Mailbox::Event("event 0000".into()), 1));
}

/// A key without an instance takes no room.
pub async fn of_an_unknown_instance_is_nothing(store: &Store) {
    assert_eq!(footprint(store.first(), InstanceKey(77)).await, Footprint::default());
}
