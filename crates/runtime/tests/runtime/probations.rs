//! Probations find the instance that a dead worker died of (P14, T1 to T3).

use std::time::Duration;

use perdure_provider::{InstanceKey, ProbationStep, Status, Suspicion};

use crate::support::{Call, Fixture, Op, Script};
use perdure_runtime::RuntimeOptions;
use perdure_runtime::internals::{look_for_work, now_ms};

const MAIN: Script = &[Op::Activity("a"), Op::Activity("b")];

/// Lets the worker die where it is, and another process begin.
async fn die(mut f: Fixture) -> Fixture {
    f.memory.bury_worker(&f.runtime_worker());
    f.shut_down(Duration::ZERO).await;
    let mut next = f.beside(RuntimeOptions::default());
    next.script("main", MAIN);
    next.begin().await;
    for _ in 0..6 {
        next.advance(500).await;
    }
    next
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_waits_is_never_suspended_by_deaths() {
    let mut f = Fixture::started(RuntimeOptions::default(), MAIN).await;
    f.start("i").await;
    for _ in 0..10 {
        f = die(f).await;
        assert_eq!(f.attempts, ["a"], "it waits for its activity, here");
    }
    assert_eq!(f.memory.get("i").suspicion, Suspicion::SUSPECT);
    f.complete("a").await;
    assert_eq!(f.memory.get("i").suspicion, Suspicion(0), "it got on");
    let probations = f.memory.probations();
    f.complete("b").await;
    assert_eq!(f.memory.probations(), probations, "nothing speaks against it");
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_takes_its_workers_down_is_suspended_and_the_others_continue() {
    let mut f = Fixture::started(RuntimeOptions::default(), MAIN).await;
    for id in ["good", "bad", "better"] {
        f.start(id).await;
    }
    let mut deaths = 0;
    while f.memory.get("bad").status == Status::Running {
        // The turn that follows the activity never returns, and its process is gone.
        f.turn_after("bad").await;
        f = die(f).await;
        deaths += 1;
    }
    assert_eq!(deaths, 5);
    let row = f.memory.get("bad");
    assert_eq!((row.status, row.owner), (Status::Suspended, None));
    for id in ["good", "better"] {
        let row = f.memory.get(id);
        assert_eq!((row.status, row.suspicion), (Status::Running, Suspicion::SUSPECT));
    }
    for name in ["a", "a", "b", "b"] {
        f.complete(name).await;
    }
    for id in ["good", "better"] {
        assert_eq!(f.memory.get(id).status, Status::Completed);
    }
    f.assert_empty();
}

/// A worker may die of the data that an instance holds. The instance is the worker's before any of its data is read,
/// and a suspect is read only once its probation is announced.
#[tokio::test(start_paused = true)]
async fn an_instance_that_takes_down_its_readers_is_suspended_and_the_others_continue() {
    let mut f = Fixture::started(RuntimeOptions::default(), MAIN).await;
    for id in ["good", "bad", "better"] {
        f.start(id).await;
    }
    // The second instance that was started.
    f.memory.poison(InstanceKey(2));
    let mut deaths = 0;
    while f.memory.get("bad").status == Status::Running {
        f = die(f).await;
        deaths += 1;
        assert!(deaths < 10, "{:?}", f.memory.get("bad"));
    }
    assert_eq!(f.memory.get("bad").owner, None);
    for id in ["good", "better"] {
        assert_eq!(f.memory.get(id).status, Status::Running);
    }
    for name in ["a", "a", "b", "b"] {
        f.complete(name).await;
    }
    for id in ["good", "better"] {
        assert_eq!(f.memory.get(id).status, Status::Completed);
    }
    f.assert_empty();
}

/// Returns another process, after the worker has died and all instances have rested.
async fn after(mut f: Fixture) -> Fixture {
    f.memory.bury_worker(&f.runtime_worker());
    f.shut_down(Duration::ZERO).await;
    let mut next = f.beside(RuntimeOptions::default());
    next.script("main", MAIN);
    next
}

/// No turn takes the worker down, so the turns alone would tell nothing, and an instance that has a turn at that time
/// would be blamed.
#[tokio::test(start_paused = true)]
async fn an_activity_that_takes_its_workers_down_is_found_too() {
    let mut f = Fixture::started(RuntimeOptions::default(), MAIN).await;
    for id in ["good", "bad", "better"] {
        f.start(id).await;
    }
    let mut deaths = 0;
    loop {
        // The activity takes the worker down as soon as it begins.
        while !f.running.iter().any(|job| job.instance_id == "bad") {
            f.advance(100).await;
        }
        deaths += 1;
        let mut next = after(f).await;
        next.begin().await;
        f = next;
        if f.memory.get("bad").status == Status::Suspended {
            break;
        }
    }
    assert_eq!(deaths, 6, "one of them was with others");
    f.advance(5_000).await;
    for name in ["a", "a", "b", "b"] {
        f.complete(name).await;
    }
    for id in ["good", "better"] {
        assert_eq!(f.memory.get(id).status, Status::Completed);
    }
    f.assert_empty();
}

/// A storm of kills ends the long activity of an instance again and again. Its workers live long enough in between.
#[tokio::test(start_paused = true)]
async fn an_instance_whose_activity_is_killed_again_and_again_is_not_suspended_unless_it_is_in_a_row() {
    let mut f = Fixture::started(RuntimeOptions::default(), MAIN).await;
    f.start("i").await;
    for death in 1..=30 {
        while f.running.is_empty() {
            f.advance(100).await;
        }
        if death % 3 == 0 {
            f.advance(1_000).await;
        }
        f = after(f).await;
        f.begin().await;
        assert_eq!(f.memory.get("i").status, Status::Running, "after {death} deaths");
    }
    f.advance(5_000).await;
    for name in ["a", "b"] {
        f.complete(name).await;
    }
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn suspects_are_on_probation_together_and_alone_when_there_is_evidence() {
    for (suspicion, together) in [
        // The first suspect comes before the others are known.
        (Suspicion::SUSPECT, &[1, 2][..]),
        (Suspicion::ISOLATED, &[1, 1, 1]),
    ] {
        let mut f = Fixture::started(RuntimeOptions::default(), MAIN).await;
        for id in ["i", "j", "k"] {
            f.start(id).await;
            f.memory.row(id, |row| row.suspicion = suspicion);
        }
        let mut f = after(f).await;
        f.advance(1_000).await;
        f.begin().await;
        let on_probation = |f: &Fixture| {
            ["i", "j", "k"]
                .into_iter()
                .filter(|id| f.memory.get(id).on_probation != ProbationStep::End)
                .count()
        };
        let mut on_probation_now = 0;
        for now in together {
            on_probation_now += now;
            assert_eq!(
                (f.memory.probations(), f.turns.len(), on_probation(&f)),
                (on_probation_now, on_probation_now, *now)
            );
            f.advance(400).await;
            assert_eq!(f.memory.probations(), on_probation_now, "their activities run");
            f.advance(100).await;
        }
        assert_eq!(on_probation(&f), 0);
        f.terminate("i").await;
        for name in ["a", "a", "b", "b"] {
            f.complete(name).await;
        }
        f.assert_empty();
    }
}

/// The instance's turn comes before its activities have run for long enough, and the probation goes on with it.
#[tokio::test(start_paused = true)]
async fn a_probation_ends_when_its_instance_gets_on() {
    let mut f = Fixture::started(RuntimeOptions::default(), MAIN).await;
    f.start("i").await;
    f.memory.row("i", |row| row.suspicion = Suspicion::SUSPECT);
    let mut f = after(f).await;
    f.begin().await;
    assert_eq!(f.memory.get("i").on_probation, ProbationStep::Activities);
    f.complete("a").await;
    let row = f.memory.get("i");
    assert_eq!(
        (row.on_probation, row.suspicion, f.alarms()),
        (ProbationStep::End, Suspicion(0), 0)
    );
    assert_eq!(f.memory.probations(), 1);
    f.complete("b").await;
    f.assert_empty();
}

/// The store is away for longer than the lease, again and again.
#[tokio::test(start_paused = true)]
async fn a_lease_that_was_lost_says_nothing() {
    let options = RuntimeOptions {
        lease: Duration::from_secs(3),
        ..RuntimeOptions::default()
    };
    let mut f = Fixture::started(options, MAIN).await;
    f.start("i").await;
    for _ in 0..6 {
        let worker = f.runtime_worker();
        f.memory.hold(Call::Renew);
        while f.runtime_worker() == worker {
            f.advance(200).await;
        }
        f.memory.resume(Call::Renew);
        f.advance(1_000).await;
        assert_eq!(f.memory.get("i").suspicion, Suspicion(0));
    }
    f.complete("a").await;
    f.complete("b").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

/// Regression test: the generator was kept, so the instance was not forgotten and its probation never ended. All other
/// suspects waited for theirs.
#[tokio::test(start_paused = true)]
async fn a_probation_ends_when_its_instance_goes_back_to_sleep() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[Op::Event("go")]).await;
    for round in 0..2 {
        for id in ["i", "j"] {
            if round == 0 {
                f.start(id).await;
            }
            let now = now_ms(&f.store);
            f.memory.row(id, |row| {
                (row.suspicion, row.wake_at_ms) = (Suspicion::SUSPECT, Some(now));
            });
        }
        look_for_work(&f.store);
        f.settle().await;
        assert_eq!(f.memory.probations(), 2 * (round + 1));
        assert_eq!(f.memory.get("j").owner, None, "it had its turn");
    }
    for id in ["i", "j"] {
        f.event(id, "go").await;
        assert_eq!(f.memory.get(id).status, Status::Completed);
    }
    f.assert_empty();
}
