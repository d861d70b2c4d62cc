//! Slots for new instances: an instance that a worker claims gets one in the commit of its start, if nothing waits
//! (P24).

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use perdure_provider::{NewInstance, Pass, WorkerId};

use super::statements::SLOTS;
use super::{put_queue, slot_counts};
use crate::error::Failure;
use crate::params::P;
use crate::queues::{in_queue, queue_state};
use crate::rows::text;
use crate::session::Session;
use crate::statement::query;
use crate::text::encode;

/// A slot that a new instance gets.
#[derive(Clone, Copy)]
pub(crate) struct NewSlot {
    /// The turn in which its key gets the slot; 0: keys take no turns.
    pub(crate) turn: i64,
    /// When it got the slot, ms since 1970.
    pub(crate) now_ms: i64,
}

/// The slots of new instances, by the keys of the instances.
pub(crate) type NewSlots = HashMap<i64, NewSlot>;

/// A new instance that a worker claims, and its key.
type Claimed<'w> = (&'w NewInstance, i64);

/// Locks a queue that is not paused and that no other transaction has locked. So a start waits for no pass.
const LOCK: &str = "SELECT settings, admitted, turn, coalesce($now, {now}) FROM {schema}.queues
  WHERE name = $queue AND paused_at IS NULL FOR NO KEY UPDATE SKIP LOCKED";

/// Selects whether entries are in line or held, or whether the time of delayed ones has come.
const WAITS: &str = concat!(
    "SELECT EXISTS (SELECT FROM {schema}.queue_places x WHERE ",
    in_queue!("x.", "$queue"),
    " AND x.place <> 2 AND x.place <> 3 AND x.place <> 4)
  OR EXISTS (SELECT FROM {schema}.queue_places
    WHERE queue = $queue AND place = 3 AND queued_at <= coalesce($now, {now}))"
);

/// Selects the ids that are in use. A start with such an id is refused, and must not count for a rate.
const IN_USE: &str = "SELECT id FROM {schema}.instances WHERE id IN (SELECT unnest($ids::text[]))";

/// Gives slots to those of some new instances that a worker claims, as many as there are. They must be inserted in this
/// transaction, with their places.
pub(crate) async fn admit_new<'w>(
    session: &Session<'_>,
    starts: impl Iterator<Item = Claimed<'w>>,
) -> Result<NewSlots, Failure> {
    let mut admitted = NewSlots::new();
    let mut queues: BTreeMap<Cow<'w, str>, (&'w WorkerId, Vec<Claimed<'w>>)> = BTreeMap::new();
    for (instance, key) in starts {
        let (Some(worker), Some(entry)) = (&instance.claim, &instance.queue) else {
            continue;
        };
        let (first, of_queue) = queues.entry(encode(&entry.queue)).or_insert((worker, Vec::new()));
        // The slots are counted for one worker.
        if *first == worker {
            of_queue.push((instance, key));
        }
    }
    for (queue, (worker, mut starts)) in queues {
        let name = P::Text(&queue);
        let lock = query!(LOCK, { now: session.now(), queue: name });
        let waits = query!(WAITS, { now: session.now(), queue: name });
        let slots = query!(SLOTS, { queue: name, owner: P::Text(&worker.0) });
        let ids: Vec<Cow<'_, str>> = starts.iter().map(|(instance, _)| encode(&instance.id)).collect();
        let in_use = query!(IN_USE, { ids: P::Texts(&ids) });
        session.connection().prepare(&[&lock, &waits, &slots, &in_use]).await?;
        // Sent in this order, without waiting for the answers in between: the others count only if the queue
        // was locked before.
        let (locked, waits, slots, in_use) = tokio::try_join!(
            biased;
            session.run(Some(&lock)),
            session.run(Some(&waits)),
            session.run(Some(&slots)),
            session.run(Some(&in_use)),
        )?;
        let (Some(row), Some(waits)) = (locked.first(), waits.first()) else {
            continue;
        };
        // Limits that another program has broken give no slots.
        let Some(before) = queue_state(row, 0)?.filter(|_| !waits.get::<_, bool>(0)) else {
            continue;
        };
        let now_ms = row.try_get(3)?;
        let mut pass = Pass::new(before.clone(), slot_counts(&slots)?, starts.len(), now_ms);
        starts.sort_by_key(|(instance, _)| Reverse(instance.priority));
        let mut refused: HashSet<String> = in_use.iter().map(|row| text(row, 0)).collect::<Result<_, _>>()?;
        for (instance, key) in starts {
            if !refused.insert(instance.id.clone()) {
                continue;
            }
            let Some(turn) = pass.admit_new() else { break };
            admitted.insert(key, NewSlot { turn, now_ms });
        }
        if *pass.queue() != before {
            let admitted = pass.queue().admitted.to_text();
            session.run(Some(&put_queue(&queue, &pass, &admitted))).await?;
        }
    }
    Ok(admitted)
}
