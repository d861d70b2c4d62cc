//! The effects of a turn on other instances than its own (P11): it starts them, sends to them and cancels them, and
//! offers tasks to other workers.

use perdure_engine::{ExecutionId, Refusal, Settlement};
use perdure_provider::{Affected, CrossInstanceEffects, CrossInstanceOutcome, InstanceKey, Outcome};

use super::found::{Parent, find, find_children};
use super::insert::insert;
use super::{cancel, mailbox, offer};
use crate::error::Failure;
use crate::session::Session;

/// The execution that affects others, and the time of that.
#[derive(Clone, Copy)]
pub(super) struct Origin {
    pub(super) key: InstanceKey,
    pub(super) execution: ExecutionId,
    pub(super) time_ms: i64,
}

/// Carries out the effects of a turn on other instances.
pub(super) fn carry_out(
    session: &mut Session<'_>,
    origin: Origin,
    effects: &CrossInstanceEffects,
) -> Result<CrossInstanceOutcome, Failure> {
    let Origin {
        key,
        execution,
        time_ms,
    } = origin;
    let mut outcome = CrossInstanceOutcome::default();
    let mut refused = Vec::new();
    let itself = |event| Parent { key, execution, event };
    for start in &effects.starts {
        let parent = start.is_child.then(|| itself(start.scheduled));
        let inserted = insert(session, &start.instance, parent.as_ref(), Some(key))?;
        let started = inserted.map_or_else(|refused| refused, |inserted| inserted.outcome(None));
        match started {
            Outcome::Exists if !start.accepts_other => refused.push((start.scheduled, Refusal::InstanceExists)),
            Outcome::NoQueue => refused.push((start.scheduled, Refusal::QueueNotFound)),
            _ => {}
        }
        outcome.started.push(started);
    }
    for other in &effects.messages {
        match find(session, &other.message.instance)? {
            None => refused.push((other.scheduled, Refusal::InstanceNotFound)),
            Some(receiver) if receiver.status.is_terminal() => refused.push((other.scheduled, Refusal::InstanceEnded)),
            Some(receiver) => match mailbox::full_at(&receiver, &other.message) {
                Some(max) => refused.push((other.scheduled, Refusal::MailboxFull { max })),
                None => {
                    mailbox::put(session, &receiver, &other.message.body, other.message.time_ms)?;
                    mailbox::add_receiver(&mut outcome.receivers, receiver.owner);
                }
            },
        }
    }
    for event in &effects.cancelled {
        let child = find_children(session, key, Some((execution, *event)))?;
        let mut affected = Affected::default();
        cancel::cancel_all(session, child, time_ms, &mut affected)?;
        for owner in affected.receivers {
            mailbox::add_receiver(&mut outcome.receivers, owner);
        }
        outcome.stopped.extend(affected.stopped);
        outcome.ended |= affected.ended;
    }
    for (scheduled, refusal) in refused {
        let settlement = Settlement::Refused(refusal);
        let receivers = &mut outcome.receivers;
        outcome.refused |= mailbox::settle(session, &itself(scheduled), settlement, time_ms, receivers)?;
    }
    for task in &effects.offers {
        offer::offer(session, key, execution, task)?;
    }
    for scheduled in &effects.withdrawn {
        let owner = offer::withdraw(session, key, execution, *scheduled)?;
        outcome.stopped.extend(owner);
    }
    Ok(outcome)
}
