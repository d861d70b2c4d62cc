//! Asks: messages that get an answer (P22).

use std::sync::Arc;

use perdure_engine::{ASKS, Answer, AnsweredAsk, EventId, MessageBody};
use perdure_provider::{
    ANSWERS_KEPT, AcquiredInstance, Ask, AskName, AskState, Change, NewInstance, NewMessage, OnConflict, Outcome,
    ProviderErrorKind, StartWithMessage, Status, StatusChange, TurnCommit, WorkerId, Write,
};

use tokio::sync::Notify;

use crate::continue_as_new::continued;
use crate::store::{Handle, START_MS, Store, end, event, instance, queued, release, scheduled, turn, within};

/// An id or a value with characters that a store may handle in its own way.
const TEXT: &str = "a\0\u{1F600}'\\ text";

pub(crate) fn ask(id: &str) -> Write {
    Write::Ask(Box::new(Ask {
        id: id.into(),
        message: NewMessage {
            instance: "a".into(),
            body: queued(ASKS, id),
            unread_max: Some(2_000),
            time_ms: START_MS,
        },
    }))
}

/// An ask that starts its receiver.
fn starting(id: &str, on_conflict: OnConflict) -> Write {
    let Write::Ask(ask) = ask(id) else { unreachable!() };
    Write::StartWithMessage(Box::new(StartWithMessage {
        start: NewInstance {
            on_conflict,
            ..instance("a")
        },
        message: ask.message,
        ask: Some(ask.id),
    }))
}

/// Returns the answer to an ask: its own id.
pub(crate) fn answered(id: &str) -> AnsweredAsk {
    AnsweredAsk {
        ask: id.into(),
        answer: Answer::Value(Some(id.into())),
    }
}

pub(crate) fn with_value(id: &str) -> Option<AskState> {
    Some(AskState::Answered(answered(id).answer))
}

/// A turn of one event that answers asks.
fn answering(owned: &AcquiredInstance, worker: &WorkerId, answers: Vec<AnsweredAsk>) -> TurnCommit {
    TurnCommit {
        events: vec![scheduled(owned.next_event_id.0)],
        answers,
        ..turn(owned, worker)
    }
}

impl Handle<'_> {
    pub(crate) async fn asks<const N: usize>(&self, ids: [&str; N]) -> [Option<AskState>; N] {
        let name = |ask: &str| AskName {
            instance: "a".into(),
            ask: ask.into(),
        };
        let states = self.provider.asks(ids.map(name).into()).await;
        let states = states.expect("the store answers");
        <[Option<AskState>; N]>::try_from(states).expect("a state for each ask")
    }

    async fn ask_state(&self, id: &str) -> Option<AskState> {
        let [state] = self.asks([id]).await;
        state
    }

    /// Commits a turn of one event that answers asks.
    pub(crate) async fn answer(&self, owned: &mut AcquiredInstance, worker: &WorkerId, answers: Vec<AnsweredAsk>) {
        self.commit(answering(owned, worker, answers)).await;
        owned.next_event_id = owned.next_event_id.next();
    }
}

/// It waits for its receiver as any other message does, and for its answer.
pub async fn are_messages_of_their_receiver(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let mut owned = store.owned("a", &worker).await;
    assert_eq!(store.asks(["1", TEXT]).await, [None, None]);
    for id in ["1", TEXT] {
        let outcome = store.write(ask(id)).await;
        let is_delivered = matches!(&outcome, Outcome::Delivered { key, owner: Some(owner), .. }
            if *key == owned.key && *owner == worker);
        assert!(is_delivered, "{outcome:?}");
    }
    let messages = store.messages(owned.key).await;
    let bodies: Vec<MessageBody> = messages.iter().map(|message| message.body.clone()).collect();
    assert_eq!(bodies, [queued(ASKS, "1"), queued(ASKS, TEXT)]);
    assert_eq!(
        store.asks(["1", TEXT]).await,
        [Some(AskState::Open), Some(AskState::Open)]
    );
    let seen = messages[1].seq;
    let consumes = TurnCommit {
        consumed: vec![messages[0].seq],
        seen,
        ..answering(&owned, &worker, vec![answered("1")])
    };
    store.commit(consumes).await;
    owned.next_event_id = owned.next_event_id.next();
    assert_eq!(store.asks([TEXT, "1"]).await, [Some(AskState::Open), with_value("1")]);
    store.answer(&mut owned, &worker, vec![answered(TEXT)]).await;
    assert_eq!(
        store.asks([TEXT, "none", "1"]).await,
        [with_value(TEXT), None, with_value("1")]
    );
}

