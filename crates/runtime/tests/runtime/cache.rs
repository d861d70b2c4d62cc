//! The cache of generators: how many are kept, which are evicted, and how they come back.

use perdure_provider::{ProviderErrorKind, Status};

use crate::support::{Call, Fixture, Op};
use perdure_runtime::RuntimeOptions;
use perdure_runtime::internals::limits::{CACHE_IDLE_EVENTS, CACHE_KEPT};

fn cached(cached_instances_max: usize) -> RuntimeOptions {
    RuntimeOptions {
        cached_instances_max,
        ..RuntimeOptions::default()
    }
}

#[tokio::test(start_paused = true)]
async fn the_least_recently_used_is_evicted_and_comes_back_by_replay() {
    let mut f = Fixture::started(cached(2), &[Op::Activity("a"), Op::Activity("b")]).await;
    for id in ["1", "2", "3"] {
        f.start(id).await;
    }
    assert_eq!((f.generators(), f.metrics().cached_instances), (2, 2));
    assert_eq!(f.runtime.map_sizes().instances, 3, "all are owned");
    let job = f
        .running
        .iter()
        .position(|job| job.instance_id == "1")
        .expect("it runs");
    let job = f.running.remove(job);
    assert!(
        !f.runtime.complete_activity(f.lane, job.token, None),
        "it is read first"
    );
    f.settle().await;
    assert_eq!(f.generators(), 2);
    for name in ["a", "a", "b", "b", "b"] {
        f.complete(name).await;
    }
    assert_eq!(f.attempts.len(), 6, "none twice");
    for id in ["1", "2", "3"] {
        assert_eq!(f.memory.get(id).status, Status::Completed);
    }
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn without_a_cache_every_turn_is_a_replay() {
    let script = &[Op::Activity("a"), Op::Event("go"), Op::Sleep(10), Op::Activity("b")];
    let mut f = Fixture::started(cached(0), script).await;
    f.start("i").await;
    f.complete("a").await;
    f.event("i", "go").await;
    for _ in 0..3 {
        f.advance(10).await;
    }
    f.complete("b").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    assert_eq!(f.attempts, ["a", "b"]);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn released_generators_are_evicted_too() {
    let mut f = Fixture::started(cached(3), &[Op::Event("go")]).await;
    for n in 0..20 {
        f.start(&format!("i{n}")).await;
    }
    assert_eq!((f.generators(), f.runtime.map_sizes().instances), (3, 3));
    for n in 0..20 {
        let id = format!("i{n}");
        f.event(&id, "go").await;
        assert_eq!(f.memory.get(&id).status, Status::Completed);
    }
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn instances_in_use_stay_until_they_wait() {
    let mut f = Fixture::started(cached(1), &[Op::Activity("a")]).await;
    f.memory.hold(Call::Commit);
    for n in 0..100 {
        f.ask_start(&format!("i{n}"), "main");
    }
    f.settle().await;
    f.memory.resume(Call::Commit);
    f.settle().await;
    assert_eq!(f.generators(), 1);
    while !f.running.is_empty() {
        f.complete("a").await;
    }
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn messages_that_come_while_history_is_read_are_delivered_after_it() {
    let mut f = Fixture::started(
        cached(0),
        &[Op::Spawn("a"), Op::Event("1"), Op::Event("2"), Op::Event("3")],
    )
    .await;
    f.start("i").await;
    f.memory.hold(Call::Load);
    f.event("i", "2").await;
    f.event("i", "1").await;
    f.event("i", "3").await;
    f.complete("a").await;
    f.memory.resume(Call::Load);
    f.settle().await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    assert_eq!(f.attempts, ["a"]);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_history_that_cannot_be_read_for_a_while_is_waited_for() {
    let mut f = Fixture::started(cached(0), &[Op::Activity("a"), Op::Activity("b")]).await;
    f.start("i").await;
    f.memory.fail(Call::Load, ProviderErrorKind::Io, 3);
    f.complete("a").await;
    for _ in 0..5 {
        f.advance(100).await;
    }
    f.complete("b").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn idle_instances_are_evicted_until_few_are_left() {
    let script = &[Op::Activity("a"), Op::Event("go"), Op::Activity("b")];
    let mut f = Fixture::started(cached(1_000), script).await;
    let ids: Vec<String> = (0..CACHE_KEPT + 2).map(|n| format!("i{n}")).collect();
    for id in &ids {
        f.start(id).await;
    }
    f.advance(9_000).await;
    assert_eq!(f.generators(), ids.len());
    assert_eq!(f.running[0].instance_id, "i0");
    f.complete("a").await;
    f.advance(2_000).await;
    assert_eq!(
        (f.generators(), f.metrics().cached_instances),
        (CACHE_KEPT, CACHE_KEPT as u64)
    );
    f.advance(86_400_000).await;
    assert_eq!(f.generators(), CACHE_KEPT);
    // An evicted instance comes back by replay, and no activity that ran runs again.
    for _ in 1..ids.len() {
        f.complete("a").await;
    }
    for id in &ids {
        f.event(id, "go").await;
    }
    for _ in &ids {
        f.complete("b").await;
    }
    for id in &ids {
        assert_eq!(f.memory.get(id).status, Status::Completed);
    }
    assert_eq!(f.attempts.len(), 2 * ids.len(), "none twice");
    f.assert_empty();
}

/// Each step has two events.
const STEPS: usize = CACHE_IDLE_EVENTS as usize / 2;
/// A script whose replay takes long.
const LONG: [Op; STEPS + 1] = {
    let mut script = [Op::Activity("a"); STEPS + 1];
    script[STEPS] = Op::Event("go");
    script
};

#[tokio::test(start_paused = true)]
async fn an_instance_with_a_long_replay_makes_way_for_one_in_use() {
    let mut f = Fixture::started(cached(1), &LONG).await;
    f.start("long").await;
    for _ in 0..STEPS {
        f.complete("a").await;
    }
    f.advance(60_000).await;
    assert_eq!(f.generators(), 1);
    f.start("other").await;
    assert_eq!(f.generators(), 1);
    f.event("long", "go").await;
    assert_eq!(f.attempts.len(), STEPS + 1, "none twice");
    assert_eq!(f.memory.get("long").status, Status::Completed);
}

#[tokio::test(start_paused = true)]
async fn an_instance_with_a_long_replay_stays_while_there_is_room() {
    let mut f = Fixture::started(cached(CACHE_KEPT + 1), &LONG).await;
    f.start("long").await;
    for _ in 0..STEPS {
        f.complete("a").await;
    }
    f.advance(5_000).await;
    for n in 0..CACHE_KEPT {
        f.start(&format!("i{n}")).await;
    }
    // The long one was unused for the longest time, and the next one is evicted instead.
    f.advance(60_000).await;
    assert_eq!(f.generators(), CACHE_KEPT);
    assert_eq!(f.running[0].instance_id, "i0");
    f.event("long", "go").await;
    assert_eq!(f.metrics().cache_hits, 1);
    assert_eq!(f.memory.get("long").status, Status::Completed);
}
