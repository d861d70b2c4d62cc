//! Filters of lists: each condition, and lists that go along different indexes.

use std::collections::BTreeMap;

use perdure_provider::{
    Acquire, Candidate, Filter, InstanceStatus, ListRequest, NewInstance, PREFIX_IDS_MAX, PageLimit, Status,
};

use crate::listing::{WALK_MAX, all};
use crate::store::{Handle, NAME, START_MS, Store, VERSION, instance, start};

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

/// Starts four instances, a millisecond apart, for the checks of single conditions.
async fn start_orders(store: &Handle<'_>) {
    let tags = |text: &str| Some(text.to_owned());
    let other = |id: &str| NewInstance {
        name: "other".into(),
        version: "2.0.0".into(),
        tags: tags(r#"{"team":"b"}"#),
        parent_id: Some("q".into()),
        ..instance(id)
    };
    let second = NewInstance {
        version: VERSION.into(),
        tags: tags(r#"{"é\"":"\u0000","team":"a"}"#),
        parent_id: Some("p".into()),
        ..other("order_2")
    };
    let third = NewInstance {
        tags: tags("no tags"),
        ..instance("orderX1")
    };
    for (n, new) in (0..).zip([instance("Order%1"), other("order_1"), second, third]) {
        store.start_at(n, new).await;
    }
}

async fn assert_lists(store: &Handle<'_>, cases: &[(Filter, &[&str])]) {
    for (filter, expected) in cases {
        assert_eq!(store.listed(filter.clone()).await, *expected, "{filter:?}");
    }
}

/// Returns a filter for everything, changed by `change`.
fn filter(change: impl FnOnce(&mut Filter)) -> Filter {
    let mut filter = Filter::default();
    change(&mut filter);
    filter
}

/// A condition is compared literally: case matters.
pub async fn filters_by_name_version_and_parent(store: &Store) {
    let store = store.first();
    start_orders(&store).await;
    let cases: [(Filter, &[&str]); 4] = [
        (filter(|f| f.name = Some("other".into())), &["order_2", "order_1"]),
        (filter(|f| f.name = Some("OTHER".into())), &[]),
        (filter(|f| f.version = Some("2.0.0".into())), &["order_1"]),
        (filter(|f| f.parent_id = Some("p".into())), &["order_2"]),
    ];
    assert_lists(&store, &cases).await;
}

/// Ids that are in no use are passed over, and other conditions hold as well.
pub async fn filters_by_exact_ids(store: &Store) {
    let store = store.first();
    start_orders(&store).await;
    let ids = |ids: &[&str]| filter(|f| f.ids = ids.iter().map(|id| (*id).to_owned()).collect());
    let several = Filter {
        name: Some("other".into()),
        id_prefix: Some("order_".into()),
        ..ids(&["orderX1", "order_1", "Order%1"])
    };
    let cases: [(Filter, &[&str]); 4] = [
        (ids(&["order_1", "orderX1", "none"]), &["orderX1", "order_1"]),
        (ids(&["order", "ORDER_1", "order_1 "]), &[]),
        (several, &["order_1"]),
        (filter(|f| f.parent_id = Some("p".into())), &["order_2"]),
    ];
    assert_lists(&store, &cases).await;
}

/// The instances of built-in orchestrations can be left out, along each index.
pub async fn filters_out_built_in_orchestrations(store: &Store) {
    let store = store.first();
    let named = |id: &str, name: &str| NewInstance {
        name: name.into(),
        parent_id: Some("parent".into()),
        ..instance(id)
    };
    for (id, name) in [
        ("a", "perdure.lock"),
        ("b", "perdureX"),
        ("c", "perdure"),
        ("d", "perdure."),
    ] {
        store.start(named(id, name)).await;
    }
    store.terminate("a", None).await;
    store.terminate("c", None).await;
    let users = |set: fn(&mut Filter)| {
        filter(|f| {
            f.hides_built_in = true;
            set(f);
        })
    };
    let cases: [(Filter, &[&str]); 7] = [
        (filter(|_| {}), &["d", "c", "b", "a"]),
        (users(|_| {}), &["c", "b"]),
        (users(|f| f.ids = ["a", "c", "d"].map(str::to_owned).into()), &["c"]),
        (users(|f| f.statuses = vec![Status::Terminated]), &["c"]),
        (users(|f| f.statuses = vec![Status::Pending]), &["b"]),
        (users(|f| f.parent_id = Some("parent".into())), &["c", "b"]),
        (users(|f| f.id_prefix = Some("d".into())), &[]),
    ];
    assert_lists(&store, &cases).await;
}

/// No letter of a prefix is a wildcard.
pub async fn filters_by_the_beginning_of_an_id(store: &Store) {
    let store = store.first();
    start_orders(&store).await;
    let begins = |prefix: &str| filter(|f| f.id_prefix = Some(prefix.into()));
    let cases: [(Filter, &[&str]); 4] = [
        (begins("order"), &["orderX1", "order_2", "order_1"]),
        (begins("order_"), &["order_2", "order_1"]),
        (begins("Order%"), &["Order%1"]),
        (begins(""), &["orderX1", "order_2", "order_1", "Order%1"]),
    ];
    assert_lists(&store, &cases).await;
}

/// Tags are compared as JSON, not as text. An instance with damaged tags matches none.
pub async fn filters_by_tags(store: &Store) {
    let store = store.first();
    start_orders(&store).await;
    let cases: [(Filter, &[&str]); 2] = [
        (filter(|f| f.tags = tag("team", "a")), &["order_2"]),
        (filter(|f| f.tags = tag("é\"", "\0")), &["order_2"]),
    ];
    assert_lists(&store, &cases).await;
}

fn tag(name: &str, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(name.to_owned(), value.to_owned())])
}

