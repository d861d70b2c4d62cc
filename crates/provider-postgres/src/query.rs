//! A statement with its parameters.

use crate::params::P;

/// A statement with its parameters.
pub(crate) struct Query<'a> {
    pub(crate) sql: &'static str,
    pub(crate) params: Vec<P<'a>>,
}
