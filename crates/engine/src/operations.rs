//! The operations that have not settled, and the work outside that they require.
//!
//! This file owns which attempt of an activity is due, and whether the outside has it. It owns the order in
//! which awaited operations are delivered: sent operations by id, then timers by due time and id. It does not own when
//! an operation settles: the engine says so, live and in a replay alike.
//!
//! No work outside is due before [`Operations::go_live`]: an activity that a replay finds open starts only when the
//! replay has shown that the code still fits.
//!
//! An operation is open from its command until it settles or is given up:
//!
//! | operation | settles by |
//! |---|---|
//! | activity | `ActivityCompleted`, `ActivityFailed` |
//! | timer | `TimerFired`, if it is awaited |
//! | child | `ChildCompleted`, `ChildFailed`, `OperationRefused` |
//! | sent (a detached start or a message) | `OperationConfirmed`, if it is awaited, or `OperationRefused` |
//!
//! The current attempt of an open activity is dispatched to the outside by the effects of a turn:
//!
//! | from | on | to |
//! |---|---|---|
//! | | the activity is scheduled | `New` |
//! | `New`, `Due` | the turn ends, live | `Dispatched` |
//! | `New`, `Due` | the attempt fails and another follows | unchanged, with the next attempt |
//! | `Dispatched` | the attempt fails and another follows | `Due`, the next attempt |
//! | `New` | the replay ends | `Due` |
//! | `New` | the activity is given up | closed; the outside never hears of it |
//! | `Due`, `Dispatched` | the activity is given up | closed; the outside aborts it |

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;

use crate::open_work::{FailedBefore, OpenOperation};
use crate::small_set::SmallSet;
use crate::turn::ActivityTask;
use crate::{ActivityOptions, Bug, Effect, EventId, Payload, is_planted};

/// Most open operations that are looked at for the text of the open work.
const WALK_MAX: usize = 1_000;

/// An activity that has not settled.
#[derive(Clone, Debug)]
pub(crate) struct Activity {
    pub(crate) task: Arc<ActivityTask>,
    /// The attempt that runs or is to run, from 1.
    pub(crate) attempt: u32,
    not_before_ms: i64,
    dispatch: Dispatch,
}

/// State of the current attempt of an activity as the outside knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dispatch {
    /// The outside knows nothing of the activity, which was scheduled in this turn or in a replay.
    New,
    /// The outside may know an earlier attempt. It gets this one when the turn ends.
    Due,
    /// The outside has the attempt.
    Dispatched,
}

#[derive(Clone, Debug)]
enum Operation {
    Activity(Activity),
    Timer {
        fire_at_ms: i64,
    },
    /// A child. A message settles it when the child has ended.
    Child,
    /// A detached start or a message. It settles once it is durable, if a fiber waits for that.
    Sent,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Operations {
    open: BTreeMap<EventId, Operation>,
    activities: usize,
    /// The open activities that are inline.
    inline: usize,
    children: usize,
    /// The open starts and messages.
    sent: usize,
    /// The event of the last failed attempt of each open activity that has failed.
    failures: BTreeMap<EventId, EventId>,
    /// The open timers that are awaited, by due time.
    awaited_timers: SmallSet<(i64, EventId)>,
    /// The sent operations that are open and awaited.
    awaited_sent: BTreeSet<EventId>,
    live: bool,
    /// True if this turn began as a replay.
    was_replaying: bool,
    /// Activities that are [`Dispatch::New`] or [`Dispatch::Due`], in the order in which they became so, and some that
    /// have settled since. Empty before `go_live`.
    to_start: Vec<EventId>,
    to_abort: Vec<EventId>,
}

impl Operations {
    pub(crate) fn schedule(
        &mut self,
        id: EventId,
        name: String,
        input: Payload,
        options: ActivityOptions,
        now_ms: i64,
    ) {
        self.inline += usize::from(options.inline);
        let total_ms = options
            .total_timeout_ms
            .map(|total| i64::try_from(total).unwrap_or(i64::MAX));
        let task = Arc::new(ActivityTask {
            scheduled: id,
            name,
            input,
            options,
            deadline_ms: total_ms.map(|total| now_ms.saturating_add(total)),
        });
        let activity = Activity {
            task,
            attempt: 1,
            not_before_ms: 0,
            dispatch: Dispatch::New,
        };
        self.open.insert(id, Operation::Activity(activity));
        self.activities += 1;
        if self.live {
            self.to_start.push(id);
        }
    }

    pub(crate) fn create_timer(&mut self, id: EventId, fire_at_ms: i64) {
        self.open.insert(id, Operation::Timer { fire_at_ms });
    }

