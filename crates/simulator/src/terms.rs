//! Terms of programs: when, through which queue and with which priority their instances come to run.

use perdure_engine::Admission;
use perdure_provider::StartRule;

/// When, through which queue and with which priority the instances of a program come to run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Terms {
    pub(crate) admission: Option<Admission>,
    pub(crate) priority: i32,
    pub(crate) start: StartKind,
}

/// The kinds of starts: some depend on the starts before them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum StartKind {
    /// The start depends on no other one.
    #[default]
    Plain,
    /// At most one instance of all such programs runs at once.
    Singleton,
    /// The start is one input of a batch. If the instance of another program takes the input, the start is made again.
    Batched,
}

/// The rule of batches: few inputs, so that many batches are full.
pub(crate) const BATCH: StartRule = StartRule::Batch {
    within_ms: 1_000,
    max: 3,
};
