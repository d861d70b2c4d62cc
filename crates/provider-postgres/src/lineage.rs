//! The lineage of a server: the history of commits that it continues. When the lineage changes, the workers of this
//! process end.
//!
//! After a failover that lost commits, or after a restore, the store is as it was earlier. All that is counted in it
//! (events, messages, epochs, keys) is given out a second time. A worker that goes on with its memory takes a new
//! message for one that it has seen, and consumes it unread. So that memory must end.
//!
//! - **N1** The lineage of a server is its system identifier, its timeline (a promotion and a recovery to an earlier
//!   point begin a new one) and the identifier of the sequence of keys (tables that were restored into the same server
//!   have another one). A restart changes none of them. The write-ahead log on disk never gets shorter: a server that
//!   has less of it than was seen a second ago was put back to an earlier state. Where the lineage cannot be asked for
//!   (a role without the rights, a server of another kind), the time at which the server was started stands in its
//!   place. Then each restart counts as a change.
//! - **N2** Each new connection is asked for the lineage before anything else, and the first answer is kept. A
//!   connection leads to one server for as long as it exists ([`Hosts`](crate::hosts::Hosts) cuts those to a former
//!   one). A standby has no lineage: it is no server of a store before it is promoted.
//! - **N3** When the answer is another one, the workers of this process are released in the store, in one transaction,
//!   before the connection is used. The fences do the rest: no turn, start, heartbeat or acquisition of a session that
//!   began before can be written. The next renewal of the session, which is requested at once, ends it, and a new
//!   worker reads everything anew.
//! - **N4** The rest of a block of keys is dropped: the sequence may give these keys to others.
//!
//! Behind a pooler that gives a connection to each transaction, the server changes without a new connection. There the
//! lineage is checked every [`PULSE_EVERY`](crate::options::PULSE_EVERY).

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use perdure_provider::{Clock, WorkerId};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use crate::error::Failure;
use crate::schema::names::{NOW, fill_in};

/// Selects the lineage (NULL while the store does not exist) and the size of the write-ahead log on disk.
const LINEAGE: &str = "SELECT (SELECT system_identifier FROM pg_catalog.pg_control_system())::text || ' '
    || pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()), 8)
    || ' ' || pg_catalog.to_regclass({keys})::oid::text,
  (pg_catalog.pg_current_wal_flush_lsn() - '0/0')::bigint";

const WITHOUT_RIGHTS: &str = "SELECT pg_catalog.pg_postmaster_start_time()::text || ' '
    || pg_catalog.to_regclass({keys})::oid::text,
  NULL::bigint";

/// The errors of a server that never answers [`LINEAGE`].
const NOT_TO_BE_ASKED: [SqlState; 4] = [
    SqlState::INSUFFICIENT_PRIVILEGE,
    SqlState::UNDEFINED_FUNCTION,
    SqlState::UNDEFINED_TABLE,
    SqlState::FEATURE_NOT_SUPPORTED,
];

/// Called after a change of the lineage, when the workers of this process were released.
type Listener = Box<dyn Fn() + Send + Sync>;

pub(crate) struct Lineage {
    schema: String,
    clock: Option<Arc<dyn Clock>>,
    /// The workers of this process.
    workers: Mutex<BTreeSet<Arc<str>>>,
    /// The lineage that the first connection told, or the first one after a change. Locked while the workers are
    /// released.
    known: tokio::sync::Mutex<Option<String>>,
    /// The size of the write-ahead log that was seen on disk. `tells_log` is true if the server tells that size.
    log: AtomicI64,
    tells_log: AtomicBool,
    changes: AtomicU64,
    listener: OnceLock<Listener>,
}

impl Lineage {
    /// `schema` is quoted.
    pub(crate) fn new(schema: String, clock: Option<Arc<dyn Clock>>) -> Self {
        Self {
            schema,
            clock,
            workers: Mutex::default(),
            known: tokio::sync::Mutex::default(),
            log: AtomicI64::new(0),
            tells_log: AtomicBool::new(false),
            changes: AtomicU64::new(0),
            listener: OnceLock::new(),
        }
    }

    pub(crate) fn add_worker(&self, worker: &WorkerId) {
        self.workers.lock().insert(Arc::clone(&worker.0));
    }

