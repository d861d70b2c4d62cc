//! Input and output of a turn.

use std::sync::Arc;

use crate::{
    ActivityOptions, AnsweredAsk, AttemptResult, ChildFailure, CrossInstanceEffects, EventId, EventRecord, Mailbox,
    Message, MessageSeq, Payload, Refusal, StateChange, StreamAppend,
};

/// Mailboxes and operations that the code waits for, besides its activities and children. Nothing else is delivered: an
/// unawaited message stays in its mailbox, and an unawaited timer or confirmation wakes no fiber.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Awaited {
    /// Mailboxes that a fiber waits on.
    pub mailboxes: Vec<Mailbox>,
    /// Timers, detached starts and sent messages that a fiber waits on.
    pub timers: Vec<EventId>,
}

/// Waits of the code, as a driver reports them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waits {
    /// All waits.
    All(Awaited),
    /// The changes since the last report. The cost of a report is that of its changes, not of all waits.
    Changed {
        /// New waits.
        more: Awaited,
        /// Waits that have ended. An operation that has settled may be among them.
        no_longer: Awaited,
    },
}

impl From<Awaited> for Waits {
    fn from(awaited: Awaited) -> Self {
        Self::All(awaited)
    }
}

/// An event from outside that concerns an execution.
#[derive(Clone, Debug, PartialEq)]
pub enum Completion {
    /// An activity's function returned.
    ActivityCompleted {
        /// The schedule.
        scheduled: EventId,
        /// The return value.
        output: Payload,
    },
    /// An attempt of an activity failed. The engine decides if another attempt follows.
    AttemptFailed {
        /// The schedule.
        scheduled: EventId,
        /// The error as the driver encoded it.
        error: Payload,
        /// The error's name, for `nonRetryable` and `retryOn`.
        error_name: String,
        /// The error's codes, for the same options.
        error_codes: Vec<String>,
        /// True if the error itself says that another attempt is useless.
        non_retryable: bool,
        /// Delay before the next attempt, ms from now, if the error itself gives one.
        retry_after_ms: Option<i64>,
    },
    /// A message reached the instance.
    Message(Message),
}

impl AttemptResult {
    /// Returns the completion that the execution receives.
    #[must_use]
    pub fn into_completion(self, scheduled: EventId) -> Completion {
        match self {
            AttemptResult::Completed(output) => Completion::ActivityCompleted { scheduled, output },
            AttemptResult::Failed {
                error,
                error_name,
                error_codes,
                non_retryable,
                retry_after_ms,
            } => Completion::AttemptFailed {
                scheduled,
                error,
                error_name,
                error_codes,
                non_retryable,
                retry_after_ms,
            },
        }
    }
}

/// The next step of the driver.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Hand the delivery to the code and let all fibers run until they wait.
    Deliver {
        /// The delivery.
        delivery: Delivery,
        /// The deterministic time from here on, ms since 1970.
        time_ms: i64,
    },
    /// There is nothing to deliver: the turn is over.
    Wait,
    /// The budget of the turn is used up: the turn is over, and another one follows.
    Budget,
    /// The next page of history is needed first: the turn is over, and another one follows when the page is here.
    NeedHistory,
}

/// An event handed to the code.
#[derive(Clone, Debug, PartialEq)]
pub enum Delivery {
    /// An operation succeeded. The value of a timer, a start or a sent message is `None`.
    Succeeded {
        /// Its schedule.
        operation: EventId,
        /// Its value.
        value: Payload,
    },
    /// An activity failed for good.
    Failed {
        /// Its schedule.
        operation: EventId,
        /// The last attempt's error.
        error: Payload,
        /// Number of the last attempt.
        attempt: u32,
    },
    /// A child ended without completing.
    ChildFailed {
        /// Its schedule.
        operation: EventId,
        /// Terminal status of the child.
        failure: ChildFailure,
        /// Its error, or the reason of its termination.
        error: Payload,
    },
    /// A start or message did not reach the other instance.
    Refused {
        /// Its schedule.
        operation: EventId,
        /// The reason.
        refusal: Refusal,
    },
    /// A message for the future that has waited longest on its mailbox.
    Message {
        /// The mailbox.
        mailbox: Mailbox,
        /// The value.
        payload: Payload,
    },
    /// An ask. Nothing of it is recorded yet: the driver is to [accept](crate::Engine::accept_ask) or to
    /// [refuse](crate::Engine::refuse_ask) it before anything else.
    Asked {
        /// The payload of its message.
        payload: Payload,
    },
    /// A polled mailbox holds no message.
    MailboxEmpty {
        /// The mailbox.
        mailbox: Mailbox,
    },
    /// The instance is to cancel.
    Cancel {
        /// The reason.
        reason: Payload,
        /// The time that the instance had, ms, if that is over; `None`: a request has come.
        timeout_ms: Option<u64>,
    },
}

