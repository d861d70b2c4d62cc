//! Streams: numbered entries that code appends, for readers who do not run the instance.
//!
//! An entry is no command and no event. It goes with the turn in which the code wrote it. A replay writes nothing,
//! because the entries of a committed turn are stored with it.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use crate::Payload;

/// The entries of a stream that stay. The store deletes others from the front, by whole chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamKeep {
    /// At least so many of the last entries stay. `None`: all.
    pub entries_max: Option<u64>,
    /// Time for which an entry stays at least, ms. `None`: for as long as its instance.
    pub retain_ms: Option<u64>,
}

/// Entries to add to a stream, or its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamAppend {
    /// Name of the stream.
    pub stream: String,
    /// The texts of the entries, separated by line feeds. The text of `undefined` is empty.
    pub entries: String,
    /// Number of the entries. It is 0 only if the stream is closed.
    pub count: u64,
    /// True if the stream takes no entry from now on.
    pub closes: bool,
    /// The entries that stay.
    pub keep: StreamKeep,
}

impl StreamAppend {
    /// The separator of the entries of a text. No text of a value has it.
    pub const SEPARATOR: char = '\n';

    /// Creates an append without entries.
    #[must_use]
    pub fn new(stream: &str, keep: StreamKeep) -> Self {
        Self {
            stream: stream.to_owned(),
            keep,
            ..Self::default()
        }
    }

    /// Adds an entry.
    pub fn push(&mut self, entry: Option<&str>) {
        if self.count > 0 {
            self.entries.push(Self::SEPARATOR);
        }
        self.entries.push_str(entry.unwrap_or_default());
        self.count += 1;
    }

    /// Bytes of the name and of the entries.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.stream.len() + self.entries.len()
    }
}

/// The streams as the code of an execution uses them. An engine without streams holds a pointer only.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streams(Option<Box<Used>>);

#[derive(Clone, Debug, Default)]
struct Used {
    /// Streams that are closed, by this execution or by those before it.
    closed: BTreeSet<String>,
    /// Entries that the turn in progress has appended, by the names of their streams.
    appends: BTreeMap<String, StreamAppend>,
}

/// The streams without one.
static NONE: BTreeSet<String> = BTreeSet::new();

impl Streams {
    pub(crate) fn new(closed: BTreeSet<String>) -> Self {
        let is_empty = closed.is_empty();
        let used = Used {
            closed,
            appends: BTreeMap::new(),
        };
        Self((!is_empty).then(|| Box::new(used)))
    }

    /// Names of the streams that are closed.
    pub(crate) fn closed(&self) -> &BTreeSet<String> {
        self.0.as_ref().map_or(&NONE, |used| &used.closed)
    }

    /// Adds an entry. One that `is_stored` goes with the turn. Returns false if the stream is closed.
    pub(crate) fn write(&mut self, stream: &str, keep: StreamKeep, entry: &Payload, is_stored: bool) -> bool {
        if self.closed().contains(stream) {
            return false;
        }
        if is_stored {
            self.append(stream, keep).push(entry.as_deref());
        }
        true
    }

    /// Closes a stream. Does nothing if it is closed.
    pub(crate) fn close(&mut self, stream: &str, is_stored: bool) {
        let is_new = self.0.get_or_insert_default().closed.insert(stream.to_owned());
        if is_new && is_stored {
            self.append(stream, StreamKeep::default()).closes = true;
        }
    }

    fn append(&mut self, stream: &str, keep: StreamKeep) -> &mut StreamAppend {
        let appends = &mut self.0.get_or_insert_default().appends;
        let append = appends
            .entry(stream.to_owned())
            .or_insert_with(|| StreamAppend::new(stream, keep));
        if keep != StreamKeep::default() {
            append.keep = keep;
        }
        append
    }

    /// Ends a turn. Returns what it has appended, in the order of the names.
    pub(crate) fn take_appends(&mut self) -> Vec<StreamAppend> {
        let Some(used) = &mut self.0 else {
            return Vec::new();
        };
        let appends = mem::take(&mut used.appends).into_values().collect();
        if used.closed.is_empty() {
            self.0 = None;
        }
        appends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEP: StreamKeep = StreamKeep {
        entries_max: Some(5),
        retain_ms: None,
    };

    fn some(text: &str) -> Payload {
        Some(text.into())
    }

    #[test]
    fn the_entries_of_a_turn_are_one_append_for_each_stream() {
        let mut streams = Streams::default();
        for (stream, entry) in [("b", some("1")), ("a", None), ("b", some("\"x\"")), ("b", None)] {
            assert!(streams.write(stream, KEEP, &entry, true));
        }
        let appends = streams.take_appends();
        let told: Vec<_> = appends.iter().map(|a| (&*a.stream, &*a.entries, a.count)).collect();
        assert_eq!(told, [("a", "", 1), ("b", "1\n\"x\"\n", 3)]);
        assert!(appends.iter().all(|append| append.keep == KEEP && !append.closes));
        assert_eq!(streams.take_appends(), []);
        assert!(streams.0.is_none());
    }

    #[test]
    fn a_replay_appends_nothing_and_closes_all_the_same() {
        let mut streams = Streams::default();
        assert!(streams.write("s", KEEP, &some("1"), false));
        streams.close("s", false);
        assert_eq!(streams.take_appends(), []);
        assert!(!streams.write("s", KEEP, &some("2"), true));
        streams.close("s", true);
        assert_eq!(streams.take_appends(), []);
    }

    #[test]
    fn a_close_keeps_the_limits_of_the_entries_before_it() {
        let mut streams = Streams::new(BTreeSet::from(["old".into()]));
        streams.write("s", KEEP, &some("1"), true);
        streams.close("s", true);
        streams.close("old", true);
        let appends = streams.take_appends();
        assert_eq!(appends.len(), 1);
        assert!(appends[0].closes && appends[0].count == 1 && appends[0].keep == KEEP);
        assert_eq!(streams.closed().len(), 2);
    }
}
