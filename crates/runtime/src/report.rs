//! The report of a suspension, which is stored with the instance: JSON text of `{ code, message, details }`, which the
//! driver turns into an error.

use std::time::Duration;

use perdure_engine::{LimitReached, Mismatch, Payload};
use perdure_provider::Suspicion;
use serde_json::{Value, json};

/// A suspension's report.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Report {
    error: Value,
    is_mismatch: bool,
}

impl Report {
    /// Reports that the code no longer fits its history. `source`: the lines of user code that showed it, as in a
    /// stack; may be empty.
    pub(crate) fn of_mismatch(mismatch: &Mismatch, source: &str) -> Self {
        let mut message = mismatch.to_string();
        if !source.is_empty() {
            message.push('\n');
            message.push_str(source);
        }
        let details = json!({ "report": mismatch_report(mismatch, source) });
        Self {
            error: json!({ "code": "NONDETERMINISM", "message": message, "details": details }),
            is_mismatch: true,
        }
    }

    /// Reports that the instance has reached a limit.
    pub(crate) fn of_limit(limit: LimitReached) -> Self {
        let details = json!({ "limit": limit.name(), "max": limit.max() });
        Self::other(json!({ "code": "LIMIT", "message": limit.to_string(), "details": details }))
    }

    /// Takes the report of the host, JSON of `{ code, message, details }`. `source` as in
    /// [`of_mismatch`](Self::of_mismatch).
    pub(crate) fn of_host(report: &str, source: &str) -> Self {
        let Ok(mut report @ Value::Object(_)) = serde_json::from_str(report) else {
            return Self::of_problem(report);
        };
        if !source.is_empty() {
            let message = report["message"].as_str().unwrap_or_default();
            report["message"] = format!("{message}\n{source}").into();
        }
        let is_mismatch = report["code"] == "NONDETERMINISM";
        Self {
            error: report,
            is_mismatch,
        }
    }

    /// Reports another problem that keeps the instance from going on: its code cannot be run, or its history cannot be
    /// read.
    pub(crate) fn of_problem(problem: &str) -> Self {
        Self::other(json!({ "code": "SUSPENDED", "message": problem }))
    }

    /// Reports that the evidence is enough. The last piece of evidence: a turn of the instance did not come back.
    pub(crate) fn of_stall(turn_deadline: Duration) -> Self {
        let ms = turn_deadline.as_millis();
        Self::of_losses(&format!(
            "its turn blocked the event loop of the last worker for more than {ms} ms"
        ))
    }

    /// Reports that the evidence is enough. The last piece of evidence: the instance's worker died.
    pub(crate) fn of_death() -> Self {
        Self::of_losses("the last worker died")
    }

    /// Reports that the evidence is enough. The last piece of evidence: the instance took a thread down.
    pub(crate) fn of_thread() -> Self {
        Self::of_losses("a thread of the last worker ended during its turn")
    }

    fn of_losses(last: &str) -> Self {
        let workers = Suspicion::EVIDENCE_MAX;
        let message = format!("{workers} workers died or were blocked while it was running: {last}");
        Self::other(json!({ "code": "SUSPENDED", "message": message, "details": { "workers": workers } }))
    }

    /// Reports that a client holds the instance. `reason` is as the driver encoded it, and therefore stands in the
    /// details.
    pub(crate) fn of_client(reason: Payload) -> Self {
        let details = reason.map(|reason| json!({ "reason": reason }));
        Self::other(json!({ "code": "SUSPENDED", "message": "held by client.suspend", "details": details }))
    }

    const fn other(error: Value) -> Self {
        Self {
            error,
            is_mismatch: false,
        }
    }

    /// True if the code does not fit its history, so that other code may fit.
    pub(crate) const fn is_mismatch(&self) -> bool {
        self.is_mismatch
    }

    /// Returns the message, which may have several lines.
    pub(crate) fn message(&self) -> &str {
        self.error["message"].as_str().unwrap_or_default()
    }

    pub(crate) fn into_text(self) -> String {
        self.error.to_string()
    }
}

/// Returns the error, as JSON, of an instance whose suspension has the reason that its code no longer fits its history.
/// `source`: the lines of user code that showed it, as in a stack; may be empty.
#[must_use]
pub fn mismatch_error(mismatch: &Mismatch, source: &str) -> String {
    Report::of_mismatch(mismatch, source).into_text()
}

/// Returns a mismatch as `NondeterminismError.report` shows it.
#[must_use]
pub fn mismatch_report(mismatch: &Mismatch, source: &str) -> Value {
    let mut report = json!({
        "eventId": mismatch.event_id.0,
        "recorded": mismatch.recorded,
        "attempted": mismatch.attempted,
        "hint": mismatch.hint(),
    });
    if let Some(field) = &mismatch.field {
        report["field"] = json!({ "name": field.name, "recorded": field.recorded, "attempted": field.attempted });
    }
    if !source.is_empty() {
        report["source"] = source.into();
    }
    report
}
