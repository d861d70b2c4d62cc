//! Lines of the log, on their way to the host.

/// Level of a log record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For whoever develops.
    Debug,
    /// For whoever looks.
    Info,
    /// Something to look at.
    Warn,
    /// Something to act on.
    Error,
}

impl Level {
    /// Its text.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        }
    }

    /// The level of a text.
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
    /// How important it is.
    pub level: Level,
    /// What happened.
    pub message: String,
    /// More about it, as JSON text of an object.
    pub fields: Option<String>,
    /// Whether it is the runtime's own, not an orchestration's.
    pub internal: bool,
}
