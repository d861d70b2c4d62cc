//! Lost answers and lost requests: a proxy cuts the proxy of real statements to and from a real server.

use std::sync::atomic::Ordering;

use perdure_engine::{Answer, AnsweredAsk, MessageSeq, StateChange, StreamAppend, StreamKeep};
use perdure_provider::{AfterTurn, Epoch, Outcome, Provider, ProviderError, Status, TurnCommit};

use crate::common::lossy_proxy::{COMMITTED, Cut, Store, message, turns};

const CUTS: [Cut; 2] = [Cut::Before, Cut::After];

#[tokio::test]
async fn turns_are_written_once() {
    let store = Store::open().await;
    let keys = [store.started("a").await, store.started("b").await];
    let mut event = 1;
    // A single turn has a statement of its own.
    for of in [&keys[..], &keys[..1]] {
        let mut next = || {
            event += 1;
            turns(of.iter().map(|key| store.turn(*key, event)))
        };
        for cut in CUTS {
            let committed = Ok(vec![COMMITTED; of.len()]);
            // This prepares the statement, so that the cut loses the statement itself.
            assert_eq!(store.batch(next()).await, committed);
            assert_eq!(store.cut(cut, next()).await, committed, "{cut:?}");
        }
    }
    assert_eq!(store.events().await, 2 + 4 * 2 + 4);
    let moved =
        "SELECT count(*) FROM {schema}.instances WHERE (id, next_event_id, turns) IN (('a', 10, 8), ('b', 6, 4))";
    assert_eq!(store.count(moved).await, 2);
    store.provider.close().await;
}

/// The server refuses connections for a moment when it is asked for the outcome of a turn. That was taken for the last
/// word: the turn was said to be unknown, written again and fenced off, and the work of the instance was given up and
/// run again.
#[tokio::test]
async fn a_turn_is_looked_up_until_the_server_accepts_connections_again() {
    let store = Store::open().await;
    let key = store.started("a").await;
    store.batch(turns([store.turn(key, 2)])).await.expect("it is written");
    store.proxy.refusals.store(3, Ordering::Release);
    let outcomes = store.cut(Cut::After, turns([store.turn(key, 3)])).await;
    assert_eq!(outcomes, Ok(vec![COMMITTED]));
    assert_eq!(store.proxy.refusals.load(Ordering::Acquire), 0);
    assert_eq!(store.events().await, 3);
    store.provider.close().await;
}

/// The statements after a `BEGIN` that was refused were carried out by themselves, and said to have failed.
#[tokio::test]
async fn nothing_is_written_when_a_transaction_cannot_begin() {
    let store = Store::open_pooled().await;
    store.started("a").await;
    let failed = store.cut(Cut::Begin, vec![message("a"), message("a")]).await;
    assert!(failed.as_ref().is_err_and(ProviderError::retryable), "{failed:?}");
    assert_eq!(store.count("SELECT count(*) FROM {schema}.messages").await, 0);
    store
        .batch(vec![message("a"), message("a")])
        .await
        .expect("it is written");
    assert_eq!(store.count("SELECT count(*) FROM {schema}.messages").await, 2);
    store.provider.close().await;
}

#[tokio::test]
async fn a_turn_that_was_fenced_off_stays_fenced_off() {
    let store = Store::open().await;
    let [passes, stale] = [store.started("passes").await, store.started("stale").await];
    assert_eq!(
        store.batch(turns([store.turn(passes, 2), store.turn(stale, 2)])).await,
        Ok(vec![COMMITTED; 2])
    );
    // This turn repeats one that was written long ago, with other values.
    let again = TurnCommit {
        time_ms: 3,
        ..store.turn(stale, 2)
    };
    let other = TurnCommit {
        epoch: Epoch(2),
        ..store.turn(stale, 3)
    };
    for (n, cut) in CUTS.into_iter().enumerate() {
        let batch = turns([store.turn(passes, 3 + n as u64), other.clone()]);
        assert_eq!(
            store.cut(cut, batch).await,
            Ok(vec![COMMITTED, Outcome::Fenced]),
            "{cut:?}"
        );
    }
    assert_eq!(store.batch(turns([store.turn(stale, 3)])).await, Ok(vec![COMMITTED]));
    assert_eq!(store.batch(turns([again])).await, Ok(vec![Outcome::Fenced]));
    assert_eq!(store.events().await, 2 + 3 + 2);
    store.provider.close().await;
}

