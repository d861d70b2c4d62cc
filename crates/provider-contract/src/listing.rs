//! Lists of instances: in order, filtered, in pages.

use std::collections::BTreeMap;

use perdure_engine::{EndEvent, Event, EventId, EventRecord, Payload};
use perdure_provider::{
    Acquire, AfterTurn, Candidate, Filter, InstanceStatus, LIST_BYTES_MAX, ListPage, ListRequest, NewInstance,
    PREFIX_IDS_MAX, PageLimit, Place, Status, StatusChange, TurnCommit, WorkerId,
};

use crate::store::{Handle, NAME, START_MS, Store, VERSION, end, instance, start, suspend, turn};

/// Wide enough for every check that is not about this limit.
const WALK_MAX: usize = 1_000;

impl Handle<'_> {
    async fn list(&self, request: ListRequest) -> ListPage {
        self.provider.list(request).await.expect("the store answers")
    }

    async fn listed(&self, filter: Filter) -> Vec<String> {
        ids(&self.list(all(filter)).await)
    }

    /// Starts an instance `offset_ms` after the first one.
    async fn start_at(&self, offset_ms: i64, new: NewInstance) {
        let first_event = EventRecord {
            time_ms: START_MS + offset_ms,
            ..new.first_event
        };
        self.start(NewInstance { first_event, ..new }).await;
    }

    /// Starts an instance `offset_ms` after the first one and brings it to a state. No other instance may be due
    /// meanwhile.
    async fn start_as(&self, worker: &WorkerId, offset_ms: i64, new: NewInstance, status: Status) {
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
    async fn pages(&self, first: ListRequest) -> Vec<InstanceStatus> {
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

/// True if a filter matches the status that clients see.
fn is_named(filter: &Filter, status: &InstanceStatus) -> bool {
    filter.matches(&Candidate {
        id: &status.id,
        name: &status.name,
        version: &status.version,
        status: status.status,
        parent_id: status.parent_id.as_deref(),
        tags: status.tags.as_deref(),
        created_at_ms: status.created_at_ms,
        completed_at_ms: status.completed_at_ms,
    })
}

fn all(filter: Filter) -> ListRequest {
    ListRequest {
        filter,
        after: None,
        limit: 100,
        walk_max: WALK_MAX,
    }
}

fn ids(page: &ListPage) -> Vec<String> {
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
pub async fn goes_on_where_a_page_ended(store: &Store) {
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

/// A list can be filtered by one status, or by several, such as all that have not ended.
pub async fn filters_by_status(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    use Status::{Cancelled, Completed, Failed, Pending, Running, Suspended, Terminated};
    for status in [Completed, Failed, Cancelled, Terminated, Suspended, Running, Pending] {
        let id = status.as_str().to_lowercase();
        store.start_as(&worker, 0, instance(&id), status).await;
    }

    let of = |statuses: &[Status]| Filter {
        statuses: statuses.to_vec(),
        ..Filter::default()
    };
    for status in Status::ALL {
        assert_eq!(store.listed(of(&[status])).await, [status.as_str().to_lowercase()]);
    }
    for (statuses, expected) in [
        (
            &[Pending, Running, Suspended][..],
            &["pending", "running", "suspended"][..],
        ),
        (&[Suspended, Pending], &["pending", "suspended"]),
        (&[Suspended, Terminated, Failed], &["suspended", "terminated", "failed"]),
    ] {
        assert_eq!(store.listed(of(statuses)).await, expected);
    }
}

/// A condition is compared literally: case matters, and no letter is a wildcard.
pub async fn filters_by_each_condition(store: &Store) {
    let store = store.first();
    let tags = |text: &str| Some(text.to_owned());
    let of = |id: &str| NewInstance {
        name: "other".into(),
        version: "2.0.0".into(),
        tags: tags(r#"{"team":"b"}"#),
        parent_id: Some("q".into()),
        ..instance(id)
    };
    store.start_at(0, instance("Order%1")).await;
    store.start_at(1, of("order_1")).await;
    let new = NewInstance {
        name: "other".into(),
        ..of("order_2")
    };
    store
        .start_at(
            2,
            NewInstance {
                version: VERSION.into(),
                tags: tags(r#"{"é\"":"\u0000","team":"a"}"#),
                parent_id: Some("p".into()),
                ..new
            },
        )
        .await;
    store
        .start_at(
            3,
            NewInstance {
                tags: tags("no tags"),
                ..instance("orderX1")
            },
        )
        .await;

    let text = |text: &str| Some(text.to_owned());
    let tagged = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
    let any = Filter::default;
    let cases: [(Filter, &[&str]); 15] = [
        (
            Filter {
                name: text("other"),
                ..any()
            },
            &["order_2", "order_1"],
        ),
        (
            Filter {
                name: text("OTHER"),
                ..any()
            },
            &[],
        ),
        (
            Filter {
                version: text("2.0.0"),
                ..any()
            },
            &["order_1"],
        ),
        (
            Filter {
                parent_id: text("p"),
                ..any()
            },
            &["order_2"],
        ),
        (
            Filter {
                id_prefix: text("order"),
                ..any()
            },
            &["orderX1", "order_2", "order_1"],
        ),
        (
            Filter {
                id_prefix: text("order_"),
                ..any()
            },
            &["order_2", "order_1"],
        ),
        (
            Filter {
                id_prefix: text("Order%"),
                ..any()
            },
            &["Order%1"],
        ),
        (
            Filter {
                id_prefix: text(""),
                ..any()
            },
            &["orderX1", "order_2", "order_1", "Order%1"],
        ),
        (
            Filter {
                tags: tagged("team", "a"),
                ..any()
            },
            &["order_2"],
        ),
        (
            Filter {
                tags: tagged("é\"", "\0"),
                ..any()
            },
            &["order_2"],
        ),
        (
            Filter {
                created_after_ms: Some(START_MS + 1),
                ..any()
            },
            &["orderX1", "order_2"],
        ),
        (
            Filter {
                created_before_ms: Some(START_MS + 1),
                ..any()
            },
            &["Order%1"],
        ),
        (
            Filter {
                created_after_ms: Some(START_MS),
                created_before_ms: Some(START_MS + 3),
                ..any()
            },
            &["order_2", "order_1"],
        ),
        (
            Filter {
                completed_before_ms: Some(i64::MAX),
                ..any()
            },
            &[],
        ),
        (
            Filter {
                name: text("other"),
                version: text(VERSION),
                tags: tagged("team", "a"),
                id_prefix: text("order"),
                ..any()
            },
            &["order_2"],
        ),
    ];
    for (filter, expected) in cases {
        assert_eq!(store.listed(filter.clone()).await, expected, "{filter:?}");
    }
}

/// A child is found by the id of its parent, although that parent is deleted.
pub async fn finds_the_children_of_what_is_gone(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let of = |id: &str| NewInstance {
        parent_id: Some("parent".into()),
        ..instance(id)
    };
    store.start(instance("parent")).await;
    store.start(of("child")).await;
    store.terminate("parent", None).await;
    store.delete("parent").await;
    let filter = Filter {
        parent_id: Some("parent".into()),
        ..Filter::default()
    };
    assert_eq!(store.listed(filter).await, ["child"]);
    let registered = vec![(NAME.to_owned(), VERSION.to_owned())];
    let acquired = store
        .request(Acquire {
            worker,
            registered,
            limit: PageLimit::rows(10),
            history_page: PageLimit::rows(100),
        })
        .await;
    assert_eq!(acquired.instances.len(), 1, "it goes on");
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

/// A store may walk along another index for each list. Every walk finds the same as a look at each instance, in pages
/// of any size and with any limit on the instances looked at.
pub async fn finds_the_same_whichever_way_it_goes(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let text = |text: &str| Some(text.to_owned());
    // A parent that exists, one that is deleted, and one whose id was reused by another instance.
    let parents = [None, text("here"), text("gone"), text("again")];
    store.start_as(&worker, 0, instance("gone"), Status::Completed).await;
    store.start_as(&worker, 0, instance("again"), Status::Completed).await;
    let ids = [
        "o",
        "o-",
        "o-\0",
        "o-\u{1}",
        "o-\u{1}0",
        "o-é",
        "o-\u{10FFFF}",
        "o.",
        "p%",
        "p_",
    ];
    let mut n = 0;
    for status in Status::ALL.into_iter().filter(|status| *status != Status::Pending) {
        for (parent, id) in parents.iter().cycle().zip(ids) {
            let new = NewInstance {
                parent_id: parent.clone(),
                tags: Some(format!(r#"{{"even":"{}"}}"#, n % 2 == 0)),
                ..instance(&format!("{id}{n}"))
            };
            // The order of times is not the order of starts, and some instances share a time.
            store.start_as(&worker, (n * 7) % 23, new, status).await;
            n += 1;
        }
    }
    store.delete("gone").await;
    store.delete("again").await;
    for id in ["here", "again"] {
        store.start_at(5, instance(id)).await;
    }
    let everything = store.list(all(Filter::default())).await.instances;
    assert_eq!(everything.len(), 62);

    let statuses = |statuses: &[Status]| Filter {
        statuses: statuses.to_vec(),
        ..Filter::default()
    };
    let children = |parent: &str| Filter {
        parent_id: text(parent),
        ..Filter::default()
    };
    let begins = |prefix: &str| Filter {
        id_prefix: text(prefix),
        ..Filter::default()
    };
    use Status::{Cancelled, Completed, Failed, Running, Suspended, Terminated};
    let mut filters = vec![Filter::default()];
    filters.extend(Status::ALL.map(|status| statuses(&[status])));
    filters.extend([
        statuses(&[Failed, Suspended]),
        statuses(&[Terminated, Cancelled, Failed]),
        statuses(&[Suspended, Failed, Cancelled, Terminated]),
        statuses(&[Running, Suspended]),
        statuses(&[Completed, Failed]),
    ]);
    filters.extend(["here", "gone", "again", "nobody", ""].map(children));
    filters.extend(
        [
            "",
            "o",
            "o-",
            "o-\0",
            "o-\u{1}",
            "o-\u{10FFFF}",
            "\u{10FFFF}",
            "p%",
            "P",
            "nothing",
        ]
        .map(begins),
    );
    filters.extend([
        Filter {
            statuses: vec![Failed],
            ..children("here")
        },
        Filter {
            id_prefix: text("o-"),
            ..children("gone")
        },
        Filter {
            statuses: vec![Failed, Terminated],
            created_after_ms: Some(START_MS + 5),
            created_before_ms: Some(START_MS + 15),
            ..begins("o")
        },
        Filter {
            created_after_ms: Some(START_MS + 5),
            ..children("again")
        },
        Filter {
            created_before_ms: Some(START_MS + 5),
            tags: BTreeMap::from([("even".to_owned(), "true".to_owned())]),
            ..statuses(&[Failed, Suspended])
        },
        Filter {
            completed_before_ms: Some(i64::MAX),
            ..begins("o-")
        },
    ]);
    for filter in filters {
        let named = everything.iter().filter(|status| is_named(&filter, status)).cloned();
        let expected: Vec<_> = named.collect();
        for (limit, walk_max) in [(100, WALK_MAX), (3, WALK_MAX), (1, WALK_MAX), (100, 4), (3, 1)] {
            let request = ListRequest {
                limit,
                walk_max,
                ..all(filter.clone())
            };
            let found = store.pages(request).await;
            assert_eq!(found, expected, "{filter:?} in pages of {limit}, {walk_max} looked at");
        }
    }
}

/// The list is complete even if more ids begin with the prefix than a store looks up by prefix.
pub async fn finds_ids_by_their_prefix_where_many_begin_with_it(store: &Store) {
    let store = store.first();
    let starts = (0..=PREFIX_IDS_MAX).map(|n| start(instance(&format!("many/{n:04}"))));
    store.batch(starts.collect()).await;
    store.start_at(-1, instance("few/1")).await;
    store.start_at(-2, instance("many")).await;
    for (prefix, count) in [
        ("many/", PREFIX_IDS_MAX + 1),
        ("many/0", 1_000),
        ("many/1", 1),
        ("few", 1),
    ] {
        let filter = Filter {
            id_prefix: Some(prefix.to_owned()),
            ..Filter::default()
        };
        let found = store.pages(all(filter)).await;
        assert_eq!(found.len(), count, "{prefix}");
        assert!(found.iter().all(|status| status.id.starts_with(prefix)));
        let places: Vec<_> = found.iter().map(|status| (status.created_at_ms, status.key)).collect();
        assert!(places.is_sorted_by(|a, b| a > b), "{prefix}");
    }
}
