//! A thread that does not come back holds up only the instance or activity that holds it (W1 to W7).

use std::time::Duration;

use perdure_provider::{ProviderErrorKind, Queues, Status, Suspicion, WorkerId};

use crate::support::{Call, Fixture, Op};
use perdure_runtime::{RuntimeOptions, Token};

/// The name of another worker that lives and that a test does not see.
const OTHER: &str = "other";

/// Returns a runtime with two instances that wait for an activity each, and another worker.
async fn two() -> Fixture {
    let mut f = Fixture::started(RuntimeOptions::default(), &[Op::Activity("a"), Op::Activity("b")]).await;
    f.start("i").await;
    f.start("j").await;
    f.memory.add_worker(OTHER);
    f
}

fn owner(f: &Fixture, id: &str) -> Option<WorkerId> {
    f.memory.get(id).owner
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_does_not_end_gives_up_its_instance_and_all_others() {
    let mut f = two().await;
    let token = f.turn_after("i").await;
    f.hang(4).await;
    assert!(owner(&f, "i").is_some() && owner(&f, "j").is_some());
    f.hang(3).await;
    assert_eq!((owner(&f, "i"), owner(&f, "j")), (None, None));
    let (i, j) = (f.memory.get("i"), f.memory.get("j"));
    assert_eq!(
        (i.suspicion, j.suspicion),
        (Suspicion::default().after_stall(), Suspicion(0))
    );
    assert_eq!((i.status, j.status), (Status::Running, Status::Running));
    assert!(f.held_up.lock()[0].contains("a turn of instance 'i' (main 1.0.0)"));
    assert_eq!(f.held_up.lock().len(), 1);

    // The thread comes back: its turn is not stored, and the worker takes the instances that are still there.
    let events = i.history.len();
    f.turn(token);
    f.settle().await;
    assert!(
        f.logged
            .iter()
            .any(|line| line.contains("held up for more than 5000 ms"))
    );
    assert_eq!(f.memory.get("i").history.len(), events);
    f.advance(1_000).await;
    assert!(owner(&f, "i").is_some() && owner(&f, "j").is_some());
    for name in ["a", "a", "b", "b"] {
        f.complete(name).await;
    }
    for id in ["i", "j"] {
        assert_eq!(f.memory.get(id).status, Status::Completed);
    }
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn it_takes_no_work_until_it_comes_back() {
    let mut f = two().await;
    let token = f.turn_after("i").await;
    f.hang(7).await;
    let started = f.ask_start("k", "main");
    f.hang(3).await;
    assert_eq!(started.take(), Some(Ok(())));
    assert_eq!((owner(&f, "j"), owner(&f, "k")), (None, None));
    f.turn(token);
    f.settle().await;
    f.advance(1_000).await;
    assert!(owner(&f, "j").is_some() && owner(&f, "k").is_some());
}

/// Releasing the instances would abort their attempts and help no worker.
#[tokio::test(start_paused = true)]
async fn with_no_other_worker_all_stays_where_it_is() {
    let mut f = two().await;
    f.memory.remove_worker(OTHER);
    let token = f.turn_after("i").await;
    f.hang(60).await;
    assert!(owner(&f, "i").is_some() && owner(&f, "j").is_some());
    assert_eq!(f.held_up.lock().len(), 1);
    f.memory.add_worker(OTHER);
    let late = turn_of_is_stored(&mut f, token).await;
    assert_eq!((late, f.aborted.len()), (true, 0));
}

async fn turn_of_is_stored(f: &mut Fixture, token: Token) -> bool {
    f.turn(token);
    f.settle().await;
    f.attempts.contains(&"b".to_owned())
}

/// Another worker comes while the thread is held up.
#[tokio::test(start_paused = true)]
async fn another_worker_that_comes_later_gets_it_then() {
    let mut f = two().await;
    f.memory.remove_worker(OTHER);
    let _token = f.turn_after("i").await;
    f.hang(20).await;
    assert!(owner(&f, "j").is_some());
    f.memory.add_worker(OTHER);
    f.hang(1).await;
    assert_eq!((owner(&f, "i"), owner(&f, "j")), (None, None));
}

#[tokio::test(start_paused = true)]
async fn an_activity_that_holds_the_thread_is_not_run_twice() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[Op::Activity("a")]).await;
    f.memory.add_worker(OTHER);
    f.start("j").await;
    let started = f.ask_start("i", "main");
    let token = f.next_turn();
    f.turn(token);
    f.hang(0).await;
    let job = f.next_attempt();
    assert_eq!(started.take(), Some(Ok(())));
    assert_eq!(job.instance_id, "i");
    f.hang(30).await;
    assert!(owner(&f, "i").is_some());
    assert_eq!(owner(&f, "j"), None);
    assert!(f.held_up.lock()[0].contains("activity 'a' of instance 'i'"));
    assert_eq!(f.memory.get("i").suspicion, Suspicion(0));
    f.running.push(job);
    f.settle().await;
    f.advance(1_000).await;
    f.complete("a").await;
    f.complete("a").await;
    for id in ["i", "j"] {
        assert_eq!(f.memory.get(id).status, Status::Completed);
    }
    assert_eq!(
        f.attempts.len(),
        2,
        "that of 'i' was begun once, that of 'j' on each side"
    );
    f.assert_empty();
}

