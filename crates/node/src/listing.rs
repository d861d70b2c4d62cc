//! Filters, pages, histories and counts, as JSON.

use perdure_engine::{Answer, EventId, EventRecord, ExecutionId, Mailbox};
use perdure_provider::{
    AskState, Checked, ExecutionSummary, Filter, Finding, Footprint, Inspection, InstanceKey, InstanceStatus,
    LastHeartbeat, ListPage, LogLine, LogPage, LogPlace, OpenTask, OpenWork, OverdueAttempts, OverdueInstances,
    OverdueWork, Place, ProviderInfo, QueueDepth, QueuePlace, QueuedPlace, StateValue, Status, StoreStats, StoredState,
    Takeover, Worker, WorkerId, WorkerLoad,
};
use perdure_runtime::{ExecutionsPage, HistoryPage, RuntimeError, WorkerDescription};
use serde_json::{Map, Value, json};

/// Reads the filter that `js/client/listing.ts` sends after it has checked it.
pub(crate) fn filter(json: &Value) -> Result<Filter, RuntimeError> {
    let argument = RuntimeError::Argument;
    let text = |name: &str| json[name].as_str().map(str::to_owned);
    let time = |name: &str| json[name].as_i64();
    let statuses = json["statuses"].as_array().into_iter().flatten();
    let statuses = statuses.map(|status| {
        let status = status.as_str().and_then(Status::parse);
        status.ok_or_else(|| argument("the filter contains an unknown status".into()))
    });
    let tags = json["tags"].as_object().into_iter().flatten();
    let tags = tags.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
    let ids = json["ids"].as_array().into_iter().flatten();
    Ok(Filter {
        ids: ids.filter_map(|id| Some(id.as_str()?.to_owned())).collect(),
        statuses: statuses.collect::<Result<_, _>>()?,
        name: text("name"),
        version: text("version"),
        tags: tags.collect(),
        parent_id: text("parentId"),
        id_prefix: text("idPrefix"),
        created_after_ms: time("createdAfter"),
        created_before_ms: time("createdBefore"),
        completed_before_ms: time("completedBefore"),
        hides_built_in: json["hidesBuiltIn"].as_bool().unwrap_or_default(),
    })
}

/// Returns the place of a cursor.
pub(crate) fn place(cursor: &str) -> Result<Place, RuntimeError> {
    let parsed = cursor.split_once('.').and_then(|(at_ms, key)| {
        Some(Place {
            at_ms: at_ms.parse().ok()?,
            key: InstanceKey(key.parse().ok()?),
        })
    });
    parsed.ok_or_else(|| RuntimeError::Argument("the cursor is not from an earlier page".into()))
}

fn cursor(place: Place) -> String {
    format!("{}.{}", place.at_ms, place.key.0)
}

pub(crate) fn page_text(page: &ListPage) -> String {
    let items: Vec<Value> = page.instances.iter().map(status_json).collect();
    json!({ "items": items, "cursor": page.next.map(cursor) }).to_string()
}

pub(crate) fn status_json(status: &InstanceStatus) -> Value {
    json!({
        "id": status.id,
        "name": status.name,
        "version": status.version,
        "status": status.status.as_str(),
        "executionId": status.execution.0,
        "result": status.result,
        "customStatus": status.custom_status,
        "customStatusVersion": status.custom_status_version,
        "createdAt": status.created_at_ms,
        "updatedAt": status.updated_at_ms,
        "completedAt": status.completed_at_ms,
        "parentId": status.parent_id,
        "priority": status.priority,
        "tags": status.tags,
    })
}

/// Writes the state of an instance; `null` if there is no such instance.
pub(crate) fn state_text(state: Option<StoredState>) -> String {
    let text = |state: StoredState| {
        let values = state.values.into_iter();
        let values: Vec<Value> = values
            .map(|StateValue { name, value, version }| json!({ "name": name, "value": value, "version": version }))
            .collect();
        json!({ "status": state.status.as_str(), "version": state.version, "values": values })
    };
    state.map_or(Value::Null, text).to_string()
}

/// Writes the answer to an ask.
pub(crate) fn answer_text(state: AskState) -> String {
    let answer = match state {
        AskState::Answered(Answer::Value(value)) => json!({ "kind": "value", "text": value }),
        AskState::Answered(Answer::Error(error)) => json!({ "kind": "error", "text": error }),
        AskState::Ended { status } => json!({ "kind": "ended", "status": status.as_str() }),
        // A wait is told no open ask.
        AskState::Open => json!({ "kind": "open" }),
    };
    answer.to_string()
}

