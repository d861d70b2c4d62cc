//! Reads are bounded by bytes, too: a page ends with the row that fills it, so that one row always passes.

use perdure_engine::{
    ActivityOptions, ChildFailure, CommandEvent, EventId, EventRecord, ExecutionId, Mailbox, MessageBody, Settlement,
};
use perdure_provider::{
    Acquire, AfterTurn, CrossInstanceEffects, InboxPosition, InstanceKey, LIST_BYTES_MAX, Load, LoadOne, Loaded,
    MessagePage, PageLimit, Suspicion, TaskOffer, TaskRequest, TurnCommit, WorkerId,
};

use crate::store::{Handle, NAME, SESSIONS, START_MS, Store, VERSION, end, event, instance, queued, started, turn};

/// The time at which an instance is due.
const DUE_MS: i64 = START_MS + 1_000;

/// A page of up to 1 000 rows that ends once it has this many bytes.
const fn bytes(bytes: usize) -> PageLimit {
    PageLimit { rows: 1_000, bytes }
}

/// A value of 100 bytes that begins with a letter.
fn large(letter: char) -> String {
    format!("\"{letter}{}\"", "x".repeat(97))
}

fn step(id: u64, input: &str) -> EventRecord {
    let event = CommandEvent::ActivityScheduled {
        name: "step".into(),
        input: Some(input.into()),
        options: ActivityOptions::default(),
    };
    EventRecord::new(EventId(id), 1, event)
}

/// Creates an instance with a first event of some bytes and five events of 100 bytes. The instance has no owner and is
/// due later.
async fn long(store: &Handle<'_>, id: &str, worker: &WorkerId) -> InstanceKey {
    let owned = store.owned(id, worker).await;
    store
        .commit(TurnCommit {
            events: (2..=6).map(|n| step(n, &large('a'))).collect(),
            after: AfterTurn::Release {
                wake_at_ms: Some(DUE_MS),
            },
            ..turn(&owned, worker)
        })
        .await;
    owned.key
}

fn request(worker: &WorkerId, limit: PageLimit, history_page: PageLimit) -> Acquire {
    Acquire {
        worker: worker.clone(),
        registered: vec![(NAME.to_owned(), VERSION.to_owned())],
        limit,
        history_page,
        left_ms: 0,
        looked: false,
    }
}

/// The next page goes on with the next event, and the last page is not full.
pub async fn of_a_history_end_with_the_event_that_fills_them(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let key = long(&store, "a", &worker).await;
    let first = started(Some("{}".into())).bytes();
    for (limit, pages) in [
        (first + 150, vec![vec![1, 2, 3], vec![4, 5, 6], vec![]]),
        (150, vec![vec![1, 2], vec![3, 4], vec![5, 6], vec![]]),
        (1, (1..=6).map(|n| vec![n]).chain([vec![]]).collect()),
        (10_000, vec![(1..=6).collect()]),
    ] {
        let (mut from, mut found) = (EventId::FIRST, Vec::new());
        loop {
            let read = store
                .provider
                .read_history(key, ExecutionId::FIRST, from, bytes(limit))
                .await
                .expect("the store answers");
            let size = read.iter().map(EventRecord::bytes).sum();
            found.push(read.iter().map(|event| event.event_id.0).collect::<Vec<_>>());
            from = read.last().map_or(from, |last| last.event_id.next());
            if !bytes(limit).is_reached(read.len(), size) {
                break;
            }
        }
        assert_eq!(found, pages, "of {limit} bytes");
    }
}

/// The other instances stay due for the next request.
pub async fn of_an_acquisition_end_with_the_instance_that_fills_them(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    for id in ["a", "b", "c"] {
        long(&store, id, &worker).await;
    }
    store.clock.advance(DUE_MS - START_MS);
    let page = started(Some("{}".into())).bytes() + 500;
    for (limit, taken) in [(page + 1, 2), (1, 1), (1, 0)] {
        let acquired = store.request(request(&worker, bytes(limit), bytes(10_000))).await;
        assert_eq!(acquired.instances.len(), taken, "of {limit} bytes");
        assert!(acquired.instances.iter().all(|instance| instance.page_bytes == page));
        let left = (taken > 0 && limit > 1).then_some(DUE_MS);
        assert_eq!(acquired.next_wake_at_ms, left);
    }
}

/// An acquisition counts the messages of an instance, because a worker reads all of them at once.
pub async fn of_an_acquisition_count_the_messages_of_each_instance(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    for id in ["a", "b", "c"] {
        long(&store, id, &worker).await;
    }
    let first = started(Some("{}".into())).bytes();
    for _ in 0..10 {
        store.deliver("a", event("go", &large('m'))).await;
    }
    store.clock.advance(DUE_MS - START_MS);
    let limit = bytes(first + 1_000);
    let acquired = store.request(request(&worker, limit, PageLimit::rows(100))).await;
    let sizes: Vec<_> = acquired.instances.iter().map(|instance| instance.page_bytes).collect();
    // The first instance fills the page by its messages.
    assert_eq!(sizes, [first + 500 + 1_000]);
}

