//! The connections of a store: how they are made, pooled and used.
//!
//! A statement is written once, with `{schema}` before each table, `{now}` for the server's clock and `{keys}` for the
//! sequence of instance keys. It is prepared on each connection that uses it. Behind a pooler that gives a connection
//! to each transaction, it is sent unprepared unless the pooler keeps track of prepared statements.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use deadpool::Runtime;
use deadpool::managed::{Manager, Metrics, Object, Pool, QueueMode, RecycleError, RecycleResult};
use deadpool_postgres::ClientWrapper;
use parking_lot::{Mutex, RwLock};
use perdure_provider::{Clock, ProviderErrorKind as Kind};
use tokio::runtime::Handle;
use tokio::time::timeout;
use tokio_postgres::types::Type;
use tokio_postgres::{Row, Statement};

use crate::early_wake::EarlyWake;
use crate::error::Failure;
use crate::hosts::{Hosts, SpawnDriver};
use crate::lineage::Lineage;
use crate::marks::Marks;
use crate::options::{
    IDLE_IN_TRANSACTION_MAX, KEYS_BLOCK, LOCK_TIMEOUT, POOL_WAIT_MAX, PULSE_EVERY, Pooler, PostgresOptions, SLOW_AFTER,
    STATEMENT_MAX, STATEMENT_TIMEOUT,
};
use crate::params::P;
use crate::pooler::{self, Capabilities};
use crate::query::Query;
use crate::schema::names::{NOW, check_name, fill_in, quoted};
use crate::{drive, tls, url};

