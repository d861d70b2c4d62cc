//! Effects of writes on other instances than their own (P11): they start instances, send messages, and tell parents and
//! children. They are carried out for all writes of a layer at once, each kind with one statement.

use perdure_engine::{ChildFailure, EventId, ExecutionId, MessageBody, Payload, Refusal, Settlement};
use perdure_provider::{
    AfterTurn, CrossInstanceEffects, CrossInstanceOutcome, CrossInstanceStart, InstanceKey, NewMessage, Outcome,
    Receivers, Status, TurnCommit, WorkerId,
};

use super::cancel::{self, Held};
use super::insert::{self, AllMade, Starts};
use super::mailbox::{Messages, Sent};
use super::{place, task_done, turn};
use crate::error::Failure;
use crate::params::P;
use crate::rows::{integer, number};
use crate::session::Session;

/// The execution that hears how an operation was settled, such as a child, and the event that scheduled the operation.
#[derive(Clone, Copy)]
pub(super) struct Parent {
    pub(super) key: InstanceKey,
    pub(super) execution: ExecutionId,
    pub(super) event: EventId,
}

impl Parent {
    /// Returns the message that tells it of a settlement.
    pub(super) fn told(&self, settlement: Settlement) -> MessageBody {
        MessageBody::Settled {
            execution: self.execution,
            scheduled: self.event,
            settlement,
        }
    }
}

/// The execution that affects others, and the time of its turn.
#[derive(Clone, Copy)]
pub(super) struct Doer {
    pub(super) key: InstanceKey,
    pub(super) execution: ExecutionId,
    pub(super) time_ms: i64,
}

/// The effects that workers have to hear of.
#[derive(Default)]
pub(super) struct Told {
    /// The owners of the instances that got a message.
    pub(super) receivers: Receivers,
    /// Workers that run attempts whose results are no longer awaited.
    pub(super) stopped: Vec<WorkerId>,
    /// True if instances have ended.
    pub(super) ended: bool,
}

/// The effects of a turn on others.
pub(super) struct Deed<'w> {
    /// Place of the turn's outcome.
    place: usize,
    doer: Doer,
    cross_instance: Option<&'w CrossInstanceEffects>,
    /// The parent that is to be told of the end of the instance, and the message.
    ends: Option<(Parent, MessageBody)>,
    did: CrossInstanceOutcome,
    refused: Vec<(EventId, Refusal)>,
}

impl<'w> Deed<'w> {
    /// `None`: the turn has no effect on others.
    pub(super) fn of(place: usize, turn: &'w TurnCommit, key: InstanceKey, parent: Option<Parent>) -> Option<Self> {
        let ends = match (&turn.after, parent) {
            (AfterTurn::End { status }, Some(parent)) => {
                let result = turn.events.last().and_then(|last| last.payload.clone());
                Some((parent, parent.told(settlement(*status, result))))
            }
            _ => None,
        };
        let cross_instance = turn.cross_instance.as_deref();
        (cross_instance.is_some() || ends.is_some()).then(|| Self {
            place,
            doer: turn::doer(turn, key),
            cross_instance,
            ends,
            did: CrossInstanceOutcome::default(),
            refused: Vec::new(),
        })
    }

    fn starts(&self) -> &'w [CrossInstanceStart] {
        self.cross_instance.map_or(&[], |others| &others.starts)
    }
}

/// Carries out the effects of turns on others, and notes them in the outcomes of the turns.
pub(super) async fn carry_out(
    session: &Session<'_>,
    mut deeds: Vec<Deed<'_>>,
    outcomes: &mut [Option<Outcome>],
) -> Result<(), Failure> {
    if deeds.is_empty() {
        return Ok(());
    }
    start_all(session, &mut deeds).await?;
    send_all(session, &mut deeds).await?;
    let cancelled = children_of(session, &deeds).await?;
    tell_all(session, &mut deeds, &cancelled).await?;
    task_done::offer_all(session, offers(&deeds)).await?;
    for (n, owner) in task_done::withdraw_all(session, withdrawn(&deeds)).await? {
        deeds[n].did.stopped.push(owner);
    }
    for deed in deeds {
        if let Some(Outcome::Committed { others, .. }) = committed(&mut outcomes[deed.place]) {
            *others = Some(Box::new(deed.did));
        }
    }
    Ok(())
}

