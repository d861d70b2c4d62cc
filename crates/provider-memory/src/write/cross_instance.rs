//! The effects of a turn on other instances than its own (P11): it starts them, sends to them and cancels them, and
//! offers tasks to other workers.

use perdure_engine::{ExecutionId, Refusal, Settlement};
use perdure_provider::{Affected, CrossInstanceEffects, CrossInstanceOutcome, InstanceKey, Outcome, ProviderError};

use super::insert::insert;
use super::{cancel, mailbox, message, offer};
use crate::rows::Parent;
use crate::tables::Tables;

/// Carries out the effects of a turn of an execution on other instances.
pub(super) fn carry_out(
    tables: &mut Tables,
    key: InstanceKey,
    execution: ExecutionId,
    effects: &CrossInstanceEffects,
    time_ms: i64,
) -> Result<CrossInstanceOutcome, ProviderError> {
    let mut outcome = CrossInstanceOutcome::default();
    let mut refused = Vec::new();
    let itself = |event| Parent { key, execution, event };
    for start in &effects.starts {
        let parent = start.is_child.then(|| itself(start.scheduled));
        let inserted = insert(tables, &start.instance, parent, Some(key))?;
        let started = inserted.map_or_else(|refused| refused, |inserted| inserted.outcome(None));
        match started {
            Outcome::Exists if !start.accepts_other => refused.push((start.scheduled, Refusal::InstanceExists)),
            Outcome::NoQueue => refused.push((start.scheduled, Refusal::QueueNotFound)),
            _ => {}
        }
        outcome.started.push(started);
    }
    for other in &effects.messages {
        let refusal = match message::send(tables, &other.message) {
            Outcome::NotFound => Refusal::InstanceNotFound,
            Outcome::Ended { .. } => Refusal::InstanceEnded,
            Outcome::MailboxFull { max } => Refusal::MailboxFull { max },
            Outcome::Delivered { owner, .. } => {
                mailbox::add_receiver(&mut outcome.receivers, owner);
                continue;
            }
            outcome => unreachable!("no outcome of a message: {outcome:?}"),
        };
        refused.push((other.scheduled, refusal));
    }
    for event in &effects.cancelled {
        let child = tables.children_of(key, Some((execution, *event)));
        let mut affected = Affected::default();
        cancel::cancel_all(tables, child, time_ms, &mut affected);
        for owner in affected.receivers {
            mailbox::add_receiver(&mut outcome.receivers, owner);
        }
        outcome.stopped.extend(affected.stopped);
        outcome.ended |= affected.ended;
    }
    for (scheduled, refusal) in refused {
        let settlement = Settlement::Refused(refusal);
        outcome.refused |= mailbox::settle(tables, itself(scheduled), settlement, &mut outcome.receivers);
    }
    for task in &effects.offers {
        offer::offer(tables, key, execution, task)?;
    }
    for scheduled in &effects.withdrawn {
        let worker = offer::withdraw(tables, key, execution, *scheduled);
        outcome.stopped.extend(worker);
    }
    Ok(outcome)
}
