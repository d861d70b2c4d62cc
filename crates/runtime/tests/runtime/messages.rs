//! Messages: each is consumed once and in order, no matter when it comes.

use perdure_provider::{ProviderErrorKind, Status};

use crate::support::{Call, Fixture, Op};
use perdure_runtime::RuntimeOptions;

#[tokio::test(start_paused = true)]
async fn a_message_wakes_a_released_instance_whose_generator_was_kept() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[Op::Event("go"), Op::Event("go")]).await;
    f.start("i").await;
    assert_eq!(f.memory.get("i").owner, None);
    assert_eq!((f.generators(), f.runtime.map_sizes().instances), (1, 1));
    f.event("i", "go").await;
    assert_eq!((f.generators(), f.dropped), (1, 0), "it was used again");
    f.event("i", "go").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_kept_generator_is_not_used_after_another_worker_had_the_instance() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[Op::Event("go"), Op::Event("go")]).await;
    f.start("i").await;
    f.memory.row("i", |row| row.epoch.0 += 1);
    f.event("i", "go").await;
    assert_eq!((f.dropped, f.generators()), (1, 1));
    f.event("i", "go").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_not_awaited_wakes_no_instance() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[Op::Activity("a"), Op::Event("go")]).await;
    f.start("i").await;
    let turns = f.turns.len();
    f.event("i", "other").await;
    f.event("i", "go").await;
    assert_eq!(f.turns.len(), turns);
    f.complete("a").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_message_that_comes_while_the_release_is_written_is_not_slept_through() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[Op::Activity("a"), Op::Event("go")]).await;
    f.start("i").await;
    f.memory.hold(Call::Commit);
    f.complete("a").await;
    let sent = f.ask_event("i", "go");
    f.memory.resume(Call::Commit);
    f.settle().await;
    assert_eq!(sent.take(), Some(Ok(())));
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

