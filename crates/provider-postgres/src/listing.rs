//! Lists of instances, the newest first.
//!
//! An index gives the order. The filter is tested on each row that the walk passes, in SQL except for the tags, which
//! are not parsed there. If the filter selects few instances that have an index of their own, the walk goes over these
//! alone: instances with some ids, children of one parent, instances that have not ended, the rarer states. Ids that
//! begin with a prefix are sorted for the walk if they are few. The matching instances are read after the walk, in one
//! statement and no more than a page may hold.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use perdure_provider::{
    Filter, IndexedSet, InstanceKey, InstanceStatus, LIST_BYTES_MAX, ListPage, ListRequest, PREFIX_IDS_MAX, Place,
    SqlBuilder, after_prefix,
};
use tokio_postgres::Row;

use crate::connection::Connection;
use crate::error::Failure;
use crate::params::P;
use crate::rows::{integer, number, optional_text};
use crate::statement::{named, params, sql_with};
use crate::status;
use crate::text::encode;

/// Tests each condition of a filter except its tags, with [`ConditionParams`], on a row of instances named `i`.
macro_rules! matches {
    () => {
        "(cardinality($ids::text[]) = 0 OR i.id = ANY ($ids))
      AND (cardinality($statuses::text[]) = 0 OR i.status = ANY ($statuses))
      AND (cardinality($names::text[]) = 0 OR i.name = ANY ($names))
      AND (cardinality($versions::text[]) = 0 OR i.version = ANY ($versions))
      AND (cardinality($parent_ids::text[]) = 0 OR coalesce(i.parent_id = ANY ($parent_ids), false))
      AND starts_with(i.id, $id_prefix::text)
      AND ($created_after::bigint IS NULL OR i.created_at > $created_after)
      AND ($created_before::bigint IS NULL OR i.created_at < $created_before)
      AND ($completed_before::bigint IS NULL OR coalesce(i.completed_at < $completed_before, false))
      AND NOT ($hides_built_in::boolean AND starts_with(i.name, 'perdure.'))"
    };
}
pub(crate) use matches;

/// The instances with the ids of a filter, with [`ConditionParams`]. Each is looked up by itself: an index over all
/// instances does not give their order.
macro_rules! of_ids {
    () => {
        "(SELECT one.* FROM (SELECT DISTINCT unnest($ids::text[]) AS id) wanted
      CROSS JOIN LATERAL (SELECT * FROM {schema}.instances i WHERE i.id = wanted.id OFFSET 0) one) found WHERE"
    };
}
pub(crate) use of_ids;

/// Selects as many rows as a walk may pass, and one more.
macro_rules! newest {
    ($among:expr) => {
        concat!(
            "SELECT * FROM ",
            $among,
            " (created_at, key) < ($from_ms::bigint, $from_key::bigint)
        AND ($created_after IS NULL OR created_at > $created_after)
        ORDER BY created_at DESC, key DESC LIMIT $walk_max::bigint + 1"
        )
    };
}

