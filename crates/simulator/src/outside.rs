//! Stores outside the virtual world: SQLite and Postgres, with threads and time of their own.
//!
//! The world stands still while such a store does something, so a run on it is as determined by its seed as a run in
//! memory. A store tells other processes of changes when the operating system gets to it. Here the stand-in tells them,
//! in order, after each call that may have changed something, except the process that made the call. The store in
//! memory is run in the same way when it is compared with others.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use async_trait::async_trait;
use parking_lot::Mutex;
use perdure_provider::{
    Change, ChangeListener, Clock, CommitDone, InnerCall, Outcome, Provider, ProviderError, ProviderWrapper, Write,
};
use perdure_provider_memory::{MemoryStore, Snapshot};
use perdure_provider_postgres::{Pooler, PostgresOptions, PostgresProvider};
use perdure_provider_sqlite::{Durability, SqliteOptions, SqliteProvider};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use crate::backend::{Backend, Connection};
use crate::machine::VirtualClock;

/// A store to run on, made for the run and removed after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In memory.
    Memory,
    /// A SQLite file in the folder for temporary files.
    Sqlite,
    /// A schema in the database of a URL, in libpq's form.
    Postgres(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The URL may hold a password.
        f.write_str(match self {
            Self::Memory => "memory",
            Self::Sqlite => "sqlite",
            Self::Postgres(_) => "postgres",
        })
    }
}

/// The number of stores that were made in this process.
static STORES: AtomicU64 = AtomicU64::new(0);

/// Connects another process.
type Connect = Box<dyn Fn() -> Arc<dyn Provider>>;

/// A store outside the virtual world.
pub(crate) struct Outside {
    place: Place,
    /// The name of the folder or the schema.
    name: String,
    connect: Connect,
    world: Arc<World>,
    alone: bool,
    connected: Mutex<Vec<Arc<dyn Provider>>>,
}

/// The state that all stand-ins of a store share.
struct World {
    /// The runtime on which the store works.
    runtime: Runtime,
    /// The time of the run, as the store sees it.
    shown: Arc<Shown>,
    clock: Arc<VirtualClock>,
    /// The listeners for changes, by the number of the stand-in.
    listeners: Mutex<Vec<(usize, ChangeListener)>>,
}

/// The time of the run's clock when a store was last called. The store's own threads cannot read that clock.
struct Shown(AtomicI64);

impl Clock for Shown {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::Acquire)
    }
}

impl World {
    /// Lets the store do something while nothing else happens.
    fn wait<T: Send>(&self, work: impl Future<Output = T> + Send) -> T {
        self.shown.0.store(self.clock.now_ms(), Ordering::Release);
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| self.runtime.block_on(work));
            worker.join().expect("a store does not panic")
        })
    }

    fn changed(&self, by: usize) {
        for (_, listener) in self.listeners.lock().iter().filter(|(number, _)| *number != by) {
            listener(&Change::anything());
        }
    }
}

impl Outside {
    /// Makes a store. With `alone`, each write is a batch of its own. Within a batch, stores may take writes in another
    /// order where that makes no difference except to the order of what follows.
    pub(crate) fn new(place: &Place, alone: bool) -> Self {
        let clock = VirtualClock::new(0);
        let shown = Arc::new(Shown(AtomicI64::new(clock.now_ms())));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("threads can be started");
        let world = Arc::new(World {
            runtime,
            shown: Arc::clone(&shown),
            clock,
            listeners: Mutex::default(),
        });
        let number = STORES.fetch_add(1, Ordering::Relaxed);
        let name = format!("perdure-simulator-{}-{number}", std::process::id());
        Self {
            place: place.clone(),
            connect: connect(place, name.clone(), shown, Arc::clone(&world)),
            name,
            world,
            alone,
            connected: Mutex::default(),
        }
    }
}

fn connect(place: &Place, name: String, clock: Arc<Shown>, world: Arc<World>) -> Connect {
    match place.clone() {
        Place::Memory => {
            let store = MemoryStore::new(clock);
            Box::new(move || world.wait(async { store.connect() }))
        }
        Place::Sqlite => {
            let folder = std::env::temp_dir().join(name);
            std::fs::create_dir(&folder).expect("the folder can be made");
            Box::new(move || {
                let options = SqliteOptions {
                    migrate: true,
                    durability: Durability::Normal,
                    clock: Arc::clone(&clock) as _,
                };
                let opened = SqliteProvider::open(folder.join("run.db"), options);
                Arc::new(opened.expect("the file can be opened"))
            })
        }
        Place::Postgres(url) => Box::new(move || {
            let options = PostgresOptions {
                schema: name.clone(),
                pool_size: 1,
                notify: Some(false),
                pooler: Some(Pooler::Transaction),
                prepare: Some(false),
                clock: Some(Arc::clone(&clock) as _),
                keep_keys: false,
                ..PostgresOptions::default()
            };
            let connected = world.wait(PostgresProvider::connect(&url, options));
            Arc::new(connected.expect("the server can be reached"))
        }),
    }
}

