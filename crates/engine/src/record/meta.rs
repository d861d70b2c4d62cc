//! The meta column: the fields of an event that have no column of their own, as a JSON object. Its shape is a part of
//! the format of histories.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{
    ActivityOptions, Admission, ChildFailure, Incarnation, ParentLink, Payload, Refusal, StartConflict, StateValues,
    TimeLimit, TraceContext,
};

/// The fields that one kind of event keeps in its meta.
pub(super) trait Meta: Sized {
    /// Returns the content of the column.
    fn write(self) -> Option<String>;
    /// Reads the content of the column, or returns the problem.
    fn read(meta: Option<&str>) -> Result<Self, String>;
}

/// Meta that is always a JSON object with the fields of the type.
pub(super) trait Object: Serialize + DeserializeOwned {}

impl<T: Object> Meta for T {
    fn write(self) -> Option<String> {
        Some(to_json(&self))
    }

    fn read(meta: Option<&str>) -> Result<Self, String> {
        from_json(meta.unwrap_or("{}"))
    }
}

fn to_json<T: Serialize>(meta: &T) -> String {
    serde_json::to_string(meta).expect("a struct of strings and numbers is always JSON")
}

fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|e| format!("its meta is not what the kind needs: {e}"))
}

/// No fields. What the column holds beside the event ([`EventRecord::set_fiber`](crate::EventRecord::set_fiber)) is
/// not read.
pub(super) struct NoMeta;

impl Meta for NoMeta {
    fn write(self) -> Option<String> {
        None
    }

    fn read(_: Option<&str>) -> Result<Self, String> {
        Ok(Self)
    }
}

/// The default options are left out.
impl Meta for ActivityOptions {
    fn write(self) -> Option<String> {
        (self != Self::default()).then(|| to_json(&self))
    }

    fn read(meta: Option<&str>) -> Result<Self, String> {
        meta.map_or_else(|| Ok(Self::default()), from_json)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StartMeta<Seed = u64> {
    pub(super) version: String,
    pub(super) seed: Seed,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) incarnation: Option<Incarnation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) parent: Option<ParentLink>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) custom_status: Payload,
    #[serde(default, skip_serializing_if = "StateValues::is_empty")]
    pub(super) state: StateValues,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) closed_streams: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) time_limit: Option<TimeLimit>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) trace: TraceContext,
}

impl<Seed> StartMeta<Seed> {
    fn with_seed<Other>(self, seed: Other) -> StartMeta<Other> {
        let Self {
            version,
            incarnation,
            parent,
            custom_status,
            state,
            closed_streams,
            time_limit,
            trace,
            ..
        } = self;
        StartMeta {
            version,
            seed,
            incarnation,
            parent,
            custom_status,
            state,
            closed_streams,
            time_limit,
            trace,
        }
    }
}

/// The seed is written as text: JSON readers lose the low bits of large numbers.
impl Meta for StartMeta {
    fn write(self) -> Option<String> {
        let seed = self.seed.to_string();
        Some(to_json(&self.with_seed(seed)))
    }

    fn read(meta: Option<&str>) -> Result<Self, String> {
        let meta: StartMeta<String> = from_json(meta.unwrap_or("{}"))?;
        let seed = meta.seed.parse().map_err(|_| "its seed is no number")?;
        Ok(meta.with_seed(seed))
    }
}

