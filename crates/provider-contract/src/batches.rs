//! Batches and their answers (P1).

use std::sync::{Arc, mpsc};

use perdure_engine::EventId;
use perdure_provider::{NewMessage, Outcome, Provider, TurnCommit, Write};
use tokio::sync::oneshot;

use crate::store::{START_MS, Store, answer, custom_status, event, instance, scheduled, start, turn, within};

/// Each sort of write in one batch sees the effects of the writes before it.
pub async fn outcomes_come_in_the_order_of_the_writes(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("owned", &worker).await;
    let message = |to: &str| {
        Write::Message(NewMessage {
            instance: to.into(),
            body: event("go", "1"),
            unread_max: None,
            time_ms: START_MS,
        })
    };
    let outcomes = store
        .batch(vec![
            message("new"),
            start(instance("new")),
            message("new"),
            Write::Turn(Box::new(TurnCommit {
                custom_status: custom_status("1"),
                ..turn(&owned, &worker)
            })),
            message("owned"),
            Write::Resume {
                id: "new".into(),
                time_ms: START_MS,
            },
            start(instance("new")),
        ])
        .await;
    let [
        Outcome::NotFound,
        Outcome::Started {
            key: new,
            claimed: None,
            ..
        },
        Outcome::Delivered {
            key: to_new,
            owner: None,
            ..
        },
        Outcome::Committed {
            status: None,
            wake_at_ms: None,
            others: None,
        },
        Outcome::Delivered {
            key: to_owned,
            owner: Some(owner),
            ..
        },
        Outcome::NotSuspended { .. },
        Outcome::Exists,
    ] = &outcomes[..]
    else {
        panic!("not what was written: {outcomes:?}")
    };
    assert_eq!((to_new, *to_owned, owner), (new, owned.key, &worker));
}

/// The answer is an empty list of outcomes.
pub async fn an_empty_batch_is_answered(store: &Store) {
    assert_eq!(store.first().try_batch(Vec::new()).await, Ok(Vec::new()));
}

/// The thread that answers may be the one that takes the next batch, so neither may wait for the other.
pub async fn an_answer_may_hand_over_the_next_batch(store: &Store) {
    fn chain(provider: Arc<dyn Provider>, n: u32, finished: oneshot::Sender<u32>) {
        let next = Arc::clone(&provider);
        provider.commit(
            Arc::new(vec![start(instance(&format!("a{n}")))]),
            Box::new(move |result| {
                assert!(matches!(
                    result.expect("the batch is written")[..],
                    [Outcome::Started { .. }]
                ));
                if n < 100 {
                    chain(next, n + 1, finished)
                } else {
                    finished.send(n).expect("the check waits")
                }
            }),
        );
    }
    let (finished, end) = oneshot::channel();
    chain(Arc::clone(&store.provider), 1, finished);
    assert_eq!(within(end).await, Ok(100));
    assert!(store.first().find("a100").await.is_some());
}

/// The caller may hold a lock that its answer takes.
pub async fn answers_never_come_within_the_call(store: &Store) {
    let batch = vec![start(instance("a"))];
    assert!(!store.first().is_answered_within_the_call(batch).await);
}

/// Answers come first come, first served, even if batches share a transaction.
pub async fn answers_come_in_the_order_of_the_batches(store: &Store) {
    let (answered, order) = mpsc::channel();
    for n in 0..200 {
        let answered = answered.clone();
        let done = Box::new(move |_| answered.send(n).expect("the check waits"));
        store
            .provider
            .commit(Arc::new(vec![start(instance(&format!("a{n}")))]), done);
    }
    drop(answered);
    let order = tokio::task::spawn_blocking(move || order.into_iter().collect::<Vec<_>>());
    assert_eq!(
        within(order).await.expect("every batch is answered"),
        (0..200).collect::<Vec<_>>()
    );
}

/// A caller whose answer panics does not harm the other callers.
pub async fn an_answer_that_panics_stops_nothing(store: &Store) {
    let done = Box::new(|_| std::panic::resume_unwind(Box::new("a caller's defect")));
    store.provider.commit(Arc::new(vec![start(instance("a"))]), done);
    store.first().start(instance("b")).await;
    assert!(store.first().find("a").await.is_some());
}

/// An error means that nothing of the batch was written. Other batches of the same transaction are.
pub async fn a_refused_batch_leaves_nothing_and_harms_no_other(store: &Store) {
    let first = store.first();
    let worker = first.worker("w").await;
    let owned = first.owned("owned", &worker).await;
    let good = TurnCommit {
        custom_status: custom_status("1"),
        ..turn(&owned, &worker)
    };
    let bad = TurnCommit {
        events: vec![scheduled(9)],
        ..turn(&owned, &worker)
    };
    let mut answers = Vec::new();
    for n in 0..30 {
        let (done, answered) = answer();
        let mut writes = vec![start(instance(&format!("a{n}"))), start(instance(&format!("b{n}")))];
        if n % 10 == 5 {
            writes.insert(1, Write::Turn(Box::new(good.clone())));
            writes.insert(2, Write::Turn(Box::new(bad.clone())));
        }
        first.provider.commit(Arc::new(writes), done);
        answers.push(answered);
    }
    for (n, answered) in answers.into_iter().enumerate() {
        let written = within(answered).await.expect("a batch is answered").is_ok();
        assert_eq!(written, n % 10 != 5, "batch {n}");
        for id in ["a", "b"] {
            assert_eq!(
                first.find(&format!("{id}{n}")).await.is_some(),
                written,
                "instance {id}{n}"
            );
        }
    }
    // The instance goes on after that.
    let next = TurnCommit {
        events: vec![scheduled(2)],
        ..turn(&owned, &worker)
    };
    first.commit(next).await;
    assert_eq!(first.status("owned").await.custom_status, None);
    assert_eq!(first.history(owned.key).await[1].event_id, EventId(2));
}