/// Settings that make statements look up their rows one by one, by the index that they were written for. A plan is made
/// once for a connection. The table may be empty then and have a million rows a minute later, so a plan that scans the
/// whole table must not look cheap. The statements do the rest: `docs/internals/postgres.md`, Plans.
const SETTINGS: &[(&str, &str)] = &[
    ("enable_seqscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("random_page_cost", "1.1"),
    ("plan_cache_mode", "force_generic_plan"),
    ("jit", "off"),
];

/// The pool of connections, and the state that all of them share.
pub(crate) struct Connections {
    pool: Pool<ConnectionManager>,
    pub(crate) hosts: Arc<Hosts>,
    pub(crate) lineage: Arc<Lineage>,
    /// The number of statements that the server has not answered for a while.
    slow: AtomicUsize,
    /// True while the server reports that a commit waits for a synchronous standby.
    awaits_standby: AtomicBool,
    pub(crate) location: String,
    pooler_of_url: Option<Pooler>,
    pub(crate) schema: String,
    capabilities: Arc<OnceLock<Capabilities>>,
    clock: Option<Arc<dyn Clock>>,
    pub(crate) marks: Marks,
    pub(crate) early_wake: Arc<EarlyWake>,
    own_transactions: AtomicU64,
    keys: Mutex<Keys>,
    keep_keys: bool,
    /// Texts of statements, by the address of the text that they were written as.
    texts: RwLock<HashMap<usize, Arc<str>>>,
}

/// Keys for instances that are not given out yet.
#[derive(Default)]
struct Keys {
    /// The number of lineage changes at the time when the keys were requested.
    of: u64,
    left: Range<i64>,
}

impl Connections {
    pub(crate) fn new(target: &str, options: &PostgresOptions) -> Result<Self, Failure> {
        let url::Target {
            mut config,
            tls,
            require_auth,
            location,
            pooler: pooler_of_url,
        } = url::parse(target)?;
        check_name(&options.schema)?;
        let tls = options.tls.as_ref().unwrap_or(&tls);
        let connector = tls::connector(tls, options.default_roots.as_deref(), &mut config)?;
        let schema = quoted(&options.schema);
        let lineage = Arc::new(Lineage::new(schema.clone(), options.clock.clone()));
        let hosts = Arc::new(Hosts::new(
            config,
            connector,
            require_auth,
            options.password.clone(),
            Arc::clone(&lineage),
        ));
        let early_wake = Arc::new(EarlyWake::default());
        let capabilities = Arc::new(OnceLock::new());
        let manager = ConnectionManager {
            hosts: Arc::clone(&hosts),
            early_wake: Arc::clone(&early_wake),
            capabilities: Arc::clone(&capabilities),
        };
        let pool = Pool::builder(manager)
            .max_size(options.pool_size)
            // The connection that was used last comes first: the caches of its backend, and of the processor that it
            // ran on, are warm.
            .queue_mode(QueueMode::Lifo)
            .wait_timeout(Some(POOL_WAIT_MAX))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(Failure::internal)?;
        Ok(Self {
            pool,
            hosts,
            lineage,
            slow: AtomicUsize::new(0),
            awaits_standby: AtomicBool::new(false),
            location,
            pooler_of_url,
            schema,
            capabilities,
            clock: options.clock.clone(),
            marks: Marks::default(),
            early_wake,
            own_transactions: AtomicU64::new(0),
            keys: Mutex::default(),
            keep_keys: options.keep_keys,
            texts: RwLock::default(),
        })
    }

    pub(crate) async fn get(self: &Arc<Self>) -> Result<Connection, Failure> {
        // Counted before the connection is taken. A count that is too old makes the connection look like one to a
        // former server, which gets no cancellation.
        let moves = self.hosts.moves();
        let client = self.pool.get().await?;
        Ok(Connection {
            client: Some(client),
            moves,
            from: Arc::clone(self),
            is_spent: AtomicBool::new(false),
        })
    }

    pub(crate) fn close(&self) {
        self.pool.close();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.pool.is_closed()
    }

    /// Finds out whether a pooler stands between this process and the server. Called before anything else is asked of
    /// the store.
    pub(crate) async fn detect_pooler(&self, options: &PostgresOptions) -> Result<(), Failure> {
        let capabilities = pooler::detect(&self.hosts, options, self.pooler_of_url).await?;
        self.capabilities
            .set(capabilities)
            .map_err(|_| Failure::internal("it is known already"))
    }

    /// Returns the capabilities that [`detect_pooler`](Self::detect_pooler) found.
    pub(crate) fn capabilities(&self) -> Capabilities {
        *self.capabilities.get().expect("it was looked around first")
    }

    /// Returns true while a statement waits for the server longer than it should.
    pub(crate) fn has_slow(&self) -> bool {
        self.slow.load(Ordering::Acquire) > 0
    }

    /// Notes whether the server waits for a standby. While it does, no commit may be given up: its connection would
    /// stay on the server for as long all the same.
    pub(crate) fn set_awaits_standby(&self, is_so: bool) {
        self.awaits_standby.store(is_so, Ordering::Release);
    }

    /// Runs work, and fails if the server does not answer in [`STATEMENT_MAX`]. Keeps waiting while the server waits
    /// for a standby.
    pub(crate) async fn in_time<T>(&self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        tokio::pin!(work);
        if let Ok(answer) = timeout(SLOW_AFTER, &mut work).await {
            return answer;
        }
        let _slow = SlowGuard::begin(&self.slow);
        let mut limit = STATEMENT_MAX - SLOW_AFTER;
        loop {
            match timeout(limit, &mut work).await {
                Ok(answer) => return answer,
                Err(_) if self.awaits_standby.load(Ordering::Acquire) => limit = PULSE_EVERY,
                Err(_) => {
                    return Err(Failure::Found(
                        Kind::Io,
                        "the server did not respond to a statement in time".into(),
                    ));
                }
            }
        }
    }

    /// Returns the time of the store's clock, if that is not the server's clock.
    pub(crate) fn clock_ms(&self) -> Option<i64> {
        self.clock.as_ref().map(|clock| clock.now_ms())
    }

    /// Counts a transaction of this process that had a number and has ended.
    pub(crate) fn count_transaction(&self) {
        self.own_transactions.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the number of counted transactions.
    pub(crate) fn own_transactions(&self) -> u64 {
        self.own_transactions.load(Ordering::Acquire)
    }

    /// Takes a key from the rest of the block. `None`: no key is left.
    fn next_key(&self) -> Option<i64> {
        let mut keys = self.keys.lock();
        if keys.of != self.lineage.changes() {
            keys.left = 0..0;
        }
        keys.left.next()
    }

    /// Drops the rest of the block: other processes may have got the same keys.
    fn forget_keys(&self) {
        self.keys.lock().left = 0..0;
    }

    /// Returns the text of a statement as the server gets it.
    pub(crate) fn text(&self, sql: &'static str) -> Arc<str> {
        let key = sql.as_ptr() as usize;
        if let Some(text) = self.texts.read().get(&key) {
            return Arc::clone(text);
        }
        let text: Arc<str> = fill_in(&sql.replace("{now}", NOW), &self.schema).into();
        self.texts.write().insert(key, Arc::clone(&text));
        text
    }

    /// Returns the SQL that begins a transaction.
    pub(crate) fn begin(&self) -> String {
        let mut begin = "BEGIN ISOLATION LEVEL READ COMMITTED; ".to_owned();
        if !self.capabilities().keeps_sessions {
            // The next transaction may get another connection.
            for (name, value) in settings_of_sessions() {
                begin.push_str(&format!("SET LOCAL {name} = {value}; "));
            }
            begin.push_str(&limits(true));
        }
        begin
    }
}

/// Counts a statement as slow until it is dropped.
struct SlowGuard<'c>(&'c AtomicUsize);

impl<'c> SlowGuard<'c> {
    fn begin(count: &'c AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count)
    }
}

impl Drop for SlowGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Makes the connections of the pool.
struct ConnectionManager {
    hosts: Arc<Hosts>,
    early_wake: Arc<EarlyWake>,
    capabilities: Arc<OnceLock<Capabilities>>,
}

impl Manager for ConnectionManager {
    type Type = ClientWrapper;
    type Error = Failure;

    async fn create(&self) -> Result<ClientWrapper, Failure> {
        let keeps_sessions = self
            .capabilities
            .get()
            .is_some_and(|capabilities| capabilities.keeps_sessions);
        let spawn: SpawnDriver<'_> = &|driver| {
            let early_wake = Arc::clone(&self.early_wake);
            // Its result is dropped: each request on the connection learns how the connection ended.
            let carried = async move { drop(driver.await) };
            drive::spawn_with_hook(
                &Handle::current(),
                Box::new(move || early_wake.socket_readable()),
                carried,
            )
        };
        let (client, driver) = self.hosts.connect(spawn, &settings(keeps_sessions)).await?;
        Ok(ClientWrapper::new(client, driver.detach()))
    }

    async fn recycle(&self, client: &mut ClientWrapper, _: &Metrics) -> RecycleResult<Failure> {
        if client.is_closed() {
            return Err(RecycleError::message("it has ended"));
        }
        Ok(())
    }
}