async fn drop_schema(url: &str, name: &str) {
    let connected = tokio_postgres::connect(url, tokio_postgres::NoTls).await;
    let (client, connection) = connected.expect("the server can be reached");
    let connection = tokio::spawn(connection);
    let statement = format!("DROP SCHEMA IF EXISTS \"{name}\" CASCADE");
    let dropped = client.batch_execute(&statement).await;
    dropped.expect("the schema can be dropped");
    drop(client);
    connection
        .await
        .expect("it was not aborted")
        .expect("it ends in good order");
}

impl Backend for Outside {
    fn connect(&self) -> Connection {
        let provider = (self.connect)();
        let mut connected = self.connected.lock();
        let stand_in = Arc::new(StandIn {
            number: connected.len(),
            inner: Arc::clone(&provider),
            world: Arc::clone(&self.world),
            alone: self.alone,
        });
        connected.push(provider);
        let writer = Arc::clone(&stand_in);
        Connection {
            provider: stand_in,
            write: Box::new(move |batch| writer.write(batch)),
        }
    }

    fn snapshot(&self) -> Option<Snapshot> {
        None
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        // Dead processes are never tidied up, but their threads and connections are.
        for provider in self.connected.get_mut().drain(..) {
            self.world.wait(provider.close());
        }
        match &self.place {
            Place::Memory => {}
            Place::Sqlite => {
                let folder = std::env::temp_dir().join(&self.name);
                std::fs::remove_dir_all(folder).expect("the folder can be removed");
            }
            Place::Postgres(url) => self.world.wait(drop_schema(url, &self.name)),
        }
    }
}

/// The connection of a process to such a store.
struct StandIn {
    number: usize,
    inner: Arc<dyn Provider>,
    world: Arc<World>,
    alone: bool,
}

impl StandIn {
    fn write(&self, batch: &Arc<Vec<Write>>) -> Result<Vec<Outcome>, ProviderError> {
        if !self.alone {
            return self.write_batch(batch);
        }
        let mut outcomes = Vec::with_capacity(batch.len());
        for write in &**batch {
            // A sound store refuses no write. Calls fail on the way to it.
            outcomes.extend(self.write_batch(&Arc::new(vec![write.clone()]))?);
        }
        Ok(outcomes)
    }

    fn write_batch(&self, batch: &Arc<Vec<Write>>) -> Result<Vec<Outcome>, ProviderError> {
        let (tell, told) = oneshot::channel();
        self.changing(async move {
            let done = move |result| drop(tell.send(result));
            self.inner.commit(Arc::clone(batch), Box::new(done));
            told.await.expect("every batch is answered")
        })
    }

    /// Makes a call that other processes are to hear of.
    fn changing<T: Send>(&self, work: impl Future<Output = T> + Send) -> T {
        let answer = self.world.wait(work);
        self.world.changed(self.number);
        answer
    }
}

/// Calls after which other processes are told that something may have changed.
const CHANGES: [&str; 9] = [
    "pause_queue",
    "prune",
    "register_worker",
    "release_most",
    "release_worker",
    "resume_mismatched",
    "set_queue",
    "take_over_expired_workers",
    "take_over_worker",
];

#[async_trait]
impl ProviderWrapper for StandIn {
    fn inner(&self) -> &dyn Provider {
        &*self.inner
    }

    async fn forward<T: Send>(&self, name: &'static str, call: InnerCall<'_, T>) -> Result<T, ProviderError> {
        if CHANGES.contains(&name) {
            self.changing(call)
        } else {
            self.world.wait(call)
        }
    }

    fn commit(&self, batch: Arc<Vec<Write>>, done: CommitDone) {
        let outcomes = self.write(&batch);
        drop(batch);
        tokio::spawn(async move { done(outcomes) });
    }

    fn on_foreign_change(&self, listener: ChangeListener) {
        self.world.listeners.lock().push((self.number, listener));
    }
}
