//! Tasks: attempts that any worker may run which serves their queue (P12).

use perdure_engine::{
    ActivityOptions, AttemptResult, CommandEvent, EndEvent, EventId, EventRecord, ExecutionId, MessageBody, Settlement,
};
use perdure_provider::{
    AcquiredInstance, AcquiredTasks, AfterTurn, CrossInstanceEffects, Heartbeat, NewInstance, NextExecution, Outcome,
    PageLimit, Queues, ReleaseTask, Reporter, Task, TaskDone, TaskName, TaskOffer, TaskRequest, TurnCommit, WorkerId,
    Write,
};

use crate::store::{Handle, SESSIONS, START_MS, Store, VERSION, end, instance, release, started, turn};

fn offer(scheduled: u64, name: &str) -> TaskOffer {
    TaskOffer {
        scheduled: EventId(scheduled),
        attempt: 1,
        queue: "gpu".into(),
        key: None,
        name: name.into(),
        session: None,
        priority: 0,
        due_at_ms: 0,
        deadline_ms: None,
        start_within_ms: None,
    }
}

fn offering(turn: TurnCommit, offers: Vec<TaskOffer>) -> TurnCommit {
    TurnCommit {
        cross_instance: Some(Box::new(CrossInstanceEffects {
            offers,
            ..CrossInstanceEffects::default()
        })),
        ..turn
    }
}

fn withdrawing(turn: TurnCommit, scheduled: &[u64]) -> TurnCommit {
    TurnCommit {
        cross_instance: Some(Box::new(CrossInstanceEffects {
            withdrawn: scheduled.iter().copied().map(EventId).collect(),
            ..CrossInstanceEffects::default()
        })),
        ..turn
    }
}

/// Activity `name` as event `id`, with an input and options.
fn scheduled(id: u64, name: &str) -> EventRecord {
    let event = CommandEvent::ActivityScheduled {
        name: name.into(),
        input: Some(format!("\"input {id}\"")),
        options: ActivityOptions {
            queue: Some("gpu".into()),
            ..ActivityOptions::default()
        },
    };
    EventRecord::new(EventId(id), START_MS, event)
}

impl Handle<'_> {
    /// Creates instance `a` with activities `step` as events 2 to `last`, all offered, and with its next event id.
    pub(crate) async fn offered(&self, worker: &WorkerId, last: u64) -> AcquiredInstance {
        let owned = self.owned("a", worker).await;
        let offers = (2..=last).map(|id| offer(id, "step")).collect();
        let events = (2..=last).map(|id| scheduled(id, "step")).collect();
        self.did(offering(
            TurnCommit {
                events,
                ..turn(&owned, worker)
            },
            offers,
        ))
        .await;
        AcquiredInstance {
            next_event_id: EventId(last + 1),
            ..owned
        }
    }

    pub(crate) async fn tasks(&self, worker: &WorkerId, limit: usize) -> AcquiredTasks {
        let request = TaskRequest {
            worker: worker.clone(),
            queues: Queues::Named(vec!["default".into(), "gpu".into()]),
            names: vec!["other".into(), "step".into()],
            limit: PageLimit::rows(limit),
            sessions: SESSIONS,
        };
        self.provider.acquire_tasks(request).await.expect("the store answers")
    }

    pub(crate) async fn take_one(&self, worker: &WorkerId) -> Task {
        let acquired = self.tasks(worker, 10).await;
        let [task] = <[Task; 1]>::try_from(acquired.tasks).expect("one waits");
        task
    }

    async fn done(&self, worker: &WorkerId, task: TaskName, result: AttemptResult) -> Outcome {
        let done = TaskDone {
            worker: worker.clone(),
            task,
            result,
            time_ms: START_MS + 5,
        };
        self.write(Write::TaskDone(Box::new(done))).await
    }
}

fn output(text: &str) -> AttemptResult {
    AttemptResult::Completed(Some(text.into()))
}

fn numbers(acquired: &AcquiredTasks) -> Vec<u64> {
    acquired.tasks.iter().map(|task| task.task.scheduled.0).collect()
}

