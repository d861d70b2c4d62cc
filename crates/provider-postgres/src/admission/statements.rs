//! The statements of a pass that are the same for instances and attempts.

use crate::acquire::parts::registered;
use crate::queues::in_queue;

/// Walks over the queues in which entries of the names and versions in the table `r` have a place.
macro_rules! queues_of {
    ($table:literal, $place:literal) => {
        concat!(
            $table,
            " AS (
  SELECT r.name, r.version, (
    SELECT x.queue FROM {schema}.queue_places x
    WHERE x.place = ",
            $place,
            " AND x.name = r.name AND x.version = r.version ORDER BY x.queue LIMIT 1) AS queue FROM r
  UNION ALL
  SELECT q.name, q.version, (
    SELECT x.queue FROM {schema}.queue_places x
    WHERE x.place = ",
            $place,
            " AND x.name = q.name AND x.version = q.version AND x.queue > q.queue ORDER BY x.queue LIMIT 1)
  FROM ",
            $table,
            " q WHERE q.queue IS NOT NULL
)"
        )
    };
}

/// Locks the queues that have entries in line, or held, that the worker can run, or entries whose time has come. A
/// request for tasks names the queues that it serves, unless it serves any. The worker is locked against its removal.
/// The row of a queue that another worker has locked is NULL. Paused queues are left out.
pub(super) const LOCK: &str = concat!(
    "WITH RECURSIVE ",
    registered!(),
    ", w AS MATERIALIZED (
  SELECT id FROM {schema}.workers WHERE id = $owner FOR KEY SHARE
), ",
    queues_of!("line", 0),
    ", ",
    queues_of!("held", 1),
    ", delayed AS (
  (SELECT queue FROM {schema}.queue_places WHERE place = 3 ORDER BY queue LIMIT 1)
  UNION ALL
  SELECT (SELECT x.queue FROM {schema}.queue_places x WHERE x.place = 3 AND x.queue > d.queue
    ORDER BY x.queue LIMIT 1) FROM delayed d WHERE d.queue IS NOT NULL
), wanted AS MATERIALIZED (
  SELECT s.queue FROM (
    SELECT queue FROM line WHERE queue IS NOT NULL UNION SELECT queue FROM held WHERE queue IS NOT NULL
    UNION SELECT d.queue FROM delayed d WHERE (
      SELECT x.queued_at FROM {schema}.queue_places x WHERE x.place = 3 AND x.queue = d.queue
      ORDER BY x.queued_at LIMIT 1) <= coalesce($now, {now})) s
  WHERE ($any OR s.queue = ANY ($queues::text[]))
    AND NOT EXISTS (SELECT FROM {schema}.queues p WHERE p.name = s.queue AND p.paused_at IS NOT NULL)
), locked AS MATERIALIZED (
  SELECT name, settings, admitted, turn FROM {schema}.queues
  WHERE name IN (SELECT queue FROM wanted) AND paused_at IS NULL AND EXISTS (SELECT FROM w)
  ORDER BY name FOR NO KEY UPDATE SKIP LOCKED
)
SELECT coalesce($now, {now}), wanted.queue, locked.settings, locked.admitted, locked.turn
FROM wanted LEFT JOIN locked ON locked.name = wanted.queue WHERE EXISTS (SELECT FROM w) ORDER BY wanted.queue"
);

/// Puts the entries into the line whose time has come. If keys take turns, each gets its turn.
pub(super) const MOVE: &str = concat!(
    "WITH due AS MATERIALIZED (
  SELECT key, queue_key, queued_at FROM {schema}.queue_places
  WHERE queue = $queue AND place = 3 AND queued_at <= $now_ms
  ORDER BY queued_at, key LIMIT $limit FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {schema}.queue_places x SET place = 0, turn = d.turn FROM (
  SELECT d.key, CASE WHEN $fair THEN greatest($turn, (
      SELECT o.turn FROM {schema}.queue_places o WHERE ",
    in_queue!("o.", "$queue"),
    " AND o.queue_key = d.queue_key
      ORDER BY o.turn DESC LIMIT 1)) + row_number() OVER (PARTITION BY queue_key ORDER BY queued_at, key)
    ELSE 0 END AS turn FROM due d) d
WHERE x.key = ANY (ARRAY[d.key])"
);

