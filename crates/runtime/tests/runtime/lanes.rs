//! Several threads: which jobs run on which thread, and what happens to the jobs of a thread that is gone.

use perdure_provider::Status;
use perdure_scheduler::LaneId;

use crate::support::MAIN;
use crate::support::{Call, Fixture, Op};
use perdure_runtime::RuntimeOptions;

const ONE: LaneId = LaneId(1);

fn threads(threads: usize) -> RuntimeOptions {
    RuntimeOptions {
        threads,
        ..RuntimeOptions::default()
    }
}

#[tokio::test(start_paused = true)]
async fn all_threads_run_instances_and_a_generator_stays_where_it_was_made() {
    let script = &[Op::Activity("a"), Op::Event("go"), Op::Activity("b")];
    let mut f = Fixture::started(threads(2), script).await;
    let ids: Vec<String> = (0..30).map(|n| format!("i{n}")).collect();
    for id in &ids {
        f.ask_start(id, "main");
    }
    f.settle().await;
    let mut pinned_lanes = f.pinned_lanes();
    assert_eq!(pinned_lanes.len(), 30);
    pinned_lanes.dedup();
    assert!(pinned_lanes.len() > 1, "{pinned_lanes:?}");
    for _ in &ids {
        f.complete("a").await;
    }
    for id in &ids {
        f.event(id, "go").await;
    }
    for _ in &ids {
        f.complete("b").await;
    }
    for id in &ids {
        assert_eq!(f.memory.get(id).status, Status::Completed, "{id}");
    }
    assert_eq!(f.attempts.len(), 60, "none twice");
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn orchestrations_of_the_first_thread_alone_run_there() {
    let mut f = Fixture::new(threads(2));
    f.is_on_main_alone = true;
    f.script("main", &[Op::Activity("a"), Op::Inline("b")]);
    f.begin().await;
    for n in 0..10 {
        f.start(&format!("i{n}")).await;
    }
    assert_eq!(f.pinned_lanes(), [MAIN; 10]);
    for name in ["a", "b"] {
        assert!(f.given_to.values().all(|lane| *lane == MAIN));
        for _ in 0..10 {
            f.complete(name).await;
        }
    }
    f.assert_empty();
}

/// An inline activity is a closure of the generator, and runs where that is.
#[tokio::test(start_paused = true)]
async fn an_inline_activity_runs_on_the_thread_of_its_generator() {
    let mut f = Fixture::started(threads(2), &[Op::Inline("a"), Op::Inline("b")]).await;
    for n in 0..20 {
        f.ask_start(&format!("i{n}"), "main");
    }
    f.settle().await;
    assert!(f.pinned_lanes().iter().any(|lane| *lane != MAIN));
    for name in ["a", "b"] {
        for _ in 0..20 {
            f.complete(name).await;
        }
    }
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_thread_that_is_gone_loses_nothing_and_another_one_takes_its_place() {
    let script = &[Op::Activity("a"), Op::Event("go"), Op::Activity("b")];
    let mut f = Fixture::started(threads(1), script).await;
    let ids: Vec<String> = (0..40).map(|n| format!("i{n}")).collect();
    for id in &ids {
        f.ask_start(id, "main");
    }
    f.settle().await;
    // Some wait for an activity, and some for an event.
    for _ in 0..20 {
        f.complete("a").await;
    }
    let lost = f.pinned_lanes().iter().filter(|lane| **lane == ONE).count();
    assert!(lost > 0 && lost < 40, "{lost}");
    f.lose(ONE).await;
    assert!(f.pinned_lanes().iter().all(|lane| *lane == MAIN));
    assert_eq!(f.running.len(), 20, "what it ran runs again");
    f.attach(ONE).await;
    for _ in 0..20 {
        f.complete("a").await;
    }
    for id in &ids {
        f.event(id, "go").await;
    }
    assert!(f.pinned_lanes().contains(&ONE), "it takes work again");
    for _ in &ids {
        f.complete("b").await;
    }
    for id in &ids {
        assert_eq!(f.memory.get(id).status, Status::Completed, "{id}");
    }
    f.assert_empty();
}

async fn one_on_the_other_thread() -> Fixture {
    let mut f = Fixture::started(threads(1), &[Op::Activity("a"), Op::Activity("b")]).await;
    // The first thread gets no work while another one has nothing to do.
    f.start("i").await;
    assert_eq!((f.pinned_lanes(), f.running.len()), (vec![ONE], 1));
    f
}

async fn completes(mut f: Fixture, left: &[&str], attempts: &[&str]) {
    for name in left {
        f.complete(name).await;
    }
    assert_eq!(f.memory.get("i").status, Status::Completed);
    assert_eq!(f.attempts, attempts);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_thread_may_go_in_the_middle_of_a_turn() {
    let mut f = one_on_the_other_thread().await;
    let token = f.turn_after("i").await;
    f.lose(ONE).await;
    assert!(f.runtime.describe(token).is_err(), "its turn is over");
    // The instance rests, because it may have been the reason.
    f.advance(60_000).await;
    // The events of that turn are not stored.
    completes(f, &["a", "b"], &["a", "a", "b"]).await;
}

/// Three losses are enough, as with whole workers.
#[tokio::test(start_paused = true)]
async fn an_instance_whose_turn_takes_down_each_thread_is_suspended_and_the_others_continue() {
    let mut f = one_on_the_other_thread().await;
    for n in 0..5 {
        f.start(&format!("other {n}")).await;
    }
    for _ in 0..3 {
        f.turn_after("i").await;
        let lane = f.lane;
        f.lose(lane).await;
        f.attach(lane).await;
        f.advance(60_000).await;
    }
    assert_eq!(f.memory.get("i").status, Status::Suspended);
    for name in ["a", "b"] {
        for _ in 0..5 {
            f.complete(name).await;
        }
    }
    for n in 0..5 {
        assert_eq!(f.memory.get(&format!("other {n}")).status, Status::Completed);
    }
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn an_instance_whose_activity_takes_down_each_thread_is_suspended() {
    let mut f = one_on_the_other_thread().await;
    for _ in 0..3 {
        assert_eq!(f.running.len(), 1);
        let lane = f.given_to[&f.running[0].token];
        f.lose(lane).await;
        f.attach(lane).await;
        f.advance(60_000).await;
    }
    assert_eq!((f.memory.get("i").status, f.attempts.len()), (Status::Suspended, 3));
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_thread_may_go_while_its_turn_is_written() {
    let mut f = one_on_the_other_thread().await;
    f.memory.hold(Call::Commit);
    f.complete("a").await;
    f.lose(ONE).await;
    f.memory.resume(Call::Commit);
    f.settle().await;
    completes(f, &["b"], &["a", "b"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_thread_may_go_while_the_start_of_its_instance_is_written() {
    let mut f = Fixture::started(threads(1), &[Op::Activity("a"), Op::Activity("b")]).await;
    f.memory.hold(Call::Commit);
    let answer = f.ask_start("i", "main");
    f.settle().await;
    assert_eq!(f.pinned_lanes(), [ONE]);
    f.lose(ONE).await;
    f.memory.resume(Call::Commit);
    f.settle().await;
    answer.take().expect("it was answered").expect("it is started");
    completes(f, &["a", "b"], &["a", "b"]).await;
}

/// Seed 1051 of the simulator: the children were this worker's in the store, but the worker did not know of them, and
/// no worker ran them.
#[tokio::test(start_paused = true)]
async fn children_of_a_first_turn_run_although_its_thread_is_gone() {
    let mut f = Fixture::started(threads(1), &[Op::Child("child", "c"), Op::Activity("b")]).await;
    f.script("child", &[Op::Activity("a")]);
    f.memory.hold(Call::Commit);
    let answer = f.ask_start("i", "main");
    f.settle().await;
    assert_eq!(f.pinned_lanes(), [ONE]);
    f.lose(ONE).await;
    f.memory.resume(Call::Commit);
    f.settle().await;
    answer.take().expect("it was answered").expect("it is started");
    completes(f, &["a", "b"], &["a", "b"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_thread_may_go_in_the_first_turn_of_an_instance() {
    let mut f = Fixture::started(threads(1), &[Op::Activity("a"), Op::Activity("b")]).await;
    f.only = Some(MAIN);
    let answer = f.ask_start("i", "main");
    f.lane = ONE;
    let token = f.next_turn();
    f.lose(ONE).await;
    assert!(f.runtime.describe(token).is_err(), "its turn is over");
    answer.take().expect("it was answered").expect("it is started");
    completes(f, &["a", "b"], &["a", "b"]).await;
}

/// Another worker lives that could take the instances that are released.
#[tokio::test(start_paused = true)]
async fn a_thread_that_is_held_up_releases_instances_that_it_alone_can_run() {
    let mut f = one_on_the_other_thread().await;
    f.only = Some(MAIN);
    f.start("fine").await;
    assert_eq!(f.pinned_lanes(), [MAIN, ONE]);
    f.memory.add_worker("other");
    let token = f.turn_after("i").await;
    let epoch = f.memory.get("i").epoch;
    f.hang(6).await;
    assert!(
        f.held_up.lock()[0].contains("takes no work on thread 1"),
        "{:?}",
        f.held_up.lock()
    );
    assert_eq!(f.memory.get("i").owner, None);
    // The other worker does not take the instance, so the first thread goes on with it.
    f.hang(2).await;
    assert!(f.memory.get("i").epoch > epoch);
    f.lane = MAIN;
    f.settle().await;
    assert_eq!(f.pinned_lanes(), [MAIN, MAIN, ONE]);
    assert!(f.memory.get("fine").owner.is_some());
    assert!(f.session().expect("it is started").takes_work());
    // The thread comes back, and its turn is not stored.
    f.only = None;
    f.lane = ONE;
    f.turn(token);
    f.settle().await;
    f.advance(1_000).await;
    f.complete("a").await;
    f.complete("a").await;
    f.complete("b").await;
    f.complete("b").await;
    for id in ["i", "fine"] {
        assert_eq!(f.memory.get(id).status, Status::Completed, "{id}");
    }
    f.assert_empty();
}
