//! What is done with one input of arbitrary bytes: it is read by everything that reads rows, messages, options or URLs, and nothing may
//! panic, and what can be read can be written again.
//!
//! Owns one function for each target and the inputs that fuzzing begins with. libFuzzer calls these functions (`fuzz/`), and so do the
//! tests here, over mutations of the same inputs, where there is no nightly compiler.

pub mod histories;
pub mod history;
pub mod message;
pub mod options;
pub mod rows;
pub mod url;

/// The targets: their names, what they do with an input, and the inputs to begin with.
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

/// Something that reads bytes.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, and that of its file under `fuzz/fuzz_targets`.
    pub name: &'static str,
    /// Does everything with one input. Panics when something does that must not.
    pub run: fn(&[u8]),
    /// Valid inputs.
    pub seeds: fn() -> Vec<Vec<u8>>,
}
