//! Lists of instances, the newest first.
//!
//! An index gives the order, and the filter is applied to each row of the walk. Where the filter names few instances
//! that have an index of their own, the walk goes over these alone: the instances with some ids, the children of one
//! parent, the instances that have not ended, the rarer states. Ids that begin with a prefix are sorted here where they
//! are few.

use perdure_provider::{
    Filter, IndexedSet, InstanceKey, LIST_BYTES_MAX, ListPage, ListRequest, PREFIX_IDS_MAX, Place, UNSUCCESSFUL,
    after_prefix,
};
use rusqlite::types::Value;
use rusqlite::{Connection, params, params_from_iter};

use crate::error::Failure;
use crate::rows::{candidate, candidate_columns, integer};
use crate::status;

macro_rules! rows {
    ($index:literal, $which:expr) => {
        concat!(
            "SELECT key, ",
            candidate_columns!(),
            " FROM instances INDEXED BY ",
            $index,
            " WHERE ",
            $which,
            "(created_at, key) < (?1, ?2)"
        )
    };
}

/// The condition that an id is one of those in a parameter, which is [a list](Filter::ids_list).
macro_rules! of_ids {
    ($param:literal, $and:literal) => {
        concat!("id IN (SELECT value FROM json_each(", $param, "))", $and)
    };
}
pub(crate) use of_ids;

/// Reads the instances of one of the rarer states, if a parameter says so.
macro_rules! of_state {
    ($state:literal, $wanted:literal) => {
        rows!(
            "instances_unsuccessful",
            concat!(
                "status IN ('Suspended', 'Failed', 'Cancelled', 'Terminated') AND status = '",
                $state,
                "' AND ",
                $wanted,
                " AND "
            )
        )
    };
}
macro_rules! walk {
    ($rows:expr) => {
        concat!($rows, " ORDER BY created_at DESC, key DESC LIMIT ?3")
    };
}

/// The query of a page.
struct Walk {
    sql: &'static str,
    /// Parameters after the first three, which are the place where the walk begins and its length.
    params: Vec<Value>,
}

impl Walk {
    fn of(connection: &Connection, filter: &Filter) -> Result<Self, Failure> {
        if let Some(ids) = few_ids(connection, filter)? {
            let sql = walk!(rows!("sqlite_autoindex_instances_1", "id >= ?4 AND id < ?5 AND "));
            let params = ids.map(Value::Text).into();
            return Ok(Self { sql, params });
        }
        let (sql, params) = match filter.indexed_set() {
            IndexedSet::Ids => {
                let sql = walk!(rows!("sqlite_autoindex_instances_1", of_ids!("?4", " AND ")));
                (sql, vec![Value::Text(filter.ids_list())])
            }
            IndexedSet::All => (walk!(rows!("instances_created", "")), Vec::new()),
            IndexedSet::Open => (walk!(rows!("instances_open", "completed_at IS NULL AND ")), Vec::new()),
            IndexedSet::Unsuccessful => {
                let wanted = UNSUCCESSFUL.map(|status| Value::Integer(filter.statuses.contains(&status).into()));
                (OF_UNSUCCESSFUL, wanted.into())
            }
            IndexedSet::ChildrenOf(parent) => {
                let sql = walk!(rows!("instances_children", "parent_id = ?4 AND "));
                (sql, vec![Value::Text(parent.to_owned())])
            }
        };
        Ok(Self { sql, params })
    }
}

/// Reads each state of [`UNSUCCESSFUL`] by itself, in that order.
const OF_UNSUCCESSFUL: &str = walk!(concat!(
    of_state!("Suspended", "?4"),
    " UNION ALL ",
    of_state!("Failed", "?5"),
    " UNION ALL ",
    of_state!("Cancelled", "?6"),
    " UNION ALL ",
    of_state!("Terminated", "?7")
));

/// Returns the first id that begins with the prefix and the first id that comes after all of those, if these are few.
fn few_ids(connection: &Connection, filter: &Filter) -> Result<Option<[String; 2]>, Failure> {
    let Some(first) = filter.id_prefix.clone().filter(|_| filter.ids.is_empty()) else {
        return Ok(None);
    };
    let Some(after) = after_prefix(&first) else {
        return Ok(None);
    };
    let mut statement = connection
        .prepare_cached("SELECT count(*) FROM (SELECT 1 FROM instances WHERE id >= ?1 AND id < ?2 LIMIT ?3 + 1)")?;
    let count: i64 = statement.query_row(params![first, after, integer(PREFIX_IDS_MAX as u64)], |row| row.get(0))?;
    Ok((count <= integer(PREFIX_IDS_MAX as u64)).then_some([first, after]))
}

pub(crate) fn list(connection: &Connection, request: &ListRequest) -> Result<ListPage, Failure> {
    let moment = connection
        .is_autocommit()
        .then(|| connection.unchecked_transaction())
        .transpose()?;
    let page = walk(connection, request)?;
    moment.map(|transaction| transaction.finish()).transpose()?;
    Ok(page)
}

fn walk(connection: &Connection, request: &ListRequest) -> Result<ListPage, Failure> {
    let ListRequest {
        filter,
        limit,
        walk_max,
        ..
    } = request;
    let mut page = ListPage::default();
    let mut bytes = 0;
    let mut last = request.first_place();
    let Walk { sql, params } = Walk::of(connection, filter)?;
    let mut statement = connection.prepare_cached(sql)?;
    let place = [last.at_ms, last.key.0, integer(*walk_max as u64).saturating_add(1)].map(Value::Integer);
    let mut rows = statement.query(params_from_iter(place.into_iter().chain(params)))?;
    let mut walked = 0;
    while let Some(row) = rows.next()? {
        if page.instances.len() >= *limit || walked >= *walk_max || bytes > LIST_BYTES_MAX {
            page.next = Some(last);
            break;
        }
        let candidate = candidate(row, 1)?;
        if filter
            .created_after_ms
            .is_some_and(|after| candidate.created_at_ms <= after)
        {
            // All rows that follow are too old as well.
            break;
        }
        walked += 1;
        last = Place {
            at_ms: candidate.created_at_ms,
            key: InstanceKey(row.get(0)?),
        };
        if filter.matches(&candidate) {
            let status = status::of(connection, last.key)?;
            bytes += status.payload_bytes();
            page.instances.push(status);
        }
    }
    Ok(page)
}
