//! Streams: numbered entries of an instance, which are appended and never changed (P23).

use std::sync::Arc;

use perdure_engine::{EventId, ExecutionId, StreamAppend, StreamKeep};
use perdure_provider::{
    AcquiredInstance, ActivityAppend, ChunkWriter, Epoch, Outcome, PageLimit, Reporter, Status, StreamChunk,
    StreamInfo, StreamName, StreamPage, StreamRequest, StreamState, TurnCommit, WorkerId, Write,
};

use crate::continue_as_new::{continued, next_of};
use crate::store::{Handle, START_MS, Store, answer, end, scheduled, suspend, turn, within};

/// Entries for a stream.
pub(crate) fn append(stream: &str, entries: &[&str]) -> StreamAppend {
    let mut append = StreamAppend::new(stream, StreamKeep::default());
    entries.iter().for_each(|entry| append.push(Some(entry)));
    append
}

/// Entries for the stream of most checks.
pub(crate) fn add(entries: &[&str]) -> StreamAppend {
    append("s", entries)
}

pub(crate) fn closing(append: StreamAppend) -> StreamAppend {
    StreamAppend { closes: true, ..append }
}

pub(crate) fn keeping(append: StreamAppend, entries_max: Option<u64>, retain_ms: Option<u64>) -> StreamAppend {
    let keep = StreamKeep { entries_max, retain_ms };
    StreamAppend { keep, ..append }
}

pub(crate) fn appending(turn: TurnCommit, appends: Vec<StreamAppend>) -> TurnCommit {
    TurnCommit { appends, ..turn }
}

/// An append by the first attempt of the activity of event 2, which the owner of the instance runs.
pub(crate) fn by_owner(instance: &AcquiredInstance, worker: &WorkerId, append: StreamAppend) -> ActivityAppend {
    ActivityAppend {
        key: instance.key,
        worker: worker.clone(),
        by: Reporter::Owner(instance.epoch),
        execution: instance.execution,
        scheduled: EventId(2),
        attempt: 1,
        begins: false,
        append,
        time_ms: START_MS + 2,
    }
}

pub(crate) fn write(append: ActivityAppend) -> Write {
    Write::Append(Box::new(append))
}

/// The chunk that a turn writes.
pub(crate) fn chunk(first: u64, entries: &[&str]) -> StreamChunk {
    let StreamAppend { entries, count, .. } = add(entries);
    StreamChunk {
        first,
        count,
        writer: None,
        reset: None,
        time_ms: START_MS + 1,
        entries,
    }
}

/// The chunk that [`by_owner`] writes.
fn chunk_of_attempt(first: u64, entries: &[&str]) -> StreamChunk {
    StreamChunk {
        writer: Some(ChunkWriter {
            execution: ExecutionId::FIRST,
            scheduled: EventId(2),
            attempt: 1,
        }),
        time_ms: START_MS + 2,
        ..chunk(first, entries)
    }
}

/// The entries that the writers of chunks replace: the first one of former runs, and of the run.
pub(crate) fn resets(chunks: &[StreamChunk]) -> Vec<Option<(u64, u64)>> {
    let reset = |chunk: &StreamChunk| chunk.reset.map(|reset| (reset.from, reset.at));
    chunks.iter().map(reset).collect()
}

pub(crate) fn appended(next: u64) -> Outcome {
    Outcome::Appended { next }
}

impl Handle<'_> {
    pub(crate) async fn append(&self, append: ActivityAppend) -> Outcome {
        self.write(write(append)).await
    }

    pub(crate) async fn append_in_turn(&self, owned: &AcquiredInstance, worker: &WorkerId, append: StreamAppend) {
        self.commit(appending(turn(owned, worker), vec![append])).await;
    }

    pub(crate) async fn find_stream(&self, instance: &str, stream: &str) -> Option<StreamState> {
        let name = StreamName {
            instance: instance.into(),
            stream: stream.into(),
        };
        let states = self.provider.streams(vec![name]).await.expect("the store answers");
        let [state] = <[_; 1]>::try_from(states).expect("one state for one name");
        state
    }

    /// Returns the index of the next entry, and true if the stream is closed.
    pub(crate) async fn stream(&self, instance: &str, stream: &str) -> (u64, bool) {
        let state = self.find_stream(instance, stream).await;
        let state = state.expect("the instance is there");
        (state.next, state.is_closed)
    }

    pub(crate) async fn stream_page(
        &self,
        instance: &str,
        stream: &str,
        from: u64,
        limit: PageLimit,
    ) -> Option<StreamPage> {
        let name = StreamName {
            instance: instance.into(),
            stream: stream.into(),
        };
        let request = StreamRequest { name, from, limit };
        self.provider.read_stream(request).await.expect("the store answers")
    }

    pub(crate) async fn chunks_of(&self, instance: &str, stream: &str) -> Vec<StreamChunk> {
        let page = self.stream_page(instance, stream, 0, PageLimit::rows(1_000)).await;
        page.expect("the instance is there").chunks
    }

    /// The first index and the entries of each chunk.
    pub(crate) async fn entries(&self, instance: &str) -> Vec<(u64, String)> {
        let chunks = self.chunks_of(instance, "s").await.into_iter();
        chunks.map(|chunk| (chunk.first, chunk.entries)).collect()
    }

    pub(crate) async fn list_streams(&self, id: &str) -> Option<Vec<StreamInfo>> {
        let streams = self.provider.streams_of(id.into()).await;
        streams.expect("the store answers")
    }

    /// The first indexes of the chunks that a page has.
    pub(crate) async fn firsts(&self, from: u64, limit: PageLimit) -> Vec<u64> {
        let page = self.stream_page("a", "s", from, limit).await;
        let chunks = page.expect("the instance is there").chunks.into_iter();
        chunks.map(|chunk| chunk.first).collect()
    }
}