fn settings_of_sessions() -> impl Iterator<Item = (&'static str, String)> {
    let idle = (
        "idle_in_transaction_session_timeout",
        IDLE_IN_TRANSACTION_MAX.as_millis().to_string(),
    );
    SETTINGS
        .iter()
        .map(|(name, value)| (*name, (*value).to_owned()))
        .chain([idle])
}

/// Returns the statement that sets the limits of a session or of a transaction. A limit that the URL, the role or the
/// server sets is kept.
fn limits(is_local: bool) -> String {
    format!(
        "SELECT pg_catalog.set_config(name, value, {is_local})
         FROM (VALUES ('statement_timeout', '{}'), ('lock_timeout', '{}')) AS limits (name, value)
         WHERE pg_catalog.current_setting(name) = '0'; ",
        STATEMENT_TIMEOUT.as_millis(),
        LOCK_TIMEOUT.as_millis(),
    )
}

/// Returns the SQL that is run first on a new connection. The settings are not sent when the connection is made,
/// because poolers accept few settings then.
fn settings(are_kept: bool) -> String {
    let mut sql = String::new();
    if are_kept {
        for (name, value) in settings_of_sessions() {
            sql.push_str(&format!("SET {name} = {value}; "));
        }
        // A single statement without a transaction runs under this level, too.
        sql.push_str("SET default_transaction_isolation = 'read committed'; ");
        sql.push_str(&limits(false));
    }
    sql
}

/// A connection that was given up. The server may still run its last statement.
#[must_use = "the server holds locks for nobody until it is cancelled, or its own limits are over"]
pub(crate) struct GivenUp {
    hosts: Arc<Hosts>,
    moves: u64,
    client: Option<ClientWrapper>,
}

impl GivenUp {
    /// Tells the server to cancel the statement, because its answer is no longer awaited. Does not wait for that. A
    /// former server is told nothing: a commit that waits there for the standby that was promoted would become visible
    /// to clients that still read there, and no other server has it.
    pub(crate) fn cancel(self) {
        let Self { hosts, moves, client } = self;
        if hosts.moves() != moves {
            return;
        }
        if let (Some(client), Ok(runtime)) = (client, Handle::try_current()) {
            // Behind a pooler the token stands for this connection, for as long as the connection exists.
            runtime.spawn(async move { hosts.cancel(client.cancel_token()).await });
        }
    }
}

/// A connection of the pool, to which it returns.
pub(crate) struct Connection {
    client: Option<Object<ConnectionManager>>,
    /// The number of times that the connections had moved to another server before this one was handed out.
    moves: u64,
    pub(crate) from: Arc<Connections>,
    /// True after a statement that was not answered in time, or that was refused because the server takes no writes.
    is_spent: AtomicBool,
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.is_spent.load(Ordering::Relaxed) {
            self.give_up();
            // The network may be cut without an end of the connection. The connections that wait in the pool use the
            // same network, so they are dropped, too.
            self.from.pool.retain(|_, _| false);
        }
    }
}

