//! The lives of streams: entries that are deleted, and streams that go with their instances (P23).

use std::sync::Arc;

use perdure_engine::{EventId, StreamAppend, StreamKeep};
use perdure_provider::{
    AcquiredInstance, ActivityAppend, Change, Epoch, OnConflict, Outcome, PageLimit, Status, StoredText, StreamChunk,
    StreamInfo, TextChange, TextField, TextRequest, TextRow, TextTable, TurnCommit,
};
use tokio::sync::Notify;

use crate::continue_as_new::{continued, next_of};
use crate::payloads::texts;
use crate::store::{Handle, START_MS, Store, end, release, scheduled, turn, within};
use crate::streams::{add, append, appended, appending, by_owner, chunk, closing, keeping, resets, write};
use crate::texts::request as texts_in;
use crate::waking::waking;

/// A name with characters that a store may handle in its own way.
const TEXT: &str = "a\0\u{1F600}'\\ text";

impl Handle<'_> {
    /// The number of chunks in the store, those of deleted instances among them.
    async fn chunks_in_store(&self) -> usize {
        let page = self.provider.stored_texts(texts_in(TextTable::StreamChunks)).await;
        page.expect("the store answers").walked
    }
}

/// An append deletes the chunks that hold none of the last entries, whole chunks from the front.
pub async fn keep_their_last_entries(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    let all = PageLimit::rows(100);
    let keep = |entries: &[&str], max| keeping(add(entries), Some(max), None);
    store.append_in_turn(&owned, &worker, add(&["0", "1"])).await;
    store.append_in_turn(&owned, &worker, append("t", &["x"])).await;
    store.append_in_turn(&owned, &worker, keep(&["2"], u64::MAX)).await;
    store.append_in_turn(&owned, &worker, keep(&["3", "4", "5"], 5)).await;
    assert_eq!(store.firsts(0, all).await, [0, 2, 3], "entry 1 stays");
    let outcome = store.append(by_owner(&owned, &worker, keep(&["6"], 5))).await;
    assert_eq!(outcome, appended(7));
    assert_eq!(store.firsts(0, all).await, [2, 3, 6]);
    store.append_in_turn(&owned, &worker, keep(&["7"], 2)).await;
    assert_eq!(store.firsts(0, all).await, [6, 7]);
    let info = |name: &str, first, next| StreamInfo {
        name: name.into(),
        first,
        next,
        is_closed: false,
    };
    let streams = store.list_streams("a").await.expect("it is there");
    assert_eq!(streams, [info("s", 6, 8), info("t", 0, 1)]);
    store.append_in_turn(&owned, &worker, keep(&["8", "9"], 1)).await;
    assert_eq!(store.firsts(0, all).await, [8], "a chunk is not cut");
    store.append_in_turn(&owned, &worker, keep(&["10"], 0)).await;
    assert!(store.firsts(0, all).await.is_empty());
    assert_eq!(store.stream("a", "s").await, (11, false));
    // The indexes go on.
    store.append_in_turn(&owned, &worker, add(&["11"])).await;
    assert_eq!(store.firsts(0, all).await, [11]);
    assert_eq!(store.firsts(11, all).await, [11]);
    assert_eq!(store.chunks_of("a", "t").await.len(), 1);
}

/// A later run of an activity names the first entry of the former runs after that was deleted, and so does a chunk of
/// that run after the first one was deleted.
pub async fn that_are_gone_are_told_by_later_runs(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    let all = PageLimit::rows(100);
    let run = |entries_max, begins| ActivityAppend {
        begins,
        ..by_owner(&owned, &worker, keeping(add(&["x", "y"]), entries_max, Some(100)))
    };
    store.append_in_turn(&owned, &worker, add(&["0"])).await;
    for begins in [true, false, false] {
        store.append(run(Some(2), begins)).await;
    }
    assert_eq!(store.firsts(0, all).await, [5]);
    store.append(run(None, true)).await;
    store.append(run(None, false)).await;
    assert_eq!(
        resets(&store.chunks_of("a", "s").await),
        [None, Some((1, 7)), Some((1, 7))]
    );
    store.append(run(Some(2), false)).await;
    assert_eq!(resets(&store.chunks_of("a", "s").await), [Some((1, 7))]);
    // All entries are over, and of the next run none is kept at first.
    while store
        .provider
        .prune_streams(START_MS + 1_000, 1)
        .await
        .expect("the store answers")
    {}
    assert!(store.firsts(0, all).await.is_empty());
    store.append(run(Some(0), true)).await;
    store.append(run(None, false)).await;
    assert_eq!(resets(&store.chunks_of("a", "s").await), [Some((1, 13))]);
}

