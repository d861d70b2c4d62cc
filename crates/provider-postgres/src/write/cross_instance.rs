//! Effects of turns on other instances than their own (P11): they start instances, send messages, cancel children, tell
//! parents and offer tasks. They are carried out for all turns of a layer at once, each kind with one statement.

use perdure_engine::{AnsweredAsk, EventId, MessageBody, Refusal, Settlement, StateChange, StreamAppend};
use perdure_provider::{
    Affected, AfterTurn, CrossInstanceEffects, CrossInstanceOutcome, CrossInstanceStart, InstanceKey, NewMessage,
    OnConflict, Outcome, TurnCommit, TurnLogs, settlement,
};

use super::found::{Origin, Parent};
use super::insert::{self, Starts};
use super::mailbox::{CancelAtOnce, Messages, Sent, add_receiver};
use super::outgoing::Outgoing;
use super::{cancel, offer};
use crate::admission::NewSlots;
use crate::error::Failure;
use crate::params::P;
use crate::rows::{index, integer, number};
use crate::session::Session;
use crate::statement::named;
use crate::streams::Append;
use crate::{asks, logs, state, streams};

/// The effects of a turn on others, the lines that it logged, the values of the state that it changed, the asks that it
/// answered and the entries that it appended to streams.
pub(super) struct TurnEffects<'w> {
    /// Place of the turn's outcome.
    place: usize,
    origin: Origin,
    effects: Option<&'w CrossInstanceEffects>,
    logs: Option<&'w TurnLogs>,
    state: &'w [StateChange],
    answers: &'w [AnsweredAsk],
    appends: &'w [StreamAppend],
    /// The parent that is to be told of the end of the instance, and the message.
    ends: Option<(Parent, MessageBody)>,
    outcome: CrossInstanceOutcome,
    refused: Vec<(EventId, Refusal)>,
}

impl<'w> TurnEffects<'w> {
    /// `None`: the turn has no effect on others, and does not [write more](writes_more).
    pub(super) fn of(place: usize, turn: &'w TurnCommit, key: InstanceKey, parent: Option<Parent>) -> Option<Self> {
        let ends = match (&turn.after, parent) {
            (AfterTurn::End { status }, Some(parent)) => {
                let result = turn.events.last().and_then(|last| last.payload.clone());
                Some((parent, parent.settled(settlement(*status, result))))
            }
            _ => None,
        };
        let effects = turn.cross_instance.as_deref();
        let logs = turn.logs.as_deref();
        let is_needed = effects.is_some() || ends.is_some() || writes_more(turn);
        is_needed.then(|| Self {
            place,
            origin: Origin::of(turn, key),
            effects,
            logs,
            state: &turn.state,
            answers: &turn.answers,
            appends: &turn.appends,
            ends,
            outcome: CrossInstanceOutcome::default(),
            refused: Vec::new(),
        })
    }

    fn starts(&self) -> &'w [CrossInstanceStart] {
        self.effects.map_or(&[], |effects| &effects.starts)
    }

    fn appends(&self) -> impl Iterator<Item = Append<'w>> {
        let Origin { key, time_ms, .. } = self.origin;
        self.appends
            .iter()
            .map(move |append| Append::of_turn(key, time_ms, append))
    }
}

/// Returns true if a turn logged lines, changed the state, answered asks or appended to streams.
fn writes_more(turn: &TurnCommit) -> bool {
    turn.logs.is_some() || !turn.state.is_empty() || !turn.answers.is_empty() || !turn.appends.is_empty()
}

