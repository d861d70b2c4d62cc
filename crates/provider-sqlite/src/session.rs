//! The writer's connection: its transactions and the statements of the hot path.

use std::collections::HashMap;

use perdure_engine::EventRecord;
use perdure_provider::{InstanceKey, Pass, TurnCommit, WorkerId, numbered_sql};
use rusqlite::{Connection, Params, Row, Statement, StatementStatus, params};

use crate::error::Failure;
use crate::rows::integer;
use crate::statement::{Fence, fenced_params, fenced_sql};

/// The state that jobs work with. All of it belongs to the writer thread.
pub(crate) struct Session<'c> {
    connection: &'c Connection,
    now_ms: i64,
    data_version: i64,
    /// The slots of queues from which this transaction has admitted new instances, each for one worker.
    passes: HashMap<String, (WorkerId, Pass)>,
    // The two statements of every turn are kept outside the cache of the others: its look-ups would cost a tenth of a
    // turn.
    append_event: Statement<'c>,
    hold_turn: Statement<'c>,
}

impl<'c> Session<'c> {
    pub(crate) fn new(connection: &'c Connection, data_version: i64) -> Result<Self, Failure> {
        Ok(Self {
            connection,
            now_ms: 0,
            data_version,
            passes: HashMap::new(),
            append_event: connection.prepare(numbered_sql!(
                '?',
                "INSERT INTO history ({columns}) VALUES ({values})",
                instance_key,
                execution,
                event_id,
                time,
                kind,
                ref_id,
                name,
                payload,
                meta
            ))?,
            hold_turn: connection.prepare(fenced_sql!(
                "UPDATE instances SET next_event_id = $next, turns = turns + 1, updated_at = $time, status = 'Running',
                   open_work = $open_work,
                   suspicion = CASE WHEN $next > $first THEN 0 ELSE suspicion END,
                   probation = CASE WHEN $next > $first THEN 0 ELSE probation END",
                next,
                time,
                open_work
            ))?,
        })
    }

    /// Begins a transaction that holds the lock for writing from its first moment on, so that it never has to be given
    /// up later.
    pub(crate) fn begin(&mut self, now_ms: i64) -> Result<(), Failure> {
        self.now_ms = now_ms;
        self.passes.clear();
        self.execute("BEGIN IMMEDIATE", [])?;
        Ok(())
    }

    pub(crate) fn commit(&mut self) -> Result<(), Failure> {
        self.execute("COMMIT", [])?;
        Ok(())
    }

    /// Rolls back the transaction, if one is open: some errors have rolled it back already.
    pub(crate) fn roll_back(&mut self) {
        if !self.connection.is_autocommit() {
            // A failure leaves the transaction open, and the next `BEGIN` reports it.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
    }

    /// Returns true if another connection committed since the last call. The answer is exact for this connection,
    /// because SQLite counts only the commits of others.
    pub(crate) fn foreign_commit(&mut self) -> Result<bool, Failure> {
        let version = self.query_one("PRAGMA data_version", [], |row| row.get(0))?;
        Ok(std::mem::replace(&mut self.data_version, version) != version)
    }

    pub(crate) fn connection(&self) -> &'c Connection {
        self.connection
    }

    /// Returns the time of the store's clock when the transaction began (P9).
    pub(crate) fn now_ms(&self) -> i64 {
        self.now_ms
    }

    /// Takes the count of a queue's slots that this transaction has kept, with the worker for which they were counted.
    pub(crate) fn take_pass(&mut self, queue: &str) -> Option<(WorkerId, Pass)> {
        self.passes.remove(queue)
    }

    /// Keeps the count of a queue's slots until the end of this transaction. Nothing else takes slots meanwhile, and
    /// those that become free are counted by the next transaction.
    pub(crate) fn keep_pass(&mut self, queue: &str, pass: (WorkerId, Pass)) {
        self.passes.insert(queue.to_owned(), pass);
    }

    pub(crate) fn execute(&self, sql: &str, params: impl Params) -> Result<usize, Failure> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let changed = statement.execute(params)?;
        assert_indexed(&statement);
        Ok(changed)
    }

    /// Returns the first row.
    pub(crate) fn query_one<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, Failure> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let value = statement.query_row(params, read)?;
        assert_indexed(&statement);
        Ok(value)
    }

    /// Returns the first row, if there is one.
    pub(crate) fn query_optional<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, Failure> {
        match self.query_one(sql, params, read) {
            Err(Failure::Sqlite(rusqlite::Error::QueryReturnedNoRows)) => Ok(None),
            result => result.map(Some),
        }
    }

    /// Returns every row.
    pub(crate) fn query_all<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, Failure> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = statement.query_map(params, read)?.collect::<rusqlite::Result<_>>()?;
        assert_indexed(&statement);
        Ok(rows)
    }

    /// Appends one event. The primary key refuses a second event of the same id (P8).
    pub(crate) fn append_event(
        &mut self,
        key: InstanceKey,
        execution: i64,
        event: &EventRecord,
    ) -> Result<(), Failure> {
        self.append_event.execute(params![
            key.0,
            execution,
            integer(event.event_id.0),
            event.time_ms,
            event.kind.as_str(),
            event.ref_id.map(|id| integer(id.0)),
            event.name,
            event.payload,
            event.meta,
        ])?;
        Ok(())
    }

    /// Runs the fenced update of a turn after which its worker keeps the instance: the only statement besides the
    /// inserts of its events.
    pub(crate) fn hold_turn(&mut self, fence: &Fence<'_>, next: i64, turn: &TurnCommit) -> Result<usize, Failure> {
        Ok(self
            .hold_turn
            .execute(fenced_params!(fence, next, turn.time_ms, turn.open_work))?)
    }
}

/// Asserts that a statement of the writer walks over no whole table: with a million sleeping instances this would hold
/// up every caller.
fn assert_indexed(statement: &Statement<'_>) {
    debug_assert_eq!(
        statement.get_status(StatementStatus::FullscanStep),
        0,
        "{:?} scans",
        statement.expanded_sql()
    );
}
