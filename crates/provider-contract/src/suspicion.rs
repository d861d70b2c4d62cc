//! The evidence against an instance, and its suspension as a poison pill because of it (P7, P14).

use perdure_engine::EventId;
use perdure_provider::{
    AcquiredInstance, Outcome, PoisonPill, Probation, ProbationStep, REST_MS, ReleaseMost, ReleasedMost, Status,
    Suspicion, TakenOver, TurnCommit, WorkerId, Write,
};

use crate::store::{Handle, LEASE_MS, NAME, Store, VERSION, instance, release, scheduled, turn};

const REPORT: &str = "it took them down";

impl Handle<'_> {
    async fn probation(&self, instance: &AcquiredInstance, worker: &WorkerId) -> Outcome {
        self.begin_probation(instance, worker, ProbationStep::Alone).await
    }

    async fn begin_probation(&self, instance: &AcquiredInstance, worker: &WorkerId, step: ProbationStep) -> Outcome {
        self.write(Write::Probation(Probation {
            step,
            key: instance.key,
            worker: worker.clone(),
            epoch: instance.epoch,
        }))
        .await
    }

    async fn dies(&self, worker: &WorkerId) -> Vec<PoisonPill> {
        let TakenOver { workers, poison_pills } = self
            .provider
            .take_over_worker(worker, REPORT)
            .await
            .expect("the store answers");
        assert_eq!(workers, std::slice::from_ref(worker));
        poison_pills
    }

    async fn release_most(&self, request: ReleaseMost) -> ReleasedMost {
        self.provider.release_most(request).await.expect("the store answers")
    }

    /// The one instance that is due once all have rested.
    async fn rested(&self, worker: &WorkerId) -> AcquiredInstance {
        self.clock.advance(10 * REST_MS);
        self.acquire_one(worker).await
    }

    /// Lets the worker of an instance die `times` times, on probation or not.
    async fn die(&self, times: u32, probation: bool) -> Vec<PoisonPill> {
        for time in 1..=times {
            let worker = self.worker(&format!("dies {probation} {time}")).await;
            let owned = self.rested(&worker).await;
            if probation {
                assert_eq!(self.probation(&owned, &worker).await, Outcome::Noted);
            }
            let poison_pills = self.dies(&worker).await;
            if time == times {
                return poison_pills;
            }
            assert_eq!(poison_pills, []);
        }
        Vec::new()
    }

    async fn suspicion(&self) -> Suspicion {
        let worker = self.worker("looks").await;
        let suspicion = self.rested(&worker).await.suspicion;
        self.provider.release_worker(&worker).await.expect("it leaves");
        suspicion
    }
}

fn all_of(worker: &WorkerId) -> ReleaseMost {
    ReleaseMost {
        worker: worker.clone(),
        stalled: None,
        kept: Vec::new(),
        kept_tasks: Vec::new(),
        report: REPORT.into(),
    }
}

fn poison_pill(id: &str) -> PoisonPill {
    PoisonPill {
        id: id.into(),
        name: NAME.into(),
        version: VERSION.into(),
        execution: 1,
    }
}

/// Any number of workers may be killed under an instance that waits.
pub async fn of_a_death_is_no_evidence(store: &Store) {
    let store = store.first();
    store.start(instance("a")).await;
    assert_eq!(store.suspicion().await, Suspicion(0), "a release in order says nothing");
    store.die(1, false).await;
    assert_eq!(store.suspicion().await, Suspicion(1));
    assert_eq!(store.die(10, false).await, []);
    assert_eq!(store.suspicion().await, Suspicion::SUSPECT);
    assert_eq!(store.status("a").await.status, Status::Pending);
}

/// The instance is suspended with the report, and is not acquired any more.
pub async fn of_a_death_on_probation_suspends_in_the_end(store: &Store) {
    let store = store.first();
    store.start(instance("a")).await;
    store.die(2, false).await;
    assert_eq!(store.die(3, true).await, [poison_pill("a")]);
    let status = store.status("a").await;
    assert_eq!(
        (status.status, status.result.as_deref()),
        (Status::Suspended, Some(REPORT))
    );
    store.clock.advance(1_000_000);
    store.assert_nothing_due(&store.worker("next").await).await;
}

