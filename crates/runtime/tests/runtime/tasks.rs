//! Activities that name a queue, and priorities among those that wait.

use std::time::Duration;

use perdure_engine::EventKind;
use perdure_provider::{ProviderErrorKind, QueueSettings, Queues, Status};
use perdure_scheduler::LaneId;

use crate::support::{Call, Fixture, Op, Script};
use perdure_runtime::internals::limits::SLOT_SOON;
use perdure_runtime::internals::{look_for_tasks, look_for_work};
use perdure_runtime::{AbortReason, RuntimeOptions};

const MAIN: Script = &[Op::Queued("gpu", "render"), Op::Activity("after")];

fn serving(queue: &str, slots: usize) -> RuntimeOptions {
    RuntimeOptions {
        queues: Queues::Named(vec![queue.to_owned()]),
        activity_concurrency: slots,
        ..RuntimeOptions::default()
    }
}

/// Returns an owner of instances, and a worker that serves queue `gpu`.
async fn two(script: Script) -> (Fixture, Fixture) {
    let owner = Fixture::started(RuntimeOptions::default(), script).await;
    let helper = helper(&owner, 10).await;
    (owner, helper)
}

async fn helper(owner: &Fixture, slots: usize) -> Fixture {
    let mut helper = owner.beside(serving("gpu", slots));
    helper.runtime.register_activity("render".into());
    helper.begin().await;
    helper
}