/// Chunks are deleted in steps once their time is over, and no others.
pub async fn are_deleted_when_their_time_is_over(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    let keep = |retain_ms| keeping(add(&["x"]), None, retain_ms);
    for n in 0..4 {
        store.append_in_turn(&owned, &worker, keep(Some(100 + n))).await;
    }
    store.append(by_owner(&owned, &worker, keep(Some(200)))).await;
    store.append_in_turn(&owned, &worker, keep(Some(u64::MAX))).await;
    store.append_in_turn(&owned, &worker, keep(None)).await;
    let prune = async |now_ms, limit| {
        let pruned = store.provider.prune_streams(now_ms, limit).await;
        pruned.expect("the store answers")
    };
    let all = PageLimit::rows(100);
    // The turns were at this time.
    let at = START_MS + 1;
    assert!(!prune(at + 99, 10).await);
    assert_eq!(store.firsts(0, all).await.len(), 7);
    assert!(!prune(at + 100, 10).await);
    assert_eq!(store.firsts(0, all).await, [1, 2, 3, 4, 5, 6]);
    assert!(prune(at + 200, 2).await);
    assert_eq!(store.firsts(0, all).await, [3, 4, 5, 6]);
    assert!(!prune(at + 200, 2).await);
    assert_eq!(store.firsts(0, all).await, [4, 5, 6]);
    assert!(!prune(START_MS + 202, 2).await);
    assert_eq!(store.firsts(0, all).await, [5, 6]);
    assert_eq!(store.firsts(2, all).await, [5, 6]);
    assert!(!prune(START_MS + 1_000_000, 2).await);
    assert_eq!(store.firsts(0, all).await, [5, 6]);
    let streams = store.list_streams("a").await.expect("it is there");
    assert_eq!((streams[0].first, streams[0].next), (5, 7));
}

/// Indexes go on in the next execution, and the entries stay after the end.
pub async fn are_kept_over_executions(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    let first = appending(continued(&owned, &worker, None, true), vec![add(&["1", "2"])]);
    store.commit(first).await;
    let next = next_of(&owned);
    store.append(by_owner(&next, &worker, add(&["3"]))).await;
    let sleeps = vec![add(&["4"])];
    store.commit(appending(release(&next, &worker, Some(0)), sleeps)).await;
    let woken = store.acquire_one(&worker).await;
    let last = vec![closing(add(&["5"]))];
    store.commit(appending(end(&woken, &worker, None), last)).await;
    let entries = [(0, "1\n2"), (2, "3"), (3, "4"), (4, "5")];
    assert_eq!(store.entries("a").await, entries.map(|(n, text)| (n, text.into())));
    let state = store.find_stream("a", "s").await.expect("the instance is there");
    assert_eq!(
        (state.status, state.next, state.is_closed),
        (Status::Completed, 5, true)
    );
}

/// Streams are listed by the bytes of their names, with the entries that are left.
pub async fn are_listed(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    assert_eq!(store.list_streams("a").await, None);
    let owned = store.owned("a", &worker).await;
    assert_eq!(store.list_streams("a").await, Some(Vec::new()));
    let appends = vec![
        append("b", &["1", "2"]),
        closing(append("", &[])),
        append("\u{e9}", &["1"]),
        append("B", &["1"]),
        append(TEXT, &["1"]),
        append("a", &["1"]),
        keeping(append("\u{1F600}", &["1", "2"]), Some(0), None),
        append("\u{FFFD}", &["1"]),
    ];
    store.commit(appending(turn(&owned, &worker), appends)).await;
    let streams = store.list_streams("a").await.expect("it is there");
    let shown: Vec<_> = (streams.iter())
        .map(|info| (&*info.name, info.first, info.next, info.is_closed))
        .collect();
    let expected = [
        ("", 0, 0, true),
        ("B", 0, 1, false),
        ("a", 0, 1, false),
        (TEXT, 0, 1, false),
        ("b", 0, 2, false),
        ("\u{e9}", 0, 1, false),
        ("\u{FFFD}", 0, 1, false),
        ("\u{1F600}", 2, 2, false),
    ];
    assert_eq!(shown, expected);
}

