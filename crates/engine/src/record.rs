//! Events as rows: the columns that every store keeps, and nothing that belongs to one store.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    ActivityOptions, CancelPoint, ChildFailure, Event, EventId, Incarnation, InstanceStart, Mailbox, ParentLink,
    Payload, Refusal, TraceContext,
};

/// One history event as a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRecord {
    /// Place in the execution's history, from 1.
    pub event_id: EventId,
    /// When it was recorded, ms since 1970.
    pub time_ms: i64,
    /// Kind of the event.
    pub kind: EventKind,
    /// The earlier event it refers to (the schedule of a completion).
    pub ref_id: Option<EventId>,
    /// Name of the orchestration, activity, patch or mailbox.
    pub name: Option<String>,
    /// Input, output, error or message, as the driver made it.
    pub payload: Payload,
    /// Further fields of the event: a JSON object made by the engine.
    pub meta: Option<String>,
}

macro_rules! kinds {
    ($($kind:ident),+ $(,)?) => {
        /// Kind of a history event; its text is what stores keep.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum EventKind {
            $(#[doc = concat!("`", stringify!($kind), "`")] $kind,)+
        }

        impl EventKind {
            /// Every kind.
            pub const ALL: &'static [EventKind] = &[$(EventKind::$kind),+];

            /// The kind's text.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(EventKind::$kind => stringify!($kind),)+ }
            }

            /// The kind of a text.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                match text { $(stringify!($kind) => Some(EventKind::$kind),)+ _ => None }
            }
        }
    };
}

