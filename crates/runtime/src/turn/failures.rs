//! The failures that a turn records: attempts of activities, and the end of the instance. Each is logged once, by the
//! owner of the instance, when the turn is durable. The owner also learns of attempts that other workers ran.

use perdure_engine::{EventId, FailedAttempt, Payload, Terminal, TurnOutput, Waiting};
use perdure_scheduler::Class;
use serde_json::{Map, Value, json};

use crate::lane::job::Queued;
use crate::log::{Level, LogRecord, LoggedError};
use crate::shared::Shared;
use crate::state::Instance;

/// The failures of a turn.
#[derive(Default)]
pub(super) struct Failures {
    attempts: Vec<FailedAttempt>,
    /// The last event of the instance and its error, if the instance has failed.
    end: Option<(EventId, Payload)>,
}

impl Failures {
    pub(super) fn of(output: &mut TurnOutput) -> Self {
        let has_failed = output.waiting == Waiting::Ended(Terminal::Failed);
        let last = output.events.last().filter(|_| has_failed);
        Self {
            attempts: std::mem::take(&mut output.failed_attempts),
            end: last.map(|event| (event.event_id, event.payload.clone())),
        }
    }

    pub(super) fn log(self, shared: &Shared, instance: &Instance) {
        for failed in self.attempts {
            log_attempt(shared, instance, failed);
        }
        if let Some((event, error)) = self.end {
            let message = format!("instance '{}' of orchestration '{}' failed", instance.id, instance.name);
            let error = error.map(|text| LoggedError { text, scheduled: None });
            log(shared, instance, Level::Error, message, event, error, []);
        }
    }
}

fn log_attempt(shared: &Shared, instance: &Instance, failed: FailedAttempt) {
    let FailedAttempt {
        event_id,
        scheduled,
        name,
        attempt,
        attempts_max,
        error,
        delay_ms,
    } = failed;
    let then = match delay_ms {
        Some(delay_ms) => format!("the next attempt begins in {}", duration(delay_ms)),
        None => "no attempt follows".into(),
    };
    let message = format!(
        "attempt {attempt} of {attempts_max} of activity '{name}' of instance '{}' failed; {then}",
        instance.id
    );
    let error = error.map(|text| LoggedError {
        text,
        scheduled: Some(scheduled),
    });
    let fields = [
        ("activityName", name.into()),
        ("attempt", attempt.into()),
        ("retryAfterMs", delay_ms.into()),
    ];
    log(shared, instance, Level::Warn, message, event_id, error, fields);
}

/// Logs a line, unless too many have been logged. The next line says how many were left out.
fn log<const N: usize>(
    shared: &Shared,
    instance: &Instance,
    level: Level,
    mut message: String,
    event: EventId,
    error: Option<LoggedError>,
    more: [(&str, Value); N],
) {
    let Some(left_out) = shared.failure_lines.lock().admit() else {
        return;
    };
    let mut fields = Map::from_iter([
        ("instanceId".to_owned(), json!(instance.id)),
        ("executionId".to_owned(), json!(instance.execution.0)),
        ("orchestrationName".to_owned(), json!(instance.name)),
        ("version".to_owned(), json!(instance.version)),
        ("eventId".to_owned(), json!(event.0)),
    ]);
    let more = more.into_iter().filter(|(_, value)| !value.is_null());
    fields.extend(more.map(|(name, value)| (name.to_owned(), value)));
    if left_out > 0 {
        message.push_str(&format!(" ({left_out} other failures were not logged)"));
    }
    let record = LogRecord {
        level,
        message,
        fields: Some(Value::Object(fields).to_string()),
        internal: false,
        error,
    };
    shared.push(Class::First, Queued::Log(record));
}

/// Returns a time for readers of the log.
fn duration(ms: i64) -> String {
    match ms.max(0) {
        ms @ ..1_000 => format!("{ms} ms"),
        ms @ ..120_000 => format!("{} s", (ms as f64 / 100.0).round() / 10.0),
        ms @ ..7_200_000 => format!("{} min", ms / 60_000),
        ms => format!("{} h", ms / 3_600_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_for_readers() {
        let texts = [-5, 0, 999, 1_000, 1_240, 90_000, 180_000, 86_400_000].map(duration);
        assert_eq!(
            texts,
            ["0 ms", "0 ms", "999 ms", "1 s", "1.2 s", "90 s", "3 min", "24 h"]
        );
    }
}
