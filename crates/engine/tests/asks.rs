//! Asks: offered before they are recorded, accepted or refused, and answered with the turn.

use perdure_engine::{
    ASKS, Answer, AnsweredAsk, Awaited, Budget, Command, Completion, Delivery, Engine, EventId, EventKind, EventRecord,
    ExecutionId, ExecutionStarted, Limits, Mailbox, Message, MessageBody, MessageSeq, Outcome, Start, StateValues,
    Step, TurnOutput, Waiting,
};

const START_MS: i64 = 1_000_000;

fn asks() -> Mailbox {
    Mailbox::Queue(ASKS.into())
}

fn started() -> EventRecord {
    let started = ExecutionStarted {
        name: "o".into(),
        version: "1.0.0".into(),
        input: None,
        seed: 1,
        incarnation: None,
        parent: None,
        custom_status: None,
        state: StateValues::new(),
        closed_streams: Default::default(),
        time_limit: None,
        trace: None,
    };
    EventRecord::new(EventId::FIRST, START_MS, started)
}

fn engine(history: Vec<EventRecord>) -> Engine {
    let fresh = history.is_empty();
    let start = Start {
        execution: ExecutionId::FIRST,
        history: std::iter::once(started()).chain(history).collect(),
        complete: true,
        fresh,
        budget: Budget::default(),
    };
    Engine::new(start).expect("the history can be read")
}

fn offer(engine: &mut Engine, seq: u64, mailbox: Mailbox, payload: &str) {
    let body = MessageBody::Mail {
        mailbox,
        payload: Some(payload.into()),
    };
    engine.offer(Completion::Message(Message {
        seq: MessageSeq(seq),
        body,
    }));
}

fn next(engine: &mut Engine, now_ms: i64) -> Step {
    engine.next(Awaited::default(), now_ms).expect("the code fits")
}

fn asked(step: &Step) -> Option<&str> {
    match step {
        Step::Deliver {
            delivery: Delivery::Asked { payload },
            ..
        } => payload.as_deref(),
        _ => None,
    }
}

fn value(ask: &str) -> AnsweredAsk {
    AnsweredAsk {
        ask: ask.into(),
        answer: Answer::Value(Some("1".into())),
    }
}

/// An engine whose code has accepted an ask, and the output of that turn.
fn accepted() -> (Engine, TurnOutput) {
    let mut engine = engine(Vec::new());
    offer(&mut engine, 1, asks(), "a");
    assert_eq!(asked(&next(&mut engine, START_MS + 5)), Some("a"));
    assert_eq!(engine.time_ms(), START_MS, "nothing has happened yet");
    let step = engine.accept_ask(START_MS + 5).expect("there is room");
    let delivery = Delivery::Message {
        mailbox: asks(),
        payload: Some("a".into()),
    };
    let time_ms = START_MS + 5;
    assert_eq!(step, Some(Step::Deliver { delivery, time_ms }));
    assert_eq!(next(&mut engine, START_MS + 6), Step::Wait);
    let output = engine.end_turn();
    (engine, output)
}

#[test]
fn an_accepted_ask_is_recorded_as_a_message() {
    let (_, output) = accepted();
    let [event] = &*output.events else { panic!("one event") };
    assert_eq!(
        (event.kind, event.name.as_deref()),
        (EventKind::QueueReceived, Some(ASKS))
    );
    assert_eq!((output.consumed, output.answers), (vec![MessageSeq(1)], Vec::new()));
}

#[test]
fn the_answer_goes_with_the_turn() {
    let (mut engine, _) = accepted();
    engine.answer_ask("a".into(), value("a").answer);
    let output = engine.end_turn();
    assert_eq!(output.answers, [value("a")]);
    assert!(!output.is_empty());
    assert_eq!(engine.end_turn().answers, []);
}

#[test]
fn a_refused_ask_leaves_no_event() {
    let mut engine = engine(Vec::new());
    offer(&mut engine, 1, asks(), "a");
    offer(&mut engine, 2, asks(), "b");
    assert_eq!(asked(&next(&mut engine, START_MS)), Some("a"));
    engine.refuse_ask("a".into(), Some("no".into()));
    assert_eq!(asked(&next(&mut engine, START_MS)), Some("b"));
    engine.refuse_ask("b".into(), None);
    assert_eq!(next(&mut engine, START_MS), Step::Wait);
    let output = engine.end_turn();
    assert_eq!(
        (output.events.len(), output.consumed),
        (0, vec![MessageSeq(1), MessageSeq(2)])
    );
    let error = |ask: &str, error: Option<&str>| AnsweredAsk {
        ask: ask.into(),
        answer: Answer::Error(error.map(str::to_owned)),
    };
    assert_eq!(output.answers, [error("a", Some("no")), error("b", None)]);
    assert_eq!(engine.history_length(), 1);
}