/// A task comes with everything that the worker needs to run it.
pub async fn are_taken_by_a_worker_that_serves_their_queue(store: &Store) {
    let store = store.first();
    let (worker, helper) = (store.worker("w").await, store.worker("h").await);
    let owned = store.offered(&worker, 2).await;
    let task = store.take_one(&helper).await;
    let name = TaskName {
        key: owned.key,
        execution: ExecutionId::FIRST,
        scheduled: EventId(2),
        attempt: 1,
    };
    assert_eq!((task.task, task.instance_id.as_str()), (name, "a"));
    assert_eq!((task.orchestration, task.name.as_str()), (owned.name, "step"));
    let EventRecord { payload, meta, .. } = scheduled(2, "step");
    assert_eq!((task.input, task.options), (payload, meta));
    assert_eq!(store.provider.tasks_of(&helper).await, Ok(vec![name]));
    assert_eq!(
        store.tasks(&worker, 10).await,
        AcquiredTasks::default(),
        "it is the helper's"
    );
}

/// The owner of the instance and the worker that runs its task get the same.
pub async fn come_with_the_version_and_the_tags_of_the_instance(store: &Store) {
    let store = store.first();
    let (worker, helper) = (store.worker("w").await, store.worker("h").await);
    for tags in [Some(r#"{"team":"a","é\"":"\u0000"}"#), None] {
        let id = if tags.is_some() { "tagged" } else { "plain" };
        let tags = tags.map(str::to_owned);
        store
            .start(NewInstance {
                tags: tags.clone(),
                ..instance(id)
            })
            .await;
        let owned = store.acquire_one(&worker).await;
        assert_eq!((owned.version.as_str(), &owned.tags), (VERSION, &tags));
        let events = vec![scheduled(2, "step")];
        let offered = TurnCommit {
            events,
            ..turn(&owned, &worker)
        };
        store.did(offering(offered, vec![offer(2, "step")])).await;
        let task = store.take_one(&helper).await;
        assert_eq!((task.version.as_str(), task.tags), (VERSION, tags));
    }
}

/// A worker that is not registered gets no task either.
pub async fn are_not_taken_for_another_queue_or_activity(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    store.offered(&worker, 2).await;
    for (queue, name) in [("default", "step"), ("gpu", "other")] {
        let request = TaskRequest {
            worker: worker.clone(),
            queues: Queues::Named(vec![queue.into()]),
            names: vec![name.into()],
            limit: PageLimit::rows(10),
            sessions: SESSIONS,
        };
        assert_eq!(
            store.provider.acquire_tasks(request).await,
            Ok(AcquiredTasks::default())
        );
    }
    let stranger = WorkerId("nobody".into());
    assert_eq!(store.tasks(&stranger, 10).await, AcquiredTasks::default());
}

/// The order of the tasks is the same as in one queue, and the names of activities still count. The next due time is
/// that of any queue.
pub async fn of_every_queue_are_taken_by_a_worker_that_serves_any(store: &Store) {
    let store = store.first();
    let (worker, helper) = (store.worker("w").await, store.worker("h").await);
    let owned = store.owned("a", &worker).await;
    let queues = ["b", "a", "a", "c", "b", "d"];
    let offers = (2..).zip(queues).map(|(id, queue)| TaskOffer {
        queue: queue.into(),
        priority: if id == 5 { 9 } else { 0 },
        due_at_ms: START_MS + if id == 7 { 50 } else { 10 - id as i64 },
        ..offer(id, if id == 3 { "unknown" } else { "step" })
    });
    let offers = offers.collect();
    let events = (2..=7).map(|id| scheduled(id, "step")).collect();
    let turn = TurnCommit {
        events,
        ..turn(&owned, &worker)
    };
    store.did(offering(turn, offers)).await;
    let request = TaskRequest {
        worker: helper,
        queues: Queues::Any,
        names: vec!["other".into(), "step".into()],
        limit: PageLimit::rows(3),
        sessions: SESSIONS,
    };
    let acquire = async || {
        let acquired = store.provider.acquire_tasks(request.clone()).await;
        acquired.expect("the store answers")
    };
    store.clock.advance(10);
    let acquired = acquire().await;
    assert_eq!(numbers(&acquired), [5, 6, 4]);
    assert_eq!(acquired.next_due_ms, Some(START_MS + 8));
    let acquired = acquire().await;
    assert_eq!(
        (numbers(&acquired), acquired.next_due_ms),
        (vec![2], Some(START_MS + 50))
    );
    assert!(acquire().await.tasks.is_empty());
}

/// Tasks come by priority, then the longest due first. The rest that the limit leaves is reported as due.
pub async fn come_by_priority_and_time(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    let ranked = |id: u64, priority: i32, due_at_ms: i64| TaskOffer {
        priority,
        due_at_ms,
        name: if id.is_multiple_of(2) { "step" } else { "other" }.into(),
        ..offer(id, "")
    };
    let offers = vec![
        ranked(2, 0, START_MS + 2),
        ranked(3, 0, START_MS + 1),
        ranked(4, 5, START_MS),
        ranked(5, 9, START_MS + 10),
        ranked(6, -1, 0),
    ];
    let events = (2..=6)
        .map(|id| scheduled(id, if id % 2 == 0 { "step" } else { "other" }))
        .collect();
    store
        .did(offering(
            TurnCommit {
                events,
                ..turn(&owned, &worker)
            },
            offers,
        ))
        .await;
    store.clock.advance(5);
    let first = store.tasks(&worker, 2).await;
    assert_eq!(numbers(&first), [4, 3]);
    assert!(first.next_due_ms.is_some_and(|at| at <= START_MS + 5));
    let rest = store.tasks(&worker, 10).await;
    assert_eq!((numbers(&rest), rest.next_due_ms), (vec![2, 6], Some(START_MS + 10)));
    store.clock.advance(5);
    assert_eq!(numbers(&store.tasks(&worker, 10).await), [5]);
}

/// A task that is due at once waits from its offer on, so that of an older instance does not overtake it.
pub async fn wait_from_their_offer_on(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let (older, newer) = (store.owned("a", &worker).await, store.owned("b", &worker).await);
    for owned in [&newer, &older] {
        let offers = TurnCommit {
            events: vec![scheduled(2, "step")],
            ..turn(owned, &worker)
        };
        let at_once = TaskOffer {
            due_at_ms: 0,
            ..offer(2, "step")
        };
        store.did(offering(offers, vec![at_once])).await;
        store.clock.advance(5);
    }
    for owned in [newer, older] {
        let acquired = store.tasks(&worker, 1).await;
        assert_eq!(acquired.tasks[0].task.key, owned.key);
    }
}

/// The instance is told once, in the commit that removes the task.
pub async fn the_end_of_one_is_told_to_its_instance(store: &Store) {
    let store = store.first();
    let (worker, helper) = (store.worker("w").await, store.worker("h").await);
    let owned = store.offered(&worker, 3).await;
    let tasks = store.tasks(&helper, 10).await.tasks;
    let failed = AttemptResult::Failed {
        error: Some("{}".into()),
        error_name: "TypeError \"x\"".into(),
        error_codes: vec!["E\"1".into(), String::new()],
        non_retryable: true,
        retry_after_ms: Some(-7),
    };
    let results = [output("1"), failed];
    for (task, result) in tasks.iter().zip(&results) {
        let told = store.done(&helper, task.task, result.clone()).await;
        let receivers = vec![Some(worker.clone())];
        assert_eq!(
            told,
            Outcome::TaskDone {
                receivers,
                freed: false
            }
        );
        assert_eq!(store.done(&helper, task.task, result.clone()).await, Outcome::Fenced);
    }
    let bodies: Vec<_> = store.messages(owned.key).await.into_iter().map(|m| m.body).collect();
    let expected = results.into_iter().zip(2..).map(|(result, id)| MessageBody::Settled {
        execution: ExecutionId::FIRST,
        scheduled: EventId(id),
        settlement: Settlement::Attempted { attempt: 1, result },
    });
    assert_eq!(bodies, expected.collect::<Vec<_>>());
    assert_eq!(store.provider.tasks_of(&helper).await, Ok(Vec::new()));
}

/// The instance is due at once.
pub async fn the_end_of_one_wakes_its_instance(store: &Store) {
    let store = store.first();
    let (worker, helper) = (store.worker("w").await, store.worker("h").await);
    let owned = store.offered(&worker, 3).await;
    store.commit(release(&owned, &worker, None)).await;
    let [first, _] = <[Task; 2]>::try_from(store.tasks(&helper, 10).await.tasks).expect("two wait");
    let told = store.done(&helper, first.task, output("1")).await;
    assert_eq!(
        told,
        Outcome::TaskDone {
            receivers: vec![None],
            freed: false
        }
    );
    let woken = store.acquire_one(&worker).await;
    assert_eq!(woken.messages.messages.len(), 1);
    assert_eq!(woken.tasks, [EventId(3)], "the other is still offered");
}

/// An end is fenced off if it comes from another worker, for another attempt, or from a worker that lost the task.
pub async fn fence_off_ends_of_other_workers_and_attempts(store: &Store) {
    let store = store.first();
    let (worker, helper) = (store.worker("w").await, store.worker("h").await);
    let owned = store.offered(&worker, 2).await;
    let task = store.take_one(&helper).await.task;
    assert_eq!(store.done(&worker, task, output("1")).await, Outcome::Fenced);
    let later = TaskName { attempt: 2, ..task };
    assert_eq!(store.done(&helper, later, output("1")).await, Outcome::Fenced);
    store.provider.release_worker(&helper).await.expect("it is removed");
    assert_eq!(store.done(&helper, task, output("1")).await, Outcome::Fenced);
    let next = store.worker("n").await;
    assert_eq!(store.take_one(&next).await.task, task, "it goes back with its worker");
    assert_eq!(store.messages(owned.key).await, []);
}

/// The turn that withdraws tasks removes them, even while a worker runs them. The other tasks stay.
pub async fn can_be_withdrawn(store: &Store) {
    let store = store.first();
    let (worker, helper) = (store.worker("w").await, store.worker("h").await);
    let owned = store.offered(&worker, 4).await;
    let taken = store.tasks(&helper, 1).await.tasks;
    assert_eq!(taken[0].task.scheduled, EventId(2));
    let did = store.did(withdrawing(turn(&owned, &worker), &[2, 3, 77])).await;
    assert_eq!(did.stopped, std::slice::from_ref(&helper));
    assert_eq!(store.provider.tasks_of(&helper).await, Ok(Vec::new()));
    assert_eq!(store.done(&helper, taken[0].task, output("1")).await, Outcome::Fenced);
    assert_eq!(numbers(&store.tasks(&helper, 10).await), [4]);
}

/// The next attempt is offered in place of the one that has ended.
pub async fn can_be_offered_again(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.offered(&worker, 2).await;
    let task = store.take_one(&worker).await.task;
    store.done(&worker, task, output("1")).await;
    let again = TaskOffer {
        attempt: 2,
        ..offer(2, "step")
    };
    store.did(offering(turn(&owned, &worker), vec![again])).await;
    assert_eq!(store.take_one(&worker).await.task.attempt, 2);
}

/// A fenced turn has no effect on others.
pub async fn of_a_fenced_turn_are_not_offered(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.offered(&worker, 2).await;
    let stale = TurnCommit {
        next_event_id: EventId(9),
        ..turn(&owned, &worker)
    };
    assert_eq!(
        store.turn(offering(stale, vec![offer(3, "step")])).await,
        Outcome::Fenced
    );
    assert_eq!(numbers(&store.tasks(&worker, 10).await), [2]);
}

/// The outcome names the workers that run tasks of the instance.
pub async fn go_with_a_termination(store: &Store) {
    let store = store.first();
    let (worker, helper) = (store.worker("w").await, store.worker("h").await);
    store.offered(&worker, 3).await;
    store.tasks(&helper, 1).await;
    let outcome = store.terminate("a", None).await;
    assert!(matches!(outcome, Outcome::Terminated { stopped, .. } if stopped == [helper.clone()]));
    assert_eq!(store.tasks(&worker, 10).await, AcquiredTasks::default());
}

/// The end of a task of a former execution is told to no instance.
pub async fn of_a_former_execution_are_reported_to_no_instance(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.offered(&worker, 2).await;
    let task = store.take_one(&worker).await.task;
    let last = EndEvent::ExecutionContinuedAsNew {
        input: None,
        version: VERSION.into(),
    };
    let next = NextExecution {
        version: VERSION.into(),
        first_event: started(None),
        hold: true,
    };
    store
        .did(TurnCommit {
            events: vec![EventRecord::new(EventId(3), START_MS, last)],
            after: AfterTurn::ContinueAsNew(Box::new(next)),
            ..turn(&owned, &worker)
        })
        .await;
    let told = store.done(&worker, task, output("1")).await;
    assert_eq!(
        told,
        Outcome::TaskDone {
            receivers: Vec::new(),
            freed: false
        }
    );
    assert_eq!(store.messages(owned.key).await, []);
}

/// Only the worker that runs the task may send heartbeats. The next attempt gets them, and they go with the attempt
/// that completes.
pub async fn keep_their_heartbeats(store: &Store) {
    let store = store.first();
    let (worker, helper) = (store.worker("w").await, store.worker("h").await);
    let owned = store.offered(&worker, 2).await;
    let task = store.take_one(&helper).await.task;
    let beat = |by: &WorkerId, attempt| Heartbeat {
        key: owned.key,
        worker: by.clone(),
        by: Reporter::Runner { attempt },
        execution: ExecutionId::FIRST,
        scheduled: EventId(2),
        details: Some("half".into()),
        time_ms: START_MS + 2,
    };
    for stranger in [beat(&worker, 1), beat(&helper, 2)] {
        assert_eq!(store.write(Write::Heartbeat(Box::new(stranger))).await, Outcome::Fenced);
    }
    let own = Write::Heartbeat(Box::new(beat(&helper, 1)));
    assert_eq!(store.write(own).await, Outcome::Noted);
    store.provider.release_worker(&helper).await.expect("it is removed");
    let next = store.worker("n").await;
    let again = store.take_one(&next).await;
    assert_eq!(again.last_heartbeat.as_deref(), Some("half"));
    store.done(&next, task, output("1")).await;
    store.commit(release(&owned, &worker, Some(0))).await;
    assert_eq!(store.acquire_one(&worker).await.heartbeats, []);
}

/// The end of a task whose instance has ended is told to no instance.
pub async fn of_an_ended_instance_are_reported_to_no_instance(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.offered(&worker, 2).await;
    let task = store.take_one(&worker).await.task;
    store.commit(end(&owned, &worker, None)).await;
    let told = store.done(&worker, task, output("1")).await;
    assert_eq!(
        told,
        Outcome::TaskDone {
            receivers: Vec::new(),
            freed: false
        }
    );
}

/// A name stays known, and each worker is told of all names.
pub async fn are_of_activities_that_are_known_for_good(store: &Store) {
    let store = store.first();
    let know = async |names: &[&str]| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        store
            .provider
            .announce_activities(names)
            .await
            .expect("the store answers")
    };
    assert_eq!(know(&[]).await, Vec::<String>::new());
    assert_eq!(know(&["step", "a\0b", "step"]).await, ["a\0b", "step"]);
    assert_eq!(know(&["other", "step"]).await, ["a\0b", "other", "step"]);
    assert_eq!(know(&[]).await, ["a\0b", "other", "step"]);
}