/// Each instance on probation may be the cause of the death. An acquittal restores the former suspicion.
pub async fn of_a_death_on_probation_with_others_is_no_evidence(store: &Store) {
    let store = store.first();
    store.start(instance("a")).await;
    store.die(2, false).await;
    for _ in 0..5 {
        let worker = store.worker("w").await;
        let owned = store.rested(&worker).await;
        store.begin_probation(&owned, &worker, ProbationStep::WithOthers).await;
        assert_eq!(store.dies(&worker).await, []);
        assert_eq!(store.suspicion().await, Suspicion::ISOLATED);
    }
    let worker = store.worker("w").await;
    let owned = store.rested(&worker).await;
    store.begin_probation(&owned, &worker, ProbationStep::Alone).await;
    store.begin_probation(&owned, &worker, ProbationStep::End).await;
    store.provider.release_worker(&worker).await.expect("it leaves");
    assert_eq!(store.suspicion().await, Suspicion::SUSPECT);
    store.die(1, true).await;
    let evidence = store.suspicion().await;
    assert!(evidence > Suspicion::ISOLATED);
    let worker = store.worker("w").await;
    let owned = store.rested(&worker).await;
    store.begin_probation(&owned, &worker, ProbationStep::Alone).await;
    store.begin_probation(&owned, &worker, ProbationStep::End).await;
    store.provider.release_worker(&worker).await.expect("it leaves");
    assert_eq!(store.suspicion().await, evidence, "what is evidence stays");
}

/// Deaths while only the activities of the instance run count in a row: the workers may have died of other causes.
pub async fn of_deaths_beside_activities_is_forgotten_after_a_probation_without_incident(store: &Store) {
    let store = store.first();
    store.start(instance("a")).await;
    store.die(2, false).await;
    let dies = async || {
        let worker = store.worker("w").await;
        let owned = store.rested(&worker).await;
        store.begin_probation(&owned, &worker, ProbationStep::Alone).await;
        store.begin_probation(&owned, &worker, ProbationStep::Activities).await;
        store.dies(&worker).await
    };
    for _ in 0..3 {
        for evidence in 1..=2 {
            assert_eq!(dies().await, []);
            assert_eq!(store.suspicion().await.evidence(), evidence);
        }
        let worker = store.worker("w").await;
        let owned = store.rested(&worker).await;
        store.begin_probation(&owned, &worker, ProbationStep::Alone).await;
        store.begin_probation(&owned, &worker, ProbationStep::End).await;
        store.provider.release_worker(&worker).await.expect("it leaves");
        assert_eq!(store.suspicion().await, Suspicion::SUSPECT);
    }
    store.die(1, true).await;
    assert_eq!(dies().await, []);
    assert_eq!(dies().await, [poison_pill("a")]);
}

/// The instance is suspended with the report, and is not acquired any more.
pub async fn of_a_stall_suspends_in_the_end(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    store.start(instance("a")).await;
    for time in 1..=3 {
        let owned = store.rested(&worker).await;
        let given = store
            .release_most(ReleaseMost {
                stalled: Some((owned.key, owned.epoch)),
                ..all_of(&worker)
            })
            .await;
        assert_eq!(given.instances, [(owned.key, owned.epoch)]);
        assert_eq!(given.poison_pill, (time == 3).then(|| poison_pill("a")));
        assert_eq!(store.turn(turn(&owned, &worker)).await, Outcome::Fenced);
    }
    let status = store.status("a").await;
    assert_eq!(
        (status.status, status.result.as_deref()),
        (Status::Suspended, Some(REPORT))
    );
    store.clock.advance(1_000_000);
    store.assert_nothing_due(&store.worker("next").await).await;
}

/// A takeover of an expired worker does all this in one step.
pub async fn is_of_an_expired_worker_as_of_a_dead_one(store: &Store) {
    let store = store.first();
    store.start(instance("a")).await;
    store.die(2, false).await;
    store.die(2, true).await;
    let worker = store.worker("expires").await;
    let owned = store.rested(&worker).await;
    store.probation(&owned, &worker).await;
    store.clock.advance(LEASE_MS as i64);
    let taken_over = store.provider.take_over_expired_workers(REPORT).await;
    assert_eq!(
        taken_over,
        Ok(TakenOver {
            workers: vec![worker],
            poison_pills: vec![poison_pill("a")]
        })
    );
    assert_eq!(store.status("a").await.status, Status::Suspended);
}

