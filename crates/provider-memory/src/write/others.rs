//! What a write does to other instances than its own (P11): it starts them, sends to them, and tells parents and children.

use perdure_engine::{ChildFailure, ExecutionId, MessageBody, Payload, Refusal, Settlement};
use perdure_provider::{InstanceKey, Others, Outcome, ProviderError, Receivers, Status, ToOthers, WorkerId};

use super::{message, start, task};
use crate::rows::Parent;
use crate::tables::Tables;

/// Carry out what a turn of an execution does to other instances.
pub(super) fn carry_out(
    tables: &mut Tables,
    key: InstanceKey,
    execution: ExecutionId,
    to_others: &ToOthers,
) -> Result<Others, ProviderError> {
    let mut others = Others::default();
    let mut refused = Vec::new();
    let itself = |event| Parent { key, execution, event };
    for other in &to_others.starts {
        let parent = other.is_child.then(|| itself(other.scheduled));
        let outcome = start::start(tables, &other.instance, parent)?;
        if outcome == Outcome::Exists {
            refused.push((other.scheduled, Refusal::InstanceExists));
        }
        others.started.push(outcome);
    }
    for other in &to_others.messages {
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
    for event in &to_others.cancelled {
        let child = tables.children_of(key, Some((execution, *event)));
        cancel(tables, child, &mut others.receivers);
    }
    for (scheduled, refusal) in refused {
        let settlement = Settlement::Refused(refusal);
        others.refused |= tell(tables, itself(scheduled), settlement, &mut others.receivers);
    }
    for offer in &to_others.offers {
        task::offer(tables, key, execution, offer)?;
    }
    for scheduled in &to_others.withdrawn {
        others
            .stopped
            .extend(task::withdraw(tables, key, execution, *scheduled));
    }
    Ok(others)
}

/// Tell the execution that waits for a child what became of it; `false`: nobody waits any more.
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

/// Ask the children of an instance to cancel, which has ended.
pub(super) fn cancel_children(tables: &mut Tables, parent: InstanceKey, receivers: &mut Receivers) {
    let children = tables.children_of(parent, None);
    cancel(tables, children, receivers);
}

fn cancel(tables: &mut Tables, children: Vec<InstanceKey>, receivers: &mut Receivers) {
    for child in children {
        message::put(tables, child, MessageBody::Cancel { reason: None });
        let row = tables.instance(child).expect("it was just sent a message");
        add(receivers, row.owner.clone());
    }
}

fn add(receivers: &mut Receivers, owner: Option<WorkerId>) {
    if receivers.last() != Some(&owner) {
        receivers.push(owner);
    }
}

/// What a parent is told of a child that ended as `status`, with `result`.
pub(super) fn settlement(status: Status, result: Payload) -> Settlement {
    match status {
        Status::Failed => Settlement::Failed(ChildFailure::Failed, result),
        Status::Cancelled => Settlement::Failed(ChildFailure::Cancelled, result),
        Status::Terminated => Settlement::Failed(ChildFailure::Terminated, result),
        _ => Settlement::Completed(result),
    }
}
