//! The work on one input of arbitrary bytes. All readers of rows, messages, options or URLs read it; none of them may
//! panic, and all that is read must be writable again.
//!
//! Owns one function for each target and the inputs with which fuzzing begins. libFuzzer calls these functions
//! (`fuzz/`). Where there is no nightly compiler, the tests here call them with mutations of the same inputs.

pub mod histories;
pub mod history;
pub mod message;
pub mod options;
pub mod rows;
pub mod url;

/// The targets: their names, their functions, and their initial inputs.
pub const TARGETS: &[Target] = &[
    Target {
        name: "history",
        run: history::run,
        seeds: histories::seeds,
    },
    Target {
        name: "message",
        run: message::run,
        seeds: message::seeds,
    },
    Target {
        name: "options",
        run: options::run,
        seeds: options::seeds,
    },
    Target {
        name: "url",
        run: url::run,
        seeds: url::seeds,
    },
];

/// A reader of bytes.
#[derive(Clone, Copy)]
pub struct Target {
    /// Name of the target, and of its file under `fuzz/fuzz_targets`.
    pub name: &'static str,
    /// Reads one input in every way. Panics if a reader breaks a rule.
    pub run: fn(&[u8]),
    /// Valid inputs.
    pub seeds: fn() -> Vec<Vec<u8>>,
}
