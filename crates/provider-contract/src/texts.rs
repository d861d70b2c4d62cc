//! Texts of values are read row by row and replaced by others, while workers go on.

use perdure_engine::{
    Answer, AnsweredAsk, CommandEvent, DeliveryEvent, EventId, EventRecord, ExecutionId, InstanceStart, MessageBody,
    StartConflict,
};
use perdure_provider::{
    AcquiredInstance, AskState, Heartbeat, Outcome, Reporter, StoredText, TextChange, TextField, TextPage, TextRequest,
    TextRow, TextTable, TurnCommit, WorkerId, Write,
};

use crate::asks::{answered, ask};
use crate::state::set;
use crate::store::{Handle, START_MS, Store, custom_status, end, event, instance, scheduled, started, turn};

pub(crate) fn request(table: TextTable) -> TextRequest {
    TextRequest {
        table,
        after: TextRow::FIRST,
        except: "##new ".into(),
        head: None,
        walk_max: 100,
        bytes_max: 1 << 20,
    }
}

impl Handle<'_> {
    async fn text_page(&self, request: TextRequest) -> TextPage {
        self.provider.stored_texts(request).await.expect("the store answers")
    }

    pub(crate) async fn texts(&self, table: TextTable) -> Vec<StoredText> {
        let page = self.text_page(request(table)).await;
        assert_eq!(page.next, None);
        page.texts
    }

    pub(crate) async fn replace(&self, changes: &[TextChange]) -> usize {
        let replaced = self.provider.replace_texts(changes.to_vec()).await;
        replaced.expect("the store answers")
    }
}

/// The rows and texts in order.
fn shown(texts: &[StoredText]) -> Vec<(u64, u64, &str, Option<&str>, bool)> {
    let of = |text: &'_ StoredText| (text.row.execution, text.row.number, text.other.is_some());
    let shown = texts.iter().map(|text| {
        let (execution, number, has_other) = of(text);
        (
            execution,
            number,
            text.instance.as_str(),
            text.text.as_deref(),
            has_other,
        )
    });
    shown.collect()
}

fn change(table: TextTable, text: &StoredText, after: &str) -> TextChange {
    TextChange {
        table,
        row: text.row.clone(),
        field: TextField::Text,
        before: text.text.clone().expect("there is a text"),
        after: after.into(),
    }
}

/// An instance with a text at each place. Its child has ended.
async fn everywhere(store: Handle<'_>, worker: &WorkerId) -> AcquiredInstance {
    let mut owned = store.owned("a", worker).await;
    store.deliver("a", event("e", "mail")).await;
    store
        .deliver(
            "a",
            MessageBody::Cancel {
                reason: Some("why".into()),
            },
        )
        .await;
    let child = InstanceStart {
        on_conflict: StartConflict::default(),
        admission: None,
        id: "child".into(),
        name: "n".into(),
        version: "1.0.0".into(),
        input: Some("child's input".into()),
        tags: None,
        priority: 0,
        trace: None,
    };
    let of_child = DeliveryEvent::ChildCompleted {
        scheduled: EventId(3),
        output: Some("child's output".into()),
    };
    let events = vec![
        EventRecord {
            payload: Some("##new done".into()),
            ..scheduled(2)
        },
        EventRecord::new(EventId(3), START_MS, CommandEvent::ChildScheduled(child)),
        EventRecord::new(EventId(4), START_MS, of_child),
        scheduled(5),
    ];
    store
        .commit(TurnCommit {
            events,
            custom_status: custom_status("status"),
            state: vec![set("x", "of x"), set("y", "##new of y"), set("z", "of z")],
            ..turn(&owned, worker)
        })
        .await;
    owned.next_event_id = EventId(6);
    let heartbeat = Heartbeat {
        key: owned.key,
        worker: worker.clone(),
        by: Reporter::Owner(owned.epoch),
        execution: owned.execution,
        scheduled: EventId(2),
        details: Some("beat".into()),
        time_ms: START_MS + 2,
    };
    let noted = store.write(Write::Heartbeat(Box::new(heartbeat))).await;
    assert_eq!(noted, Outcome::Noted);
    owned
}

