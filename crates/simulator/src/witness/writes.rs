//! The writes that the store has carried out, and the instances that it has handed out.

use perdure_engine::{DeliveryEvent, Event, EventId, ExecutionId, MessageBody, MessageSeq};
use perdure_provider::{
    Acquire, Acquired, AfterTurn, Epoch, InstanceKey, KeyedStart, NewInstance, NewMessage, Outcome, StartRule,
    StartWithMessage, TurnCommit, Write,
};

use super::{InstanceState, KnownInstance, MessageId, Witness, WitnessState};
use crate::checker::is_completion;
use crate::log::Log;

impl Witness {
    pub(crate) fn wrote(&self, log: &Log, who: &str, write: &Write, outcome: &Outcome) {
        let mut known = self.0.lock();
        if *outcome == Outcome::Fenced {
            known.figures.stale += 1;
        }
        match (write, outcome) {
            (Write::Turn(turn), outcome) => known.turn(log, who, turn, outcome),
            (Write::Start(new), outcome) => known.started(log, who, new, outcome),
            (Write::KeyedStart(keyed), outcome) => known.started_under_key(log, who, keyed, outcome),
            (Write::Message(new), Outcome::Delivered { key, seq, .. }) => {
                log.say(who, format_args!("message {seq} for {} ({:?})", new.instance, new.body));
                known.delivered(new, (*key, *seq));
                known.cancel_waits(*key, new);
            }
            (Write::Ask(ask), Outcome::Delivered { key, seq, .. }) => {
                let (id, instance) = (&ask.id, &ask.message.instance);
                log.say(who, format_args!("message {seq} asks {instance} ({id})"));
                known.delivered(&ask.message, (*key, *seq));
            }
            (Write::StartWithMessage(both), Outcome::Delivered { key, seq, .. }) => {
                let StartWithMessage { start, message, .. } = &**both;
                log.say(who, format_args!("message {seq} and start for {}", start.id));
                // A start whose id is in use changes nothing.
                if known.keys.get(&start.id) != Some(key) {
                    known.insert(*key, start, None);
                    known.started_by_message.insert(start.id.clone());
                }
                known.delivered(message, (*key, *seq));
            }
            (Write::Message(new), Outcome::Terminated { key, .. }) => {
                log.say(who, format_args!("cancel {}, which cannot run", new.instance));
                known.take_away(*key, InstanceState::Ended);
            }
            (Write::Terminate(terminate), Outcome::Terminated { key, .. }) => {
                log.say(who, format_args!("terminate {}", terminate.id));
                known.take_away(*key, InstanceState::Ended);
            }
            (Write::Suspend(suspend), Outcome::Suspended { key, epoch, .. }) => {
                log.say(who, format_args!("suspend {} in epoch {}", suspend.id, epoch.0));
                known.take_away(*key, InstanceState::Suspended);
            }
            (Write::Resume { id, .. }, Outcome::Resumed) => {
                log.say(who, format_args!("resume {id}"));
                let key = known.keys.get(id).copied();
                known.resumed(key);
            }
            (Write::ReleaseInstance(release), outcome) => {
                log.say(who, format_args!("release {} {outcome:?}", release.key.0));
                // The process knows by a turn that was fenced off, or was told.
                known.unaware.remove(&(release.key, who.to_owned()));
                if *outcome != Outcome::Fenced {
                    known.disown(release.key);
                }
            }
            (write, outcome) => {
                log.say(who, format_args!("{} {}", short(write), short_of(outcome)));
                match (write, outcome) {
                    (Write::TaskDone(done), Outcome::TaskDone { .. }) => known.frees_slot(&done.task),
                    (Write::Append(append), Outcome::Appended { next }) => known.streams.add(append, *next),
                    _ => {}
                }
            }
        }
    }

