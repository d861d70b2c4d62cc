//! Inline activities: their function is a closure of the generator, which is there for every attempt (the scripted host
//! checks that).

use std::time::Duration;

use perdure_provider::Status;

use crate::support::{Fixture, Op};
use perdure_runtime::RuntimeOptions;

fn cached(cached_instances_max: usize) -> RuntimeOptions {
    RuntimeOptions {
        cached_instances_max,
        ..RuntimeOptions::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_generator_is_kept_while_one_is_open() {
    let mut f = Fixture::started(cached(0), &[Op::Inline("a"), Op::Activity("b"), Op::Event("go")]).await;
    f.start("i").await;
    assert_eq!(f.generators(), 1);
    f.fail("a", 60_000).await;
    assert_eq!(f.generators(), 1, "until its next attempt");
    f.advance(60_000).await;
    assert_eq!(f.attempts, ["a", "a"]);
    f.complete("a").await;
    assert_eq!(f.generators(), 0, "it is over, and there is no cache");
    f.complete("b").await;
    f.event("i", "go").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

/// Generators with inline activities neither take the place of the others in the cache nor keep them in memory.
#[tokio::test(start_paused = true)]
async fn the_cache_stays_as_small_for_the_others() {
    let mut f = Fixture::new(cached(5));
    f.script("inline", &[Op::Inline("a")]);
    f.script("main", &[Op::Activity("b")]);
    f.begin().await;
    for n in 0..40 {
        f.ask_start(&format!("inline {n}"), "inline");
        f.start(&format!("other {n}")).await;
    }
    f.settle().await;
    assert_eq!(f.metrics().cached_instances, 5);
    assert!((40..=45).contains(&f.generators()));
    for _ in 0..40 {
        f.complete("a").await;
        f.complete("b").await;
    }
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn another_worker_replays_first() {
    let mut f = Fixture::started(cached(10), &[Op::Activity("a"), Op::Inline("b")]).await;
    f.start("i").await;
    f.complete("a").await;
    f.fail("b", 1_000).await;
    f.shut_down(Duration::ZERO).await;
    assert_eq!(f.generators(), 0);
    f.begin().await;
    assert_eq!((f.generators(), f.running.len()), (1, 0), "it waits");
    f.advance(1_000).await;
    assert_eq!(f.attempts, ["a", "b", "b"]);
    assert_eq!(f.running[0].attempt, 2);
    f.complete("b").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_leaves_takes_its_generator_along() {
    let mut f = Fixture::started(cached(0), &[Op::Inline("a")]).await;
    for n in 0..3 {
        f.start(&format!("i{n}")).await;
    }
    f.fail("a", 3_600_000).await;
    for n in 0..3 {
        f.terminate(&format!("i{n}")).await;
    }
    f.assert_empty();
}
