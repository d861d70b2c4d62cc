//! The entries of streams: those that programs write, and those that activities append while they run.

use std::collections::BTreeMap;

use perdure_engine::{StreamAppend, StreamKeep};
use perdure_provider::ChunkWriter;
use perdure_runtime::{ActivityJob, ActivityToken};

use crate::program::Work;

/// The stream that activities append to.
pub(crate) const ACTIVITIES: &str = "activities";

/// The stream that other activities append to. It keeps its last entries only.
pub(crate) const SHORT: &str = "short";

/// Entries that [`SHORT`] keeps.
const KEPT: u64 = 2;

/// Entries, by the name of their stream.
pub(crate) type Entries = BTreeMap<String, Vec<String>>;

/// The stream that a program writes an entry to.
pub(crate) fn stream_of(tag: u32) -> String {
    format!("notes-{}", tag % 2)
}

/// The name of a run of an attempt. Each of its entries has it.
pub(crate) fn run_of(job: &ActivityJob, process: &str, token: ActivityToken) -> String {
    let (execution, scheduled, attempt) = (job.execution, job.scheduled, job.attempt);
    format!("{execution} #{scheduled} {attempt} in {process} as {token}")
}

/// True if a run is one of the attempt that has written a chunk.
pub(crate) fn is_run_of(run: &str, writer: ChunkWriter) -> bool {
    let ChunkWriter {
        execution,
        scheduled,
        attempt,
    } = writer;
    run.starts_with(&format!("{execution} #{scheduled} {attempt} in "))
}

/// Returns the run and the counter that an entry of an activity names.
pub(crate) fn parts_of(entry: &str) -> Option<(&str, u32)> {
    let (run, counter) = entry.split_once(": ")?;
    Some((run, counter.parse().ok()?))
}

impl Work {
    /// True if the entries of its attempts go to [`SHORT`].
    pub(crate) fn keeps_few(self) -> bool {
        self.tag % 5 < 2
    }

    /// The number of entries that an attempt appends in the middle of its time.
    pub(crate) fn first_entries(self) -> u32 {
        1 + self.tag % 2
    }

    /// The number of entries that an attempt appends in all.
    pub(crate) fn entries(self) -> u32 {
        self.first_entries() + 1 + self.tag / 2 % 2
    }
}

/// The appends of a run of an attempt.
#[derive(Default)]
pub(crate) struct Appends {
    /// The number of entries that went out.
    pub(crate) sent: u32,
    /// True if an append was not answered yet.
    pub(crate) is_under_way: bool,
    /// True if the attempt ends after its last append.
    pub(crate) is_over: bool,
}

impl Appends {
    /// Sends the entries up to a number. Returns them, and true if they are the first ones.
    pub(crate) fn send(&mut self, work: Work, run: &str, up_to: u32) -> (StreamAppend, bool) {
        let begins = self.sent == 0;
        let mut append = if work.keeps_few() {
            let keep = StreamKeep {
                entries_max: Some(KEPT),
                retain_ms: None,
            };
            StreamAppend::new(SHORT, keep)
        } else {
            StreamAppend::new(ACTIVITIES, StreamKeep::default())
        };
        for counter in self.sent..up_to {
            append.push(Some(&format!("{run}: {counter}")));
        }
        (self.sent, self.is_under_way) = (up_to, true);
        (append, begins)
    }
}