/// Each text comes with the columns that tell whose value it is.
pub async fn are_read_at_every_place(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    everywhere(store, &worker).await;
    let messages = store.texts(TextTable::Messages).await;
    let kinds: Vec<_> = messages
        .iter()
        .map(|text| (text.kind.as_deref(), text.name.as_deref(), text.text.as_deref()))
        .collect();
    assert_eq!(
        kinds,
        [
            (Some("Event"), Some("e"), Some("mail")),
            (Some("Cancel"), None, Some("why"))
        ]
    );
    let heartbeats = store.texts(TextTable::Heartbeats).await;
    assert_eq!(shown(&heartbeats), [(1, 2, "a", Some("beat"), false)]);
    let state = store.texts(TextTable::State).await;
    let names: Vec<_> = state
        .iter()
        .map(|text| (text.name.as_deref(), &*text.row.name))
        .collect();
    assert_eq!(names, [(Some("x"), "x"), (Some("z"), "z")]);
    assert_eq!(
        shown(&state),
        [(0, 0, "a", Some("of x"), false), (0, 0, "a", Some("of z"), false)]
    );
    let instances = store.texts(TextTable::Instances).await;
    assert_eq!(shown(&instances), [(0, 0, "a", Some("status"), false)]);
    let history = store.texts(TextTable::History).await;
    assert_eq!(
        shown(&history),
        [
            (1, 1, "a", Some("{}"), true),
            (1, 3, "a", Some("child's input"), true),
            (1, 4, "a", Some("child's output"), false),
        ]
    );
    let of_child = &history[2];
    assert_eq!(
        (of_child.kind.as_deref(), of_child.ref_id),
        (Some("ChildCompleted"), Some(3))
    );
    assert_eq!(of_child.scheduled, history[1].other);
    assert_eq!(history[1].scheduled, None);
}

/// The metadata of an execution's first event may hold a custom status, and a suspension has a reason.
pub async fn beside_the_values_are_read_too(store: &Store) {
    let store = store.first();
    let first_event = EventRecord {
        payload: None,
        meta: Some("{\"customStatus\":\"##new a\"}".into()),
        ..started(None)
    };
    let new = perdure_provider::NewInstance {
        first_event,
        ..instance("a")
    };
    store.start(new).await;
    store.start(instance("b")).await;
    store.suspend("b", "because").await;
    let history = store.texts(TextTable::History).await;
    assert_eq!(
        shown(&history),
        [(1, 1, "a", None, true), (1, 1, "b", Some("{}"), true)]
    );
    let instances = store.texts(TextTable::Instances).await;
    assert_eq!(shown(&instances), [(0, 0, "b", None, true)]);
    let others = [(TextTable::History, &history[0]), (TextTable::Instances, &instances[0])];
    let changes = others.map(|(table, text)| TextChange {
        table,
        row: text.row.clone(),
        field: TextField::Other,
        before: text.other.clone().expect("it has one"),
        after: "other".into(),
    });
    assert_eq!(store.replace(&changes).await, 2);
    assert_eq!(store.status("b").await.result, Some("other".into()));
    let history = store.texts(TextTable::History).await;
    assert_eq!(shown(&history), [(1, 1, "b", Some("{}"), true)]);
}

/// Pages are bounded by the number of rows looked at, and by the bytes of each text and the text beside it.
pub async fn come_in_pages(store: &Store) {
    let store = store.first();
    for n in 0..7 {
        let input = Some(format!("{n}").repeat(10));
        let new = perdure_provider::NewInstance {
            first_event: started(input),
            ..instance(&format!("i{n}"))
        };
        store.start(new).await;
    }
    let beside = started(None).meta.map_or(0, |meta| meta.len());
    for (walk_max, bytes_max, pages) in [
        (3, 10_000, vec![3, 3, 1]),
        (100, 25 + 2 * beside, vec![2, 2, 2, 1]),
        (100, 1, vec![1; 7]),
    ] {
        let mut request = TextRequest {
            walk_max,
            bytes_max,
            ..request(TextTable::History)
        };
        let mut found = Vec::new();
        for expected in &pages {
            let page = store.text_page(request.clone()).await;
            assert_eq!((page.texts.len(), page.walked), (*expected, *expected));
            found.extend(page.texts.into_iter().map(|text| text.instance));
            assert_eq!(page.next.is_none(), found.len() == 7);
            request.after = page.next.unwrap_or(request.after);
        }
        assert_eq!(found.join(" "), "i0 i1 i2 i3 i4 i5 i6");
    }
    let head = TextRequest {
        head: Some(3),
        ..request(TextTable::History)
    };
    assert_eq!(store.text_page(head).await.texts[1].text.as_deref(), Some("111"));
}

