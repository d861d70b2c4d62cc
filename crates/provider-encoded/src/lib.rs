//! A store whose values go through a codec that answers later: encoded on their way into the store that is behind it, decoded on their way back.
//! Everything in this process sees them as they were.
//!
//! - **C1** Nothing is handed to the store behind before all of its values are encoded.
//! - **C2** Batches reach the store behind in the order in which they were handed over, and are answered in that order.
//! - **C3** A text that cannot be decoded is handed on as it is kept, which begins with [`ENCODED`], and comes back unchanged when it is written again: it is refused
//!   where it is read, and nothing is lost.
//! - **C4** A codec that fails for now is asked again for [`CODEC_PATIENCE`]; then the store does not serve, which is no verdict on anything.
//! - **C5** A value has one [`Place`], wherever it is kept: see `docs/internals/codec.md`.

mod codec;
mod names;
mod place;
mod provider;
mod time;
mod values;

pub use codec::{
    CODEC_AT_ONCE_BYTES, CODEC_CALL_MAX, CODEC_PATIENCE, CodecAnswer, CodecFailure, ENCODED, PLAIN, TextCodec,
};
pub use place::{Place, PlacedText};
pub use provider::Encoded;
