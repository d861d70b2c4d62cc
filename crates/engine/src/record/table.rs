//! The table of all kinds of events: the name of each kind, the columns that it uses, and its meta.

use std::fmt;

use super::meta::{
    BeganMeta, CancelMeta, CancelPoint, CancelledMeta, ChildFailedMeta, InstanceStartMeta, LastAttemptMeta, Meta,
    NoMeta, RefusedMeta, RetriedAttemptMeta, SentMeta, StartMeta, TimerMeta, VersionMeta,
};
use super::{EventRecord, RecordError};
use crate::{
    CommandEvent, DeliveryEvent, EndEvent, Event, EventId, ExecutionStarted, InstanceStart, Interruption, Mailbox,
    NoteEvent, TerminationEvent,
};

/// Defines [`EventKind`], [`EventRecord::new`] and [`EventRecord::into_event`] from one table.
///
/// A row of the table is `kind (ref_id, name, payload) | (meta) = (event)`. The three columns are the names of fields,
/// or `_` for a column that the kind does not use. The payload may be absent in any row; a missing value in another
/// column that the kind uses is an error. The tokens of meta and event are used in both directions: as patterns, which
/// take a value apart, and as expressions, which build it from the names that the other side has bound. A kind with
/// several events tells them apart by their meta.
macro_rules! kinds {
    ($($kind:ident ($ref_id:tt, $name:tt, $payload:tt) $(| ($($meta:tt)+) = ($($event:tt)+))+)+) => {
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

        impl EventRecord {
            /// Returns the row of an event.
            #[must_use]
            pub fn new(event_id: EventId, time_ms: i64, event: impl Into<Event>) -> Self {
                match event.into() {
                    $($(Event::$($event)+ => Self {
                        event_id,
                        time_ms,
                        kind: EventKind::$kind,
                        ref_id: some!($ref_id),
                        name: some!($name),
                        payload: value!($payload),
                        meta: Meta::write($($meta)+),
                    },)+)+
                }
            }

            /// Returns the event of a row.
            ///
            /// # Errors
            ///
            /// [`RecordError`] if a column that the kind needs is absent or has no valid value.
            pub fn into_event(self) -> Result<Event, RecordError> {
                let Self { event_id, kind, .. } = self;
                let fail = |problem| RecordError { event_id, kind, problem };
                match kind {
                    $(EventKind::$kind => {
                        let meta = Meta::read(self.meta.as_deref()).map_err(fail)?;
                        bind!($ref_id = self.ref_id.ok_or_else(|| fail("it refers to no earlier event".into()))?);
                        bind!($name = self.name.ok_or_else(|| fail("it has no name".into()))?);
                        bind!($payload = self.payload);
                        Ok(match meta {
                            $($($meta)+ => Event::$($event)+,)+
                        })
                    })+
                }
            }
        }
    };
}

/// A column that is never absent in a row of its kind.
macro_rules! some {
    (_) => {
        None
    };
    ($field:ident) => {
        Some($field)
    };
}

/// A column that may be absent.
macro_rules! value {
    (_) => {
        None
    };
    ($field:ident) => {
        $field
    };
}

/// Reads a column that the kind uses.
macro_rules! bind {
    (_ = $column:expr) => {};
    ($field:ident = $column:expr) => {
        let $field = $column;
    };
}

