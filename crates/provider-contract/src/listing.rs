//! Lists of instances: in order and in pages.

use perdure_engine::{EndEvent, Event, EventId, EventRecord, Payload};
use perdure_provider::{
    AfterTurn, Filter, InstanceStatus, LIST_BYTES_MAX, ListPage, ListRequest, NewInstance, Place, Status, StatusChange,
    TurnCommit, WorkerId,
};

use crate::store::{Handle, NAME, START_MS, Store, end, instance, suspend, turn};

/// Wide enough for every check that is not about this limit.
pub(crate) const WALK_MAX: usize = 1_000;

impl Handle<'_> {
    pub(crate) async fn list(&self, request: ListRequest) -> ListPage {
        self.provider.list(request).await.expect("the store answers")
    }

    pub(crate) async fn listed(&self, filter: Filter) -> Vec<String> {
        ids(&self.list(all(filter)).await)
    }

    /// Starts an instance `offset_ms` after the first one.
    pub(crate) async fn start_at(&self, offset_ms: i64, new: NewInstance) {
        let first_event = EventRecord {
            time_ms: START_MS + offset_ms,
            ..new.first_event
        };
        self.start(NewInstance { first_event, ..new }).await;
    }

    /// Starts an instance `offset_ms` after the first one and brings it to a state. No other instance may be due
    /// meanwhile.
    pub(crate) async fn start_as(&self, worker: &WorkerId, offset_ms: i64, new: NewInstance, status: Status) {
        let id = new.id.clone();
        self.start_at(offset_ms, new).await;
        let end = match status {
            Status::Pending => return,
            Status::Terminated => {
                self.terminate(&id, None).await;
                return;
            }
            Status::Completed => Some(Event::End(EndEvent::ExecutionCompleted { output: None })),
            Status::Failed => Some(Event::End(EndEvent::ExecutionFailed { error: None })),
            Status::Cancelled => Some(Event::End(EndEvent::ExecutionCancelled { error: None })),
            Status::Running | Status::Suspended => None,
        };
        let owned = self.acquire_one(worker).await;
        let commit = match end {
            Some(event) => TurnCommit {
                events: vec![EventRecord::new(EventId(2), START_MS, event)],
                after: AfterTurn::End { status },
                ..turn(&owned, worker)
            },
            None if status == Status::Suspended => suspend(&owned, worker, "why"),
            None => turn(&owned, worker),
        };
        self.commit(commit).await;
    }

    /// All pages of a list.
    pub(crate) async fn pages(&self, first: ListRequest) -> Vec<InstanceStatus> {
        let (mut found, mut request) = (Vec::new(), first);
        loop {
            let page = self.list(request.clone()).await;
            assert!(page.instances.len() <= request.limit);
            found.extend(page.instances);
            request.after = page.next;
            if request.after.is_none() {
                return found;
            }
        }
    }
}

pub(crate) fn all(filter: Filter) -> ListRequest {
    ListRequest {
        filter,
        after: None,
        limit: 100,
        walk_max: WALK_MAX,
    }
}

pub(crate) fn ids(page: &ListPage) -> Vec<String> {
    page.instances.iter().map(|status| status.id.clone()).collect()
}

/// The order is by creation, then by key.
pub async fn brings_the_newest_first(store: &Store) {
    let store = store.first();
    assert_eq!(store.list(all(Filter::default())).await, ListPage::default());
    for (id, offset) in [("a", 5), ("b", 0), ("c", 5), ("d", 9), ("e", -3)] {
        store.start_at(offset, instance(id)).await;
    }
    let page = store.list(all(Filter::default())).await;
    assert_eq!(ids(&page), ["d", "c", "a", "b", "e"]);
    assert_eq!(page.next, None);
}

