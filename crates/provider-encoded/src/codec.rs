//! The text codec, and the calls to it: their batches, time limits and retries.

use std::time::Duration;

use async_trait::async_trait;
use perdure_provider::{ProviderError, ProviderErrorKind};

use crate::place::PlacedText;
use crate::slot::Value;
use crate::time::{sleep, timeout};

/// The first character of each text that a codec made. No other stored text begins with it.
pub const ENCODED: char = '#';

/// The prefix of plain text that was read where the codec requires encoded text. No codec makes a text with this
/// prefix.
pub const PLAIN: &str = "#\0";

/// The time limit of one call of the codec.
pub const CODEC_CALL_MAX: Duration = Duration::from_secs(10);

/// The time for which a codec that fails for now is asked again.
pub const CODEC_RETRY_MAX: Duration = Duration::from_secs(30);

/// A call of the codec takes texts until they have this many bytes in total. The last of them may exceed the limit, so
/// a call has at least one text.
pub const CODEC_BATCH_BYTES: usize = 1024 * 1024;

/// The pauses between tries begin with the first and double up to the second.
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// The reason why the codec has no answer for a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodecFailure {
    /// The codec will never have an answer.
    Final(String),
    /// The codec may have an answer later.
    ForNow(String),
}

/// The codec's answer for one text.
pub type CodecAnswer = Result<String, CodecFailure>;

/// Encodes texts for the store, and decodes them.
#[async_trait]
pub trait TextCodec: Send + Sync + 'static {
    /// Returns true if plain text is refused where a value is read. Then [`decode`](Self::decode) is asked about each
    /// text, plain texts too.
    fn is_required(&self) -> bool;

    /// Returns the texts to store, in order. Each begins with [`ENCODED`], except a text that says that an error could
    /// not be encoded.
    async fn encode(&self, texts: Vec<PlacedText>) -> Vec<CodecAnswer>;

    /// Returns the texts that [`encode`](Self::encode) was given, in order.
    async fn decode(&self, texts: Vec<PlacedText>) -> Vec<CodecAnswer>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Encode,
    Decode,
}

/// Encodes values in place.
///
/// # Errors
///
/// `Unencodable` names the first value that can never be encoded. `Unavailable`: the codec does not serve now.
pub(crate) async fn encode(codec: &dyn TextCodec, values: Vec<Value<'_>>) -> Result<(), ProviderError> {
    let mut plain = Vec::new();
    for mut value in values {
        if let Some(kept) = value.text().strip_prefix(PLAIN) {
            let kept = kept.to_owned();
            value.set(kept);
        } else if !value.text().starts_with(ENCODED) {
            plain.push(value);
        }
    }
    for answered in call(codec, Direction::Encode, plain).await? {
        let (mut value, answer) = answered;
        let refusal = answer.as_ref().ok().and_then(|text| value.refuses(text));
        match refusal.map_or(answer, |why| Err(why.to_owned())) {
            Ok(text) => value.set(text),
            Err(why) => {
                let message = format!("{} cannot be stored: {why}", value.place.what);
                return Err(ProviderError::new(ProviderErrorKind::Unencodable, message));
            }
        }
    }
    Ok(())
}

/// Decodes values in place. A value that cannot be decoded stays encoded, and plain text that is refused gets the
/// prefix [`PLAIN`] (C3).
///
/// # Errors
///
/// `Unavailable`: the codec does not serve now.
pub(crate) async fn decode(codec: &dyn TextCodec, mut values: Vec<Value<'_>>) -> Result<(), ProviderError> {
    values.retain(|value| codec.is_required() || value.text().starts_with(ENCODED));
    for (mut value, answer) in call(codec, Direction::Decode, values).await? {
        match answer {
            Ok(text) => value.set(text),
            Err(_) if value.text().starts_with(ENCODED) => {}
            Err(_) => {
                let refused = format!("{PLAIN}{}", value.text());
                value.set(refused);
            }
        }
    }
    Ok(())
}

type ValueAnswers<'v> = Vec<(Value<'v>, Result<String, String>)>;