/// Selects the matching rows of a walk, and its end: the last row that it may pass, and the row after that if there is
/// one. The last event is looked up only for matching rows, and nothing is read that a page does not need.
macro_rules! walk {
    ($among:expr) => {
        concat!(
            "SELECT w.key, w.created_at, w.holds, w.tags,
      coalesce(octet_length(w.custom_status), 0) + coalesce(h.size, octet_length(w.report), 0)::bigint, w.walked
    FROM (SELECT i.*, ",
            matches!(),
            " AS holds, row_number() OVER (ORDER BY i.created_at DESC, i.key DESC) AS walked
      FROM (",
            newest!($among),
            ") i) w
    LEFT JOIN LATERAL (SELECT octet_length(payload) AS size FROM {schema}.history
      WHERE w.holds AND w.completed_at IS NOT NULL
        AND instance_key = w.key AND execution = w.execution AND event_id = w.next_event_id - 1) h ON true
    WHERE w.holds OR w.walked >= $walk_max
    ORDER BY w.created_at DESC, w.key DESC LIMIT $rows_max::bigint"
        )
    };
}

/// Selects the instances in one of the rarer states, if the filter asks for it. Each state is sorted by itself, so that
/// the states are merged and need not all be read.
macro_rules! of_state {
    ($state:literal) => {
        concat!(
            "(",
            newest!(concat!(
                "{schema}.instances WHERE status = '",
                $state,
                "' AND '",
                $state,
                "' = ANY ($statuses) AND"
            )),
            ")"
        )
    };
}

const OF_ALL: &str = walk!("{schema}.instances WHERE");

const OF_IDS: &str = walk!(of_ids!());

const OF_OPEN: &str = walk!("{schema}.instances WHERE completed_at IS NULL AND");

const OF_CHILDREN: &str = walk!(
    "{schema}.instances WHERE parent_id IS NOT NULL
     AND hashtextextended(parent_id, 0) = hashtextextended(($parent_ids::text[])[1], 0) AND"
);

/// Walks each state of [`UNSUCCESSFUL`](perdure_provider::UNSUCCESSFUL) by itself.
const OF_UNSUCCESSFUL: &str = walk!(concat!(
    "(",
    of_state!("Suspended"),
    " UNION ALL ",
    of_state!("Failed"),
    " UNION ALL ",
    of_state!("Cancelled"),
    " UNION ALL ",
    of_state!("Terminated"),
    ") unsuccessful WHERE"
));

/// Walks the instances with the keys of `wanted`. Each is looked up by itself: an index over all instances does not
/// give their order.
const OF_KEYS: &str = walk!(
    "(SELECT one.* FROM {wanted}
      CROSS JOIN LATERAL (SELECT * FROM {schema}.instances i WHERE i.key = wanted.key OFFSET 0) one) found WHERE"
);

static OF_KEYS_SQL: LazyLock<String> = LazyLock::new(|| {
    SqlBuilder::new('$', OF_KEYS)
        .params(ConditionParams::NAMES)
        .params(WalkParams::NAMES)
        .arrays("wanted", &[("key", "bigint")])
        .build()
});

params! {
    /// The place before which a walk begins, the most rows that it passes, and the most rows of its result.
    struct WalkParams { from_ms, from_key, walk_max, rows_max }
}

fn walk_of(filter: &Filter) -> &'static str {
    match filter.indexed_set() {
        IndexedSet::Ids => sql_with!(OF_IDS, ConditionParams, WalkParams),
        IndexedSet::All => sql_with!(OF_ALL, ConditionParams, WalkParams),
        IndexedSet::Open => sql_with!(OF_OPEN, ConditionParams, WalkParams),
        IndexedSet::Unsuccessful => sql_with!(OF_UNSUCCESSFUL, ConditionParams, WalkParams),
        IndexedSet::ChildrenOf(_) => sql_with!(OF_CHILDREN, ConditionParams, WalkParams),
    }
}

/// Returns the keys of all instances whose ids begin with the prefix, if they are few.
async fn few_keys(connection: &Connection, filter: &Filter) -> Result<Option<Vec<i64>>, Failure> {
    let Some(first) = filter
        .id_prefix
        .as_deref()
        .filter(|_| filter.ids.is_empty())
        .map(encode)
    else {
        return Ok(None);
    };
    let Some(after) = after_prefix(&first) else {
        return Ok(None);
    };
    let max = integer(PREFIX_IDS_MAX as u64);
    let rows = named!(
        connection.query,
        "SELECT key FROM {schema}.instances WHERE id >= $first AND id < $after LIMIT $max::bigint + 1",
        { first: P::Text(&first), after: P::Text(&after), max: P::Int(max) }
    )
    .await?;
    if rows.len() > PREFIX_IDS_MAX {
        return Ok(None);
    }
    let keys: Result<Vec<i64>, Failure> = rows.iter().map(|row| Ok(row.try_get(0)?)).collect();
    keys.map(Some)
}

params! {
    /// The parameters of [`matches!`].
    pub(crate) struct ConditionParams {
        ids, statuses, names, versions, parent_ids, id_prefix, created_after, created_before, completed_before,
        hides_built_in,
    }
}