#[tokio::test]
async fn ends_are_written_once_and_tell_the_status() {
    let store = Store::open().await;
    for cut in CUTS {
        // This prepares the statement, so that the cut loses the statement itself.
        let first = store.started(&format!("first {cut:?}")).await;
        store.batch(turns([store.end(first, 2)])).await.expect("it is written");
        let id = format!("{cut:?}");
        let key = store.started(&id).await;
        let outcomes = store.cut(cut, turns([store.end(key, 2)])).await.expect("it is written");
        let [
            Outcome::Committed {
                status: Some(status), ..
            },
        ] = &outcomes[..]
        else {
            panic!("{cut:?}: it tells the status, not {outcomes:?}");
        };
        let read = store.provider.statuses(vec![id]).await.expect("it is read");
        assert_eq!(read, [Some((**status).clone())], "{cut:?}");
        assert_eq!(
            (status.status, status.result.as_deref()),
            (Status::Completed, Some("7"))
        );
        assert_eq!(
            (status.custom_status.as_deref(), status.custom_status_version),
            (Some("\"all\""), 1)
        );
    }
    assert_eq!(store.events().await, 4 * 2);
    store.provider.close().await;
}

#[tokio::test]
async fn starts_are_written_once_or_fail_as_retryable() {
    let store = Store::open().await;
    store.started("first").await;
    let lost = store.cut(Cut::Before, vec![store.start("a")]).await;
    assert!(lost.as_ref().is_err_and(ProviderError::retryable), "{lost:?}");
    assert_eq!(
        store
            .count("SELECT count(*) FROM {schema}.instances WHERE id = 'a'")
            .await,
        0
    );
    let a = store.started("a").await;
    let outcomes = store
        .cut(Cut::After, vec![store.start("b")])
        .await
        .expect("it is written");
    let [
        Outcome::Started {
            key,
            claimed: Some(Epoch(1)),
            turn: None,
            ..
        },
    ] = outcomes[..]
    else {
        panic!("it was started, not {outcomes:?}");
    };
    assert_ne!(key, a);
    // The instance has the key that was told.
    assert_eq!(store.batch(turns([store.turn(key, 2)])).await, Ok(vec![COMMITTED]));
    // A lost answer does not turn an existing instance into a started one.
    let again = store.cut(Cut::After, vec![store.start("b")]).await;
    match again {
        Ok(outcomes) => assert_eq!(outcomes, [Outcome::Exists]),
        Err(error) => assert!(error.retryable(), "{error}"),
    }
    assert_eq!(store.count("SELECT count(*) FROM {schema}.instances").await, 3);
    store.provider.close().await;
}

#[tokio::test]
async fn messages_are_written_once_or_fail_as_retryable() {
    let store = Store::open().await;
    let key = store.started("a").await;
    store.batch(vec![message("a")]).await.expect("it is written");
    let lost = store.cut(Cut::Before, vec![message("a")]).await;
    assert!(lost.as_ref().is_err_and(ProviderError::retryable), "{lost:?}");
    // This prepares the statement, so that the cut loses the statement itself.
    store.batch(vec![message("a")]).await.expect("it is written");
    assert_eq!(
        store.cut(Cut::After, vec![message("a")]).await,
        Ok(vec![Outcome::Delivered {
            key,
            seq: MessageSeq(3),
            owner: Some(store.worker.clone()),
        }])
    );
    assert_eq!(store.count("SELECT count(*) FROM {schema}.messages").await, 3);
    // A lost answer does not turn a message without a receiver into a delivered one.
    store.batch(vec![message("a")]).await.expect("it is written");
    let lost = store.cut(Cut::After, vec![message("nobody")]).await;
    match lost {
        Ok(outcomes) => assert_eq!(outcomes, [Outcome::NotFound]),
        Err(error) => assert!(error.retryable(), "{error}"),
    }
    store.provider.close().await;
}

#[tokio::test]
async fn transactions_are_written_once_or_fail_as_retryable() {
    let store = Store::open().await;
    store.started("a").await;
    // Two messages are not one statement, but a transaction.
    let two = || vec![message("a"), message("a")];
    store.batch(two()).await.expect("it is written");
    let lost = store.cut(Cut::Before, two()).await;
    assert!(lost.as_ref().is_err_and(ProviderError::retryable), "{lost:?}");
    let outcomes = store.cut(Cut::AfterCommit, two()).await.expect("it is written");
    assert!(
        matches!(
            outcomes[..],
            [
                Outcome::Delivered { seq: MessageSeq(3), .. },
                Outcome::Delivered { seq: MessageSeq(4), .. }
            ]
        ),
        "{outcomes:?}"
    );
    assert_eq!(store.count("SELECT count(*) FROM {schema}.messages").await, 4);
    store.provider.close().await;
}

