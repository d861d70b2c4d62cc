//! Polls of mailboxes, and cancelled timers: waits that leave as little as possible in a history.

use perdure_engine::{
    Awaited, Budget, Command, CommandEvent, Completion, Delivery, DeliveryEvent, Engine, Event, EventId, EventKind,
    EventRecord, ExecutionId, Mailbox, Message, MessageBody, MessageSeq, Start, Step,
};

use super::support::{START_MS, started};

fn engine_of(history: Vec<EventRecord>) -> Engine {
    let fresh = history.len() == 1;
    Engine::new(Start {
        execution: ExecutionId::FIRST,
        history,
        complete: true,
        fresh,
        budget: Budget::default(),
    })
    .expect("a sound history")
}

fn jobs() -> Mailbox {
    Mailbox::Queue("jobs".into())
}

fn awaiting(mailboxes: &[Mailbox]) -> Awaited {
    Awaited {
        mailboxes: mailboxes.to_vec(),
        timers: Vec::new(),
    }
}

fn offer(engine: &mut Engine, seq: u64, payload: &str) {
    engine.offer(Completion::Message(Message {
        seq: MessageSeq(seq),
        body: MessageBody::Mail {
            mailbox: jobs(),
            payload: Some(payload.into()),
        },
    }));
}

fn next(engine: &mut Engine, awaited: Awaited) -> Option<Delivery> {
    match engine.next(awaited, START_MS).expect("it fits its history") {
        Step::Deliver { delivery, .. } => Some(delivery),
        _ => None,
    }
}

fn message(payload: &str) -> Option<Delivery> {
    Some(Delivery::Message {
        mailbox: jobs(),
        payload: Some(payload.into()),
    })
}

fn empty() -> Option<Delivery> {
    Some(Delivery::MailboxEmpty { mailbox: jobs() })
}

/// Polls twice: the code of an execution that finds nothing first, and a message then.
fn poll_twice(engine: &mut Engine, look: impl Fn(&mut Engine)) -> [Option<Delivery>; 2] {
    [0, 1].map(|_| {
        engine.set_polled(jobs(), true);
        let mut delivery = next(engine, awaiting(&[jobs()]));
        if delivery.is_none() {
            look(engine);
            delivery = next(engine, awaiting(&[jobs()]));
        }
        engine.set_polled(jobs(), false);
        delivery
    })
}

#[test]
fn a_poll_takes_a_message_that_is_there() {
    let mut engine = engine_of(vec![started()]);
    offer(&mut engine, 1, "a");
    engine.set_polled(jobs(), true);
    assert_eq!(next(&mut engine, awaiting(&[jobs()])), message("a"));
    let turn = engine.end_turn();
    assert_eq!(turn.consumed, [MessageSeq(1)]);
    assert_eq!(turn.events.len(), 1, "the message alone");
}

/// The store may hold a message that the engine does not: it says so only after the store was read.
#[test]
fn a_poll_is_empty_only_after_a_look_into_the_store() {
    let mut engine = engine_of(vec![started()]);
    engine.set_polled(jobs(), true);
    assert_eq!(next(&mut engine, awaiting(&[jobs()])), None);
    assert!(engine.awaits_look());
    assert!(!engine.is_runnable(START_MS));
    engine.end_turn();
    engine.note_look();
    assert!(!engine.awaits_look());
    assert!(engine.is_runnable(START_MS));
    assert_eq!(next(&mut engine, awaiting(&[jobs()])), empty());
    let turn = engine.end_turn();
    assert_eq!(turn.events[0].kind, EventKind::QueueEmpty);
    assert_eq!(turn.events[0].name.as_deref(), Some("jobs"));
}

/// A look answers one poll. It answers none that was made after it.
#[test]
fn each_poll_needs_its_own_look() {
    let mut engine = engine_of(vec![started()]);
    engine.set_polled(jobs(), true);
    assert_eq!(next(&mut engine, awaiting(&[jobs()])), None);
    engine.note_look();
    assert_eq!(next(&mut engine, awaiting(&[jobs()])), empty());
    assert_eq!(next(&mut engine, awaiting(&[jobs()])), None, "another look is needed");
    engine.note_look();
    engine.set_polled(Mailbox::Queue("others".into()), true);
    assert!(engine.awaits_look(), "the other poll was made after the look");
}

