//! Bugs planted on purpose: each shows that the simulator finds bugs of its kind. Without the feature `planted` there
//! are none, and no way to plant one.

macro_rules! bugs {
    ($($(#[doc = $doc:literal])+ $bug:ident,)+) => {
        /// A bug that can be planted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Bug {
            $($(#[doc = $doc])+ $bug,)+
        }

        impl Bug {
            /// Every bug.
            pub const ALL: &'static [Bug] = &[$(Bug::$bug),+];

            /// Description of the bug, for a report.
            #[must_use]
            pub fn description(self) -> &'static str {
                match self { $(Bug::$bug => concat!($($doc),+).trim_ascii_start(),)+ }
            }
        }
    };
}

bugs! {
    /// A timer fires a little before its time.
    EarlyTimer,
    /// The newest of the messages of a mailbox comes first.
    NewestMessageFirst,
    /// Random numbers are not those of the history's seed.
    OtherRandomNumbers,
    /// Code that passed a patch before it was there has it in a replay.
    PatchedForAll,
    /// The first turn of a late start is not told from the start.
    StartTimeForFirstTurn,
    /// A failed attempt is the last one.
    NoSecondAttempt,
    /// The store takes a turn from a worker that does not own the instance.
    NoOwnerCheck,
    /// The store takes a turn of an earlier epoch.
    NoEpochCheck,
    /// The store takes a turn that does not follow the one before.
    NoEventIdCheck,
    /// An instance is acquired in the epoch that it had.
    EpochUsedAgain,
    /// An execution begins without the state that the one before it left.
    StateForgottenOnContinue,
    /// An execution begins without the time limit of the one before it.
    LimitForgottenOnContinue,
    /// The time limit of an instance that sleeps does not wake it.
    LimitWakesNoInstance,
    /// An instance is cancelled before its time is over.
    EarlyLimit,
    /// A change of the state is not written with its turn.
    StateNotStored,
    /// The entries that a replay writes to a stream are stored again.
    StreamWrittenAgain,
    /// An attempt appends to a stream after it was given up.
    LateAttemptAppends,
    /// The answer to an ask is not written with its turn.
    AnswerNotStored,
    /// The answer to an ask is told before its turn is written.
    AnswerToldEarly,
    /// An ask is recorded again each time it is asked.
    AskNotKnown,
    /// Messages that wait for an instance are lost when it continues as new.
    MessagesLostOnContinue,
    /// Messages that a turn consumed stay in the store.
    ConsumedMessagesStay,
    /// An instance sleeps through a message that came before it was released.
    SleepsThroughMessage,
    /// The end of a child is not told to its parent.
    ChildNotTold,
    /// The slots of attempts do not count.
    AttemptSlotsNotCounted,
    /// An attempt keeps its place in its queue when it has ended or is withdrawn.
    EndedAttemptKeepsPlace,
    /// An attempt begins although it has waited for longer than it may.
    LateAttemptBegins,
    /// The first attempt of an activity counts as untried after a replay.
    ReplayedCountsAsUntried,
    /// A late attempt waits for a worker that serves its queue.
    LateAttemptWaits,
    /// A start does not find the instance that its key has.
    StartKeyForgotten,
    /// The inputs of a batch are not counted.
    BatchNotCounted,
    /// An instance of a batch takes inputs that come when it has begun.
    BatchTakesLateInput,
    /// A start of an id that is in use makes a second instance.
    TwoInstancesOfOneId,
    /// Instances of a dead worker stay its own.
    DeadWorkerKeepsInstances,
    /// Messages that wait for an instance stay when it has ended.
    MessagesOutliveInstance,
    /// A client is answered before its start is written.
    AnswerBeforeCommit,
    /// Activities begin before the turn that scheduled them is written.
    EffectsBeforeCommit,
    /// An event that happens while a turn is written causes no wakeup.
    LostWakeup,
    /// A notification that is lost is never made up for.
    NoSafetyPoll,
    /// A worker acquires for the orchestrations that it had before it announced the newest ones.
    AcquiresForFormerNames,
    /// A worker that has lost its lease goes on.
    LeaseNotHeeded,
    /// No worker looks for tasks when an abandoned attempt gives its slot back.
    SlotsGivenBackInSilence,
    /// The end of a task takes along an attempt of the instance itself.
    WithdrawnTaskTakesAnother,
    /// The remains of a lost instance are in the way of the same attempt.
    AttemptInTheWay,
    /// The store answers a cancellation and forgets it.
    CancelForgotten,
    /// A session of activities is taken from the worker that holds it.
    SessionTaken,
    /// Details of heartbeats outlive their activity.
    HeartbeatsStay,
    /// An instance whose turn holds up its thread stays where it is.
    HeldUpForEver,
    /// An owner does not hear of instances that are taken from it.
    RevocationUnheard,
    /// A write that was given up comes to pass later, after it was answered with an error and written again.
    GivenUpComesToPass,
    /// The instances that a worker owns in the store are not compared with those that it knows.
    OwnedNotCompared,
    /// A store that refuses its service for a moment is taken to refuse the write.
    RefusalBlamesRow,
    /// A message that overtakes an earlier one of its instance is handed over before it.
    OvertakingMessage,
    /// A turn wakes an instance although a message waits for it.
    WakePastMessage,
    /// The message of a wake that is given up is answered and does not go to the store.
    GivenUpWakeForgotten,
    /// The slots of a queue are counted without one of them.
    SlotNotCounted,
    /// An instance that has ended keeps its slot of a queue.
    SlotOutlivesInstance,
    /// A key of a queue whose instances are held is not looked at again.
    HeldKeyForgotten,
    /// An activity whose entries were deleted is forgotten as a writer of its stream.
    StreamWriterForgotten,
    /// The rate of a queue begins anew each time a worker looks for work.
    RateForgotten,
    /// A paused queue gives slots.
    PauseForgotten,
    /// A start gets a slot although instances wait in line for one.
    LineOvertaken,
    /// A message makes an instance due that waits in line or for its start time.
    MessageJumpsLine,
    /// No worker looks for the slot that the end of an instance makes free.
    EndUnnoticed,
    /// A cancelled instance ends with its main fiber, and the cleanup of other fibers is dropped.
    CleanupDropped,
    /// A second request to cancel interrupts the cleanup.
    CleanupInterrupted,
    /// A cancelled fiber gets its error while the operation that it waits for cleans up.
    ErrorBeforeCleanup,
    /// A race goes on while its losers clean up.
    LosersLeft,
}

#[cfg(feature = "planted")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Plants a bug in this thread, or removes it.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

/// Returns true if this thread has the bug.
#[cfg(feature = "planted")]
#[must_use]
pub fn is_planted(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}

/// Always false: no bug can be planted without the feature.
#[cfg(not(feature = "planted"))]
#[inline]
#[must_use]
pub const fn is_planted(_bug: Bug) -> bool {
    false
}
