//! The effects of a write on other instances than its own (P11): it starts them, sends to them, and tells parents and
//! children.

use perdure_engine::{ChildFailure, ExecutionId, MessageBody, Payload, Refusal, Settlement};
use perdure_provider::{
    CrossInstanceEffects, CrossInstanceOutcome, InstanceKey, Outcome, ProviderError, Receivers, Status, WorkerId,
};

use super::{cancel, message, start, task_done};
use crate::rows::Parent;
use crate::tables::Tables;

/// Carries out the effects of a turn of an execution on other instances.
pub(super) fn carry_out(
    tables: &mut Tables,
    key: InstanceKey,
    execution: ExecutionId,
    cross_instance: &CrossInstanceEffects,
    time_ms: i64,
) -> Result<CrossInstanceOutcome, ProviderError> {
    let mut others = CrossInstanceOutcome::default();
    let mut refused = Vec::new();
    let itself = |event| Parent { key, execution, event };
    for other in &cross_instance.starts {
        let parent = other.is_child.then(|| itself(other.scheduled));
        let outcome = start::start(tables, &other.instance, parent)?;
        if outcome == Outcome::Exists {
            refused.push((other.scheduled, Refusal::InstanceExists));
        }
        others.started.push(outcome);
    }
    for other in &cross_instance.messages {
        let refusal = match message::send(tables, &other.message) {
            Outcome::NotFound => Refusal::InstanceNotFound,
            Outcome::Ended { .. } => Refusal::InstanceEnded,
            Outcome::MailboxFull { max } => Refusal::MailboxFull { max },
            Outcome::Delivered { owner, .. } => {
                add(&mut others.receivers, owner);
                continue;
            }
            outcome => unreachable!("no outcome of a message: {outcome:?}"),
        };
        refused.push((other.scheduled, refusal));
    }
    for event in &cross_instance.cancelled {
        let child = tables.children_of(key, Some((execution, *event)));
        let mut told = Told::default();
        cancel_all(tables, child, time_ms, &mut told);
        told.receivers
            .into_iter()
            .for_each(|owner| add(&mut others.receivers, owner));
        others.stopped.extend(told.stopped);
        others.ended |= told.ended;
    }
    for (scheduled, refusal) in refused {
        let settlement = Settlement::Refused(refusal);
        others.refused |= tell(tables, itself(scheduled), settlement, &mut others.receivers);
    }
    for offer in &cross_instance.offers {
        task_done::offer(tables, key, execution, offer)?;
    }
    for scheduled in &cross_instance.withdrawn {
        others
            .stopped
            .extend(task_done::withdraw(tables, key, execution, *scheduled));
    }
    Ok(others)
}

/// Tells the execution that waits for a child how the operation settled. Returns false if the execution no longer
/// waits.
pub(super) fn tell(tables: &mut Tables, parent: Parent, settlement: Settlement, receivers: &mut Receivers) -> bool {
    let waiting = (tables.instance(parent.key))
        .filter(|row| !row.status.is_terminal() && row.execution == parent.execution)
        .map(|row| row.owner.clone());
    let Some(owner) = waiting else { return false };
    let body = MessageBody::Settled {
        execution: parent.execution,
        scheduled: parent.event,
        settlement,
    };
    message::put(tables, parent.key, body);
    add(receivers, owner);
    true
}

/// The workers that are told of a write.
#[derive(Default)]
pub(super) struct Told {
    /// Owners of the instances that got a message.
    pub(super) receivers: Receivers,
    /// Workers that run attempts which are no longer awaited.
    pub(super) stopped: Vec<WorkerId>,
    /// True if instances have ended.
    pub(super) ended: bool,
}

/// Cancels the children of an instance, which has ended.
pub(super) fn cancel_children(tables: &mut Tables, parent: InstanceKey, time_ms: i64, told: &mut Told) {
    let children = tables.children_of(parent, None);
    cancel_all(tables, children, time_ms, told);
}

fn cancel_all(tables: &mut Tables, children: Vec<InstanceKey>, time_ms: i64, told: &mut Told) {
    for held in ask(tables, children, told) {
        cancel::end_held(tables, held, None, time_ms, told);
    }
}

/// Asks the children of an instance, which has ended, to cancel. Suspended children get no message, and are returned.
pub(super) fn ask_children(tables: &mut Tables, parent: InstanceKey, told: &mut Told) -> Vec<InstanceKey> {
    let children = tables.children_of(parent, None);
    ask(tables, children, told)
}

fn ask(tables: &mut Tables, children: Vec<InstanceKey>, told: &mut Told) -> Vec<InstanceKey> {
    let (held, asked): (Vec<_>, Vec<_>) = children.into_iter().partition(|child| cancel::is_held(tables, *child));
    for child in asked {
        message::put(tables, child, MessageBody::Cancel { reason: None });
        let row = tables.instance(child).expect("it was just sent a message");
        add(&mut told.receivers, row.owner.clone());
    }
    held
}

fn add(receivers: &mut Receivers, owner: Option<WorkerId>) {
    if receivers.last() != Some(&owner) {
        receivers.push(owner);
    }
}

/// Returns the settlement that tells a parent of a child that ended as `status`, with `result`.
pub(super) fn settlement(status: Status, result: Payload) -> Settlement {
    match status {
        Status::Failed => Settlement::Failed(ChildFailure::Failed, result),
        Status::Cancelled => Settlement::Failed(ChildFailure::Cancelled, result),
        Status::Terminated => Settlement::Failed(ChildFailure::Terminated, result),
        _ => Settlement::Completed(result),
    }
}
