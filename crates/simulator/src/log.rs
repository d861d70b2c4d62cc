//! The log of a run in order, one line for each thing that happens, and a fingerprint of all lines.

use std::fmt;
use std::hash::Hasher;

use parking_lot::Mutex;
use rustc_hash::FxHasher;
use tokio::time::Instant;

/// The log of a run. The same seed gives the same lines.
pub(crate) struct Log {
    since: Instant,
    kept: Mutex<LogState>,
}

#[derive(Default)]
struct LogState {
    fingerprint: FxHasher,
    line: String,
    count: u64,
    /// The lines, if they are kept.
    lines: Option<Vec<String>>,
}

impl Log {
    /// Begins a log now. With `keeps`, its lines can be read. Otherwise there is only their fingerprint.
    pub(crate) fn new(keeps: bool) -> Self {
        let kept = LogState {
            lines: keeps.then(Vec::new),
            ..LogState::default()
        };
        Self {
            since: Instant::now(),
            kept: Mutex::new(kept),
        }
    }

    /// Writes a line.
    pub(crate) fn say(&self, who: &str, what: fmt::Arguments<'_>) {
        let at_ms = self.since.elapsed().as_millis();
        let mut kept = self.kept.lock();
        let LogState {
            fingerprint,
            line,
            count,
            lines,
        } = &mut *kept;
        line.clear();
        fmt::write(
            line,
            format_args!("{:>7}.{:03} {who:<8} {what}", at_ms / 1_000, at_ms % 1_000),
        )
        .expect("a string takes it");
        fingerprint.write(line.as_bytes());
        *count += 1;
        if let Some(lines) = lines {
            lines.push(line.clone());
        }
    }

    pub(crate) fn fingerprint(&self) -> u64 {
        self.kept.lock().fingerprint.finish()
    }

    pub(crate) fn count(&self) -> u64 {
        self.kept.lock().count
    }

    pub(crate) fn take_lines(&self) -> Vec<String> {
        self.kept.lock().lines.take().unwrap_or_default()
    }
}