kinds!(
    ExecutionStarted,
    ExecutionBegan,
    ActivityScheduled,
    ActivityCompleted,
    ActivityAttemptFailed,
    ActivityFailed,
    TimerCreated,
    TimerFired,
    ChildScheduled,
    ChildCompleted,
    ChildFailed,
    InstanceStarted,
    EventSent,
    QueueSent,
    OperationConfirmed,
    OperationRefused,
    OperationCancelled,
    PatchApplied,
    EventReceived,
    QueueReceived,
    CancelRequested,
    ExecutionCompleted,
    ExecutionFailed,
    ExecutionCancelled,
    ExecutionContinuedAsNew,
    ExecutionTerminated,
);

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A row that is no event: the store was changed by another program than Perdure, or by a newer version of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event {event_id} ({kind}) cannot be read: {problem}")]
pub struct RecordError {
    /// Id of the event.
    pub event_id: EventId,
    /// Its kind.
    pub kind: EventKind,
    /// The problem.
    pub problem: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StartMeta {
    version: String,
    /// As text: JSON readers lose the low bits of large numbers.
    seed: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    incarnation: Option<Incarnation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<ParentLink>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    custom_status: Payload,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trace: TraceContext,
}

/// Reads the incarnation of an instance from the meta of the first event of an execution.
///
/// # Errors
///
/// The JSON error, if the meta is not that of an `ExecutionStarted`.
pub fn incarnation_of(meta: &str) -> Result<Option<Incarnation>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Told {
        #[serde(default)]
        incarnation: Option<Incarnation>,
    }
    serde_json::from_str(meta).map(|Told { incarnation }| incarnation)
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct InstanceStartMeta {
    id: String,
    version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tags: Option<String>,
    #[serde(default, skip_serializing_if = "crate::activity::is_zero")]
    priority: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trace: TraceContext,
}

#[derive(Serialize, Deserialize)]
struct ChildFailedMeta {
    failure: ChildFailure,
}

#[derive(Serialize, Deserialize)]
struct SentMeta {
    instance: String,
}

#[derive(Serialize, Deserialize)]
struct CancelMeta {
    #[serde(default)]
    at: CancelPoint,
}

#[derive(Serialize, Deserialize)]
struct CancelledMeta {
    #[serde(default)]
    outside: bool,
}

#[derive(Serialize, Deserialize)]
struct RefusedMeta {
    refusal: Refusal,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct VersionMeta {
    version: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AttemptMeta {
    attempt: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_at_ms: Option<i64>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TimerMeta {
    fire_at_ms: i64,
}

fn json<T: Serialize>(meta: &T) -> Option<String> {
    Some(serde_json::to_string(meta).expect("a struct of strings and numbers is always JSON"))
}

impl EventRecord {
    /// Bytes of the texts in the row that may be long. They limit a page, as does the number of its events.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let len = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        len(&self.payload) + len(&self.meta)
    }

    /// Returns the row of an event.
    #[must_use]
    pub fn new(event_id: EventId, time_ms: i64, event: Event) -> Self {
        let mut row = Self {
            event_id,
            time_ms,
            kind: EventKind::ExecutionStarted,
            ref_id: None,
            name: None,
            payload: None,
            meta: None,
        };
        match event {
            Event::ExecutionStarted {
                name,
                version,
                input,
                seed,
                incarnation,
                parent,
                custom_status,
                trace,
            } => {
                row.name = Some(name);
                row.payload = input;
                row.meta = json(&StartMeta {
                    version,
                    seed: seed.to_string(),
                    incarnation,
                    parent,
                    custom_status,
                    trace,
                });
            }
            Event::ExecutionBegan { version } => {
                row.kind = EventKind::ExecutionBegan;
                row.meta = version.and_then(|version| json(&VersionMeta { version }));
            }
            Event::ActivityScheduled { name, input, options } => {
                row.kind = EventKind::ActivityScheduled;
                row.name = Some(name);
                row.payload = input;
                row.meta = if options == ActivityOptions::default() {
                    None
                } else {
                    json(&options)
                };
            }
            Event::ActivityCompleted { scheduled, output } => {
                row.kind = EventKind::ActivityCompleted;
                row.ref_id = Some(scheduled);
                row.payload = output;
            }
            Event::ActivityAttemptFailed {
                scheduled,
                attempt,
                error,
                retry_at_ms,
            } => {
                row.kind = EventKind::ActivityAttemptFailed;
                row.ref_id = Some(scheduled);
                row.payload = error;
                row.meta = json(&AttemptMeta {
                    attempt,
                    retry_at_ms: Some(retry_at_ms),
                });
            }
            Event::ActivityFailed {
                scheduled,
                attempt,
                error,
            } => {
                row.kind = EventKind::ActivityFailed;
                row.ref_id = Some(scheduled);
                row.payload = error;
                row.meta = json(&AttemptMeta {
                    attempt,
                    retry_at_ms: None,
                });
            }
            Event::TimerCreated { fire_at_ms } => {
                row.kind = EventKind::TimerCreated;
                row.meta = json(&TimerMeta { fire_at_ms });
            }
            Event::TimerFired { timer } => {
                row.kind = EventKind::TimerFired;
                row.ref_id = Some(timer);
            }
            Event::ChildScheduled(start) => {
                row.kind = EventKind::ChildScheduled;
                row.describe_start(start);
            }
            Event::ChildCompleted { scheduled, output } => {
                row.kind = EventKind::ChildCompleted;
                row.ref_id = Some(scheduled);
                row.payload = output;
            }
            Event::ChildFailed {
                scheduled,
                failure,
                error,
            } => {
                row.kind = EventKind::ChildFailed;
                row.ref_id = Some(scheduled);
                row.payload = error;
                row.meta = json(&ChildFailedMeta { failure });
            }
            Event::InstanceStarted(start) => {
                row.kind = EventKind::InstanceStarted;
                row.describe_start(start);
            }
            Event::MessageSent {
                instance,
                mailbox,
                payload,
            } => {
                let (kind, name) = match mailbox {
                    Mailbox::Event(name) => (EventKind::EventSent, name),
                    Mailbox::Queue(name) => (EventKind::QueueSent, name),
                };
                row.kind = kind;
                row.name = Some(name);
                row.payload = payload;
                row.meta = json(&SentMeta { instance });
            }
            Event::OperationConfirmed { scheduled } => {
                row.kind = EventKind::OperationConfirmed;
                row.ref_id = Some(scheduled);
            }
            Event::OperationRefused { scheduled, refusal } => {
                row.kind = EventKind::OperationRefused;
                row.ref_id = Some(scheduled);
                row.meta = json(&RefusedMeta { refusal });
            }
            Event::OperationCancelled { scheduled } => {
                row.kind = EventKind::OperationCancelled;
                row.ref_id = Some(scheduled);
            }
            Event::PatchApplied { patch } => {
                row.kind = EventKind::PatchApplied;
                row.name = Some(patch);
            }
            Event::MessageReceived { mailbox, payload } => {
                let (kind, name) = match mailbox {
                    Mailbox::Event(name) => (EventKind::EventReceived, name),
                    Mailbox::Queue(name) => (EventKind::QueueReceived, name),
                };
                row.kind = kind;
                row.name = Some(name);
                row.payload = payload;
            }
            Event::CancelRequested { reason, at } => {
                row.kind = EventKind::CancelRequested;
                row.payload = reason;
                row.meta = (at != CancelPoint::Wait).then(|| json(&CancelMeta { at })).flatten();
            }
            Event::ExecutionCompleted { output } => {
                row.kind = EventKind::ExecutionCompleted;
                row.payload = output;
            }
            Event::ExecutionFailed { error } => {
                row.kind = EventKind::ExecutionFailed;
                row.payload = error;
            }
            Event::ExecutionCancelled { error, outside } => {
                row.kind = EventKind::ExecutionCancelled;
                row.payload = error;
                row.meta = outside.then(|| json(&CancelledMeta { outside })).flatten();
            }
            Event::ExecutionContinuedAsNew { input, version } => {
                row.kind = EventKind::ExecutionContinuedAsNew;
                row.payload = input;
                row.meta = json(&VersionMeta { version });
            }
            Event::ExecutionTerminated { reason } => {
                row.kind = EventKind::ExecutionTerminated;
                row.payload = reason;
            }
        }
        row
    }

    /// Notes the fiber of the event as `fiber` in its meta, for readers of a history. Only schedules, starts, and sent
    /// or received messages have a fiber, and those of the main fiber go without.
    ///
    /// ```
    /// # use perdure_engine::{Event, EventId, EventRecord};
    /// let mut row = EventRecord::new(EventId(2), 0, Event::TimerCreated { fire_at_ms: 5 });
    /// row.set_fiber(3);
    /// assert_eq!(row.meta.as_deref(), Some(r#"{"fireAtMs":5,"fiber":3}"#));
    /// ```
    pub fn set_fiber(&mut self, fiber: u32) {
        use EventKind as Kind;
        let has_one = matches!(
            self.kind,
            Kind::ActivityScheduled
                | Kind::TimerCreated
                | Kind::ChildScheduled
                | Kind::InstanceStarted
                | Kind::EventSent
                | Kind::QueueSent
                | Kind::EventReceived
                | Kind::QueueReceived
        );
        if fiber == 0 || !has_one {
            return;
        }
        let meta = self.meta.get_or_insert_with(|| "{}".into());
        // The meta is a JSON object, and this function is called once for a row.
        let comma = if meta.len() > 2 { "," } else { "" };
        meta.truncate(meta.len() - 1);
        meta.push_str(&format!("{comma}\"fiber\":{fiber}}}"));
    }

    fn describe_start(&mut self, start: InstanceStart) {
        let InstanceStart {
            id,
            name,
            version,
            input,
            tags,
            priority,
            trace,
        } = start;
        self.name = Some(name);
        self.payload = input;
        self.meta = json(&InstanceStartMeta {
            id,
            version,
            tags,
            priority,
            trace,
        });
    }

    /// Returns the event of a row.
    ///
    /// # Errors
    ///
    /// [`RecordError`] if a column that the kind needs is absent or has no valid value.
    pub fn into_event(self) -> Result<Event, RecordError> {
        let Self {
            event_id,
            kind,
            ref_id,
            name,
            payload,
            meta,
            ..
        } = self;
        let fail = |problem: String| RecordError {
            event_id,
            kind,
            problem,
        };
        let name = || name.ok_or_else(|| fail("it has no name".into()));
        let reference = || ref_id.ok_or_else(|| fail("it refers to no earlier event".into()));
        let text = meta.as_deref().unwrap_or("{}");
        let bad = |e: serde_json::Error| fail(format!("its meta is not what the kind needs: {e}"));
        if matches!(kind, EventKind::ChildScheduled | EventKind::InstanceStarted) {
            let meta: InstanceStartMeta = serde_json::from_str(text).map_err(bad)?;
            let start = InstanceStart {
                id: meta.id,
                name: name()?,
                version: meta.version,
                input: payload,
                tags: meta.tags,
                priority: meta.priority,
                trace: meta.trace,
            };
            return Ok(if kind == EventKind::ChildScheduled {
                Event::ChildScheduled(start)
            } else {
                Event::InstanceStarted(start)
            });
        }
        let sent = |mailbox: fn(String) -> Mailbox, name: String, payload: Payload| {
            let SentMeta { instance } = serde_json::from_str(text).map_err(bad)?;
            Ok(Event::MessageSent {
                instance,
                mailbox: mailbox(name),
                payload,
            })
        };
        Ok(match kind {
            EventKind::ExecutionStarted => {
                let meta: StartMeta = serde_json::from_str(text).map_err(bad)?;
                let seed = meta.seed.parse().map_err(|_| fail("its seed is no number".into()))?;
                Event::ExecutionStarted {
                    name: name()?,
                    version: meta.version,
                    input: payload,
                    seed,
                    incarnation: meta.incarnation,
                    parent: meta.parent,
                    custom_status: meta.custom_status,
                    trace: meta.trace,
                }
            }
            EventKind::ExecutionBegan => {
                let version = meta
                    .is_some()
                    .then(|| serde_json::from_str(text).map_err(bad))
                    .transpose()?;
                Event::ExecutionBegan {
                    version: version.map(|VersionMeta { version }| version),
                }
            }
            EventKind::ActivityScheduled => Event::ActivityScheduled {
                name: name()?,
                input: payload,
                options: if meta.is_none() {
                    ActivityOptions::default()
                } else {
                    serde_json::from_str(text).map_err(bad)?
                },
            },
            EventKind::ActivityCompleted => Event::ActivityCompleted {
                scheduled: reference()?,
                output: payload,
            },
            EventKind::ActivityAttemptFailed => {
                let meta: AttemptMeta = serde_json::from_str(text).map_err(bad)?;
                let retry_at_ms = meta.retry_at_ms.ok_or_else(|| fail("it has no retryAtMs".into()))?;
                Event::ActivityAttemptFailed {
                    scheduled: reference()?,
                    attempt: meta.attempt,
                    error: payload,
                    retry_at_ms,
                }
            }
            EventKind::ActivityFailed => {
                let meta: AttemptMeta = serde_json::from_str(text).map_err(bad)?;
                Event::ActivityFailed {
                    scheduled: reference()?,
                    attempt: meta.attempt,
                    error: payload,
                }
            }
            EventKind::TimerCreated => {
                let meta: TimerMeta = serde_json::from_str(text).map_err(bad)?;
                Event::TimerCreated {
                    fire_at_ms: meta.fire_at_ms,
                }
            }
            EventKind::TimerFired => Event::TimerFired { timer: reference()? },
            EventKind::ChildScheduled | EventKind::InstanceStarted => unreachable!("read above"),
            EventKind::ChildCompleted => Event::ChildCompleted {
                scheduled: reference()?,
                output: payload,
            },
            EventKind::ChildFailed => {
                let ChildFailedMeta { failure } = serde_json::from_str(text).map_err(bad)?;
                Event::ChildFailed {
                    scheduled: reference()?,
                    failure,
                    error: payload,
                }
            }
            EventKind::EventSent => sent(Mailbox::Event, name()?, payload)?,
            EventKind::QueueSent => sent(Mailbox::Queue, name()?, payload)?,
            EventKind::OperationConfirmed => Event::OperationConfirmed {
                scheduled: reference()?,
            },
            EventKind::OperationRefused => {
                let RefusedMeta { refusal } = serde_json::from_str(text).map_err(bad)?;
                Event::OperationRefused {
                    scheduled: reference()?,
                    refusal,
                }
            }
            EventKind::OperationCancelled => Event::OperationCancelled {
                scheduled: reference()?,
            },
            EventKind::PatchApplied => Event::PatchApplied { patch: name()? },
            EventKind::EventReceived => Event::MessageReceived {
                mailbox: Mailbox::Event(name()?),
                payload,
            },
            EventKind::QueueReceived => Event::MessageReceived {
                mailbox: Mailbox::Queue(name()?),
                payload,
            },
            EventKind::CancelRequested => Event::CancelRequested {
                reason: payload,
                at: if meta.is_none() {
                    CancelPoint::Wait
                } else {
                    serde_json::from_str::<CancelMeta>(text).map_err(bad)?.at
                },
            },
            EventKind::ExecutionCompleted => Event::ExecutionCompleted { output: payload },
            EventKind::ExecutionFailed => Event::ExecutionFailed { error: payload },
            EventKind::ExecutionCancelled => Event::ExecutionCancelled {
                error: payload,
                outside: if meta.is_none() {
                    false
                } else {
                    serde_json::from_str::<CancelledMeta>(text).map_err(bad)?.outside
                },
            },
            EventKind::ExecutionContinuedAsNew => {
                let VersionMeta { version } = serde_json::from_str(text).map_err(bad)?;
                Event::ExecutionContinuedAsNew {
                    input: payload,
                    version,
                }
            }
            EventKind::ExecutionTerminated => Event::ExecutionTerminated { reason: payload },
        })
    }
}