/// Names and entries come back as they went in, however large they are.
pub async fn bring_back_any_text(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    let texts: Vec<String> = texts().into_iter().map(Option::unwrap_or_default).collect();
    let append = |entries: &str| StreamAppend {
        stream: TEXT.into(),
        entries: entries.into(),
        count: 1,
        closes: false,
        keep: StreamKeep::default(),
    };
    for text in &texts {
        store.append_in_turn(&owned, &worker, append(text)).await;
        let outcome = store.append(by_owner(&owned, &worker, append(text))).await;
        assert!(matches!(outcome, Outcome::Appended { .. }), "{outcome:?}");
    }
    let chunks = store.chunks_of("a", TEXT).await;
    assert_eq!(chunks.len(), 2 * texts.len());
    for (pair, text) in chunks.chunks(2).zip(&texts) {
        assert!(pair.iter().all(|chunk| chunk.entries == *text));
    }
    assert_eq!(store.stream("a", TEXT).await, (chunks.len() as u64, false));
}

/// The entries of a first turn are written with the start.
pub async fn come_with_a_start_and_its_first_turn(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let model = store.owned("model", &worker).await;
    for on_conflict in [OnConflict::Keep, OnConflict::TerminateAndRestart] {
        let appends = vec![add(&["1", "2"]), closing(append("t", &["x"]))];
        let first_turn = appending(turn(&model, &worker), appends);
        store.start_with_turn("a", first_turn, on_conflict).await;
        // The second instance replaces the first one, and begins anew.
        assert_eq!(
            store.chunks_of("a", "s").await,
            [chunk(0, &["1", "2"])],
            "{on_conflict:?}"
        );
        assert_eq!(store.stream("a", "t").await, (1, true));
    }
}

/// The entries of a turn that wakes its instance are written with it.
pub async fn come_with_a_turn_that_wakes(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    store
        .commit(appending(release(&owned, &worker, None), vec![add(&["1"])]))
        .await;
    let late = waking(appending(turn(&owned, &worker), vec![add(&["late"])]));
    let late = TurnCommit {
        epoch: Epoch(late.epoch.0 + 1),
        ..late
    };
    assert_eq!(store.turn(late).await, Outcome::Fenced);
    let wakes = TurnCommit {
        events: vec![scheduled(2)],
        ..waking(appending(turn(&owned, &worker), vec![add(&["2", "3"])]))
    };
    store.commit(wakes).await;
    let entries = [(0, "1".into()), (1, "2\n3".into())];
    assert_eq!(store.entries("a").await, entries);
    let owned = AcquiredInstance {
        epoch: Epoch(owned.epoch.0 + 1),
        ..owned
    };
    assert_eq!(store.append(by_owner(&owned, &worker, add(&["4"]))).await, appended(4));
}

/// A stream is gone at the deletion of its instance, and its chunks are swept in steps.
pub async fn are_swept_with_their_instance(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let stays = store.owned("b", &worker).await;
    store.append_in_turn(&stays, &worker, add(&["1"])).await;
    let owned = store.owned("a", &worker).await;
    for stream in ["s", "t", "s", "u", "s"] {
        store.append_in_turn(&owned, &worker, append(stream, &["x", "y"])).await;
    }
    for scheduled in 2..5 {
        let writer = ActivityAppend {
            begins: true,
            scheduled: EventId(scheduled),
            ..by_owner(&owned, &worker, append("v", &["x"]))
        };
        store.append(writer).await;
    }
    store.commit(end(&owned, &worker, None)).await;
    assert_eq!(store.stream("a", "s").await, (6, false));
    assert_eq!(store.delete("a").await, Outcome::Deleted);
    assert_eq!(store.find_stream("a", "s").await, None);
    assert_eq!(store.list_streams("a").await, None);
    assert_eq!(store.stream_page("a", "s", 0, PageLimit::rows(10)).await, None);
    let ended = by_owner(&owned, &worker, add(&["late"]));
    assert_eq!(store.append(ended).await, Outcome::Fenced);
    // Two events, eight chunks, and three activities that wrote.
    let mut left = vec![store.chunks_in_store().await];
    while store.provider.sweep(2).await.expect("the store answers") {
        left.push(store.chunks_in_store().await);
        assert!(left.len() < 10, "a sweep comes to an end");
    }
    assert!(left.len() >= 7, "thirteen rows in steps of two: {left:?}");
    assert!(left.windows(2).all(|pair| pair[0] <= pair[1] + 2), "{left:?}");
    assert_eq!(store.chunks_in_store().await, 1);
    assert_eq!(store.entries("b").await, [(0, "1".into())]);
    store.owned("a", &worker).await;
    assert_eq!(store.stream("a", "s").await, (0, false));
}