/// Reads the incarnation of an instance from the meta of the first event of an execution.
///
/// # Errors
///
/// The JSON error, if the meta is not that of an `ExecutionStarted`.
pub fn incarnation_of(meta: &str) -> Result<Option<Incarnation>, serde_json::Error> {
    #[derive(Deserialize)]
    struct IncarnationMeta {
        #[serde(default)]
        incarnation: Option<Incarnation>,
    }
    serde_json::from_str(meta).map(|IncarnationMeta { incarnation }| incarnation)
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VersionMeta {
    pub(super) version: String,
}

impl Object for VersionMeta {}

/// The meta of `ExecutionBegan`, which is absent if the start named the version.
pub(super) struct BeganMeta {
    pub(super) version: Option<String>,
}

impl Meta for BeganMeta {
    fn write(self) -> Option<String> {
        self.version.and_then(|version| VersionMeta { version }.write())
    }

    fn read(meta: Option<&str>) -> Result<Self, String> {
        let version = meta.map(from_json::<VersionMeta>).transpose()?;
        Ok(Self {
            version: version.map(|meta| meta.version),
        })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InstanceStartMeta {
    pub(super) id: String,
    pub(super) version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tags: Option<String>,
    #[serde(default, skip_serializing_if = "crate::activity::is_zero")]
    pub(super) priority: i32,
    #[serde(default, skip_serializing_if = "StartConflict::is_default")]
    pub(super) on_conflict: StartConflict,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) admission: Option<Box<Admission>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) trace: TraceContext,
}

impl Object for InstanceStartMeta {}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AttemptMeta {
    attempt: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_at_ms: Option<i64>,
}

impl Object for AttemptMeta {}

/// The meta of an attempt that another one follows.
pub(super) struct RetriedAttemptMeta {
    pub(super) attempt: u32,
    pub(super) retry_at_ms: i64,
}

impl Meta for RetriedAttemptMeta {
    fn write(self) -> Option<String> {
        let retry_at_ms = Some(self.retry_at_ms);
        let attempt = self.attempt;
        AttemptMeta { attempt, retry_at_ms }.write()
    }

    fn read(meta: Option<&str>) -> Result<Self, String> {
        let AttemptMeta { attempt, retry_at_ms } = Meta::read(meta)?;
        let retry_at_ms = retry_at_ms.ok_or("it has no retryAtMs")?;
        Ok(Self { attempt, retry_at_ms })
    }
}

/// The meta of the last attempt.
pub(super) struct LastAttemptMeta {
    pub(super) attempt: u32,
}

impl Meta for LastAttemptMeta {
    fn write(self) -> Option<String> {
        let attempt = self.attempt;
        let retry_at_ms = None;
        AttemptMeta { attempt, retry_at_ms }.write()
    }

    fn read(meta: Option<&str>) -> Result<Self, String> {
        let AttemptMeta { attempt, .. } = Meta::read(meta)?;
        Ok(Self { attempt })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TimerMeta {
    pub(super) fire_at_ms: i64,
}

impl Object for TimerMeta {}

#[derive(Serialize, Deserialize)]
pub(super) struct ChildFailedMeta {
    pub(super) failure: ChildFailure,
}

impl Object for ChildFailedMeta {}

#[derive(Serialize, Deserialize)]
pub(super) struct SentMeta {
    pub(super) instance: String,
}

impl Object for SentMeta {}

#[derive(Serialize, Deserialize)]
pub(super) struct RefusedMeta {
    pub(super) refusal: Refusal,
}

impl Object for RefusedMeta {}

/// State of the code when a request to cancel came to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum CancelPoint {
    /// The code waited.
    #[default]
    Wait,
    /// The code did not wait.
    Step,
    /// The instance was suspended.
    Suspended,
}

/// The meta of a request to cancel, which is absent if the code waited.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct CancelMeta {
    #[serde(default)]
    pub(super) at: CancelPoint,
}

impl Meta for CancelMeta {
    fn write(self) -> Option<String> {
        (self.at != CancelPoint::Wait).then(|| to_json(&self))
    }

    fn read(meta: Option<&str>) -> Result<Self, String> {
        meta.map_or_else(|| Ok(Self::default()), from_json)
    }
}

/// The meta of `ExecutionCancelled`, which is absent if the code ended by itself.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct CancelledMeta {
    #[serde(default)]
    pub(super) outside: bool,
}

impl Meta for CancelledMeta {
    fn write(self) -> Option<String> {
        self.outside.then(|| to_json(&self))
    }

    fn read(meta: Option<&str>) -> Result<Self, String> {
        meta.map_or_else(|| Ok(Self::default()), from_json)
    }
}