    pub(crate) fn acquired(&self, log: &Log, who: &str, request: &Acquire, acquired: &Acquired) {
        let mut known = self.0.lock();
        for instance in &acquired.instances {
            log.say(
                who,
                format_args!("acquires {} in epoch {}", instance.id, instance.epoch.0),
            );
            let known = &mut *known;
            let Some(seen) = known.instances.get_mut(&instance.key) else {
                known
                    .violations
                    .push(format!("{} was acquired and never started", instance.id));
                continue;
            };
            if instance.epoch <= seen.epoch {
                let epochs = (instance.epoch.0, seen.epoch.0);
                known.violations.push(format!(
                    "S8: {} was acquired in epoch {} after {}",
                    seen.id, epochs.0, epochs.1
                ));
            }
            if let Some(owner) = &seen.owner {
                known
                    .violations
                    .push(format!("S9: {} was acquired while worker {owner} owned it", seen.id));
            }
            if seen.state != InstanceState::Open {
                known
                    .violations
                    .push(format!("S7: {} was acquired while it was {:?}", seen.id, seen.state));
            }
            if (instance.execution, instance.next_event_id) != (seen.execution, seen.next) {
                known.violations.push(format!(
                    "S3: {} was acquired at execution {} event {}, not {} event {}",
                    seen.id, instance.execution, instance.next_event_id, seen.execution, seen.next
                ));
            }
            let is_new = seen.epoch == Epoch(0);
            (seen.epoch, seen.owner) = (instance.epoch, Some(request.worker.clone()));
            known.acquires(instance.key, request, is_new);
        }
    }
}

impl WitnessState {
    fn delivered(&mut self, new: &NewMessage, id: MessageId) {
        if let MessageBody::Mail {
            payload: Some(number), ..
        } = &new.body
        {
            let number = number.parse().expect("every message here holds a number");
            self.messages.insert(number, id);
        }
    }

    fn started(&mut self, log: &Log, who: &str, new: &NewInstance, outcome: &Outcome) {
        log.say(who, format_args!("start {} {}", new.id, short_of(outcome)));
        let Outcome::Started { key, claimed, turn, .. } = outcome else {
            return;
        };
        self.insert(*key, new, *claimed);
        if let (Some(turn), Some(committed), Some(epoch)) = (&new.first_turn, turn, claimed) {
            let turn = TurnCommit {
                key: *key,
                epoch: *epoch,
                ..(**turn).clone()
            };
            self.turn(log, who, &turn, committed);
        }
    }

    /// P26: an instance that a key has stands for a start as the rule of the start says.
    fn started_under_key(&mut self, log: &Log, who: &str, keyed: &KeyedStart, outcome: &Outcome) {
        self.started(log, who, &keyed.start, outcome);
        match keyed.rule {
            StartRule::Batch { max, .. } => self.started_in_batch(keyed, max, outcome),
            _ => self.started_as_singleton(keyed, outcome),
        }
    }

    /// P26: an input comes to the last instance of its batch, which no worker has acquired and which has room for it.
    fn started_in_batch(&mut self, keyed: &KeyedStart, max: u32, outcome: &Outcome) {
        match outcome {
            Outcome::Started { key, .. } => {
                self.under_keys.insert(keyed.key.clone(), *key);
                self.inputs.insert(*key, 1);
            }
            Outcome::Joined { id } => {
                let key = self.under_keys.get(&keyed.key).copied();
                let Some((key, seen)) = key.and_then(|key| Some((key, self.instances.get(&key)?))) else {
                    self.violations
                        .push(format!("P26: {id} took an input before it was there"));
                    return;
                };
                let inputs = self.inputs.entry(key).or_default();
                *inputs += 1;
                if seen.id != *id || seen.epoch != Epoch(0) || seen.state != InstanceState::Open || *inputs > max {
                    self.violations.push(format!(
                        "P26: the input of {} came to {id}, as input {inputs} in epoch {} of {}, which was {:?}",
                        keyed.start.id, seen.epoch.0, seen.id, seen.state
                    ));
                }
                if *inputs == max {
                    self.is_due(key);
                }
            }
            _ => {}
        }
    }

