//! The order in which awaited events are delivered, for each way of reporting the waits to the engine.

use std::collections::{BTreeMap, BTreeSet};

use perdure_engine::{
    Awaited, Budget, Command, Completion, Delivery, Engine, EventId, EventRecord, ExecutionId, ExecutionStarted,
    Mailbox, Message, MessageBody, MessageSeq, Start, Step, Waits,
};

use super::support::START_MS;

fn engine() -> Engine {
    let start = ExecutionStarted {
        name: "order".into(),
        version: "1.0.0".into(),
        input: None,
        seed: 1,
        incarnation: None,
        parent: None,
        custom_status: None,
        trace: None,
    };
    Engine::new(Start {
        execution: ExecutionId::FIRST,
        history: vec![EventRecord::new(EventId::FIRST, START_MS, start)],
        complete: true,
        fresh: true,
        budget: Budget::default(),
    })
    .expect("a sound history")
}

fn queue(name: u64) -> Mailbox {
    Mailbox::Queue(format!("q{name}"))
}

fn deliver(engine: &mut Engine, waits: impl Into<Waits>, now_ms: i64) -> Option<Delivery> {
    match engine.next(waits, now_ms).expect("it is live") {
        Step::Deliver { delivery, .. } => Some(delivery),
        _ => None,
    }
}

/// Pseudo-random numbers that are the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// A plain model: the open operations, searched for the one that must come first.
#[derive(Default)]
struct Model {
    now_ms: i64,
    durable_to: Option<EventId>,
    timers: BTreeMap<EventId, i64>,
    sent: BTreeSet<EventId>,
    mail: BTreeMap<MessageSeq, Mailbox>,
    mailboxes: BTreeSet<Mailbox>,
    awaited: BTreeSet<EventId>,
}

impl Model {
    fn take(&mut self) -> Option<Delivery> {
        let mut mail = self.mail.iter();
        if let Some((seq, mailbox)) = mail.find(|(_, mailbox)| self.mailboxes.contains(mailbox)) {
            let (seq, mailbox) = (*seq, mailbox.clone());
            self.mail.remove(&seq);
            let payload = Some(seq.0.to_string());
            return Some(Delivery::Message { mailbox, payload });
        }
        let mut sent = self.sent.intersection(&self.awaited).copied();
        let operation = sent.next().filter(|id| Some(*id) < self.durable_to).or_else(|| {
            let due = self
                .timers
                .iter()
                .filter(|(id, at_ms)| **at_ms <= self.now_ms && self.awaited.contains(id));
            due.min_by_key(|(id, at_ms)| (**at_ms, **id)).map(|(id, _)| *id)
        })?;
        self.timers.remove(&operation);
        self.sent.remove(&operation);
        Some(Delivery::Succeeded { operation, value: None })
    }
}