/// Entries of turns and of activities are numbered from 0 without gap, each stream by itself.
pub async fn number_their_entries_without_gap(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    assert_eq!(store.find_stream("a", "s").await, None);
    assert_eq!(store.list_streams("a").await, None);
    assert_eq!(store.stream_page("a", "s", 0, PageLimit::rows(1)).await, None);
    let owned = store.owned("a", &worker).await;
    let empty = StreamState {
        key: owned.key,
        status: Status::Pending,
        next: 0,
        is_closed: false,
    };
    assert_eq!(store.find_stream("a", "s").await, Some(empty));
    let page = store.stream_page("a", "s", 0, PageLimit::rows(1)).await;
    let chunks = Vec::new();
    assert_eq!(page, Some(StreamPage { state: empty, chunks }));

    let both = vec![add(&["1", "2"]), append("t", &["other"])];
    store.commit(appending(turn(&owned, &worker), both)).await;
    let outcome = store.append(by_owner(&owned, &worker, add(&["3"]))).await;
    assert_eq!(outcome, appended(3));
    store.append_in_turn(&owned, &worker, add(&["4", "", "6"])).await;
    let outcome = store.append(by_owner(&owned, &worker, append("t", &["x"]))).await;
    assert_eq!(outcome, appended(2));
    let state = StreamState {
        status: Status::Running,
        next: 6,
        ..empty
    };
    let chunks = vec![
        chunk(0, &["1", "2"]),
        chunk_of_attempt(2, &["3"]),
        chunk(3, &["4", "", "6"]),
    ];
    let page = store.stream_page("a", "s", 0, PageLimit::rows(10)).await;
    assert_eq!(page, Some(StreamPage { state, chunks }));
    let chunks = [chunk(0, &["other"]), chunk_of_attempt(1, &["x"])];
    assert_eq!(store.chunks_of("a", "t").await, chunks);

    store.owned("b", &worker).await;
    let names = [("b", "s"), ("absent", "s"), ("a", "t"), ("a", ""), ("a", "s")];
    let names = names.map(|(instance, stream)| StreamName {
        instance: instance.into(),
        stream: stream.into(),
    });
    let states = store.provider.streams(names.into()).await.expect("the store answers");
    let next: Vec<_> = states.iter().map(|state| state.map(|state| state.next)).collect();
    assert_eq!(next, [Some(0), None, Some(2), Some(0), Some(6)]);
    assert_eq!(store.provider.streams(Vec::new()).await, Ok(Vec::new()));
}

/// The appends of a batch come in the order of its writes.
pub async fn keep_the_order_of_a_batch(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let a = store.owned("a", &worker).await;
    let b = store.owned("b", &worker).await;
    let in_turn = |owned: &AcquiredInstance, entries: &[&str]| {
        let turn = appending(turn(owned, &worker), vec![add(entries)]);
        Write::Turn(Box::new(turn))
    };
    let of_activity =
        |owned: &AcquiredInstance, stream, entries: &[&str]| write(by_owner(owned, &worker, append(stream, entries)));
    let outcomes = store.batch(vec![
        in_turn(&a, &["1"]),
        of_activity(&a, "s", &["2"]),
        of_activity(&b, "s", &["1"]),
        in_turn(&a, &["3", "4"]),
        of_activity(&a, "t", &["x"]),
        of_activity(&a, "s", &["5", "6"]),
        of_activity(&a, "s", &["7"]),
        in_turn(&b, &["2"]),
    ]);
    let outcomes = outcomes.await.into_iter();
    let next = outcomes.map(|outcome| match outcome {
        Outcome::Appended { next } => next,
        Outcome::Committed { .. } => 0,
        other => panic!("committed or appended, not {other:?}"),
    });
    assert_eq!(next.collect::<Vec<_>>(), [0, 2, 1, 0, 1, 6, 7, 0]);
    let entries = [(0, "1"), (1, "2"), (2, "3\n4"), (4, "5\n6"), (6, "7")];
    assert_eq!(store.entries("a").await, entries.map(|(n, text)| (n, text.into())));
    let entries = [(0, "1"), (1, "2")];
    assert_eq!(store.entries("b").await, entries.map(|(n, text)| (n, text.into())));
}

