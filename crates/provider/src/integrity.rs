//! The rules that hold of the rows of any store, and the findings where they do not.
//!
//! A provider reads the rows, a few instances at a time and all rows of a step at one moment, and tells them to an
//! [`Examination`]. Numbers and texts are told as they are, because some of them may not have been written by Perdure.
//!
//! The work in progress of a worker is no finding: each commit leaves rows to which the rules apply. A history whose
//! oldest execution is being pruned, from its last event on, may lack its end.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use perdure_engine::EventKind as Kind;

use crate::{InstanceKey, QueuePlace, Status};

/// Most instances of one step.
pub const CHECK_INSTANCES_MAX: usize = 500;
/// Number of events after which a step takes no further instance.
pub const CHECK_EVENTS_MAX: u64 = 20_000;
/// Most findings of one instance, and most rows of one sort in a step that belong to no instance.
pub const CHECK_FINDINGS_MAX: usize = 20;

/// A step of a check.
#[derive(Clone, Copy, Debug)]
pub struct CheckRequest {
    /// Only instances with a higher key. `None`: from the first instance on, together with the rules for the store as a
    /// whole.
    pub after: Option<InstanceKey>,
    /// Most instances of the step; no more than [`CHECK_INSTANCES_MAX`].
    pub limit: usize,
}

/// The result of a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// The violations that were found.
    pub findings: Vec<Finding>,
    /// Number of instances of the step.
    pub instances: u64,
    /// Number of their events.
    pub events: u64,
    /// Key after which the next step goes on; `None`: all instances were seen.
    pub next: Option<InstanceKey>,
}

/// A violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule that is violated.
    pub rule: Rule,
    /// Id of the instance, if it is known.
    pub instance: Option<String>,
    /// Description for a person. It holds no payload.
    pub detail: String,
}

/// The rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The file is damaged.
    File,
    /// The events of an execution are not 1..n, its end is not its last event or not its only end, or a completion has
    /// no schedule.
    History,
    /// The row of an instance contradicts itself, its history or its messages.
    Status,
    /// An instance or a task is owned by a worker that is not registered, or an instance is owned that no worker may
    /// own.
    Owner,
    /// A row needs another row that does not exist.
    Orphan,
    /// An instance has not ended, and nothing can ever wake it.
    Stuck,
}

impl Rule {
    /// Returns the rule's name for users.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Rule::File => "file",
            Rule::History => "history",
            Rule::Status => "status",
            Rule::Owner => "owner",
            Rule::Orphan => "orphan",
            Rule::Stuck => "stuck",
        }
    }
}

impl Finding {
    /// Creates a finding that concerns no existing instance.
    pub fn of_store(rule: Rule, detail: impl Display) -> Self {
        Self {
            rule,
            instance: None,
            detail: detail.to_string(),
        }
    }

    /// Creates the finding for rows of a table whose instance does not exist.
    pub fn orphan(table: &str, key: i64) -> Self {
        Self::of_store(
            Rule::Orphan,
            format_args!("there are rows of {table} of instance {key}, which does not exist"),
        )
    }
}

/// The row of an instance.
#[derive(Clone, Debug)]
pub struct InstanceFacts {
    /// The user's name of the instance.
    pub id: String,
    /// Current execution.
    pub execution: i64,
    /// Status.
    pub status: String,
    /// Owner of the instance.
    pub owner: Option<String>,
    /// True if the owner is a registered worker. Without meaning if there is no owner.
    pub owner_is_registered: bool,
    /// Id of the next event.
    pub next_event_id: i64,
    /// True if the row has a time at which the instance is due.
    pub is_due: bool,
    /// Number of waiting messages that the row counts.
    pub unread: i64,
    /// True if the row has a report of a suspension.
    pub has_report: bool,
    /// True if the row has the time of the end.
    pub has_end: bool,
}

/// The part of an event that rules look at.
#[derive(Clone, Copy, Debug)]
pub struct EventFacts<'a> {
    /// Execution of the event.
    pub execution: i64,
    /// Id of the event.
    pub event_id: i64,
    /// Kind of the event.
    pub kind: &'a str,
    /// The earlier event that the event refers to.
    pub ref_id: Option<i64>,
}

/// An attempt that is offered, or a heartbeat of an attempt.
#[derive(Clone, Copy, Debug)]
pub struct AttemptFacts<'a> {
    /// Execution of the attempt.
    pub execution: i64,
    /// The event that scheduled the activity.
    pub scheduled: i64,
    /// The worker that runs the attempt, and true if that worker is registered.
    pub owner: Option<(&'a str, bool)>,
}

