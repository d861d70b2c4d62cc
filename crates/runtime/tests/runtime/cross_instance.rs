//! Children, detached instances and messages between instances.

use perdure_provider::Status;

use crate::support::{Call, Fixture, Op, Script};
use perdure_runtime::{Awaiting, RuntimeOptions};

/// Returns a runtime whose `main` starts other instances, with a `child` that runs activity `work`.
async fn family(main: Script) -> Fixture {
    let mut f = Fixture::new(RuntimeOptions::default());
    f.script("main", main);
    f.script("child", &[Op::Activity("work")]);
    f.script("listener", &[Op::Event("go")]);
    f.begin().await;
    f
}

/// Returns the text of an instance's last event.
fn last_words(f: &Fixture, id: &str) -> String {
    let row = f.memory.get(id);
    row.history
        .last()
        .and_then(|event| event.payload.clone())
        .unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_child_starts_with_its_parents_turn_and_wakes_it_when_it_ends() {
    let mut f = family(&[Op::Child("child", "c"), Op::Activity("after")]).await;
    f.start("i").await;
    assert_eq!(
        f.memory.batches(),
        [1, 1],
        "parent and child start in one commit, and then the child's turn"
    );
    assert_eq!(f.attempts, ["work"]);
    let parent = f.memory.get("i");
    assert_eq!(
        (parent.owner, parent.wake_at_ms),
        (None, None),
        "it sleeps while its child runs"
    );
    f.complete("work").await;
    assert_eq!(f.memory.get("c").status, Status::Completed);
    assert_eq!(f.attempts, ["work", "after"]);
    assert_eq!(f.dropped, 0, "the parent's generator was kept");
    f.complete("after").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

/// Nothing of the child is there before the parent's turn is durable (1).
#[tokio::test(start_paused = true)]
async fn a_child_does_not_start_before_its_parents_turn_is_durable() {
    let mut f = family(&[Op::Activity("first"), Op::Child("child", "c")]).await;
    f.start("i").await;
    f.memory.hold(Call::Commit);
    f.complete("first").await;
    assert_eq!(f.attempts, ["first"]);
    f.memory.resume(Call::Commit);
    f.settle().await;
    assert_eq!(f.attempts, ["first", "work"]);
    f.complete("work").await;
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_child_that_is_not_registered_is_left_to_another_worker() {
    let mut f = family(&[Op::Child("elsewhere", "c")]).await;
    f.start("i").await;
    let child = f.memory.get("c");
    assert_eq!((child.status, child.owner), (Status::Pending, None));
    f.script("elsewhere", &[Op::Activity("there")]);
    f.settle().await;
    f.complete("there").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_child_that_is_given_up_is_cancelled() {
    let mut f = family(&[
        Op::SpawnChild("child", "c"),
        Op::Activity("a"),
        Op::Cancel,
        Op::Activity("b"),
    ])
    .await;
    f.start("i").await;
    // The script gives up the operation that it scheduled last.
    f.complete("a").await;
    f.complete("b").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    assert_eq!(f.memory.get("c").status, Status::Cancelled, "its parent has ended");
    assert_eq!(f.aborted.len(), 1);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn the_children_of_a_terminated_instance_are_cancelled() {
    let mut f = family(&[
        Op::SpawnChild("child", "c"),
        Op::SpawnChild("listener", "l"),
        Op::Event("never"),
    ])
    .await;
    f.start("i").await;
    f.terminate("i").await;
    for id in ["c", "l"] {
        assert_eq!(f.memory.get(id).status, Status::Cancelled, "{id}");
    }
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_child_that_is_terminated_fails_its_parent() {
    let mut f = family(&[Op::Child("child", "c")]).await;
    f.start("i").await;
    f.terminate("c").await;
    assert_eq!(f.memory.get("i").status, Status::Failed);
    assert!(last_words(&f, "i").contains("Terminated"), "{}", last_words(&f, "i"));
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn an_id_in_use_is_told_before_anything_is_confirmed() {
    for main in [
        &[Op::Detached("child", "taken")] as Script,
        &[Op::Child("child", "taken")],
    ] {
        let mut f = family(main).await;
        f.script("taken", &[Op::Activity("hold")]);
        let taken = f.ask_start("taken", "taken");
        f.settle().await;
        taken.take().expect("it was answered").expect("it starts");
        f.start("i").await;
        assert_eq!(f.memory.get("i").status, Status::Failed);
        assert!(
            last_words(&f, "i").contains("InstanceExists"),
            "{}",
            last_words(&f, "i")
        );
        f.complete("hold").await;
        f.assert_empty();
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_reaches_an_instance_that_sleeps_and_one_that_runs() {
    let mut f = family(&[Op::Send("sleeps", "go"), Op::Send("runs", "go")]).await;
    f.script("busy", &[Op::Activity("hold"), Op::Event("go")]);
    for (id, name) in [("sleeps", "listener"), ("runs", "busy")] {
        let started = f.ask_start(id, name);
        f.settle().await;
        started.take().expect("it was answered").expect("it starts");
    }
    f.start("i").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    assert_eq!(f.memory.get("sleeps").status, Status::Completed);
    f.complete("hold").await;
    assert_eq!(f.memory.get("runs").status, Status::Completed);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_message_to_a_missing_instance_is_refused() {
    let mut f = family(&[Op::Send("nobody", "go")]).await;
    f.start("i").await;
    assert!(
        last_words(&f, "i").contains("InstanceNotFound"),
        "{}",
        last_words(&f, "i")
    );
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_start_is_confirmed_by_the_next_turn() {
    let mut f = family(&[Op::Detached("child", "d"), Op::Activity("after")]).await;
    f.memory.hold(Call::Commit);
    let started = f.ask_start("i", "main");
    f.settle().await;
    assert!(f.attempts.is_empty());
    f.memory.resume(Call::Commit);
    f.settle().await;
    assert_eq!(started.take(), Some(Ok(())));
    assert_eq!(f.attempts.len(), 2, "{:?}", f.attempts);
    f.complete("after").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    assert_eq!(f.memory.get("d").status, Status::Running, "it goes its own way");
    f.complete("work").await;
    f.assert_empty();
}

/// The parent gets the result of its child although the parent is replayed for each turn.
#[tokio::test(start_paused = true)]
async fn a_parent_that_is_replayed_hears_of_its_child() {
    let mut f = Fixture::new(RuntimeOptions {
        cached_instances_max: 0,
        ..RuntimeOptions::default()
    });
    f.script(
        "main",
        &[
            Op::Detached("listener", "l"),
            Op::Child("child", "c"),
            Op::Send("l", "go"),
        ],
    );
    f.script("child", &[Op::Activity("work")]);
    f.script("listener", &[Op::Event("go")]);
    f.begin().await;
    f.start("i").await;
    f.complete("work").await;
    for id in ["i", "c", "l"] {
        assert_eq!(f.memory.get(id).status, Status::Completed, "{id}");
    }
    f.assert_empty();
}

/// The children stand one below the other, each waiting for the next.
#[tokio::test(start_paused = true)]
async fn a_chain_of_children_ends_from_its_deepest() {
    let mut f = Fixture::new(RuntimeOptions::default());
    f.script("main", &[Op::Child("a", "a")]);
    f.script("a", &[Op::Child("b", "b")]);
    f.script("b", &[Op::Child("c", "c")]);
    f.script("c", &[Op::Activity("deep")]);
    f.begin().await;
    f.start("i").await;
    let ended = f.wait("i", Awaiting::End);
    f.complete("deep").await;
    let status = ended.take().expect("it was answered").expect("it ended");
    assert_eq!(status.status, Status::Completed);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_leaves_the_children_to_others() {
    let mut f = family(&[Op::Child("child", "c")]).await;
    f.start("i").await;
    f.shut_down(std::time::Duration::from_secs(1)).await;
    assert_eq!(f.memory.get("c").owner, None);
    f.begin().await;
    f.complete("work").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}
