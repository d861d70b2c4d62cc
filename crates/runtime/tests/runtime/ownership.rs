//! A worker whose store says that it owns an instance that it does not know. The instance would wait for ever, because
//! no other worker may take it.
//!
//! Regression test: a server that refused logins, or was a standby, for two seconds made the runtime take its answer
//! for a verdict on every turn. The suspensions failed as well, the instances were forgotten, and the store listed the
//! live worker as their owner for good.

use std::time::Duration;

use perdure_provider::{ProviderErrorKind, Queues, Status, WorkerId, Write};

use crate::support::{Call, Fixture, Op, Script};
use perdure_runtime::internals::{look_for_tasks, look_for_work};
use perdure_runtime::{AbortReason, RuntimeOptions};

const LEASE: Duration = Duration::from_secs(3);
/// The time from one renewal to the next, ms.
const RENEWAL_MS: u64 = 1_000;
const AB: Script = &[Op::Activity("a"), Op::Activity("b")];

fn options() -> RuntimeOptions {
    RuntimeOptions {
        lease: LEASE,
        ..RuntimeOptions::default()
    }
}

/// Lets time pass, in steps that are shorter than the pause between two tries.
async fn pass(f: &mut Fixture, ms: u64) {
    for _ in 0..ms / 20 {
        f.advance(20).await;
    }
}

/// Errors that say nothing about the request.
const NO_VERDICTS: [ProviderErrorKind; 7] = [
    ProviderErrorKind::Busy,
    ProviderErrorKind::NoMemory,
    ProviderErrorKind::Io,
    ProviderErrorKind::Full,
    ProviderErrorKind::Unavailable,
    ProviderErrorKind::CannotOpen,
    ProviderErrorKind::NotADatabase,
];