/// A worker that does not run a task which the store lists as its own returns it. A worker that does not run a task
/// cannot return it.
pub async fn are_returned_by_their_own_worker(store: &Store) {
    let store = store.first();
    let (worker, other) = (store.worker("w").await, store.worker("other").await);
    store.offered(&worker, 2).await;
    let task = store.take_one(&worker).await.task;
    let renewed = store.provider.renew_worker(&worker, 15_000, None).await;
    assert_eq!(renewed.map(|renewal| renewal.map(|renewal| renewal.tasks)), Ok(Some(1)));
    let release = |worker: &WorkerId, task| {
        Write::ReleaseTask(ReleaseTask {
            worker: worker.clone(),
            task,
        })
    };
    assert_eq!(store.write(release(&other, task)).await, Outcome::Fenced);
    let next = TaskName { attempt: 2, ..task };
    assert_eq!(store.write(release(&worker, next)).await, Outcome::Fenced);
    assert!(store.tasks(&other, 10).await.tasks.is_empty());
    assert_eq!(store.write(release(&worker, task)).await, Outcome::Noted);
    assert_eq!(store.done(&worker, task, output("1")).await, Outcome::Fenced);
    assert_eq!(store.take_one(&other).await.task, task);
    assert_eq!(store.write(release(&worker, task)).await, Outcome::Fenced);
    assert!(matches!(
        store.done(&other, task, output("1")).await,
        Outcome::TaskDone { .. }
    ));
}
