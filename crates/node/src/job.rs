//! Values that cross the boundary in a turn: jobs, deliveries, and the description from which a generator is made.

use napi_derive::napi;
use perdure_engine::{ChildFailure, Delivery, Incarnation, Refusal};
use perdure_runtime::{ActivityJob, Delivered, Facts, Job, RuntimeError};
use serde_json::{Map, Value, json};

use crate::command::mailbox_parts;
use crate::frame::{Frame, STRING_UNITS_MAX};

/// Sizes of the maps keyed by instance.
#[napi(object, object_from_js = false)]
pub struct MapSizes {
    /// Loaded instances.
    pub instances: u32,
    /// Turns in progress.
    pub turns: u32,
    /// Attempts of activities.
    pub activities: u32,
}

/// Maximum bytes of the texts of a job, besides names and ids.
const SHORT: usize = STRING_UNITS_MAX - 64 * 1024 * 1024;

/// Names of the texts of jobs and deliveries in an error.
const JOB: &str = "the input of the attempt";
const VALUE: &str = "the value that comes next in the history";

/// Writes a job. Its kinds are `TURN`, `ACTIVITY`, `ABORT`, `DROP`, `LOG` and `ENDED` of `js/binding/jobs.ts`, which
/// lists their facts and texts.
///
/// # Errors
///
/// [`RuntimeError::TooLong`].
pub(crate) fn job(job: Job, frame: &Frame) -> Result<String, RuntimeError> {
    match shortened(job) {
        Job::Turn(token) => frame.write(0, [token.0 as f64], [], JOB),
        Job::Activity(job) => {
            let incarnation = halves(job.incarnation);
            frame.write(
                1,
                [
                    job.token.0 as f64,
                    f64::from(job.attempt),
                    job.timeout_ms.map_or(f64::INFINITY, |ms| ms as f64),
                    job.execution as f64,
                    job.scheduled.0 as f64,
                    incarnation[0],
                    incarnation[1],
                    f64::from(u32::from(job.is_untried)),
                ],
                {
                    let extras = extras(&job);
                    [
                        Some(job.instance_id),
                        Some(job.orchestration),
                        Some(job.name),
                        extras,
                        job.input,
                        Some(job.version),
                        job.tags,
                    ]
                },
                JOB,
            )
        }
        Job::Abort { activity, reason } => frame.write(2, [activity.0 as f64], [Some(reason.as_str().to_owned())], JOB),
        Job::Drop(token) => frame.write(3, [token.0 as f64], [], JOB),
        Job::Ended(instance) => frame.write(
            5,
            [instance.execution as f64],
            [
                Some(instance.instance_id),
                Some(instance.name),
                Some(instance.version),
                Some(instance.status.as_str().to_owned()),
            ],
            JOB,
        ),
        Job::Log(record) => frame.write(
            4,
            [
                f64::from(u32::from(record.internal)),
                record
                    .error
                    .as_ref()
                    .and_then(|error| error.scheduled)
                    .map_or(0.0, |event| event.0 as f64),
            ],
            [
                Some(record.level.as_str().to_owned()),
                Some(record.message),
                record.fields,
                record.error.map(|error| error.text),
            ],
            JOB,
        ),
    }
}

/// Shortens a job whose texts are too long for a string. An attempt whose input is too long gets a text that is no
/// value instead, so it fails where the text is read. A log line loses its fields and its error. Bytes are counted; no
/// text has fewer bytes than units.
fn shortened(mut job: Job) -> Job {
    let len = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    match &mut job {
        Job::Activity(attempt) if len(&attempt.input) + 2 * len(&attempt.last_heartbeat) > SHORT => {
            attempt.input = Some(format!("(too long: {} bytes)", len(&attempt.input)));
            attempt.last_heartbeat = None;
        }
        Job::Log(record) => {
            let error = record.error.as_ref().map_or(0, |error| error.text.len());
            if record.message.len() + len(&record.fields) + error > SHORT {
                (record.fields, record.error) = (None, None);
            }
        }
        _ => {}
    }
    job
}

/// Returns an incarnation as two signed 32-bit numbers, the upper half first, which JavaScript holds without an
/// allocation; 0 and 0 for none.
fn halves(incarnation: Option<Incarnation>) -> [f64; 2] {
    let Incarnation(number) = incarnation.unwrap_or(Incarnation(0));
    [(number >> 32) as i32, number as i32].map(f64::from)
}

