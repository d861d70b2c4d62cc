//! The writing task. All batches that wait become one transaction, and are answered when that is durable.
//!
//! - No delay is added: the batches that come while one transaction is written are the next one.
//! - Answers are given in order, with no transaction open, so that an answer may hand over the next batch.
//! - A batch that fails takes no other with it: the transaction is rolled back, and its batches are written one by one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use perdure_provider::{CommitDone, Outcome, ProviderError, TurnCommit, Write};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::change_notifier::ChangeNotifier;
use crate::connection::Connections;
use crate::drive;
use crate::error::Failure;
use crate::marks::was_committed;
use crate::options::{OUTCOME_EVERY, TRANSACTION_JOBS_MAX, TRANSACTION_WRITES_MAX};
use crate::session::transaction;
use crate::write;
use crate::write::single_statement::{self, Marked, SingleStatement};

/// A batch of writes.
pub(crate) struct Batch {
    pub(crate) writes: Arc<Vec<Write>>,
    pub(crate) done: CommitDone,
}

/// Runs the writing task. It ends when no more batches can be handed over and none waits.
///
/// The queue has no limit of its own: each batch belongs to a caller that keeps to `ProviderInfo::concurrent_commits`
/// and `batch_max`.
pub(crate) async fn run(
    connections: Arc<Connections>,
    notifier: Arc<ChangeNotifier>,
    mut queue: UnboundedReceiver<Batch>,
) {
    let mut next = None;
    loop {
        let first = match next.take() {
            Some(batch) => batch,
            None => match queue.recv().await {
                Some(batch) => batch,
                None => return,
            },
        };
        let mut writes = first.writes.len();
        let mut group = vec![first];
        while group.len() < TRANSACTION_JOBS_MAX
            && let Ok(batch) = queue.try_recv()
        {
            if writes + batch.writes.len() > TRANSACTION_WRITES_MAX {
                next = Some(batch);
                break;
            }
            writes += batch.writes.len();
            group.push(batch);
        }
        write_group(&connections, &notifier, group).await;
    }
}

async fn write_group(connections: &Arc<Connections>, notifier: &ChangeNotifier, group: Vec<Batch>) {
    match attempt(connections, writes_of(&group)).await {
        Ok(outcomes) => {
            for (batch, outcomes) in group.into_iter().zip(outcomes) {
                answer(connections, notifier, batch, Ok(outcomes));
            }
        }
        Err(failure) if group.len() > 1 && failure.kind().blames_row() => {
            for batch in group {
                let result = attempt(connections, vec![Arc::clone(&batch.writes)]).await;
                let result = result.map(|mut outcomes| outcomes.pop().unwrap_or_default());
                answer(connections, notifier, batch, result);
            }
        }
        Err(failure) => {
            let error = failure.named_of_open(&connections.location);
            for batch in group {
                answer_with(batch, Err(error.clone()));
            }
        }
    }
}

fn writes_of(group: &[Batch]) -> Vec<Arc<Vec<Write>>> {
    group.iter().map(|batch| Arc::clone(&batch.writes)).collect()
}

/// Writes batches at once. Returns the outcomes of each. An error means that nothing of them is in the store, unless
/// the error says that the outcome is unknown.
async fn attempt(connections: &Arc<Connections>, batches: Vec<Arc<Vec<Write>>>) -> Result<Vec<Vec<Outcome>>, Failure> {
    let all: Vec<&Write> = batches.iter().flat_map(|batch| batch.iter()).collect();
    let outcomes = match single_statement::of(&all).filter(|_| connections.capabilities().keeps_sessions) {
        Some(SingleStatement::Turns(turns)) => write_turns(connections, &batches, &turns).await?,
        Some(SingleStatement::Marked(marked)) => write_marked(connections, &batches, &marked).await?,
        None => write_all(connections, &batches).await?,
    };
    let mut outcomes = outcomes.into_iter();
    Ok(batches
        .iter()
        .map(|batch| outcomes.by_ref().take(batch.len()).collect())
        .collect())
}

/// Writes turns with one statement. When its answer is lost, the outcome is found out before anything else is written.
async fn write_turns(
    connections: &Arc<Connections>,
    batches: &[Arc<Vec<Write>>],
    turns: &[(usize, &TurnCommit)],
) -> Result<Vec<Outcome>, Failure> {
    let mut connection = connections.get().await?;
    let written = connections
        .early_wake
        .awaiting(single_statement::write_turns(&connection, turns));
    let failure = match written.await {
        Ok(Some(outcomes)) => return Ok(outcomes),
        Err(failure) if failure.is_unknown() => failure,
        Err(failure) if !failure.is_to_be_tried_again() => return Err(failure),
        Ok(None) | Err(_) => {
            drop(connection);
            return write_all(connections, batches).await;
        }
    };
    // The statement is not cancelled: the next transaction waits for the same locks behind it, and finds it ended.
    drop(connection.give_up_commit());
    loop {
        let again = async {
            let mut outcomes = write_all(connections, batches).await?;
            single_statement::find_committed(connections, turns, &mut outcomes).await?;
            Ok::<_, Failure>(outcomes)
        };
        match again.await {
            Ok(outcomes) => return Ok(outcomes),
            Err(_) if connections.is_closed() => return Err(failure.of_unknown_outcome()),
            Err(failure) if failure.kind().blames_row() => return Err(failure.of_unknown_outcome()),
            Err(_) => crate::time::sleep(OUTCOME_EVERY).await,
        }
    }
}

