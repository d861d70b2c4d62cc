//! The order in which awaited events are delivered, for each way of reporting the waits to the engine.

use std::collections::{BTreeMap, BTreeSet};

use perdure_engine::{
    Awaited, Budget, Command, Completion, Delivery, Engine, EventId, ExecutionId, Mailbox, Message, MessageBody,
    MessageSeq, Start, Step, Waits,
};

use super::support::{START_MS, started};

fn engine() -> Engine {
    Engine::new(Start {
        execution: ExecutionId::FIRST,
        history: vec![started()],
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

/// Two engines with one history, and the model of both. One engine gets all waits at each wait, the other one the
/// changes.
struct Pair {
    all: Engine,
    changed: Engine,
    model: Model,
    open: Vec<EventId>,
    /// Numbers of the messages that are still to come.
    seqs: Vec<u64>,
}

impl Pair {
    fn new() -> Self {
        let (all, changed) = (engine(), engine());
        let model = Model {
            now_ms: START_MS,
            durable_to: Some(all.next_event_id()),
            ..Model::default()
        };
        Self {
            all,
            changed,
            model,
            open: Vec::new(),
            seqs: (1..=400).collect(),
        }
    }

    fn issue(&mut self, numbers: &mut Numbers) {
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
        let id = self.all.issue(command.clone()).expect("it is live");
        assert_eq!(self.changed.issue(command.clone()).expect("it is live"), id);
        match command {
            Command::CreateTimer { delay_ms } => {
                let at_ms = self.all.time_ms() + delay_ms;
                self.model.timers.insert(id, at_ms);
            }
            _ => drop(self.model.sent.insert(id)),
        }
        self.open.push(id);
    }

    fn receive(&mut self, numbers: &mut Numbers) {
        let place = numbers.below(self.seqs.len().min(5) as u64) as usize;
        let seq = MessageSeq(self.seqs.remove(place));
        let mailbox = queue(numbers.below(5));
        let body = MessageBody::Mail {
            mailbox: mailbox.clone(),
            payload: Some(seq.0.to_string()),
        };
        for engine in [&mut self.all, &mut self.changed] {
            let body = body.clone();
            engine.offer(Completion::Message(Message { seq, body }));
        }
        self.model.mail.insert(seq, mailbox);
    }

    fn wait(&mut self, numbers: &mut Numbers) {
        let model = &mut self.model;
        let mailboxes: BTreeSet<Mailbox> = (0..5).filter(|_| numbers.below(3) == 0).map(queue).collect();
        let open = self.open.iter().copied();
        let awaited: BTreeSet<EventId> = open.filter(|_| numbers.below(2) == 0).collect();
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
        let all = Awaited {
            mailboxes: model.mailboxes.iter().rev().cloned().collect(),
            timers: model.awaited.iter().rev().copied().collect(),
        };
        let expected = model.take();
        assert_eq!(deliver(&mut self.all, all, model.now_ms), expected);
        assert_eq!(deliver(&mut self.changed, change, model.now_ms), expected);
    }

    fn end_turn(&mut self, numbers: &mut Numbers) {
        let output = self.all.end_turn();
        assert_eq!(self.changed.end_turn(), output);
        self.model.durable_to = Some(self.all.next_event_id());
        self.model.now_ms += numbers.below(3) as i64 * 10;
    }
}

#[test]
fn deliveries_are_the_same_with_all_waits_and_with_their_changes() {
    for seed in 0..60 {
        let mut numbers = Numbers(seed);
        let mut pair = Pair::new();
        for _ in 0..150 {
            for _ in 0..numbers.below(4) {
                pair.issue(&mut numbers);
            }
            for _ in 0..numbers.below(3) {
                pair.receive(&mut numbers);
            }
            pair.wait(&mut numbers);
            if numbers.below(4) == 0 {
                pair.end_turn(&mut numbers);
            }
            let now_ms = pair.model.now_ms;
            assert_eq!(pair.changed.is_runnable(now_ms), pair.all.is_runnable(now_ms));
            assert_eq!(pair.changed.lacks_message(), pair.all.lacks_message());
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
fn long_turn_ends_after_a_delivery_and_another_follows() {
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
