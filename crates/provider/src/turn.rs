//! A turn as it is committed, and the start of an instance, which may come with the first turn.

use perdure_engine::{AnsweredAsk, EventId, EventRecord, ExecutionId, MessageSeq, Payload, StateChange, StreamAppend};

use crate::{
    CrossInstanceEffects, Epoch, InstanceKey, OnConflict, QueueEntry, StartTime, Status, Terminate, TurnLogs, WorkerId,
};

/// The effects of a turn of an instance.
#[derive(Clone, Debug)]
pub struct TurnCommit {
    /// The instance.
    pub key: InstanceKey,
    /// Fence: its owner.
    pub worker: WorkerId,
    /// Fence: its epoch.
    pub epoch: Epoch,
    /// Execution that the turn belongs to.
    pub execution: ExecutionId,
    /// Fence: the id of the first event appended, or of the next event if the turn appends none.
    pub next_event_id: EventId,
    /// Events appended. Their ids rise by one from `next_event_id`.
    pub events: Vec<EventRecord>,
    /// Messages consumed. Each number is at most `seen`.
    pub consumed: Vec<MessageSeq>,
    /// The worker knows every message for this instance up to this number. A release with a later message in the store
    /// makes the instance due at once, so that a message that came in between is not slept through. `MessageSeq(0)`:
    /// the worker knows no message.
    pub seen: MessageSeq,
    /// Schedules whose kept [heartbeats](crate::Heartbeat) are deleted with this turn: those of activities that are
    /// over by it, and all of them if the turn ends the execution.
    pub heartbeats_over: Vec<EventId>,
    /// New custom status, if it changed.
    pub custom_status: Option<StatusChange>,
    /// Values of the state that changed, each name once.
    pub state: Vec<StateChange>,
    /// Asks that the turn answers, each once (P22).
    pub answers: Vec<AnsweredAsk>,
    /// Entries that the turn appends to streams, each stream once (P23).
    pub appends: Vec<StreamAppend>,
    /// The work that the instance waits for after the turn, as JSON that no store reads. `None`: there is none. A turn
    /// that suspends the instance leaves the text of the turn before it.
    pub open_work: Option<String>,
    /// Lines that the code logged in the turn; `None`: none is to be stored. A line whose place has one stays away.
    pub logs: Option<Box<TurnLogs>>,
    /// Effects on other instances, written with the turn.
    pub cross_instance: Option<Box<CrossInstanceEffects>>,
    /// State of the instance after the turn.
    pub after: AfterTurn,
    /// True if a client waits for the result of the turn: the answer then holds the status after it.
    pub tell_status: bool,
    /// True if the turn acquires its instance, which sleeps in the store (P20). `epoch` is the one after that of its
    /// last acquisition.
    pub wakes: bool,
    /// Id of the ask that wakes the instance, if one does (P22). It is sent by the turn, which is fenced off if the
    /// instance has an ask of that id.
    pub asked: Option<String>,
    /// Now, ms since 1970.
    pub time_ms: i64,
}

impl TurnCommit {
    /// Returns true if clients that wait for a status may see a difference after the turn.
    #[must_use]
    pub const fn changes_status(&self) -> bool {
        self.custom_status.is_some()
            || !self.state.is_empty()
            || !self.answers.is_empty()
            || matches!(self.after, AfterTurn::End { .. } | AfterTurn::Suspend { .. })
    }

    pub(crate) fn payload_bytes(&self) -> usize {
        let after = match &self.after {
            AfterTurn::ContinueAsNew(next) => next.first_event.bytes(),
            AfterTurn::Suspend { report, .. } => report.len(),
            _ => 0,
        };
        let status = self.custom_status.as_ref().map_or(0, |status| len(&status.value));
        // Effects on other instances are also in the events, and are written a second time.
        let events: usize = self.events.iter().map(EventRecord::bytes).sum();
        let state: usize = self.state.iter().map(StateChange::bytes).sum();
        let answers: usize = self.answers.iter().map(AnsweredAsk::bytes).sum();
        let appends: usize = self.appends.iter().map(StreamAppend::bytes).sum();
        let open_work = self.open_work.as_ref().map_or(0, String::len);
        let logs = self.logs.as_ref().map_or(0, |logs| logs.bytes());
        let asked = self.asked.as_ref().map_or(0, String::len);
        asked
            + after
            + status
            + state
            + answers
            + appends
            + open_work
            + logs
            + events * if self.cross_instance.is_some() { 2 } else { 1 }
    }
}

