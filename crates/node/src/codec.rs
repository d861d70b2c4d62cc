//! The codec of a store that answers later: the texts go in bundles to the thread that opened the store, and come back
//! by the number of the question.

use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use napi::Status;
use napi::bindgen_prelude::Function;
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use perdure_provider::{Provider, ProviderError};
use perdure_provider_encoded::{CodecFailure, Encoded, PlacedText, TextCodec};
use serde::Deserialize;
use serde_json::json;

use crate::questions::Questions;

/// Answer of the driver for a text: another text, or the reason why there is none.
#[derive(Deserialize)]
struct TextAnswer {
    text: Option<String>,
    #[serde(default)]
    why: String,
    /// True if there may be a text later.
    #[serde(default)]
    later: bool,
}

static ASKED: LazyLock<Questions<String>> = LazyLock::new(Questions::default);

/// Takes an answer of the driver: a JSON list.
pub(crate) fn answer(question: u32, texts: String) {
    ASKED.answer(question, texts);
}

/// A codec of the driver: a function that is called with questions as JSON. It does not keep the process alive.
pub(crate) struct Bridge {
    ask: ThreadsafeFunction<String, (), String, Status, false, true>,
    is_required: bool,
}

impl Bridge {
    pub(crate) fn new(function: &Function<'_, String, ()>, is_required: bool) -> napi::Result<Arc<Self>> {
        let function = function
            .build_threadsafe_function::<String>()
            .weak::<true>()
            .callee_handled::<false>();
        let ask = function.build()?;
        Ok(Arc::new(Self { ask, is_required }))
    }

    async fn ask(&self, encode: bool, texts: Vec<PlacedText>) -> Vec<Result<String, CodecFailure>> {
        let count = texts.len();
        let failed = |why: &str| vec![Err(CodecFailure::ForNow(why.to_owned())); count];
        let listed: Vec<_> = texts
            .into_iter()
            .map(|PlacedText { place, text }| json!([&*place.instance, place.execution, place.what, text]))
            .collect();
        let mut question = ASKED.ask();
        let asked = json!({ "question": question.number, "encode": encode, "texts": listed }).to_string();
        if self.ask.call(asked, ThreadsafeFunctionCallMode::NonBlocking) != Status::Ok {
            return failed("its thread has ended");
        }
        let Some(given) = question.answer().await else {
            return failed("its thread has ended");
        };
        let given: Vec<TextAnswer> = match serde_json::from_str(&given) {
            Ok(given) => given,
            Err(error) => return failed(&error.to_string()),
        };
        let answer = |TextAnswer { text, why, later }| match text {
            Some(text) => Ok(text),
            None if later => Err(CodecFailure::ForNow(why)),
            None => Err(CodecFailure::Final(why)),
        };
        given.into_iter().map(answer).collect()
    }
}

#[async_trait]
impl TextCodec for Bridge {
    fn is_required(&self) -> bool {
        self.is_required
    }

    async fn encode(&self, texts: Vec<PlacedText>) -> Vec<Result<String, CodecFailure>> {
        self.ask(true, texts).await
    }

    async fn decode(&self, texts: Vec<PlacedText>) -> Vec<Result<String, CodecFailure>> {
        self.ask(false, texts).await
    }
}

/// Puts the store behind a codec, if there is one.
pub(crate) fn behind(
    provider: Arc<dyn Provider>,
    codec: Option<&Arc<Bridge>>,
) -> Result<Arc<dyn Provider>, ProviderError> {
    match codec {
        None => Ok(provider),
        Some(codec) => Ok(Arc::new(Encoded::new(
            provider,
            Arc::clone(codec) as Arc<dyn TextCodec>,
        )?)),
    }
}