/// Batches at once, of any handle, leave no gap and lose nothing.
pub async fn of_many_batches_at_once_have_no_gap(store: &Store) {
    let first = store.first();
    let worker = first.worker("w").await;
    let owned = first.owned("a", &worker).await;
    let outcomes = store
        .eight_at_once(|| write(by_owner(&owned, &worker, add(&["1", "2"]))))
        .await;
    let mut next: Vec<_> = outcomes
        .into_iter()
        .map(|outcome| match outcome {
            Outcome::Appended { next } => next,
            other => panic!("appended, not {other:?}"),
        })
        .collect();
    next.sort_unstable();
    assert_eq!(next, [2, 4, 6, 8, 10, 12, 14, 16]);
    let mut answers = Vec::new();
    for n in 0..4 {
        let (done, answered) = answer();
        let append = by_owner(&owned, &worker, add(&["3"]));
        let turn = appending(turn(&owned, &worker), vec![add(&["4"])]);
        let writes = if n % 2 == 0 {
            write(append)
        } else {
            Write::Turn(Box::new(turn))
        };
        first.provider.commit(Arc::new(vec![writes]), done);
        answers.push(answered);
    }
    for answered in answers {
        let batch = within(answered).await.expect("a batch is answered");
        batch.expect("the batch is written");
    }
    let firsts = first.firsts(0, PageLimit::rows(100)).await;
    assert_eq!(firsts, [0, 2, 4, 6, 8, 10, 12, 14, 16, 17, 18, 19]);
    assert_eq!(first.stream("a", "s").await, (20, false));
}

/// A turn that is fenced off appends nothing, nor does a batch that is refused.
pub async fn are_written_with_their_turn(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    store.append_in_turn(&owned, &worker, add(&["1"])).await;
    let fenced = TurnCommit {
        epoch: Epoch(owned.epoch.0 + 1),
        ..appending(turn(&owned, &worker), vec![add(&["2"]), append("t", &["2"])])
    };
    assert_eq!(store.turn(fenced).await, Outcome::Fenced);
    let refused = TurnCommit {
        events: vec![scheduled(owned.next_event_id.0 + 7)],
        ..turn(&owned, &worker)
    };
    let good = write(by_owner(&owned, &worker, add(&["2"])));
    let batch = store.try_batch(vec![good, Write::Turn(Box::new(refused))]).await;
    batch.expect_err("its events do not fit");
    assert_eq!(store.entries("a").await, [(0, "1".into())]);
    assert_eq!(store.stream("a", "s").await, (1, false));
    let names: Vec<_> = store.list_streams("a").await.expect("it is there");
    assert_eq!(names.len(), 1);
}

/// Another worker, another epoch or another execution appends nothing, nor does a worker that lost the instance.
pub async fn fence_off_others_than_the_owner(store: &Store) {
    let store = store.first();
    let (worker, other) = (store.worker("w").await, store.worker("other").await);
    let owned = store.owned("a", &worker).await;
    store.append_in_turn(&owned, &worker, add(&["1"])).await;
    let late = |worker: &WorkerId| by_owner(&owned, worker, add(&["late"]));
    for fenced in [
        late(&other),
        ActivityAppend {
            by: Reporter::Owner(Epoch(owned.epoch.0 + 1)),
            ..late(&worker)
        },
        ActivityAppend {
            by: Reporter::Owner(Epoch(owned.epoch.0 - 1)),
            ..late(&worker)
        },
        ActivityAppend {
            execution: ExecutionId(2),
            ..late(&worker)
        },
        ActivityAppend {
            by: Reporter::Runner { attempt: 1 },
            ..late(&worker)
        },
        ActivityAppend {
            append: closing(add(&[])),
            ..late(&other)
        },
    ] {
        assert_eq!(store.append(fenced).await, Outcome::Fenced);
    }
    store.commit(suspend(&owned, &worker, "why")).await;
    assert_eq!(store.append(late(&worker)).await, Outcome::Fenced);
    store.resume("a").await;
    let next = store.acquire_one(&worker).await;
    assert_eq!(store.append(late(&worker)).await, Outcome::Fenced);
    assert_eq!(store.append(by_owner(&next, &worker, add(&["2"]))).await, appended(2));
    store.commit(end(&next, &worker, None)).await;
    let ended = by_owner(&next, &worker, add(&["late"]));
    assert_eq!(store.append(ended).await, Outcome::Fenced);
    let entries = [(0, "1".into()), (1, "2".into())];
    assert_eq!(store.entries("a").await, entries);
    assert_eq!(store.stream("a", "s").await, (2, false));
}

