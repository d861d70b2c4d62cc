//! Reads that are tried until the store answers.

use std::time::Duration;

use perdure_engine::{Bug, is_planted};
use perdure_provider::{ProviderError, ProviderErrorKind};

use crate::options::{RETRY_DELAYS, TOGETHER_PATIENCE};

/// True if an error is the last word on the request: it blames the row, or there will never be an answer. Any other
/// error says that the store cannot answer now.
pub(crate) fn is_final(error: &ProviderError) -> bool {
    let is_misjudged = is_planted(Bug::RefusalBlamesRow) && error.kind == ProviderErrorKind::Unavailable;
    error.blames_row() || error.kind == ProviderErrorKind::Closed || is_misjudged
}

/// Reads an instance until the store answers, refuses for good, or has been out of memory for `patience`: a row that is
/// too large for this process would be read for ever.
pub(crate) async fn reading<T, F>(read: impl Fn() -> F, patience: Duration) -> Result<T, ProviderError>
where
    F: Future<Output = Result<T, ProviderError>>,
{
    retrying_until(read, |error, waited| {
        is_final(error) || (error.kind == ProviderErrorKind::NoMemory && waited >= patience)
    })
    .await
}

/// Reads several instances, of which one may be to blame, until the store answers or has failed for a while.
pub(crate) async fn reading_together<T, F>(read: impl Fn() -> F) -> Result<T, ProviderError>
where
    F: Future<Output = Result<T, ProviderError>>,
{
    retrying_until(read, |error, waited| {
        is_final(error) || error.kind == ProviderErrorKind::NoMemory || waited >= TOGETHER_PATIENCE
    })
    .await
}

/// Reads until the store answers, or refuses for good.
pub(crate) async fn retrying<T, F>(read: impl Fn() -> F) -> Result<T, ProviderError>
where
    F: Future<Output = Result<T, ProviderError>>,
{
    retrying_until(read, |error, _| is_final(error)).await
}

async fn retrying_until<T, F>(
    read: impl Fn() -> F,
    is_last: impl Fn(&ProviderError, Duration) -> bool,
) -> Result<T, ProviderError>
where
    F: Future<Output = Result<T, ProviderError>>,
{
    let (mut delay, most) = RETRY_DELAYS;
    let mut waited = Duration::ZERO;
    loop {
        match read().await {
            Err(error) if !is_last(&error, waited) => {
                crate::platform::time::sleep(delay).await;
                waited += delay;
                delay = (delay * 2).min(most);
            }
            answer => return answer,
        }
    }
}