/// Suspicion ends with a turn that appends an event. A turn without events changes nothing.
pub async fn ends_with_a_turn_that_gets_on(store: &Store) {
    let store = store.first();
    store.start(instance("a")).await;
    store.die(4, false).await;
    let worker = store.worker("w").await;
    let owned = store.rested(&worker).await;
    store.probation(&owned, &worker).await;
    store.commit(turn(&owned, &worker)).await;
    store.provider.release_worker(&worker).await.expect("it leaves");
    assert_eq!(store.suspicion().await, Suspicion::SUSPECT);
    for is_released in [false, true] {
        store.die(2, false).await;
        let worker = store.worker("w").await;
        let owned = store.rested(&worker).await;
        assert!(owned.suspicion.is_suspect());
        let base = if is_released {
            release(&owned, &worker, Some(0))
        } else {
            turn(&owned, &worker)
        };
        store
            .commit(TurnCommit {
                events: vec![scheduled(owned.next_event_id.0)],
                ..base
            })
            .await;
        store.provider.release_worker(&worker).await.expect("it leaves");
        assert_eq!(store.suspicion().await, Suspicion(0));
    }
}

/// A client that resumes the instance has seen the report.
pub async fn ends_with_a_resume(store: &Store) {
    let store = store.first();
    store.start(instance("a")).await;
    store.die(2, false).await;
    store.die(3, true).await;
    assert_eq!(store.resume("a").await, Outcome::Resumed);
    assert_eq!(store.suspicion().await, Suspicion(0));
}

/// An instance with evidence against it rests, so that others come first.
pub async fn lets_an_instance_rest(store: &Store) {
    let store = store.first();
    store.start(instance("a")).await;
    store.die(2, false).await;
    let (worker, next) = (store.worker("w").await, store.worker("next").await);
    let owned = store.acquire_one(&worker).await;
    store.probation(&owned, &worker).await;
    store.dies(&worker).await;
    store.assert_nothing_due(&next).await;
    store.clock.advance(REST_MS - 1);
    store.assert_nothing_due(&next).await;
    store.clock.advance(1);
    store.acquire_one(&next).await;
}

/// A death after the end of a probation is no evidence. A turn alone does not end a probation.
pub async fn a_trial_ends_when_that_is_said(store: &Store) {
    let store = store.first();
    store.start(instance("a")).await;
    store.die(2, false).await;
    for _ in 0..5 {
        let worker = store.worker("w").await;
        let owned = store.rested(&worker).await;
        store.probation(&owned, &worker).await;
        store.commit(turn(&owned, &worker)).await;
        assert_eq!(
            store.begin_probation(&owned, &worker, ProbationStep::End).await,
            Outcome::Noted
        );
        assert_eq!(store.dies(&worker).await, []);
    }
    assert_eq!(store.suspicion().await, Suspicion::SUSPECT);
    let worker = store.worker("w").await;
    let owned = store.rested(&worker).await;
    store.probation(&owned, &worker).await;
    store.commit(turn(&owned, &worker)).await;
    store.dies(&worker).await;
    assert!(store.suspicion().await.needs_isolation());
}

/// The next owner has announced no probation.
pub async fn a_trial_ends_with_its_owner(store: &Store) {
    let store = store.first();
    store.start(instance("a")).await;
    store.die(2, false).await;
    let worker = store.worker("w").await;
    let owned = store.acquire_one(&worker).await;
    store.probation(&owned, &worker).await;
    store.provider.release_worker(&worker).await.expect("it leaves");
    store.die(1, false).await;
    let worker = store.worker("w").await;
    let owned = store.acquire_one(&worker).await;
    store.probation(&owned, &worker).await;
    store.suspend("a", "why").await;
    store.resume("a").await;
    store.die(5, false).await;
    assert_eq!(store.suspicion().await, Suspicion::SUSPECT);
}