/// Only the worker that runs the attempt of a task appends, for as long as it does.
pub async fn fence_off_others_than_the_runner(store: &Store) {
    let store = store.first();
    let (worker, helper) = (store.worker("w").await, store.worker("h").await);
    let owned = store.offered(&worker, 2).await;
    let by = |worker: &WorkerId, attempt: u32| ActivityAppend {
        by: Reporter::Runner { attempt },
        attempt,
        ..by_owner(&owned, worker, add(&["x"]))
    };
    assert_eq!(store.append(by(&helper, 1)).await, Outcome::Fenced, "it is not taken");
    let task = store.take_one(&helper).await.task;
    let begins = |worker| ActivityAppend {
        begins: true,
        ..by(worker, 1)
    };
    assert_eq!(store.append(begins(&helper)).await, appended(1));
    for fenced in [
        by(&worker, 1),
        by(&helper, 2),
        ActivityAppend {
            scheduled: EventId(3),
            ..by(&helper, 1)
        },
        ActivityAppend {
            execution: ExecutionId(2),
            ..by(&helper, 1)
        },
    ] {
        assert_eq!(store.append(fenced).await, Outcome::Fenced);
    }
    store.provider.release_worker(&helper).await.expect("it is removed");
    assert_eq!(store.append(by(&helper, 1)).await, Outcome::Fenced);
    let next = store.worker("n").await;
    assert_eq!(store.take_one(&next).await.task, task);
    assert_eq!(store.append(by(&helper, 1)).await, Outcome::Fenced);
    assert_eq!(store.append(begins(&next)).await, appended(2));
    let chunks = store.chunks_of("a", "s").await;
    assert_eq!(resets(&chunks), [None, Some((0, 1))]);
    store.terminate("a", None).await;
    assert_eq!(store.append(by(&next, 1)).await, Outcome::Fenced);
    assert_eq!(store.stream("a", "s").await, (2, false));
}

/// A closed stream stays as it is. The turn commits all the same, with the rest of what it does.
pub async fn that_are_closed_take_nothing(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let mut owned = store.owned("a", &worker).await;
    let closes = vec![
        append("open", &["1"]),
        closing(add(&["1", "2"])),
        closing(append("t", &[])),
    ];
    store.commit(appending(turn(&owned, &worker), closes)).await;
    assert_eq!(store.stream("a", "s").await, (2, true));
    assert_eq!(store.stream("a", "t").await, (0, true));
    assert_eq!(store.entries("a").await, [(0, "1\n2".into())]);
    let late = vec![add(&["3"]), closing(append("open", &[])), append("t", &["1"])];
    let late = TurnCommit {
        events: vec![scheduled(2)],
        ..appending(turn(&owned, &worker), late)
    };
    store.commit(late).await;
    owned.next_event_id = EventId(3);
    let keeps_none = keeping(add(&["3"]), Some(0), None);
    for append in [add(&["3"]), keeps_none, append("open", &["2"]), append("t", &["1"])] {
        let begins = ActivityAppend {
            begins: true,
            ..by_owner(&owned, &worker, append)
        };
        assert_eq!(store.append(begins).await, Outcome::StreamClosed);
    }
    let fenced = by_owner(&owned, &WorkerId("other".into()), add(&["3"]));
    assert_eq!(store.append(fenced).await, Outcome::Fenced);
    assert_eq!(store.stream("a", "s").await, (2, true));
    assert_eq!(store.stream("a", "t").await, (0, true));
    assert_eq!(store.stream("a", "open").await, (1, true));
    assert_eq!(store.entries("a").await, [(0, "1\n2".into())]);
    store.commit(end(&owned, &worker, None)).await;
}

