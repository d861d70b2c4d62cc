//! The states of instances: values that their code publishes under names.

use perdure_engine::{EventId, ExecutionId, StateChange};
use perdure_provider::{
    AcquiredInstance, Epoch, Filter, OnConflict, Outcome, PruneRequest, StateRequest, StateValue, Status, StoredState,
    TurnCommit, WorkerId, Write,
};

use crate::continue_as_new::continued;
use crate::store::{Handle, Store, end, release, scheduled, turn};

/// A name or a value with characters that a store may handle in its own way.
const TEXT: &str = "a\0\u{1F600}'\\ text";

/// A change that sets a value.
pub fn set(name: &str, value: &str) -> StateChange {
    StateChange::Set {
        name: name.into(),
        value: Some(value.into()),
    }
}

fn deleted(name: &str) -> StateChange {
    StateChange::Deleted { name: name.into() }
}

fn value(name: &str, value: &str, version: u64) -> StateValue {
    StateValue {
        name: name.into(),
        value: Some(value.into()),
        version,
    }
}

impl Handle<'_> {
    async fn state(&self, id: &str, name: Option<&str>) -> Option<StoredState> {
        let request = StateRequest {
            id: id.into(),
            name: name.map(str::to_owned),
        };
        self.provider.state(request).await.expect("the store answers")
    }

    async fn values(&self, id: &str) -> Vec<StateValue> {
        self.state(id, None).await.expect("the instance is there").values
    }

    /// Returns the texts of the values of a state, by name.
    pub(crate) async fn state_texts(&self, id: &str) -> Vec<String> {
        let values = self.values(id).await.into_iter();
        values.filter_map(|value| value.value).collect()
    }

    /// Commits a turn of one event that changes values.
    async fn change(&self, owned: &mut AcquiredInstance, worker: &WorkerId, state: Vec<StateChange>) {
        let event = owned.next_event_id;
        let commit = TurnCommit {
            events: vec![scheduled(event.0)],
            state,
            ..turn(owned, worker)
        };
        self.commit(commit).await;
        owned.next_event_id = event.next();
    }
}

/// A state has the values that its turns left, each with the version of its last change.
pub async fn has_what_its_turns_left(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    assert_eq!(store.state("a", None).await, None);
    let mut owned = store.owned("a", &worker).await;
    let mut other = store.owned("b", &worker).await;
    let empty = StoredState {
        key: owned.key,
        status: Status::Pending,
        version: 0,
        values: Vec::new(),
    };
    assert_eq!(store.state("a", None).await, Some(empty.clone()));
    store.change(&mut other, &worker, vec![set("x", "other")]).await;
    store
        .change(&mut owned, &worker, vec![set("x", "1"), set(TEXT, TEXT), set("y", "1")])
        .await;
    store.change(&mut owned, &worker, Vec::new()).await;
    assert_eq!(store.status("a").await.state_version, 1);
    store
        .change(&mut owned, &worker, vec![set("x", "2"), deleted("y")])
        .await;
    let state = StoredState {
        status: Status::Running,
        version: 2,
        values: vec![value(TEXT, TEXT, 1), value("x", "2", 2)],
        ..empty
    };
    assert_eq!(store.state("a", None).await, Some(state.clone()));
    assert_eq!(store.status("a").await.state_version, 2);
    for (name, values) in [
        ("x", &state.values[1..]),
        (TEXT, &state.values[..1]),
        ("y", &[]),
        ("", &[]),
    ] {
        let one = store.state("a", Some(name)).await.expect("the instance is there");
        assert_eq!((one.version, &*one.values), (2, values));
    }
    // A value that comes back has a higher version than before.
    store.change(&mut owned, &worker, vec![set("y", "1")]).await;
    assert_eq!(store.values("a").await[2], value("y", "1", 3));
    assert_eq!(store.values("b").await, [value("x", "other", 1)]);
}

