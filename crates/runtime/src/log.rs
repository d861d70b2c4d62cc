//! Lines of the log, on their way to the host.

use perdure_engine::EventId;
pub use perdure_provider::Level;
use tokio::time::Instant;

use crate::options::{FAILURE_LINES_BURST, FAILURE_LINES_INTERVAL};

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
    /// The error that the line is about.
    pub error: Option<LoggedError>,
}

/// Fields of a line that an orchestration logs.
#[derive(Clone, Debug, Default)]
pub struct LineFields {
    /// The fields that each line of the instance has, as JSON text of an object that is not empty.
    pub of_instance: Option<String>,
    /// The fields of the line, as JSON text of an object that is not empty.
    pub own: Option<String>,
}

impl LineFields {
    /// Returns the JSON text of all fields.
    pub(crate) fn joined(self) -> Option<String> {
        let (Some(mut all), Some(own)) = (self.of_instance.clone(), &self.own) else {
            return self.of_instance.or(self.own);
        };
        all.pop();
        all.push(',');
        all.push_str(&own[1..]);
        Some(all)
    }
}

/// An error as it is stored: only the host can read it.
#[derive(Clone, Debug, PartialEq)]
pub struct LoggedError {
    /// The error, as the host encoded it.
    pub text: String,
    /// The event that scheduled the activity whose error it is. `None`: the error is the instance's own.
    pub scheduled: Option<EventId>,
}

/// Limit of the lines about failures: a burst, and then one line per interval.
pub(crate) struct LineLimit {
    /// Lines that may be logged now, and the parts of one that have been gained.
    room: f64,
    last: Instant,
    left_out: u64,
}

impl LineLimit {
    pub(crate) fn new() -> Self {
        Self {
            room: FAILURE_LINES_BURST,
            last: Instant::now(),
            left_out: 0,
        }
    }

    /// Returns the number of lines that were left out before this one; `None`: this one is left out, too.
    pub(crate) fn admit(&mut self) -> Option<u64> {
        let now = Instant::now();
        let gained = now.duration_since(self.last).as_secs_f64() / FAILURE_LINES_INTERVAL.as_secs_f64();
        self.last = now;
        self.room = (self.room + gained).min(FAILURE_LINES_BURST);
        if self.room < 1.0 {
            self.left_out += 1;
            return None;
        }
        self.room -= 1.0;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn lines_beyond_the_limit_are_counted() {
        let mut limit = LineLimit::new();
        for _ in 0..FAILURE_LINES_BURST as u64 {
            assert_eq!(limit.admit(), Some(0));
        }
        assert_eq!([limit.admit(), limit.admit()], [None, None]);
        tokio::time::advance(FAILURE_LINES_INTERVAL).await;
        assert_eq!(limit.admit(), Some(2));
        assert_eq!(limit.admit(), None);
    }
}