/// The pages of a history that are read later do not count.
pub async fn of_an_acquisition_are_measured_by_the_first_page_of_each(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    for id in ["a", "b", "c"] {
        long(&store, id, &worker).await;
    }
    store.clock.advance(DUE_MS - START_MS);
    let first = started(Some("{}".into())).bytes();
    for history_page in [bytes(1), PageLimit::rows(1)] {
        let acquired = store.request(request(&worker, bytes(first + 1), history_page)).await;
        let sizes: Vec<_> = acquired.instances.iter().map(|instance| instance.page_bytes).collect();
        let pages: Vec<_> = acquired
            .instances
            .iter()
            .map(|instance| instance.history.len())
            .collect();
        assert_eq!((sizes, pages), (vec![first, first], vec![1, 1]));
        store.provider.release_worker(&worker).await.expect("it leaves");
        store.worker("w").await;
    }
}

/// A worker that dies of a history it reads thus leaves a suspicion on each instance whose history it was to read.
pub async fn of_a_history_are_read_when_the_worker_is_the_owner(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    long(&store, "a", &worker).await;
    store.clock.advance(DUE_MS - START_MS);
    let acquire = request(&worker, bytes(10_000), bytes(10_000));
    let acquired = store.provider.acquire(acquire).await.expect("the store answers");
    assert!(acquired.instances[0].history.is_empty());
    let taken = store.provider.take_over_worker(&worker, "it is dead").await;
    assert_eq!(taken.expect("the store answers").workers, [worker]);
    let next = store.worker("next").await;
    let again = store.acquire_one(&next).await;
    assert_eq!((again.history.len(), again.suspicion), (6, Suspicion(1)));
}

fn texts(page: &MessagePage) -> String {
    let letter = |body: &MessageBody| match body {
        MessageBody::Mail { payload, .. } => payload.as_ref().and_then(|text| text.chars().nth(1)),
        MessageBody::Cancel { .. } => Some('!'),
        MessageBody::Settled { .. } => Some('s'),
    };
    page.messages
        .iter()
        .filter_map(|message| letter(&message.body))
        .collect()
}

/// A page has the oldest messages, of all mailboxes together or of those that are asked for.
pub async fn of_messages_end_with_the_one_that_fills_them(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let key = store.owned("a", &worker).await.key;
    for (n, letter) in "abcdef".chars().enumerate() {
        let payload = large(letter);
        let body = if n % 2 == 0 {
            event("go", &payload)
        } else {
            queued("jobs", &payload)
        };
        store.deliver("a", body).await;
    }
    let both = || Some(vec![Mailbox::Queue("jobs".into()), Mailbox::Event("go".into())]);
    let read = async |mailboxes, limit| {
        let page = store.provider.read_messages(key, mailboxes, bytes(limit)).await;
        page.expect("the store answers")
    };
    for (limit, expected) in [(250, "abc"), (200, "ab"), (1, "a"), (10_000, "abcdef")] {
        for mailboxes in [None, both()] {
            let page = read(mailboxes, limit).await;
            assert_eq!(texts(&page), expected, "of {limit} bytes");
            assert_eq!(page.more_up_to.is_some(), expected.len() < 6);
            assert!(!page.more_settled);
        }
    }
    let jobs = Some(vec![Mailbox::Queue("jobs".into())]);
    assert_eq!(texts(&read(jobs, 150).await), "bd");
    let loaded = load_with(&store, key, true, 150).await;
    assert_eq!((loaded.history.len(), texts(&loaded.messages)), (1, "ab".to_owned()));
}

async fn load_with(store: &Handle<'_>, key: InstanceKey, history: bool, message_bytes: usize) -> Loaded {
    let one = LoadOne {
        key,
        execution: ExecutionId::FIRST,
        next_event_id: EventId(2),
        history,
    };
    let load = Load {
        instances: vec![one],
        history_page: bytes(1),
        message_page: bytes(message_bytes),
    };
    let mut loaded = store.provider.load(load).await.expect("the store answers");
    loaded.remove(0).expect("it can be read")
}

/// A worker that has kept the code of an instance reads its messages, and none of its history.
pub async fn of_an_instance_whose_code_was_kept_has_no_history(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    store.deliver("a", event("go", &large('a'))).await;
    let loaded = load_with(&store, owned.key, false, 10_000).await;
    assert_eq!((loaded.history.len(), texts(&loaded.messages)), (0, "a".to_owned()));
}

