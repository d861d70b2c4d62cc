//! The check of a store: it finds nothing in a sound store, and finds each kind of damage to the rows.

use std::future::Future;
use std::sync::Arc;

use perdure_engine::{
    ActivityOptions, CommandEvent, EndEvent, EventId, EventRecord, InstanceStart, MessageSeq, StartConflict,
};
use perdure_provider::{
    Acquire, AfterTurn, CheckRequest, Checked, CrossInstanceEffects, CrossInstanceStart, Heartbeat, InstanceKey,
    ManualClock, NewInstance, NextExecution, PageLimit, QueueEntry, QueueSettings, Reporter, Rule, TaskOffer,
    TurnCommit, WorkerId, Write,
};

use crate::store::{
    Fixture, Handle, START_MS, Store, VERSION, end, event, instance, release, scheduled, started, suspend, turn, within,
};

/// The number of instances after [`create_instances`](Handle::create_instances).
const INSTANCES: u64 = 12;

impl Handle<'_> {
    async fn check(&self, after: Option<InstanceKey>, limit: usize) -> Checked {
        let checked = self.provider.check(CheckRequest { after, limit }).await;
        checked.expect("the store is checked")
    }

    /// Creates instances in each state that workers leave behind between two commits.
    async fn create_instances(&self) {
        let worker = self.worker("w").await;
        self.held(&worker).await;
        let owned = self.owned("completed", &worker).await;
        self.commit(end(&owned, &worker, Some("1".into()))).await;
        // The history of this instance is still to be swept away.
        let owned = self.owned("deleted", &worker).await;
        self.commit(end(&owned, &worker, None)).await;
        self.delete("deleted").await;
        let owned = self.owned("waits", &worker).await;
        self.commit(release(&owned, &worker, None)).await;
        self.sleeps(&worker).await;
        self.offers(&worker).await;
        let owned = self.owned("suspended", &worker).await;
        self.commit(suspend(&owned, &worker, "\"why\"")).await;
        self.deliver("suspended", event("go", "1")).await;
        self.continues(&worker).await;
        self.parent(&worker).await;
        self.start(instance("pending")).await;
        self.queue(&worker).await;
    }

    /// An instance that waits in a queue, and one that has its only slot.
    async fn queue(&self, worker: &WorkerId) {
        let settings = QueueSettings {
            concurrency: Some(1),
            ..QueueSettings::default()
        };
        let set = self.provider.set_queue("one".into(), settings).await;
        assert_eq!(set, Ok(true));
        for id in ["slot", "line"] {
            self.start(NewInstance {
                name: "queued".into(),
                queue: Some(QueueEntry {
                    queue: "one".into(),
                    key: String::new(),
                }),
                ..instance(id)
            })
            .await;
        }
        let request = Acquire {
            worker: worker.clone(),
            registered: vec![("queued".into(), VERSION.into())],
            limit: PageLimit::rows(10),
            history_page: PageLimit::rows(100),
            left_ms: 0,
            looked: false,
        };
        let acquired = self.request(request).await;
        assert_eq!(acquired.instances.len(), 1);
        self.commit(release(&acquired.instances[0], worker, None)).await;
    }

    /// An instance whose owner runs two activities, one of which has sent a heartbeat.
    async fn held(&self, worker: &WorkerId) {
        let owned = self.owned("held", worker).await;
        let events = vec![scheduled(2), scheduled(3)];
        self.commit(TurnCommit {
            events,
            ..turn(&owned, worker)
        })
        .await;
        self.write(Write::Heartbeat(Box::new(Heartbeat {
            key: owned.key,
            worker: worker.clone(),
            by: Reporter::Owner(owned.epoch),
            execution: owned.execution,
            scheduled: EventId(2),
            details: Some("5".into()),
            time_ms: START_MS + 2,
        })))
        .await;
    }

    async fn sleeps(&self, worker: &WorkerId) {
        let owned = self.owned("sleeps", worker).await;
        let fire_at_ms = START_MS + 60_000;
        let timer = EventRecord::new(EventId(2), START_MS, CommandEvent::TimerCreated { fire_at_ms });
        self.commit(TurnCommit {
            events: vec![timer],
            ..release(&owned, worker, Some(fire_at_ms))
        })
        .await;
    }

    /// An instance that waits for an activity that any worker may take.
    async fn offers(&self, worker: &WorkerId) {
        let owned = self.owned("offers", worker).await;
        let offer = TaskOffer {
            scheduled: EventId(2),
            attempt: 1,
            queue: "gpu".into(),
            key: None,
            name: "step".into(),
            session: None,
            priority: 0,
            due_at_ms: 0,
            deadline_ms: None,
            start_within_ms: None,
        };
        let event = CommandEvent::ActivityScheduled {
            name: "step".into(),
            input: None,
            options: ActivityOptions::default(),
        };
        self.commit(TurnCommit {
            events: vec![EventRecord::new(EventId(2), START_MS, event)],
            cross_instance: Some(Box::new(CrossInstanceEffects {
                offers: vec![offer],
                ..CrossInstanceEffects::default()
            })),
            ..release(&owned, worker, None)
        })
        .await;
    }

    async fn continues(&self, worker: &WorkerId) {
        let owned = self.owned("continued", worker).await;
        let last = EndEvent::ExecutionContinuedAsNew {
            input: None,
            version: VERSION.into(),
        };
        let next = NextExecution {
            version: VERSION.into(),
            first_event: started(None),
            hold: true,
        };
        self.commit(TurnCommit {
            events: vec![EventRecord::new(EventId(2), START_MS, last)],
            after: AfterTurn::ContinueAsNew(Box::new(next)),
            ..turn(&owned, worker)
        })
        .await;
    }

    /// An instance that waits for a child, which is due.
    async fn parent(&self, worker: &WorkerId) {
        let owned = self.owned("parent", worker).await;
        let child = InstanceStart {
            on_conflict: StartConflict::default(),
            admission: None,
            id: "child".into(),
            name: "flow".into(),
            version: VERSION.into(),
            input: None,
            tags: None,
            priority: 0,
            trace: None,
        };
        let start = CrossInstanceStart {
            accepts_other: false,
            scheduled: EventId(2),
            is_child: true,
            instance: NewInstance {
                parent_id: Some("parent".into()),
                ..instance("child")
            },
        };
        self.commit(TurnCommit {
            events: vec![EventRecord::new(
                EventId(2),
                START_MS,
                CommandEvent::ChildScheduled(child),
            )],
            cross_instance: Some(Box::new(CrossInstanceEffects {
                starts: vec![start],
                ..CrossInstanceEffects::default()
            })),
            seen: MessageSeq(0),
            ..release(&owned, worker, None)
        })
        .await;
    }
}