    /// P26: no two singletons of one key run at once.
    fn started_as_singleton(&mut self, keyed: &KeyedStart, outcome: &Outcome) {
        let is_open = |key: &&InstanceKey| {
            let seen = self.instances.get(key);
            seen.is_some_and(|seen| seen.state != InstanceState::Ended)
        };
        let before = self.under_keys.get(&keyed.key).filter(is_open).copied();
        match (outcome, before) {
            (Outcome::Started { key, .. }, None) => drop(self.under_keys.insert(keyed.key.clone(), *key)),
            (Outcome::Started { .. }, Some(before)) => {
                let (id, before) = (&keyed.start.id, &self.instances[&before].id);
                self.violations
                    .push(format!("P26: {id} was started before {before} had ended"));
            }
            (Outcome::Joined { id }, None) => {
                self.violations
                    .push(format!("P26: {} was left to {id}, which had ended", keyed.start.id));
            }
            _ => {}
        }
    }

    fn insert(&mut self, key: InstanceKey, new: &NewInstance, claimed: Option<Epoch>) {
        let seen = KnownInstance {
            id: new.id.clone(),
            epoch: claimed.unwrap_or(Epoch(0)),
            owner: claimed.and(new.claim.clone()),
            execution: ExecutionId::FIRST,
            next: EventId::FIRST.next(),
            state: InstanceState::Open,
        };
        if self.keys.insert(new.id.clone(), key).is_some() {
            self.violations.push(format!("S17: {} was started twice", new.id));
        }
        self.instances.insert(key, seen);
        self.enters(key, new, claimed.is_some());
    }

    fn turn(&mut self, log: &Log, who: &str, turn: &TurnCommit, outcome: &Outcome) {
        let Some(seen) = self.instances.get(&turn.key).cloned() else {
            return self
                .violations
                .push(format!("a turn of the unknown instance {} was written", turn.key.0));
        };
        let kinds: Vec<&str> = turn.events.iter().map(|event| event.kind.as_str()).collect();
        log.say(
            who,
            format_args!(
                "turn of {} {} epoch {} from #{}: {} consumes {:?}, {} {}",
                seen.id,
                turn.execution,
                turn.epoch.0,
                turn.next_event_id,
                kinds.join(" "),
                turn.consumed,
                short_after(&turn.after),
                short_of(outcome)
            ),
        );
        let Outcome::Committed { others, .. } = outcome else {
            return;
        };
        if turn.wakes {
            self.woken(&seen, turn);
        } else {
            self.check_fence(&seen, turn);
        }
        self.check_events(&seen.id, turn);
        self.figures.turns += 1;
        self.figures.events += turn.events.len() as u64;
        self.advance(turn);
        if let Some(cross_instance) = &turn.cross_instance {
            self.frees_slots_of(turn.key, turn.execution, &cross_instance.withdrawn);
        }
        if let (Some(cross_instance), Some(others)) = (&turn.cross_instance, others) {
            for (start, outcome) in cross_instance.starts.iter().zip(&others.started) {
                self.started(log, who, &start.instance, outcome);
            }
        }
    }

    /// S8, S9: the turn acquires an instance that no worker owned. Notes the message that was handed over.
    fn woken(&mut self, seen: &KnownInstance, turn: &TurnCommit) {
        if seen.owner.is_some() || turn.epoch.0 != seen.epoch.0 + 1 {
            self.violations.push(format!(
                "S9: {} was woken in epoch {}, but {:?} owned it in {}",
                seen.id, turn.epoch.0, seen.owner, seen.epoch.0
            ));
        }
        let acquired = KnownInstance {
            epoch: turn.epoch,
            owner: Some(turn.worker.clone()),
            ..seen.clone()
        };
        self.check_fence(&acquired, turn);
        // A message that was handed over has no number in the store. It comes after those that the instance was sent
        // before.
        let before = self.messages.values().filter(|(key, _)| *key == turn.key);
        let last = before.map(|(_, seq)| *seq).max().unwrap_or(MessageSeq(0));
        let is_handed_over = turn.consumed.is_empty();
        for event in turn.events.iter().filter(|_| is_handed_over) {
            if let Ok(Event::Delivery(DeliveryEvent::MessageReceived { payload, .. })) = event.clone().into_event()
                && let Some(number) = payload.and_then(|number| number.parse().ok())
            {
                self.messages.insert(number, (turn.key, last));
                self.consumed.insert((turn.key, last));
            }
        }
        self.figures.wakes += 1;
        self.instances.insert(turn.key, acquired);
    }

