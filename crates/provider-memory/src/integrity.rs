//! The rows of a step of a check, for the rules of `perdure_provider`.

use std::collections::BTreeSet;

use perdure_provider::{
    AttemptFacts, CHECK_EVENTS_MAX, CHECK_FINDINGS_MAX, CHECK_INSTANCES_MAX, CheckRequest, Checked, EntryKey,
    EventFacts, Examination, Finding, InstanceFacts, InstanceKey, QueuePlace, ROUTE_ANY, ROUTE_LINE, ROUTE_OPEN, Rule,
    StoredMessage,
};

use crate::rows::{InstanceRow, QueuePlaceRow, TaskRow};
use crate::tables::{Tables, of_instance};
use crate::tasks;

pub(crate) fn step(tables: &Tables, request: CheckRequest) -> Checked {
    let mut checked = Checked::default();
    let from = request.after.map_or(i64::MIN, |key| key.0 + 1);
    let limit = request.limit.clamp(1, CHECK_INSTANCES_MAX) as u64;
    let mut until = i64::MAX;
    let mut last = from;
    for row in tables.instances_from(InstanceKey(from)) {
        if checked.instances == limit || checked.events >= CHECK_EVENTS_MAX {
            checked.next = Some(InstanceKey(last));
            until = last;
            break;
        }
        checked.findings.extend(instance(tables, row, &mut checked.events));
        checked.instances += 1;
        last = row.key.0;
    }
    orphans(tables, from..=until, &mut checked.findings);
    if request.after.is_none() {
        let revoked: BTreeSet<_> = tables.revocations.iter().map(|((worker, _), _)| worker).collect();
        for worker in revoked.into_iter().filter(|worker| !tables.workers.contains(worker)) {
            let detail = format!("there is a list of losses for worker {worker}, which is not registered");
            checked.findings.push(Finding::of_store(Rule::Orphan, detail));
        }
        checked.findings.extend(sessions(tables));
        checked.findings.extend(attempts_in_queues(tables));
    }
    checked
}

/// Finds sessions of activities without their worker, and tasks that are routed to another worker.
fn sessions(tables: &Tables) -> impl Iterator<Item = Finding> {
    let unheld = tables
        .sessions
        .iter()
        .filter(|(_, row)| !tables.is_registered(&row.worker));
    let unheld = unheld
        .map(|((_, name), _)| format!("session '{name}' of activities is bound to a worker that is not registered"));
    let routed = tables
        .tasks
        .iter()
        .filter(|(_, task)| ![ROUTE_ANY, ROUTE_OPEN, ROUTE_LINE].contains(&&*task.route));
    let stray = routed.filter_map(|(_, task)| {
        let name = task.session.clone().unwrap_or_default();
        let key = (task.queue.clone(), name);
        let holder = tables.sessions.get(&key).map(|row| &*row.worker.0);
        let (_, name) = key;
        (holder != Some(&*task.route))
            .then(|| format!("a task of session '{name}' is routed to a worker that does not hold the session"))
    });
    unheld
        .chain(stray)
        .map(|detail| Finding::of_store(Rule::Orphan, detail))
}

/// Finds places of attempts that are gone, and tasks that wait for a slot and are not in line.
fn attempts_in_queues(tables: &Tables) -> impl Iterator<Item = Finding> {
    let places = tables.queue_places.iter();
    let gone = places.filter(|(key, row)| key.is_attempt() && !has_task(tables, **key, row));
    let gone = gone.map(|(_, row)| {
        let queue = &row.entry.queue;
        let detail = format!("there is a place in queue '{queue}' of an attempt that does not exist");
        Finding::of_store(Rule::Orphan, detail)
    });
    let tasks = tables.tasks.iter().map(|(_, task)| task);
    let stuck = tasks.filter(|task| task.route == ROUTE_LINE && !has_waiting_place(tables, task));
    let stuck = stuck.map(|task| {
        let detail = format!("a task waits for a slot of queue '{}', and is not in line", task.queue);
        Finding::of_store(Rule::Stuck, detail)
    });
    gone.chain(stuck)
}

fn has_task(tables: &Tables, key: EntryKey, row: &QueuePlaceRow) -> bool {
    let task = row.task.and_then(|task| tables.tasks.get(&tasks::place(&task)));
    task.is_some_and(|task| task.place_key == Some(key))
}

fn has_waiting_place(tables: &Tables, task: &TaskRow) -> bool {
    let row = task.place_key.and_then(|key| tables.queue_places.get(&key));
    row.is_some_and(|row| row.place != QueuePlace::Slot)
}

