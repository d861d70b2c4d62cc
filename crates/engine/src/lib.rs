//! The replay engine: it compares the commands of an orchestration with its recorded history, and records new events.
//!
//! Owns history events, commands, replay with its determinism check, retry arithmetic and deterministic time and
//! randomness. The engine is a value: input in, effects out. It knows nothing of tokio, SQL, napi, threads or clocks;
//! times, seeds and ids are arguments.
//!
//! Invariants (cited by number in comments):
//!
//! - **E1** Event ids of an execution are 1..n without gap; event 1 is `ExecutionStarted`.
//! - **E2** History is the exact interleaving of commands and deliveries: a delivery is recorded where it was
//!   delivered, a command where it was issued. A replay therefore needs nothing but the history.
//! - **E3** A turn ends only when the code waits, so recorded history always reaches up to a wait. The engine is
//!   replaying until the code asks for the first delivery that history does not hold.
//! - **E4** A broken engine (a mismatch was found, or a limit was reached) stays broken: none of its state may be
//!   committed.
//! - **E5** A schedule has at most one completion; a completion of a closed operation is dropped.

mod activity;
mod ask;
mod backoff;
mod command;
mod cross_instance;
mod engine;
mod event;
mod ids;
mod inbox;
mod limits;
mod mailbox;
mod message;
mod mismatch;
mod open_work;
mod operations;
mod payload;
mod planted;
mod random;
mod record;
mod replay_queue;
mod small_set;
mod state;
mod stream;
mod time_limit;
mod turn;

pub use activity::{ActivityOptions, DEFAULT_QUEUE, RetryPolicy};
pub use ask::{ASKS, Answer, AnsweredAsk};
pub use backoff::Backoff;
pub use command::Command;
pub use cross_instance::{
    Admission, AttemptResult, ChildFailure, CrossInstanceEffects, InstanceStart, Refusal, Settlement, StartConflict,
    TurnMessage, TurnStart,
};
pub use engine::{Budget, Engine, Start};
pub use event::{
    CommandEvent, DeliveryEvent, EndEvent, Event, ExecutionStarted, Interruption, NoteEvent, ParentLink,
    TerminationEvent,
};
pub use ids::{EventId, ExecutionId, Incarnation, MessageSeq};
pub use limits::{CANCEL_GRACE, CANCEL_GRACE_BYTES, Fault, LimitReached, Limits};
pub use mailbox::Mailbox;
pub use message::{Message, MessageBody};
pub use mismatch::{FieldDifference, Mismatch};
pub use open_work::OPEN_WORK_MAX;
pub use payload::{Payload, TraceContext};
#[cfg(feature = "planted")]
pub use planted::plant;
pub use planted::{Bug, is_planted};
pub use record::{EventKind, EventRecord, RecordError, incarnation_of};
pub use state::{StateChange, StateValues};
pub use stream::{StreamAppend, StreamKeep};
pub use time_limit::TimeLimit;
pub use turn::{
    ActivityTask, Awaited, Completion, Delivery, Effect, FailedAttempt, Outcome, Step, Terminal, TurnOutput, Waiting,
    Waits,
};