/// Each status is the same that the instance has when it is read by its id, with its result.
pub async fn brings_whole_statuses(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    store
        .start(NewInstance {
            tags: Some(r#"{"a":"1"}"#.into()),
            parent_id: Some("parent".into()),
            ..instance("ended")
        })
        .await;
    let owned = store.acquire_one(&worker).await;
    let ending = TurnCommit {
        custom_status: Some(StatusChange {
            value: Some("2".into()),
        }),
        ..end(&owned, &worker, Some("[1]".into()))
    };
    store.commit(ending).await;
    let owned = store.owned("held", &worker).await;
    store.commit(suspend(&owned, &worker, "why")).await;
    store.start(instance("pending")).await;
    for status in store.list(all(Filter::default())).await.instances {
        assert_eq!(store.status(&status.id).await, status);
    }
}

/// No instance comes twice and none is left out, however small the pages are and also where instances share a time.
pub async fn continues_at_the_end_of_a_page(store: &Store) {
    let store = store.first();
    for n in 0..7 {
        store.start_at(n / 3, instance(&n.to_string())).await;
    }
    let expected: Vec<String> = (0..7).rev().map(|n| n.to_string()).collect();
    for limit in 1..=8 {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = store
                .list(ListRequest {
                    after,
                    limit,
                    ..all(Filter::default())
                })
                .await;
            assert!(page.instances.len() <= limit);
            found.extend(ids(&page));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(found, expected, "in pages of {limit}");
    }
}

/// An instance that is started or deleted meanwhile does not move the others to another page.
pub async fn is_not_disturbed_between_its_pages(store: &Store) {
    let store = store.first();
    for n in 0..4 {
        store.start_at(n, instance(&n.to_string())).await;
    }
    let first = store
        .list(ListRequest {
            limit: 2,
            ..all(Filter::default())
        })
        .await;
    assert_eq!(ids(&first), ["3", "2"]);
    store.start_at(9, instance("newer")).await;
    store.terminate("2", None).await;
    store.delete("2").await;
    let second = store
        .list(ListRequest {
            after: first.next,
            ..all(Filter::default())
        })
        .await;
    assert_eq!(ids(&second), ["1", "0"]);
}

/// A page ends when it has looked at enough instances, and the next page goes on after them.
pub async fn walks_no_further_than_it_may(store: &Store) {
    let store = store.first();
    for n in 0..10 {
        let name = if n == 0 { "rare" } else { NAME };
        let new = NewInstance {
            name: name.into(),
            ..instance(&n.to_string())
        };
        store.start_at(n, new).await;
    }
    let filter = Filter {
        name: Some("rare".into()),
        ..Filter::default()
    };
    let (mut after, mut pages) = (None, Vec::new());
    loop {
        let page = store
            .list(ListRequest {
                after,
                walk_max: 4,
                ..all(filter.clone())
            })
            .await;
        pages.push(ids(&page));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(pages, [vec![], vec![], vec!["0".to_owned()]]);
}

/// A page of large results holds few of them.
pub async fn holds_no_more_than_so_many_bytes(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let large: Payload = Some("x".repeat(LIST_BYTES_MAX / 2 + 1));
    for n in 0..4 {
        let owned = store.owned(&n.to_string(), &worker).await;
        store.commit(end(&owned, &worker, large.clone())).await;
    }
    let page = store.list(all(Filter::default())).await;
    assert_eq!(ids(&page), ["3", "2"]);
    let rest = store
        .list(ListRequest {
            after: page.next,
            ..all(Filter::default())
        })
        .await;
    assert_eq!((ids(&rest), rest.next), (vec!["1".to_owned(), "0".to_owned()], None));
}

/// A place is a position in the order, even if no instance is there.
pub async fn begins_at_any_place(store: &Store) {
    let store = store.first();
    for n in 0..3 {
        store.start_at(n, instance(&n.to_string())).await;
    }
    let after = |at_ms, key| ListRequest {
        after: Some(Place {
            at_ms,
            key: perdure_provider::InstanceKey(key),
        }),
        ..all(Filter::default())
    };
    assert_eq!(ids(&store.list(after(START_MS + 1, i64::MIN)).await), ["0"]);
    assert_eq!(ids(&store.list(after(START_MS + 1, i64::MAX)).await), ["1", "0"]);
    assert_eq!(ids(&store.list(after(i64::MIN, 0)).await), Vec::<String>::new());
}