/// A text that is passed over counts as looked at, so that a page ends.
pub async fn that_are_not_wanted_are_passed_over(store: &Store) {
    let store = store.first();
    for n in 0..4 {
        let new = perdure_provider::NewInstance {
            first_event: started(Some(format!("##new {n}"))),
            ..instance(&format!("i{n}"))
        };
        store.start(new).await;
    }
    let page = store
        .text_page(TextRequest {
            walk_max: 3,
            ..request(TextTable::History)
        })
        .await;
    assert_eq!((page.texts.len(), page.walked, page.next.is_some()), (0, 3, true));
}

/// A text is replaced only if it has not changed since it was read.
pub async fn are_replaced_where_they_are_as_they_were(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = everywhere(store, &worker).await;
    let mut changes = Vec::new();
    for table in TextTable::ALL {
        for (n, text) in store.texts(table).await.iter().enumerate() {
            changes.push(change(table, text, &format!("##new {} {n} \0", table.as_str())));
        }
    }
    assert_eq!(changes.len(), 9);
    let stale = TextChange {
        before: "was never there".into(),
        ..changes[0].clone()
    };
    assert_eq!(store.replace(&[stale]).await, 0);
    assert_eq!(store.replace(&changes).await, 9);
    assert_eq!(store.replace(&changes).await, 0);
    for table in TextTable::ALL {
        assert_eq!(store.texts(table).await, [], "{table:?}");
    }
    let messages = store.messages(owned.key).await;
    assert_eq!(messages[0].body, event("e", "##new messages 0 \0"));
    assert_eq!(
        store.status("a").await.custom_status,
        Some("##new instances 0 \0".into())
    );
    assert_eq!(
        store.state_texts("a").await,
        ["##new state 0 \0", "##new of y", "##new state 1 \0"]
    );
    let history = store.history(owned.key).await;
    assert_eq!(history[1].payload, Some("##new done".into()));
    assert_eq!(history[3].payload, Some("##new history 2 \0".into()));
}

/// The fences of the worker that owns the instance hold as before.
pub async fn are_replaced_below_a_running_worker(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = everywhere(store, &worker).await;
    let before = store.status("a").await;
    let history = store.texts(TextTable::History).await;
    let changes: Vec<_> = history
        .iter()
        .map(|text| change(TextTable::History, text, "##new"))
        .collect();
    assert_eq!(store.replace(&changes).await, 3);
    assert_eq!(store.status("a").await, before);
    store.commit(end(&owned, &worker, Some("output".into()))).await;
    assert_eq!(store.history(owned.key).await.len(), 6);
    assert_eq!(store.status("a").await.result, Some("output".into()));
}

/// The texts of answers come with their kinds and the ids of their asks.
pub async fn of_answers_are_read_and_replaced(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let mut owned = store.owned("a", &worker).await;
    store.batch(vec![ask("1"), ask("2"), ask("open")]).await;
    let answers = vec![
        answered("1"),
        AnsweredAsk {
            answer: Answer::Error(Some("2".into())),
            ..answered("2")
        },
    ];
    store.answer(&mut owned, &worker, answers).await;
    let texts = store.texts(TextTable::Asks).await;
    let shown: Vec<_> = texts
        .iter()
        .map(|text| {
            (
                text.kind.as_deref(),
                text.name.as_deref(),
                &*text.row.name,
                text.text.as_deref(),
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            (Some("Value"), Some("1"), "1", Some("1")),
            (Some("Error"), Some("2"), "2", Some("2"))
        ]
    );
    let changes: Vec<_> = texts
        .iter()
        .map(|text| change(TextTable::Asks, text, &format!("new {}", text.row.name)))
        .collect();
    assert_eq!(store.replace(&changes).await, 2);
    assert_eq!(store.replace(&changes).await, 0);
    let answers = [Answer::Value(Some("new 1".into())), Answer::Error(Some("new 2".into()))];
    assert_eq!(
        store.asks(["1", "2"]).await,
        answers.map(|answer| Some(AskState::Answered(answer)))
    );
}

/// The texts of a deleted instance are left to the sweep.
pub async fn of_deleted_instances_are_passed_over(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    store.commit(end(&owned, &worker, None)).await;
    assert_eq!(store.texts(TextTable::History).await.len(), 1);
    assert_eq!(store.delete("a").await, Outcome::Deleted);
    assert_eq!(store.texts(TextTable::History).await, []);
    assert_eq!(owned.execution, ExecutionId::FIRST);
}