/// Writes the lines of turns, the values that they changed, their answers and their entries of streams. Carries out
/// their effects on others, and notes these in the outcomes of the turns.
pub(super) async fn carry_out(
    session: &Session<'_>,
    mut turns: Vec<TurnEffects<'_>>,
    outcomes: &mut [Option<Outcome>],
) -> Result<(), Failure> {
    let logged: Vec<_> = (turns.iter())
        .filter_map(|turn| Some((turn.origin.key, turn.logs?)))
        .collect();
    logs::add(session, &logged).await?;
    let changed: Vec<_> = (turns.iter())
        .filter(|turn| !turn.state.is_empty())
        .map(|turn| (turn.origin.key, turn.state))
        .collect();
    state::change(session, &changed).await?;
    let answered: Vec<_> = (turns.iter())
        .filter(|turn| !turn.answers.is_empty())
        .map(|turn| (turn.origin.key, turn.answers))
        .collect();
    asks::answer(session, &answered).await?;
    let appended: Vec<_> = turns.iter().flat_map(TurnEffects::appends).collect();
    streams::append(session, &appended).await?;
    turns.retain(|turn| turn.effects.is_some() || turn.ends.is_some());
    if turns.is_empty() {
        return Ok(());
    }
    start_all(session, &mut turns).await?;
    send_all(session, &mut turns).await?;
    let cancelled = children_of(session, &turns).await?;
    tell_all(session, &mut turns, &cancelled).await?;
    offer::offer_all(session, offers(&turns)).await?;
    for (n, owner) in offer::withdraw_all(session, withdrawn(&turns)).await? {
        turns[n].outcome.stopped.push(owner);
    }
    for turn in turns {
        if let Some(Outcome::Committed { others, .. }) = committed(&mut outcomes[turn.place]) {
            *others = Some(Box::new(turn.outcome));
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

/// A start, with the place of its turn.
type AskedStart<'w> = (usize, Origin, &'w CrossInstanceStart);

async fn start_all(session: &Session<'_>, turns: &mut [TurnEffects<'_>]) -> Result<(), Failure> {
    let asked: Vec<AskedStart<'_>> = turns
        .iter()
        .enumerate()
        .flat_map(|(n, turn)| turn.starts().iter().map(move |other| (n, turn.origin, other)))
        .collect();
    let replaces = |(_, _, other): &AskedStart<'_>| other.instance.on_conflict == OnConflict::TerminateAndRestart;
    // A start may replace the instance of a start before it.
    let at_once = if asked.iter().any(replaces) {
        1
    } else {
        asked.len().max(1)
    };
    for some in asked.chunks(at_once) {
        start_some(session, turns, some).await?;
    }
    Ok(())
}

async fn start_some(
    session: &Session<'_>,
    turns: &mut [TurnEffects<'_>],
    asked: &[AskedStart<'_>],
) -> Result<(), Failure> {
    let mut terminated = Vec::with_capacity(asked.len());
    for (_, origin, other) in asked {
        terminated.push(insert::make_room(session, &other.instance, Some(origin.key)).await?);
    }
    let parents = asked.iter().map(|(_, origin, other)| {
        let parent = other.is_child.then_some(Parent {
            key: origin.key,
            execution: origin.execution,
            event: other.scheduled,
        });
        (&other.instance, parent)
    });
    let keys = session.connection().keys(asked.len()).await?;
    let inserted = Starts::of(&keys, parents, &NewSlots::new())?.insert(session).await?;
    for (((n, _, other), key), terminated) in asked.iter().zip(&keys).zip(terminated) {
        let turn = &mut turns[*n];
        let started = inserted.get(*key);
        let outcome = started.map_or_else(
            |refused| refused,
            |started| started.outcome(&other.instance, terminated),
        );
        match outcome {
            Outcome::Exists if !other.accepts_other => turn.refused.push((other.scheduled, Refusal::InstanceExists)),
            Outcome::NoQueue => turn.refused.push((other.scheduled, Refusal::QueueNotFound)),
            _ => {}
        }
        turn.outcome.started.push(outcome);
    }
    Ok(())
}

async fn send_all(session: &Session<'_>, turns: &mut [TurnEffects<'_>]) -> Result<(), Failure> {
    let mut asked: Vec<(usize, EventId, &NewMessage)> = Vec::new();
    for (n, turn) in turns.iter().enumerate() {
        let Some(effects) = turn.effects else { continue };
        asked.extend(
            effects
                .messages
                .iter()
                .map(|other| (n, other.scheduled, &other.message)),
        );
    }
    let messages = Messages::to_ids(asked.iter().map(|(_, _, message)| Outgoing::of(message)));
    for ((n, scheduled, message), sent) in asked.into_iter().zip(messages.send(session).await?) {
        let turn = &mut turns[n];
        let refusal = match sent {
            Sent::Delivered { owner, .. } => {
                add_receiver(&mut turn.outcome.receivers, owner);
                continue;
            }
            Sent::NotFound => Refusal::InstanceNotFound,
            Sent::Refused(status) if status.is_terminal() => Refusal::InstanceEnded,
            Sent::Refused(_) => Refusal::MailboxFull {
                max: message.unread_max.unwrap_or(0),
            },
        };
        turn.refused.push((scheduled, refusal));
    }
    Ok(())
}

/// Returns the children that are to be cancelled, with the places of the turns.
async fn children_of(session: &Session<'_>, turns: &[TurnEffects<'_>]) -> Result<Vec<(usize, InstanceKey)>, Failure> {
    let (mut n, mut key, mut execution, mut event) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (at, turn) in turns.iter().enumerate() {
        for cancelled in turn.effects.iter().flat_map(|effects| &effects.cancelled) {
            n.push(index(at));
            key.push(turn.origin.key.0);
            execution.push(integer(turn.origin.execution.0));
            event.push(integer(cancelled.0));
        }
    }
    if n.is_empty() {
        return Ok(Vec::new());
    }
    let rows = named!(
        session.query,
        "SELECT c.n, i.key FROM {c}
         JOIN {schema}.instances i ON i.parent_key = ANY (ARRAY[c.key]) AND i.parent_execution = c.execution
         AND i.parent_event = c.event
         ORDER BY c.n, c.event",
        {},
        c {
            n: P::Ints(&n),
            key: P::Ints(&key),
            execution: P::Ints(&execution),
            event: P::Ints(&event)
        }
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
    turns: &mut [TurnEffects<'_>],
    cancelled: &[(usize, InstanceKey)],
) -> Result<(), Failure> {
    let cancel = MessageBody::Cancel { reason: None };
    let refused: Vec<Vec<(Parent, MessageBody)>> = turns.iter().map(refusals).collect();
    let mut messages = Messages::default();
    let mut of = Vec::new();
    for (n, turn) in turns.iter().enumerate() {
        let time_ms = turn.origin.time_ms;
        for (_, child) in cancelled.iter().filter(|(turn, _)| *turn == n) {
            messages.send_to(*child, &cancel, time_ms);
            of.push((n, Some(&cancel), false));
        }
        for (itself, body) in &refused[n] {
            messages.settle(itself, body, time_ms);
            of.push((n, None, true));
        }
        if let Some((parent, body)) = &turn.ends {
            messages.settle(parent, body, time_ms);
            of.push((n, None, false));
        }
    }
    let sent = messages.send(session).await?;
    drop(messages);
    let mut ending = Vec::new();
    for ((n, cancel, is_refusal), sent) in of.into_iter().zip(sent) {
        if let Some(child) = cancel.and_then(|cancel| CancelAtOnce::of(cancel, &sent)) {
            ending.push((n, child));
        } else if let Sent::Delivered { owner, .. } = sent {
            add_receiver(&mut turns[n].outcome.receivers, owner);
            turns[n].outcome.refused |= is_refusal;
        }
    }
    for (n, child) in ending {
        let mut affected = Affected::default();
        cancel::end_at_once(session, vec![child], turns[n].origin.time_ms, &mut affected).await?;
        let outcome = &mut turns[n].outcome;
        affected
            .receivers
            .into_iter()
            .for_each(|owner| add_receiver(&mut outcome.receivers, owner));
        outcome.stopped.extend(affected.stopped);
        outcome.ended |= affected.ended;
    }
    Ok(())
}

fn refusals(turn: &TurnEffects<'_>) -> Vec<(Parent, MessageBody)> {
    let message = |(event, refusal): &(EventId, Refusal)| {
        let itself = Parent {
            key: turn.origin.key,
            execution: turn.origin.execution,
            event: *event,
        };
        (itself, itself.settled(Settlement::Refused(*refusal)))
    };
    turn.refused.iter().map(message).collect()
}

fn offers<'d>(turns: &'d [TurnEffects<'_>]) -> impl Iterator<Item = (Origin, &'d perdure_provider::TaskOffer)> {
    let of = |turn: &'d TurnEffects<'_>| {
        turn.effects
            .iter()
            .flat_map(|effects| &effects.offers)
            .map(|offer| (turn.origin, offer))
    };
    turns.iter().flat_map(of)
}

fn withdrawn(turns: &[TurnEffects<'_>]) -> impl Iterator<Item = (usize, Origin, EventId)> {
    turns.iter().enumerate().flat_map(|(n, turn)| {
        let withdrawn = turn.effects.iter().flat_map(|effects| &effects.withdrawn);
        withdrawn.map(move |scheduled| (n, turn.origin, *scheduled))
    })
}