/// The examination of one instance with all rows that belong to it. The events are told first, in order, then the rest
/// in any order.
pub struct Examination {
    facts: InstanceFacts,
    status: Option<Status>,
    findings: Vec<Finding>,
    first_execution: Option<i64>,
    /// The execution whose events are being read.
    current: CurrentExecution,
    messages: i64,
    /// Events of the current execution: those that are offered as tasks, those whose end waits as a message, and those
    /// whose child runs.
    offered: BTreeSet<i64>,
    settled: BTreeSet<i64>,
    running: BTreeSet<i64>,
    /// The state of the instance in its queue, if it is in one.
    queue_place: Option<i64>,
}

/// An execution, as far as its events were read.
#[derive(Default)]
struct CurrentExecution {
    execution: i64,
    events: i64,
    ends: usize,
    last: Option<Kind>,
    /// The operations that were scheduled and are not over, by event id.
    open: BTreeMap<i64, Kind>,
}

impl Examination {
    /// Creates the examination of an instance with this row.
    #[must_use]
    pub fn new(facts: InstanceFacts) -> Self {
        let status = Status::parse(&facts.status);
        Self {
            facts,
            status,
            findings: Vec::new(),
            first_execution: None,
            current: CurrentExecution::default(),
            messages: 0,
            offered: BTreeSet::new(),
            settled: BTreeSet::new(),
            running: BTreeSet::new(),
            queue_place: None,
        }
    }

    fn find(&mut self, rule: Rule, detail: impl Display) {
        if self.findings.len() < CHECK_FINDINGS_MAX {
            self.findings.push(Finding {
                rule,
                instance: Some(self.facts.id.clone()),
                detail: detail.to_string(),
            });
        }
    }

    /// Takes the next event, in order of executions and ids.
    pub fn event(&mut self, event: EventFacts<'_>) {
        let EventFacts {
            execution,
            event_id: id,
            kind,
            ref_id,
        } = event;
        if self.first_execution.is_none() || execution != self.current.execution {
            self.execution_begins(execution);
        }
        let at = format!("event {id} of execution {execution}");
        self.current.events += 1;
        if id != self.current.events {
            let missing = self.current.events;
            self.find(
                Rule::History,
                format_args!("event {missing} of execution {execution} is missing, event {id} follows"),
            );
            self.current.events = id;
        }
        let Some(kind) = Kind::parse(kind) else {
            self.find(Rule::History, format_args!("the kind of {at} is unknown"));
            return;
        };
        if (kind == Kind::ExecutionStarted) != (id == 1) {
            self.find(Rule::History, format_args!("{at} is {kind}"));
        }
        if self.current.ends > 0 {
            self.find(Rule::History, format_args!("{at} ({kind}) comes after the end"));
        }
        self.current.ends += usize::from(end_of(kind).is_some());
        self.current.last = Some(kind);
        self.refer(&at, id, kind, ref_id);
    }

    /// Checks that a completion belongs to one earlier schedule that has no completion yet.
    fn refer(&mut self, at: &str, id: i64, kind: Kind, ref_id: Option<i64>) {
        if is_schedule(kind) {
            self.current.open.insert(id, kind);
        }
        let is_over = is_over_with(kind);
        if !is_over && kind != Kind::ActivityAttemptFailed {
            return;
        }
        let open = ref_id.filter(|id| self.current.open.contains_key(id));
        match open {
            None => {
                let of = ref_id.map_or_else(|| "none".to_owned(), |id| id.to_string());
                self.find(
                    Rule::History,
                    format_args!("{at} ({kind}) refers to event {of}, which has no open operation"),
                );
            }
            Some(id) if is_over => drop(self.current.open.remove(&id)),
            Some(_) => {}
        }
    }

    fn execution_begins(&mut self, execution: i64) {
        match self.first_execution {
            None => self.first_execution = Some(execution),
            Some(_) => {
                self.execution_ends();
                let before = self.current.execution;
                if execution != before + 1 {
                    self.find(
                        Rule::History,
                        format_args!("execution {execution} follows on execution {before}"),
                    );
                }
            }
        }
        self.current = CurrentExecution {
            execution,
            ..CurrentExecution::default()
        };
    }

