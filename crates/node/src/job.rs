//! What passes the boundary in a turn: jobs and deliveries, as objects of JavaScript.

use napi::bindgen_prelude::Either4;
use napi_derive::napi;
use perdure_engine::{Delivery as EngineDelivery, Mailbox};
use perdure_runtime::{Delivered, Facts, Job, RuntimeError};

use crate::errors::thrown;

/// Drive an instance (kind 0), or forget its generator (kind 3).
#[napi(object, object_from_js = false)]
pub struct InstanceJob {
    /// 0 or 3.
    pub kind: u32,
    /// The instance.
    pub token: u32,
}

/// Run an attempt of an activity.
#[napi(object, object_from_js = false, use_nullable = true)]
pub struct ActivityJob {
    /// 1.
    pub kind: u32,
    /// The attempt.
    pub token: u32,
    /// Name of the activity.
    pub name: String,
    /// Its input.
    pub input: Option<String>,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// How long it may take, ms; -1: no limit.
    pub timeout_ms: f64,
    /// Id of the instance.
    pub instance_id: String,
    /// Its execution.
    pub execution_id: f64,
    /// Name of its orchestration.
    pub orchestration_name: String,
    /// The schedule.
    pub operation: f64,
}

/// Abort an attempt.
#[napi(object, object_from_js = false)]
pub struct AbortJob {
    /// 2.
    pub kind: u32,
    /// The attempt.
    pub token: u32,
    /// `cancelled`, `shutdown` or `leaseLost`.
    pub reason: String,
}

/// Write a log record.
#[napi(object, object_from_js = false, use_nullable = true)]
pub struct LogJob {
    /// 4.
    pub kind: u32,
    /// `debug`, `info`, `warn` or `error`.
    pub level: String,
    /// What happened.
    pub message: String,
    /// JSON text of an object.
    pub fields: Option<String>,
    /// Whether it is the runtime's own, not an orchestration's.
    pub internal: bool,
}

/// What a job can be.
pub(crate) type AnyJob = Either4<InstanceJob, ActivityJob, AbortJob, LogJob>;

/// What the code is handed: succeeded (0), failed for good (1), message (2), cancel (3).
#[napi(object, object_from_js = false, use_nullable = true)]
pub struct Delivery {
    /// 0 to 3.
    pub kind: u32,
    /// The operation; 0 for a message or a cancel.
    pub operation: f64,
    /// Value, error, message or reason.
    pub value: Option<String>,
    /// Number of the last attempt of a failed activity.
    pub attempt: u32,
    /// `e` or `q` and the name of the mailbox.
    pub mailbox: Option<String>,
    /// The deterministic time from here on, ms since 1970.
    pub time_ms: f64,
}

/// What is needed to make a generator.
#[napi(object, object_from_js = false, use_nullable = true)]
pub struct Description {
    /// Id of the instance.
    pub instance_id: String,
    /// Its execution.
    pub execution_id: f64,
    /// Name of the orchestration.
    pub name: String,
    /// Version of the orchestration.
    pub version: String,
    /// Its input.
    pub input: Option<String>,
    /// Id of the parent instance.
    pub parent_id: Option<String>,
    /// The deterministic time, ms since 1970.
    pub time_ms: f64,
}

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

/// A job as an object.
pub(crate) fn any_job(job: Job) -> AnyJob {
    match job {
        Job::Turn(token) => Either4::A(InstanceJob {
            kind: 0,
            token: token.0,
        }),
        Job::Drop(token) => Either4::A(InstanceJob {
            kind: 3,
            token: token.0,
        }),
        Job::Activity(job) => Either4::B(ActivityJob {
            kind: 1,
            token: job.token.0,
            name: job.name,
            input: job.input,
            attempt: job.attempt,
            timeout_ms: job.timeout_ms.map_or(-1.0, |ms| ms as f64),
            instance_id: job.instance_id,
            execution_id: job.execution as f64,
            orchestration_name: job.orchestration,
            operation: job.scheduled.0 as f64,
        }),
        Job::Abort { activity, reason } => Either4::C(AbortJob {
            kind: 2,
            token: activity.0,
            reason: reason.as_str().to_owned(),
        }),
        Job::Log(record) => Either4::D(LogJob {
            kind: 4,
            level: record.level.as_str().to_owned(),
            message: record.message,
            fields: record.fields,
            internal: record.internal,
        }),
    }
}

/// What the host must know of an instance, as an object.
pub(crate) fn description(facts: Facts) -> Description {
    Description {
        instance_id: facts.instance_id,
        execution_id: facts.execution as f64,
        name: facts.name,
        version: facts.version,
        input: facts.input,
        parent_id: facts.parent_id,
        time_ms: facts.time_ms as f64,
    }
}

/// The mailbox that `e` or `q` and a name stand for.
pub(crate) fn mailbox(text: String) -> napi::Result<Mailbox> {
    match text.as_bytes().first() {
        Some(b'e') => Ok(Mailbox::Event(text[1..].to_owned())),
        Some(b'q') => Ok(Mailbox::Queue(text[1..].to_owned())),
        _ => Err(thrown(&RuntimeError::Argument(format!("'{text}' names no mailbox")))),
    }
}

/// A delivery as an object.
pub(crate) fn delivery(delivered: Delivered) -> Delivery {
    let mut js = Delivery {
        kind: 0,
        operation: 0.0,
        value: None,
        attempt: 0,
        mailbox: None,
        time_ms: delivered.time_ms as f64,
    };
    match delivered.delivery {
        EngineDelivery::Succeeded { operation, value } => {
            js.operation = operation.0 as f64;
            js.value = value;
        }
        EngineDelivery::Failed {
            operation,
            error,
            attempt,
        } => {
            js.kind = 1;
            js.operation = operation.0 as f64;
            js.value = error;
            js.attempt = attempt;
        }
        EngineDelivery::Message { mailbox, payload } => {
            js.kind = 2;
            js.mailbox = Some(match mailbox {
                Mailbox::Event(name) => format!("e{name}"),
                Mailbox::Queue(name) => format!("q{name}"),
            });
            js.value = payload;
        }
        EngineDelivery::Cancel { reason } => {
            js.kind = 3;
            js.value = reason;
        }
    }
    js
}
