//! The statements that carry out a step of a pass.

use std::borrow::Cow;
use std::collections::HashMap;

use perdure_provider::{EntryKey, QueuePlace, Step};

use crate::params::P;
use crate::query::Query;
use crate::rows::index;
use crate::statement::query;

const PLACE: &str = "UPDATE {schema}.queue_places x SET place = p.place FROM {p}
WHERE x.key = ANY (ARRAY[p.key])";

/// Lets the first held entries of keys into the line: so many of each name and version. A key with no other
/// one waits for nothing from then on. A key is looked at by every pass from then on if another transaction is about to
/// change some of them.
const RELEASE: &str = "WITH RECURSIVE sorts AS (
  SELECT k.key, k.count, k.over_at, x.name, x.version FROM {k} CROSS JOIN LATERAL (
    SELECT x.name, x.version FROM {schema}.queue_places x
    WHERE x.queue = $queue AND x.queue_key = k.key AND x.place = 1 ORDER BY x.name, x.version LIMIT 1) x
  UNION ALL
  SELECT s.key, s.count, s.over_at, x.name, x.version FROM sorts s CROSS JOIN LATERAL (
    SELECT x.name, x.version FROM {schema}.queue_places x
    WHERE x.queue = $queue AND x.queue_key = s.key AND x.place = 1 AND (x.name, x.version) > (s.name, s.version)
    ORDER BY x.name, x.version LIMIT 1) x
), let AS MATERIALIZED (
  SELECT s.*, ARRAY(
    SELECT x.key FROM {schema}.queue_places x
    WHERE x.queue = $queue AND x.queue_key = s.key AND x.name = s.name AND x.version = s.version AND x.place = 1
    ORDER BY x.priority DESC, x.turn, x.queued_at, x.key LIMIT s.count FOR NO KEY UPDATE SKIP LOCKED
  ) AS entries FROM sorts s
), moved AS (
  UPDATE {schema}.queue_places SET place = 0
  WHERE key = ANY (ARRAY(SELECT unnest(entries) FROM let))
), found AS MATERIALIZED (
  SELECT $queue AS queue, let.key, let.over_at, cardinality(entries) < let.count AS skips, cardinality(entries) < (
    SELECT count(*) FROM (SELECT FROM {schema}.queue_places x
      WHERE x.queue = $queue AND x.queue_key = let.key AND x.name = let.name AND x.version = let.version AND x.place = 1
      LIMIT cardinality(entries) + 1) h) AS has_more
  FROM let
), rest AS (
  SELECT k.key, k.over_at, coalesce(bool_or(f.has_more), false) AS has_more,
    coalesce(bool_or(f.has_more AND f.skips), false) AS skips
  FROM {k} LEFT JOIN found f ON f.key = k.key GROUP BY k.key, k.over_at
)
UPDATE {schema}.queue_keys q SET waits_for = CASE WHEN r.has_more THEN 3 ELSE 0 END,
  next_at = CASE WHEN NOT r.has_more THEN r.over_at END
FROM rest r WHERE q.queue = $queue AND q.queue_key = r.key AND (r.skips OR NOT r.has_more)";

/// The changes of places that a step brings, as columns.
#[derive(Default)]
pub(super) struct Places {
    key: Vec<i64>,
    place: Vec<i64>,
}

impl Places {
    pub(super) fn of(step: &Step) -> Self {
        let mut places = Self::default();
        let admitted = step.admitted.iter().map(|one| (one, QueuePlace::Slot));
        let held = step.held.iter().map(|one| (one, QueuePlace::Held));
        for (waiting, place) in admitted.chain(held) {
            places.key.push(waiting.entry.0);
            places.place.push(place.number());
        }
        places
    }

    pub(super) fn query(&self) -> Option<Query<'_>> {
        let some = !self.key.is_empty();
        some.then(|| {
            query!(
                PLACE,
                {},
                p {
                    key: P::Ints(&self.key),
                    place: P::Ints(&self.place)
                }
            )
        })
    }
}

/// The entries that a step acquires, as columns.
#[derive(Default)]
pub(super) struct Taken {
    pub(super) rank: Vec<i64>,
    pub(super) key: Vec<i64>,
    pub(super) size: Vec<i64>,
}

impl Taken {
    pub(super) fn of(step: &Step, sizes: &HashMap<EntryKey, i64>) -> Self {
        let mut taken = Self::default();
        for (rank, waiting) in step.admitted.iter().enumerate() {
            taken.rank.push(index(rank));
            taken.key.push(waiting.entry.0);
            taken.size.push(sizes.get(&waiting.entry).copied().unwrap_or(0));
        }
        taken
    }
}

/// Keys of which held entries come into the line, as columns.
#[derive(Default)]
pub(super) struct Released {
    pub(super) key: Vec<Cow<'static, str>>,
    /// Number of these entries of each key.
    pub(super) count: Vec<i64>,
    /// When the row of the key may be deleted, if no other entry of it is held.
    pub(super) over_at: Vec<i64>,
}

impl Released {
    pub(super) fn query<'a>(&'a self, queue: &'a str) -> Option<Query<'a>> {
        let some = !self.key.is_empty();
        some.then(|| {
            query!(
                RELEASE,
                { queue: P::Text(queue) },
                k { key: P::Texts(&self.key), count: P::Ints(&self.count), over_at: P::Ints(&self.over_at) }
            )
        })
    }
}
