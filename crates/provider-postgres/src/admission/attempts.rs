//! The attempts of a pass: how they are read and taken (P27).

use super::line::LineRequest;
use super::statements::in_line;
use super::steps::Taken;
use crate::params::P;
use crate::query::Query;
use crate::rows::index;
use crate::statement::query;
use crate::tasks::parts::{given_size, note_late, select_taken};

/// A task is locked when the walk along the line comes to its place. A join would leave the server the choice of a walk
/// over all tasks that have places.
const LINE: &str = in_line!(
    "x.name, x.version, t.instance_key, t.execution, t.event_id",
    "CROSS JOIN LATERAL (
      SELECT instance_key, execution, event_id FROM {schema}.tasks WHERE place_key = x.key AND owner IS NULL
      FOR UPDATE SKIP LOCKED) t",
    "",
    "",
    given_size!("line")
);

/// An attempt of a session is not taken: the next request for tasks routes it.
const TAKE: &str = concat!(
    "WITH admitted AS (
  UPDATE {schema}.tasks t SET owner = CASE WHEN t.session IS NULL THEN $owner END,
    route = CASE WHEN t.session IS NULL THEN '' ELSE '?' END, ",
    note_late!("$now_ms::bigint"),
    "
  WHERE t.place_key = ANY ($keys::bigint[])
  RETURNING array_position($keys::bigint[], t.place_key) AS place, t.instance_key, t.execution, t.event_id, t.attempt,
    t.name, t.deadline, t.session, t.start_by,
    coalesce(t.start_by <= $now_ms::bigint, false) AS is_late
), taken AS (
  SELECT * FROM admitted WHERE session IS NULL
) ",
    select_taken!()
);

/// Returns the statement that reads the first attempts in line.
pub(super) fn line<'q>(request: &LineRequest<'q>) -> Query<'q> {
    query!(
        LINE,
        {
            queue: P::Text(request.queue),
            limit: P::Int(index(request.limit)),
            bytes: P::Int(index(request.bytes)),
            names: P::Texts(&request.registered.names),
            versions: P::Texts(&request.registered.versions),
        }
    )
}

/// Returns the statement that takes attempts.
pub(super) fn take<'q>(owner: P<'q>, taken: &'q Taken, now_ms: i64) -> Query<'q> {
    query!(TAKE, { owner: owner, keys: P::Ints(&taken.key), now_ms: P::Int(now_ms) })
}
