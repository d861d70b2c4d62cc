//! How a store is reached, and every limit that is kept.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use perdure_provider::{Clock, ProviderError};

/// Schema of the tables when none is named.
pub const DEFAULT_SCHEMA: &str = "perdure";
/// Connections of a pool when nothing else is said.
pub const DEFAULT_POOL_SIZE: usize = 10;

/// Most writes that one batch should hold (told to callers in `ProviderInfo`).
pub(crate) const BATCH_WRITES_MAX: usize = 1_024;
/// Batches that share one transaction.
pub(crate) const TRANSACTION_JOBS_MAX: usize = 1_024;
/// A batch joins a transaction only while that has fewer writes than this: rows are locked for some tens of ms at most.
pub(crate) const TRANSACTION_WRITES_MAX: usize = 4_096;
/// How often a transaction is tried when the server took it back because of another one (40001, 40P01).
pub(crate) const TRANSACTION_ATTEMPTS: u32 = 10;

/// How often something is driven by a thread that hands a batch over, before it is left to the provider's thread. To send a statement takes two or three.
pub(crate) const AT_ONCE_MAX: usize = 16;

/// How long a connection may take to be made, over all addresses of the URL's hosts.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);
/// What each of them has at least.
pub(crate) const CONNECT_TIMEOUT_MIN: Duration = Duration::from_secs(1);
/// Most addresses that are tried.
pub(crate) const ADDRESSES_MAX: usize = 16;
/// How long a password may take that is asked for.
pub(crate) const PASSWORD_MAX: Duration = Duration::from_secs(10);
/// Longest file of certificates or a key that a URL may name.
pub(crate) const PEM_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// How long a caller waits for a connection of the pool.
pub(crate) const POOL_WAIT_MAX: Duration = Duration::from_secs(10);
/// How long one statement may take before its connection is given up.
pub(crate) const STATEMENT_MAX: Duration = Duration::from_secs(15);
/// How long the server works at one: less, so that it is known that nothing came of it. (A commit that waits for a standby is not ended by it.)
pub(crate) const STATEMENT_TIMEOUT: Duration = Duration::from_secs(12);
/// How long it waits for one lock.
pub(crate) const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// After this time without an answer it is asked why, and other hosts are looked at.
pub(crate) const SLOW_AFTER: Duration = Duration::from_secs(2);
/// How long the end of what was handed over is waited for when the store is closed, before what still asks for a server that is away gives up.
pub(crate) const CLOSING_MAX: Duration = Duration::from_secs(30);
/// How long sent data may stay unacknowledged before the network is taken to be broken.
pub(crate) const TCP_USER_TIMEOUT: Duration = Duration::from_secs(10);
/// From one probe of a silent connection to the next.
pub(crate) const KEEPALIVE: Duration = Duration::from_secs(5);
/// How long the server waits for the next statement of a transaction: what a stopped process had locked is free then, well within a lease.
pub(crate) const IDLE_IN_TRANSACTION_MAX: Duration = Duration::from_secs(5);
/// How often the store is looked at although nobody told of anything; also how often the connection that listens is asked whether it lives.
pub(crate) const PULSE_EVERY: Duration = Duration::from_secs(1);
/// How long that may take before the connection is given up.
pub(crate) const PULSE_MAX: Duration = Duration::from_secs(2);
/// From one try to listen again to the next.
pub(crate) const RECONNECT_EVERY: Duration = Duration::from_millis(500);
/// Least time between two notifications of one process.
pub(crate) const NOTIFY_EVERY: Duration = Duration::from_millis(10);
/// Workers that one notification names; with more it names none and is for all (a notification holds 8 000 bytes).
pub(crate) const NOTIFY_WORKERS_MAX: usize = 100;
/// How long the row of a mark is kept that nobody writes any more.
pub(crate) const MARKS_KEPT: Duration = Duration::from_secs(7 * 24 * 3_600);
/// How often the outcome of a commit is asked for, while the server does not know it yet or is away.
pub(crate) const OUTCOME_EVERY: Duration = Duration::from_millis(100);
/// Deleted instances that one statement sweeps.
pub(crate) const SWEEP_INSTANCES: i64 = 200;
/// Keys of instances that the sequence hands out at once (its INCREMENT in the migrations). A transaction that starts more takes more blocks.
pub(crate) const KEYS_BLOCK: i64 = 10_000;

/// Gives passwords.
#[async_trait]
pub trait PasswordSource: Send + Sync {
    /// The password of a connection that is about to be made.
    ///
    /// # Errors
    ///
    /// Why there is none now; an `Io` is tried again.
    async fn password(&self) -> Result<String, ProviderError>;
}

/// How to reach a store.
#[derive(Clone)]
pub struct PostgresOptions {
    /// Schema of its tables.
    pub schema: String,
    /// Make the schema when it is not there, and bring an older one to this version's. Without it both are refused, and left as they are.
    pub migrate: bool,
    /// Most connections at once, besides the one that listens.
    pub pool_size: usize,
    /// Listen for what other processes did. Without it the store is looked at once a second. `None`: listen, unless a pooler is in between.
    pub notify: Option<bool>,
    /// What is in between. `None`: it is found out, with a second connection.
    pub pooler: Option<Pooler>,
    /// Prepare statements. `None`: yes; behind a pooler, if it is seen to keep track of them.
    pub prepare: Option<bool>,
    /// What goes over the wire; `None`: as the URL says.
    pub tls: Option<Tls>,
    /// Asked for the password of each new connection, in place of the URL's: tokens of a cloud end after some minutes.
    pub password: Option<Arc<dyn PasswordSource>>,
    /// Certificates of those whose signature is believed where nothing else names any, PEM.
    pub default_roots: Option<String>,
    /// The clock of the store in place of the server's, for tests (P9).
    pub clock: Option<Arc<dyn Clock>>,
    /// Keep the rest of a block of keys for the next instances that this process starts. Without it keys rise in the order in which instances
    /// were started, over all processes, at the price of a statement: for tests that compare what two stores do first of what is due at once.
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

/// What is between this process and the server, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooler {
    /// A connection leads to one backend for as long as it is there; a pooler in session mode, too.
    None,
    /// Each transaction may come to another backend, and nothing is kept there between two: a pooler in transaction mode.
    Transaction,
}

/// How much of a server's certificate is believed: libpq's `sslmode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsMode {
    /// No TLS.
    Disable,
    /// TLS if the server has it; whoever answers is believed.
    Prefer,
    /// TLS; whoever answers is believed, unless roots are given.
    Require,
    /// TLS with a certificate that a root signed, for whatever host.
    VerifyCa,
    /// TLS with a certificate that a root signed for this host.
    VerifyFull,
}

/// TLS settings.
#[derive(Clone)]
pub struct Tls {
    /// How much of the server's certificate is believed.
    pub mode: TlsMode,
    /// Certificates of those whose signature is believed, PEM.
    pub roots: Option<String>,
    /// Lists of certificates that were revoked, PEM. With them, one for each that has signed is needed.
    pub crls: Option<String>,
    /// Certificate chain of this client, and its key, PEM.
    pub client: Option<(String, String)>,
}