#[tokio::test]
async fn entries_of_streams_are_appended_once() {
    let store = Store::open().await;
    let key = store.started("a").await;
    let append = |entry| vec![store.append(key, entry)];
    store.batch(append("1")).await.expect("it is written");
    let outcomes = store.cut(Cut::AfterCommit, append("2")).await;
    assert_eq!(outcomes, Ok(vec![Outcome::Appended { next: 2 }]));
    // The same of a turn, which is no statement of its own then.
    let mut turn = store.turn(key, 2);
    let mut entry = StreamAppend::new("log", StreamKeep::default());
    entry.push(Some("3"));
    turn.appends = vec![entry];
    let outcomes = store.cut(Cut::AfterCommit, turns([turn])).await;
    assert_eq!(outcomes, Ok(vec![COMMITTED]));
    let chunks = "SELECT count(*) FROM {schema}.stream_chunks WHERE entries = (first_index + 1)::text AND count = 1";
    assert_eq!(store.count(chunks).await, 3);
    assert_eq!(store.count("SELECT next_index FROM {schema}.streams").await, 3);
    store.provider.close().await;
}

#[tokio::test]
async fn wakes_are_written_once_or_fail_as_retryable() {
    let store = Store::open().await;
    // The first one prepares the statement, so that a cut loses the statement itself.
    for (id, cut, answers) in [
        ("first", None, false),
        ("lost", Some(Cut::Before), false),
        ("unheard", Some(Cut::After), false),
        ("first answer", None, true),
        ("lost answer", Some(Cut::Before), true),
        ("unheard answer", Some(Cut::After), true),
    ] {
        let key = store.started(id).await;
        let sleeps = TurnCommit {
            events: Vec::new(),
            after: AfterTurn::Release { wake_at_ms: None },
            ..store.turn(key, 2)
        };
        assert_eq!(store.batch(turns([sleeps])).await, Ok(vec![COMMITTED]));
        let wakes = |turn| TurnCommit {
            epoch: Epoch(2),
            wakes: true,
            ..if answers { answering(turn) } else { turn }
        };
        let batch = turns([wakes(store.end(key, 2))]);
        let written = match cut {
            None => store.batch(batch).await,
            Some(cut) => store.cut(cut, batch).await,
        };
        match written {
            Ok(outcomes) => {
                assert_ne!(cut, Some(Cut::Before));
                let [
                    Outcome::Committed {
                        status: Some(status), ..
                    },
                ] = &outcomes[..]
                else {
                    panic!("it is written, with the status, not {outcomes:?}");
                };
                assert_eq!((status.status, &*status.id), (Status::Completed, id));
            }
            Err(error) => {
                assert!(error.retryable(), "{error}");
                assert_eq!(cut, Some(Cut::Before));
                let again = store.batch(turns([wakes(store.turn(key, 2))])).await;
                assert_eq!(again, Ok(vec![COMMITTED]), "nothing was written");
            }
        }
        let second = store.batch(turns([wakes(store.turn(key, 2))])).await;
        assert_eq!(second, Ok(vec![Outcome::Fenced]));
    }
    assert_eq!(store.events().await, 6 * 2);
    let answered = "SELECT count(*) FROM {schema}.asks WHERE outcome = 'Value' AND answer = '1' AND number = 1";
    assert_eq!(store.count(answered).await, 3);
    let set = "SELECT count(*) FROM {schema}.state WHERE name = 'sum' AND value = '1' AND version = 1";
    assert_eq!(store.count(set).await, 3);
    store.provider.close().await;
}

/// Returns a turn that takes an ask, answers it, and sets a value.
fn answering(turn: TurnCommit) -> TurnCommit {
    TurnCommit {
        asked: Some("add".to_owned()),
        answers: vec![AnsweredAsk {
            ask: "add".to_owned(),
            answer: Answer::Value(Some("1".to_owned())),
        }],
        state: vec![StateChange::Set {
            name: "sum".to_owned(),
            value: Some("1".to_owned()),
        }],
        ..turn
    }
}
