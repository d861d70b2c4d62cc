//! The addon: it converts and forwards, nothing else. Every rule lives in `perdure-runtime` and below, or in `js/`.
//!
//! Calls are synchronous and cheap. What takes time is answered later through a [`port`](crate::port): the call names a request, and the
//! reply is fetched from the store's port after its `wake` was called. No thread of Rust ever waits for JavaScript.

mod answer;
mod calls;
mod codec;
mod errors;
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
mod replay;
mod replies;
mod runtime;
mod store;
mod test_store;
mod texts;
mod tokio_threads;

/// The version of the addon: the package that loads it compares it with its own.
#[napi_derive::napi]
pub const ADDON_VERSION: &str = env!("CARGO_PKG_VERSION");
