//! What Perdure needs of a store: `trait Provider` and its types. It knows nothing of any SQL.
//!
//! Invariants that every provider keeps (checked by `perdure-provider-contract`, cited as P1 to P12):
//!
//! - **P1** A batch of [`Write`]s is one transaction, or several; each write in it is atomic by itself, and outcomes come in order.
//! - **P2** A [`TurnCommit`] is fenced by owner, epoch and next event id: a part that does not match changes nothing and is
//!   answered with [`Outcome::Fenced`]; the other parts of its batch commit. A [`Heartbeat`] is fenced by owner, epoch and execution.
//! - **P3** An instance's epoch rises at every acquisition (a claimed start counts as one) and never falls.
//! - **P4** At most one worker owns an instance, and only instances that are active, unowned and due are acquired.
//! - **P5** Message numbers rise in the order in which messages become visible to readers; a message is gone once the turn that consumed it is committed.
//! - **P6** Ended instances never change again; what waits for them is dropped with the commit that ends them, and so are heartbeats
//!   with a termination.
//! - **P7** A release, a takeover and a termination clear the owner, so that the former owner's commits are fenced off.
//! - **P8** Event ids of an execution are 1..n without gap, and history only ever grows.
//! - **P9** Leases and due times are compared with the store's clock alone.
//! - **P10** An execution that continues as new ends, and the next begins, in one commit. What waits for the instance and the custom status
//!   stay; the history of the former execution can be read as before.
//! - **P11** What a turn starts, sends and cancels is written with it, or nothing of either. The end of a child, however it comes, tells the
//!   execution that started it, in the same commit; the end of an instance from outside cancels its children.
//! - **P12** A task is there from the turn that offers it until that of its withdrawal, the end of its attempt, or the termination of its
//!   instance. At most one worker runs it; with the worker it goes back. The end of an attempt is told to the execution once.

mod clock;
mod error;
mod instance;
mod provider;
mod task;
mod worker;
mod write;

pub use clock::{Clock, ManualClock, SystemClock};
pub use error::{ProviderError, ProviderErrorKind};
pub use instance::{
    Acquire, Acquired, AcquiredInstance, Epoch, Inbox, InstanceKey, InstanceStatus, MessagePage, ResumeUnfit, Status,
    Unfit,
};
pub use provider::{ChangeListener, CommitDone, Provider, ProviderInfo};
pub use task::{AcquiredTasks, Task, TaskDone, TaskName, TaskOffer, TaskRequest};
pub use worker::{NewWorker, Worker, WorkerId};
pub use write::{
    AfterTurn, Heartbeat, NewInstance, NewMessage, NextExecution, OnConflict, OtherMessage, OtherStart, Others,
    Outcome, Receivers, StatusChange, Teller, Terminate, ToOthers, TurnCommit, Write,
};