/// A mailbox that is awaited but not polled is never said to be empty.
#[test]
fn a_wait_is_no_poll() {
    let mut engine = engine_of(vec![started()]);
    engine.set_polled(jobs(), true);
    engine.set_polled(jobs(), false);
    engine.note_look();
    assert_eq!(next(&mut engine, awaiting(&[jobs()])), None);
    assert!(!engine.awaits_look());
}

/// History decides, although the message of the second poll is there before the first one is replayed.
#[test]
fn a_replay_finds_a_poll_as_empty_as_it_was() {
    let mut live = engine_of(vec![started()]);
    live.set_polled(jobs(), true);
    assert_eq!(next(&mut live, awaiting(&[jobs()])), None);
    live.note_look();
    assert_eq!(next(&mut live, awaiting(&[jobs()])), empty());
    offer(&mut live, 1, "late");
    assert_eq!(next(&mut live, awaiting(&[jobs()])), message("late"));
    let mut history = vec![started()];
    history.extend(live.end_turn().events);

    let mut replay = engine_of(history);
    offer(&mut replay, 1, "late");
    let found = poll_twice(&mut replay, |_| panic!("history has both answers"));
    assert_eq!(found, [empty(), message("late")]);
}

#[test]
fn a_replay_that_waits_instead_of_polling_is_a_mismatch() {
    let history = vec![
        started(),
        EventRecord::new(
            EventId(2),
            START_MS,
            Event::Delivery(DeliveryEvent::MailboxEmpty { mailbox: jobs() }),
        ),
    ];
    let mut engine = engine_of(history);
    let fault = engine.next(awaiting(&[jobs()]), START_MS).expect_err("it did not poll");
    let text = fault.to_string();
    assert!(
        text.contains("recorded:  a message of queue 'jobs' is absent"),
        "{text}"
    );
}

/// A timer that is given up takes its due time with it, and leaves nothing in the history.
#[test]
fn a_cancelled_timer_is_not_recorded_and_wakes_nothing() {
    let mut engine = engine_of(vec![started()]);
    let timer = engine
        .issue(Command::CreateTimer { delay_ms: 1_000 })
        .expect("no limit");
    let waits = Awaited {
        mailboxes: vec![jobs()],
        timers: vec![timer],
    };
    offer(&mut engine, 1, "a");
    assert_eq!(next(&mut engine, waits), message("a"));
    engine
        .issue(Command::CancelOperation { scheduled: timer })
        .expect("no limit");
    assert_eq!(next(&mut engine, awaiting(&[jobs()])), None);
    let turn = engine.end_turn();
    let kinds: Vec<_> = turn.events.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [EventKind::TimerCreated, EventKind::QueueReceived]);
    assert!(
        matches!(turn.waiting, perdure_engine::Waiting::Outside { timer_at_ms: None, .. }),
        "{:?}",
        turn.waiting
    );
    assert!(!engine.is_runnable(START_MS + 10_000));
}

/// Histories of earlier releases hold the cancellations of timers, those of this release do not. Both replay.
#[test]
fn histories_with_and_without_cancelled_timers_replay() {
    for recorded in [false, true] {
        let mut events: Vec<Event> = vec![
            Event::Command(CommandEvent::TimerCreated {
                fire_at_ms: START_MS + 1_000,
            }),
            Event::Command(CommandEvent::TimerCreated {
                fire_at_ms: START_MS + 2_000,
            }),
        ];
        if recorded {
            for scheduled in [EventId(3), EventId(2)] {
                events.push(Event::Command(CommandEvent::OperationCancelled { scheduled }));
            }
        }
        events.push(Event::Delivery(DeliveryEvent::MessageReceived {
            mailbox: jobs(),
            payload: Some("a".into()),
        }));
        let rows = (2..)
            .zip(events)
            .map(|(id, event)| EventRecord::new(EventId(id), START_MS, event));
        let mut engine = engine_of([started()].into_iter().chain(rows).collect());
        let timers: Vec<EventId> = [1_000, 2_000]
            .map(|delay_ms| engine.issue(Command::CreateTimer { delay_ms }).expect("it fits"))
            .into();
        for scheduled in timers.into_iter().rev() {
            engine.issue(Command::CancelOperation { scheduled }).expect("it fits");
        }
        assert_eq!(
            next(&mut engine, awaiting(&[jobs()])),
            message("a"),
            "recorded: {recorded}"
        );
        assert_eq!(next(&mut engine, awaiting(&[jobs()])), None);
        assert!(!engine.is_replaying());
    }
}
