//! Filters of lists: each condition, and lists that go along different indexes.

use std::collections::BTreeMap;

use perdure_provider::{
    Acquire, Candidate, Filter, InstanceStatus, ListRequest, NewInstance, PREFIX_IDS_MAX, PageLimit, Status,
};

use crate::listing::{WALK_MAX, all};
use crate::store::{NAME, START_MS, Store, VERSION, instance, start};

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

/// A store may walk along another index for each list. Every walk finds the same as a look at each instance, in pages
/// of any size and with any limit on the instances looked at.
pub async fn finds_the_same_along_each_index(store: &Store) {
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
