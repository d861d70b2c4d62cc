//! S28: in a cancelled execution, every guarded block that was entered was closed once. A block within another one was
//! closed before the outer one goes on.
//!
//! History alone tells, by the activities that a guarded block begins and ends with. An execution with the flat rules,
//! whose fibers end with the main one, promises none of it.

use std::collections::HashMap;

use perdure_engine::{CommandEvent, DeliveryEvent, EndEvent, Event, EventId, EventRecord};

use crate::code::work_of;
use crate::guards::{Guards, Nested};
use crate::program::{Guard, Program, Work};

/// Returns the number of guarded blocks that were cleaned up to the end.
pub(crate) fn done(program: &Program, history: &[EventRecord]) -> u64 {
    let steps = Steps::of(history);
    let is_done = |guard: &&&Guard| {
        let undone = steps.step(guard.undo).scheduled;
        !undone.is_empty() && !steps.step(guard.close).completed.is_empty()
    };
    Guards::of(program).all.iter().filter(is_done).count() as u64
}

/// Returns the violations in the cleanup of an execution.
pub(crate) fn wrong(program: &Program, history: &[EventRecord]) -> Vec<String> {
    let steps = Steps::of(history);
    let last = history.last().cloned().map(EventRecord::into_event);
    // A request to cancel a suspended execution ends it from outside.
    let is_cancelled = matches!(last, Some(Ok(Event::End(EndEvent::ExecutionCancelled { .. }))));
    let guards = Guards::of(program);
    let unclosed = guards
        .all
        .iter()
        .filter_map(|guard| steps.wrong_with(guard, is_cancelled));
    let nested = guards.nested.iter().filter_map(|nested| steps.wrong_order(nested));
    unclosed.chain(nested).collect()
}

/// The activities of an execution by tag.
#[derive(Default)]
struct Steps(HashMap<u32, Step>);

/// The events of an activity.
#[derive(Clone, Default)]
struct Step {
    scheduled: Vec<EventId>,
    completed: Vec<EventId>,
}

impl Steps {
    fn of(history: &[EventRecord]) -> Self {
        let mut steps = Self::default();
        let mut tags = HashMap::new();
        for record in history {
            match record.clone().into_event() {
                Ok(Event::Command(CommandEvent::ActivityScheduled { input, .. })) => {
                    let tag = work_of(input.as_deref().unwrap_or_default()).tag;
                    tags.insert(record.event_id, tag);
                    steps.0.entry(tag).or_default().scheduled.push(record.event_id);
                }
                Ok(Event::Delivery(DeliveryEvent::ActivityCompleted { scheduled, .. })) => {
                    if let Some(step) = tags.get(&scheduled).and_then(|tag| steps.0.get_mut(tag)) {
                        step.completed.push(record.event_id);
                    }
                }
                _ => {}
            }
        }
        steps
    }

    fn step(&self, work: Work) -> Step {
        self.0.get(&work.tag).cloned().unwrap_or_default()
    }

    fn wrong_with(&self, guard: &Guard, is_cancelled: bool) -> Option<String> {
        let entered = *self.step(guard.enter).scheduled.first()?;
        let times = self.step(guard.close).completed.len();
        let is_right = times == 1 || times == 0 && !is_cancelled;
        let tag = guard.enter.tag;
        (!is_right).then(|| format!("block {tag} was entered at #{entered} and closed {times} times"))
    }

