//! The lines that the code of an instance logged.

use perdure_engine::{EventId, ExecutionId};
use perdure_provider::{
    AcquiredInstance, Epoch, Filter, InstanceKey, Level, LogLine, LogPage, LogPlace, LogRequest, OnConflict, Outcome,
    PruneRequest, TurnCommit, TurnLogs, WorkerId, Write,
};

use crate::continue_as_new::continued;
use crate::store::{Handle, START_MS, Store, end, release, scheduled, turn};

/// A text with characters that a store may handle in its own way.
const TEXT: &str = "a\0\u{1F600}'\\ line";

fn line(execution: u64, event: u64, line: u32) -> LogLine {
    LogLine {
        place: LogPlace {
            execution: ExecutionId(execution),
            event: EventId(event),
            line,
        },
        time_ms: START_MS + event as i64,
        level: Level::Warn,
        message: format!("{TEXT} {execution}.{event}.{line}"),
        fields: (line == 0).then(|| format!("{{\"text\":\"{TEXT}\"}}")),
    }
}

fn logs(lines: &[LogLine], lines_max: usize) -> Option<Box<TurnLogs>> {
    let lines = lines.to_vec();
    Some(Box::new(TurnLogs { lines, lines_max }))
}

fn request(id: &str) -> LogRequest {
    LogRequest {
        id: id.into(),
        execution: None,
        after: None,
        limit: 100,
    }
}

impl Handle<'_> {
    async fn log_page(&self, request: LogRequest) -> LogPage {
        let page = self.provider.logs(request).await.expect("the store answers");
        page.expect("the instance is there")
    }

    async fn logs(&self, id: &str) -> Vec<LogLine> {
        self.log_page(request(id)).await.lines
    }

    /// Commits a turn of one event with lines before it. Returns the lines.
    async fn log(&self, owned: &mut AcquiredInstance, worker: &WorkerId, lines_max: usize) -> Vec<LogLine> {
        let event = owned.next_event_id;
        let lines = [line(1, event.0, 0), line(1, event.0, 1)];
        let commit = TurnCommit {
            events: vec![scheduled(event.0)],
            logs: logs(&lines, lines_max),
            ..turn(owned, worker)
        };
        self.commit(commit).await;
        owned.next_event_id = event.next();
        lines.to_vec()
    }
}

/// Lines come back as they were logged, by place, from any place on and of any execution.
pub async fn are_read_in_order(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    assert_eq!(store.provider.logs(request("a")).await, Ok(None));
    let mut owned = store.owned("a", &worker).await;
    let key = owned.key;
    assert_eq!(store.log_page(request("a")).await, LogPage { key, lines: Vec::new() });
    let mut all = store.log(&mut owned, &worker, 100).await;
    all.extend(store.log(&mut owned, &worker, 100).await);
    let continues = TurnCommit {
        logs: logs(&[line(1, 4, 0)], 100),
        ..continued(&owned, &worker, None, true)
    };
    store.commit(continues).await;
    all.push(line(1, 4, 0));
    owned.execution = ExecutionId(2);
    owned.next_event_id = EventId(2);
    let sleeps = TurnCommit {
        logs: logs(&[line(2, 2, 0)], 100),
        ..release(&owned, &worker, None)
    };
    store.commit(sleeps).await;
    all.push(line(2, 2, 0));
    assert_eq!(store.logs("a").await, all);

    let some = LogRequest {
        after: Some((key, all[0].place)),
        limit: 2,
        ..request("a")
    };
    assert_eq!(store.log_page(some).await.lines, all[1..3]);
    for (execution, lines) in [(1, &all[..5]), (2, &all[5..]), (3, &[])] {
        let of = LogRequest {
            execution: Some(ExecutionId(execution)),
            ..request("a")
        };
        assert_eq!(store.log_page(of).await.lines, lines);
    }
    let of_another = LogRequest {
        after: Some((InstanceKey(key.0 + 1), all[5].place)),
        ..request("a")
    };
    assert_eq!(store.log_page(of_another).await.lines, all);
}

