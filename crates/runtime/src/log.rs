//! Lines of the log, on their way to the host.

/// Level of a log record.
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

/// A line for the log.
#[derive(Clone, Debug, PartialEq)]
pub struct LogRecord {
    /// Level of the line.
    pub level: Level,
    /// Description of the event.
    pub message: String,
    /// Further fields, as JSON text of an object.
    pub fields: Option<String>,
    /// True if the line is the runtime's own, not an orchestration's.
    pub internal: bool,
}