/// Returns the data that only some attempts have as JSON: `AttemptExtras` of `js/activity/activity-context.ts`.
fn extras(job: &ActivityJob) -> Option<String> {
    let ActivityJob {
        total_timeout,
        schedule_to_start_timeout_ms,
        heartbeat_timeout_ms,
        last_heartbeat,
        inline,
        trace,
        queue,
        session,
        ..
    } = job;
    let has_times = total_timeout.is_some() || schedule_to_start_timeout_ms.is_some() || heartbeat_timeout_ms.is_some();
    let has_others = inline.is_some() || trace.is_some() || queue.is_some() || session.is_some();
    if !has_times && last_heartbeat.is_none() && !has_others {
        return None;
    }
    let mut extras = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            extras.insert(name.into(), value);
        }
    };
    put("totalTimeoutMs", total_timeout.map(|(total_ms, _)| total_ms.into()));
    put("totalLeftMs", total_timeout.map(|(_, left_ms)| left_ms.into()));
    put(
        "scheduleToStartTimeoutMs",
        schedule_to_start_timeout_ms.map(Value::from),
    );
    put("heartbeatTimeoutMs", heartbeat_timeout_ms.map(Value::from));
    put("lastHeartbeat", last_heartbeat.as_deref().map(Value::from));
    put("session", session.as_deref().map(Value::from));
    put("inline", inline.map(|token| token.0.into()));
    put("queue", queue.as_deref().map(Value::from));
    if let Some(trace) = trace {
        put("trace", Some(trace.as_str().into()));
        put("owner", job.owner.map(|token| token.0.into()));
    }
    Some(Value::Object(extras).to_string())
}

/// Writes the description from which a generator is made. Facts: the execution, the deterministic time in ms since
/// 1970. Texts: the id of the instance, the name and the version of the orchestration, the id of the parent, the
/// initial custom status, the trace context of the start, the initial state as JSON if there is any, the input.
///
/// # Errors
///
/// [`RuntimeError::TooLong`].
pub(crate) fn description(facts: Facts, frame: &Frame) -> Result<String, RuntimeError> {
    frame.write(
        0,
        [facts.execution as f64, facts.time_ms as f64],
        [
            Some(facts.instance_id),
            Some(facts.name),
            Some(facts.version),
            facts.parent_id,
            facts.custom_status,
            facts.trace,
            (!facts.state.is_empty()).then(|| json!(facts.state).to_string()),
            facts.input,
        ],
        "the input of the execution",
    )
}

/// Writes a delivery. Its kinds are those of `js/driver/delivery.ts`. Facts: the deterministic time, the operation, the
/// detail, which is the kind of the mailbox for a message. Texts: the name of the mailbox, the value.
///
/// # Errors
///
/// [`RuntimeError::TooLong`].
pub(crate) fn delivery(delivered: Delivered, frame: &Frame) -> Result<String, RuntimeError> {
    let time = delivered.time_ms as f64;
    match delivered.delivery {
        Delivery::Succeeded { operation, value } => {
            frame.write(0, [time, operation.0 as f64, 0.0], [None, value], VALUE)
        }
        Delivery::Failed {
            operation,
            error,
            attempt,
        } => frame.write(1, [time, operation.0 as f64, f64::from(attempt)], [None, error], VALUE),
        Delivery::ChildFailed {
            operation,
            failure,
            error,
        } => {
            let how = match failure {
                ChildFailure::Failed => 0.0,
                ChildFailure::Cancelled => 1.0,
                ChildFailure::Terminated => 2.0,
            };
            frame.write(4, [time, operation.0 as f64, how], [None, error], VALUE)
        }
        Delivery::Refused { operation, refusal } => {
            let (why, max) = match refusal {
                Refusal::InstanceExists => (0.0, None),
                Refusal::InstanceNotFound => (1.0, None),
                Refusal::InstanceEnded => (2.0, None),
                Refusal::MailboxFull { max } => (3.0, Some(max.to_string())),
                Refusal::QueueNotFound => (4.0, None),
            };
            frame.write(5, [time, operation.0 as f64, why], [None, max], VALUE)
        }
        Delivery::Message { mailbox, payload } => {
            let (kind, name) = mailbox_parts(mailbox);
            frame.write(2, [time, 0.0, f64::from(kind)], [Some(name), payload], VALUE)
        }
        Delivery::Asked { payload } => frame.write(7, [time, 0.0, 0.0], [None, payload], VALUE),
        Delivery::MailboxEmpty { mailbox } => {
            let (kind, name) = mailbox_parts(mailbox);
            frame.write(6, [time, 0.0, f64::from(kind)], [Some(name), None], VALUE)
        }
        Delivery::Cancel { reason, timeout_ms } => {
            let timeout = timeout_ms.map_or(0.0, |ms| ms as f64);
            frame.write(3, [time, 0.0, timeout], [None, reason], VALUE)
        }
    }
}