/// Counts the slots by key, and deletes the rows of instances that had a slot and have ended or are gone. An attempt
/// has its slot as long as there is its task.
pub(super) const SLOTS: &str = "WITH slots AS MATERIALIZED (
  SELECT x.key, x.queue_key, coalesce(i.owner, t.owner) AS owner,
    t.place_key IS NOT NULL OR (i.key IS NOT NULL AND i.completed_at IS NULL) AS is_open
  FROM {schema}.queue_places x LEFT JOIN {schema}.instances i
    ON i.key = ANY (ARRAY[x.key])
  LEFT JOIN LATERAL (
    SELECT owner, place_key FROM {schema}.tasks WHERE i.key IS NULL AND place_key = x.key OFFSET 0) t ON true
  WHERE x.queue = $queue AND x.place = 2
), swept AS (
  DELETE FROM {schema}.queue_places WHERE key = ANY (ARRAY(
    SELECT key FROM {schema}.queue_places
    WHERE key = ANY (ARRAY(SELECT key FROM slots WHERE NOT is_open)) FOR UPDATE SKIP LOCKED))
)
SELECT queue_key, count(*), count(*) FILTER (WHERE owner = $owner) FROM slots WHERE is_open GROUP BY queue_key";

/// Deletes the rows of keys whose admissions no longer count.
pub(super) const FORGET: &str = "DELETE FROM {schema}.queue_keys WHERE (queue, queue_key) IN (
  SELECT queue, queue_key FROM {schema}.queue_keys WHERE queue = $queue AND waits_for = 0 AND next_at <= $now_ms
  ORDER BY next_at LIMIT $limit)";

/// Selects the keys that have a token again, and those that may have a slot again.
pub(super) const KEYS: &str = "(
  SELECT queue_key, admitted, waits_for, next_at FROM {schema}.queue_keys
  WHERE queue = $queue AND waits_for = 2 AND next_at <= $now_ms ORDER BY next_at LIMIT $limit
) UNION ALL (
  SELECT queue_key, admitted, waits_for, next_at FROM {schema}.queue_keys
  WHERE queue = $queue AND waits_for = 3 AND (queue_key IN (SELECT unnest($full::text[]))) IS NOT TRUE LIMIT $limit
)";

/// Selects the first entries in line that the worker can run, and the rows of their keys. The entries are locked. They
/// end where the data to load of those before reaches a limit. The macro takes the columns of an entry from its name
/// on, the join of a place with its entry, a further condition, the lock, and the size of an entry.
macro_rules! in_line {
    ($columns:literal, $join:literal, $condition:literal, $lock:literal, $size:expr) => {
        concat!(
            "WITH ",
            crate::acquire::parts::registered!(),
            ", line AS MATERIALIZED (
  SELECT l.* FROM r CROSS JOIN LATERAL (
    SELECT x.key, x.queue, x.queue_key, x.priority, x.turn, x.queued_at, ",
            $columns,
            "
    FROM {schema}.queue_places x ",
            $join,
            "
    WHERE x.place = 0 AND x.queue = $queue AND x.name = r.name AND x.version = r.version",
            $condition,
            "
    ORDER BY x.priority DESC, x.turn, x.queued_at, x.key LIMIT $limit",
            $lock,
            ") l
  ORDER BY l.priority DESC, l.turn, l.queued_at, l.key LIMIT $limit
)
SELECT l.key, l.queue_key, l.priority, l.turn, l.queued_at, l.name, l.version, l.size, k.admitted, k.waits_for,
  k.next_at, l.before >= $bytes::bigint
FROM (
  SELECT line.*, s.size, (sum(s.size) OVER by_rank - s.size)::bigint AS before, row_number() OVER by_rank AS rank
  FROM line CROSS JOIN LATERAL (",
            $size,
            ") s WINDOW by_rank AS (ORDER BY line.priority DESC, line.turn, line.queued_at, line.key)) l
LEFT JOIN {schema}.queue_keys k ON k.queue = l.queue AND k.queue_key = l.queue_key ORDER BY l.rank"
        )
    };
}
pub(super) use in_line;

pub(super) const PUT_QUEUE: &str = "UPDATE {schema}.queues SET admitted = $admitted, turn = $turn WHERE name = $queue";

/// Selects whether entries that the worker can run are in line, or held; when the next key has a token; and whether
/// entries are left whose time has come.
pub(super) const LEFT: &str = concat!(
    "WITH ",
    registered!(),
    "
SELECT coalesce(bool_or((SELECT true FROM {schema}.queue_places x
    WHERE x.place = 0 AND x.name = r.name AND x.version = r.version AND x.queue = $queue LIMIT 1)), false),
  coalesce(bool_or((SELECT true FROM {schema}.queue_places x
    WHERE x.place = 1 AND x.name = r.name AND x.version = r.version AND x.queue = $queue LIMIT 1)), false),
  (SELECT next_at FROM {schema}.queue_keys WHERE queue = $queue AND waits_for = 2 ORDER BY next_at LIMIT 1),
  EXISTS (SELECT FROM {schema}.queue_places WHERE place = 3 AND queue = $queue AND queued_at <= $now_ms)
FROM r"
);