/// A probation of another owner is fenced off as its turns are (P2).
pub async fn a_trial_of_another_owner_is_kept_off(store: &Store) {
    let store = store.first();
    let (worker, other) = (store.worker("w").await, store.worker("other").await);
    let owned = store.owned("a", &worker).await;
    assert_eq!(store.probation(&owned, &other).await, Outcome::Fenced);
    store.provider.release_worker(&worker).await.expect("it leaves");
    assert_eq!(store.probation(&owned, &worker).await, Outcome::Fenced);
    let again = store.acquire_one(&other).await;
    assert_eq!(
        store.probation(&owned, &other).await,
        Outcome::Fenced,
        "an earlier epoch"
    );
    assert_eq!(store.probation(&again, &other).await, Outcome::Noted);
}

/// The worker stays registered and keeps the instances that it names.
pub async fn giving_back_keeps_the_named_instances(store: &Store) {
    let store = store.first();
    let (worker, next) = (store.worker("w").await, store.worker("next").await);
    let kept = store.owned("kept", &worker).await;
    let given = store.owned("given", &worker).await;
    let back = store
        .release_most(ReleaseMost {
            kept: vec![kept.key],
            ..all_of(&worker)
        })
        .await;
    assert_eq!(
        back,
        ReleasedMost {
            instances: vec![(given.key, given.epoch)],
            poison_pill: None
        }
    );
    let taken = store.acquire_one(&next).await;
    assert_eq!((taken.id.as_str(), taken.suspicion), ("given", Suspicion(0)));
    store.commit(turn(&kept, &worker)).await;
    assert!(matches!(
        store.provider.renew_worker(&worker, LEASE_MS, None).await,
        Ok(Some(_))
    ));
}

/// The former owner is fenced off even after it acquires the instance again.
pub async fn giving_back_fences_off_the_former_owner(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    store.release_most(all_of(&worker)).await;
    assert_eq!(store.turn(turn(&owned, &worker)).await, Outcome::Fenced);
    let again = store.acquire_one(&worker).await;
    assert!(again.epoch > owned.epoch);
    assert_eq!(store.turn(turn(&owned, &worker)).await, Outcome::Fenced);
    store.commit(turn(&again, &worker)).await;
}

/// A worker cannot release an instance of another worker or another epoch.
pub async fn giving_back_names_nothing_that_is_not_its_own(store: &Store) {
    let store = store.first();
    let (worker, other) = (store.worker("w").await, store.worker("other").await);
    let owned = store.owned("a", &worker).await;
    let request = ReleaseMost {
        stalled: Some((owned.key, owned.epoch)),
        ..all_of(&other)
    };
    assert_eq!(store.release_most(request.clone()).await, ReleasedMost::default());
    store.release_most(all_of(&worker)).await;
    let again = store.acquire_one(&other).await;
    let request = ReleaseMost {
        kept: vec![again.key],
        ..request
    };
    assert_eq!(store.release_most(request).await, ReleasedMost::default());
    store.commit(turn(&again, &other)).await;
}

/// A worker releases all tasks but those that it keeps.
pub async fn gives_back_tasks(store: &Store) {
    let store = store.first();
    let (worker, helper) = (store.worker("w").await, store.worker("helper").await);
    store.offered(&worker, 3).await;
    let taken = store.tasks(&helper, 10).await.tasks;
    let next = store.worker("next").await;
    store
        .release_most(ReleaseMost {
            kept_tasks: vec![taken[0].task],
            ..all_of(&helper)
        })
        .await;
    let again = store.take_one(&next).await;
    assert_eq!(again.task, taken[1].task);
    assert_eq!(store.provider.tasks_of(&helper).await, Ok(vec![taken[0].task]));
    assert_eq!(again.task.scheduled, EventId(3));
}

/// The rows of an instance may be the cause of the deaths, so they are not read. A message that comes meanwhile changes
/// nothing.
pub async fn asks_nothing_of_the_rows_of_an_instance(store: &Store) {
    let store = store.first();
    store.start(instance("a")).await;
    store.die(2, false).await;
    store.die(2, true).await;
    store.deliver("a", crate::store::event("go", "1")).await;
    assert_eq!(store.die(1, true).await, [poison_pill("a")]);
    store.deliver("a", crate::store::event("go", "2")).await;
    assert_eq!(store.status("a").await.status, Status::Suspended);
    assert!(matches!(store.terminate("a", None).await, Outcome::Terminated { .. }));
    assert_eq!(store.status("a").await.status, Status::Terminated);
}