/// The result is the same for each handle and each page size.
pub async fn finds_nothing_where_nothing_is_wrong(store: &Store) {
    let first = store.first();
    first.create_instances().await;
    for store in [Some(first), store.second()].into_iter().flatten() {
        for limit in [1, 3, 100] {
            let (mut after, mut instances) = (None, 0);
            loop {
                let checked = store.check(after, limit).await;
                assert_eq!(checked.findings, []);
                assert!(checked.instances <= limit as u64);
                instances += checked.instances;
                after = checked.next;
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(instances, INSTANCES, "with pages of {limit}");
        }
    }
    // The steps above record this many events.
    assert_eq!(first.check(None, 100).await.events, 20);
}

/// A store without rows has nothing to find.
pub async fn finds_nothing_in_an_empty_store(store: &Store) {
    assert_eq!(store.first().check(None, 100).await, Checked::default());
}

/// Instances that were swept away, pruned or deleted leave no finding, and neither does a worker that is gone.
pub async fn finds_nothing_after_housekeeping(store: &Store) {
    let store = store.first();
    store.create_instances().await;
    store
        .provider
        .release_worker(&WorkerId("w".into()))
        .await
        .expect("the store answers");
    store.terminate("parent", None).await;
    store.delete("parent").await;
    while store.provider.sweep(1).await.expect("the store answers") {}
    let checked = store.check(None, 100).await;
    assert_eq!(checked.findings, []);
}

/// A fixture whose rows can be changed without the provider's knowledge, by SQL that names its tables without a schema.
pub trait Damage: Fixture {
    /// Runs some statements.
    fn damage(&self, sql: &str) -> impl Future<Output = ()> + Send;
}

macro_rules! key {
    ($id:literal) => {
        concat!("(SELECT key FROM instances WHERE id = '", $id, "')")
    };
}

/// Each entry: the damage done to a furnished store, the rule that it breaks, and a part of the finding's text.
const DAMAGES: &[(&str, Rule, &str)] = &[
    // Histories.
    (
        concat!(
            "DELETE FROM history WHERE event_id = 2 AND instance_key = ",
            key!("held")
        ),
        Rule::History,
        "event 2 of execution 1 is missing",
    ),
    (
        concat!("DELETE FROM history WHERE instance_key = ", key!("held")),
        Rule::History,
        "execution 1 has no event",
    ),
    (
        "UPDATE instances SET next_event_id = 9 WHERE id = 'held'",
        Rule::History,
        "its next event number is 9, but its last event is 3",
    ),
    (
        concat!(
            "INSERT INTO history (instance_key, execution, event_id, time, kind) VALUES (",
            key!("completed"),
            ", 1, 3, 0, 'ExecutionCompleted'); UPDATE instances SET next_event_id = 4 WHERE id = 'completed'"
        ),
        Rule::History,
        "event 3 of execution 1 (ExecutionCompleted) comes after the end",
    ),
    (
        concat!(
            "INSERT INTO history (instance_key, execution, event_id, time, kind) VALUES (",
            key!("completed"),
            ", 1, 3, 0, 'PatchApplied'); UPDATE instances SET next_event_id = 4 WHERE id = 'completed'"
        ),
        Rule::History,
        "event 3 of execution 1 (PatchApplied) comes after the end",
    ),
    (
        concat!(
            "INSERT INTO history (instance_key, execution, event_id, time, kind, ref_id) SELECT ",
            key!("held"),
            ", 1, 4, 0, 'ActivityCompleted', 2 UNION ALL SELECT ",
            key!("held"),
            ", 1, 5, 0, 'ActivityCompleted', 2; UPDATE instances SET next_event_id = 6 WHERE id = 'held'"
        ),
        Rule::History,
        "event 5 of execution 1 (ActivityCompleted) refers to event 2",
    ),
    (
        "UPDATE history SET kind = 'ExecutionCompleted' WHERE kind = 'ExecutionContinuedAsNew'",
        Rule::History,
        "execution 1 ends with ExecutionCompleted, and another one follows",
    ),
    (
        concat!(
            "UPDATE history SET kind = 'Nonsense' WHERE instance_key = ",
            key!("waits")
        ),
        Rule::History,
        "the kind of event 1 of execution 1 is unknown",
    ),
    // Sessions of activities.
    (
        "INSERT INTO sessions (queue, session, worker, idle_ms, used_at) VALUES ('gpu', 's', 'ghost', 0, 0)",
        Rule::Orphan,
        "session 's' of activities is bound to a worker that is not registered",
    ),
    (
        "UPDATE tasks SET session = 's', route = 'w'",
        Rule::Orphan,
        "a task of session 's' is routed to a worker that does not hold the session",
    ),
    // Rows of instances.
    (
        "UPDATE instances SET status = 'Failed' WHERE id = 'completed'",
        Rule::Status,
        "it is Failed, and the last event of execution 1 is ExecutionCompleted",
    ),
    (
        concat!(
            "DELETE FROM history WHERE event_id = 2 AND instance_key = ",
            key!("completed"),
            "; UPDATE instances SET next_event_id = 2 WHERE id = 'completed'"
        ),
        Rule::Status,
        "it is Completed, and the last event of execution 1 is ExecutionStarted",
    ),
    (
        "UPDATE instances SET status = 'Nonsense' WHERE id = 'waits'",
        Rule::Status,
        "its status is unknown",
    ),
    (
        "UPDATE instances SET completed_at = NULL WHERE id = 'completed'",
        Rule::Status,
        "lacks a time of its end",
    ),
    (
        "UPDATE instances SET report = NULL WHERE id = 'suspended'",
        Rule::Status,
        "lacks a report",
    ),
    (
        "UPDATE instances SET wake_at = 5 WHERE id = 'suspended'",
        Rule::Status,
        "it is Suspended and due",
    ),
    (
        "UPDATE instances SET wake_at = 5 WHERE id = 'held'",
        Rule::Status,
        "it is owned and due",
    ),
    (
        "UPDATE instances SET unread = 5 WHERE id = 'suspended'",
        Rule::Status,
        "it counts 5 messages, but 1 wait",
    ),
    // Owners.
    (
        "UPDATE instances SET owner = 'nobody' WHERE id = 'held'",
        Rule::Owner,
        "it is owned by worker nobody, which is not registered",
    ),
    (
        "UPDATE instances SET owner = 'w' WHERE id = 'completed'",
        Rule::Owner,
        "it is Completed and owned by worker w",
    ),
    (
        "UPDATE tasks SET owner = 'nobody'",
        Rule::Owner,
        "a task of event 2 is run by worker nobody, which is not registered",
    ),
    (
        "DELETE FROM workers",
        Rule::Owner,
        "it is owned by worker w, which is not registered",
    ),
    // Rows that belong to nothing.
    (
        "DELETE FROM instances WHERE id = 'suspended'",
        Rule::Orphan,
        "there are rows of messages of instance",
    ),
    (
        "DELETE FROM instances WHERE id = 'waits'",
        Rule::Orphan,
        "there are rows of history of instance",
    ),
    (
        "INSERT INTO tasks (instance_key, execution, event_id, attempt, queue, name, priority, due_at)
         VALUES (-5, 1, 2, 1, 'q', 'n', 0, 0)",
        Rule::Orphan,
        "there are rows of tasks of instance -5",
    ),
    (
        "INSERT INTO heartbeats (instance_key, execution, event_id, details, time) VALUES (9000000000, 1, 2, '1', 1)",
        Rule::Orphan,
        "there are rows of heartbeats of instance 9000000000",
    ),
    (
        "INSERT INTO state (instance_key, name, value, version) VALUES (9000000000, 'x', '1', 1)",
        Rule::Orphan,
        "there are rows of state of instance 9000000000",
    ),
    (
        "INSERT INTO logs (instance_key, execution, event_id, line, time, level, message)
         VALUES (9000000000, 1, 2, 0, 1, 'info', 'text')",
        Rule::Orphan,
        "there are rows of logs of instance 9000000000",
    ),
    (
        "INSERT INTO streams (instance_key, name, next_index, closed) VALUES (9000000000, 's', 1, FALSE)",
        Rule::Orphan,
        "there are rows of streams of instance 9000000000",
    ),
    (
        "INSERT INTO stream_chunks (instance_key, name, first_index, count, time, entries)
         VALUES (9000000000, 's', 0, 1, 1, '1')",
        Rule::Orphan,
        "there are rows of stream_chunks of instance 9000000000",
    ),
    (
        concat!(
            "INSERT INTO heartbeats (instance_key, execution, event_id, details, time) VALUES (",
            key!("completed"),
            ", 1, 9, '1', 1)"
        ),
        Rule::Orphan,
        "a heartbeat of event 9 is left, and the instance is Completed",
    ),
    (
        "UPDATE tasks SET event_id = 9",
        Rule::Orphan,
        "a task of event 9 is left, and that is no activity which is open",
    ),
    (
        "UPDATE tasks SET execution = 7",
        Rule::Orphan,
        "a task of event 2 is left of execution 7, but execution 1 is current",
    ),
    (
        concat!(
            "INSERT INTO messages (instance_key, seq, kind, time) VALUES (",
            key!("completed"),
            ", 1000000, 'Cancel', 0)"
        ),
        Rule::Orphan,
        "it is Completed, and 1 messages wait for it",
    ),
    (
        "INSERT INTO revocations (worker, instance_key, epoch) VALUES ('nobody', 1, 1)",
        Rule::Orphan,
        "there is a list of losses for worker nobody",
    ),
    (
        concat!("INSERT INTO deleted_instances (key) VALUES (", key!("held"), ")"),
        Rule::Orphan,
        "instance 'held' exists, but its history is marked for deletion",
    ),
    // Queues.
    (
        concat!("UPDATE queue_places SET place = 1 WHERE key = ", key!("slot")),
        Rule::Status,
        "it waits in a queue, but it is Running",
    ),
    (
        "UPDATE instances SET wake_at = 5 WHERE id = 'line'",
        Rule::Status,
        "it waits in a queue, but it is Pending, and owned or due",
    ),
    (
        concat!("DELETE FROM queue_places WHERE key = ", key!("line")),
        Rule::Stuck,
        "it is Pending without an owner, never due, and waits in no queue",
    ),
    (
        "DELETE FROM instances WHERE id = 'line'",
        Rule::Orphan,
        "there are rows of queue_places of instance",
    ),
    // Instances that nothing can wake.
    (
        "UPDATE instances SET wake_at = NULL WHERE id = 'pending'",
        Rule::Stuck,
        "it is Pending without an owner, never due",
    ),
    (
        "UPDATE instances SET owner = NULL WHERE id = 'held'",
        Rule::Stuck,
        "it waits for the activity of event 2, but no worker runs it and no task offers it",
    ),
    (
        "DELETE FROM tasks",
        Rule::Stuck,
        "it waits for the activity of event 2, but no worker runs it and no task offers it",
    ),
    (
        concat!(
            "DELETE FROM history WHERE instance_key = ",
            key!("child"),
            "; DELETE FROM instances WHERE id = 'child'"
        ),
        Rule::Stuck,
        "it waits for the child of event 2, but the child does not exist and no message reports it",
    ),
];

/// The number of stores that are damaged at once.
const AT_ONCE: usize = 6;

/// Damages furnished stores, each in one way, and checks that each damage is found.
///
/// # Panics
///
/// If a damage is not found.
pub async fn finds_each_damage<F: Damage>() {
    for damages in DAMAGES.chunks(AT_ONCE) {
        let mut found = tokio::task::JoinSet::new();
        for (sql, rule, says) in damages {
            found.spawn(finds::<F>(sql, *rule, says));
        }
        within(found.join_all()).await;
    }
}

async fn finds<F: Damage>(sql: &str, rule: Rule, says: &str) {
    let clock = Arc::new(ManualClock::new(START_MS));
    let fixture = F::open(Arc::clone(&clock)).await;
    let provider = fixture.provider();
    let store = Handle {
        provider: &provider,
        clock: &clock,
    };
    store.create_instances().await;
    fixture.damage(sql).await;
    let findings = store.check(None, 100).await.findings;
    let is_found = findings
        .iter()
        .any(|finding| finding.rule == rule && finding.detail.contains(says));
    assert!(is_found, "{sql}: {findings:#?}");
    provider.close().await;
}
