//! Passwords that the driver is asked for: one for each connection that is about to be made, from any thread that makes
//! it.

use std::sync::LazyLock;

use napi::Status;
use napi::bindgen_prelude::Function;
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use perdure_provider::{ProviderError, ProviderErrorKind};
use perdure_provider_postgres::PasswordSource;

use crate::questions::Questions;

/// Answer of the driver: a password, or the reason why there is none.
pub(crate) struct PasswordAnswer {
    pub(crate) password: Option<String>,
    pub(crate) why_not: String,
}

static ASKED: LazyLock<Questions<PasswordAnswer>> = LazyLock::new(Questions::default);

/// A function of the driver that is called with the number of a question. It does not keep the process alive.
pub(crate) struct Asking(ThreadsafeFunction<u32, (), u32, Status, false, true>);

impl Asking {
    pub(crate) fn new(function: &Function<'_, u32, ()>) -> napi::Result<Self> {
        let function = function
            .build_threadsafe_function::<u32>()
            .weak::<true>()
            .callee_handled::<false>();
        Ok(Self(function.build()?))
    }
}

/// Takes an answer of the driver.
pub(crate) fn answer(question: u32, given: PasswordAnswer) {
    ASKED.answer(question, given);
}

#[async_trait::async_trait]
impl PasswordSource for Asking {
    async fn password(&self) -> Result<String, ProviderError> {
        let failed = |why: &str| ProviderError::new(ProviderErrorKind::Io, format!("`password` returned none: {why}"));
        let mut question = ASKED.ask();
        if self.0.call(question.number, ThreadsafeFunctionCallMode::NonBlocking) != Status::Ok {
            return Err(failed("its thread has ended"));
        }
        let given = question.answer().await.ok_or_else(|| failed("its thread has ended"))?;
        given.password.ok_or_else(|| failed(&given.why_not))
    }
}