    /// Checks the last event of an execution.
    fn execution_ends(&mut self) {
        let CurrentExecution { execution, last, .. } = self.current;
        let found = last.map_or_else(|| "no event".to_owned(), |kind| kind.to_string());
        if execution < self.facts.execution {
            // The oldest may be about to be pruned, from its last event on.
            let is_pruned = self.first_execution == Some(execution) && self.current.ends == 0;
            if last != Some(Kind::ExecutionContinuedAsNew) && !is_pruned {
                self.find(
                    Rule::History,
                    format_args!("execution {execution} ends with {found}, and another one follows"),
                );
            }
            return;
        }
        let Some(status) = self.status else { return };
        let end = last.and_then(end_of);
        let fits = if status.is_terminal() {
            end == Some(End::OfInstance(status))
        } else {
            end.is_none()
        };
        if !fits {
            self.find(
                Rule::Status,
                format_args!("it is {status}, and the last event of execution {execution} is {found}"),
            );
        }
    }

    /// Takes a message that waits, with the schedule that it settles, if it settles one.
    pub fn message(&mut self, execution: Option<i64>, ref_id: Option<i64>) {
        self.messages += 1;
        if execution == Some(self.facts.execution) {
            self.settled.extend(ref_id);
        }
    }

    /// Takes a task.
    pub fn task(&mut self, task: AttemptFacts<'_>) {
        let at = self.attempt("task", task);
        self.offered.insert(task.scheduled);
        let is_current = task.execution == self.facts.execution;
        let is_open = self.current.open.get(&task.scheduled) == Some(&Kind::ActivityScheduled);
        if is_current && !is_open && !self.status.is_some_and(Status::is_terminal) {
            self.find(
                Rule::Orphan,
                format_args!("{at} is left, and that is no activity which is open"),
            );
        }
        if let Some((owner, false)) = task.owner {
            self.find(
                Rule::Owner,
                format_args!("{at} is run by worker {owner}, which is not registered"),
            );
        }
        if self.settled.contains(&task.scheduled) && is_current {
            self.find(
                Rule::Orphan,
                format_args!("{at} is offered, and the end of its attempt waits as a message"),
            );
        }
    }

    /// Takes the kept heartbeat of an activity. A heartbeat that came late may stay until the instance ends, although
    /// the activity is over.
    pub fn heartbeat(&mut self, beat: AttemptFacts<'_>) {
        self.attempt("heartbeat", beat);
    }

    fn attempt(&mut self, what: &str, attempt: AttemptFacts<'_>) -> String {
        let AttemptFacts {
            execution, scheduled, ..
        } = attempt;
        let at = format!("a {what} of event {scheduled}");
        let current = self.facts.execution;
        let ended = self.status.filter(|status| status.is_terminal());
        if let Some(status) = ended {
            self.find(Rule::Orphan, format_args!("{at} is left, and the instance is {status}"));
        } else if execution != current {
            self.find(
                Rule::Orphan,
                format_args!("{at} is left of execution {execution}, but execution {current} is current"),
            );
        }
        at
    }

    /// Takes a child that has not ended, by the execution and the event that started it.
    pub fn child(&mut self, execution: i64, scheduled: i64) {
        if execution == self.facts.execution {
            self.running.insert(scheduled);
        }
    }

    /// Takes the state of the instance in its queue.
    pub const fn queued(&mut self, place: i64) {
        self.queue_place = Some(place);
    }

    /// Returns true if the instance waits in a queue.
    fn waits_in_queue(&self) -> bool {
        self.queue_place.is_some_and(|place| place != QueuePlace::Slot.number())
    }

    /// Returns the findings, after all rows were told.
    #[must_use]
    pub fn findings(mut self) -> Vec<Finding> {
        let current = self.facts.execution;
        if self.first_execution.is_some() {
            self.execution_ends();
        }
        let last = if self.current.execution == current && self.first_execution.is_some() {
            self.current.events
        } else {
            self.current = CurrentExecution::default();
            self.find(Rule::History, format_args!("execution {current} has no event"));
            0
        };
        if self.facts.next_event_id != last + 1 {
            let next = self.facts.next_event_id;
            self.find(
                Rule::History,
                format_args!("its next event number is {next}, but its last event is {last}"),
            );
        }
        self.columns();
        self.wakes();
        self.findings
    }

