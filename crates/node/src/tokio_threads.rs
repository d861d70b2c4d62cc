//! The tokio runtime of the process, shared by all stores and runtimes in it.

use std::sync::OnceLock;

use tokio::runtime::{Builder, Handle, Runtime};

/// Threads for timers, leases and reads; turns and commits do not pass through them.
const THREADS: usize = 2;

static TOKIO: OnceLock<Runtime> = OnceLock::new();

pub(crate) fn handle() -> napi::Result<Handle> {
    if let Some(runtime) = TOKIO.get() {
        return Ok(runtime.handle().clone());
    }
    let built = Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("perdure")
        .enable_time()
        .build();
    let built = built
        .map_err(|error| napi::Error::from_reason(format!("the threads of Perdure could not be started: {error}")))?;
    Ok(TOKIO.get_or_init(|| built).handle().clone())
}
