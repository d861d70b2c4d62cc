//! The runtime as its users see it.

mod jobs;
mod log;
#[expect(
    clippy::module_inception,
    reason = "the file is named after the noun that the room is about"
)]
mod runtime;
mod status;
mod turns;

pub use jobs::Failure;
pub use runtime::{MapSizes, Runtime};
pub use turns::Facts;
