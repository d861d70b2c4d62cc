//! Instances that a client holds, while any worker runs them.

use perdure_engine::MessageBody;
use perdure_provider::Status;

use crate::support::{Call, Fixture, Op, answer};
use perdure_runtime::AbortReason;
use perdure_runtime::{Awaiting, RuntimeError, RuntimeOptions};

impl Fixture {
    async fn suspend(&mut self, id: &str) -> Result<(), RuntimeError> {
        let suspended = answer();
        self.store.suspend(id.into(), Some("\"why\"".into()), suspended.reply());
        self.settle().await;
        suspended.take().expect("it is answered")
    }

    async fn resume(&mut self, id: &str) {
        let resumed = answer();
        self.store.resume(id.into(), resumed.reply());
        self.settle().await;
        assert_eq!(resumed.take(), Some(Ok(())));
    }
}

#[tokio::test(start_paused = true)]
async fn a_held_instance_is_dropped_by_its_worker_and_continues_when_resumed() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[Op::Activity("a"), Op::Event("go")]).await;
    f.start("i").await;
    assert_eq!(f.suspend("i").await, Ok(()));
    let row = f.memory.get("i");
    assert_eq!((row.status, row.owner), (Status::Suspended, None));
    assert_eq!(
        row.report.as_deref(),
        Some(r#"{"code":"SUSPENDED","details":{"reason":"\"why\""},"message":"held by client.suspend"}"#)
    );
    assert_eq!(f.aborted, [AbortReason::Cancelled]);
    f.assert_empty();

    f.event("i", "go").await;
    assert_eq!(f.memory.waiting("i"), 1);
    f.resume("i").await;
    f.complete("a").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn an_unfinished_turn_of_a_held_instance_is_not_stored() {
    let mut f = Fixture::with_commits(RuntimeOptions::default(), 2);
    f.script("main", &[Op::Activity("a"), Op::Activity("b")]);
    f.begin().await;
    f.start("i").await;
    f.memory.hold(Call::Commit);
    f.complete("a").await;
    let turn = f.memory.take_held();
    f.memory.resume(Call::Commit);
    assert_eq!(f.suspend("i").await, Ok(()));
    turn();
    f.settle().await;
    assert_eq!(f.memory.get("i").history.len(), 2, "its start and its schedule");
    assert_eq!(f.attempts, ["a"]);
    f.assert_empty();
}

/// The former owner hears nothing of the hold, and may be the next owner. All that it still has of the instance gives
/// way.
#[tokio::test(start_paused = true)]
async fn an_instance_that_another_process_held_is_not_run_twice() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[Op::Activity("a"), Op::Activity("b")]).await;
    f.start("i").await;
    f.memory.row("i", |row| {
        row.owner = None;
        row.status = Status::Suspended;
    });
    f.resume("i").await;
    assert_eq!(f.memory.get("i").epoch, 2);
    assert_eq!(f.aborted, [AbortReason::LeaseLost]);
    f.complete("a").await;
    f.complete("b").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn an_ended_instance_cannot_be_held() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[]).await;
    f.start("i").await;
    let (id, status) = ("i".to_owned(), Status::Completed);
    assert_eq!(f.suspend("i").await, Err(RuntimeError::NotHeld { id, status }));
    let id = "nobody".to_owned();
    assert_eq!(f.suspend("nobody").await, Err(RuntimeError::InstanceNotFound { id }));
    f.assert_empty();
}

/// The answer to the request for work tells of an acquisition that is over, or of a later one.
#[tokio::test(start_paused = true)]
async fn an_instance_that_is_held_while_it_is_acquired_does_not_run() {
    // The instance is acquired, and not woken: its generator is not kept.
    let options = RuntimeOptions {
        cached_instances_max: 0,
        ..RuntimeOptions::default()
    };
    let mut f = Fixture::started(options, &[Op::Event("go"), Op::Activity("a")]).await;
    f.start("i").await;
    f.memory.hold(Call::Acquire);
    f.event("i", "go").await;
    assert_eq!(f.suspend("i").await, Ok(()));
    f.memory.resume(Call::Acquire);
    f.settle().await;
    assert_eq!((f.memory.get("i").status, f.attempts.len()), (Status::Suspended, 0));
    assert_eq!(f.logged, Vec::<String>::new());
    f.resume("i").await;
    f.complete("a").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

/// Regression test: no code of a suspended instance can run. The instance waited for a person to bring code that
/// fits, and so did each client that waited for its end.
#[tokio::test(start_paused = true)]
async fn a_suspended_instance_is_cancelled_at_once_and_its_children_with_it() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[Op::Child("child", "c")]).await;
    f.script("child", &[Op::Event("never")]);
    f.start("i").await;
    for id in ["c", "i"] {
        assert_eq!(f.suspend(id).await, Ok(()));
    }
    let ends = [f.wait("i", Awaiting::End), f.wait("c", Awaiting::End)];
    f.settle().await;
    let cancelled = answer();
    f.store.send(
        "i".into(),
        MessageBody::Cancel { reason: None },
        None,
        cancelled.reply(),
    );
    f.settle().await;
    assert_eq!(cancelled.take(), Some(Ok(())));
    for (id, ended) in ["i", "c"].into_iter().zip(ends) {
        assert_eq!(f.memory.get(id).status, Status::Cancelled, "{id}");
        let ended = ended.take().expect("it is told").expect("it is there");
        assert_eq!(ended.status, Status::Cancelled);
    }
    f.assert_empty();
}
