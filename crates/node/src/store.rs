//! `Store`: an opened provider and the operations of clients.

use std::cell::Cell;
use std::sync::Arc;

use napi::bindgen_prelude::{AsyncTask, Float64Array, Function};
use napi::{Env, Task};
use napi_derive::napi;
use perdure_provider::{Provider, ProviderError};
use perdure_provider_postgres::{PostgresOptions, PostgresProvider};
use perdure_provider_sqlite::{Durability, SqliteOptions, SqliteProvider};
use perdure_runtime::{RuntimeError, ThisMachine};

use crate::caller::Caller;
use crate::codec::{self, Bridge};
use crate::errors::{argument, thrown};
use crate::frame::Frame;
use crate::passwords::{self, Asking, PasswordAnswer};
use crate::port::Wake;
use crate::postgres;
use crate::process;
use crate::replies::Replies;
use crate::request::StoreRequest;
use crate::tokio_threads;

/// An opened store.
#[napi]
pub struct Store {
    pub(crate) inner: Arc<perdure_runtime::Store>,
    pub(crate) replies: Replies,
    /// Number of this handle to the store: each thread has a handle of its own.
    number: u32,
    is_attached: Cell<bool>,
    warning: Option<String>,
}

fn bridge(codec: Option<Function<'_, String, ()>>, required: bool) -> napi::Result<Option<Arc<Bridge>>> {
    codec.map(|codec| Bridge::new(&codec, required)).transpose()
}

/// Opens a SQLite store off the JavaScript thread.
pub struct OpenSqlite {
    path: Option<String>,
    durability: Durability,
    migrate: bool,
    codec: Option<Arc<Bridge>>,
}

impl Task for OpenSqlite {
    type Output = Result<SqliteProvider, ProviderError>;
    type JsValue = Store;

    fn compute(&mut self) -> napi::Result<Self::Output> {
        let options = SqliteOptions {
            durability: self.durability,
            migrate: self.migrate,
            ..SqliteOptions::default()
        };
        Ok(match &self.path {
            Some(path) => SqliteProvider::open(path, options),
            None => SqliteProvider::in_memory(options),
        })
    }

    fn resolve(&mut self, _env: Env, opened: Self::Output) -> napi::Result<Store> {
        let provider = opened.map_err(|error| thrown(&RuntimeError::Provider(error)))?;
        Store::new(Arc::new(provider), self.codec.as_ref())
    }
}

/// Connects to a Postgres store off the JavaScript thread.
pub struct ConnectPostgres {
    url: String,
    options: PostgresOptions,
    codec: Option<Arc<Bridge>>,
}

impl Task for ConnectPostgres {
    type Output = Result<PostgresProvider, ProviderError>;
    type JsValue = Store;

    fn compute(&mut self) -> napi::Result<Self::Output> {
        let connected = PostgresProvider::connect(&self.url, self.options.clone());
        Ok(tokio_threads::handle()?.block_on(connected))
    }

    fn resolve(&mut self, _env: Env, opened: Self::Output) -> napi::Result<Store> {
        let provider = opened.map_err(|error| thrown(&RuntimeError::Provider(error)))?;
        let warning = provider.warning();
        let store = Store::new(Arc::new(provider), self.codec.as_ref())?;
        Ok(Store { warning, ..store })
    }
}

#[napi]
impl Store {
    fn new(provider: Arc<dyn Provider>, codec: Option<&Arc<Bridge>>) -> napi::Result<Self> {
        let provider = codec::behind(provider, codec).map_err(|error| thrown(&RuntimeError::Provider(error)))?;
        let inner = perdure_runtime::Store::new(provider, Arc::new(ThisMachine::read()), tokio_threads::handle()?);
        let store = Self::on(inner);
        let replies = store.replies.clone();
        store.inner.on_answer_coming(Box::new(move || replies.announce()));
        Ok(store)
    }

    pub(crate) fn on(inner: Arc<perdure_runtime::Store>) -> Self {
        Self {
            number: process::STORES.number(&inner),
            inner,
            replies: Replies::default(),
            is_attached: Cell::new(false),
            warning: None,
        }
    }

    /// Number of the store, by which other threads of this process find it.
    #[napi]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the store with this number, which another thread of this process has opened and will close.
    #[napi(factory)]
    pub fn join(number: u32) -> napi::Result<Self> {
        Ok(Self::on(process::STORES.get(number)?))
    }