    fn wrong_order(&self, nested: &Nested<'_>) -> Option<String> {
        let Nested {
            outer,
            inner,
            is_in_cleanup,
        } = nested;
        self.step(inner.enter).scheduled.first()?;
        let undone = self.step(outer.undo).scheduled.first().copied();
        let mut closes = self.step(outer.close).scheduled.into_iter();
        let goes_on = match is_in_cleanup {
            // An earlier close was given up.
            true => closes.find(|close| Some(*close) > undone),
            false => closes.chain(undone).min(),
        }?;
        let closed = self.step(inner.close).completed.first().copied();
        let is_right = closed.is_some_and(|closed| closed < goes_on);
        let tags = (inner.enter.tag, outer.enter.tag);
        (!is_right).then(|| {
            let closed = closed.map_or_else(|| "never".to_owned(), |closed| format!("at #{closed}"));
            format!(
                "block {} was closed {closed}, and block {} around it goes on at #{goes_on}",
                tags.0, tags.1
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use perdure_engine::ActivityOptions;

    use super::*;
    use crate::program::{Block, Kind, Op, Origin};
    use crate::terms::Terms;

    fn work(tag: u32) -> Work {
        Work { tag, ..Work::default() }
    }

    fn guard(tag: u32, body: Block) -> Op {
        guard_with(tag, body, Block::default())
    }

    fn guard_with(tag: u32, body: Block, cleanup: Block) -> Op {
        Op::Guarded(Box::new(Guard {
            enter: work(tag),
            body,
            undo: work(tag + 1),
            cleanup,
            close: work(tag + 2),
        }))
    }

    /// Block 10 with block 20 in a branch that it waits for, and block 30 in a branch that it does not wait for.
    fn program(cleanup: Vec<Op>) -> Program {
        let awaited = Op::All(vec![Arc::new(vec![guard(20, Block::default())])]);
        let left = Op::Race {
            branches: vec![Arc::new(vec![guard(30, Block::default())])],
            cancel_losers: false,
        };
        Program {
            origin: Origin::Client,
            kind: Kind::Plain,
            rounds: 1,
            body: Arc::new(vec![guard_with(10, Arc::new(vec![awaited, left]), Arc::new(cleanup))]),
            cleans_up: false,
            is_free: true,
            is_scoped: true,
            terms: Terms::default(),
        }
    }

    fn wrong_in(tags: &[i32]) -> Vec<String> {
        wrong(&program(Vec::new()), &history(tags, true))
    }

    /// Schedules the activity of each tag, or completes it if the tag is negative.
    fn history(tags: &[i32], is_cancelled: bool) -> Vec<EventRecord> {
        let mut scheduled = HashMap::new();
        let events = (1..).zip(tags).map(|(id, tag)| {
            let id = EventId(id);
            let event = match u32::try_from(*tag) {
                Ok(tag) => {
                    scheduled.insert(tag, id);
                    Event::Command(CommandEvent::ActivityScheduled {
                        name: "work".into(),
                        input: Some(format!("{tag} 1 0 0 0 0 0 -")),
                        options: ActivityOptions::default(),
                    })
                }
                Err(_) => Event::Delivery(DeliveryEvent::ActivityCompleted {
                    scheduled: scheduled[&tag.unsigned_abs()],
                    output: None,
                }),
            };
            EventRecord::new(id, 0, event)
        });
        let mut history: Vec<_> = events.collect();
        if is_cancelled {
            let end = EndEvent::ExecutionCancelled { error: None };
            history.push(EventRecord::new(EventId(history.len() as u64 + 1), 0, end));
        }
        history
    }

    #[test]
    fn cleanup_in_order_is_right() {
        let tags = [10, -10, 20, 30, 21, -21, 31, -31, 22, -22, 11, 32, -11, 12, -32, -12];
        assert_eq!(wrong_in(&tags), Vec::<String>::new());
        // A block that was not entered has nothing to clean up.
        assert_eq!(wrong_in(&[10, 11, -11, 12, -12]), Vec::<String>::new());
    }

    /// The cancellation came to block 10 when it was about to close. The first history ends in the middle of the block
    /// in its cleanup.
    #[test]
    fn cleanup_after_a_close_that_was_given_up_is_right() {
        let entered = [10, -10, 12, 11, -11, 40];
        let program = program(vec![guard(40, Block::default())]);
        assert_eq!(wrong(&program, &history(&entered, false)), Vec::<String>::new());
        let closed = [&entered[..], &[-40, 42, 12, -42, -12]].concat();
        assert_eq!(
            wrong(&program, &history(&closed, true)),
            ["block 40 was closed at #10, and block 10 around it goes on at #9"]
        );
    }

    #[test]
    fn block_that_stays_open_is_wrong() {
        let tags = [10, -10, 20, 30, 21, -21, 22, -22, 11, -11, 12, -12];
        assert_eq!(wrong_in(&tags), ["block 30 was entered at #4 and closed 0 times"]);
    }

    #[test]
    fn block_that_is_closed_after_the_one_around_it_is_wrong() {
        let tags = [10, -10, 20, 21, 11, -21, 22, -11, -22, 12, -12];
        assert_eq!(
            wrong_in(&tags),
            ["block 20 was closed at #9, and block 10 around it goes on at #5"]
        );
    }
}