    /// Adds a child that is to be started.
    pub(crate) fn start_child(&mut self, id: EventId) {
        self.open.insert(id, Operation::Child);
        self.children += 1;
    }

    /// Adds a start or message that is sent to another instance.
    pub(crate) fn send(&mut self, id: EventId) {
        self.open.insert(id, Operation::Sent);
        self.sent += 1;
    }

    /// Removes an operation that has settled.
    pub(crate) fn close(&mut self, id: EventId) {
        self.take(id);
    }

    fn take(&mut self, id: EventId) -> Option<Operation> {
        self.forget(id);
        let operation = self.open.remove(&id)?;
        match &operation {
            Operation::Activity(activity) => {
                self.activities -= 1;
                self.inline -= usize::from(activity.task.options.inline);
                self.failures.remove(&id);
            }
            Operation::Child => self.children -= 1,
            Operation::Sent => self.sent -= 1,
            Operation::Timer { .. } => {}
        }
        Some(operation)
    }

    /// Gives up an operation. `true`: it is a child, which is to be cancelled.
    pub(crate) fn cancel(&mut self, id: EventId) -> bool {
        match self.take(id) {
            Some(Operation::Activity(activity)) => {
                if self.live && activity.dispatch != Dispatch::New {
                    self.to_abort.push(id);
                }
                false
            }
            Some(Operation::Child) => self.live,
            Some(Operation::Timer { .. } | Operation::Sent) | None => false,
        }
    }

    /// Gives up all open operations. Returns the children among them that are to be cancelled.
    pub(crate) fn cancel_all(&mut self) -> Vec<EventId> {
        let open: Vec<EventId> = self.open.keys().copied().collect();
        open.into_iter().filter(|id| self.cancel(*id)).collect()
    }

    /// Notes that an attempt of an activity failed, as `event` records; the next may start at `not_before_ms`.
    pub(crate) fn retry(&mut self, id: EventId, event: EventId, failed_attempt: u32, not_before_ms: i64) {
        let Some(Operation::Activity(activity)) = self.open.get_mut(&id) else {
            return;
        };
        activity.attempt = failed_attempt.saturating_add(1);
        activity.not_before_ms = not_before_ms;
        self.failures.insert(id, event);
        if activity.dispatch == Dispatch::Dispatched {
            activity.dispatch = Dispatch::Due;
            self.to_start.push(id);
        }
    }

    /// Returns the operations that have not settled, by id, and their number. A start or a message that nothing waits
    /// for is none of them.
    pub(crate) fn open(&self) -> (impl Iterator<Item = OpenOperation>, usize) {
        let is_open = |(id, operation): &(&EventId, &Operation)| {
            !matches!(operation, Operation::Sent) || self.awaited_sent.contains(id)
        };
        let open = self
            .open
            .iter()
            .take(WALK_MAX)
            .filter(is_open)
            .map(|(id, operation)| OpenOperation {
                scheduled: *id,
                failed: match operation {
                    Operation::Activity(activity) => self.failures.get(id).map(|event| FailedBefore {
                        event: *event,
                        attempt: activity.attempt,
                        not_before_ms: activity.not_before_ms,
                    }),
                    Operation::Timer { .. } | Operation::Child | Operation::Sent => None,
                },
            });
        (open, self.open.len() - self.sent + self.awaited_sent.len())
    }

    pub(crate) fn activity(&self, id: EventId) -> Option<&Activity> {
        match self.open.get(&id) {
            Some(Operation::Activity(activity)) => Some(activity),
            _ => None,
        }
    }

    /// Returns true if the operation is a timer that has neither fired nor been cancelled.
    pub(crate) fn is_timer(&self, id: EventId) -> bool {
        matches!(self.open.get(&id), Some(Operation::Timer { .. }))
    }

    /// Number of open activities.
    pub(crate) const fn activities(&self) -> usize {
        self.activities
    }

    /// Returns true if the operation is a child that has not ended.
    pub(crate) fn is_child(&self, id: EventId) -> bool {
        matches!(self.open.get(&id), Some(Operation::Child))
    }

    /// Returns true if the operation is a start or message that has not settled.
    pub(crate) fn is_sent(&self, id: EventId) -> bool {
        matches!(self.open.get(&id), Some(Operation::Sent))
    }

    /// Number of open children.
    pub(crate) const fn children(&self) -> usize {
        self.children
    }

    /// True if an inline activity is open.
    pub(crate) const fn has_inline(&self) -> bool {
        self.inline > 0
    }

