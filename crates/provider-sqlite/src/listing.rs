//! Lists of instances, the newest first.
//!
//! An index gives the order; the filter is asked of each row that the walk comes by. Where it asks for instances that have not ended, the
//! walk goes over these alone.

use perdure_provider::{Filter, InstanceKey, LIST_BYTES_MAX, ListPage, ListRequest, Place, Status};
use rusqlite::{Connection, params};

use crate::error::Failure;
use crate::rows::{candidate, candidate_columns, integer};
use crate::status;

macro_rules! walk {
    ($index:literal, $which:literal) => {
        concat!(
            "SELECT key, ",
            candidate_columns!(),
            " FROM instances INDEXED BY ",
            $index,
            " WHERE ",
            $which,
            "(created_at, key) < (?1, ?2) ORDER BY created_at DESC, key DESC LIMIT ?3"
        )
    };
}

fn walk_of(filter: &Filter) -> &'static str {
    match &filter.statuses[..] {
        [Status::Suspended] => walk!("instances_suspended", "status = 'Suspended' AND "),
        [_, ..] if !filter.statuses.iter().any(|status| status.is_terminal()) => {
            walk!("instances_open", "completed_at IS NULL AND ")
        }
        _ => walk!("instances_created", ""),
    }
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
    let mut statement = connection.prepare_cached(walk_of(filter))?;
    let mut rows = statement.query(params![
        last.at_ms,
        last.key.0,
        integer(*walk_max as u64).saturating_add(1)
    ])?;
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
            // So are all that follow.
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
