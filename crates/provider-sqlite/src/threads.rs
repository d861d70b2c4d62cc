//! The threads of a provider.

use std::io;
use std::thread::{Builder, JoinHandle};

use perdure_provider::ProviderErrorKind;

use crate::error::Failure;

/// Starts a thread whose name shows its role.
pub(crate) fn spawn(role: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Failure> {
    // Linux shows fifteen characters.
    Builder::new()
        .name(format!("perdure-{role}"))
        .spawn(body)
        .map_err(|error: io::Error| {
            Failure::Found(ProviderErrorKind::Busy, format!("no thread could be started: {error}"))
        })
}