/// An instance that sleeps is due.
pub async fn wake_their_receiver(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    store.commit(release(&owned, &worker, None)).await;
    store.assert_nothing_due(&worker).await;
    let outcome = store.write(ask("1")).await;
    assert!(matches!(outcome, Outcome::Delivered { owner: None, .. }), "{outcome:?}");
    assert_eq!(store.acquire_one(&worker).await.messages.messages.len(), 1);
}

/// The second of an id changes nothing, and finds the state of the first.
pub async fn of_one_id_are_one_ask(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let mut owned = store.owned("a", &worker).await;
    let outcomes = store.batch(vec![ask("1"), ask("1"), ask("2"), ask("1")]).await;
    let asked = |state| Outcome::Asked { state };
    assert_eq!(
        (&outcomes[1], &outcomes[3]),
        (&asked(AskState::Open), &asked(AskState::Open))
    );
    assert_eq!(store.messages(owned.key).await.len(), 2);
    store.answer(&mut owned, &worker, vec![answered("1")]).await;
    let again = store.write(ask("1")).await;
    assert_eq!(again, asked(AskState::Answered(answered("1").answer)));
    assert_eq!(store.messages(owned.key).await.len(), 2);
    // The first answer counts.
    let other = AnsweredAsk {
        answer: Answer::Error(None),
        ..answered("1")
    };
    store.answer(&mut owned, &worker, vec![other]).await;
    assert_eq!(store.ask_state("1").await, with_value("1"));
}

/// Two processes that ask with one id send one message.
pub async fn of_two_processes_are_one_ask(store: &Store) {
    let (first, Some(second)) = (store.first(), store.second()) else {
        return;
    };
    let worker = first.worker("w").await;
    let owned = first.owned("a", &worker).await;
    for round in 0..20 {
        let id = round.to_string();
        let (one, other) = tokio::join!(first.write(ask(&id)), second.write(ask(&id)));
        let delivered = [&one, &other]
            .into_iter()
            .filter(|outcome| matches!(outcome, Outcome::Delivered { .. }));
        assert_eq!(delivered.count(), 1, "{one:?} and {other:?}");
    }
    assert_eq!(first.messages(owned.key).await.len(), 20);
}

/// An answer is a value or an error, each with a text or without one.
pub async fn may_be_answered_without_a_text(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let mut owned = store.owned("a", &worker).await;
    let answers = [
        Answer::Value(None),
        Answer::Value(Some(TEXT.into())),
        Answer::Error(None),
        Answer::Error(Some(TEXT.into())),
    ];
    let mut asked = Vec::new();
    for (number, answer) in answers.iter().enumerate() {
        let ask_id = number.to_string();
        store.write(ask(&ask_id)).await;
        asked.push(AnsweredAsk {
            ask: ask_id,
            answer: answer.clone(),
        });
    }
    store.answer(&mut owned, &worker, asked).await;
    let states = store.asks(["0", "1", "2", "3"]).await;
    assert_eq!(states, answers.map(|answer| Some(AskState::Answered(answer))));
}

/// Neither a turn that is fenced off answers, nor one for an ask that is not there.
pub async fn are_answered_by_the_owner_alone(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let mut owned = store.owned("a", &worker).await;
    store.write(ask("1")).await;
    let stale = TurnCommit {
        worker: WorkerId("other".into()),
        ..answering(&owned, &worker, vec![answered("1")])
    };
    assert_eq!(store.turn(stale).await, Outcome::Fenced);
    store.answer(&mut owned, &worker, vec![answered("none")]).await;
    assert_eq!(store.asks(["1", "none"]).await, [Some(AskState::Open), None]);
}

/// A client of another process may wait for the answer, so its listener is called.
pub async fn tell_other_processes_of_answers(store: &Store) {
    let (first, Some(second)) = (store.first(), store.second()) else {
        return;
    };
    let worker = first.worker("w").await;
    let mut owned = first.owned("a", &worker).await;
    first.write(ask("1")).await;
    let told = Arc::new(Notify::new());
    let tell = Arc::clone(&told);
    let listener = move |change: &Change| {
        if change.statuses {
            tell.notify_one();
        }
    };
    second.provider.on_foreign_change(Box::new(listener));
    first.answer(&mut owned, &worker, vec![answered("1")]).await;
    within(told.notified()).await;
}

/// Nothing is written.
pub async fn are_refused_as_messages_are(store: &Store) {
    let store = store.first();
    assert_eq!(store.write(ask("1")).await, Outcome::NotFound);
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    let Write::Ask(mut full) = ask("1") else { unreachable!() };
    store.send("a", event("e", "1")).await;
    full.message.unread_max = Some(1);
    assert_eq!(store.write(Write::Ask(full)).await, Outcome::MailboxFull { max: 1 });
    assert_eq!(store.ask_state("1").await, None);
    store.commit(end(&owned, &worker, None)).await;
    let status = Status::Completed;
    assert_eq!(store.write(ask("1")).await, Outcome::Ended { status });
    assert_eq!(store.ask_state("1").await, None);
}