/// The values for [`ConditionParams`], and the filter with the tags.
pub(crate) struct Conditions<'f> {
    ids: Vec<Cow<'f, str>>,
    statuses: Vec<&'static str>,
    texts: [Vec<Cow<'f, str>>; 3],
    prefix: Cow<'f, str>,
    times: [Option<i64>; 3],
    filter: &'f Filter,
}

impl<'f> Conditions<'f> {
    pub(crate) fn of(filter: &'f Filter) -> Self {
        let text = |text: &'f Option<String>| text.iter().map(|text| encode(text)).collect();
        Self {
            ids: filter.ids.iter().map(|id| encode(id)).collect(),
            statuses: filter.statuses.iter().map(|status| status.as_str()).collect(),
            texts: [text(&filter.name), text(&filter.version), text(&filter.parent_id)],
            prefix: encode(filter.id_prefix.as_deref().unwrap_or_default()),
            times: [
                filter.created_after_ms,
                filter.created_before_ms,
                filter.completed_before_ms,
            ],
            filter,
        }
    }

    pub(crate) fn params(&self) -> ConditionParams<'_> {
        let [names, versions, parent_ids] = &self.texts;
        let [created_after, created_before, completed_before] = self.times;
        ConditionParams {
            ids: P::Texts(&self.ids),
            statuses: P::Names(&self.statuses),
            names: P::Texts(names),
            versions: P::Texts(versions),
            parent_ids: P::Texts(parent_ids),
            id_prefix: P::Text(&self.prefix),
            created_after: P::MaybeInt(created_after),
            created_before: P::MaybeInt(created_before),
            completed_before: P::MaybeInt(completed_before),
            hides_built_in: P::Bool(self.filter.hides_built_in),
        }
    }

    /// Returns true if a row matches: by the result of [`matches!`] in column `said`, and by its tags.
    pub(crate) fn hold(&self, row: &Row, said: usize, tags: usize) -> Result<bool, Failure> {
        Ok(row.try_get(said)? && self.filter.has_tags(optional_text(row, tags)?.as_deref()))
    }
}

/// Returns a page. The connection reads from one snapshot.
pub(crate) async fn list(connection: &Connection, request: &ListRequest) -> Result<ListPage, Failure> {
    let ListRequest {
        filter,
        limit,
        walk_max,
        ..
    } = request;
    let conditions = Conditions::of(filter);
    let mut last = request.first_place();
    // Tags are not tested before their row is here, so a filter with tags cannot limit the rows.
    let rows_max = filter.tags.is_empty().then(|| integer(*limit as u64).saturating_add(1));
    let walk = WalkParams {
        from_ms: P::Int(last.at_ms),
        from_key: P::Int(last.key.0),
        walk_max: P::Int(integer(*walk_max as u64)),
        rows_max: P::MaybeInt(rows_max),
    };
    let mut params: Vec<P<'_>> = conditions.params().values().chain(walk.values()).collect();
    let keys = few_keys(connection, filter).await?;
    let sql = match &keys {
        Some(keys) => {
            params.push(P::Ints(keys));
            OF_KEYS_SQL.as_str()
        }
        None => walk_of(filter),
    };
    let rows = connection.query(sql, &params).await?;
    let mut keys = Vec::new();
    let (mut bytes, mut next) = (0, None);
    for row in &rows {
        if keys.len() >= *limit || number(row, 5)? > *walk_max as u64 || bytes > LIST_BYTES_MAX as u64 {
            next = Some(last);
            break;
        }
        last = Place {
            at_ms: row.try_get(1)?,
            key: InstanceKey(row.try_get(0)?),
        };
        if conditions.hold(row, 2, 3)? {
            bytes += number(row, 4)?;
            keys.push(last.key);
        }
    }
    let found = status::of(connection, &keys.iter().map(|key| key.0).collect::<Vec<_>>()).await?;
    let mut found: BTreeMap<InstanceKey, InstanceStatus> =
        found.into_iter().map(|status| (status.key, status)).collect();
    Ok(ListPage {
        instances: keys.iter().filter_map(|key| found.remove(key)).collect(),
        next,
    })
}