/// Regression test: the messages were read again while newer ones were taken in, and then counted as known.
#[tokio::test(start_paused = true)]
async fn messages_that_come_before_their_instance_are_read_again() {
    // After message 0 an activity holds the instance, so that no release tells the store which messages are not known
    // here.
    let script = &[Op::Event("0"), Op::Spawn("a"), Op::Event("1"), Op::Event("2")];
    let mut f = Fixture::started(RuntimeOptions::default(), script).await;
    f.start("i").await;
    f.memory.hold(Call::Acquire);
    f.event("i", "0").await;
    // The instance is acquired with message 0 in the store, and is not here yet.
    f.event("i", "1").await;
    f.memory.hold(Call::Messages);
    f.memory.resume(Call::Acquire);
    f.settle().await;
    f.event("i", "2").await;
    f.memory.resume(Call::Messages);
    f.settle().await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

/// Regression test: a page of the inbox can be read before a turn that consumes a message of it, and come after the
/// instance was released and acquired once more. The message was consumed again; the store refused that, and the
/// instance was suspended.
#[tokio::test(start_paused = true)]
async fn a_message_that_was_consumed_before_an_acquisition_does_not_come_again() {
    let options = RuntimeOptions {
        cached_instances_max: 0,
        ..RuntimeOptions::default()
    };
    let script = &[Op::Event("go"), Op::Sleep(5_000), Op::Spawn("a"), Op::Event("go")];
    let mut f = Fixture::started(options, script).await;
    f.start("i").await;
    f.event("i", "go").await;
    assert_eq!(f.memory.get("i").owner, None, "it sleeps");
    f.advance(5_000).await;
    assert!(f.memory.get("i").owner.is_some(), "its activity runs here");
    f.event_comes_late(1, "go").await;
    assert_eq!(f.memory.get("i").status, Status::Running);
    f.event("i", "go").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

/// Regression test: with several commits under way an instance can be acquired again, and its messages read, before the
/// answer to its release is here. The messages went to the instance that was about to be forgotten. With it, the later
/// one was removed from the table, and the later one's activities were aborted. If its generator was kept, a message
/// that only the acquisition brought counted as known because a later one had come by the inbox.
#[tokio::test(start_paused = true)]
async fn an_instance_that_is_back_before_its_release_is_answered_loses_nothing() {
    for (cached_instances_max, is_answered_first) in [(0, false), (0, true), (100, false), (100, true)] {
        let options = RuntimeOptions {
            cached_instances_max,
            ..RuntimeOptions::default()
        };
        let mut f = Fixture::with_commits(options, 4);
        f.script(
            "main",
            &[
                Op::Activity("a"),
                Op::Event("1"),
                Op::Spawn("b"),
                Op::Event("2"),
                Op::Activity("c"),
            ],
        );
        f.script("other", &[Op::Activity("other")]);
        f.begin().await;
        f.start("i").await;
        let other = f.ask_start("other", "other");
        f.settle().await;
        assert_eq!(other.take(), Some(Ok(())));

        f.memory.hold(Call::Commit);
        f.complete("a").await;
        let answer_release = f.memory.write_held();
        f.memory.resume(Call::Commit);
        // The inbox passes message 1 by, because no worker owns the instance.
        f.memory.fail(Call::Acquire, ProviderErrorKind::Io, 1);
        f.event("i", "1").await;
        f.event("other", "x").await;
        f.memory.hold(Call::Acquire);
        f.advance(30).await;
        assert!(
            f.memory.get("i").owner.is_some(),
            "acquired, and the answer is on its way"
        );
        f.event("i", "2").await;
        if is_answered_first {
            answer_release();
            f.memory.resume(Call::Acquire);
            f.settle().await;
        } else {
            f.memory.resume(Call::Acquire);
            f.settle().await;
            answer_release();
            f.settle().await;
        }
        let case = format!("{cached_instances_max} cached, answered first: {is_answered_first}");
        assert_eq!(f.attempts, ["a", "other", "b", "c"], "{case}");
        assert_eq!(f.aborted.len(), 0, "{case}");
        for name in ["other", "b", "c"] {
            f.complete(name).await;
        }
        assert_eq!(f.memory.get("i").status, Status::Completed);
        f.assert_empty();
    }
}

/// Regression test: an error of the inbox that a new try was thought not to help ended the task that reads it. The
/// worker held its instances and heard of no message any more.
#[tokio::test(start_paused = true)]
async fn an_inbox_that_cannot_be_read_is_tried_again() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[Op::Spawn("a"), Op::Event("go")]).await;
    f.start("i").await;
    f.memory.fail(Call::Inbox, ProviderErrorKind::Internal, 2);
    f.event("i", "go").await;
    assert_eq!(f.memory.get("i").status, Status::Running);
    for _ in 0..5 {
        f.advance(1_000).await;
    }
    assert_eq!(f.memory.get("i").status, Status::Completed);
    assert!(f.logged.iter().any(|line| line.contains("messages could not be read")));
    f.assert_empty();
}

/// Regression test: the worker asked for the same page again and again, and none of its instances got a message any
/// more.
#[tokio::test(start_paused = true)]
async fn a_message_that_cannot_be_read_suspends_its_instance_alone() {
    // The instance is idle, evicted, in a turn, or asleep in the store.
    for (script, holds, cached_instances_max) in [
        (&[Op::Spawn("a"), Op::Event("go")] as &[_], false, 100),
        (&[Op::Spawn("a"), Op::Event("go")], false, 0),
        (&[Op::Activity("b"), Op::Event("go")], true, 100),
        (&[Op::Event("go")], false, 100),
    ] {
        let mut f = Fixture::new(RuntimeOptions {
            cached_instances_max,
            ..RuntimeOptions::default()
        });
        f.script("main", script);
        f.script("other", &[Op::Spawn("other"), Op::Event("go")]);
        f.begin().await;
        f.start("i").await;
        let other = f.ask_start("other", "other");
        f.settle().await;
        assert_eq!(other.take(), Some(Ok(())));
        if holds {
            f.memory.hold(Call::Commit);
            f.complete("b").await;
        }
        let damaged = f.ask_event("i", "damaged");
        let sent = f.ask_event("other", "go");
        f.settle().await;
        f.memory.resume(Call::Commit);
        f.settle().await;
        assert_eq!((damaged.take(), sent.take()), (Some(Ok(())), Some(Ok(()))));
        assert_eq!(f.memory.get("i").status, Status::Suspended);
        assert_eq!(f.memory.get("other").status, Status::Completed);
    }
}