fn instance(tables: &Tables, row: &InstanceRow, events: &mut u64) -> Vec<Finding> {
    let mut examination = Examination::new(InstanceFacts {
        id: row.id.clone(),
        execution: integer(row.execution.0),
        status: row.status.to_string(),
        owner: row.owner.as_ref().map(ToString::to_string),
        owner_is_registered: row.owner.as_ref().is_some_and(|owner| tables.is_registered(owner)),
        next_event_id: integer(row.next_event_id.0),
        is_due: row.wake_at_ms.is_some(),
        unread: integer(row.unread),
        has_report: row.report.is_some(),
        has_end: row.completed_at_ms.is_some(),
    });
    if let Some(queued) = tables.queue_places.get(&row.key.into()) {
        examination.queued(queued.place.number());
    }
    for ((_, execution, _), event) in tables.history.range(of_instance(row.key)) {
        *events += 1;
        examination.event(EventFacts {
            execution: integer(execution.0),
            event_id: integer(event.event_id.0),
            kind: event.kind.as_str(),
            ref_id: event.ref_id.map(|id| integer(id.0)),
        });
    }
    for (_, body) in tables.messages_after(row.key, perdure_engine::MessageSeq(0)) {
        let kept = StoredMessage::of(body);
        examination.message(
            kept.execution.map(|execution| integer(execution.0)),
            kept.scheduled.map(|id| integer(id.0)),
        );
    }
    for ((_, execution, event), task) in tables.tasks.range(of_instance(row.key)) {
        let owner = task.worker.as_ref();
        examination.task(AttemptFacts {
            execution: integer(execution.0),
            scheduled: integer(event.0),
            owner: owner.map(|owner| (&*owner.0, tables.is_registered(owner))),
        });
    }
    for ((_, execution, event), _) in tables.heartbeats.range(of_instance(row.key)) {
        examination.heartbeat(AttemptFacts {
            execution: integer(execution.0),
            scheduled: integer(event.0),
            owner: None,
        });
    }
    for child in tables.children_of(row.key, None) {
        let parent = tables.instance(child).and_then(|child| child.parent);
        if let Some(parent) = parent {
            examination.child(integer(parent.execution.0), integer(parent.event.0));
        }
    }
    examination.findings()
}

fn orphans(tables: &Tables, keys: std::ops::RangeInclusive<i64>, findings: &mut Vec<Finding>) {
    let lost = |key: &InstanceKey| keys.contains(&key.0) && tables.instance(*key).is_none();
    let mut find = |table: &str, found: BTreeSet<InstanceKey>| {
        let found = found.into_iter().filter(lost).take(CHECK_FINDINGS_MAX);
        findings.extend(found.map(|key| Finding::orphan(table, key.0)));
    };
    let history = tables.history.iter().map(|((key, ..), _)| *key);
    find("history", history.filter(|key| !tables.deleted.contains(key)).collect());
    find("messages", tables.messages.iter().map(|((key, _), _)| *key).collect());
    find("tasks", tables.tasks.iter().map(|((key, ..), _)| *key).collect());
    find(
        "heartbeats",
        tables.heartbeats.iter().map(|((key, ..), _)| *key).collect(),
    );
    find("takeovers", tables.takeovers.iter().map(|(key, _)| *key).collect());
    find("asks", tables.asks.iter().map(|((key, _), _)| *key).collect());
    find("state", tables.state.iter().map(|((key, _), _)| *key).collect());
    find("streams", tables.streams.iter().map(|((key, _), _)| *key).collect());
    let chunks = tables.stream_chunks.iter().map(|((key, ..), _)| *key);
    find(
        "stream_chunks",
        chunks.filter(|key| !tables.deleted.contains(key)).collect(),
    );
    let writers = tables.stream_writers.iter().map(|((key, ..), _)| *key);
    find(
        "stream_writers",
        writers.filter(|key| !tables.deleted.contains(key)).collect(),
    );
    find("logs", tables.logs.iter().map(|((key, _), _)| *key).collect());
    let queued = tables.queue_places.iter().filter_map(|(key, _)| key.instance());
    find("queue_places", queued.collect());
    find(
        "start_keys",
        tables.start_keys.iter().map(|(_, row)| row.instance).collect(),
    );
}

fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use perdure_engine::{EventId, ExecutionId};
    use perdure_provider::{QueueEntry, TaskName};

    use super::*;
    use crate::queues;

    #[test]
    fn an_attempt_and_its_place_need_each_other() {
        let mut tables = Tables::default();
        let task = TaskName {
            key: InstanceKey(1),
            execution: ExecutionId::FIRST,
            scheduled: EventId(2),
            attempt: 1,
        };
        let entry = QueueEntry {
            queue: "api".into(),
            key: String::new(),
        };
        let place_key = queues::enter_attempt(&mut tables, task, &entry, 0);
        let found = |tables: &Tables| -> Vec<(Rule, String)> {
            let findings = attempts_in_queues(tables);
            findings.map(|finding| (finding.rule, finding.detail)).collect()
        };
        let gone = "there is a place in queue 'api' of an attempt that does not exist".to_owned();
        assert_eq!(found(&tables), [(Rule::Orphan, gone)]);
        let row = TaskRow {
            task,
            queue: entry.queue,
            name: "step".into(),
            priority: 0,
            due_at_ms: 0,
            deadline_ms: None,
            start_within_ms: None,
            start_by_ms: None,
            worker: None,
            session: None,
            route: ROUTE_LINE.into(),
            place_key: Some(place_key),
        };
        tables.tasks.insert(tasks::place(&task), row);
        assert_eq!(found(&tables), []);
        queues::put(&mut tables, place_key, QueuePlace::Slot);
        let stuck = "a task waits for a slot of queue 'api', and is not in line".to_owned();
        assert_eq!(found(&tables), [(Rule::Stuck, stuck)]);
    }
}
