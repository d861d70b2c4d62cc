//! Messages that start their receiver if that is absent (P21).

use perdure_engine::MessageBody;
use perdure_provider::{
    NewInstance, NewMessage, OnConflict, Outcome, ProviderErrorKind, StartWithMessage, Status, Write,
};

use crate::store::{Handle, START_MS, Store, end, event, instance, release, start};

/// A message with a number, and the start of its receiver.
fn both(instance: NewInstance, number: u32) -> StartWithMessage {
    let message = NewMessage {
        instance: instance.id.clone(),
        body: event("go", &number.to_string()),
        unread_max: Some(100),
        time_ms: START_MS,
    };
    StartWithMessage {
        start: instance,
        message,
        ask: None,
    }
}

fn sent(instance: NewInstance, number: u32) -> Write {
    Write::StartWithMessage(Box::new(both(instance, number)))
}

/// Returns a start that replaces an instance that has ended.
fn restarting(on_conflict: OnConflict) -> NewInstance {
    NewInstance {
        on_conflict,
        ..instance("a")
    }
}

/// Acquires the instance and returns the messages that wait for it.
async fn waiting(store: &Handle<'_>) -> Vec<MessageBody> {
    let worker = store.worker("reader").await;
    let acquired = store.acquire_one(&worker).await;
    let messages = acquired.messages.messages;
    messages.into_iter().map(|message| message.body).collect()
}

/// The instance is due, and the message waits for it.
pub async fn starts_an_absent_receiver(store: &Store) {
    let store = store.first();
    let outcome = store.write(sent(instance("a"), 1)).await;
    assert!(matches!(outcome, Outcome::Delivered { owner: None, .. }), "{outcome:?}");
    assert_eq!(store.status("a").await.status, Status::Pending);
    assert_eq!(waiting(&store).await, [event("go", "1")]);
}

/// The start is as if it had not been.
pub async fn reaches_a_receiver_that_is_there(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    let other = NewInstance {
        name: "other".into(),
        ..instance("a")
    };
    let outcome = store.write(sent(other, 1)).await;
    let is_delivered = matches!(&outcome, Outcome::Delivered { key, owner: Some(owner), .. }
        if *key == owned.key && *owner == worker);
    assert!(is_delivered, "{outcome:?}");
    assert_ne!(store.status("a").await.name, "other");
}

/// An instance that sleeps is due.
pub async fn wakes_a_receiver_that_sleeps(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    store.commit(release(&owned, &worker, None)).await;
    store.assert_nothing_due(&worker).await;
    store.write(sent(instance("a"), 1)).await;
    assert_eq!(waiting(&store).await, [event("go", "1")]);
}

/// Nothing changes.
pub async fn is_refused_by_a_receiver_that_has_ended(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    store.commit(end(&owned, &worker, None)).await;
    let status = Status::Completed;
    for conflict in [OnConflict::Keep, OnConflict::RestartIfFailed] {
        let outcome = store.write(sent(restarting(conflict), 1)).await;
        assert_eq!(outcome, Outcome::Ended { status }, "{conflict:?}");
    }
    store.assert_nothing_due(&worker).await;
}

/// The message goes to the new instance.
pub async fn may_replace_a_receiver_that_has_ended(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    store.commit(end(&owned, &worker, None)).await;
    let outcome = store.write(sent(restarting(OnConflict::RestartIfTerminal), 1)).await;
    let is_new = matches!(&outcome, Outcome::Delivered { key, .. } if *key != owned.key);
    assert!(is_new, "{outcome:?}");
    // The new instance has not ended, so the second message finds it.
    store.write(sent(restarting(OnConflict::RestartIfTerminal), 2)).await;
    assert_eq!(waiting(&store).await, [event("go", "1"), event("go", "2")]);
}

/// As any other message.
pub async fn is_refused_by_a_full_mailbox(store: &Store) {
    let store = store.first();
    store.write(sent(instance("a"), 1)).await;
    let mut second = both(instance("a"), 2);
    second.message.unread_max = Some(1);
    let outcome = store.write(Write::StartWithMessage(Box::new(second))).await;
    assert_eq!(outcome, Outcome::MailboxFull { max: 1 });
}

/// Many of them for one receiver make one instance, and their messages come in order, also among other writes.
pub async fn makes_one_instance_of_a_batch(store: &Store) {
    let store = store.first();
    let plain = |number: u32| Write::Message(both(instance("a"), number).message);
    let outcomes = store
        .batch(vec![
            plain(0),
            sent(instance("a"), 1),
            sent(instance("b"), 1),
            sent(instance("a"), 2),
            plain(3),
            start(instance("a")),
            sent(instance("a"), 4),
        ])
        .await;
    assert_eq!((&outcomes[0], &outcomes[5]), (&Outcome::NotFound, &Outcome::Exists));
    let delivered = |outcome: &&Outcome| matches!(outcome, Outcome::Delivered { .. });
    assert_eq!(outcomes.iter().filter(delivered).count(), 5, "{outcomes:?}");
    let worker = store.worker("reader").await;
    let acquired = store.acquire(&worker).await;
    assert_eq!(acquired.instances.len(), 2);
    let of_a = acquired.instances.into_iter().find(|acquired| acquired.id == "a");
    let bodies = of_a.into_iter().flat_map(|acquired| acquired.messages.messages);
    let bodies: Vec<MessageBody> = bodies.map(|message| message.body).collect();
    assert_eq!(bodies, ["1", "2", "3", "4"].map(|number| event("go", number)));
}

/// All messages are there, and one instance.
pub async fn of_two_senders_makes_one_instance(store: &Store) {
    let (first, Some(second)) = (store.first(), store.second()) else {
        return;
    };
    for round in 0..20 {
        let id = format!("race-{round}");
        let (one, other) = tokio::join!(
            first.write(sent(instance(&id), 1)),
            second.write(sent(instance(&id), 2))
        );
        match (&one, &other) {
            (Outcome::Delivered { key: one, .. }, Outcome::Delivered { key: other, .. }) => assert_eq!(one, other),
            outcomes => panic!("both are delivered, not {outcomes:?}"),
        }
    }
}

/// The rest of its batch is not written either.
pub async fn with_a_start_that_does_not_fit_is_refused(store: &Store) {
    let store = store.first();
    let mut of_another = both(instance("a"), 1);
    of_another.message.instance = "b".into();
    let terminating = both(restarting(OnConflict::TerminateAndRestart), 1);
    let mut cancelling = both(instance("a"), 1);
    cancelling.message.body = MessageBody::Cancel { reason: None };
    for wrong in [of_another, terminating, cancelling] {
        let write = Write::StartWithMessage(Box::new(wrong));
        let refused = store.try_batch(vec![start(instance("c")), write]).await;
        assert_eq!(refused.map_err(|error| error.kind), Err(ProviderErrorKind::Internal));
    }
    assert_eq!(store.provider.statuses(vec!["c".into()]).await, Ok(vec![None]));
}
