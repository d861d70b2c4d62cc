//! The lines that the code logs in a turn, until they are stored with the turn.

use perdure_provider::{Level, LogLine, TurnLogs};

use crate::options::{KeepLogs, LOG_FIELDS_BYTES, LOG_MESSAGE_BYTES, LOG_TURN_LINES};

/// Lines of a turn.
#[derive(Default)]
pub(crate) struct TurnLines {
    lines: Vec<LogLine>,
    /// Number of lines beyond the first [`LOG_TURN_LINES`].
    left_out: u64,
}

impl TurnLines {
    pub(crate) const fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.lines.clear();
        self.left_out = 0;
    }

    /// Adds a line. One that is too long is cut.
    pub(crate) fn push(&mut self, mut line: LogLine) {
        if self.lines.len() > LOG_TURN_LINES {
            self.left_out += 1;
            return;
        }
        if self.lines.len() == LOG_TURN_LINES {
            self.left_out = 1;
            (line.level, line.message, line.fields) = (Level::Warn, String::new(), None);
        }
        cut(&mut line.message);
        if let Some(bytes) = line
            .fields
            .as_ref()
            .map(String::len)
            .filter(|bytes| *bytes > LOG_FIELDS_BYTES)
        {
            line.fields = Some(format!(r#"{{"fields":"left out: {bytes} bytes"}}"#));
        }
        self.lines.push(line);
    }

    /// Takes the lines. `None`: there are none.
    pub(crate) fn take(&mut self, keep: &KeepLogs) -> Option<Box<TurnLogs>> {
        let mut lines = std::mem::take(&mut self.lines);
        let left_out = std::mem::take(&mut self.left_out);
        let last = lines.last_mut()?;
        if left_out > 0 {
            last.message = format!("{left_out} more lines of this turn are not stored: a turn stores {LOG_TURN_LINES}");
        }
        Some(Box::new(TurnLogs {
            lines,
            lines_max: keep.lines_max,
        }))
    }
}

/// Cuts a message that is too long, and notes so at its end.
fn cut(message: &mut String) {
    let bytes = message.len();
    if bytes > LOG_MESSAGE_BYTES {
        let end = (0..=LOG_MESSAGE_BYTES).rev().find(|at| message.is_char_boundary(*at));
        message.truncate(end.unwrap_or_default());
        message.push_str(&format!(" … ({bytes} bytes)"));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use perdure_engine::{EventId, ExecutionId};
    use perdure_provider::LogPlace;

    use super::*;

    const KEEP: KeepLogs = KeepLogs {
        level: Level::Info,
        lines_max: 7,
        age: Duration::from_secs(1),
    };

    fn line(n: u32, message: &str, fields: Option<String>) -> LogLine {
        LogLine {
            place: LogPlace {
                execution: ExecutionId(1),
                event: EventId(2),
                line: n,
            },
            time_ms: 0,
            level: Level::Info,
            message: message.into(),
            fields,
        }
    }

    #[test]
    fn no_lines_are_no_logs() {
        assert_eq!(TurnLines::default().take(&KEEP), None);
    }

    #[test]
    fn long_texts_are_cut() {
        let mut lines = TurnLines::default();
        lines.push(line(
            0,
            &"\u{e4}".repeat(LOG_MESSAGE_BYTES),
            Some("x".repeat(LOG_FIELDS_BYTES + 1)),
        ));
        let logs = lines.take(&KEEP).expect("there is one");
        assert_eq!(logs.lines_max, 7);
        assert!(logs.lines[0].message.ends_with("\u{e4} … (16384 bytes)"));
        assert_eq!(
            logs.lines[0].fields.as_deref(),
            Some(r#"{"fields":"left out: 8193 bytes"}"#)
        );
        assert_eq!(lines.take(&KEEP), None);
    }

    #[test]
    fn lines_beyond_the_limit_are_counted() {
        let mut lines = TurnLines::default();
        for n in 0..LOG_TURN_LINES as u32 + 3 {
            lines.push(line(n, "text", None));
        }
        let logs = lines.take(&KEEP).expect("there are some");
        assert_eq!(logs.lines.len(), LOG_TURN_LINES + 1);
        let last = logs.lines.last().expect("there are some");
        assert_eq!(last.place.line, LOG_TURN_LINES as u32);
        assert_eq!(
            (last.level, last.message.as_str()),
            (
                Level::Warn,
                "3 more lines of this turn are not stored: a turn stores 100"
            )
        );
    }
}