    pub(crate) fn remove_worker(&self, worker: &WorkerId) {
        self.workers.lock().remove(&worker.0);
    }

    pub(crate) fn has_worker(&self, worker: &WorkerId) -> bool {
        self.workers.lock().contains(&worker.0)
    }

    /// Calls `listener` after each change. Set once.
    pub(crate) fn on_change(&self, listener: Listener) {
        // There is only one notifier.
        let _ = self.listener.set(listener);
    }

    /// Returns true if the server tells the size of its log, so that [`saw_log`](Self::saw_log) can be called.
    pub(crate) fn tells_log(&self) -> bool {
        self.tells_log.load(Ordering::Acquire)
    }

    /// Notes that this many bytes of the write-ahead log are on disk.
    pub(crate) fn note_log_position(&self, bytes: i64) {
        self.log.fetch_max(bytes, Ordering::AcqRel);
    }

    /// Returns the number of changes of the lineage.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Asks a connection for its lineage, and releases the workers if the lineage has changed (N3). A store that does
    /// not exist yet has none.
    pub(crate) async fn check(&self, client: &Client) -> Result<(), Failure> {
        // Read before the question: other connections may see more log meanwhile than there is when this connection is
        // asked.
        let log_before = self.log.load(Ordering::Acquire);
        let (now, log) = self.of(client).await?;
        let Some(now) = now else {
            return Ok(());
        };
        let mut known = self.known.lock().await;
        match &*known {
            Some(known) if *known == now && log.is_none_or(|log| log >= log_before) => {
                self.log.fetch_max(log.unwrap_or(0), Ordering::AcqRel);
                return Ok(());
            }
            Some(_) => self.release_workers(client).await?,
            None => {}
        }
        self.log.store(log.unwrap_or(0), Ordering::Release);
        self.tells_log.store(log.is_some(), Ordering::Release);
        if known.replace(now).is_some() {
            self.changes.fetch_add(1, Ordering::AcqRel);
            drop(known);
            if let Some(listener) = self.listener.get() {
                listener();
            }
        }
        Ok(())
    }

    async fn of(&self, client: &Client) -> Result<(Option<String>, Option<i64>), Failure> {
        let ask = async |sql: &str| client.query_typed(&fill_in(sql, &self.schema), &[]).await;
        let rows = match ask(LINEAGE).await {
            // The server is a standby.
            Err(error) if error.code() == Some(&SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE) => return Err(error.into()),
            // The role has no rights, or the server is of a kind that has none of this. Any other error is temporary.
            Err(error) if error.code().is_some_and(|state| NOT_TO_BE_ASKED.contains(state)) => {
                ask(WITHOUT_RIGHTS).await
            }
            answer => answer,
        };
        let row = rows?.into_iter().next();
        let row = row.ok_or_else(|| Failure::internal("a server without a lineage"))?;
        Ok((row.try_get(0)?, row.try_get(1)?))
    }

    /// Releases the workers of this process, as `worker::release` does.
    async fn release_workers(&self, client: &Client) -> Result<(), Failure> {
        let workers: Vec<String> = self.workers.lock().iter().map(|worker| quoted(worker)).collect();
        if workers.is_empty() {
            return Ok(());
        }
        let (schema, of) = (&self.schema, format!("ANY (ARRAY[{}])", workers.join(", ")));
        let now = self
            .clock
            .as_ref()
            .map_or_else(|| NOW.to_owned(), |clock| clock.now_ms().to_string());
        let sql = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED;
             DELETE FROM {schema}.workers WHERE id = {of};
             UPDATE {schema}.instances SET owner = NULL, wake_at = {now}
               WHERE key IN (SELECT key FROM {schema}.instances WHERE owner = {of} ORDER BY key FOR NO KEY UPDATE);
             UPDATE {schema}.tasks SET owner = NULL, start_by = least(greatest(due_at, {now}) + start_within, deadline)
               WHERE owner = {of};
             DELETE FROM {schema}.sessions WHERE worker = {of};
             UPDATE {schema}.tasks SET route = '?' WHERE owner IS NULL AND route = {of};
             DELETE FROM {schema}.revocations WHERE worker = {of};
             COMMIT"
        );
        Ok(client.batch_execute(&sql).await?)
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
