//! What Perdure needs of a store: `trait Provider` and its types. It knows nothing of any SQL.
//!
//! Invariants that every provider keeps (checked by `perdure-provider-contract`, cited as P1 to P17):
//!
//! - **P1** A batch of [`Write`]s is one transaction, or several; each write in it is atomic by itself, and outcomes come in order.
//! - **P2** A [`TurnCommit`] is fenced by owner, epoch and next event id: a part that does not match changes nothing and is
//!   answered with [`Outcome::Fenced`]; the other parts of its batch commit. A [`Heartbeat`] is fenced by owner, epoch and execution.
//! - **P3** An instance's epoch rises at every acquisition (a claimed start counts as one) and never falls.
//! - **P4** At most one worker owns an instance, and only instances that are active, unowned and due are acquired. An acquisition is durable
//!   before anything of the instances is read: a worker that dies of what it reads has owned it (P14).
//! - **P5** The numbers of an instance's messages rise in the order in which these become visible to readers; a message is gone once the
//!   turn that consumed it is committed.
//! - **P6** Ended instances never change again; what waits for them is dropped with the commit that ends them, and so are heartbeats
//!   with a termination.
//! - **P7** A release, a takeover, a termination and a suspension clear the owner, so that the former owner's commits are fenced off.
//! - **P8** Event ids of an execution are 1..n without gap, and history only ever grows, until it is pruned whole. What an event says never
//!   changes, though the text of its value may be [replaced](Provider::replace_texts) by another of the same value.
//! - **P9** Leases and due times are compared with the store's clock alone.
//! - **P10** An execution that continues as new ends, and the next begins, in one commit. What waits for the instance and the custom status
//!   stay; the history of the former execution can be read as before, until it is pruned.
//! - **P11** What a turn starts, sends and cancels is written with it, or nothing of either. The end of a child, however it comes, tells the
//!   execution that started it, in the same commit; the end of an instance from outside cancels its children. A request to cancel ends a suspended
//!   instance in the commit that brings it, because none of its code can run.
//! - **P12** A task is there from the turn that offers it until that of its withdrawal, the end of its attempt, or the termination of its
//!   instance. At most one worker runs it; with the worker it goes back. The end of an attempt is told to the execution once.
//! - **P13** Only ended instances are deleted, and one is gone for every reader with the commit that deletes it. Its children stay, and
//!   name a parent that is no more. What its executions recorded is swept away after that, in steps of a limited size; a crash in between
//!   loses nothing of what is left to sweep.
//! - **P14** What speaks against an instance is kept with it ([`Suspicion`]). A worker that dies leaves a suspicion on what it owned, more of it on
//!   what was on [`Trial`], and evidence against one that was tried alone; a turn that holds up its worker's thread is evidence, too. With
//!   too much of it the instance is suspended in the commit that adds it; nothing of the instance is read for that. What is given back in
//!   good order loses and gains nothing; a turn that appends events clears it, and so does a resume.
//! - **P15** A worker from which a termination or a suspension takes an instance is told so with its [`Inbox`], each time until it lets go of
//!   the instance or is gone, whatever becomes of the instance meanwhile.
//! - **P16** A renewal tells what the worker owns in the store at that moment, so that the worker can compare it with what it knows. Only an error
//!   that [blames a row](ProviderErrorKind::blames_row) is a verdict on a write; any other says that the store cannot write now.
//! - **P17** An instance whose version is [open](OPEN_VERSION) is acquired by no worker before that is settled, within an acquisition: the newest
//!   version of its orchestration that a worker has whose lease holds. If that is not the one that acquires, the instance stays due.

mod change;
mod check;
mod clock;
mod error;
mod housekeeping;
mod inspection;
mod instance;
mod integrity;
mod kept_message;
mod listing;
mod page;
mod provider;
mod suspicion;
mod task;
mod texts;
mod version;
mod worker;
mod write;

pub use change::{Change, Receiving};
pub use check::BadWrite;
pub use clock::{Clock, ManualClock, SystemClock};
pub use error::{CommitOutcome, ProviderError, ProviderErrorKind};
pub use housekeeping::{
    OVERDUE_MS, OVERDUE_SORTS_MAX, Overdue, PruneExecutions, PruneRequest, Pruned, PrunedExecutions, StoreStats,
};
pub use inspection::Inspection;
pub use instance::{
    Acquire, Acquired, AcquiredInstance, Epoch, Inbox, InboxPosition, InstanceKey, InstanceStatus, Load, LoadOne,
    Loaded, MessagePage, ResumeUnfit, Revoked, Status, Unfit,
};
pub use integrity::{
    AttemptFacts, CHECK_EVENTS_MAX, CHECK_FINDINGS_MAX, CHECK_INSTANCES_MAX, CheckRequest, Checked, EventFacts,
    Examination, Finding, InstanceFacts, Rule,
};
pub use kept_message::{KeptMessage, kept_mailbox};
pub use listing::{
    Among, Candidate, Filter, LIST_BYTES_MAX, ListPage, ListRequest, PREFIX_IDS_MAX, Place, TROUBLED, after_prefix,
};
pub use page::PageLimit;
pub use provider::{AnswerListener, ChangeListener, CommitDone, Provider, ProviderInfo};
pub use suspicion::{Convict, GiveBack, GivenBack, REST_MS, Suspicion, TakenOver, Trial, TrialStep};
pub use task::{AcquiredTasks, Task, TaskDone, TaskName, TaskOffer, TaskRequest};
pub use texts::{StoredText, TextChange, TextField, TextPage, TextRequest, TextRow, TextTable};
pub use version::{Newest, OPEN_VERSION, Settled, compare_versions};
pub use worker::{LetGoTask, NewWorker, OwnedDigest, Renewal, Worker, WorkerId, WorkerLoad};
pub use write::{
    AfterTurn, Heartbeat, LetGo, NewInstance, NewMessage, NextExecution, OnConflict, OtherMessage, OtherStart, Others,
    Outcome, Receivers, StatusChange, Suspend, Teller, Terminate, ToOthers, TurnCommit, Write,
};