/// Lets both do what they can.
async fn settle(one: &mut Fixture, two: &mut Fixture) {
    for _ in 0..4 {
        one.settle().await;
        two.settle().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_activity_runs_where_its_queue_is_served() {
    let (mut owner, mut helper) = two(MAIN).await;
    owner.memory.hold(Call::Commit);
    let started = owner.ask_start("i", "main");
    settle(&mut owner, &mut helper).await;
    assert!(helper.attempts.is_empty(), "the turn is not durable (1)");
    owner.memory.resume(Call::Commit);
    settle(&mut owner, &mut helper).await;
    started.take().expect("it was answered").expect("it starts");
    assert_eq!((owner.attempts.len(), helper.attempts.len()), (0, 1));
    assert_eq!(owner.memory.get("i").owner, None, "it waits for nothing that runs here");
    let job = &helper.running[0];
    assert_eq!(
        (job.instance_id.as_str(), job.orchestration.as_str(), job.attempt),
        ("i", "main", 1)
    );

    helper.complete("render").await;
    settle(&mut owner, &mut helper).await;
    assert_eq!(owner.attempts, ["after"]);
    assert_eq!(owner.dropped, 0, "its generator was kept");
    owner.complete("after").await;
    assert_eq!(owner.memory.get("i").status, Status::Completed);
    owner.assert_empty();
    helper.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_failed_attempt_is_followed_by_another_when_its_time_has_come() {
    let (mut owner, mut helper) = two(MAIN).await;
    owner.start("i").await;
    settle(&mut owner, &mut helper).await;
    helper.fail("render", 5_000).await;
    settle(&mut owner, &mut helper).await;
    let history = owner.memory.get("i").history;
    assert_eq!(
        history.last().map(|event| event.kind),
        Some(EventKind::ActivityAttemptFailed)
    );
    helper.advance(4_999).await;
    assert_eq!(helper.attempts.len(), 1, "never early");
    helper.advance(1_001).await;
    assert_eq!(helper.running[0].attempt, 2);
    helper.complete("render").await;
    settle(&mut owner, &mut helper).await;
    owner.complete("after").await;
    helper.assert_empty();
    owner.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn an_attempt_of_an_ended_instance_is_aborted() {
    let (mut owner, mut helper) = two(MAIN).await;
    owner.start("i").await;
    settle(&mut owner, &mut helper).await;
    owner.terminate("i").await;
    settle(&mut owner, &mut helper).await;
    assert_eq!(helper.aborted, [AbortReason::Cancelled]);
    helper.assert_empty();
    owner.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_was_not_taken_goes_with_its_instance() {
    let mut owner = Fixture::started(RuntimeOptions::default(), MAIN).await;
    owner.start("i").await;
    owner.terminate("i").await;
    let mut helper = helper(&owner, 10).await;
    settle(&mut owner, &mut helper).await;
    assert!(helper.attempts.is_empty());
    owner.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_gone_gives_its_attempts_to_the_next() {
    let (mut owner, mut first) = two(MAIN).await;
    owner.start("i").await;
    settle(&mut owner, &mut first).await;
    assert_eq!(first.running.len(), 1);
    let mut second = helper(&owner, 10).await;
    owner.memory.remove_worker(&first.runtime_worker());
    look_for_tasks(&second.store);
    settle(&mut owner, &mut second).await;
    assert_eq!(second.running.len(), 1, "the same attempt again");
    assert_eq!(second.running[0].attempt, 1);
    settle(&mut owner, &mut first).await;
    assert_eq!(first.aborted.len(), 1, "it is no longer its own");
    second.complete("render").await;
    settle(&mut owner, &mut second).await;
    assert_eq!(owner.attempts, ["after"]);
}

#[tokio::test(start_paused = true)]
async fn a_full_worker_takes_the_next_when_it_has_room() {
    let mut owner = Fixture::started(RuntimeOptions::default(), &[Op::Queued("gpu", "render")]).await;
    let mut helper = helper(&owner, 1).await;
    for id in ["a", "b", "c"] {
        owner.start(id).await;
    }
    for _ in 0..3 {
        settle(&mut owner, &mut helper).await;
        assert_eq!(helper.running.len(), 1);
        helper.complete("render").await;
    }
    settle(&mut owner, &mut helper).await;
    for id in ["a", "b", "c"] {
        assert_eq!(owner.memory.get(id).status, Status::Completed, "{id}");
    }
    helper.assert_empty();
    owner.assert_empty();
}

/// The attempt is not offered a second time, and its result comes to the worker that owns the instance.
#[tokio::test(start_paused = true)]
async fn an_attempt_outlives_the_owner_of_its_instance() {
    let (mut first, mut helper) = two(MAIN).await;
    first.start("i").await;
    settle(&mut first, &mut helper).await;
    first.shut_down(Duration::from_secs(1)).await;
    let mut second = first.beside(RuntimeOptions::default());
    second.script("main", MAIN);
    second.begin().await;
    // The instance is woken where it is loaded anew.
    second.memory.row("i", |row| row.wake_at_ms = Some(0));
    look_for_work(&second.store);
    settle(&mut second, &mut helper).await;
    assert_eq!((helper.attempts.len(), second.attempts.len()), (1, 0));
    helper.complete("render").await;
    settle(&mut second, &mut helper).await;
    assert_eq!(second.attempts, ["after"]);
    second.complete("after").await;
    assert_eq!(second.memory.get("i").status, Status::Completed);
    helper.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn its_heartbeats_reach_the_next_attempt() {
    let (mut owner, mut helper) = two(MAIN).await;
    owner.start("i").await;
    settle(&mut owner, &mut helper).await;
    helper.heartbeat("render", "half").await;
    helper.fail("render", 0).await;
    settle(&mut owner, &mut helper).await;
    assert_eq!(helper.running[0].last_heartbeat.as_deref(), Some("half"));
    helper.complete("render").await;
    settle(&mut owner, &mut helper).await;
    owner.complete("after").await;
    assert!(owner.memory.heartbeats().is_empty());
    helper.assert_empty();
    owner.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_until_the_end_of_an_attempt_is_stored() {
    let (mut owner, mut helper) = two(MAIN).await;
    owner.start("i").await;
    settle(&mut owner, &mut helper).await;
    owner.memory.hold(Call::Commit);
    helper.complete("render").await;
    let session = helper.session().expect("it is started");
    helper.runtime.begin_shutdown().expect("it is started");
    assert!(!session.is_drained());
    owner.memory.resume(Call::Commit);
    settle(&mut owner, &mut helper).await;
    assert!(session.is_drained());
    assert_eq!(owner.attempts, ["after"]);
}

/// Regression test: the attempt had ended and its end waited for the store when the thread was held up. The task was
/// released, and its end was refused.
#[tokio::test(start_paused = true)]
async fn a_task_whose_end_is_being_written_is_not_released() {
    let (mut owner, mut helper) = two(MAIN).await;
    for id in ["i", "k"] {
        owner.start(id).await;
    }
    settle(&mut owner, &mut helper).await;
    owner.start("j").await;
    owner.memory.add_worker("other");
    owner.memory.hold(Call::Commit);
    let ended = helper.running.remove(0);
    helper.runtime.complete_activity(LaneId(0), ended.token, None);
    let holds = helper.next_attempt();
    assert_eq!((ended.instance_id.as_str(), holds.instance_id.as_str()), ("i", "j"));
    assert!(!ended.is_untried, "another worker may have begun it before");
    helper.hang(7).await;
    owner.memory.resume(Call::Commit);
    helper.hang(0).await;
    helper.running.push(holds);
    settle(&mut owner, &mut helper).await;
    helper.advance(1_000).await;
    let again: Vec<&str> = helper.running.iter().map(|job| job.instance_id.as_str()).collect();
    assert_eq!(again, ["j", "k"], "that of 'k' was released, and that of 'i' is done");
    for _ in 0..2 {
        helper.complete("render").await;
    }
    settle(&mut owner, &mut helper).await;
    for _ in 0..3 {
        owner.complete("after").await;
    }
    for id in ["i", "j", "k"] {
        assert_eq!(owner.memory.get(id).status, Status::Completed);
    }
    helper.assert_empty();
    owner.assert_empty();
}

/// Returns an owner of instances 'i', 'j', 'k' and a helper that runs their tasks. The task of 'i' holds up the
/// helper's thread from now on. The helper has asked for more tasks, and took the task of 'l' in the store, but has no
/// answer yet. It is about to release the task of 'k'.
async fn releasing_while_it_asks() -> (Fixture, Fixture) {
    let (mut owner, mut helper) = two(MAIN).await;
    for id in ["j", "k"] {
        owner.start(id).await;
    }
    settle(&mut owner, &mut helper).await;
    owner.start("i").await;
    owner.memory.add_worker("other");
    let holds = helper.next_attempt();
    assert_eq!(holds.instance_id, "i");
    owner.memory.hold(Call::Tasks);
    owner.memory.hold(Call::ReleaseRequest);
    owner.start("l").await;
    helper.hang(7).await;
    assert_eq!(owner.memory.waiting_tasks(), 0, "all are the helper's");
    helper.running.push(holds);
    (owner, helper)
}

/// Regression test: the store still listed the task as this worker's when it was asked, and then gave it back with the
/// rest. The task began here when that was answered, and elsewhere, too.
#[tokio::test(start_paused = true)]
async fn a_task_that_comes_while_others_are_released_may_go_with_them() {
    let (mut owner, mut helper) = releasing_while_it_asks().await;
    owner.memory.resume(Call::Tasks);
    helper.hang(0).await;
    // The helper does not hear soon which tasks are its own.
    owner.memory.fail(Call::Tasks, ProviderErrorKind::Busy, 1);
    owner.memory.resume(Call::ReleaseRequest);
    helper.hang(0).await;
    taken_by_another(&mut owner, &mut helper).await;
}

/// The answer that brings the task comes after the one that takes it away.
#[tokio::test(start_paused = true)]
async fn a_task_that_comes_after_others_were_released_may_have_gone_with_them() {
    let (mut owner, mut helper) = releasing_while_it_asks().await;
    owner.memory.resume(Call::ReleaseRequest);
    helper.hang(0).await;
    owner.memory.resume(Call::Tasks);
    helper.hang(0).await;
    taken_by_another(&mut owner, &mut helper).await;
}

/// Lets another worker take the tasks that were released, before the helper can ask for them again.
async fn taken_by_another(owner: &mut Fixture, helper: &mut Fixture) {
    let taken = owner.memory.take_tasks("other", "gpu", "render");
    let mut of: Vec<&str> = taken.iter().map(|task| task.instance_id.as_str()).collect();
    of.sort_unstable();
    assert_eq!(of, ["j", "k", "l"]);
    settle(owner, helper).await;
    let began: Vec<&str> = helper.running.iter().map(|job| job.instance_id.as_str()).collect();
    assert_eq!((began, helper.attempts.len()), (vec!["i"], 2));
    helper.complete("render").await;
    helper.advance(1_000).await;
    settle(owner, helper).await;
    helper.assert_empty();
}

/// Regression test: the worker told itself without end that it had room. It sent one request after the other for as
/// long as its thread was held up.
#[tokio::test(start_paused = true)]
async fn a_worker_that_is_held_up_does_not_ask_again_and_again() {
    let (mut owner, mut helper) = two(MAIN).await;
    owner.start("i").await;
    owner.memory.add_worker("other");
    let holds = helper.next_attempt();
    helper.hang(7).await;
    for _ in 0..3 {
        look_for_tasks(&helper.store);
        helper.hang(0).await;
    }
    assert!(owner.memory.lists_of_tasks() < 10, "{}", owner.memory.lists_of_tasks());
    helper.running.push(holds);
    settle(&mut owner, &mut helper).await;
    helper.complete("render").await;
    settle(&mut owner, &mut helper).await;
    owner.complete("after").await;
    helper.assert_empty();
    owner.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn the_highest_priority_gets_the_next_slot() {
    let script: Script = &[
        Op::Spawn("first"),
        Op::Ranked(-1, "low"),
        Op::Ranked(0, "middle one"),
        Op::Ranked(7, "high"),
        Op::Ranked(0, "middle two"),
        Op::Event("end"),
    ];
    let mut f = Fixture::started(serving("default", 1), script).await;
    f.start("i").await;
    let order = ["high", "first", "middle one", "middle two", "low"];
    for name in order {
        f.complete(name).await;
    }
    assert_eq!(f.attempts, order);
    f.event("i", "end").await;
    f.assert_empty();
}

/// Returns another runtime on the owner's store, known to the owner.
async fn beside(owner: &mut Fixture, activities: &[&str], slots: usize) -> Fixture {
    let mut other = owner.beside(serving("default", slots));
    for name in activities {
        other.runtime.register_activity((*name).into());
    }
    other.begin().await;
    // The owner has looked for other workers.
    owner.advance(5_100).await;
    other
}

#[tokio::test(start_paused = true)]
async fn an_activity_that_only_another_worker_has_runs_there() {
    const STRANGE: Script = &[Op::Queued("default", "far"), Op::Activity("after")];
    let mut owner = Fixture::started(RuntimeOptions::default(), STRANGE).await;
    let mut other = beside(&mut owner, &["far"], 10).await;
    owner.start("i").await;
    settle(&mut owner, &mut other).await;
    assert_eq!((owner.attempts.len(), other.attempts.len()), (0, 1));
    other.complete("far").await;
    settle(&mut owner, &mut other).await;
    owner.complete("after").await;
    assert_eq!(owner.memory.get("i").status, Status::Completed);
}

/// The worker that has the activity may be restarting at this moment.
#[tokio::test(start_paused = true)]
async fn an_activity_that_another_worker_had_waits_for_it() {
    const STRANGE: Script = &[Op::Queued("default", "far")];
    let mut owner = Fixture::started(RuntimeOptions::default(), STRANGE).await;
    let mut other = beside(&mut owner, &["far"], 10).await;
    other.shut_down(Duration::ZERO).await;
    owner.start("i").await;
    owner.advance(60_000).await;
    assert!(owner.attempts.is_empty(), "it fails nothing");
    assert!(
        owner.logged.iter().any(|line| line.contains("'far' is not registered")),
        "{:?}",
        owner.logged
    );
    let mut back = beside(&mut owner, &["far"], 10).await;
    settle(&mut owner, &mut back).await;
    back.complete("far").await;
    settle(&mut owner, &mut back).await;
    assert_eq!(owner.memory.get("i").status, Status::Completed);
}

/// The name is a mistake: the host says that it knows no such activity.
#[tokio::test(start_paused = true)]
async fn an_unknown_activity_is_taken_by_a_worker_that_is_alone() {
    const STRANGE: Script = &[Op::Queued("default", "fra")];
    let mut owner = Fixture::started(RuntimeOptions::default(), STRANGE).await;
    owner.start("i").await;
    owner.settle().await;
    assert_eq!(owner.attempts, ["fra"]);
    owner.complete("fra").await;
    owner.settle().await;
    owner.assert_empty();
}

/// The way over the store takes longer than the end of an attempt that runs.
#[tokio::test(start_paused = true)]
async fn an_attempt_with_a_slot_soon_is_not_offered() {
    const THREE: Script = &[Op::Spawn("a"), Op::Spawn("b"), Op::Activity("c")];
    let mut owner = Fixture::started(serving("default", 2), THREE).await;
    let mut other = beside(&mut owner, &["a", "b"], 1).await;
    owner.start("first").await;
    settle(&mut owner, &mut other).await;
    assert_eq!((owner.running.len(), owner.memory.waiting_tasks()), (2, 1));
    for name in ["a", "b", "c"] {
        owner.complete(name).await;
        settle(&mut owner, &mut other).await;
    }
    assert_eq!(owner.memory.get("first").status, Status::Completed);
    // As many `c` have just ended as are to wait.
    owner.start("second").await;
    settle(&mut owner, &mut other).await;
    assert_eq!((owner.running.len(), owner.memory.waiting_tasks()), (2, 0));
    // These might wait for long.
    tokio::time::advance(2 * SLOT_SOON).await;
    owner.start("third").await;
    settle(&mut owner, &mut other).await;
    assert_eq!((other.running.len(), owner.memory.waiting_tasks()), (1, 2));
}

/// Without other workers the attempts wait here, and cost no row.
#[tokio::test(start_paused = true)]
async fn an_attempt_without_a_slot_is_offered_to_others() {
    const MANY: Script = &[Op::Spawn("a"), Op::Spawn("b"), Op::Spawn("c"), Op::Activity("d")];
    let mut owner = Fixture::started(serving("default", 2), MANY).await;
    owner.start("alone").await;
    assert_eq!((owner.attempts.len(), owner.memory.waiting_tasks()), (2, 0));
    for name in ["a", "b", "c", "d"] {
        owner.complete(name).await;
    }
    let mut other = beside(&mut owner, &["a", "b", "c", "d"], 1).await;
    owner.start("shared").await;
    settle(&mut owner, &mut other).await;
    assert_eq!(owner.running.len(), 2);
    assert_eq!((other.running.len(), owner.memory.waiting_tasks()), (1, 1));
    // The first worker with a free slot takes the last attempt.
    owner.complete("a").await;
    settle(&mut owner, &mut other).await;
    assert_eq!((owner.running.len(), owner.memory.waiting_tasks()), (2, 0));
    for name in ["b", "d"] {
        owner.complete(name).await;
    }
    other.complete("c").await;
    settle(&mut owner, &mut other).await;
    assert_eq!(owner.memory.get("shared").status, Status::Completed);
}

async fn limit(f: &mut Fixture, concurrency: u32) {
    let settings = QueueSettings {
        concurrency: Some(concurrency),
        ..QueueSettings::default()
    };
    f.store
        .set_queue("gpu".into(), settings, Box::new(|set| assert_eq!(set, Ok(()))));
    f.settle().await;
}

/// Only the store can count attempts over all workers.
#[tokio::test(start_paused = true)]
async fn an_activity_that_names_a_queue_is_a_task_even_where_the_queue_is_served() {
    let mut f = Fixture::started(serving("gpu", 10), &[Op::Queued("gpu", "render")]).await;
    f.start("i").await;
    assert_eq!(f.attempts, ["render"]);
    assert_eq!(f.memory.get("i").owner, None, "it waits for nothing that runs here");
    f.complete("render").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

/// No time passes, so no poll finds the slot.
#[tokio::test(start_paused = true)]
async fn a_slot_of_a_queue_goes_to_the_next_attempt_at_once() {
    let mut f = Fixture::started(serving("gpu", 10), &[Op::Queued("gpu", "render")]).await;
    limit(&mut f, 1).await;
    for id in ["a", "b", "c", "d"] {
        f.start(id).await;
    }
    assert_eq!(f.attempts.len(), 1);
    f.complete("render").await;
    assert_eq!((f.attempts.len(), f.running.len()), (2, 1), "after an end");
    let runs = f.running[0].instance_id.clone();
    f.terminate(&runs).await;
    assert_eq!((f.attempts.len(), f.running.len()), (3, 1), "after a termination");
    limit(&mut f, 2).await;
    assert_eq!(
        (f.attempts.len(), f.running.len()),
        (4, 2),
        "after a change of the limit"
    );
    for _ in 0..2 {
        f.complete("render").await;
    }
    f.assert_empty();
}

/// The workers are of one process, which is told of no end by the store.
#[tokio::test(start_paused = true)]
async fn a_slot_of_a_queue_goes_to_another_worker_of_the_process() {
    let (mut owner, mut first) = two(&[Op::Queued("gpu", "render")]).await;
    limit(&mut owner, 1).await;
    for id in ["a", "b"] {
        owner.start(id).await;
    }
    settle(&mut owner, &mut first).await;
    assert_eq!(first.attempts.len(), 1);
    // A worker that shuts down takes nothing, so the slot is left to the other one.
    let mut second = helper(&owner, 10).await;
    second.settle().await;
    assert!(second.attempts.is_empty());
    first.runtime.begin_shutdown().expect("it is started");
    first.complete("render").await;
    settle(&mut owner, &mut second).await;
    assert_eq!((first.attempts.len(), second.attempts.len()), (1, 1));
    second.complete("render").await;
    settle(&mut owner, &mut second).await;
    assert_eq!(owner.memory.get("b").status, Status::Completed);
}