    /// Opens a SQLite file; `durability` is `full` or `normal`. Without `migrate`, a file that is missing or has an
    /// older schema is refused. `codec` is called with questions, which `giveTexts` answers; `required`: it is asked
    /// about plain text, too.
    #[napi(ts_return_type = "Promise<Store>")]
    pub fn open_sqlite(
        path: String,
        durability: String,
        migrate: bool,
        codec: Option<Function<'_, String, ()>>,
        required: bool,
    ) -> napi::Result<AsyncTask<OpenSqlite>> {
        let durability = match durability.as_str() {
            "full" => Durability::Full,
            "normal" => Durability::Normal,
            other => {
                return Err(argument(format!(
                    "durability must be 'full' or 'normal', not '{other}'"
                )));
            }
        };
        Ok(AsyncTask::new(OpenSqlite {
            path: Some(path),
            durability,
            migrate,
            codec: bridge(codec, required)?,
        }))
    }

    /// Opens a SQLite store in memory.
    #[napi(ts_return_type = "Promise<Store>")]
    pub fn sqlite_in_memory(
        codec: Option<Function<'_, String, ()>>,
        required: bool,
    ) -> napi::Result<AsyncTask<OpenSqlite>> {
        Ok(AsyncTask::new(OpenSqlite {
            path: None,
            durability: Durability::Normal,
            migrate: true,
            codec: bridge(codec, required)?,
        }))
    }

    /// Connects to a Postgres store; the options are JSON, see [`postgres`]. `ask` is called with a number for each
    /// password that is needed, which `givePassword` answers.
    #[napi(ts_return_type = "Promise<Store>")]
    pub fn connect_postgres(
        url: String,
        options: String,
        ask: Option<Function<'_, u32, ()>>,
        codec: Option<Function<'_, String, ()>>,
        required: bool,
    ) -> napi::Result<AsyncTask<ConnectPostgres>> {
        let mut options = postgres::parse(&options).map_err(|e| thrown(&e))?;
        if let Some(ask) = ask {
            options.password = Some(Arc::new(Asking::new(&ask)?));
        }
        let codec = bridge(codec, required)?;
        Ok(AsyncTask::new(ConnectPostgres { url, options, codec }))
    }

    /// Answers a question for a password; without one, `why_not` gives the reason.
    #[napi]
    pub fn give_password(question: u32, password: Option<String>, why_not: String) {
        passwords::answer(question, PasswordAnswer { password, why_not });
    }

    /// Answers a question for texts with a JSON list: for each text `{ text }`, or `{ why, later }` if there is none.
    #[napi]
    pub fn give_texts(question: u32, texts: String) {
        codec::answer(question, texts);
    }

    /// Warning for the user about the connection to the store, once it is open.
    #[napi]
    pub fn warning(&self) -> Option<String> {
        self.warning.clone()
    }

    /// Attaches this thread to the replies of the store. `wake` is called when replies are there; it does not keep the
    /// process alive. `numbers` is the array of the [frame](Frame) in which replies cross. Returns the function that
    /// gives the next reply: its kind (1 for success, 0 for an error), the request that it answers, and the JSON text
    /// of the result or the error. It returns `null` if there is no reply; `wake` is then called for the next one.
    #[napi]
    pub fn attach<'env>(
        &self,
        env: &'env Env,
        wake: Function<'_, (), ()>,
        numbers: Float64Array,
    ) -> napi::Result<Function<'env, (), Option<String>>> {
        let frame = Frame::new(numbers)?;
        if self.is_attached.replace(true) {
            return Err(argument("a store is attached once".to_owned()));
        }
        self.replies.attach(Wake::new(&wake)?);
        let replies = self.replies.clone();
        env.create_function_from_closure("nextReply", move |_| {
            let Some(answer) = replies.next() else {
                return Ok(None);
            };
            let request = answer.request;
            let (ok, text) = answer.into_text();
            let text = frame.write(u32::from(ok), [request], [text], "the reply of the store");
            text.map(Some).map_err(|error| thrown(&error))
        })
    }

    /// Stops waking this thread, and releases the wake function.
    #[napi]
    pub fn detach(&self) {
        self.replies.detach();
    }

    /// Makes a [request](StoreRequest), which is JSON. `value` is the text of the value that goes with it. The reply
    /// comes under the number `request`.
    #[napi]
    pub fn ask(&self, request: f64, question: String, value: Option<String>) -> napi::Result<()> {
        let caller = Caller {
            replies: &self.replies,
            store: self.number,
            request,
        };
        let made = StoreRequest::parse(&question).and_then(|asked| asked.make(&self.inner, value, &caller));
        made.map_err(|e| thrown(&e))
    }

    /// Abandons a wait; its reply does not come.
    #[napi]
    pub fn abandon(&self, request: f64) {
        self.inner.abandon((self.number, request as u64));
    }
}
