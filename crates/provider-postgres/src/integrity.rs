//! The rows for one step of a check, for the rules of `perdure_provider`. One statement reads them all, so that they
//! are of one moment without a long transaction.

use perdure_provider::{
    AttemptFacts, CHECK_EVENTS_MAX, CHECK_FINDINGS_MAX, CHECK_INSTANCES_MAX, CheckRequest, Checked, EventFacts,
    Examination, Finding, InstanceFacts, InstanceKey, Rule,
};
use tokio_postgres::Row;

use crate::connection::Connection;
use crate::error::Failure;
use crate::params::P;
use crate::rows::{integer, optional_text, text};
use crate::statement::named;

/// Selects keys without an instance under which a table has rows, between two instances. The keys of the table are
/// found one after the other through its index. Keys that another table has are left out: its name and column follow.
macro_rules! orphans {
    ($table:literal $(, $known:literal)*) => {
        orphans!("instance_key" of $table $(, $known)*)
    };
    ($key:literal of $table:literal $(, $known:literal, $known_key:literal)?) => {
        concat!(
            "SELECT 6, key, NULL, NULL, NULL, '", $table, "', NULL, NULL, NULL, NULL, NULL, NULL FROM (
               WITH RECURSIVE found (key) AS (
                 SELECT (SELECT min(", $key, ") FROM {schema}.", $table, " WHERE ", $key, " > $after)
                 UNION ALL
                 SELECT (SELECT min(", $key, ") FROM {schema}.", $table, " WHERE ", $key, " > found.key)
                 FROM found, upper
                 WHERE found.key <= upper.key
               ) SELECT found.key FROM found, upper
               WHERE found.key <= upper.key AND NOT EXISTS (SELECT FROM {schema}.instances i WHERE i.key = found.key)",
            $(" AND (SELECT true FROM {schema}.", $known, " d WHERE d.", $known_key, " = found.key LIMIT 1) IS NULL",)?
            " LIMIT $findings) lost"
        )
    };
}

/// Selects rows of all kinds, the kind first. The row of an instance (0) is followed by its events (1) in order, and
/// then by its other rows (2 to 5, and 8).
const STEP: &str = concat!(
    "WITH page AS MATERIALIZED (
  SELECT * FROM (
    SELECT i.*, sum(h.events) OVER (ORDER BY i.key) - h.events AS before
    FROM (SELECT * FROM {schema}.instances WHERE key > $after ORDER BY key LIMIT $instances) i
    CROSS JOIN LATERAL (SELECT count(*) AS events FROM {schema}.history WHERE instance_key = i.key) h
  ) counted WHERE before < $events
), next AS MATERIALIZED (
  SELECT max(key) AS key FROM page
  HAVING EXISTS (SELECT FROM {schema}.instances WHERE key > (SELECT max(key) FROM page))
), upper AS MATERIALIZED (
  SELECT coalesce((SELECT key FROM next), 9223372036854775807) AS key
)
SELECT 0 AS what, p.key, p.execution AS a, p.next_event_id AS b, p.unread AS c, p.status AS word, p.owner AS owner,
  w.id IS NOT NULL AS is_registered, p.wake_at IS NOT NULL AS is_due, p.report IS NOT NULL AS has_report,
  p.completed_at IS NOT NULL AS has_end, p.id AS id
FROM page p LEFT JOIN {schema}.workers w ON w.id = p.owner
UNION ALL SELECT 1, h.instance_key, h.execution, h.event_id, h.ref_id, h.kind, NULL, NULL, NULL, NULL, NULL, NULL
FROM page p JOIN {schema}.history h ON h.instance_key = p.key
UNION ALL SELECT 2, m.instance_key, m.execution, NULL, m.ref_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM page p JOIN {schema}.messages m ON m.instance_key = p.key
UNION ALL SELECT 3, t.instance_key, t.execution, t.event_id, NULL, NULL, t.owner, w.id IS NOT NULL, NULL, NULL, NULL,
NULL
FROM page p JOIN {schema}.tasks t ON t.instance_key = p.key LEFT JOIN {schema}.workers w ON w.id = t.owner
UNION ALL SELECT 4, b.instance_key, b.execution, b.event_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM page p JOIN {schema}.heartbeats b ON b.instance_key = p.key
UNION ALL SELECT 5, c.parent_key, c.parent_execution, c.parent_event, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM page p JOIN {schema}.instances c ON c.parent_key = p.key
WHERE c.completed_at IS NULL AND c.parent_execution IS NOT NULL AND c.parent_event IS NOT NULL
UNION ALL SELECT 8, q.key, NULL, NULL, q.place, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM page p JOIN {schema}.queue_places q ON q.key = p.key
UNION ALL ",
    orphans!("history", "deleted_instances", "key"),
    " UNION ALL ",
    orphans!("messages"),
    " UNION ALL ",
    orphans!("tasks"),
    " UNION ALL ",
    orphans!("heartbeats"),
    " UNION ALL ",
    orphans!("takeovers"),
    " UNION ALL ",
    orphans!("asks"),
    " UNION ALL ",
    orphans!("state"),
    " UNION ALL ",
    orphans!("logs"),
    " UNION ALL ",
    orphans!("key" of "queue_places", "tasks", "place_key"),
    " UNION ALL ",
    orphans!("start_keys"),
    " UNION ALL ",
    orphans!("streams"),
    " UNION ALL ",
    orphans!("stream_chunks", "deleted_instances", "key"),
    " UNION ALL ",
    orphans!("stream_writers", "deleted_instances", "key"),
    " UNION ALL SELECT 7, key, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM next
