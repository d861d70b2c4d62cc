//! The lines that the code of an instance logged.
//!
//! A turn brings its lines, which are stored with it or not at all. The place of a line depends on the code and its
//! history alone. Code that runs again after a crash therefore writes a line to the same place, where a line that is
//! stored stays.

use perdure_engine::{EventId, ExecutionId};

use crate::InstanceKey;

/// Level of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For developers.
    Debug,
    /// For readers of the log.
    Info,
    /// For events that deserve a look.
    Warn,
    /// For events that call for action.
    Error,
}

impl Level {
    /// Returns the text of the level.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        }
    }

    /// Returns the level that a text names.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Level::Debug, Level::Info, Level::Warn, Level::Error]
            .into_iter()
            .find(|l| l.as_str() == text)
    }
}

/// The place of a line among those of its instance. The order of places is that of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPlace {
    /// The execution whose code logged the line.
    pub execution: ExecutionId,
    /// The event that followed in the history, or was to follow.
    pub event: EventId,
    /// Number of the line among those before this event, from 0.
    pub line: u32,
}

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Its place.
    pub place: LogPlace,
    /// Time at which it was logged, ms since 1970.
    pub time_ms: i64,
    /// Its level.
    pub level: Level,
    /// Its text.
    pub message: String,
    /// Further fields, as JSON text of an object.
    pub fields: Option<String>,
}

impl LogLine {
    /// Returns the bytes of the line's texts.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.message.len() + self.fields.as_ref().map_or(0, String::len)
    }
}

/// The lines of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnLogs {
    /// The lines, in order, at least one. Their execution is that of the turn.
    pub lines: Vec<LogLine>,
    /// Most lines of the instance that stay stored, at least 1. The turn deletes those before them.
    pub lines_max: usize,
}

impl TurnLogs {
    pub(crate) fn bytes(&self) -> usize {
        self.lines.iter().map(LogLine::bytes).sum()
    }
}

/// A request for stored lines of an instance.
#[derive(Clone, Debug)]
pub struct LogRequest {
    /// The user's name of the instance.
    pub id: String,
    /// The execution; `None`: all.
    pub execution: Option<ExecutionId>,
    /// The last line that is left out, with the instance that it was of; `None`: the first line comes first. The line
    /// of another instance, which had the id before, leaves none out.
    pub after: Option<(InstanceKey, LogPlace)>,
    /// Most lines.
    pub limit: usize,
}

impl LogRequest {
    /// Returns the last place that the request leaves out of the lines of an instance.
    #[must_use]
    pub fn after_in(&self, key: InstanceKey) -> LogPlace {
        let first = LogPlace {
            execution: ExecutionId(0),
            event: EventId(0),
            line: 0,
        };
        self.after
            .filter(|(of, _)| *of == key)
            .map_or(first, |(_, place)| place)
    }
}

/// Stored lines of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPage {
    /// The instance.
    pub key: InstanceKey,
    /// The lines, in order. There are no further lines if these are fewer than the request allows.
    pub lines: Vec<LogLine>,
}
