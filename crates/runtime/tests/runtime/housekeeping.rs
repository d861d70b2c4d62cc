//! Instances that have ended are deleted, and the rows that are there are read in pages.

use perdure_engine::{EventId, ExecutionId};
use perdure_provider::{Filter, ProviderErrorKind, Status};

use crate::support::{Answer, Call, Fixture, Op};
use perdure_runtime::internals::limits::{HISTORY_PAGE, PRUNE_BATCH};
use perdure_runtime::{HistoryRequest, RuntimeError, RuntimeOptions};

async fn ended(count: usize) -> Fixture {
    let mut f = Fixture::started(RuntimeOptions::default(), &[]).await;
    for n in 0..count {
        f.start(&format!("i{n}")).await;
    }
    f
}

impl Fixture {
    async fn delete(&mut self, id: &str) -> Result<(), RuntimeError> {
        let deleted = Answer::default();
        self.store.delete(id.into(), deleted.reply());
        self.settle().await;
        deleted.take().expect("it is answered")
    }

    async fn prune(&mut self, filter: Filter, limit: Option<u64>) -> Result<u64, RuntimeError> {
        let pruned = Answer::default();
        self.store.prune((0, 1), filter, limit, pruned.reply());
        self.settle().await;
        pruned.take().expect("it is answered")
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_instance_is_gone_with_its_history() {
    let mut f = ended(1).await;
    assert_eq!(f.delete("i0").await, Ok(()));
    assert_eq!(f.memory.unswept(), 0);
    let id = "i0".to_owned();
    assert_eq!(f.delete("i0").await, Err(RuntimeError::InstanceNotFound { id }));
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_running_instance_is_not_deleted() {
    let mut f = Fixture::started(RuntimeOptions::default(), &[Op::Event("go")]).await;
    f.start("i").await;
    let (id, status) = ("i".to_owned(), Status::Running);
    assert_eq!(f.delete("i").await, Err(RuntimeError::NotEnded { id, status }));
    f.event("i", "go").await;
    assert_eq!(f.delete("i").await, Ok(()));
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_prune_ends_before_its_next_batch() {
    let mut f = ended(PRUNE_BATCH * 3).await;
    let pruned = Answer::default();
    f.store.prune((0, 1), Filter::default(), None, pruned.reply());
    // Another request of the same handle, and the same number of another handle, are no abandonment.
    f.store.abandon((0, 2));
    f.store.abandon((1, 1));
    f.memory.hold(Call::Prune);
    f.settle().await;
    assert_eq!(f.store.open_deletions(), 1);
    f.store.abandon((0, 1));
    f.memory.resume(Call::Prune);
    f.settle().await;
    assert_eq!(pruned.take().expect("it is answered"), Ok(PRUNE_BATCH as u64));
    assert_eq!(f.store.open_deletions(), 0);
    assert_eq!(f.prune(Filter::default(), None).await, Ok(PRUNE_BATCH as u64 * 2));
    assert_eq!(f.memory.unswept(), 0);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn many_are_pruned_in_batches_and_no_more_than_asked_for() {
    let count = PRUNE_BATCH + 50;
    let mut f = ended(count).await;
    assert_eq!(f.prune(Filter::default(), Some(7)).await, Ok(7));
    let filter = Filter {
        name: Some("other".into()),
        ..Filter::default()
    };
    assert_eq!(f.prune(filter, None).await, Ok(0));
    assert_eq!(f.prune(Filter::default(), None).await, Ok(count as u64 - 7));
    assert_eq!(f.memory.unswept(), 0);
    f.assert_empty();
}

/// A process was killed, or its store failed, before all was swept away.
#[tokio::test(start_paused = true)]
async fn the_next_deletion_sweeps_the_rest() {
    let mut f = ended(2).await;
    f.memory.fail(Call::Sweep, ProviderErrorKind::Io, 1);
    assert!(f.delete("i0").await.is_err());
    assert!(f.memory.unswept() > 0);
    assert_eq!(
        f.prune(
            Filter {
                name: Some("none".into()),
                ..Filter::default()
            },
            None
        )
        .await,
        Ok(0)
    );
    assert_eq!(f.memory.unswept(), 0);
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_list_has_the_matching_instances() {
    let mut f = ended(3).await;
    f.memory.row("i0", |row| row.name = "rare".into());
    let filter = Filter {
        name: Some("rare".into()),
        ..Filter::default()
    };
    let listed = Answer::default();
    f.store.list(filter, None, 5, listed.reply());
    f.settle().await;
    let page = listed.take().expect("it is answered").expect("it is read");
    let ids: Vec<_> = page.instances.iter().map(|status| status.id.as_str()).collect();
    assert_eq!((ids, page.next), (vec!["i0"], None));
    f.assert_empty();
}

#[tokio::test(start_paused = true)]
async fn a_history_is_read_page_by_page_and_of_one_instance() {
    let mut f = ended(1).await;
    let record = f.memory.get("i0").history[0].clone();
    f.memory.history("i0", |events| {
        let last = HISTORY_PAGE.rows as u64 + 1;
        *events = (1..=last)
            .map(|id| perdure_engine::EventRecord {
                event_id: EventId(id),
                ..record.clone()
            })
            .collect();
    });
    let request = HistoryRequest {
        id: "i0".into(),
        key: None,
        execution: None,
        from: EventId::FIRST,
        limit: usize::MAX,
    };
    let first = Answer::default();
    f.store.history(request.clone(), first.reply());
    f.settle().await;
    let page = first.take().expect("it is answered").expect("it is read");
    assert_eq!((page.events.len(), page.is_last), (HISTORY_PAGE.rows, false));
    let rest = Answer::default();
    let next = HistoryRequest {
        key: Some(page.key),
        execution: Some(page.execution),
        from: EventId(HISTORY_PAGE.rows as u64 + 1),
        limit: usize::MAX,
        ..request
    };
    f.store.history(next.clone(), rest.reply());
    f.settle().await;
    let page = rest.take().expect("it is answered").expect("it is read");
    assert_eq!((page.events.len(), page.is_last), (1, true));

    let (other, later) = (Answer::default(), Answer::default());
    assert_eq!(f.delete("i0").await, Ok(()));
    f.start("i0").await;
    f.store.history(next.clone(), other.reply());
    let execution = Some(ExecutionId(2));
    f.store.history(
        HistoryRequest {
            execution,
            key: None,
            ..next
        },
        later.reply(),
    );
    f.settle().await;
    assert!(matches!(other.take(), Some(Err(RuntimeError::InstanceNotFound { .. }))));
    assert!(matches!(
        later.take(),
        Some(Err(RuntimeError::ExecutionNotFound { last: 1, .. }))
    ));
    f.assert_empty();
}
