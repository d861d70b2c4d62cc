//! The addon: it converts and forwards, nothing else. Every rule lives in `perdure-runtime` and below, or in `js/`.
//!
//! Calls are synchronous and cheap. A call that takes time is answered later through a [`port`](crate::port): the call
//! names a request, and JavaScript fetches the reply from the port of the store after its `wake` was called. No thread
//! of Rust ever waits for JavaScript.

mod caller;
mod codec;
mod command;
mod errors;
mod frame;
mod host;
mod job;
mod lane;
mod listing;
mod options;
mod passwords;
mod port;
mod postgres;
mod process;
mod questions;
mod queues;
mod replay;
mod replies;
mod request;
mod runtime;
mod sending;
mod store;
mod streams;
mod test_store;
mod texts;
mod tokio_threads;

/// The version of the addon. The package that loads it compares it with its own version.
#[napi_derive::napi]
pub const ADDON_VERSION: &str = env!("CARGO_PKG_VERSION");
