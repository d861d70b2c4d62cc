//! The instances of a pass: how they are read, have their versions settled, and are acquired.

use std::borrow::Cow;

use perdure_provider::{Acquire, OPEN_VERSION, PageLimit, Settled};

use super::line::{InLine, LineRequest};
use super::statements::in_line;
use super::steps::Taken;
use crate::acquire::parts::{messages_size, taken_columns};
use crate::error::Failure;
use crate::params::P;
use crate::query::Query;
use crate::registration;
use crate::rows::index;
use crate::session::Session;
use crate::statement::{named, query};
use crate::text::encode;

/// No turn of an instance in line has been written, so its start is its only event.
const LINE: &str = in_line!(
    "i.name, i.version, i.execution, i.unread",
    "JOIN {schema}.instances i ON i.key = ANY (ARRAY[x.key])",
    " AND i.status = 'Pending' AND i.owner IS NULL",
    " FOR NO KEY UPDATE OF i SKIP LOCKED",
    concat!(
        "SELECT (coalesce(sum(coalesce(octet_length(payload), 0) + coalesce(octet_length(meta), 0)), 0)
        + ",
        messages_size!("line"),
        ")::bigint AS size
      FROM {schema}.history WHERE instance_key = line.key AND execution = line.execution"
    )
);

/// Stores the settled versions of instances in line whose version was open (P17). The next pass looks at their keys:
/// others of the open version may be held until one of that version gets a slot.
const SETTLE: &str = "WITH in_line AS (
  UPDATE {schema}.queue_places x SET version = s.version FROM {s}
  WHERE x.key = ANY (ARRAY[s.key])
  RETURNING x.queue, x.queue_key
), keys AS (
  UPDATE {schema}.queue_keys k SET waits_for = 3 FROM in_line
  WHERE k.queue = in_line.queue AND k.queue_key = in_line.queue_key AND k.waits_for = 1
)
UPDATE {schema}.instances i SET version = s.version FROM {s} WHERE i.key = ANY (ARRAY[s.key])";

const TAKE: &str = concat!(
    "UPDATE {schema}.instances i SET owner = $owner, epoch = i.epoch + 1, wake_at = NULL, probation = 0
FROM {a} WHERE i.key = ANY (ARRAY[a.key]) RETURNING a.rank, a.size, ",
    taken_columns!()
);

/// Returns the statement that reads the first instances in line.
pub(super) fn line<'q>(request: &LineRequest<'q>, page: PageLimit) -> Query<'q> {
    query!(
        LINE,
        {
            queue: P::Text(request.queue),
            limit: P::Int(index(request.limit)),
            bytes: P::Int(index(request.bytes)),
            page_rows: P::Int(index(page.rows)),
            names: P::Texts(&request.registered.names),
            versions: P::Texts(&request.registered.versions),
        }
    )
}

/// Settles the versions that are open. Returns false if any instance is left to another worker.
pub(super) async fn settle(session: &Session<'_>, request: &Acquire, line: &mut [InLine]) -> Result<bool, Failure> {
    if line.iter().all(|one| one.version != OPEN_VERSION) {
        return Ok(true);
    }
    let live = registration::live_orchestrations(session).await?;
    let (mut keys, mut versions, mut all_own) = (Vec::new(), Vec::new(), true);
    for one in line.iter_mut().filter(|one| one.version == OPEN_VERSION) {
        let Settled { version, is_own } = request.settle(&one.name, &live);
        all_own &= is_own;
        keys.push(one.waiting.entry.0);
        versions.push(Cow::Owned(encode(&version).into_owned()));
        one.version = version;
    }
    named!(
        session.query,
        SETTLE,
        {},
        s {
            key: P::Ints(&keys),
            version: P::Texts(&versions)
        }
    )
    .await?;
    Ok(all_own)
}

/// Returns the statement that acquires instances.
pub(super) fn take<'q>(owner: P<'q>, taken: &'q Taken) -> Query<'q> {
    query!(
        TAKE,
        { owner: owner },
        a { rank: P::Ints(&taken.rank), key: P::Ints(&taken.key), size: P::Ints(&taken.size) }
    )
}
