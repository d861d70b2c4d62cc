//! The options of a store, and all limits.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use perdure_provider::{Clock, ProviderError};

/// Schema of the tables if none is named.
pub const DEFAULT_SCHEMA: &str = "perdure";
/// Connections of a pool if no other number is given.
pub const DEFAULT_POOL_SIZE: usize = 10;

/// Most writes that one batch should hold (callers learn it from `ProviderInfo`).
pub(crate) const BATCH_WRITES_MAX: usize = 1_024;
/// Most batches that share one transaction.
pub(crate) const TRANSACTION_JOBS_MAX: usize = 1_024;
/// Most writes of batches that share one transaction: rows are locked for some tens of ms at most.
pub(crate) const TRANSACTION_WRITES_MAX: usize = 4_096;
/// Most tries of a transaction, such as one that the server rolled back because of another one (40001, 40P01).
pub(crate) const TRANSACTION_ATTEMPTS: u32 = 10;

/// Most polls by a thread that hands a batch over, before the rest is left to the provider's thread. Sending a
/// statement takes two or three.
pub(crate) const AT_ONCE_MAX: usize = 16;

/// Time limit for making a connection, over all addresses of the URL's hosts.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);
/// Least time that each of these addresses has.
pub(crate) const CONNECT_TIMEOUT_MIN: Duration = Duration::from_secs(1);
/// Most addresses that are tried.
pub(crate) const ADDRESSES_MAX: usize = 16;
/// Time limit for getting a password from its source.
pub(crate) const PASSWORD_MAX: Duration = Duration::from_secs(10);
/// Largest file of certificates or of a key that a URL may name, in bytes.
pub(crate) const PEM_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Time limit for getting a connection of the pool.
pub(crate) const POOL_WAIT_MAX: Duration = Duration::from_secs(10);
/// Time limit of one statement. After it the connection is given up.
pub(crate) const STATEMENT_MAX: Duration = Duration::from_secs(15);
/// Time limit of one statement on the server. It is shorter, so that the client learns that the statement had no
/// effect. (It does not end a commit that waits for a standby.)
pub(crate) const STATEMENT_TIMEOUT: Duration = Duration::from_secs(12);
/// Time limit on the server for getting one lock.
pub(crate) const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// Time without an answer after which the reason is asked for and other hosts are tried.
pub(crate) const SLOW_AFTER: Duration = Duration::from_secs(2);
/// Time limit for the end of handed-over work when the store is closed. After it, work that still asks for a server
/// that is away gives up.
pub(crate) const CLOSING_MAX: Duration = Duration::from_secs(30);
/// Time that sent data may stay unacknowledged before the network counts as broken.
pub(crate) const TCP_USER_TIMEOUT: Duration = Duration::from_secs(10);
/// Time from one probe of a silent connection to the next.
pub(crate) const KEEPALIVE: Duration = Duration::from_secs(5);
/// Time that the server waits for the next statement of a transaction. After it the locks of a stopped process are
/// free, well within a lease.
pub(crate) const IDLE_IN_TRANSACTION_MAX: Duration = Duration::from_secs(5);
/// Time from one look at the store without a notification to the next. The listening connection is asked as often
/// whether it is alive.
pub(crate) const PULSE_EVERY: Duration = Duration::from_secs(1);
/// Time limit of such a look. After it the connection is given up.
pub(crate) const PULSE_MAX: Duration = Duration::from_secs(2);
/// Time from one try to listen again to the next.
pub(crate) const RECONNECT_EVERY: Duration = Duration::from_millis(500);
/// Least time between two notifications of a busy process.
pub(crate) const NOTIFY_EVERY: Duration = Duration::from_millis(10);
/// Time without a change after which a process is not busy: its next change is sent at once.
pub(crate) const NOTIFY_PAUSE: Duration = Duration::from_millis(1);
/// Most changes in a row, without a pause between them, that are sent at once each.
pub(crate) const NOTIFY_ROW_MAX: u32 = 4;
/// Most notifications of others within [`NOTIFY_EVERY`] with which a process still sends its own at once.
pub(crate) const NOTIFY_HEARD_MAX: u32 = 10;
/// Most workers that one notification names. With more it names none and is for all (a notification holds 8 000 bytes).
pub(crate) const NOTIFY_WORKERS_MAX: usize = 100;
/// Time that the row of a mark is kept after it was last written.
pub(crate) const MARKS_KEPT: Duration = Duration::from_secs(7 * 24 * 3_600);
/// Time from one question for the outcome of a commit to the next, while the server does not know it yet or is away.
pub(crate) const OUTCOME_EVERY: Duration = Duration::from_millis(100);
/// Most deleted instances that one statement sweeps.
pub(crate) const SWEEP_INSTANCES: i64 = 200;
/// Keys of instances that the sequence gives out at once (its INCREMENT in the migrations). A transaction that starts
/// more instances takes more blocks.
pub(crate) const KEYS_BLOCK: i64 = 10_000;