/// Messages that are no mail are read again until none is left. A request to cancel comes first, wherever it stands,
/// and mail does not keep the others away.
pub async fn of_messages_that_are_no_mail_are_to_be_read_again(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    let settled = |n| MessageBody::Settled {
        execution: ExecutionId::FIRST,
        scheduled: EventId(n),
        settlement: Settlement::Failed(ChildFailure::Failed, Some(large('s'))),
    };
    store.deliver("a", event("go", &large('a'))).await;
    for n in 2..=7 {
        store.deliver("a", settled(n)).await;
    }
    store
        .deliver(
            "a",
            MessageBody::Cancel {
                reason: Some(large('!')),
            },
        )
        .await;
    let mut next = owned;
    for (left, expected) in [(true, "ass!"), (true, "asss"), (false, "as")] {
        let page = store
            .provider
            .read_messages(next.key, None, bytes(201))
            .await
            .expect("the store answers");
        let mut found: Vec<_> = texts(&page).chars().collect();
        found.sort_unstable();
        let mut wanted: Vec<_> = expected.chars().collect();
        wanted.sort_unstable();
        assert_eq!(page.more_settled, left, "{expected}");
        assert_eq!(found, wanted);
        assert_eq!(page.more_up_to.is_some(), left);
        let consumed = page
            .messages
            .iter()
            .filter(|message| !matches!(message.body, MessageBody::Mail { .. }))
            .map(|message| message.seq);
        store
            .commit(TurnCommit {
                consumed: consumed.collect(),
                seen: page.messages.last().expect("there is one").seq,
                events: vec![step(next.next_event_id.0, "1")],
                ..turn(&next, &worker)
            })
            .await;
        next.next_event_id = next.next_event_id.next();
    }
}

/// The next page goes on after that message.
pub async fn of_an_inbox_end_with_the_message_that_fills_them(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    for id in ["a", "b"] {
        store.owned(id, &worker).await;
    }
    for (n, letter) in "abcde".chars().enumerate() {
        store.deliver(["a", "b"][n % 2], event("go", &large(letter))).await;
    }
    let (mut position, mut found, mut lengths) = (InboxPosition::default(), String::new(), Vec::new());
    loop {
        let inbox = store.provider.read_inbox(&worker, &position, bytes(150)).await;
        let inbox = inbox.expect("the store answers");
        lengths.push(inbox.messages.len());
        let messages = inbox
            .messages
            .into_iter()
            .map(|(_, message)| message.expect("it can be read"));
        found += &texts(&MessagePage {
            messages: messages.collect(),
            ..MessagePage::default()
        });
        position = inbox.position;
        if !inbox.more {
            break;
        }
    }
    assert_eq!((found.as_str(), lengths), ("abcde", vec![2, 2, 1]));
}

/// The other tasks wait for the next request.
pub async fn of_tasks_end_with_the_one_that_fills_them(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    let offers = (2..=4).map(|n| TaskOffer {
        scheduled: EventId(n),
        attempt: 1,
        queue: "default".into(),
        key: None,
        name: "step".into(),
        session: None,
        priority: 0,
        due_at_ms: 0,
        deadline_ms: None,
        start_within_ms: None,
    });
    store
        .commit(TurnCommit {
            events: (2..=4).map(|n| step(n, &large('a'))).collect(),
            cross_instance: Some(Box::new(CrossInstanceEffects {
                offers: offers.collect(),
                ..CrossInstanceEffects::default()
            })),
            ..turn(&owned, &worker)
        })
        .await;
    for (limit, taken) in [(150, 2), (1, 1), (1, 0)] {
        let request = TaskRequest {
            worker: worker.clone(),
            queues: perdure_provider::Queues::Named(vec!["default".into()]),
            names: vec!["step".into()],
            limit: bytes(limit),
            sessions: SESSIONS,
        };
        let acquired = store.provider.acquire_tasks(request).await.expect("the store answers");
        assert_eq!(acquired.tasks.len(), taken);
        assert_eq!(acquired.next_due_ms.is_some(), limit > 1);
    }
}

/// The statuses that were asked for first are returned.
pub async fn of_statuses_end_with_the_one_that_exceeds_them(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    for id in ["a", "b", "c"] {
        let owned = store.owned(id, &worker).await;
        let output = format!("\"{}\"", id.repeat(LIST_BYTES_MAX / 2));
        store.commit(end(&owned, &worker, Some(output))).await;
    }
    store.start(instance("small")).await;
    let ids = ["small", "a", "absent", "b", "c", "small"].map(String::from);
    let statuses = store.provider.statuses(ids.into()).await.expect("the store answers");
    let found: Vec<_> = statuses.iter().map(|status| status.as_ref().map(|s| &*s.id)).collect();
    assert_eq!(found, [Some("small"), Some("a"), None, Some("b")]);
}
