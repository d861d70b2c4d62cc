//! The values that checks write: workers, instances, events, turns and messages.

use perdure_engine::{
    ActivityOptions, CommandEvent, EndEvent, EventId, EventRecord, ExecutionId, ExecutionStarted, Mailbox, MessageBody,
    MessageSeq, Payload, StateValues,
};
use perdure_provider::{
    AcquiredInstance, AfterTurn, Epoch, InstanceKey, NewInstance, NewWorker, Newest, OnConflict, SessionLimits,
    StartTime, Status, StatusChange, TurnCommit, WorkerId, Write,
};

/// The time of the clock when a check begins.
pub(crate) const START_MS: i64 = 1_000_000;
/// Lease of the workers that checks register.
pub(crate) const LEASE_MS: u64 = 15_000;
/// The sessions that the workers of checks hold.
pub(crate) const SESSIONS: SessionLimits = SessionLimits {
    max: 10,
    idle_ms: 1_000,
};
/// The orchestration that checks start.
pub(crate) const NAME: &str = "flow";
/// The version of [`NAME`].
pub(crate) const VERSION: &str = "1.0.0";

/// A worker to register.
pub fn new_worker(id: &str) -> NewWorker {
    NewWorker {
        id: WorkerId(id.into()),
        name: format!("{id} of the contract"),
        host: "host-1".into(),
        pid: 4_711,
        process_start: "12345".into(),
        lease_ms: LEASE_MS,
        description: None,
        newest: Newest::default(),
    }
}

/// An instance without a claim.
pub fn instance(id: &str) -> NewInstance {
    NewInstance {
        id: id.into(),
        name: NAME.into(),
        version: VERSION.into(),
        first_event: started(Some("{}".into())),
        parent_id: None,
        tags: None,
        priority: 0,
        claim: None,
        first_turn: None,
        on_conflict: OnConflict::Keep,
        queue: None,
        due: StartTime::Now,
    }
}

pub(crate) fn start(instance: NewInstance) -> Write {
    Write::Start(Box::new(instance))
}

/// The first event of an execution.
pub(crate) fn started(input: Payload) -> EventRecord {
    let event = ExecutionStarted {
        name: NAME.into(),
        version: VERSION.into(),
        input,
        seed: u64::MAX,
        incarnation: None,
        parent: None,
        custom_status: None,
        state: StateValues::new(),
        closed_streams: Default::default(),
        time_limit: None,
        trace: None,
    };
    EventRecord::new(EventId::FIRST, START_MS, event)
}

/// An activity scheduled as event `id`.
pub fn scheduled(id: u64) -> EventRecord {
    let event = CommandEvent::ActivityScheduled {
        name: "step".into(),
        input: None,
        options: ActivityOptions::default(),
    };
    EventRecord::new(EventId(id), START_MS + id as i64, event)
}

/// The end of an execution as event `id`.
pub fn completed(id: u64, output: Payload) -> EventRecord {
    EventRecord::new(
        EventId(id),
        START_MS + id as i64,
        EndEvent::ExecutionCompleted { output },
    )
}

/// A turn of the first execution in which nothing happens, from event `event` on, and after which its worker keeps the
/// instance.
pub fn idle_turn(key: InstanceKey, worker: &WorkerId, epoch: Epoch, event: EventId) -> TurnCommit {
    TurnCommit {
        key,
        worker: worker.clone(),
        epoch,
        execution: ExecutionId::FIRST,
        next_event_id: event,
        events: Vec::new(),
        consumed: Vec::new(),
        seen: MessageSeq(0),
        heartbeats_over: Vec::new(),
        custom_status: None,
        state: Vec::new(),
        answers: Vec::new(),
        appends: Vec::new(),
        open_work: None,
        logs: None,
        cross_instance: None,
        after: AfterTurn::Hold,
        tell_status: false,
        wakes: false,
        asked: None,
        time_ms: START_MS,
    }
}

/// The same of an acquired instance, in its execution, which has seen its messages.
pub(crate) fn turn(instance: &AcquiredInstance, worker: &WorkerId) -> TurnCommit {
    let messages = &instance.messages.messages;
    TurnCommit {
        execution: instance.execution,
        seen: messages.last().map_or(MessageSeq(0), |message| message.seq),
        time_ms: START_MS + 1,
        ..idle_turn(instance.key, worker, instance.epoch, instance.next_event_id)
    }
}

/// A turn that ends the instance.
pub(crate) fn end(instance: &AcquiredInstance, worker: &WorkerId, output: Payload) -> TurnCommit {
    TurnCommit {
        events: vec![completed(instance.next_event_id.0, output)],
        after: AfterTurn::End {
            status: Status::Completed,
        },
        ..turn(instance, worker)
    }
}

/// A turn that suspends the instance and stores nothing.
pub(crate) fn suspend(instance: &AcquiredInstance, worker: &WorkerId, report: &str) -> TurnCommit {
    TurnCommit {
        after: AfterTurn::Suspend {
            report: report.into(),
            mismatched_code: None,
        },
        ..turn(instance, worker)
    }
}

/// A turn that suspends the instance because this code does not fit its history.
pub(crate) fn suspend_mismatched(instance: &AcquiredInstance, worker: &WorkerId, code: &str) -> TurnCommit {
    TurnCommit {
        after: AfterTurn::Suspend {
            report: "it does not fit".into(),
            mismatched_code: Some(code.into()),
        },
        ..turn(instance, worker)
    }
}

/// A turn that releases the instance.
pub(crate) fn release(instance: &AcquiredInstance, worker: &WorkerId, wake_at_ms: Option<i64>) -> TurnCommit {
    TurnCommit {
        after: AfterTurn::Release { wake_at_ms },
        ..turn(instance, worker)
    }
}

pub(crate) fn event(name: &str, payload: &str) -> MessageBody {
    MessageBody::Mail {
        mailbox: Mailbox::Event(name.into()),
        payload: Some(payload.into()),
    }
}

pub(crate) fn queued(name: &str, payload: &str) -> MessageBody {
    MessageBody::Mail {
        mailbox: Mailbox::Queue(name.into()),
        payload: Some(payload.into()),
    }
}

pub(crate) fn custom_status(value: &str) -> Option<StatusChange> {
    Some(StatusChange {
        value: Some(value.into()),
    })
}
