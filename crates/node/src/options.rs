//! Options of a runtime, as the TypeScript side sends them after it has checked them.

use std::time::Duration;

use perdure_engine::Limits;
use perdure_provider::Queues;
use perdure_runtime::{KeepLogs, Level, RuntimeError, RuntimeOptions};
use serde_json::Value;

pub(crate) fn parse(text: &str) -> Result<RuntimeOptions, RuntimeError> {
    let argument = RuntimeError::Argument;
    let json: Value = serde_json::from_str(text).map_err(|e| argument(format!("the options are not JSON: {e}")))?;
    let defaults = RuntimeOptions::default();
    let count = |name: &str, default: usize| match &json[name] {
        Value::Null => Ok(default),
        value => {
            let n = value.as_u64().and_then(|n| usize::try_from(n).ok());
            n.ok_or_else(|| argument(format!("the option {name} must be a whole number, not {value}")))
        }
    };
    let lease_ms = count(
        "leaseMs",
        usize::try_from(defaults.lease.as_millis()).unwrap_or(usize::MAX),
    )?;
    let turn_deadline_ms = count(
        "turnDeadlineMs",
        usize::try_from(defaults.turn_deadline.as_millis()).unwrap_or(usize::MAX),
    )?;
    let turn_slice = match &json["turnSliceMs"] {
        Value::Null => defaults.turn_slice,
        value => {
            let ms = value.as_f64().filter(|ms| ms.is_finite() && *ms >= 0.0);
            let ms = ms.ok_or_else(|| argument(format!("the option turnSliceMs must be a number, not {value}")))?;
            Duration::from_secs_f64(ms / 1_000.0)
        }
    };
    let hold_timer_ms = count(
        "holdTimerMs",
        usize::try_from(defaults.hold_timer.as_millis()).unwrap_or(usize::MAX),
    )?;
    let session_idle_ms = count(
        "sessionIdleMs",
        usize::try_from(defaults.session_idle.as_millis()).unwrap_or(usize::MAX),
    )?;
    let queues = match &json["queues"] {
        Value::Null => defaults.queues,
        Value::String(any) if any == "any" => Queues::Any,
        value => serde_json::from_value(value.clone()).map(Queues::Named).map_err(|_| {
            argument(format!(
                "the option queues must be 'any' or a list of names, not {value}"
            ))
        })?,
    };
    Ok(RuntimeOptions {
        threads: count("threads", defaults.threads)?,
        queues,
        activity_concurrency: count("activityConcurrency", defaults.activity_concurrency)?.max(1),
        orchestration_concurrency: count("orchestrationConcurrency", defaults.orchestration_concurrency)?.max(1),
        cached_instances_max: count("cachedInstancesMax", defaults.cached_instances_max)?,
        lease: Duration::from_millis(lease_ms as u64),
        turn_deadline: Duration::from_millis(turn_deadline_ms as u64),
        turn_slice,
        hold_timer: Duration::from_millis(hold_timer_ms as u64),
        worker_name: json["workerName"].as_str().unwrap_or_default().to_owned(),
        node_version: json["nodeVersion"].as_str().unwrap_or_default().to_owned(),
        sessions_max: count("sessionsMax", defaults.sessions_max)?,
        session_idle: Duration::from_millis(session_idle_ms as u64),
        mailbox_messages: count("mailboxMessages", usize::MAX)? as u64,
        budget: defaults.budget,
        limits: Limits {
            history_events: count("historyEvents", usize::MAX)? as u64,
            history_bytes: count("historyBytes", usize::MAX)? as u64,
            turn_bytes: count("turnBytes", usize::MAX)? as u64,
            pending_activities: count("pendingActivities", usize::MAX)?,
        },
        keep_logs: keep_logs(&json["keepLogs"])?,
    })
}

fn keep_logs(json: &Value) -> Result<Option<KeepLogs>, RuntimeError> {
    if json.is_null() {
        return Ok(None);
    }
    let wrong = || RuntimeError::Argument(format!("the option keepLogs is wrong: {json}"));
    let number = |name: &str| json[name].as_u64().filter(|n| *n > 0).ok_or_else(wrong);
    Ok(Some(KeepLogs {
        level: json["level"].as_str().and_then(Level::parse).ok_or_else(wrong)?,
        lines_max: usize::try_from(number("maxLines")?).map_err(|_| wrong())?,
        age: Duration::from_millis(number("ageMs")?),
    }))
}

/// Returns true if warnings are logged. The options have been parsed before.
pub(crate) fn warns(text: &str) -> bool {
    let json: Value = serde_json::from_str(text).unwrap_or_default();
    let level = json["logLevel"].as_str().and_then(Level::parse);
    level.is_none_or(|level| level <= Level::Warn)
}
