//! The limit of the instances that a worker works on at the same time (`orchestration_concurrency`).

use std::time::Duration;

use perdure_provider::Status;

use crate::support::{Call, Fixture, Op, Script};
use perdure_runtime::RuntimeOptions;

fn at_most(orchestration_concurrency: usize) -> RuntimeOptions {
    RuntimeOptions {
        orchestration_concurrency,
        ..RuntimeOptions::default()
    }
}

/// Returns a runtime with this limit, with a script named `main`.
async fn limited(limit: usize, main: Script) -> Fixture {
    Fixture::started(at_most(limit), main).await
}

impl Fixture {
    /// Starts instances together.
    async fn start_all(&mut self, ids: &[&str]) {
        let answers: Vec<_> = ids.iter().map(|id| self.ask_start(id, "main")).collect();
        self.settle().await;
        for answer in answers {
            answer.take().expect("it was answered").expect("it starts");
        }
    }

    /// Returns the instances that have an owner.
    fn owned<'i>(&self, ids: &[&'i str]) -> Vec<&'i str> {
        let is_owned = |id: &&str| self.memory.get(id).owner.is_some();
        ids.iter().copied().filter(is_owned).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_beyond_the_limit_is_only_stored() {
    let mut f = limited(2, &[Op::Activity("work")]).await;
    let ids = ["a", "b", "c", "d"];
    f.start_all(&ids).await;
    assert_eq!(f.owned(&ids), ["a", "b"]);
    assert_eq!(f.attempts, ["work", "work"]);
    assert_eq!(f.memory.get("c").status, Status::Pending);
}

/// No time goes on here: the next instance does not wait for a poll.
#[tokio::test(start_paused = true)]
async fn an_end_makes_place_for_the_next_instance_at_once() {
    let mut f = limited(1, &[Op::Activity("work")]).await;
    let ids = ["a", "b", "c"];
    f.start_all(&ids).await;
    for (at, id) in ids.iter().enumerate() {
        assert_eq!(f.owned(&ids), [*id]);
        assert_eq!(f.attempts.len(), at + 1);
        f.complete("work").await;
        assert_eq!(f.memory.get(id).status, Status::Completed);
    }
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_parent_gives_its_place_to_its_child() {
    let mut f = Fixture::new(at_most(1));
    f.script("main", &[Op::Child("child", "c"), Op::Activity("after")]);
    f.script("child", &[Op::Child("grandchild", "g")]);
    f.script("grandchild", &[Op::Activity("work")]);
    f.begin().await;
    f.start("i").await;
    assert_eq!(f.owned(&["i", "c", "g"]), ["g"]);
    f.complete("work").await;
    assert_eq!(f.owned(&["i", "c", "g"]), ["i"]);
    f.complete("after").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_turn_claims_no_more_instances_than_it_has_places() {
    let mut f = Fixture::new(at_most(3));
    f.script(
        "main",
        &[
            Op::SpawnChild("child", "c1"),
            Op::SpawnChild("child", "c2"),
            Op::SpawnChild("child", "c3"),
            Op::Activity("main"),
        ],
    );
    f.script("child", &[Op::Activity("work")]);
    f.begin().await;
    f.start("i").await;
    assert_eq!(f.owned(&["i", "c1", "c2", "c3"]), ["i", "c1", "c2"]);
    f.complete("work").await;
    assert_eq!(f.owned(&["i", "c1", "c2", "c3"]).len(), 3);
    assert!(f.memory.get("c3").owner.is_some());
}

/// The place of an acquisition that is under way is taken: a start that comes meanwhile does not get it.
#[tokio::test(start_paused = true)]
async fn a_start_during_an_acquisition_takes_no_place_of_it() {
    let mut f = limited(1, &[Op::Activity("work")]).await;
    f.start_all(&["a", "b"]).await;
    f.memory.hold(Call::Acquire);
    f.complete("work").await;
    f.start_all(&["c"]).await;
    f.memory.resume(Call::Acquire);
    f.settle().await;
    assert_eq!(f.owned(&["b", "c"]), ["b"]);
    assert_eq!(f.attempts, ["work", "work"]);
}

/// While others wait, a start waits behind them.
#[tokio::test(start_paused = true)]
async fn due_instances_come_before_new_starts() {
    let mut f = limited(2, &[Op::Activity("work")]).await;
    f.start_all(&["a", "b", "c"]).await;
    f.memory.hold(Call::Acquire);
    f.complete("work").await;
    f.complete("work").await;
    f.start_all(&["d"]).await;
    assert_eq!(f.memory.get("d").status, Status::Pending);
    f.memory.resume(Call::Acquire);
    f.settle().await;
    assert_eq!(f.owned(&["c", "d"]), ["c", "d"]);
    f.complete("work").await;
    f.complete("work").await;
    f.start("e").await;
    f.complete("work").await;
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_waits_for_a_message_has_no_place() {
    let mut f = Fixture::new(at_most(1));
    f.script("main", &[Op::Event("go"), Op::Activity("after")]);
    f.script("raiser", &[Op::Activity("work"), Op::Send("i", "go")]);
    f.begin().await;
    f.start("i").await;
    f.ask_start("r", "raiser");
    f.settle().await;
    assert_eq!(f.owned(&["i", "r"]), ["r"]);
    f.complete("work").await;
    assert_eq!(f.attempts, ["work", "after"]);
    f.complete("after").await;
    assert_eq!(f.memory.get("i").status, Status::Completed);
    f.assert_empty();
}

/// An instance whose timer is due soon stays loaded, but not while another one waits for its place.
#[tokio::test(start_paused = true)]
async fn a_short_timer_keeps_no_place_that_is_wanted() {
    let mut f = limited(1, &[Op::Activity("work"), Op::Sleep(500)]).await;
    let ids = ["a", "b"];
    f.start("a").await;
    f.complete("work").await;
    assert_eq!(f.owned(&["a"]), ["a"]);
    f.advance(500).await;
    f.start_all(&["b", "c"]).await;
    f.complete("work").await;
    assert_eq!(f.owned(&["b", "c"]), ["c"]);
    f.complete("work").await;
    f.advance(500).await;
    f.advance(500).await;
    for id in ids {
        assert_eq!(f.memory.get(id).status, Status::Completed);
    }
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_continues_as_new_goes_behind_those_that_wait() {
    let mut f = limited(1, &[Op::Activity("work"), Op::ContinueTo(2, None)]).await;
    let ids = ["a", "b"];
    f.start_all(&ids).await;
    assert_eq!(f.owned(&ids), ["a"]);
    f.advance(1).await;
    f.complete("work").await;
    assert_eq!(f.owned(&ids), ["b"]);
    f.advance(1).await;
    f.complete("work").await;
    assert_eq!(f.owned(&ids), ["a"]);
    f.complete("work").await;
    f.complete("work").await;
    for id in ids {
        assert_eq!(f.memory.get(id).status, Status::Completed);
    }
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn two_workers_share_what_waits() {
    let mut f = limited(1, &[Op::Activity("work")]).await;
    let mut other = f.beside(at_most(1));
    other.script("main", &[Op::Activity("work")]);
    other.begin().await;
    let ids = ["a", "b", "c"];
    for id in ids {
        f.ask_start(id, "main");
    }
    f.settle().await;
    other.settle().await;
    assert_eq!(f.owned(&ids).len(), 2);
    assert_eq!((f.attempts.len(), other.attempts.len()), (1, 1));
    other.complete("work").await;
    assert_eq!((f.attempts.len(), other.attempts.len()), (1, 2));
    other.shut_down(Duration::ZERO).await;
}