    /// S3, S7, S8: the turn is that of the owner, and follows the last one.
    fn check_fence(&mut self, seen: &KnownInstance, turn: &TurnCommit) {
        let id = &seen.id;
        let mut wrong = |what: String| self.violations.push(what);
        if seen.owner.as_ref() != Some(&turn.worker) || seen.epoch != turn.epoch {
            wrong(format!(
                "S8: a turn of {id} committed as worker {} in epoch {}, but it is {:?} in {}",
                turn.worker, turn.epoch.0, seen.owner, seen.epoch.0
            ));
        }
        if seen.state != InstanceState::Open {
            wrong(format!("S7: a turn of {id} committed while it was {:?}", seen.state));
        }
        if (turn.execution, turn.next_event_id) != (seen.execution, seen.next) {
            wrong(format!(
                "S3: a turn of {id} committed from {} #{}, not {} #{}",
                turn.execution, turn.next_event_id, seen.execution, seen.next
            ));
        }
    }

    /// S3, S4, S11: the events have no gap, no schedule has two completions, and no message is consumed twice.
    fn check_events(&mut self, id: &str, turn: &TurnCommit) {
        let mut wrong = |what: String| self.violations.push(what);
        for (event, next) in turn.events.iter().zip(turn.next_event_id.0..) {
            if event.event_id.0 != next {
                wrong(format!("S3: {id} has a gap before event {}", event.event_id));
            }
            if let (true, Some(scheduled)) = (is_completion(event.kind), event.ref_id)
                && !self.completed.insert((turn.key, turn.execution, scheduled))
            {
                wrong(format!(
                    "S4: #{scheduled} of {id} {} has two completions",
                    turn.execution
                ));
            }
        }
        for seq in &turn.consumed {
            if !self.consumed.insert((turn.key, *seq)) {
                wrong(format!("S11: message {seq} of {id} was consumed twice"));
            }
        }
    }

    /// Brings the instance of a committed turn to its state after the turn.
    fn advance(&mut self, turn: &TurnCommit) {
        let Some(seen) = self.instances.get_mut(&turn.key) else {
            return;
        };
        seen.next = EventId(turn.next_event_id.0 + turn.events.len() as u64);
        match &turn.after {
            AfterTurn::Hold => {}
            AfterTurn::Release { .. } => seen.owner = None,
            AfterTurn::End { .. } => (seen.owner, seen.state) = (None, InstanceState::Ended),
            AfterTurn::Suspend { report, .. } => {
                // No other reason suspends an instance by a turn here.
                if !report.contains("NONDETERMINISM") {
                    let id = &seen.id;
                    self.violations
                        .push(format!("S14: {id} is suspended although its code fits: {report}"));
                }
                (seen.owner, seen.state) = (None, InstanceState::Suspended);
                // The results of its attempts are not recorded, so they begin again.
                self.disturb_instance(turn.key);
            }
            AfterTurn::ContinueAsNew(next) => {
                (seen.execution, seen.next) = (seen.execution.next(), EventId::FIRST.next());
                if !next.hold {
                    seen.owner = None;
                }
            }
        }
    }
}

fn short(write: &Write) -> String {
    let text = format!("{write:?}");
    text.chars().take(120).collect()
}

fn short_after(after: &AfterTurn) -> String {
    match after {
        AfterTurn::ContinueAsNew(next) => format!("continues, hold {}", next.hold),
        AfterTurn::Suspend { mismatched_code, .. } => format!("suspends, mismatched {mismatched_code:?}"),
        after => format!("{after:?}"),
    }
}

fn short_of(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Committed { .. } => "committed".into(),
        Outcome::Started { key, claimed, .. } => format!("started as {} claimed {claimed:?}", key.0),
        outcome => format!("{outcome:?}"),
    }
}