/// Any attempt that was begun may be the one that holds the thread.
#[tokio::test(start_paused = true)]
async fn code_outside_of_any_job_leaves_running_attempts() {
    let options = RuntimeOptions {
        activity_concurrency: 1,
        ..RuntimeOptions::default()
    };
    let mut f = Fixture::started(options, &[Op::Activity("a")]).await;
    f.memory.add_worker(OTHER);
    f.start("i").await;
    f.start("j").await;
    assert_eq!(f.running.len(), 1, "the other one has no slot");
    let started = f.ask_start("k", "main");
    f.hang(10).await;
    assert_eq!(started.take(), Some(Ok(())), "the start is left to others");
    assert!(owner(&f, "i").is_some());
    assert_eq!((owner(&f, "j"), owner(&f, "k")), (None, None));
}

/// The process gets SIGSTOP and SIGCONT, or its machine sleeps.
#[tokio::test(start_paused = true)]
async fn a_process_that_was_stopped_as_a_whole_is_not_held_up() {
    let mut f = two().await;
    let token = f.turn_after("i").await;
    for _ in 0..4 {
        tokio::time::advance(std::time::Duration::from_millis(4_900)).await;
        f.hang(0).await;
    }
    assert!(turn_of_is_stored(&mut f, token).await);
    assert!(f.held_up.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_third_turn_that_does_not_end_suspends_its_instance() {
    let mut f = two().await;
    let mut token = f.turn_after("i").await;
    for time in 1..=3 {
        f.hang(7).await;
        let row = f.memory.get("i");
        let expected = if time == 3 { Status::Suspended } else { Status::Running };
        assert_eq!((row.status, row.owner), (expected, None));
        f.turn(token);
        f.settle().await;
        f.advance(1_500).await;
        if time < 3 {
            token = f.turn_after("i").await;
        }
    }
    let report = f.memory.get("i").report.expect("it says why");
    assert!(report.contains("3 workers died or were blocked"), "{report}");
    assert!(report.contains("for more than 5000 ms"), "{report}");
    assert_eq!(f.memory.get("j").status, Status::Running);
    f.terminate("i").await;
    assert_eq!(f.memory.get("i").status, Status::Terminated);
}

/// Regression test: the answer to the start came when the thread was held up already, so the instance was this worker's
/// again.
#[tokio::test(start_paused = true)]
async fn a_start_that_was_being_written_is_released_too() {
    let mut f = two().await;
    f.memory.hold(Call::Commit);
    let started = f.ask_start("k", "main");
    let first = f.next_turn();
    f.turn(first);
    let token = f.turn_after("i").await;
    f.hang(7).await;
    assert_eq!(owner(&f, "j"), None);
    assert_eq!(started.take(), None);
    f.memory.resume(Call::Commit);
    f.hang(1).await;
    assert_eq!(started.take(), Some(Ok(())));
    assert_eq!(owner(&f, "k"), None);
    f.turn(token);
    f.settle().await;
    f.advance(1_000).await;
    assert!(owner(&f, "k").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_is_asked_again() {
    let mut f = two().await;
    f.memory.fail(Call::ReleaseMost, ProviderErrorKind::Busy, 3);
    let _token = f.turn_after("i").await;
    f.hang(7).await;
    assert!(owner(&f, "j").is_some());
    f.hang(3).await;
    assert_eq!(owner(&f, "j"), None);
}

/// The worker cannot know if the instances were released, so nothing of them begins here any more.
#[tokio::test(start_paused = true)]
async fn a_worker_with_an_unknown_release_starts_over() {
    let mut f = two().await;
    let worker = f.runtime_worker();
    f.memory.fail_unknown(Call::ReleaseMost, ProviderErrorKind::Io);
    let token = f.turn_after("i").await;
    f.hang(7).await;
    assert_ne!(f.runtime_worker(), worker);
    assert_eq!((owner(&f, "i"), owner(&f, "j")), (None, None));
    f.turn(token);
    f.settle().await;
    f.advance(1_000).await;
    assert!(owner(&f, "i").is_some() && owner(&f, "j").is_some());
    for name in ["a", "a", "b", "b"] {
        f.complete(name).await;
    }
    for id in ["i", "j"] {
        assert_eq!(f.memory.get(id).status, Status::Completed);
    }
    f.assert_empty();
}

/// The new session finds the thread held up, and is not told again of the tasks that became due meanwhile.
#[tokio::test(start_paused = true)]
async fn a_worker_that_starts_over_while_held_up_looks_for_tasks_when_its_thread_comes_by() {
    let mut owner = Fixture::started(RuntimeOptions::default(), &[Op::Queued("gpu", "render")]).await;
    owner.memory.add_worker(OTHER);
    owner.start("i").await;
    assert_eq!(owner.memory.take_tasks(OTHER, "gpu", "render").len(), 1);
    let mut helper = owner.beside(RuntimeOptions {
        queues: Queues::Named(vec!["gpu".to_owned()]),
        ..RuntimeOptions::default()
    });
    helper.runtime.register_activity("render".into());
    helper.script("local", &[Op::Event("go")]);
    helper.begin().await;
    owner.shut_down(Duration::ZERO).await;
    let worker = helper.runtime_worker();
    let started = helper.ask_start("l", "local");
    helper.hang(7).await;
    owner.memory.remove_worker(&worker);
    while helper.runtime_worker() == worker {
        helper.hang(1).await;
    }
    owner.memory.remove_worker(OTHER);
    helper.hang(1).await;
    helper.settle().await;
    helper.advance(2_000).await;
    assert_eq!(started.take(), Some(Ok(())));
    assert_eq!(helper.attempts, ["render"]);
}

/// The workers are of one thread, so giving the instances to the other one would make things worse.
#[tokio::test(start_paused = true)]
async fn a_worker_of_the_same_thread_takes_nothing_either() {
    let mut f = two().await;
    let mut beside = f.beside(RuntimeOptions::default());
    beside.script("main", &[Op::Activity("a"), Op::Activity("b")]);
    beside.begin().await;
    f.memory.remove_worker(OTHER);
    let _token = f.turn_after("i").await;
    f.hang(10).await;
    assert!(owner(&f, "j").is_some(), "there is nobody else");
    f.memory.add_worker(OTHER);
    f.hang(5).await;
    assert_eq!(owner(&f, "j"), None);
    let started = f.ask_start("k", "main");
    f.hang(5).await;
    assert_eq!((started.take(), owner(&f, "k")), (Some(Ok(())), None));
    beside.settle().await;
}