/// Returns the outcome of a turn: its own, or the one in the outcome of the start whose first turn it was.
pub(super) fn committed(outcome: &mut Option<Outcome>) -> Option<&mut Outcome> {
    match outcome {
        Some(Outcome::Started { turn, .. }) => turn.as_deref_mut(),
        outcome => outcome.as_mut(),
    }
}

async fn start_all(session: &Session<'_>, deeds: &mut [Deed<'_>]) -> Result<(), Failure> {
    let asked: Vec<_> = deeds
        .iter()
        .enumerate()
        .flat_map(|(n, deed)| deed.starts().iter().map(move |other| (n, deed.doer, other)))
        .collect();
    for (_, _, other) in &asked {
        insert::make_room(session, &other.instance).await?;
    }
    let parents = asked.iter().map(|(_, doer, other)| {
        let parent = other.is_child.then_some(Parent {
            key: doer.key,
            execution: doer.execution,
            event: other.scheduled,
        });
        (&other.instance, parent)
    });
    let keys = session.connection().keys(asked.len()).await?;
    let starts = Starts::of(&keys, parents)?;
    let rows = session.run(starts.ask(session).as_ref()).await?;
    let made = AllMade::of(&rows)?;
    let came = asked.iter().enumerate().map(|(at, (n, _, other))| {
        (
            *n,
            other.scheduled,
            insert::outcome(0, &other.instance, made.get(keys[at]), &mut Vec::new()),
        )
    });
    for (n, scheduled, outcome) in came.collect::<Vec<_>>() {
        if outcome == Outcome::Exists {
            deeds[n].refused.push((scheduled, Refusal::InstanceExists));
        }
        deeds[n].did.started.push(outcome);
    }
    Ok(())
}

async fn send_all(session: &Session<'_>, deeds: &mut [Deed<'_>]) -> Result<(), Failure> {
    let mut asked: Vec<(usize, EventId, &NewMessage)> = Vec::new();
    for (n, deed) in deeds.iter().enumerate() {
        let Some(others) = deed.cross_instance else { continue };
        asked.extend(others.messages.iter().map(|other| (n, other.scheduled, &other.message)));
    }
    let messages = Messages::to_ids(asked.iter().map(|(_, _, message)| *message));
    for ((n, scheduled, message), sent) in asked.into_iter().zip(messages.send(session).await?) {
        let deed = &mut deeds[n];
        let refusal = match sent {
            Sent::Delivered { owner, .. } => {
                add(&mut deed.did.receivers, owner);
                continue;
            }
            Sent::NotFound => Refusal::InstanceNotFound,
            Sent::Refused(status) if status.is_terminal() => Refusal::InstanceEnded,
            Sent::Refused(_) => Refusal::MailboxFull {
                max: message.unread_max.unwrap_or(0),
            },
        };
        deed.refused.push((scheduled, refusal));
    }
    Ok(())
}

/// Returns the children that are to be cancelled, with the places of their deeds.
async fn children_of(session: &Session<'_>, deeds: &[Deed<'_>]) -> Result<Vec<(usize, InstanceKey)>, Failure> {
    let (mut n, mut key, mut execution, mut event) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (at, deed) in deeds.iter().enumerate() {
        for cancelled in deed.cross_instance.iter().flat_map(|others| &others.cancelled) {
            n.push(place(at));
            key.push(deed.doer.key.0);
            execution.push(integer(deed.doer.execution.0));
            event.push(integer(cancelled.0));
        }
    }
    if n.is_empty() {
        return Ok(Vec::new());
    }
    let rows = session
        .query(
            "SELECT c.n, i.key FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) AS c (n, key, execution, event)
             JOIN {schema}.instances i ON i.parent_key = c.key AND i.parent_execution = c.execution AND i.parent_event = c.event
             ORDER BY c.n, c.event",
            &[P::Ints(&n), P::Ints(&key), P::Ints(&execution), P::Ints(&event)],
        )
        .await?;
    rows.iter()
        .map(|row| {
            Ok((
                usize::try_from(number(row, 0)?).unwrap_or(usize::MAX),
                InstanceKey(row.try_get(1)?),
            ))
        })
        .collect()
}

