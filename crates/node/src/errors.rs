//! Errors as data: the JSON `{ code, message, details }` from which `js/values/error-data.ts` makes the error classes.

use perdure_provider::{ProviderError, ProviderErrorKind};
use perdure_runtime::RuntimeError;
use serde_json::{Map, Value, json};

/// The error as JSON text.
pub(crate) fn to_json(error: &RuntimeError) -> String {
    let mut data = Map::new();
    data.insert("code".into(), error.code().into());
    data.insert("message".into(), error.to_string().into());
    if let Some(details) = details(error) {
        data.insert("details".into(), details);
    }
    Value::Object(data).to_string()
}

fn details(error: &RuntimeError) -> Option<Value> {
    Some(match error {
        RuntimeError::InstanceExists { id }
        | RuntimeError::InstanceNotFound { id }
        | RuntimeError::ExecutionNotFound { id, .. }
        | RuntimeError::ExecutionPruned { id, .. }
        | RuntimeError::AnswerGone { id, .. } => json!({ "instanceId": id }),
        RuntimeError::QueueNotFound { queue } => json!({ "queue": queue }),
        RuntimeError::QueueInUse {
            queue,
            waiting,
            running,
        } => {
            json!({ "queue": queue, "waiting": waiting, "running": running })
        }
        RuntimeError::TooManyQueues { max } => json!({ "limit": "queues", "max": max }),
        RuntimeError::InstanceEnded { id, status }
        | RuntimeError::NotSuspended { id, status }
        | RuntimeError::NotHeld { id, status }
        | RuntimeError::NotEnded { id, status } => {
            json!({ "instanceId": id, "status": status.as_str() })
        }
        RuntimeError::Nondeterminism(mismatch) => json!({ "report": perdure_runtime::mismatch_report(mismatch, "") }),
        RuntimeError::Limit(limit) => json!({ "limit": limit.name(), "max": limit.max() }),
        RuntimeError::MailboxFull { id, max } => {
            json!({ "limit": "mailboxMessages", "max": max, "instanceId": id })
        }
        RuntimeError::Provider(error) => provider_details(error),
        RuntimeError::TooLong { what, .. } => json!({ "path": what }),
        RuntimeError::State(_) | RuntimeError::Argument(_) => return None,
    })
}

fn provider_details(error: &ProviderError) -> Value {
    match error.kind {
        ProviderErrorKind::SchemaVersion { found, supported } => json!({ "found": found, "supported": supported }),
        ProviderErrorKind::Unencodable => {
            let path = error
                .message
                .split_once(" cannot be stored")
                .map_or("value", |(path, _)| path);
            json!({ "path": path })
        }
        kind => {
            json!({ "kind": format!("{kind:?}"), "retryable": error.retryable(), "outcome": error.outcome.as_str() })
        }
    }
}

/// Returns the error as a JavaScript exception whose message is the data.
pub(crate) fn thrown(error: &RuntimeError) -> napi::Error {
    napi::Error::from_reason(to_json(error))
}

/// Returns the error for a wrong argument, which the TypeScript side should have refused.
pub(crate) fn argument(message: impl Into<String>) -> napi::Error {
    thrown(&RuntimeError::Argument(message.into()))
}