#[test]
fn asks_come_in_order_with_other_messages() {
    let mut engine = engine(Vec::new());
    let mailbox = Mailbox::Event("e".into());
    offer(&mut engine, 3, asks(), "late");
    offer(&mut engine, 2, mailbox.clone(), "event");
    offer(&mut engine, 1, asks(), "early");
    let awaited = Awaited {
        mailboxes: vec![mailbox],
        timers: Vec::new(),
    };
    let next = |engine: &mut Engine| engine.next(awaited.clone(), START_MS).expect("the code fits");
    assert_eq!(asked(&next(&mut engine)), Some("early"));
    engine.refuse_ask("early".into(), None);
    assert!(matches!(
        next(&mut engine),
        Step::Deliver {
            delivery: Delivery::Message { .. },
            ..
        }
    ));
    assert_eq!(asked(&next(&mut engine)), Some("late"));
}

/// An ask waits until the code does, so that the code may set its handlers first.
#[test]
fn asks_are_awaited_from_the_first_wait_on() {
    let mut engine = engine(Vec::new());
    assert!(engine.awaits_mailbox(&asks()));
    assert_eq!(engine.awaited_mailboxes().cloned().collect::<Vec<_>>(), [asks()]);
    assert!(engine.lacks_message() && !engine.awaits_message());
    offer(&mut engine, 1, asks(), "a");
    assert!(engine.is_runnable(START_MS) && !engine.lacks_message());
    let awaits = |engine: &mut Engine, names: &[&str]| {
        let mailboxes = names.iter().map(|name| Mailbox::Queue((*name).into())).collect();
        let timers = Vec::new();
        let step = engine.next(Awaited { mailboxes, timers }, START_MS);
        asked(&step.expect("the code fits")).map(str::to_owned)
    };
    // They are in order of the mailboxes, and awaited once.
    assert_eq!(awaits(&mut engine, &["z", "a", ASKS]), Some("a".into()));
    let mailboxes: Vec<Mailbox> = engine.awaited_mailboxes().cloned().collect();
    assert_eq!(mailboxes, ["a", ASKS, "z"].map(|name| Mailbox::Queue(name.into())));
    assert!(engine.awaits_message());
}

#[test]
fn no_ask_is_offered_once_they_are_closed() {
    let mut engine = engine(Vec::new());
    offer(&mut engine, 1, asks(), "a");
    engine.close_asks();
    offer(&mut engine, 2, asks(), "b");
    assert!(!engine.is_runnable(START_MS) && !engine.awaits_mailbox(&asks()));
    assert_eq!(next(&mut engine, START_MS), Step::Wait);
    engine.finish(Outcome::Completed(None)).expect("the code fits");
    assert_eq!(engine.end_turn().consumed, []);
}

#[test]
fn a_replay_delivers_accepted_asks_and_drops_their_answers() {
    let (_, output) = accepted();
    let mut engine = engine(output.events);
    let step = next(&mut engine, START_MS + 50);
    let delivery = Delivery::Message {
        mailbox: asks(),
        payload: Some("a".into()),
    };
    let time_ms = START_MS + 5;
    assert_eq!(step, Step::Deliver { delivery, time_ms });
    engine.answer_ask("a".into(), value("a").answer);
    offer(&mut engine, 2, asks(), "b");
    assert_eq!(asked(&next(&mut engine, START_MS + 50)), Some("b"));
    engine.answer_ask("live".into(), value("live").answer);
    assert_eq!(engine.end_turn().answers, [value("live")]);
}

/// The driver answers an ask before it does anything else; another call finds none.
#[test]
fn only_an_offered_ask_can_be_accepted() {
    let (mut engine, _) = accepted();
    assert_eq!(engine.accept_ask(START_MS), Ok(None));
    engine.refuse_ask("a".into(), None);
    let output = engine.end_turn();
    assert!(output.is_empty() && matches!(output.waiting, Waiting::Outside { .. }));
}

/// An ask counts towards the limits of the history once it is accepted.
#[test]
fn an_ask_beyond_the_limits_breaks_the_engine() {
    let limits = Limits {
        history_events: 1,
        ..Limits::default()
    };
    let mut engine = engine(Vec::new()).with_limits(limits);
    offer(&mut engine, 1, asks(), "a");
    assert_eq!(asked(&next(&mut engine, START_MS)), Some("a"));
    assert!(engine.accept_ask(START_MS).is_err());
    assert!(engine.fault().is_some());
    let timer = Command::CreateTimer { delay_ms: 1 };
    assert!(engine.issue(timer).is_err());
}