    /// Notes that an operation is awaited from now on, if it is open and settles only when awaited.
    pub(crate) fn wait_for(&mut self, id: EventId) {
        match self.open.get(&id) {
            Some(Operation::Timer { fire_at_ms }) => self.awaited_timers.insert((*fire_at_ms, id)),
            Some(Operation::Sent) => drop(self.awaited_sent.insert(id)),
            _ => {}
        }
    }

    /// Notes that an operation is no longer awaited.
    pub(crate) fn forget(&mut self, id: EventId) {
        match self.open.get(&id) {
            Some(Operation::Timer { fire_at_ms }) => self.awaited_timers.remove(&(*fire_at_ms, id)),
            Some(Operation::Sent) => self.awaited_sent.remove(&id),
            _ => false,
        };
    }

    /// Notes that no operation is awaited.
    pub(crate) fn forget_awaited(&mut self) {
        self.awaited_timers.clear();
        self.awaited_sent.clear();
    }

    /// Returns true if the operation is a timer that is open and awaited.
    pub(crate) fn awaits_timer(&self, id: EventId) -> bool {
        let fire_at_ms = match self.open.get(&id) {
            Some(Operation::Timer { fire_at_ms }) => *fire_at_ms,
            _ => return false,
        };
        self.awaited_timers.contains(&(fire_at_ms, id))
    }

    /// Returns true if the operation was sent, is open and is awaited.
    pub(crate) fn awaits_sent(&self, id: EventId) -> bool {
        self.awaited_sent.contains(&id)
    }

    /// The timers and sent operations that are open and awaited, by id.
    pub(crate) fn awaited(&self) -> Vec<EventId> {
        let timers = self.awaited_timers.iter().map(|(_, id)| *id);
        let mut awaited: Vec<EventId> = timers.chain(self.awaited_sent.iter().copied()).collect();
        awaited.sort_unstable();
        awaited
    }

    /// The first sent operation that is awaited.
    pub(crate) fn first_sent(&self) -> Option<EventId> {
        self.awaited_sent.first().copied()
    }

    /// Due time of the first awaited timer.
    pub(crate) fn next_timer(&self) -> Option<i64> {
        self.first_timer().map(|(at_ms, _)| at_ms)
    }

    /// The awaited timer that has been due for longest.
    pub(crate) fn due_timer(&self, now_ms: i64) -> Option<EventId> {
        let (at_ms, id) = self.first_timer()?;
        (at_ms <= now_ms).then_some(id)
    }

    fn first_timer(&self) -> Option<(i64, EventId)> {
        let (fire_at_ms, id) = *self.awaited_timers.first()?;
        let early_ms = if is_planted(Bug::EarlyTimer) { 20 } else { 0 };
        Some((fire_at_ms - early_ms, id))
    }

    /// Ends the replay. The open operations go on. The last attempt of an activity may still run in this process, so
    /// the outside may know of it.
    pub(crate) fn go_live(&mut self) {
        self.live = true;
        self.was_replaying = true;
        for (id, operation) in &mut self.open {
            if let Operation::Activity(activity) = operation {
                activity.dispatch = Dispatch::Due;
                self.to_start.push(*id);
            }
        }
    }

    /// Returns the work to do outside at the end of a turn. `settled` gives the activities whose end has come from
    /// outside but was not delivered yet. If a replay found such an activity open, it ran on in the meantime and must
    /// not start again.
    pub(crate) fn take_effects(&mut self, settled: impl FnOnce() -> BTreeSet<EventId>) -> Vec<Effect> {
        let settled = if mem::take(&mut self.was_replaying) {
            settled()
        } else {
            BTreeSet::new()
        };
        let aborts = mem::take(&mut self.to_abort);
        let mut effects: Vec<Effect> = aborts
            .into_iter()
            .map(|scheduled| Effect::AbortActivity { scheduled })
            .collect();
        for id in mem::take(&mut self.to_start) {
            if let Some(Operation::Activity(activity)) = self.open.get_mut(&id) {
                let before = mem::replace(&mut activity.dispatch, Dispatch::Dispatched);
                if settled.contains(&id) {
                    continue;
                }
                let Activity {
                    task,
                    attempt,
                    not_before_ms,
                    ..
                } = activity;
                effects.push(Effect::StartActivity {
                    task: Arc::clone(task),
                    attempt: *attempt,
                    not_before_ms: *not_before_ms,
                    is_untried: before == Dispatch::New || (*attempt == 1 && is_planted(Bug::ReplayedCountsAsUntried)),
                });
            }
        }
        effects
    }
}