    /// Checks that the columns of the row fit each other.
    fn columns(&mut self) {
        let Some(status) = self.status else {
            self.find(Rule::Status, "its status is unknown");
            return;
        };
        let is_active = matches!(status, Status::Pending | Status::Running);
        if let Some(owner) = self.facts.owner.clone() {
            if !is_active {
                self.find(Rule::Owner, format_args!("it is {status} and owned by worker {owner}"));
            }
            if !self.facts.owner_is_registered {
                self.find(
                    Rule::Owner,
                    format_args!("it is owned by worker {owner}, which is not registered"),
                );
            }
            if self.facts.is_due {
                self.find(Rule::Status, "it is owned and due");
            }
        }
        if self.facts.is_due && !is_active {
            self.find(Rule::Status, format_args!("it is {status} and due"));
        }
        if self.facts.has_end != status.is_terminal() {
            let has = if self.facts.has_end { "has" } else { "lacks" };
            self.find(Rule::Status, format_args!("it is {status} and {has} a time of its end"));
        }
        if self.facts.has_report != (status == Status::Suspended) {
            let has = if self.facts.has_report { "has" } else { "lacks" };
            self.find(Rule::Status, format_args!("it is {status} and {has} a report"));
        }
        if self.waits_in_queue() {
            let is_at_rest = self.facts.owner.is_none() && !self.facts.is_due;
            if !is_at_rest || !matches!(status, Status::Pending | Status::Suspended) {
                let how = if is_at_rest { "" } else { ", and owned or due" };
                self.find(
                    Rule::Status,
                    format_args!("it waits in a queue, but it is {status}{how}"),
                );
            }
        }
        let (counted, found) = (self.facts.unread, self.messages);
        if status.is_terminal() && found > 0 {
            self.find(
                Rule::Orphan,
                format_args!("it is {status}, and {found} messages wait for it"),
            );
        } else if counted != found {
            self.find(
                Rule::Status,
                format_args!("it counts {counted} messages, but {found} wait"),
            );
        }
    }

    /// Checks that something wakes an instance without owner: its due time, a message, the end of an offered activity,
    /// or the end of a child. An instance may wait for any message, and such a wait leaves no trace. The check
    /// therefore looks for activities and children that the instance scheduled and that no worker runs or may take.
    fn wakes(&mut self) {
        let is_active = matches!(self.status, Some(Status::Pending | Status::Running));
        if !is_active || self.facts.owner.is_some() || self.facts.is_due {
            return;
        }
        if self.status == Some(Status::Pending) && !self.waits_in_queue() {
            self.find(
                Rule::Stuck,
                "it is Pending without an owner, never due, and waits in no queue",
            );
        }
        for (id, kind) in std::mem::take(&mut self.current.open) {
            if self.settled.contains(&id) {
                continue;
            }
            if kind == Kind::ActivityScheduled && !self.offered.contains(&id) {
                self.find(
                    Rule::Stuck,
                    format_args!(
                        "it waits for the activity of event {id}, but no worker runs it and no task offers it"
                    ),
                );
            }
            if kind == Kind::ChildScheduled && !self.running.contains(&id) {
                self.find(
                    Rule::Stuck,
                    format_args!(
                        "it waits for the child of event {id}, but the child does not exist and no message reports it"
                    ),
                );
            }
        }
    }
}

/// The end of an execution.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The instance ends in this status.
    OfInstance(Status),
    /// Another execution follows.
    ContinuedAsNew,
}

/// Returns the end that a terminal event brings. `None`: the event is not terminal.
const fn end_of(kind: Kind) -> Option<End> {
    match kind {
        Kind::ExecutionCompleted => Some(End::OfInstance(Status::Completed)),
        Kind::ExecutionFailed => Some(End::OfInstance(Status::Failed)),
        Kind::ExecutionCancelled => Some(End::OfInstance(Status::Cancelled)),
        Kind::ExecutionTerminated => Some(End::OfInstance(Status::Terminated)),
        Kind::ExecutionContinuedAsNew => Some(End::ContinuedAsNew),
        _ => None,
    }
}

const fn is_schedule(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::ActivityScheduled
            | Kind::TimerCreated
            | Kind::ChildScheduled
            | Kind::InstanceStarted
            | Kind::EventSent
            | Kind::QueueSent
    )
}

const fn is_over_with(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::ActivityCompleted
            | Kind::ActivityFailed
            | Kind::TimerFired
            | Kind::ChildCompleted
            | Kind::ChildFailed
            | Kind::OperationConfirmed
            | Kind::OperationRefused
            | Kind::OperationCancelled
    )
}