/// Longest delay of a start, ms. It is longer than any that makes sense, and short enough to be added to a time.
pub(crate) const DELAY_MAX: i64 = i64::MAX / 4;

/// Most instances of a queue whose start time has come that an admission puts into the line.
pub(crate) const DELAYED_MAX: i64 = 1_000;

/// Most rows that a statement on the instances or the keys of a queue changes. It takes far less than
/// [`STATEMENT_TIMEOUT`].
pub(crate) const QUEUE_ROWS_MAX: i64 = 10_000;

/// Time after which a worker asks again for the instances of a queue that another worker had locked, ms.
pub(crate) const QUEUE_BUSY_MS: i64 = 10;

/// Supplies passwords.
#[async_trait]
pub trait PasswordSource: Send + Sync {
    /// Returns the password of a connection that is about to be made.
    ///
    /// # Errors
    ///
    /// The reason why there is none now. After an `Io` the password is requested again.
    async fn password(&self) -> Result<String, ProviderError>;
}

/// Options of a Postgres store.
#[derive(Clone)]
pub struct PostgresOptions {
    /// Schema of the tables.
    pub schema: String,
    /// Creates the schema if it does not exist, and migrates an older one to this version. If false, both are refused,
    /// and left as they are.
    pub migrate: bool,
    /// Most connections at once, besides the one that listens.
    pub pool_size: usize,
    /// Listens for changes by other processes. If false, the store is looked at once a second. `None`: listens, unless
    /// a pooler is in between.
    pub notify: Option<bool>,
    /// The pooler between this process and the server. `None`: it is detected, with a second connection.
    pub pooler: Option<Pooler>,
    /// Prepares statements. `None`: yes; behind a pooler, only if it is seen to keep track of them.
    pub prepare: Option<bool>,
    /// TLS settings. `None`: as the URL says.
    pub tls: Option<Tls>,
    /// Source of the password of each new connection, in place of the URL's password. Tokens of a cloud expire after
    /// some minutes.
    pub password: Option<Arc<dyn PasswordSource>>,
    /// Trusted root certificates where nothing else names any, PEM.
    pub default_roots: Option<String>,
    /// Clock of the store in place of the server's, for tests (P9).
    pub clock: Option<Arc<dyn Clock>>,
    /// Keeps the rest of a block of keys for the next instances that this process starts. If false, keys rise in the
    /// order in which instances were started, over all processes, at the price of a statement. That is for tests that
    /// compare the order in which two stores take instances that are due at once.
    pub keep_keys: bool,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            schema: DEFAULT_SCHEMA.to_owned(),
            migrate: true,
            pool_size: DEFAULT_POOL_SIZE,
            notify: None,
            pooler: None,
            prepare: None,
            tls: None,
            password: None,
            default_roots: None,
            clock: None,
            keep_keys: true,
        }
    }
}

impl fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("schema", &self.schema)
            .field("pool_size", &self.pool_size)
            .field("notify", &self.notify)
            .finish_non_exhaustive()
    }
}

/// The pooler between this process and the server, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooler {
    /// A connection leads to one backend for as long as it exists. A pooler in session mode counts as none, too.
    None,
    /// Each transaction may run on another backend, and nothing is kept there between two: a pooler in transaction
    /// mode.
    Transaction,
}

/// The checks of a server's certificate: libpq's `sslmode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsMode {
    /// No TLS.
    Disable,
    /// TLS if the server has it, with any certificate.
    Prefer,
    /// TLS with any certificate, unless roots are given.
    Require,
    /// TLS with a certificate that a root signed for any host.
    VerifyCa,
    /// TLS with a certificate that a root signed for this host.
    VerifyFull,
}

/// TLS settings.
#[derive(Clone)]
pub struct Tls {
    /// The checks of the server's certificate.
    pub mode: TlsMode,
    /// Trusted root certificates, PEM.
    pub roots: Option<String>,
    /// Lists of revoked certificates, PEM. If lists are given, there has to be one of each authority that has signed.
    pub crls: Option<String>,
    /// Certificate chain of this client, and its key, PEM.
    pub client: Option<(String, String)>,
}