ORDER BY key, what, a, b"
);

/// Selects rows that refer to something that does not exist, or to something that should not exist.
const DANGLING_REFERENCES: &str = "(SELECT DISTINCT 'there is a list of losses for worker ' || worker
  || ', which is not registered' FROM {schema}.revocations
  WHERE worker NOT IN (SELECT id FROM {schema}.workers) LIMIT $1)
UNION ALL (SELECT 'session ''' || session || ''' of activities is bound to a worker that is not registered'
  FROM {schema}.sessions WHERE worker NOT IN (SELECT id FROM {schema}.workers) LIMIT $1)
UNION ALL (SELECT DISTINCT 'a task of session ''' || coalesce(t.session, '')
  || ''' is routed to a worker that does not hold the session'
  FROM {schema}.tasks t LEFT JOIN {schema}.sessions s ON s.queue = t.queue AND s.session = t.session
  WHERE t.route NOT IN ('', '?', '=') AND t.route IS DISTINCT FROM s.worker LIMIT $1)
UNION ALL (SELECT 'instance ''' || i.id || ''' exists, but its history is marked for deletion'
  FROM {schema}.deleted_instances d JOIN {schema}.instances i ON i.key = d.key LIMIT $1)
UNION ALL (SELECT DISTINCT 'a request for instance ''' || instance || ''' was committed and not carried out'
  FROM {schema}.requests LIMIT $1)";

pub(crate) async fn step(connection: &Connection, request: CheckRequest) -> Result<Checked, Failure> {
    let mut checked = Checked::default();
    let findings_max = integer(CHECK_FINDINGS_MAX as u64);
    if request.after.is_none() {
        for row in connection.query(DANGLING_REFERENCES, &[P::Int(findings_max)]).await? {
            checked.findings.push(Finding::of_store(Rule::Orphan, text(&row, 0)?));
        }
    }
    let after = request.after.map_or(i64::MIN, |key| key.0);
    let limit = request.limit.clamp(1, CHECK_INSTANCES_MAX) as u64;
    let mut examined: Option<Examination> = None;
    let rows = named!(
        connection.query,
        STEP,
        {
            after: P::Int(after),
            instances: P::Int(integer(limit)),
            events: P::Int(integer(CHECK_EVENTS_MAX)),
            findings: P::Int(findings_max),
        }
    )
    .await?;
    for row in rows {
        let what: i32 = row.try_get(0)?;
        match (what, &mut examined) {
            (0, _) => {
                let before = examined.replace(Examination::new(facts(&row)?));
                checked
                    .findings
                    .extend(before.into_iter().flat_map(Examination::findings));
                checked.instances += 1;
            }
            (6, _) => {
                let table = text(&row, 5)?;
                checked.findings.push(Finding::orphan(&table, row.try_get(1)?));
            }
            (7, _) => checked.next = Some(InstanceKey(row.try_get(1)?)),
            (_, Some(examination)) => {
                checked.events += u64::from(what == 1);
                tell(examination, what, &row)?;
            }
            (_, None) => return Err(Failure::internal("a row of a check comes before its instance")),
        }
    }
    checked
        .findings
        .extend(examined.into_iter().flat_map(Examination::findings));
    Ok(checked)
}

fn facts(row: &Row) -> Result<InstanceFacts, Failure> {
    Ok(InstanceFacts {
        id: text(row, 11)?,
        execution: row.try_get(2)?,
        status: text(row, 5)?,
        owner: optional_text(row, 6)?,
        owner_is_registered: row.try_get(7)?,
        next_event_id: row.try_get(3)?,
        is_due: row.try_get(8)?,
        unread: row.try_get(4)?,
        has_report: row.try_get(9)?,
        has_end: row.try_get(10)?,
    })
}

fn tell(examination: &mut Examination, what: i32, row: &Row) -> Result<(), Failure> {
    match what {
        1 => examination.event(EventFacts {
            execution: row.try_get(2)?,
            event_id: row.try_get(3)?,
            kind: row.try_get(5)?,
            ref_id: row.try_get(4)?,
        }),
        2 => examination.message(row.try_get(2)?, row.try_get(4)?),
        8 => examination.queued(row.try_get(4)?),
        5 => examination.child(row.try_get(2)?, row.try_get(3)?),
        _ => {
            let owner: Option<&str> = row.try_get(6)?;
            let is_registered: Option<bool> = row.try_get(7)?;
            let attempt = AttemptFacts {
                execution: row.try_get(2)?,
                scheduled: row.try_get(3)?,
                owner: owner.map(|owner| (owner, is_registered == Some(true))),
            };
            if what == 3 {
                examination.task(attempt);
            } else {
                examination.heartbeat(attempt);
            }
        }
    }
    Ok(())
}
