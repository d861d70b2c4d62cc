//! Connections: how they are made, kept in a pool, and asked.
//!
//! A statement is written once, with `{schema}` before each table, `{now}` for the server's clock and `{keys}` for the sequence of
//! instances, and is prepared on each connection that uses it. Behind a pooler that gives a connection to each transaction it is sent unprepared.

use std::collections::HashMap;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use deadpool_postgres::{
    Connect, Hook, HookError, Manager, ManagerConfig, Object, Pool, QueueMode, RecyclingMethod, Runtime,
};
use parking_lot::{Mutex, RwLock};
use perdure_provider::{Clock, ProviderErrorKind as Kind};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Config, Error, Row, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::Failure;
use crate::herald::Herald;
use crate::marks::Marks;
use crate::options::{IDLE_IN_TRANSACTION_MAX, KEYS_BLOCK, POOL_WAIT_MAX, PostgresOptions, STATEMENT_MAX};
use crate::params::P;
use crate::{drive, schema, tls, url};

/// The server's clock, ms since 1970, at the beginning of the statement.
const NOW: &str = "(extract(epoch FROM statement_timestamp()) * 1000)::bigint";

/// Statements look their rows up one by one, by the index that they were written for. A plan is made once for a connection: the table may
/// be empty then and have a million rows a minute later, so that a plan which walks over all of it must not look cheap.
const SETTINGS: &[(&str, &str)] = &[
    ("enable_seqscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("random_page_cost", "1.1"),
    ("plan_cache_mode", "force_generic_plan"),
    ("jit", "off"),
];

/// Where connections come from.
pub(crate) struct Connections {
    pool: Pool,
    /// What the listener connects with.
    pub(crate) config: tokio_postgres::Config,
    pub(crate) tls: MakeRustlsConnect,
    pub(crate) connecting_max: Duration,
    pub(crate) location: String,
    pub(crate) schema: String,
    pub(crate) notify: bool,
    clock: Option<Arc<dyn Clock>>,
    pub(crate) marks: Marks,
    pub(crate) herald: Arc<Herald>,
    own_transactions: AtomicU64,
    /// Keys for instances that are not given yet.
    keys: Mutex<Range<i64>>,
    keep_keys: bool,
    /// Texts of statements, by the address of what they were written as.
    texts: RwLock<HashMap<usize, Arc<str>>>,
}

impl Connections {
    pub(crate) fn new(target: &str, options: &PostgresOptions) -> Result<Self, Failure> {
        let url::Target {
            mut config,
            tls,
            location,
            connecting_max,
        } = url::parse(target)?;
        schema::check_name(&options.schema)?;
        let tls = options.tls.as_ref().unwrap_or(&tls);
        let connector = tls::connector(tls, options.default_roots.as_deref(), &mut config)?;
        let manager = ManagerConfig {
            recycling_method: RecyclingMethod::Fast,
        };
        let herald = Arc::new(Herald::default());
        let connect = Driving {
            connector: connector.clone(),
            herald: Arc::clone(&herald),
        };
        let pool = Pool::builder(Manager::from_connect(config.clone(), connect, manager))
            .max_size(options.pool_size)
            // The one that was used last: the caches of its backend, and of the processor that it ran on, are warm.
            .queue_mode(QueueMode::Lifo)
            .wait_timeout(Some(POOL_WAIT_MAX))
            // The configuration's own limit ends when a socket is open: whoever listens there may never say a word.
            .create_timeout(Some(connecting_max))
            .post_create(settings(options.notify, connecting_max))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(Failure::internal)?;
        Ok(Self {
            pool,
            config,
            tls: connector,
            connecting_max,
            location,
            schema: schema::quoted(&options.schema),
            notify: options.notify,
            clock: options.clock.clone(),
            marks: Marks::default(),
            herald,
            own_transactions: AtomicU64::new(0),
            keys: Mutex::new(0..0),
            keep_keys: options.keep_keys,
            texts: RwLock::default(),
        })
    }

    pub(crate) async fn get(self: &Arc<Self>) -> Result<Connection, Failure> {
        let client = self.pool.get().await?;
        Ok(Connection {
            client: Some(client),
            from: Arc::clone(self),
            is_silent: AtomicBool::new(false),
        })
    }

    pub(crate) fn close(&self) {
        self.pool.close();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.pool.is_closed()
    }

    /// What the store's clock shows where that is not the server's.
    pub(crate) fn clock_ms(&self) -> Option<i64> {
        self.clock.as_ref().map(|clock| clock.now_ms())
    }

    /// A transaction of this process that had a number has ended.
    pub(crate) fn count_transaction(&self) {
        self.own_transactions.fetch_add(1, Ordering::AcqRel);
    }

    /// How many have.
    pub(crate) fn own_transactions(&self) -> u64 {
        self.own_transactions.load(Ordering::Acquire)
    }

    /// Give a key out of those that are left.
    fn next_key(&self) -> Option<i64> {
        self.keys.lock().next()
    }

    /// The statement as the server gets it.
    pub(crate) fn text(&self, written: &'static str) -> Arc<str> {
        let key = written.as_ptr() as usize;
        if let Some(text) = self.texts.read().get(&key) {
            return Arc::clone(text);
        }
        let text: Arc<str> = schema::fill_in(&written.replace("{now}", NOW), &self.schema).into();
        self.texts.write().insert(key, Arc::clone(&text));
        text
    }

    /// How a transaction begins.
    pub(crate) fn begin(&self) -> String {
        let mut begin = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; ".to_owned();
        if !self.notify {
            // The next transaction may get another connection.
            for (name, value) in settings_of_sessions() {
                begin.push_str(&format!("SET LOCAL {name} = {value}; "));
            }
        }
        begin
    }
}

/// Makes connections of the pool.
struct Driving {
    connector: MakeRustlsConnect,
    herald: Arc<Herald>,
}

impl Connect for Driving {
    fn connect(
        &self,
        config: &Config,
    ) -> Pin<Box<dyn Future<Output = Result<(Client, JoinHandle<()>), Error>> + Send + '_>> {
        let (config, connector, herald) = (config.clone(), self.connector.clone(), Arc::clone(&self.herald));
        Box::pin(async move {
            let (client, connection) = config.connect(connector).await?;
            // How it ended is told to whoever asks it for something.
            let driven = async move { drop(connection.await) };
            let task = drive::spawn_heralded(&Handle::current(), Box::new(move || herald.something_came()), driven);
            Ok((client, task))
        })
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

/// What is said on a new connection. Not when it is made: poolers take few settings then.
fn settings(are_kept: bool, within: Duration) -> Hook {
    let mut sql = String::new();
    if are_kept {
        for (name, value) in settings_of_sessions() {
            sql.push_str(&format!("SET {name} = {value}; "));
        }
        // What is one statement runs under it, too.
        sql.push_str("SET default_transaction_isolation = 'read committed'");
    }
    Hook::async_fn(move |client, _| {
        let sql = sql.clone();
        Box::pin(async move {
            match timeout(within, client.batch_execute(&sql)).await {
                Ok(done) => done.map_err(HookError::Backend),
                Err(_) => Err(HookError::message("it did not answer")),
            }
        })
    })
}

/// A connection of the pool, which it goes back to.
pub(crate) struct Connection {
    client: Option<Object>,
    pub(crate) from: Arc<Connections>,
    /// A statement was not answered in time.
    is_silent: AtomicBool,
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.is_silent.load(Ordering::Relaxed) {
            self.give_up();
            // The way to the server is cut without an end of the connection: those that wait in the pool share it.
            self.from.pool.retain(|_, _| false);
        }
    }
}

impl Connection {
    pub(crate) fn client(&self) -> &Object {
        self.client.as_ref().expect("it is there until it is given up")
    }

    /// It may be in the middle of something: nobody is to get it again.
    pub(crate) fn give_up(&mut self) {
        if let Some(client) = self.client.take() {
            drop(Object::take(client));
        }
    }

    /// Prepare statements that are sent together later on: preparing one takes a way to the server and back.
    pub(crate) async fn prepare(&self, asks: &[&Ask<'_>]) -> Result<(), Failure> {
        if self.from.notify {
            for ask in asks {
                in_time(self.prepared(ask.written, &ask.params)).await?;
            }
        }
        Ok(())
    }

    async fn prepared(&self, written: &'static str, params: &[P<'_>]) -> Result<Statement, Failure> {
        let client = self.client();
        let text = self.from.text(written);
        let types: Vec<Type> = params.iter().map(P::kind).collect();
        Ok(client.prepare_typed_cached(&text, &types).await?)
    }

    /// Run one statement.
    pub(crate) async fn query(&self, written: &'static str, params: &[P<'_>]) -> Result<Vec<Row>, Failure> {
        let asked = async {
            if self.from.notify {
                let statement = self.prepared(written, params).await?;
                let params: Vec<&(dyn tokio_postgres::types::ToSql + Sync)> = params.iter().map(|p| p as _).collect();
                Ok(self.client().query(&statement, &params).await?)
            } else {
                let text = self.from.text(written);
                let params: Vec<_> = params
                    .iter()
                    .map(|p| (p as &(dyn tokio_postgres::types::ToSql + Sync), p.kind()))
                    .collect();
                Ok(self.client().query_typed(&text, &params).await?)
            }
        };
        let answer = in_time(asked).await;
        match &answer {
            Err(failure) if failure.is_stale_statement() => self.client().statement_cache.clear(),
            Err(Failure::Found(Kind::Io, _)) => self.is_silent.store(true, Ordering::Relaxed),
            _ => {}
        }
        answer
    }

    /// Keys for new instances, rising. The sequence hands them out in blocks, so that an instance has its key before its row is there.
    pub(crate) async fn keys(&self, count: usize) -> Result<Vec<i64>, Failure> {
        let mut keys = Vec::with_capacity(count);
        while keys.len() < count {
            match self.from.next_key() {
                Some(key) => keys.push(key),
                None => {
                    let first: i64 = self.query_one("SELECT nextval({keys})", &[]).await?.try_get(0)?;
                    *self.from.keys.lock() = first..first + KEYS_BLOCK;
                }
            }
        }
        if !self.from.keep_keys {
            *self.from.keys.lock() = 0..0;
        }
        Ok(keys)
    }

    /// The one row of a statement that has one.
    pub(crate) async fn query_one(&self, written: &'static str, params: &[P<'_>]) -> Result<Row, Failure> {
        let row = self.query(written, params).await?.into_iter().next();
        row.ok_or_else(|| Failure::internal("a statement gave no row"))
    }
}

/// A statement with its parameters.
pub(crate) struct Ask<'a> {
    pub(crate) written: &'static str,
    pub(crate) params: Vec<P<'a>>,
}

/// Fail instead of waiting for a server that never answers.
pub(crate) async fn in_time<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    match timeout(STATEMENT_MAX, work).await {
        Ok(answer) => answer,
        Err(_) => Err(Failure::Found(Kind::Io, "a statement was not answered in time".into())),
    }
}
