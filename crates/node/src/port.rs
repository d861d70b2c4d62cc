//! The way from any thread to the JavaScript thread: one thread-safe call wakes it, and it then takes the waiting
//! replies or jobs.

use napi::Status;
use napi::bindgen_prelude::Function;
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};

/// A wake function that does not keep the process alive.
pub(crate) struct Wake(ThreadsafeFunction<(), (), (), Status, false, true>);

impl Wake {
    pub(crate) fn new(function: &Function<'_, (), ()>) -> napi::Result<Self> {
        let function = function
            .build_threadsafe_function::<()>()
            .weak::<true>()
            .callee_handled::<false>();
        Ok(Self(function.build()?))
    }

    /// Has the function called soon. Does nothing after the end of its thread.
    pub(crate) fn call(&self) {
        self.0.call((), ThreadsafeFunctionCallMode::NonBlocking);
    }
}