/// An ask that is no mail for the queue of asks is a defect of its caller. The rest of its batch is not written either.
pub async fn that_are_no_asks_are_refused(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    store.owned("a", &worker).await;
    for body in [
        queued("other", "1"),
        event(ASKS, "1"),
        MessageBody::Cancel { reason: None },
    ] {
        let Write::Ask(mut wrong) = ask("1") else {
            unreachable!()
        };
        let Write::StartWithMessage(mut wrong_start) = starting("1", OnConflict::Keep) else {
            unreachable!()
        };
        (wrong.message.body, wrong_start.message.body) = (body.clone(), body);
        for wrong in [Write::Ask(wrong), Write::StartWithMessage(wrong_start)] {
            let refused = store.try_batch(vec![ask("2"), wrong]).await;
            assert_eq!(refused.map_err(|error| error.kind), Err(ProviderErrorKind::Internal));
        }
    }
    assert_eq!(store.asks(["1", "2"]).await, [None, None]);
}

/// The asks without an answer end with it, and the answers stay.
pub async fn end_with_their_receiver(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    for way in ["completes", "is terminated", "is cancelled while suspended"] {
        let owned = store.acquire_anew("a", &worker).await;
        store.batch(vec![ask("1"), ask("2"), ask("3")]).await;
        let after = TurnCommit {
            answers: vec![answered("1")],
            ..answering(&owned, &worker, Vec::new())
        };
        match way {
            "completes" => {
                let ends = TurnCommit {
                    answers: vec![answered("1")],
                    ..end(&owned, &worker, None)
                };
                store.commit(ends).await;
            }
            "is terminated" => {
                store.commit(after).await;
                store.terminate("a", None).await;
            }
            _ => {
                store.commit(after).await;
                store.suspend("a", "because").await;
                assert_eq!(store.ask_state("2").await, Some(AskState::Open));
                store.send("a", MessageBody::Cancel { reason: None }).await;
            }
        }
        let ended = AskState::Ended {
            status: store.status("a").await.status,
        };
        assert_eq!(
            store.asks(["1", "2", "3"]).await,
            [with_value("1"), Some(ended.clone()), Some(ended.clone())],
            "{way}"
        );
        assert_eq!(store.write(ask("2")).await, Outcome::Asked { state: ended });
    }
}

/// An ask and its message wait for the next execution.
pub async fn are_kept_over_executions(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let mut owned = store.owned("a", &worker).await;
    store.batch(vec![ask("1"), ask("2")]).await;
    let continues = TurnCommit {
        answers: vec![answered("1")],
        ..continued(&owned, &worker, None, true)
    };
    store.commit(continues).await;
    assert_eq!(store.asks(["1", "2"]).await, [with_value("1"), Some(AskState::Open)]);
    owned.execution = owned.execution.next();
    owned.next_event_id = EventId(2);
    store.answer(&mut owned, &worker, vec![answered("2")]).await;
    assert_eq!(store.asks(["1", "2"]).await, [with_value("1"), with_value("2")]);
}

/// A new instance of the id begins without any, and a deleted one leaves none.
pub async fn go_with_their_receiver(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    for way in ["replace", "delete"] {
        let owned = store.acquire_anew("a", &worker).await;
        store.batch(vec![ask("1"), ask("2")]).await;
        let ends = TurnCommit {
            answers: vec![answered("1")],
            ..end(&owned, &worker, None)
        };
        store.commit(ends).await;
        if way == "replace" {
            let owned = store.acquire_anew("a", &worker).await;
            assert_eq!(store.asks(["1", "2"]).await, [None, None]);
            store.commit(end(&owned, &worker, None)).await;
        } else {
            let delete = Write::Delete { id: "a".into() };
            assert_eq!(store.write(delete).await, Outcome::Deleted);
            assert_eq!(store.asks(["1", "2"]).await, [None, None]);
        }
    }
}

