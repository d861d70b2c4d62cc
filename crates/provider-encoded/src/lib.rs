//! A store that puts an asynchronous codec in front of another store. Values are encoded on their direction into the
//! store behind it, and decoded on their direction back. The rest of this process sees the plain values.
//!
//! - **C1** Nothing is handed to the store behind before all of its values are encoded.
//! - **C2** Batches reach the store behind in the order in which they were handed over, and are answered in that order.
//! - **C3** A text that cannot be decoded is handed on as it is stored, or with the prefix [`PLAIN`] if it is plain
//!   text. Both begin with [`ENCODED`]. The text comes back unchanged when it is written again. So it is refused where
//!   it is read, and nothing is lost.
//! - **C4** A codec that fails for now is asked again for [`CODEC_RETRY_MAX`]. After that the store is unavailable,
//!   which is no verdict on any value.
//! - **C5** A value has one [`Place`], wherever it is stored: see `docs/internals/codec.md`.

mod codec;
mod inner;
mod names;
mod place;
mod provider;
mod slot;
mod time;
mod values;

pub use codec::{
    CODEC_BATCH_BYTES, CODEC_CALL_MAX, CODEC_RETRY_MAX, CodecAnswer, CodecFailure, ENCODED, PLAIN, TextCodec,
};
pub use place::{Place, PlacedText};
pub use provider::Encoded;