/// Each chunk of a later run of an activity names the first entry of the former runs, and of its run.
pub async fn tell_of_later_runs(store: &Store) {
    let store = store.first();
    let (worker, other) = (store.worker("w").await, store.worker("other").await);
    let owned = store.owned("a", &worker).await;
    store.append_in_turn(&owned, &worker, add(&["0"])).await;
    let run = |owned: &AcquiredInstance, scheduled: u64, attempt: u32, begins: bool| ActivityAppend {
        scheduled: EventId(scheduled),
        attempt,
        begins,
        ..by_owner(owned, &worker, add(&["x"]))
    };
    for write in [
        run(&owned, 3, 1, true),
        run(&owned, 2, 1, true),
        run(&owned, 3, 1, false),
        run(&owned, 2, 1, false),
        // A run begins with each stream by itself.
        ActivityAppend {
            append: append("t", &["x"]),
            ..run(&owned, 2, 1, true)
        },
    ] {
        assert!(matches!(store.append(write).await, Outcome::Appended { .. }));
    }
    store.append_in_turn(&owned, &worker, add(&["5"])).await;
    store.provider.release_worker(&worker).await.expect("it is removed");
    let later = store.acquire_one(&other).await;
    let by_other = |append| ActivityAppend {
        worker: other.clone(),
        ..append
    };
    for write in [
        run(&later, 2, 1, true),
        run(&later, 2, 1, false),
        run(&later, 3, 1, true),
        run(&later, 2, 2, true),
        run(&later, 4, 1, true),
    ] {
        let outcome = store.append(by_other(write)).await;
        assert!(matches!(outcome, Outcome::Appended { .. }), "{outcome:?}");
    }
    let continues = continued(&later, &other, None, true);
    store.commit(continues).await;
    let next = next_of(&later);
    assert_eq!(store.append(by_other(run(&next, 2, 1, true))).await, appended(12));
    let chunks = store.chunks_of("a", "s").await;
    let mut expected = [None; 12];
    expected[6..10].copy_from_slice(&[(2, 6), (2, 6), (1, 8), (2, 9)].map(Some));
    assert_eq!(resets(&chunks), expected);
    let writers = chunks.iter().map(|chunk| {
        let writer = chunk.writer?;
        Some((writer.execution.0, writer.scheduled.0, writer.attempt))
    });
    let writers: Vec<_> = writers.skip(8).collect();
    assert_eq!(
        writers,
        [Some((1, 3, 1)), Some((1, 2, 2)), Some((1, 4, 1)), Some((2, 2, 1))]
    );
    assert_eq!(store.chunks_of("a", "t").await[0].reset, None);
}

/// A page begins with the chunk that has the entry which is asked for.
pub async fn are_read_in_pages(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    for entries in [&["0", "1", "2"][..], &["3"], &["4", "5"], &["6", "7", "8"]] {
        store.append_in_turn(&owned, &worker, add(entries)).await;
    }
    // Neighbours of the stream.
    for stream in ["r", "s\0", "ss", ""] {
        store.append_in_turn(&owned, &worker, append(stream, &["x"; 20])).await;
    }
    let rows = PageLimit::rows;
    for (from, limit, firsts) in [
        (0, 10, &[0, 3, 4, 6][..]),
        (1, 10, &[0, 3, 4, 6]),
        (2, 2, &[0, 3]),
        (3, 10, &[3, 4, 6]),
        (4, 1, &[4]),
        (5, 10, &[4, 6]),
        (8, 10, &[6]),
        (9, 10, &[]),
        (1_000, 10, &[]),
        (u64::MAX, 10, &[]),
    ] {
        assert_eq!(store.firsts(from, rows(limit)).await, firsts, "from {from}");
    }
    let page = store.stream_page("a", "s", 9, rows(1)).await.expect("it is there");
    assert_eq!(page.state.next, 9);
    assert_eq!(store.stream_page("absent", "s", 0, rows(1)).await, None);
}

/// A page ends with the chunk that fills it. One chunk always passes.
pub async fn are_read_in_pages_of_bytes(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    for size in [10, 10, 10, 100, 10] {
        let text = "\u{e9}".repeat(size / 2);
        store.append_in_turn(&owned, &worker, add(&[&text])).await;
    }
    for (from, rows, bytes, firsts) in [
        (0, 10, 1, &[0][..]),
        (0, 10, 10, &[0]),
        (0, 10, 11, &[0, 1]),
        (0, 10, 20, &[0, 1]),
        (0, 10, 31, &[0, 1, 2, 3]),
        (0, 2, 1_000, &[0, 1]),
        (3, 10, 1, &[3]),
        (3, 10, 101, &[3, 4]),
    ] {
        let limit = PageLimit { rows, bytes };
        assert_eq!(store.firsts(from, limit).await, firsts, "{limit:?}");
    }
}
