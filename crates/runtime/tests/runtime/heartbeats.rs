//! Details of heartbeats: which attempts get them, how often they are written, and that none is left.

use std::time::Duration;

use perdure_provider::{ProviderErrorKind, Status, Write};

use crate::support::{Call, Fixture, Op};
use perdure_runtime::RuntimeOptions;
use perdure_runtime::internals::limits::HEARTBEAT_INTERVAL_MS;

const INTERVAL: u64 = HEARTBEAT_INTERVAL_MS as u64;

async fn started(script: &'static [Op]) -> Fixture {
    let mut f = Fixture::started(RuntimeOptions::default(), script).await;
    f.start("i").await;
    f
}

fn details(f: &Fixture) -> Option<&str> {
    f.running[0].last_heartbeat.as_deref()
}

#[tokio::test(start_paused = true)]
async fn the_next_attempt_gets_the_latest() {
    let mut f = started(&[Op::Retried("a"), Op::Activity("b")]).await;
    assert_eq!(details(&f), None);
    f.heartbeat("a", "1").await;
    f.heartbeat("a", "2").await;
    f.fail("a", 0).await;
    assert_eq!(details(&f), Some("2"), "whatever was written of it");
    f.fail("a", 0).await;
    assert_eq!(details(&f), Some("2"), "one that told nothing changes nothing");
    f.complete("a").await;
    assert_eq!(details(&f), None, "another activity");
    assert_eq!(f.memory.heartbeats().len(), 0);
    f.complete("b").await;
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn they_are_written_once_per_interval_the_latest_last() {
    let mut f = started(&[Op::Activity("a")]).await;
    for n in 0..1_000 {
        f.heartbeat("a", &n.to_string()).await;
    }
    assert_eq!(
        (f.memory.heartbeat_writes(), f.memory.heartbeats()),
        (1, vec!["0".into()])
    );
    f.advance(INTERVAL - 1).await;
    assert_eq!(f.memory.heartbeat_writes(), 1);
    f.advance(1).await;
    assert_eq!(
        (f.memory.heartbeat_writes(), f.memory.heartbeats()),
        (2, vec!["999".into()])
    );
    f.advance(10 * INTERVAL).await;
    assert_eq!((f.memory.heartbeat_writes(), f.alarms()), (2, 0), "nothing was told");
    f.heartbeat("a", "at once").await;
    assert_eq!(f.memory.heartbeats(), ["at once"]);
    f.complete("a").await;
    assert_eq!(f.memory.heartbeats().len(), 0);
    f.assert_empty();
}

/// The attempt was never recorded as failed, as after a crash.
#[tokio::test(start_paused = true)]
async fn another_worker_gets_the_written_details() {
    let mut f = started(&[Op::Activity("a")]).await;
    f.heartbeat("a", "1").await;
    f.heartbeat("a", "lost").await;
    f.shut_down(Duration::ZERO).await;
    f.begin().await;
    assert_eq!((f.running[0].attempt, details(&f)), (1, Some("1")));
    f.complete("a").await;
    assert_eq!(f.memory.heartbeats().len(), 0, "though it was not written here");
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_comes_back_from_history_keeps_them() {
    let options = RuntimeOptions {
        cached_instances_max: 0,
        ..RuntimeOptions::default()
    };
    let mut f = Fixture::started(options, &[Op::Retried("a")]).await;
    f.start("i").await;
    f.heartbeat("a", "1").await;
    f.fail("a", 0).await;
    assert_eq!(details(&f), Some("1"));
    f.complete("a").await;
    assert_eq!(f.memory.heartbeats().len(), 0);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn they_go_when_the_activity_is_given_up() {
    let mut f = started(&[Op::Spawn("a"), Op::Event("go"), Op::Cancel, Op::Event("end")]).await;
    f.heartbeat("a", "1").await;
    f.event("i", "go").await;
    assert_eq!(f.memory.heartbeats().len(), 0);
    f.event("i", "end").await;
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn they_go_with_every_end_of_the_execution() {
    let mut f = Fixture::new(RuntimeOptions::default());
    f.script("ends", &[Op::Spawn("a"), Op::Event("go")]);
    f.script("continues", &[Op::Spawn("a"), Op::Event("go"), Op::ContinueTo(2, None)]);
    f.begin().await;
    for (name, how) in [("ends", "go"), ("continues", "go"), ("ends", "terminate")] {
        let id = format!("{name} {how}");
        f.ask_start(&id, name);
        f.settle().await;
        f.heartbeat("a", "1").await;
        assert_eq!(f.memory.heartbeats(), ["1"]);
        match how {
            "go" => f.event(&id, "go").await,
            _ => f.terminate(&id).await,
        }
        assert_eq!(f.memory.heartbeats().len(), 0, "{id}");
        if name == "continues" {
            assert_eq!(details(&f), None, "its activities are others");
            f.event(&id, "go").await;
        }
        assert!(f.memory.get(&id).status.is_terminal());
    }
    f.assert_empty();
}

/// A store that writes several batches at once may write the turn first.
#[tokio::test(start_paused = true)]
async fn details_under_way_when_the_activity_ends_are_removed_afterwards() {
    for how in ["complete", "cancel", "end"] {
        let script: &[Op] = match how {
            "complete" => &[Op::Spawn("open"), Op::Activity("a"), Op::Event("end")],
            "cancel" => &[
                Op::Spawn("open"),
                Op::Spawn("a"),
                Op::Event("go"),
                Op::Cancel,
                Op::Event("end"),
            ],
            _ => &[Op::Spawn("open"), Op::Spawn("a"), Op::Event("end")],
        };
        let mut f = Fixture::with_commits(RuntimeOptions::default(), 3);
        f.script("main", script);
        f.begin().await;
        f.start("i").await;
        let sent = match how {
            "complete" => None,
            "cancel" => Some("go"),
            _ => Some("end"),
        };
        f.memory.hold(Call::Commit);
        f.heartbeat("a", "1").await;
        let late = f.memory.take_held();
        f.memory.resume(Call::Commit);
        match sent {
            None => f.complete("a").await,
            Some(event) => f.event("i", event).await,
        }
        late();
        f.settle().await;
        assert_eq!(f.memory.heartbeats().len(), 0, "{how}");
        if how != "end" {
            f.event("i", "end").await;
        }
        assert_eq!(f.memory.get("i").status, Status::Completed);
        f.assert_empty();
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_for_a_while_gets_the_latest_later() {
    let mut f = started(&[Op::Activity("a")]).await;
    f.memory.fail(Call::Commit, ProviderErrorKind::Busy, 2);
    f.heartbeat("a", "1").await;
    f.heartbeat("a", "2").await;
    for _ in 0..3 {
        f.advance(INTERVAL).await;
    }
    assert_eq!(f.memory.heartbeats(), ["2"]);
    f.complete("a").await;
    f.assert_empty();
}

/// Neither the activity nor its instance suffers.
#[tokio::test(start_paused = true)]
async fn one_that_the_store_refuses_is_logged() {
    let mut f = started(&[Op::Activity("a")]).await;
    f.memory.refuse(|write| matches!(write, Write::Heartbeat(_)));
    f.heartbeat("a", "1").await;
    assert!(
        f.logged[0].contains("heartbeat of instance 'i' could not be stored"),
        "{:?}",
        f.logged
    );
    f.complete("a").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn details_of_ended_attempts_are_dropped() {
    let mut f = started(&[Op::Activity("a"), Op::Event("end")]).await;
    let token = f.running[0].token;
    f.complete("a").await;
    f.runtime.heartbeat(token, "late".into());
    f.settle().await;
    assert_eq!((f.memory.heartbeat_writes(), f.alarms()), (0, 0));
    f.event("i", "end").await;
    f.assert_empty();
}

/// The activity is told to stop only when the turn that gave it up is durable.
#[tokio::test(start_paused = true)]
async fn details_of_an_activity_that_the_turn_under_way_gave_up_are_dropped() {
    let script = &[
        Op::Spawn("open"),
        Op::Spawn("a"),
        Op::Event("go"),
        Op::Cancel,
        Op::Event("end"),
    ];
    let mut f = started(script).await;
    f.memory.hold(Call::Commit);
    let sent = f.ask_event("i", "go");
    let answer = f.memory.write_held();
    answer();
    f.settle().await;
    assert!(sent.take().is_some());
    f.heartbeat("a", "late").await;
    f.memory.resume(Call::Commit);
    f.settle().await;
    assert_eq!((f.aborted.len(), f.memory.heartbeat_writes()), (1, 0));
    f.event("i", "end").await;
    f.assert_empty();
}