/// One engine is told all waits at each wait, the other one the changes.
#[test]
fn what_comes_first_is_the_same_whether_all_is_told_or_what_has_changed() {
    for seed in 0..60 {
        let mut numbers = Numbers(seed);
        let (mut all, mut changed) = (engine(), engine());
        let mut model = Model {
            now_ms: START_MS,
            durable_to: Some(all.next_event_id()),
            ..Model::default()
        };
        let mut open = Vec::new();
        let mut seqs: Vec<u64> = (1..=400).collect();
        for _ in 0..150 {
            for _ in 0..numbers.below(4) {
                let command = match numbers.below(3) {
                    0 => Command::SendMessage {
                        instance: "other".into(),
                        mailbox: queue(0),
                        payload: None,
                    },
                    _ => Command::CreateTimer {
                        delay_ms: numbers.below(6) as i64 * 10,
                    },
                };
                let id = all.issue(command.clone()).expect("it is live");
                assert_eq!(changed.issue(command.clone()).expect("it is live"), id);
                match command {
                    Command::CreateTimer { delay_ms } => drop(model.timers.insert(id, all.time_ms() + delay_ms)),
                    _ => drop(model.sent.insert(id)),
                }
                open.push(id);
            }
            for _ in 0..numbers.below(3) {
                let seq = MessageSeq(seqs.remove(numbers.below(seqs.len().min(5) as u64) as usize));
                let mailbox = queue(numbers.below(5));
                let body = MessageBody::Mail {
                    mailbox: mailbox.clone(),
                    payload: Some(seq.0.to_string()),
                };
                all.offer(Completion::Message(Message {
                    seq,
                    body: body.clone(),
                }));
                changed.offer(Completion::Message(Message { seq, body }));
                model.mail.insert(seq, mailbox);
            }
            let mailboxes: BTreeSet<Mailbox> = (0..5).filter(|_| numbers.below(3) == 0).map(queue).collect();
            let awaited: BTreeSet<EventId> = open.iter().copied().filter(|_| numbers.below(2) == 0).collect();
            let change = Waits::Changed {
                more: Awaited {
                    mailboxes: mailboxes.difference(&model.mailboxes).cloned().collect(),
                    timers: awaited.difference(&model.awaited).copied().collect(),
                },
                no_longer: Awaited {
                    mailboxes: model.mailboxes.difference(&mailboxes).cloned().collect(),
                    timers: model.awaited.difference(&awaited).copied().collect(),
                },
            };
            (model.mailboxes, model.awaited) = (mailboxes, awaited);
            let told = Awaited {
                mailboxes: model.mailboxes.iter().rev().cloned().collect(),
                timers: model.awaited.iter().rev().copied().collect(),
            };
            let expected = model.take();
            assert_eq!(deliver(&mut all, told, model.now_ms), expected);
            assert_eq!(deliver(&mut changed, change, model.now_ms), expected);
            if numbers.below(4) == 0 {
                let output = all.end_turn();
                assert_eq!(changed.end_turn(), output);
                model.durable_to = Some(all.next_event_id());
                model.now_ms += numbers.below(3) as i64 * 10;
            }
            assert_eq!(changed.is_runnable(model.now_ms), all.is_runnable(model.now_ms));
            assert_eq!(changed.lacks_message(), all.lacks_message());
        }
    }
}

#[test]
fn timers_that_are_due_fire_by_their_time_and_then_by_their_id() {
    let mut engine = engine();
    let delays_ms = [20, 10, 20, 10, 0];
    let ids = delays_ms.map(|delay_ms| engine.issue(Command::CreateTimer { delay_ms }).expect("it is live"));
    let mut waits = Waits::Changed {
        more: Awaited {
            mailboxes: Vec::new(),
            timers: vec![ids[3], ids[2], ids[0], ids[1], ids[4]],
        },
        no_longer: Awaited::default(),
    };
    let mut fired = Vec::new();
    while let Some(Delivery::Succeeded { operation, .. }) = deliver(&mut engine, waits, START_MS + 20) {
        fired.push(operation);
        waits = Waits::Changed {
            more: Awaited::default(),
            no_longer: Awaited::default(),
        };
    }
    assert_eq!(fired, [ids[4], ids[1], ids[3], ids[0], ids[2]]);
}

#[test]
fn a_turn_that_goes_on_for_long_ends_after_a_delivery_and_is_followed_by_another() {
    let mut engine = engine();
    let timers = vec![0, 0]
        .into_iter()
        .map(|delay_ms| engine.issue(Command::CreateTimer { delay_ms }).expect("it is live"));
    let awaited = Awaited {
        mailboxes: Vec::new(),
        timers: timers.collect(),
    };
    engine.end_turn_soon();
    assert!(
        deliver(&mut engine, awaited.clone(), START_MS).is_some(),
        "it has handed nothing over"
    );
    assert_eq!(engine.next(awaited.clone(), START_MS), Ok(Step::Budget));
    let output = engine.end_turn();
    assert_eq!(output.waiting, perdure_engine::Waiting::More);
    assert!(
        deliver(&mut engine, awaited.clone(), START_MS).is_some(),
        "the next turn has only begun"
    );
    engine.end_turn_soon();
    assert_eq!(
        engine.next(awaited, START_MS),
        Ok(Step::Wait),
        "nothing is left to hand over"
    );
}
