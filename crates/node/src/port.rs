//! The way from any thread to the JavaScript thread: one thread-safe call wakes it, then it takes what waits.

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

    /// Have the function called soon. After the end of its thread this does nothing.
    pub(crate) fn call(&self) {
        self.0.call((), ThreadsafeFunctionCallMode::NonBlocking);
    }
}