/// Limits of times are exclusive.
pub async fn filters_by_times(store: &Store) {
    let store = store.first();
    start_orders(&store).await;
    let created = |after: Option<i64>, before: Option<i64>| {
        filter(|f| {
            f.created_after_ms = after.map(|ms| START_MS + ms);
            f.created_before_ms = before.map(|ms| START_MS + ms);
        })
    };
    let cases: [(Filter, &[&str]); 4] = [
        (created(Some(1), None), &["orderX1", "order_2"]),
        (created(None, Some(1)), &["Order%1"]),
        (created(Some(0), Some(3)), &["order_2", "order_1"]),
        (filter(|f| f.completed_before_ms = Some(i64::MAX)), &[]),
    ];
    assert_lists(&store, &cases).await;
}

/// An instance matches if it meets each condition of a filter.
pub async fn filters_by_several_conditions_at_once(store: &Store) {
    let store = store.first();
    start_orders(&store).await;
    let several = Filter {
        name: Some("other".into()),
        version: Some(VERSION.into()),
        tags: tag("team", "a"),
        id_prefix: Some("order".into()),
        ..Filter::default()
    };
    assert_lists(&store, &[(several, &["order_2"])]).await;
}

/// A child is found by the id of its parent, although that parent is deleted.
pub async fn finds_the_children_of_a_deleted_parent(store: &Store) {
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
            left_ms: 0,
            looked: false,
        })
        .await;
    assert_eq!(acquired.instances.len(), 1, "it goes on");
}

/// Starts instances in each state and with each parent, whose ids begin alike.
async fn start_many(store: &Handle<'_>) {
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
}

fn of_statuses(statuses: &[Status]) -> Filter {
    filter(|f| f.statuses = statuses.to_vec())
}

fn children_of(parent: &str) -> Filter {
    filter(|f| f.parent_id = Some(parent.into()))
}

fn begins_with(prefix: &str) -> Filter {
    filter(|f| f.id_prefix = Some(prefix.into()))
}

/// Returns filters of one condition, each with its own best index.
fn simple_filters() -> Vec<Filter> {
    use Status::{Cancelled, Completed, Failed, Running, Suspended, Terminated};
    let mut filters = vec![Filter::default()];
    filters.extend(Status::ALL.map(|status| of_statuses(&[status])));
    filters.extend([
        of_statuses(&[Failed, Suspended]),
        of_statuses(&[Terminated, Cancelled, Failed]),
        of_statuses(&[Suspended, Failed, Cancelled, Terminated]),
        of_statuses(&[Running, Suspended]),
        of_statuses(&[Completed, Failed]),
    ]);
    filters.extend(["here", "gone", "again", "nobody", ""].map(children_of));
    let prefixes = [
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
    ];
    filters.extend(prefixes.map(begins_with));
    filters
}

/// Returns filters of several conditions, for which a store has to choose an index.
fn combined_filters() -> Vec<Filter> {
    use Status::{Failed, Suspended, Terminated};
    vec![
        Filter {
            statuses: vec![Failed],
            ..children_of("here")
        },
        Filter {
            id_prefix: Some("o-".into()),
            ..children_of("gone")
        },
        Filter {
            statuses: vec![Failed, Terminated],
            created_after_ms: Some(START_MS + 5),
            created_before_ms: Some(START_MS + 15),
            ..begins_with("o")
        },
        Filter {
            created_after_ms: Some(START_MS + 5),
            ..children_of("again")
        },
        Filter {
            created_before_ms: Some(START_MS + 5),
            tags: tag("even", "true"),
            ..of_statuses(&[Failed, Suspended])
        },
        Filter {
            completed_before_ms: Some(i64::MAX),
            ..begins_with("o-")
        },
    ]
}

/// A store may walk along another index for each list. Every walk finds the same as a look at each instance, in pages
/// of any size and with any limit on the instances looked at.
pub async fn finds_the_same_along_each_index(store: &Store) {
    let store = store.first();
    start_many(&store).await;
    let everything = store.list(all(Filter::default())).await.instances;
    assert_eq!(everything.len(), 62);
    for filter in simple_filters().into_iter().chain(combined_filters()) {
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