/// Sends cancellations to children, refusals to the instances that asked, and ends to parents.
async fn tell_all(
    session: &Session<'_>,
    deeds: &mut [Deed<'_>],
    cancelled: &[(usize, InstanceKey)],
) -> Result<(), Failure> {
    let cancel = MessageBody::Cancel { reason: None };
    let refused: Vec<Vec<(Parent, MessageBody)>> = deeds.iter().map(refusals).collect();
    let mut messages = Messages::default();
    let mut of = Vec::new();
    for (n, deed) in deeds.iter().enumerate() {
        let time_ms = deed.doer.time_ms;
        for (_, child) in cancelled.iter().filter(|(deed, _)| *deed == n) {
            messages.send_to(*child, &cancel, time_ms);
            of.push((n, Some(&cancel), false));
        }
        for (itself, body) in &refused[n] {
            messages.tell(itself, body, time_ms);
            of.push((n, None, true));
        }
        if let Some((parent, body)) = &deed.ends {
            messages.tell(parent, body, time_ms);
            of.push((n, None, false));
        }
    }
    let sent = messages.send(session).await?;
    drop(messages);
    let mut held = Vec::new();
    for ((n, cancel, is_refusal), sent) in of.into_iter().zip(sent) {
        if let Some(child) = cancel.and_then(|cancel| Held::of(cancel, &sent)) {
            held.push((n, child));
        } else if let Sent::Delivered { owner, .. } = sent {
            add(&mut deeds[n].did.receivers, owner);
            deeds[n].did.refused |= is_refusal;
        }
    }
    for (n, child) in held {
        let mut told = Told::default();
        cancel::end_held(session, vec![child], deeds[n].doer.time_ms, &mut told).await?;
        let did = &mut deeds[n].did;
        told.receivers
            .into_iter()
            .for_each(|owner| add(&mut did.receivers, owner));
        did.stopped.extend(told.stopped);
        did.ended |= told.ended;
    }
    Ok(())
}

fn refusals(deed: &Deed<'_>) -> Vec<(Parent, MessageBody)> {
    let told = |(event, refusal): &(EventId, Refusal)| {
        let itself = Parent {
            key: deed.doer.key,
            execution: deed.doer.execution,
            event: *event,
        };
        (itself, itself.told(Settlement::Refused(*refusal)))
    };
    deed.refused.iter().map(told).collect()
}

fn offers<'d>(deeds: &'d [Deed<'_>]) -> impl Iterator<Item = (Doer, &'d perdure_provider::TaskOffer)> {
    let of = |deed: &'d Deed<'_>| {
        deed.cross_instance
            .iter()
            .flat_map(|others| &others.offers)
            .map(|offer| (deed.doer, offer))
    };
    deeds.iter().flat_map(of)
}

fn withdrawn(deeds: &[Deed<'_>]) -> impl Iterator<Item = (usize, Doer, EventId)> {
    deeds.iter().enumerate().flat_map(|(n, deed)| {
        let withdrawn = deed.cross_instance.iter().flat_map(|others| &others.withdrawn);
        withdrawn.map(move |scheduled| (n, deed.doer, *scheduled))
    })
}

pub(super) fn add(receivers: &mut Receivers, owner: Option<WorkerId>) {
    if receivers.last() != Some(&owner) {
        receivers.push(owner);
    }
}

/// Returns the settlement that a parent is told of a child that ended as `status`, with `result`.
pub(super) fn settlement(status: Status, result: Payload) -> Settlement {
    match status {
        Status::Failed => Settlement::Failed(ChildFailure::Failed, result),
        Status::Cancelled => Settlement::Failed(ChildFailure::Cancelled, result),
        Status::Terminated => Settlement::Failed(ChildFailure::Terminated, result),
        _ => Settlement::Completed(result),
    }
}