pub(crate) fn history_text(page: &HistoryPage) -> String {
    let events: Vec<Value> = page.events.iter().map(event_json).collect();
    json!({
        "key": page.key.0,
        "executionId": page.execution.0,
        "events": events,
        "isLast": page.is_last,
    })
    .to_string()
}

pub(crate) fn executions_text(page: &ExecutionsPage) -> String {
    let execution = |summary: &ExecutionSummary| {
        json!({
            "executionId": summary.execution.0,
            "events": summary.events.iter().map(event_json).collect::<Vec<_>>(),
        })
    };
    json!({
        "key": page.instance.key.0,
        "status": page.instance.status.as_str(),
        "version": page.instance.version,
        "currentId": page.instance.execution.0,
        "executions": page.executions.iter().map(execution).collect::<Vec<_>>(),
        "next": page.next.map(|next| next.0),
    })
    .to_string()
}

pub(crate) fn footprint_text(footprint: &Footprint) -> String {
    let mailbox = |(mailbox, messages): &(Mailbox, u64)| {
        let (kind, name) = match mailbox {
            Mailbox::Event(name) => ("event", name),
            Mailbox::Queue(name) => ("queue", name),
        };
        json!({ "kind": kind, "name": name, "messages": messages })
    };
    json!({
        "executions": footprint.executions,
        "events": footprint.events,
        "historyBytes": footprint.history_bytes,
        "unread": footprint.unread,
        "mailboxes": footprint.mailboxes.iter().map(mailbox).collect::<Vec<_>>(),
    })
    .to_string()
}

#[expect(clippy::needless_pass_by_value, reason = "a reply hands its answer over")]
pub(crate) fn takeovers_text(takeovers: Vec<Takeover>) -> String {
    let takeover = |takeover: &Takeover| {
        json!({
            "timeMs": takeover.time_ms,
            "executionId": takeover.execution.0,
            "eventId": takeover.event.0,
            "activity": takeover.activity.map(|event| event.0),
            "worker": { "id": &*takeover.worker.0, "name": takeover.worker_name },
        })
    };
    Value::Array(takeovers.iter().map(takeover).collect()).to_string()
}

fn event_json(event: &EventRecord) -> Value {
    json!({
        "eventId": event.event_id.0,
        "timeMs": event.time_ms,
        "kind": event.kind.as_str(),
        "refId": event.ref_id.map(|id| id.0),
        "name": event.name,
        "payload": event.payload,
        "meta": event.meta,
    })
}

pub(crate) fn stats_text(stats: &StoreStats) -> String {
    let instances: Map<String, Value> = Status::ALL
        .iter()
        .zip(stats.instances)
        .map(|(status, count)| (status.as_str().to_owned(), count.into()))
        .collect();
    let queue = |depth: &QueueDepth| json!({ "name": depth.queue, "waiting": depth.waiting, "running": depth.running });
    json!({
        "instances": instances,
        "messages": stats.messages,
        "tasks": {
            "waiting": stats.tasks_waiting,
            "running": stats.tasks_running,
            "queues": stats.queues.iter().map(queue).collect::<Vec<_>>(),
        },
        "workers": stats.workers,
        "due": { "instances": stats.due, "overdue": stats.overdue, "oldestMs": stats.oldest_due_ms.unwrap_or(0) },
    })
    .to_string()
}

pub(crate) fn inspection_text(info: &ProviderInfo, found: &Inspection) -> String {
    let worker = |load: &WorkerLoad| {
        json!({
            "id": &*load.worker.id.0,
            "name": load.worker.name,
            "host": load.worker.host,
            "pid": load.worker.pid,
            "leaseUntil": load.worker.lease_until_ms,
            "isAlive": load.worker.lease_until_ms > found.now_ms,
            "instances": load.instances,
            "tasks": load.tasks,
            "about": load.description.as_deref().and_then(WorkerDescription::read),
        })
    };
    json!({
        "kind": info.kind,
        "location": info.location,
        "clock": found.now_ms,
        "schemaVersion": found.schema_version,
        "bytes": found.bytes,
        "settings": found.settings,
        "workers": found.workers.iter().map(worker).collect::<Vec<_>>(),
    })
    .to_string()
}