/// The oldest answers give way to the newest, and asks without an answer stay.
pub async fn keep_their_last_answers(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let mut owned = store.owned("a", &worker).await;
    let ids: Vec<String> = (0..ANSWERS_KEPT + 3).map(|number| number.to_string()).collect();
    let mut asks: Vec<Write> = ids.iter().map(|id| ask(id)).collect();
    asks.push(ask("open"));
    for batch in asks.chunks(100) {
        store.batch(batch.to_vec()).await;
    }
    let (first, rest) = ids.split_at(3);
    for id in first {
        store.answer(&mut owned, &worker, vec![answered(id)]).await;
    }
    let (most, last) = rest.split_at(rest.len() - 1);
    store
        .answer(&mut owned, &worker, most.iter().map(|id| answered(id)).collect())
        .await;
    assert_eq!(store.asks(["0", "1", "2"]).await, [None, None, with_value("2")]);
    store.answer(&mut owned, &worker, vec![answered(&last[0])]).await;
    let states = store.asks(["2", "3", &last[0], "open"]).await;
    assert_eq!(
        states,
        [None, with_value("3"), with_value(&last[0]), Some(AskState::Open)]
    );
}

/// The answer may stand in a turn with anything else, and comes with a status that the turn asked for.
pub async fn are_answered_with_the_rest_of_a_turn(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    store.write(ask("1")).await;
    let status = StatusChange {
        value: Some("s".into()),
    };
    let turn = TurnCommit {
        custom_status: Some(status),
        tell_status: true,
        ..answering(&owned, &worker, vec![answered("1")])
    };
    let outcome = store.turn(turn).await;
    let Outcome::Committed {
        status: Some(status), ..
    } = outcome
    else {
        panic!("the turn is committed, not {outcome:?}")
    };
    assert_eq!(status.custom_status, Some("s".into()));
    assert_eq!(store.ask_state("1").await, with_value("1"));
}

/// It is one of them, and others come after it, also in its batch.
pub async fn may_start_their_receiver(store: &Store) {
    let store = store.first();
    let start = |id: &str| starting(id, OnConflict::Keep);
    let outcomes = store
        .batch(vec![ask("0"), start("1"), start("2"), start("1"), ask("2"), ask("3")])
        .await;
    assert_eq!(outcomes[0], Outcome::NotFound);
    let asked = Outcome::Asked { state: AskState::Open };
    assert_eq!((&outcomes[3], &outcomes[4]), (&asked, &asked));
    let open = Some(AskState::Open);
    assert_eq!(
        store.asks(["0", "1", "2", "3"]).await,
        [None, open.clone(), open.clone(), open]
    );
    let worker = store.worker("w").await;
    let acquired = store.acquire_one(&worker).await;
    let bodies = acquired.messages.messages.into_iter().map(|message| message.body);
    assert_eq!(bodies.collect::<Vec<_>>(), ["1", "2", "3"].map(|id| queued(ASKS, id)));
}

/// The same ask starts nothing, even if its receiver has ended. A new ask may replace that receiver.
pub async fn that_start_their_receiver_do_so_once(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let start = |id: &str| starting(id, OnConflict::RestartIfTerminal);
    store.batch(vec![start("1"), start("2")]).await;
    let owned = store.acquire_one(&worker).await;
    let ends = TurnCommit {
        answers: vec![answered("1")],
        ..end(&owned, &worker, None)
    };
    store.commit(ends).await;
    let state = AskState::Answered(answered("1").answer);
    assert_eq!(store.write(start("1")).await, Outcome::Asked { state });
    let status = Status::Completed;
    let state = AskState::Ended { status };
    assert_eq!(
        store.write(starting("2", OnConflict::RestartIfFailed)).await,
        Outcome::Asked { state }
    );
    assert_eq!(store.status("a").await.status, status);
    assert_eq!(
        store.write(starting("3", OnConflict::Keep)).await,
        Outcome::Ended { status }
    );
    let outcome = store.write(start("3")).await;
    let is_new = matches!(&outcome, Outcome::Delivered { key, .. } if *key != owned.key);
    assert!(is_new, "{outcome:?}");
    assert_eq!(store.asks(["1", "2", "3"]).await, [None, None, Some(AskState::Open)]);
}

/// The receiver completed without taking the ask, so the next one takes it. If the receiver was stopped, the ask may
/// have had its effect.
pub async fn that_were_not_taken_start_their_receiver_again(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let start = |id: &str| starting(id, OnConflict::RestartIfTerminal);
    store.write(start("1")).await;
    let owned = store.acquire_one(&worker).await;
    store.commit(end(&owned, &worker, None)).await;
    let outcomes = store.batch(vec![start("1"), start("1")]).await;
    let is_new = matches!(&outcomes[0], Outcome::Delivered { key, .. } if *key != owned.key);
    assert!(is_new, "{outcomes:?}");
    assert_eq!(outcomes[1], Outcome::Asked { state: AskState::Open });
    store.terminate("a", None).await;
    let status = Status::Terminated;
    let state = AskState::Ended { status };
    assert_eq!(store.write(start("1")).await, Outcome::Asked { state });
}