/// Like [`write_turns`], for a write with a mark. The mark tells the outcome, and keeps the write from taking effect
/// later.
async fn write_marked(
    connections: &Arc<Connections>,
    batches: &[Arc<Vec<Write>>],
    marked: &Marked<'_>,
) -> Result<Vec<Outcome>, Failure> {
    let mut connection = connections.get().await?;
    let mark = connections.marks.take();
    let written = connections.early_wake.awaiting(marked.write(&connection, &mark));
    let outcome = match written.await {
        Err(failure) if failure.is_unknown() => {
            let given_up = connection.give_up_commit();
            return match was_committed(connections, &mark).await {
                Ok(true) => Ok(vec![recover_outcome(connections, marked).await?]),
                Ok(false) => {
                    given_up.cancel();
                    Err(failure)
                }
                Err(_) => Err(failure.of_unknown_outcome()),
            };
        }
        Err(failure) if failure.is_to_be_tried_again() => Ok(None),
        outcome => outcome,
    };
    drop(connection);
    connections.marks.return_mark(mark);
    match outcome? {
        Some(outcome) => Ok(vec![outcome]),
        None => write_all(connections, batches).await,
    }
}

/// Returns the outcome of a write, as soon as the server tells it.
async fn recover_outcome(connections: &Arc<Connections>, marked: &Marked<'_>) -> Result<Outcome, Failure> {
    loop {
        let outcome = async { marked.recover_outcome(&connections.get().await?).await };
        match outcome.await {
            Err(failure) if !failure.kind().blames_row() && !connections.is_closed() => {
                crate::time::sleep(OUTCOME_EVERY).await;
            }
            Err(failure) => return Err(failure.of_unknown_outcome()),
            outcome => return outcome,
        }
    }
}

/// Writes batches in one transaction.
async fn write_all(connections: &Arc<Connections>, batches: &[Arc<Vec<Write>>]) -> Result<Vec<Outcome>, Failure> {
    let batches = batches.to_vec();
    transaction(connections, |session| {
        let batches = batches.clone();
        Box::pin(async move {
            let all: Vec<&Write> = batches.iter().flat_map(|batch| batch.iter()).collect();
            write::run(session, &all).await
        })
    })
    .await
}

fn answer(connections: &Connections, notifier: &ChangeNotifier, batch: Batch, result: Result<Vec<Outcome>, Failure>) {
    if let Ok(outcomes) = &result {
        notifier.written(&batch.writes, outcomes);
    }
    answer_with(
        batch,
        result.map_err(|failure| failure.named_of_open(&connections.location)),
    );
}

/// Answers a batch. A panic in the caller's code must not end the task that all others depend on.
pub(crate) fn answer_with(batch: Batch, result: Result<Vec<Outcome>, ProviderError>) {
    let Batch { writes, done } = batch;
    // The caller may keep the batch in case it fails. It is the only holder again when it gets the answer.
    drop(writes);
    let answer = move || drop(catch_unwind(AssertUnwindSafe(|| done(result))));
    if drive::is_at_once() {
        // The caller may hold a lock that its `done` takes.
        tokio::spawn(async move { answer() });
    } else {
        answer();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use parking_lot::Mutex;
    use tokio::runtime::Builder;

    use super::*;

    /// A caller that hands a batch over may hold a lock that the answer takes.
    #[test]
    fn an_answer_never_comes_within_the_call_that_hands_over() {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .expect("threads can be made");
        let held = Arc::new(Mutex::new(()));
        let (tell, told) = mpsc::channel();
        let batch = |held: &Arc<Mutex<()>>| {
            let (held, tell) = (Arc::clone(held), tell.clone());
            let done: CommitDone = Box::new(move |answer| {
                let _held = held.lock();
                tell.send(answer).expect("somebody waits for it");
            });
            Batch {
                writes: Arc::default(),
                done,
            }
        };
        let caller = held.lock();
        drive::at_once(runtime.handle(), || answer_with(batch(&held), Ok(Vec::new())));
        assert!(told.try_recv().is_err());
        drop(caller);
        assert_eq!(told.recv().expect("it is answered"), Ok(Vec::new()));
    }
}