/// Result of the code.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The code returned.
    Completed(Payload),
    /// The code threw.
    Failed(Payload),
    /// A cancellation left the code.
    Cancelled(Payload),
    /// The code continues as the next execution of its instance.
    ContinuedAsNew {
        /// The next execution's input.
        input: Payload,
        /// Version of the next execution; `None`: the version of this one.
        version: Option<String>,
    },
}

/// Terminal status of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terminal {
    /// The code returned.
    Completed,
    /// The code threw.
    Failed,
    /// A cancellation left the code.
    Cancelled,
    /// The next execution follows; [`Engine::next_execution`](crate::Engine::next_execution) is its first event.
    ContinuedAsNew,
}

/// An activity to run.
#[derive(Clone, Debug, PartialEq)]
pub struct ActivityTask {
    /// Its schedule.
    pub scheduled: EventId,
    /// Name of the activity.
    pub name: String,
    /// Its input.
    pub input: Payload,
    /// Its options.
    pub options: ActivityOptions,
    /// End of its `total_timeout_ms`, ms since 1970. The timeout runs from when the activity was scheduled, so a
    /// restart does not begin it anew.
    pub deadline_ms: Option<i64>,
}

/// Longest wait for the begin of an attempt that is told to the outside, ms: no sum of it and a time overflows.
const START_WITHIN_MAX_MS: u64 = 1 << 53;

impl ActivityTask {
    /// Returns the longest wait for the begin of each attempt from when it is due, ms.
    #[must_use]
    pub fn start_within_ms(&self) -> Option<i64> {
        let within_ms = self.options.schedule_to_start_timeout_ms?;
        i64::try_from(within_ms.min(START_WITHIN_MAX_MS)).ok()
    }

    /// Returns the time at which an attempt must have begun that is due at `due_ms`, ms since 1970. The deadline of all
    /// attempts holds for a wait, too.
    #[must_use]
    pub fn start_by_ms(&self, due_ms: i64) -> Option<i64> {
        let begun_by_ms = self.start_within_ms().map(|within| due_ms.saturating_add(within));
        begun_by_ms.into_iter().chain(self.deadline_ms).min()
    }
}

/// Work outside the engine once the turn is durable.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Run an attempt of an activity.
    StartActivity {
        /// The activity.
        task: Arc<ActivityTask>,
        /// Number of the attempt, from 1.
        attempt: u32,
        /// Earliest start of the attempt, ms since 1970.
        not_before_ms: i64,
        /// True if this turn has scheduled the activity. So no attempt of it has ever run.
        is_untried: bool,
    },
    /// Abort an activity that the execution no longer waits for.
    AbortActivity {
        /// Its schedule.
        scheduled: EventId,
    },
}

/// State of the execution after a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// The execution waits.
    Outside {
        /// Activities that are not settled.
        open_activities: usize,
        /// Earliest awaited timer, ms since 1970.
        timer_at_ms: Option<i64>,
    },
    /// The execution has more to do at once.
    More,
    /// The execution needs the next page of its history.
    History {
        /// First event of that page.
        from: EventId,
    },
    /// The execution has ended.
    Ended(Terminal),
}

/// A failed attempt of an activity, as its event records it.
#[derive(Clone, Debug, PartialEq)]
pub struct FailedAttempt {
    /// Id of the event that records the failure.
    pub event_id: EventId,
    /// Id of the event that scheduled the activity.
    pub scheduled: EventId,
    /// Name of the activity.
    pub name: String,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Maximum number of attempts.
    pub attempts_max: u32,
    /// The error, as it is stored.
    pub error: Payload,
    /// Delay of the next attempt, ms. `None`: no attempt follows.
    pub delay_ms: Option<i64>,
}

/// Output of a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnOutput {
    /// Id of the first event, or of the next one if the turn has none.
    pub next_event_id: EventId,
    /// Events to append.
    pub events: Vec<EventRecord>,
    /// Messages that the turn consumed.
    pub consumed: Vec<MessageSeq>,
    /// The new custom status, if it changed.
    pub custom_status: Option<Payload>,
    /// The values of the state that changed, by name.
    pub state: Vec<StateChange>,
    /// Asks that the turn answers.
    pub answers: Vec<AnsweredAsk>,
    /// Entries of streams that the turn appends, each stream once.
    pub appends: Vec<StreamAppend>,
    /// Starts, messages and cancellations for other instances, if there are any.
    pub cross_instance: Option<Box<CrossInstanceEffects>>,
    /// Work to do once the turn is durable.
    pub effects: Vec<Effect>,
    /// Failed attempts that the turn records, for the log.
    pub failed_attempts: Vec<FailedAttempt>,
    /// State of the execution now.
    pub waiting: Waiting,
}

impl TurnOutput {
    /// True if there is nothing to store.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
            && self.consumed.is_empty()
            && self.custom_status.is_none()
            && self.state.is_empty()
            && self.answers.is_empty()
            && self.appends.is_empty()
    }
}