/// A value may be `undefined`, which is not the same as no value.
pub async fn may_have_a_value_without_a_text(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let mut owned = store.owned("a", &worker).await;
    let undefined = StateChange::Set {
        name: "u".into(),
        value: None,
    };
    store.change(&mut owned, &worker, vec![undefined]).await;
    let values = store.values("a").await;
    assert_eq!((values.len(), &values[0].value), (1, &None));
    store
        .change(&mut owned, &worker, vec![deleted("u"), deleted("v")])
        .await;
    assert_eq!(store.values("a").await, []);
}

/// A state is kept over the executions and sleeps of its instance, and after its end.
pub async fn is_kept_over_executions(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let mut owned = store.owned("a", &worker).await;
    store
        .change(&mut owned, &worker, vec![set("x", "1"), set("y", "1")])
        .await;
    let continues = TurnCommit {
        state: vec![set("x", "2")],
        ..continued(&owned, &worker, None, true)
    };
    store.commit(continues).await;
    owned.execution = ExecutionId(2);
    owned.next_event_id = EventId(2);
    let sleeps = TurnCommit {
        state: vec![set("z", "3")],
        ..release(&owned, &worker, Some(0))
    };
    store.commit(sleeps).await;
    let expected = [value("x", "2", 2), value("y", "1", 1), value("z", "3", 3)];
    assert_eq!(store.values("a").await, expected);
    let owned = store.acquire_one(&worker).await;
    let ends = TurnCommit {
        state: vec![deleted("x")],
        tell_status: true,
        ..end(&owned, &worker, None)
    };
    let Outcome::Committed { status: Some(told), .. } = store.turn(ends).await else {
        panic!("the turn is committed, and its status is told");
    };
    assert_eq!(told.state_version, 4);
    assert_eq!(store.values("a").await, expected[1..]);
    let state = store.state("a", None).await.expect("the instance is there");
    assert_eq!((state.status, state.version), (Status::Completed, 4));
}

/// Changes are written with their turn or not at all.
pub async fn changes_with_its_turn(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let mut owned = store.owned("a", &worker).await;
    store.change(&mut owned, &worker, vec![set("x", "1")]).await;
    let fenced = TurnCommit {
        epoch: Epoch(owned.epoch.0 + 1),
        state: vec![set("x", "2"), set("y", "2")],
        ..turn(&owned, &worker)
    };
    assert_eq!(store.turn(fenced).await, Outcome::Fenced);
    assert_eq!(store.values("a").await, [value("x", "1", 1)]);
    assert_eq!(store.status("a").await.state_version, 1);
}

/// The changes of a first turn are written with the start.
pub async fn comes_with_a_start_and_its_first_turn(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let model = store.owned("model", &worker).await;
    for on_conflict in [OnConflict::Keep, OnConflict::TerminateAndRestart] {
        let first_turn = TurnCommit {
            state: vec![set("x", "1")],
            ..turn(&model, &worker)
        };
        store.start_with_turn("a", first_turn, on_conflict).await;
        // The second instance replaces the first one, and begins anew.
        assert_eq!(store.values("a").await, [value("x", "1", 1)], "{on_conflict:?}");
        assert_eq!(store.status("a").await.state_version, 1);
    }
}

/// The state goes with its instance, and with one that is replaced.
pub async fn goes_with_the_instance(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    for way in ["delete", "prune", "replace"] {
        let owned = store.owned("a", &worker).await;
        let ends = TurnCommit {
            state: vec![set("x", "1")],
            ..end(&owned, &worker, None)
        };
        store.commit(ends).await;
        match way {
            "delete" => {
                let delete = Write::Delete { id: "a".into() };
                assert_eq!(store.write(delete).await, Outcome::Deleted);
            }
            "prune" => {
                let request = PruneRequest {
                    filter: Filter::default(),
                    after: None,
                    limit: 10,
                    walk_max: 10,
                };
                let pruned = store.provider.prune(request).await.expect("the store answers");
                assert_eq!(pruned.deleted, 1);
            }
            _ => {
                store.acquire_anew("a", &worker).await;
                assert_eq!(store.values("a").await, []);
                assert_eq!(store.status("a").await.state_version, 0);
                continue;
            }
        }
        assert_eq!(store.state("a", None).await, None);
    }
}
