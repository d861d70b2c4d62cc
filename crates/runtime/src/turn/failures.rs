//! The failures that a turn records: attempts of activities, and the end of the instance. Each is logged once, by the
//! owner of the instance, when the turn is durable. The owner also learns of attempts that other workers ran.

use perdure_engine::{EventId, FailedAttempt, Payload, Terminal, TurnOutput, Waiting};
use perdure_scheduler::Class;
use serde_json::Value;

use crate::lane::job::Queued;
use crate::log::{Level, LogRecord, LoggedError};
use crate::shared::{LogSubject, Shared};
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

    /// Logs the failures, unless too many have been logged. The next line says how many were left out.
    /// Returns the error of the instance, if the instance has failed.
    pub(super) fn log(self, shared: &Shared, instance: &Instance) -> Payload {
        let error = self.end.as_ref().and_then(|(_, error)| error.clone());
        let attempts = self.attempts.into_iter().map(Failure::Attempt);
        let end = self.end.map(|(event, error)| Failure::Instance(event, error));
        for failure in attempts.chain(end) {
            if let Some(left_out) = shared.failure_lines.lock().admit() {
                let record = failure.into_record(instance, left_out);
                shared.push(Class::First, Queued::Log(record));
            }
        }
        error
    }
}

enum Failure {
    Attempt(FailedAttempt),
    /// The last event of the instance, and its error.
    Instance(EventId, Payload),
}

impl Failure {
    fn into_record(self, instance: &Instance, left_out: u64) -> LogRecord {
        let mut fields = LogSubject::from(instance).fields();
        let mut put = |name: &str, value: Value| fields.insert(name.into(), value);
        put("version", instance.version.as_str().into());
        let (level, mut message, error) = match self {
            Failure::Instance(event, error) => {
                put("eventId", event.0.into());
                let message = format!("instance '{}' of orchestration '{}' failed", instance.id, instance.name);
                (
                    Level::Error,
                    message,
                    error.map(|text| LoggedError { text, scheduled: None }),
                )
            }
            Failure::Attempt(failed) => {
                put("eventId", failed.event_id.0.into());
                put("activityName", failed.name.as_str().into());
                put("attempt", failed.attempt.into());
                if let Some(delay_ms) = failed.delay_ms {
                    put("retryAfterMs", delay_ms.into());
                }
                let message = message_of(&failed, instance);
                let scheduled = Some(failed.scheduled);
                (
                    Level::Warn,
                    message,
                    failed.error.map(|text| LoggedError { text, scheduled }),
                )
            }
        };
        if left_out > 0 {
            message.push_str(&format!(" ({left_out} other failures were not logged)"));
        }
        LogRecord {
            level,
            message,
            fields: Some(Value::Object(fields).to_string()),
            internal: false,
            error,
        }
    }
}

fn message_of(failed: &FailedAttempt, instance: &Instance) -> String {
    let then = match failed.delay_ms {
        Some(delay_ms) => format!("the next attempt begins in {}", duration(delay_ms)),
        None => "no attempt follows".into(),
    };
    format!(
        "attempt {} of {} of activity '{}' of instance '{}' failed; {then}",
        failed.attempt, failed.attempts_max, failed.name, instance.id
    )
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