impl Connection {
    pub(crate) fn client(&self) -> &ClientWrapper {
        self.client.as_ref().expect("it is there until it is given up")
    }

    /// Takes the connection out of the pool for good, because it may be in the middle of something that can be
    /// cancelled. Tells the server that the answer is no longer awaited.
    pub(crate) fn give_up(&mut self) {
        self.give_up_commit().cancel();
    }

    /// Like [`give_up`](Self::give_up), in the middle of a commit. The commit is not cancelled yet: a commit that waits
    /// for a synchronous standby would become visible by that, and be gone after a failover. The caller cancels the
    /// statement once it knows that it will not commit any more.
    pub(crate) fn give_up_commit(&mut self) -> GivenUp {
        GivenUp {
            hosts: Arc::clone(&self.from.hosts),
            moves: self.moves,
            client: self.client.take().map(Object::take),
        }
    }

    /// Prepares statements that are sent together later, because preparing a statement takes a round trip.
    pub(crate) async fn prepare(&self, queries: &[&Query<'_>]) -> Result<(), Failure> {
        if self.from.capabilities().prepares {
            for query in queries {
                self.from.in_time(self.prepared(query.sql, &query.params)).await?;
            }
        }
        Ok(())
    }

    async fn prepared(&self, sql: &'static str, params: &[P<'_>]) -> Result<Statement, Failure> {
        let client = self.client();
        let text = self.from.text(sql);
        let types: Vec<Type> = params.iter().map(P::kind).collect();
        Ok(client.prepare_typed_cached(&text, &types).await?)
    }

    /// Runs one statement.
    pub(crate) async fn query(&self, sql: &'static str, params: &[P<'_>]) -> Result<Vec<Row>, Failure> {
        let asked = async {
            if self.from.capabilities().prepares {
                let statement = self.prepared(sql, params).await?;
                let params: Vec<&(dyn tokio_postgres::types::ToSql + Sync)> = params.iter().map(|p| p as _).collect();
                Ok(self.client().query(&statement, &params).await?)
            } else {
                let text = self.from.text(sql);
                let params: Vec<_> = params
                    .iter()
                    .map(|p| (p as &(dyn tokio_postgres::types::ToSql + Sync), p.kind()))
                    .collect();
                Ok(self.client().query_typed(&text, &params).await?)
            }
        };
        let answer = self.from.in_time(asked).await;
        match &answer {
            // A store that was restored to an earlier state, or a server that lost its last commits, gives out blocks
            // of keys a second time.
            Err(failure) if failure.is_key_in_use() => self.from.forget_keys(),
            Err(failure) if failure.is_stale_statement() => self.client().statement_cache.clear(),
            Err(Failure::Found(Kind::Io, _)) => self.is_spent.store(true, Ordering::Relaxed),
            // Another host may take writes.
            Err(failure) if failure.is_read_only() => self.is_spent.store(true, Ordering::Relaxed),
            _ => {}
        }
        answer
    }

    /// Returns keys for new instances, in rising order. The sequence gives them out in blocks, so that an instance has
    /// its key before its row exists.
    pub(crate) async fn keys(&self, count: usize) -> Result<Vec<i64>, Failure> {
        let mut keys = Vec::with_capacity(count);
        while keys.len() < count {
            match self.from.next_key() {
                Some(key) => keys.push(key),
                None => {
                    let of = self.from.lineage.changes();
                    let first: i64 = self.query_one("SELECT nextval({keys})", &[]).await?.try_get(0)?;
                    let left = first..first + KEYS_BLOCK;
                    *self.from.keys.lock() = Keys { of, left };
                }
            }
        }
        if !self.from.keep_keys {
            self.from.forget_keys();
        }
        Ok(keys)
    }

    /// Runs a statement with its parameters, if there is one.
    pub(crate) async fn run(&self, query: Option<&Query<'_>>) -> Result<Vec<Row>, Failure> {
        match query {
            Some(query) => self.query(query.sql, &query.params).await,
            None => Ok(Vec::new()),
        }
    }

    /// Runs a statement that gives one row, and returns the row.
    pub(crate) async fn query_one(&self, sql: &'static str, params: &[P<'_>]) -> Result<Row, Failure> {
        let row = self.query(sql, params).await?.into_iter().next();
        row.ok_or_else(|| Failure::internal("a statement gave no row"))
    }
}