/// Lines are written with their turn or not at all, and a place keeps the line that it has.
pub async fn are_written_once(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let mut owned = store.owned("a", &worker).await;
    let fenced = TurnCommit {
        epoch: Epoch(owned.epoch.0 + 1),
        logs: logs(&[line(1, 2, 0)], 100),
        ..turn(&owned, &worker)
    };
    assert_eq!(store.turn(fenced).await, Outcome::Fenced);
    assert_eq!(store.logs("a").await, []);
    let lines = store.log(&mut owned, &worker, 100).await;
    let again = LogLine {
        time_ms: START_MS + 99,
        ..lines[1].clone()
    };
    let repeats = TurnCommit {
        logs: logs(&[again, line(1, 3, 0)], 100),
        ..turn(&owned, &worker)
    };
    let outcome = store.turn(repeats).await;
    assert!(
        matches!(outcome, Outcome::Committed { others: None, .. }),
        "{outcome:?}"
    );
    assert_eq!(store.logs("a").await, [lines, vec![line(1, 3, 0)]].concat());
}

/// The last lines of an instance stay.
pub async fn are_bounded(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let mut other = store.owned("b", &worker).await;
    let of_other = store.log(&mut other, &worker, 100).await;
    let mut owned = store.owned("a", &worker).await;
    let first = store.log(&mut owned, &worker, 3).await;
    let second = store.log(&mut owned, &worker, 3).await;
    assert_eq!(store.logs("a").await, [&first[1..], &second].concat());
    let third = store.log(&mut owned, &worker, 1).await;
    assert_eq!(store.logs("a").await, third[1..]);
    assert_eq!(store.logs("b").await, of_other);
}

/// The lines of a first turn are written with the start.
pub async fn come_with_a_start_and_its_first_turn(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let model = store.owned("model", &worker).await;
    for on_conflict in [OnConflict::Keep, OnConflict::TerminateAndRestart] {
        let first_turn = TurnCommit {
            logs: logs(&[line(1, 2, 0)], 100),
            ..turn(&model, &worker)
        };
        store.start_with_turn("a", first_turn, on_conflict).await;
        assert_eq!(store.logs("a").await, [line(1, 2, 0)], "{on_conflict:?}");
    }
}

/// The instance that replaces another one under the same id begins without lines, and none of the other one's are left.
pub async fn go_with_an_instance_that_is_replaced(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    let ends = TurnCommit {
        logs: logs(&[line(1, 2, 0)], 100),
        ..end(&owned, &worker, None)
    };
    store.commit(ends).await;
    store.acquire_anew("a", &worker).await;
    assert_eq!(store.logs("a").await, []);
}

/// Lines stay after the end of their instance, and go with the instance.
pub async fn go_with_the_instance(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    for pruned in [false, true] {
        let owned = store.owned("a", &worker).await;
        let ends = TurnCommit {
            logs: logs(&[line(1, 2, 0)], 100),
            ..end(&owned, &worker, None)
        };
        store.commit(ends).await;
        assert_eq!(store.logs("a").await, [line(1, 2, 0)]);
        if pruned {
            let request = PruneRequest {
                filter: Filter::default(),
                after: None,
                limit: 10,
                walk_max: 10,
            };
            let pruned = store.provider.prune(request).await.expect("the store answers");
            assert_eq!(pruned.deleted, 1);
        } else {
            let delete = Write::Delete { id: "a".into() };
            assert_eq!(store.write(delete).await, Outcome::Deleted);
        }
        assert_eq!(store.provider.logs(request("a")).await, Ok(None));
        store.owned("a", &worker).await;
        assert_eq!(store.logs("a").await, []);
        store.terminate("a", None).await;
        let delete = Write::Delete { id: "a".into() };
        assert_eq!(store.write(delete).await, Outcome::Deleted);
    }
    // Nothing of them is left.
    assert_eq!(store.provider.prune_logs(i64::MAX, 1).await, Ok(false));
}

/// Old lines are deleted in steps.
pub async fn are_deleted_by_age(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let mut owned = store.owned("a", &worker).await;
    for _ in 0..3 {
        store.log(&mut owned, &worker, 100).await;
    }
    assert_eq!(store.provider.prune_logs(START_MS, 3).await, Ok(false));
    assert_eq!(store.provider.prune_logs(START_MS + 4, 3).await, Ok(true));
    assert_eq!(store.provider.prune_logs(START_MS + 4, 3).await, Ok(false));
    assert_eq!(store.logs("a").await, [line(1, 4, 0), line(1, 4, 1)]);
}