#[tokio::test(start_paused = true)]
async fn a_store_that_refuses_for_a_moment_suspends_nothing() {
    for kind in NO_VERDICTS {
        let mut f = Fixture::started(options(), AB).await;
        for id in ["1", "2", "3"] {
            f.start(id).await;
        }
        let worker = f.runtime_worker();
        f.memory.fail(Call::Commit, kind, 5);
        f.memory.fail(Call::Renew, kind, 3);
        for _ in 0..3 {
            f.complete("a").await;
        }
        pass(&mut f, 2 * RENEWAL_MS).await;
        for _ in 0..3 {
            f.complete("b").await;
        }
        for id in ["1", "2", "3"] {
            assert_eq!(f.memory.get(id).status, Status::Completed, "{id} after {kind:?}");
        }
        assert_eq!(f.runtime_worker(), worker, "its lease did not end");
        f.assert_empty();
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_for_an_instance_is_repeated_until_the_store_answers() {
    for kind in NO_VERDICTS {
        let options = RuntimeOptions {
            cached_instances_max: 0,
            ..options()
        };
        let mut f = Fixture::started(options, AB).await;
        f.start("i").await;
        f.memory.fail(Call::History, kind, 3);
        f.complete("a").await;
        pass(&mut f, RENEWAL_MS).await;
        f.complete("b").await;
        assert_eq!(f.memory.get("i").status, Status::Completed, "after {kind:?}");
        f.assert_empty();
    }
}

/// The end of the lease decides if a worker lives, not the error of a renewal.
#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_until_it_ends_after_any_error() {
    for kind in [ProviderErrorKind::Internal, ProviderErrorKind::Corrupt]
        .iter()
        .chain(&NO_VERDICTS)
    {
        let mut f = Fixture::started(options(), AB).await;
        let worker = f.runtime_worker();
        f.start("i").await;
        f.memory.fail(Call::Renew, *kind, 4);
        pass(&mut f, 5 * RENEWAL_MS).await;
        assert_eq!(f.runtime_worker(), worker, "after {kind:?}");
        assert_eq!(f.aborted, []);
        f.complete("a").await;
        f.complete("b").await;
        f.assert_empty();
    }
}

/// The cause does not matter.
#[tokio::test(start_paused = true)]
async fn an_instance_that_the_worker_does_not_know_is_released_within_two_renewals() {
    let mut f = Fixture::started(options(), &[Op::Event("go")]).await;
    f.start("i").await;
    let worker = WorkerId(f.runtime_worker().into());
    f.memory.row("i", |row| row.owner = Some(worker.clone()));
    // No other worker may take the instance, and a message goes to its owner.
    f.event("i", "go").await;
    pass(&mut f, 2 * RENEWAL_MS + 100).await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    assert!(
        f.logged.iter().any(|line| line.contains("does not know of")),
        "{:?}",
        f.logged
    );
    f.assert_empty();
}

/// The unknown instance is found even among many that the worker does know, with work that comes and goes all the time.
#[tokio::test(start_paused = true)]
async fn an_unknown_instance_is_found_among_those_that_come_and_go() {
    let mut f = Fixture::started(options(), AB).await;
    f.script("waits", &[Op::Event("go")]);
    f.ask_start("orphan", "waits");
    f.settle().await;
    for n in 0..10 {
        f.start(&format!("held {n}")).await;
    }
    let worker = WorkerId(f.runtime_worker().into());
    f.memory.row("orphan", |row| row.owner = Some(worker));
    f.event("orphan", "go").await;
    for n in 0..21 {
        f.start(&format!("busy {n}")).await;
        f.complete("a").await;
        f.complete("b").await;
        pass(&mut f, 100).await;
    }
    assert_eq!(f.memory.get("orphan").status, Status::Completed);
    assert_eq!(f.aborted, []);
}

#[tokio::test(start_paused = true)]
async fn a_worker_whose_sums_are_right_asks_for_no_list() {
    let mut f = Fixture::started(options(), AB).await;
    for id in ["1", "2", "3"] {
        f.start(id).await;
    }
    pass(&mut f, 10 * RENEWAL_MS).await;
    assert!(f.memory.renewals().len() >= 9);
    assert_eq!(f.memory.lists_of_owned(), 0);
}

/// An instance that is being acquired is the worker's in the store before the worker hears of it, however long that
/// takes.
#[tokio::test(start_paused = true)]
async fn an_instance_that_is_being_acquired_is_not_released() {
    let mut f = Fixture::new(options());
    f.script("main", &[Op::Activity("a")]);
    f.ask_start("i", "main");
    f.settle().await;
    f.memory.hold(Call::Acquire);
    f.begin().await;
    let epoch = f.memory.get("i").epoch;
    assert!(
        f.memory.get("i").owner.is_some(),
        "it is acquired, and nobody has heard of it"
    );
    pass(&mut f, 10 * RENEWAL_MS).await;
    f.memory.resume(Call::Acquire);
    f.settle().await;
    f.complete("a").await;
    let row = f.memory.get("i");
    assert_eq!((row.status, row.epoch), (Status::Completed, epoch));
    assert_eq!(f.attempts, ["a"]);
    f.assert_empty();
}

/// An instance that is being started is not released, nor a child that a turn starts.
#[tokio::test(start_paused = true)]
async fn an_instance_that_is_being_started_is_not_released() {
    let mut f = Fixture::started(options(), &[Op::Child("child", "c")]).await;
    f.script("child", &[Op::Activity("a")]);
    f.memory.hold(Call::Commit);
    let started = f.ask_start("i", "main");
    f.settle().await;
    let answer = f.memory.write_held();
    assert!(
        f.memory.get("c").owner.is_some(),
        "it is written, and nobody has heard of it"
    );
    pass(&mut f, 10 * RENEWAL_MS).await;
    answer();
    f.memory.resume(Call::Commit);
    f.settle().await;
    assert!(started.take().expect("it was answered").is_ok());
    f.complete("a").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    assert_eq!(f.attempts, ["a"]);
    assert_eq!(f.metrics().fenced, 0);
    f.assert_empty();
}

/// A turn that releases or ends its instance is durable before the worker hears of it.
#[tokio::test(start_paused = true)]
async fn an_instance_that_is_being_released_is_not_released_again() {
    let mut f = Fixture::started(options(), AB).await;
    f.start("i").await;
    f.memory.hold(Call::Commit);
    f.complete("a").await;
    pass(&mut f, 5 * RENEWAL_MS).await;
    f.memory.resume(Call::Commit);
    f.settle().await;
    f.complete("b").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    assert_eq!(f.aborted, []);
    assert!(
        !f.logged.iter().any(|line| line.contains("did not know")),
        "{:?}",
        f.logged
    );
    f.assert_empty();
}

/// The instance became another worker's without a notice: it would stay here for ever, and its activity with it.
#[tokio::test(start_paused = true)]
async fn an_instance_that_the_store_does_not_list_is_forgotten_within_two_renewals() {
    let mut f = Fixture::started(options(), &[Op::Activity("a")]).await;
    f.memory.add_worker("other");
    f.start("i").await;
    f.memory.row("i", |row| {
        row.owner = Some(WorkerId("other".into()));
        row.epoch.0 += 1;
    });
    pass(&mut f, 2 * RENEWAL_MS + 100).await;
    assert_eq!(f.aborted, [AbortReason::LeaseLost]);
    f.memory.remove_worker("other");
    look_for_work(&f.store);
    pass(&mut f, RENEWAL_MS).await;
    f.complete("a").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

/// A store that lost its last commits lists the instance as this worker's in an earlier epoch.
#[tokio::test(start_paused = true)]
async fn an_instance_of_an_earlier_epoch_is_released() {
    let mut f = Fixture::started(options(), &[Op::Event("go"), Op::Activity("a")]).await;
    f.start("i").await;
    f.event("i", "go").await;
    f.memory.row("i", |row| row.epoch.0 -= 1);
    f.complete("a").await;
    pass(&mut f, 3 * RENEWAL_MS).await;
    f.complete("a").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

/// Returns a worker whose orchestration schedules the activity `render`, and another worker that runs it.
async fn with_helper() -> (Fixture, Fixture) {
    let serving = RuntimeOptions {
        queues: Queues::Named(vec!["gpu".into()]),
        ..options()
    };
    let owner = Fixture::started(options(), &[Op::Queued("gpu", "render")]).await;
    let mut helper = owner.beside(serving);
    helper.runtime.register_activity("render".into());
    helper.begin().await;
    (owner, helper)
}

#[tokio::test(start_paused = true)]
async fn a_task_that_the_worker_does_not_know_is_returned_within_two_renewals() {
    let (mut owner, mut helper) = with_helper().await;
    owner.start("i").await;
    helper.settle().await;
    // The worker forgets the attempt by an unknown fault.
    assert_eq!(helper.session().expect("it is started").forget_tasks(), 1);
    helper.settle().await;
    assert_eq!((helper.attempts.len(), helper.running.len()), (1, 0));
    for _ in 0..3 {
        owner.advance(RENEWAL_MS).await;
        helper.settle().await;
    }
    helper.complete("render").await;
    owner.settle().await;
    assert_eq!(owner.memory.get("i").status, Status::Completed);
    assert_eq!(helper.attempts.len(), 2);
    helper.assert_empty();
}

/// A task that is being acquired is the worker's in the store before the worker hears of it, however long that takes.
#[tokio::test(start_paused = true)]
async fn a_task_that_is_being_acquired_is_not_released() {
    let (mut owner, mut helper) = with_helper().await;
    owner.memory.hold(Call::Tasks);
    owner.start("i").await;
    helper.settle().await;
    owner.memory.add_worker("other");
    let left = owner.memory.take_tasks("other", "gpu", "render");
    assert_eq!(left.len(), 0, "it is taken, and no worker has heard of it");
    for _ in 0..10 {
        owner.advance(RENEWAL_MS).await;
        helper.settle().await;
    }
    owner.memory.resume(Call::Tasks);
    helper.settle().await;
    helper.complete("render").await;
    owner.settle().await;
    assert_eq!(owner.memory.get("i").status, Status::Completed);
    assert_eq!(helper.attempts, ["render"]);
    helper.assert_empty();
}

/// Regression test: the instance stayed with the worker in the store for as long as the worker lived.
#[tokio::test(start_paused = true)]
async fn a_suspension_that_the_store_refuses_is_written_without_its_report() {
    let mut f = Fixture::started(options(), &[Op::Activity("a")]).await;
    f.start("i").await;
    let is_told = |write: &Write| {
        let Write::Turn(turn) = write else { return false };
        format!("{:?}", turn.after).contains("could not be stored")
    };
    f.memory
        .refuse(move |write| is_told(write) || matches!(write, Write::Turn(turn) if !turn.events.is_empty()));
    f.complete("a").await;
    assert!(f.logged.iter().any(|line| line.contains("could not be suspended")));
    pass(&mut f, 5 * RENEWAL_MS).await;
    let row = f.memory.get("i");
    assert_eq!((row.status, row.owner), (Status::Suspended, None));
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_cannot_be_suspended_is_released() {
    let mut f = Fixture::started(options(), &[Op::Activity("a")]).await;
    f.start("i").await;
    f.memory.refuse(|write| matches!(write, Write::Turn(_)));
    f.complete("a").await;
    let epoch = f.memory.get("i").epoch;
    pass(&mut f, 20 * RENEWAL_MS).await;
    assert!(f.memory.get("i").epoch > epoch, "it is acquired again");
    f.memory.refuse(|_| false);
    pass(&mut f, 10 * RENEWAL_MS).await;
    f.complete("a").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
}

/// A worker whose lease is renewed, and that has lost the task that acquires for it, holds its instances for nothing.
#[tokio::test(start_paused = true)]
async fn a_panic_in_one_of_its_tasks_ends_the_session_and_another_worker_continues() {
    for call in [Call::Acquire, Call::Inbox, Call::Renew, Call::Tasks, Call::Load] {
        let replaying = RuntimeOptions {
            cached_instances_max: 0,
            ..options()
        };
        let mut f = Fixture::started(replaying, &[Op::Activity("a"), Op::Event("go")]).await;
        f.start("i").await;
        let worker = f.runtime_worker();
        f.memory.panic_at(call);
        f.complete("a").await;
        f.ask_event("i", "go");
        look_for_work(&f.store);
        look_for_tasks(&f.store);
        f.session().expect("it is started").look_for_messages();
        pass(&mut f, 2 * RENEWAL_MS).await;
        if call == Call::Load {
            // Only the task that panicked knew its result.
            f.complete("a").await;
        }
        assert_ne!(f.runtime_worker(), worker, "after a panic at {call:?}");
        assert!(
            f.logged
                .iter()
                .any(|line| line.contains("a defect of Perdure: planned"))
        );
        assert_eq!(f.memory.get("i").status, Status::Completed, "after a panic at {call:?}");
        f.assert_empty();
    }
}

/// Stores the turn of an instance without its answer; the instance is then suspended, resumed and acquired here again.
async fn acquired_again_before_a_turn_is_answered(f: &mut Fixture) {
    let answer = f.memory.write_held();
    f.memory.resume(Call::Commit);
    f.memory.row("i", |row| {
        row.owner = None;
        row.wake_at_ms = Some(0);
    });
    look_for_work(&f.store);
    f.settle().await;
    assert_eq!(f.running.len(), 1, "it goes on");
    answer();
    f.settle().await;
    assert_eq!((f.running.len(), f.aborted.len()), (1, 0), "and is not disturbed");
}

async fn with_two_commits(script: Script) -> Fixture {
    let mut f = Fixture::with_commits(options(), 2);
    f.script("main", script);
    f.begin().await;
    f.start("i").await;
    f
}

/// The attempt that the answer brought was taken for that of the owner, whose own was given up for it.
#[tokio::test(start_paused = true)]
async fn a_late_answer_starts_nothing_of_an_instance_that_was_acquired_again() {
    let mut f = with_two_commits(&[Op::Retried("a"), Op::Activity("b")]).await;
    f.memory.hold(Call::Commit);
    f.fail("a", 0).await;
    acquired_again_before_a_turn_is_answered(&mut f).await;
    assert_eq!(f.attempts, ["a", "a"]);
    f.complete("a").await;
    f.complete("b").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

/// Regression test: the execution was taken up in the epoch that it had, and the one in its place was forgotten.
#[tokio::test(start_paused = true)]
async fn a_late_answer_does_not_bring_an_execution_back_that_was_acquired_again() {
    let mut f = with_two_commits(&[Op::Activity("a"), Op::ContinueTo(2, None)]).await;
    f.memory.hold(Call::Commit);
    f.complete("a").await;
    acquired_again_before_a_turn_is_answered(&mut f).await;
    assert!(
        !f.logged.iter().any(|line| line.contains("was not stored")),
        "{:?}",
        f.logged
    );
    f.complete("a").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}
