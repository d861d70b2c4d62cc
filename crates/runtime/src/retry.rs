//! Reads that are tried until the store answers.

use perdure_provider::ProviderError;

use crate::options::RETRY_DELAYS;

/// Read until the store answers, or refuses for good.
pub(crate) async fn retrying<T, F>(read: impl Fn() -> F) -> Result<T, ProviderError>
where
    F: Future<Output = Result<T, ProviderError>>,
{
    let (mut delay, most) = RETRY_DELAYS;
    loop {
        match read().await {
            Err(error) if error.retryable() => {
                crate::time::sleep(delay).await;
                delay = (delay * 2).min(most);
            }
            answer => return answer,
        }
    }
}