pub(crate) fn checked_text(checked: &Checked) -> String {
    let finding = |finding: &Finding| {
        json!({
            "rule": finding.rule.as_str(),
            "instanceId": finding.instance,
            "detail": finding.detail,
        })
    };
    json!({
        "findings": checked.findings.iter().map(finding).collect::<Vec<_>>(),
        "instances": checked.instances,
        "events": checked.events,
        "cursor": checked.next.map(|key| key.0.to_string()),
    })
    .to_string()
}

/// Returns the place of a cursor in logged lines.
pub(crate) fn log_place(cursor: &str) -> Result<(InstanceKey, LogPlace), RuntimeError> {
    let mut parts = cursor.split('.');
    let mut next = || parts.next()?.parse::<u64>().ok();
    let parsed = (|| {
        let key = InstanceKey(i64::try_from(next()?).ok()?);
        let place = LogPlace {
            execution: ExecutionId(next()?),
            event: EventId(next()?),
            line: u32::try_from(next()?).ok()?,
        };
        Some((key, place))
    })();
    parsed.ok_or_else(|| RuntimeError::Argument("the cursor is not from an earlier page".into()))
}

/// Returns logged lines, and the cursor after them: that of the last line, or else the one before them.
pub(crate) fn logs_text(page: Option<LogPage>, cursor: Option<String>) -> String {
    let Some(LogPage { key, lines }) = page else {
        return "null".into();
    };
    let last = lines.last().map(|line| line.place);
    let cursor = last.map_or(cursor, |LogPlace { execution, event, line }| {
        Some(format!("{}.{}.{}.{line}", key.0, execution.0, event.0))
    });
    let line = |line: &LogLine| {
        json!({
            "executionId": line.place.execution.0,
            "timeMs": line.time_ms,
            "level": line.level.as_str(),
            "message": line.message,
            "fields": line.fields,
        })
    };
    json!({ "lines": lines.iter().map(line).collect::<Vec<_>>(), "cursor": cursor }).to_string()
}

/// Returns the open work of an instance. A worker that has left by now goes without its name.
pub(crate) fn open_work_text(found: Option<(OpenWork, Vec<Worker>)>) -> String {
    let Some((work, workers)) = found else {
        return "null".into();
    };
    let worker = |id: Option<&WorkerId>| {
        let id = id?;
        let name = workers
            .iter()
            .find(|worker| worker.id == *id)
            .map(|worker| &worker.name);
        Some(json!({ "id": id.to_string(), "name": name }))
    };
    let heartbeat = |last: &LastHeartbeat| json!([last.scheduled.0, last.details, last.time_ms]);
    let queue = |queued: &QueuedPlace| {
        let state = match queued.place {
            QueuePlace::Waits => "waiting",
            QueuePlace::Held => "held",
            QueuePlace::Slot => "running",
            QueuePlace::Delayed => "delayed",
            QueuePlace::Suspended => "suspended",
        };
        json!({
            "name": queued.queue,
            "key": queued.key,
            "state": state,
            "sinceMs": queued.queued_at_ms,
            "pausedMs": queued.paused_at_ms,
        })
    };
    let task = |task: &OpenTask| {
        json!({
            "scheduled": task.scheduled.0,
            "attempt": task.attempt,
            "queue": task.queue,
            "session": task.session,
            "worker": worker(task.worker.as_ref()),
            "place": task.queued.as_ref().map(queue),
        })
    };
    json!({
        "status": status_json(&work.status),
        "queue": work.queued.as_ref().map(queue),
        "dueMs": work.due_at_ms,
        "openWork": work.open_work,
        "nextEventId": work.next_event_id.0,
        "unread": work.unread,
        "worker": worker(work.owner.as_ref()),
        "heartbeats": work.heartbeats.iter().map(heartbeat).collect::<Vec<_>>(),
        "tasks": work.tasks.iter().map(task).collect::<Vec<_>>(),
    })
    .to_string()
}

pub(crate) fn overdue_text(work: &OverdueWork) -> String {
    let instances = |sort: &OverdueInstances| {
        json!({
            "name": sort.name,
            "version": sort.version,
            "instances": sort.instances,
            "oldestMs": sort.oldest_ms,
            "oldestId": sort.id,
        })
    };
    let attempts = |sort: &OverdueAttempts| {
        json!({
            "queue": sort.queue,
            "name": sort.name,
            "attempts": sort.attempts,
            "oldestMs": sort.oldest_ms,
            "oldestId": sort.id,
        })
    };
    json!({
        "instances": work.instances.iter().map(instances).collect::<Vec<_>>(),
        "attempts": work.attempts.iter().map(attempts).collect::<Vec<_>>(),
    })
    .to_string()
}
