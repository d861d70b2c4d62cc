//! Effects of a turn on other instances: starts and messages that are written with the turn, and the work that follows
//! once they are durable.

use std::sync::Arc;

use perdure_engine::{
    CrossInstanceEffects, EventId, EventRecord, ExecutionId, ExecutionStarted, Incarnation, InstanceStart, Mailbox,
    MessageBody, MessageSeq, ParentLink, StateValues, TurnMessage, TurnStart,
};
use perdure_provider::{
    self as provider, AcquiredInstance, CrossInstanceOutcome, NewInstance, NewMessage, OnConflict, Outcome,
};

use crate::client::store::{of_store, parts_of_admission};
use crate::instance::instances::Instances;
use crate::platform::machine::new_start;
use crate::state::Instance;

/// The beginning of the names of the events that give locks back, as `js/orchestration/lock-code.ts` names them.
const UNLOCK: &str = "perdure.unlock/";

/// The starts of a turn, in order. A start that is left to the worker that acquires it is `None`.
pub(crate) type Claimed = Vec<Option<NewInstance>>;

/// Converts the effects of a turn on other instances for the store. A started instance that this worker can run is its
/// own from the first moment, for as many as it has `places`.
pub(crate) fn prepare(
    instances: &Instances,
    instance: &Instance,
    cross_instance: CrossInstanceEffects,
    mut places: usize,
    now: i64,
) -> (Box<provider::CrossInstanceEffects>, Claimed) {
    let CrossInstanceEffects {
        starts,
        messages,
        cancelled,
    } = cross_instance;
    let mut claimed = Claimed::new();
    let unread_max = instances.shared.options.mailbox_messages;
    // A full mailbox must not keep a lock from being given back.
    let max_of = |mailbox: &Mailbox| match mailbox {
        Mailbox::Event(name) if name.starts_with(UNLOCK) => None,
        _ => Some(unread_max),
    };
    let machine = &*instances.shared.store.machine;
    let starts = starts.into_iter().map(|start| {
        let mut other = other_start(instance, start, new_start(machine), now);
        let new = &mut other.instance;
        // This worker may still run the instance that is replaced.
        let may_claim = new.on_conflict != OnConflict::TerminateAndRestart && new.runs_at_once() && places > 0;
        if may_claim && instances.shared.registry.lock().has(&new.name, &new.version) {
            places -= 1;
            new.claim = Some(instances.worker.id.clone());
        }
        claimed.push(new.claim.is_some().then(|| new.clone()));
        other
    });
    let cross_instance = provider::CrossInstanceEffects {
        starts: starts.collect(),
        messages: messages
            .into_iter()
            .map(|message| {
                let unread_max = max_of(&message.mailbox);
                other_message(message, unread_max, now)
            })
            .collect(),
        cancelled,
        ..provider::CrossInstanceEffects::default()
    };
    (Box::new(cross_instance), claimed)
}

fn other_start(
    instance: &Instance,
    start: TurnStart,
    (seed, incarnation): (u64, Incarnation),
    now: i64,
) -> provider::CrossInstanceStart {
    let TurnStart {
        scheduled,
        is_child,
        start:
            InstanceStart {
                id,
                name,
                version,
                input,
                tags,
                priority,
                on_conflict,
                admission,
                trace,
            },
    } = start;
    let (queue, due, time_limit) = parts_of_admission(admission);
    let parent = is_child.then(|| ParentLink {
        instance: instance.id.clone(),
        execution: instance.execution,
        scheduled,
    });
    let started = ExecutionStarted {
        name: name.clone(),
        version: version.clone(),
        input,
        seed,
        incarnation: Some(incarnation),
        parent,
        custom_status: None,
        state: StateValues::new(),
        closed_streams: Default::default(),
        time_limit,
        trace,
    };
    provider::CrossInstanceStart {
        scheduled,
        is_child,
        accepts_other: on_conflict.accepts_other(),
        instance: NewInstance {
            id,
            name,
            version,
            first_event: EventRecord::new(EventId::FIRST, now, started),
            parent_id: is_child.then(|| instance.id.clone()),
            tags,
            priority,
            claim: None,
            first_turn: None,
            on_conflict: of_store(on_conflict),
            queue,
            due,
        },
    }
}

fn other_message(message: TurnMessage, unread_max: Option<u64>, now: i64) -> provider::CrossInstanceMessage {
    let TurnMessage {
        scheduled,
        instance,
        mailbox,
        payload,
    } = message;
    provider::CrossInstanceMessage {
        scheduled,
        message: NewMessage {
            instance,
            body: MessageBody::Mail { mailbox, payload },
            unread_max,
            time_ms: now,
        },
    }
}

/// Follows up on durable effects: takes the claimed instances, and tells those that have work to do now.
pub(crate) fn written(instances: &Arc<Instances>, claimed: Claimed, others: CrossInstanceOutcome) {
    let store = &instances.shared.store;
    for (new, outcome) in claimed.into_iter().zip(others.started) {
        store.started(&outcome);
        if let (
            Some(new),
            Outcome::Started {
                key,
                claimed: Some(epoch),
                ..
            },
        ) = (new, outcome)
        {
            instances.insert(AcquiredInstance {
                key,
                id: new.id,
                name: new.name,
                version: new.version,
                parent_id: new.parent_id,
                tags: new.tags,
                execution: ExecutionId::FIRST,
                epoch,
                next_event_id: EventId::FIRST.next(),
                fresh: true,
                history: vec![new.first_event],
                messages: provider::MessagePage::default(),
                seen: MessageSeq(0),
                heartbeats: Vec::new(),
                tasks: Vec::new(),
                page_bytes: 0,
                suspicion: provider::Suspicion::default(),
            });
        }
    }
    store.notify_receivers(&others.receivers);
    if others.ended {
        store.mark_all_changed();
    }
    if !others.stopped.is_empty() {
        store.look_at_tasks();
    }
}
