//! Transactions.
//!
//! - The first statement of a transaction leaves a [mark](crate::marks). When the answer to COMMIT is lost, the mark
//!   tells the outcome of the transaction, and nothing is ever written a second time on a guess. (The server's own
//!   numbers would not do: a number that was lost in a crash is given to another transaction after it.)
//! - The instances that a transaction changes are locked before they are read, in the order of their keys. Statements
//!   after that see all that was committed before the transaction had the locks.
//! - A transaction that the server rolled back because of another one is tried again.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio_postgres::Row;

use crate::connection::{Connection, Connections};
use crate::error::Failure;
use crate::marks::{self, Mark, was_committed};
use crate::options::TRANSACTION_ATTEMPTS;
use crate::params::P;
use crate::query::Query;
use crate::statement::named;

/// The work that runs in a transaction.
pub(crate) type Work<'t, T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send + 't>>;

/// An open transaction.
pub(crate) struct Session<'c> {
    connection: &'c Connection,
    clock_ms: Option<i64>,
}

impl Session<'_> {
    pub(crate) fn connection(&self) -> &Connection {
        self.connection
    }

    /// Returns the store's clock as a parameter of a statement: NULL if it is the server's clock (P9).
    pub(crate) fn now(&self) -> P<'static> {
        P::MaybeInt(self.clock_ms)
    }

    pub(crate) async fn query(&self, sql: &'static str, params: &[P<'_>]) -> Result<Vec<Row>, Failure> {
        self.connection.query(sql, params).await
    }

    /// Runs a statement, if there is one.
    pub(crate) async fn run(&self, query: Option<&Query<'_>>) -> Result<Vec<Row>, Failure> {
        self.connection.run(query).await
    }

    pub(crate) async fn query_one(&self, sql: &'static str, params: &[P<'_>]) -> Result<Row, Failure> {
        self.connection.query_one(sql, params).await
    }

    pub(crate) async fn query_optional(&self, sql: &'static str, params: &[P<'_>]) -> Result<Option<Row>, Failure> {
        Ok(self.query(sql, params).await?.into_iter().next())
    }
}

/// Runs work in a transaction. An error means that nothing of it is in the store, unless the error says that the
/// outcome is unknown.
pub(crate) async fn transaction<T>(
    connections: &Arc<Connections>,
    work: impl for<'t> Fn(&'t Session<'t>) -> Work<'t, T>,
) -> Result<T, Failure> {
    let mut attempt = 1;
    loop {
        let mut connection = connections.get().await?;
        match attempt_once(&mut connection, &work).await {
            Err(failure) if attempt < TRANSACTION_ATTEMPTS && failure.is_to_be_tried_again() => {
                attempt += 1;
            }
            result => return result,
        }
    }
}

async fn attempt_once<T>(
    connection: &mut Connection,
    work: &impl for<'t> Fn(&'t Session<'t>) -> Work<'t, T>,
) -> Result<T, Failure> {
    let from = Arc::clone(&connection.from);
    let mark = from.marks.take();
    let begin = from.begin();
    if !from.capabilities().keeps_sessions {
        // A pooler that has no connection to the server may refuse only the `BEGIN`, and the statements after it would
        // run outside of any transaction.
        if let Err(failure) = batch_execute(connection, &begin).await {
            connection.give_up();
            return Err(failure);
        }
    }
    let (begun, marked, result) = {
        let session = Session {
            clock_ms: from.clock_ms(),
            connection,
        };
        let begun = async {
            if from.capabilities().keeps_sessions {
                batch_execute(connection, &begin).await
            } else {
                Ok(())
            }
        };
        // Sent in this order, without waiting for the answers in between.
        tokio::join!(biased; begun, leave(connection, &mark), work(&session))
    };
    // Every failure after this one is a consequence of it.
    if let Err(failure) = begun {
        connection.give_up();
        return Err(failure);
    }
    let has_number = marked.is_ok();
    let ended = match marked.and(result) {
        Ok(value) => commit(connection, mark).await.map(|()| value),
        Err(failure) => {
            match batch_execute(connection, "ROLLBACK").await {
                Ok(()) => from.marks.return_mark(mark),
                Err(_) => connection.give_up(),
            }
            Err(failure)
        }
    };
    if has_number {
        from.count_transaction();
    }
    ended
}

async fn batch_execute(connection: &Connection, sql: &str) -> Result<(), Failure> {
    let said = async { Ok(connection.client().batch_execute(sql).await?) };
    connection.from.in_time(said).await
}

async fn leave(connection: &Connection, mark: &Mark) -> Result<(), Failure> {
    named!(
        connection.query,
        &marks::leaving(""),
        { mark_slot: P::Text(&mark.slot), mark_number: P::Int(mark.number) }
    )
    .await?;
    Ok(())
}

async fn commit(connection: &mut Connection, mark: Mark) -> Result<(), Failure> {
    let from = Arc::clone(&connection.from);
    match batch_execute(connection, "COMMIT").await {
        Ok(()) => {
            from.marks.return_mark(mark);
            Ok(())
        }
        Err(failure) if failure.is_conflict() => {
            from.marks.return_mark(mark);
            Err(failure)
        }
        Err(failure) => {
            let given_up = connection.give_up_commit();
            match was_committed(&from, &mark).await {
                Ok(true) => Ok(()),
                Ok(false) => {
                    given_up.cancel();
                    Err(failure)
                }
                Err(_) => Err(failure.of_unknown_outcome()),
            }
        }
    }
}

/// Runs reads that all see one snapshot.
pub(crate) async fn read_only<T>(
    connections: &Arc<Connections>,
    work: impl for<'t> FnOnce(&'t Connection) -> Work<'t, T>,
) -> Result<T, Failure> {
    let mut connection = connections.get().await?;
    let (begun, result) = tokio::join!(
        biased;
        batch_execute(&connection, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"),
        work(&connection),
    );
    let ended = batch_execute(&connection, "COMMIT").await;
    if begun.is_err() || ended.is_err() {
        connection.give_up();
    }
    begun?;
    result
}