/// A change of the custom status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusChange {
    /// The new value; `None` when it was reset.
    pub value: Payload,
}

/// The state of an instance after a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AfterTurn {
    /// The worker keeps the instance.
    Hold,
    /// The instance is released and sleeps.
    Release {
        /// Time at which the instance is due again without a message, ms since 1970; `None`: never.
        wake_at_ms: Option<i64>,
    },
    /// The instance has ended. The last event appended says how.
    End {
        /// Completed, Failed or Cancelled.
        status: Status,
    },
    /// The execution has ended, which the last event appended says, and the next one begins. The messages that wait for
    /// the instance stay.
    ContinueAsNew(Box<NextExecution>),
    /// The instance is held until it is resumed.
    Suspend {
        /// The reason, as the driver shows it.
        report: String,
        /// Fingerprint of the code, if the reason is that this code does not fit the history: for
        /// [`ResumeMismatched`](crate::ResumeMismatched).
        mismatched_code: Option<String>,
    },
}

/// The execution that follows one which continued as new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextExecution {
    /// Version of the orchestration that the execution runs.
    pub version: String,
    /// First event of the execution (`ExecutionStarted`, id 1).
    pub first_event: EventRecord,
    /// True if the worker keeps the instance, in the same epoch. Otherwise the instance is released and due at once.
    pub hold: bool,
}

/// An instance to start.
#[derive(Clone, Debug)]
pub struct NewInstance {
    /// The user's name of the instance.
    pub id: String,
    /// Name of its orchestration.
    pub name: String,
    /// Version of its orchestration.
    pub version: String,
    /// First event of the instance (`ExecutionStarted`, id 1). Its time is the instance's creation.
    pub first_event: EventRecord,
    /// Id of the parent instance.
    pub parent_id: Option<String>,
    /// Tags as a JSON object of strings made by the driver.
    pub tags: Option<String>,
    /// An instance of a higher priority is acquired first.
    pub priority: i32,
    /// The worker that takes the instance at once; `None` leaves it to the first worker that acquires it.
    pub claim: Option<WorkerId>,
    /// The effects of the first turn, if the claiming worker has run that already. They are written with the start, or
    /// not at all. The store fills in the key and the epoch of the turn from the start.
    pub first_turn: Option<Box<TurnCommit>>,
    /// The reaction to an id that is in use.
    pub on_conflict: OnConflict,
    /// The queue that gives the instance a slot (P24); `None`: the instance needs none. One with a key there has no
    /// claim.
    pub queue: Option<QueueEntry>,
    /// When the instance is due. It has no claim unless that is now.
    pub due: StartTime,
}

impl NewInstance {
    pub(crate) fn payload_bytes(&self) -> usize {
        let first_turn = self.first_turn.as_deref().map_or(0, TurnCommit::payload_bytes);
        self.first_event.bytes() + len(&self.tags) + first_turn
    }

    /// Returns true if the instance may run as soon as it is there.
    #[must_use]
    pub fn runs_at_once(&self) -> bool {
        self.queue.is_none() && self.due == StartTime::Now
    }

    /// Returns true if a worker may claim the instance: it is due now and, if it is one of a queue, has no key there.
    /// The claim of an instance of a queue holds only if it gets a slot at once (P24).
    #[must_use]
    pub fn may_be_claimed(&self) -> bool {
        let has_key = self.queue.as_ref().is_some_and(|entry| !entry.key.is_empty());
        !has_key && self.due == StartTime::Now
    }

    /// Returns the termination of the instance that the start replaces.
    #[must_use]
    pub fn termination(&self) -> Terminate {
        Terminate {
            id: self.id.clone(),
            reason: None,
            time_ms: self.first_event.time_ms,
        }
    }
}

pub(crate) fn len(payload: &Payload) -> usize {
    payload.as_ref().map_or(0, String::len)
}