kinds! {
    ExecutionStarted (_, name, input)
        | (StartMeta { version, seed, incarnation, parent, custom_status, state, closed_streams, time_limit, trace })
            = (Started(
                ExecutionStarted {
                    name, version, input, seed, incarnation, parent, custom_status, state, closed_streams, time_limit,
                    trace
                }
            ))
    ExecutionBegan (_, _, _)
        | (BeganMeta { version }) = (Note(NoteEvent::ExecutionBegan { version }))
    ActivityScheduled (_, name, input)
        | (options) = (Command(CommandEvent::ActivityScheduled { name, input, options }))
    ActivityCompleted (scheduled, _, output)
        | (NoMeta) = (Delivery(DeliveryEvent::ActivityCompleted { scheduled, output }))
    ActivityAttemptFailed (scheduled, _, error)
        | (RetriedAttemptMeta { attempt, retry_at_ms })
            = (Note(NoteEvent::ActivityAttemptFailed { scheduled, attempt, error, retry_at_ms }))
    ActivityFailed (scheduled, _, error)
        | (LastAttemptMeta { attempt }) = (Delivery(DeliveryEvent::ActivityFailed { scheduled, attempt, error }))
    TimerCreated (_, _, _)
        | (TimerMeta { fire_at_ms }) = (Command(CommandEvent::TimerCreated { fire_at_ms }))
    TimerFired (timer, _, _)
        | (NoMeta) = (Delivery(DeliveryEvent::TimerFired { timer }))
    ChildScheduled (_, name, input)
        | (InstanceStartMeta { id, version, tags, priority, on_conflict, admission, trace })
            = (Command(CommandEvent::ChildScheduled(
                InstanceStart { id, name, version, input, tags, priority, on_conflict, admission, trace }
            )))
    ChildCompleted (scheduled, _, output)
        | (NoMeta) = (Delivery(DeliveryEvent::ChildCompleted { scheduled, output }))
    ChildFailed (scheduled, _, error)
        | (ChildFailedMeta { failure }) = (Delivery(DeliveryEvent::ChildFailed { scheduled, failure, error }))
    InstanceStarted (_, name, input)
        | (InstanceStartMeta { id, version, tags, priority, on_conflict, admission, trace })
            = (Command(CommandEvent::InstanceStarted(
                InstanceStart { id, name, version, input, tags, priority, on_conflict, admission, trace }
            )))
    EventSent (_, name, payload)
        | (SentMeta { instance })
            = (Command(CommandEvent::MessageSent { instance, mailbox: Mailbox::Event(name), payload }))
    QueueSent (_, name, payload)
        | (SentMeta { instance })
            = (Command(CommandEvent::MessageSent { instance, mailbox: Mailbox::Queue(name), payload }))
    OperationConfirmed (scheduled, _, _)
        | (NoMeta) = (Delivery(DeliveryEvent::OperationConfirmed { scheduled }))
    OperationRefused (scheduled, _, _)
        | (RefusedMeta { refusal }) = (Delivery(DeliveryEvent::OperationRefused { scheduled, refusal }))
    OperationCancelled (scheduled, _, _)
        | (NoMeta) = (Command(CommandEvent::OperationCancelled { scheduled }))
    PatchApplied (_, patch, _)
        | (NoMeta) = (Note(NoteEvent::PatchApplied { patch }))
    EventReceived (_, name, payload)
        | (NoMeta) = (Delivery(DeliveryEvent::MessageReceived { mailbox: Mailbox::Event(name), payload }))
    QueueReceived (_, name, payload)
        | (NoMeta) = (Delivery(DeliveryEvent::MessageReceived { mailbox: Mailbox::Queue(name), payload }))
    EventAbsent (_, name, _)
        | (NoMeta) = (Delivery(DeliveryEvent::MailboxEmpty { mailbox: Mailbox::Event(name) }))
    QueueEmpty (_, name, _)
        | (NoMeta) = (Delivery(DeliveryEvent::MailboxEmpty { mailbox: Mailbox::Queue(name) }))
    CancelRequested (_, _, reason)
        | (CancelMeta { at: CancelPoint::Wait }) = (Delivery(DeliveryEvent::CancelRequested { reason }))
        | (CancelMeta { at: CancelPoint::Step }) = (Interruption(Interruption { reason }))
        | (CancelMeta { at: CancelPoint::Suspended }) = (Note(NoteEvent::CancelRequested { reason }))
    ExecutionCompleted (_, _, output)
        | (NoMeta) = (End(EndEvent::ExecutionCompleted { output }))
    ExecutionFailed (_, _, error)
        | (NoMeta) = (End(EndEvent::ExecutionFailed { error }))
    ExecutionCancelled (_, _, error)
        | (CancelledMeta { outside: false }) = (End(EndEvent::ExecutionCancelled { error }))
        | (CancelledMeta { outside: true }) = (Termination(TerminationEvent::ExecutionCancelled { error }))
    ExecutionContinuedAsNew (_, _, input)
        | (VersionMeta { version }) = (End(EndEvent::ExecutionContinuedAsNew { input, version }))
    ExecutionTerminated (_, _, reason)
        | (NoMeta) = (Termination(TerminationEvent::ExecutionTerminated { reason }))
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