async fn call<'v>(
    codec: &dyn TextCodec,
    direction: Direction,
    values: Vec<Value<'v>>,
) -> Result<ValueAnswers<'v>, ProviderError> {
    let mut answered = Vec::with_capacity(values.len());
    let mut values = values.into_iter().peekable();
    while values.peek().is_some() {
        let (mut some, mut bytes) = (Vec::new(), 0);
        while let Some(value) = values.next_if(|_| bytes < CODEC_BATCH_BYTES) {
            bytes += value.text().len();
            some.push(value);
        }
        answered.append(&mut call_until_answered(codec, direction, some).await?);
    }
    Ok(answered)
}

/// Repeats a call until each text has its answer, or until [`CODEC_RETRY_MAX`] is used up (C4).
async fn call_until_answered<'v>(
    codec: &dyn TextCodec,
    direction: Direction,
    mut left: Vec<Value<'v>>,
) -> Result<ValueAnswers<'v>, ProviderError> {
    let mut answered = Vec::with_capacity(left.len());
    let (mut waited, mut pause) = (Duration::ZERO, RETRY_FIRST);
    loop {
        let texts: Vec<PlacedText> = left.iter().map(Value::placed_text).collect();
        let call = match direction {
            Direction::Encode => codec.encode(texts),
            Direction::Decode => codec.decode(texts),
        };
        let mut why = None;
        match timeout(CODEC_CALL_MAX, call).await {
            Ok(answers) => {
                let mut again = Vec::new();
                let mut answers = answers.into_iter();
                for value in left {
                    match answers.next() {
                        Some(Ok(text)) => answered.push((value, Ok(text))),
                        Some(Err(CodecFailure::Final(why))) => answered.push((value, Err(why))),
                        Some(Err(CodecFailure::ForNow(reason))) => {
                            why = Some(reason);
                            again.push(value);
                        }
                        None => answered.push((value, Err("the codec returned no result for it".to_owned()))),
                    }
                }
                left = again;
            }
            Err(_) => {
                waited += CODEC_CALL_MAX;
                why = Some("it did not respond in time".to_owned());
            }
        }
        let Some(why) = why else { return Ok(answered) };
        if waited >= CODEC_RETRY_MAX {
            let message = format!("The codec of the store is unavailable ({why}).");
            return Err(ProviderError::new(ProviderErrorKind::Unavailable, message));
        }
        sleep(pause).await;
        waited += pause;
        pause = (pause * 2).min(RETRY_MAX);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;
    use perdure_engine::{ExecutionId, Payload};

    use super::*;
    use crate::place::Place;
    use crate::values::of_text;

    /// Answers each text with a planned failure, while there are any. After that it puts [`ENCODED`] before the text,
    /// or takes it away.
    #[derive(Default)]
    struct Planned {
        failures: Mutex<Vec<CodecFailure>>,
        hangs: Mutex<usize>,
        asked: Mutex<Vec<usize>>,
        is_required: bool,
    }

    impl Planned {
        async fn answer(&self, texts: Vec<PlacedText>, of: impl Fn(&str) -> CodecAnswer + Send) -> Vec<CodecAnswer> {
            self.asked.lock().push(texts.len());
            let hangs = {
                let mut hangs = self.hangs.lock();
                let hangs_now = *hangs > 0;
                *hangs = hangs.saturating_sub(1);
                hangs_now
            };
            if hangs {
                std::future::pending::<()>().await;
            }
            let answer = |text: &PlacedText| match self.failures.lock().pop() {
                Some(failure) => Err(failure),
                None => of(&text.text),
            };
            texts.iter().map(answer).collect()
        }
    }

    #[async_trait]
    impl TextCodec for Planned {
        fn is_required(&self) -> bool {
            self.is_required
        }

        async fn encode(&self, texts: Vec<PlacedText>) -> Vec<CodecAnswer> {
            self.answer(texts, |text| Ok(format!("{ENCODED}{text}"))).await
        }

        async fn decode(&self, texts: Vec<PlacedText>) -> Vec<CodecAnswer> {
            let decoded = |text: &str| text.strip_prefix(ENCODED).map(str::to_owned);
            self.answer(texts, |text| {
                decoded(text).ok_or_else(|| CodecFailure::Final("plain".into()))
            })
            .await
        }
    }

    fn values(texts: &mut [Payload]) -> Vec<Value<'_>> {
        let id: Arc<str> = "order".into();
        let place = || Place::input(&id, ExecutionId(1));
        texts.iter_mut().flat_map(|text| of_text(place(), text)).collect()
    }

    fn for_now() -> CodecFailure {
        CodecFailure::ForNow("away".into())
    }

    #[tokio::test(start_paused = true)]
    async fn only_temporarily_failed_values_are_encoded_again() {
        let codec = Planned::default();
        codec.failures.lock().push(for_now());
        let mut texts = [Some("1".to_owned()), None, Some("2".to_owned())];
        encode(&codec, values(&mut texts)).await.expect("it serves");
        assert_eq!(texts, [Some("#1".to_owned()), None, Some("#2".to_owned())]);
        assert_eq!(*codec.asked.lock(), [2, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_codec_that_stays_away_is_no_verdict_on_a_value() {
        let codec = Planned::default();
        codec.failures.lock().extend(vec![for_now(); 1_000]);
        let mut texts = [Some("1".to_owned())];
        let error = encode(&codec, values(&mut texts)).await.expect_err("it is away");
        assert!(error.retryable() && !error.blames_row(), "{error}");
        assert_eq!(texts, [Some("1".to_owned())]);
        assert!(codec.asked.lock().len() > 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_never_answered_is_given_up() {
        let codec = Planned::default();
        *codec.hangs.lock() = 1;
        let mut texts = [Some("#1".to_owned())];
        decode(&codec, values(&mut texts)).await.expect("it serves again");
        assert_eq!(texts, [Some("1".to_owned())]);
        *codec.hangs.lock() = usize::MAX;
        let mut texts = [Some("#1".to_owned())];
        let error = decode(&codec, values(&mut texts)).await.expect_err("it never answers");
        assert!(error.retryable(), "{error}");
    }

    #[tokio::test]
    async fn a_value_that_is_refused_for_good_is_named() {
        let codec = Planned::default();
        codec
            .failures
            .lock()
            .push(CodecFailure::Final("the codec's encode threw".into()));
        let error = encode(&codec, values(&mut [Some("1".to_owned())]))
            .await
            .expect_err("it is refused");
        assert!(error.blames_row() && !error.retryable());
        assert_eq!(error.message, "input cannot be stored: the codec's encode threw");
    }

    /// C3.
    #[tokio::test]
    async fn a_text_that_cannot_be_decoded_is_written_again_unchanged() {
        let codec = Planned {
            is_required: true,
            ..Planned::default()
        };
        codec
            .failures
            .lock()
            .push(CodecFailure::Final("of another place".into()));
        let mut texts = [
            Some("#sealed".to_owned()),
            Some("plain".to_owned()),
            Some("#1".to_owned()),
        ];
        decode(&codec, values(&mut texts)).await.expect("it serves");
        assert_eq!(texts, ["#sealed", "#\0plain", "1"].map(|text| Some(text.to_owned())));
        encode(&codec, values(&mut texts)).await.expect("it serves");
        assert_eq!(texts, ["#sealed", "plain", "#1"].map(|text| Some(text.to_owned())));
    }

    #[tokio::test]
    async fn a_call_holds_so_many_bytes_and_one_text_always() {
        let codec = Planned::default();
        let large = Some("x".repeat(CODEC_BATCH_BYTES + 1));
        let mut texts = [large.clone(), large, Some("1".to_owned()), Some("2".to_owned())];
        encode(&codec, values(&mut texts)).await.expect("it serves");
        assert_eq!(*codec.asked.lock(), [1, 1, 2]);
    }

    #[tokio::test]
    async fn plain_text_is_taken_where_it_is_not_refused() {
        let codec = Planned::default();
        let mut texts = [Some("1".to_owned())];
        decode(&codec, values(&mut texts)).await.expect("it serves");
        assert_eq!((texts, codec.asked.lock().len()), ([Some("1".to_owned())], 0));
    }
}