/// An instance that replaces another one has no stream of it.
pub async fn begin_anew_with_a_replacing_instance(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    let last = vec![closing(add(&["1", "2"]))];
    store.commit(appending(end(&owned, &worker, None), last)).await;
    let owned = store.acquire_anew("a", &worker).await;
    assert_eq!(store.stream("a", "s").await, (0, false));
    assert_eq!(store.entries("a").await, []);
    assert_eq!(store.list_streams("a").await, Some(Vec::new()));
    let begins = ActivityAppend {
        begins: true,
        ..by_owner(&owned, &worker, add(&["new"]))
    };
    assert_eq!(store.append(begins).await, appended(1));
    assert_eq!(store.chunks_of("a", "s").await[0].reset, None);
    while store.provider.sweep(1).await.expect("the store answers") {}
    assert_eq!(store.chunks_in_store().await, 1);
    assert_eq!(store.entries("a").await, [(0, "new".into())]);
}

/// Processes that read streams are told of new entries, by turns and by activities.
pub async fn are_told_to_other_processes(store: &Store) {
    let (first, Some(second)) = (store.first(), store.second()) else {
        return;
    };
    let worker = first.worker("w").await;
    let owned = first.owned("a", &worker).await;
    let told = Arc::new(Notify::new());
    let tell = Arc::clone(&told);
    let listener = move |change: &Change| {
        if change.streams {
            tell.notify_one();
        }
    };
    second.provider.on_foreign_change(Box::new(listener));
    first.append_in_turn(&owned, &worker, add(&["1"])).await;
    within(told.notified()).await;
    assert_eq!(second.stream("a", "s").await, (1, false));
    let before = first.write(write(by_owner(&owned, &worker, add(&["2"])))).await;
    assert_eq!(before, appended(2));
    within(told.notified()).await;
    assert_eq!(second.stream("a", "s").await, (2, false));
}

fn shown(texts: &[StoredText]) -> Vec<(&str, u64, &str)> {
    let shown = texts.iter().map(|text| {
        assert_eq!(text.name.as_ref(), Some(&text.row.name));
        assert_eq!((text.row.execution, &text.kind, &text.other), (0, &None, &None));
        let entries = text.text.as_deref().expect("it is wanted");
        (text.row.name.as_str(), text.row.number, entries)
    });
    shown.collect()
}

/// The entries of chunks are read in pages, each chunk once, and replaced.
pub async fn are_read_and_replaced_as_texts(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    for id in ["a", "b"] {
        let owned = store.owned(id, &worker).await;
        for appends in [
            vec![add(&["1", "2"]), append(TEXT, &["1", "2", "3"])],
            vec![add(&["##new x"]), append(TEXT, &["4"])],
            vec![add(&["4"]), append("t", &["##new x"])],
        ] {
            store.commit(appending(turn(&owned, &worker), appends)).await;
        }
    }
    let mut request = TextRequest {
        walk_max: 1,
        ..texts_in(TextTable::StreamChunks)
    };
    assert_eq!(request.after, TextRow::FIRST);
    let (mut texts, mut walked) = (Vec::new(), 0);
    loop {
        let page = store.provider.stored_texts(request.clone()).await;
        let page = page.expect("the store answers");
        walked += page.walked;
        texts.extend(page.texts);
        let Some(next) = page.next else { break };
        request.after = next;
    }
    assert_eq!((texts.len(), walked), (8, 12));
    for (id, texts) in ["a", "b"].iter().zip(texts.chunks(4)) {
        assert!(texts.iter().all(|text| text.instance == *id));
        let mut found = shown(texts);
        found.sort_unstable();
        let expected = [(TEXT, 0, "1\n2\n3"), (TEXT, 3, "4"), ("s", 0, "1\n2"), ("s", 3, "4")];
        assert_eq!(found, expected);
    }
    let changes: Vec<_> = (texts.iter())
        .map(|text| TextChange {
            table: TextTable::StreamChunks,
            row: text.row.clone(),
            field: TextField::Text,
            before: text.text.clone().expect("it is wanted"),
            after: format!("##new \0 {}", text.row.number),
        })
        .collect();
    let other = TextChange {
        field: TextField::Other,
        ..changes[0].clone()
    };
    let stale = TextChange {
        before: "was never there".into(),
        ..changes[0].clone()
    };
    assert_eq!(store.replace(&[other, stale]).await, 0);
    assert_eq!(store.replace(&changes).await, 8);
    assert_eq!(store.replace(&changes).await, 0);
    assert_eq!(store.texts(TextTable::StreamChunks).await, []);
    let expected = [(0, "##new \0 0"), (2, "##new x"), (3, "##new \0 3")];
    assert_eq!(store.entries("b").await, expected.map(|(n, text)| (n, text.into())));
    let chunks: Vec<StreamChunk> = store.chunks_of("a", TEXT).await;
    assert_eq!(chunks[1].entries, "##new \0 3");
}
