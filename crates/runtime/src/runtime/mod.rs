//! The runtime as its users see it.

mod log;
#[expect(
    clippy::module_inception,
    reason = "the file is named after the noun that the room is about"
)]
mod runtime;
mod status;

pub use runtime::{Facts, Failure, MapSizes, Runtime};
