//! What goes into a turn and what comes out of it.

use std::sync::Arc;

use crate::activity::ActivityOptions;
use crate::{ChildFailure, EventId, EventRecord, Mailbox, Message, MessageSeq, Payload, Refusal, ToOthers};

/// What the code waits for besides its activities and children. Nothing else is delivered: an unawaited message stays where it is, and an
/// unawaited timer or confirmation wakes nobody.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Awaited {
    /// Mailboxes that a fiber waits on.
    pub mailboxes: Vec<Mailbox>,
    /// Timers, detached starts and sent messages that a fiber waits on.
    pub timers: Vec<EventId>,
}

/// How a driver tells what its code waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waits {
    /// All of it.
    All(Awaited),
    /// What has changed since the driver last told: a wait costs what changed, however much else is awaited.
    Changed {
        /// What was not awaited.
        more: Awaited,
        /// What is awaited no longer. An operation that has settled may be among it.
        no_longer: Awaited,
    },
}

impl From<Awaited> for Waits {
    fn from(awaited: Awaited) -> Self {
        Self::All(awaited)
    }
}

/// Something that happened outside and concerns an execution.
#[derive(Clone, Debug, PartialEq)]
pub enum Completion {
    /// An activity's function returned.
    ActivityCompleted {
        /// The schedule.
        scheduled: EventId,
        /// What it returned.
        output: Payload,
    },
    /// An attempt of an activity failed. Whether another follows is decided here.
    AttemptFailed {
        /// The schedule.
        scheduled: EventId,
        /// The error as the driver encoded it.
        error: Payload,
        /// The error's name, for `nonRetryable`.
        error_name: String,
        /// The error itself says that another attempt is useless.
        non_retryable: bool,
        /// The error itself says when to try again, ms from now.
        retry_after_ms: Option<i64>,
    },
    /// A message reached the instance.
    Message(Message),
}

/// What the driver is to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Hand this to the code and let all fibers run until they wait.
    Deliver {
        /// What to hand over.
        delivery: Delivery,
        /// The deterministic time from here on, ms since 1970.
        time_ms: i64,
    },
    /// Nothing to deliver: the turn is over.
    Wait,
    /// The turn's budget is used up: it is over, another follows.
    Budget,
    /// The next page of history is needed first: the turn is over, another follows when the page is here.
    NeedHistory,
}

/// What is handed to the code.
#[derive(Clone, Debug, PartialEq)]
pub enum Delivery {
    /// An operation succeeded (the value of a timer, a start or a sent message is `None`).
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
        /// How it ended.
        failure: ChildFailure,
        /// Its error; of a termination the reason.
        error: Payload,
    },
    /// A start or message did not reach the other instance.
    Refused {
        /// Its schedule.
        operation: EventId,
        /// Why.
        refusal: Refusal,
    },
    /// A message for the longest waiting future of its mailbox.
    Message {
        /// Which mailbox.
        mailbox: Mailbox,
        /// The value.
        payload: Payload,
    },
    /// The instance is to cancel.
    Cancel {
        /// Why.
        reason: Payload,
    },
}

/// How the code ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It returned.
    Completed(Payload),
    /// It threw.
    Failed(Payload),
    /// A cancellation left it.
    Cancelled(Payload),
    /// It goes on as the next execution of its instance.
    ContinuedAsNew {
        /// The next execution's input.
        input: Payload,
        /// Version that it runs; `None`: that of this one.
        version: Option<String>,
    },
}

/// How an execution ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terminal {
    /// The code returned.
    Completed,
    /// The code threw.
    Failed,
    /// A cancellation left the code.
    Cancelled,
    /// The next execution follows; [`Engine::next_execution`](crate::Engine::next_execution) tells what it starts from.
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
    /// When its `total_timeout_ms` is over, ms since 1970. It runs from when the activity was scheduled, so a restart does not
    /// begin it anew.
    pub deadline_ms: Option<i64>,
}

/// What must happen outside once the turn is durable.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Run an attempt of an activity.
    StartActivity {
        /// The activity.
        task: Arc<ActivityTask>,
        /// Number of the attempt, from 1.
        attempt: u32,
        /// Not earlier than this, ms since 1970.
        not_before_ms: i64,
    },
    /// Nobody waits for this activity any more.
    AbortActivity {
        /// Its schedule.
        scheduled: EventId,
    },
}

/// Where a turn left the execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// It waits.
    Outside {
        /// Activities that are not settled.
        open_activities: usize,
        /// Earliest awaited timer, ms since 1970.
        timer_at_ms: Option<i64>,
    },
    /// It has more to do at once.
    More,
    /// It needs the next page of its history.
    History {
        /// First event of that page.
        from: EventId,
    },
    /// It has ended.
    Ended(Terminal),
}

/// What a turn did.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnOutput {
    /// Id of the first event, or of the next one when there is none.
    pub next_event_id: EventId,
    /// Events to append.
    pub events: Vec<EventRecord>,
    /// Messages consumed.
    pub consumed: Vec<MessageSeq>,
    /// The new custom status, if it changed.
    pub custom_status: Option<Payload>,
    /// What goes to other instances with it, if anything.
    pub to_others: Option<Box<ToOthers>>,
    /// What to do once that is durable.
    pub effects: Vec<Effect>,
    /// Where the execution is now.
    pub waiting: Waiting,
}

impl TurnOutput {
    /// Whether there is anything to store.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty() && self.consumed.is_empty() && self.custom_status.is_none()
    }
}
