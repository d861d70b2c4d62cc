//! The contract of all providers, through an asynchronous codec that checks the place of each text.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use perdure_provider::{ManualClock, Provider};
use perdure_provider_contract::Fixture;
use perdure_provider_encoded::{CodecFailure, ENCODED, Encoded, PlacedText, TextCodec};
use perdure_provider_memory::{MemoryProvider, MemoryStore};

/// Writes the place into each text, and decodes the text only in that place.
#[derive(Default)]
struct Sealing {
    decoded: AtomicUsize,
    fails: AtomicBool,
}

fn seal(text: &PlacedText) -> String {
    let place = &text.place;
    format!("{ENCODED}{}|{:?}|{}|", place.instance, place.execution, place.what)
}

#[async_trait]
impl TextCodec for Sealing {
    fn is_required(&self) -> bool {
        true
    }

    async fn encode(&self, texts: Vec<PlacedText>) -> Vec<Result<String, CodecFailure>> {
        tokio::task::yield_now().await;
        texts.iter().map(|text| Ok(seal(text) + &text.text)).collect()
    }

    async fn decode(&self, texts: Vec<PlacedText>) -> Vec<Result<String, CodecFailure>> {
        tokio::task::yield_now().await;
        self.decoded.fetch_add(texts.len(), Ordering::Relaxed);
        let answer = |text: &PlacedText| match text.text.strip_prefix(&seal(text)) {
            Some(plain) => Ok(plain.to_owned()),
            // Some checks of the bare store tell the end of a child that no event has scheduled, so the id of the child
            // is not known.
            None if text.place.instance.is_empty() => {
                Ok(text.text.splitn(4, '|').last().unwrap_or_default().to_owned())
            }
            None => {
                self.fails.store(true, Ordering::Relaxed);
                Err(CodecFailure::Final(format!("{} is not of {:?}", text.text, text.place)))
            }
        };
        texts.iter().map(answer).collect()
    }
}

struct OverMemory {
    memory: Arc<MemoryProvider>,
    codec: Arc<Sealing>,
    encoded: Arc<Encoded>,
}

impl OverMemory {
    fn over(memory: Arc<MemoryProvider>, codec: &Arc<Sealing>) -> Arc<Encoded> {
        let codec: Arc<Sealing> = Arc::clone(codec);
        Arc::new(Encoded::new(memory, codec).expect("there is a thread for it"))
    }
}

impl Drop for OverMemory {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert!(
                !self.codec.fails.load(Ordering::Relaxed),
                "a text was read in another place than it was written for"
            );
        }
    }
}

impl Fixture for OverMemory {
    async fn open(clock: Arc<ManualClock>) -> Self {
        let memory = MemoryStore::new(clock).connect();
        let codec = Arc::default();
        let encoded = Self::over(Arc::clone(&memory), &codec);
        Self { memory, codec, encoded }
    }

    fn provider(&self) -> Arc<dyn Provider> {
        Arc::clone(&self.encoded) as Arc<dyn Provider>
    }

    async fn second(&self) -> Option<Arc<dyn Provider>> {
        Some(Self::over(self.memory.store().connect(), &self.codec))
    }
}

perdure_provider_contract::behaviour!(OverMemory);
