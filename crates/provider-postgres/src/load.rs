//! The reads of instances that were acquired: the first page of the history, messages, heartbeats and tasks.

use std::collections::HashMap;

use perdure_engine::{EventId, EventRecord, Message};
use perdure_provider::{Load, LoadOne, Loaded, MessagePage, PageLimit};
use tokio_postgres::Row;

use crate::connection::Connection;
use crate::error::Failure;
use crate::history::{self, page_of_events};
use crate::inbox;
use crate::params::P;
use crate::query::Query;
use crate::rows::{integer, message, number, text};
use crate::statement::query;

const HISTORY: &str = concat!(
    "SELECT a.key, h.* FROM {a} CROSS JOIN LATERAL (",
    page_of_events!("instance_key = a.key AND execution = a.execution"),
    ") h ORDER BY a.key, h.event_id"
);

const MESSAGES: &str = "SELECT m.*, a.key FROM {a} CROSS JOIN LATERAL (
    SELECT seq, kind, name, payload, execution, ref_id FROM (
      SELECT p.*, sum(size) OVER (ORDER BY seq) - size AS before FROM (
        SELECT *, coalesce(octet_length(payload), 0) AS size FROM {schema}.messages
        WHERE instance_key = a.key ORDER BY seq LIMIT $rows) p) q
    WHERE before < $bytes::bigint) m
  ORDER BY a.key, m.seq";

const HEARTBEATS: &str = "SELECT a.key, h.event_id, h.details FROM {a} CROSS JOIN LATERAL (
    SELECT event_id, details FROM {schema}.heartbeats WHERE instance_key = a.key AND execution = a.execution OFFSET 0) h
  ORDER BY 1, 2";

const TASKS: &str = "SELECT a.key, t.event_id FROM {a} CROSS JOIN LATERAL (
    SELECT event_id FROM {schema}.tasks WHERE instance_key = a.key AND execution = a.execution OFFSET 0) t
  ORDER BY 1, 2";

/// The rows of instances, by the keys of the instances.
struct LoadedRows {
    events: Vec<Row>,
    messages: Vec<Row>,
    heartbeats: Vec<Row>,
    tasks: Vec<Row>,
}

/// Reads the rows of all instances of a request.
async fn read_rows(connection: &Connection, request: &Load) -> Result<LoadedRows, Failure> {
    let keys: Vec<i64> = request.instances.iter().map(|one| one.key.0).collect();
    let limit = |limit: usize| P::Int(integer(limit as u64));
    let (history_page, message_page) = (request.history_page, request.message_page);
    // An instance has no activities if its start is its only event.
    let begun = || {
        request
            .instances
            .iter()
            .filter(|one| one.next_event_id.0 > EventId::FIRST.0 + 1)
    };
    let begun_keys: Vec<i64> = begun().map(|one| one.key.0).collect();
    let begun_executions: Vec<i64> = begun().map(|one| integer(one.execution.0)).collect();
    let wanted = || request.instances.iter().filter(|one| one.history);
    let wanted_keys: Vec<i64> = wanted().map(|one| one.key.0).collect();
    let wanted_executions: Vec<i64> = wanted().map(|one| integer(one.execution.0)).collect();
    let events = query!(
        HISTORY,
        { rows: limit(history_page.rows), bytes: limit(history_page.bytes) },
        a { key: P::Ints(&wanted_keys), execution: P::Ints(&wanted_executions) }
    );
    let messages = query!(
        MESSAGES,
        { rows: limit(message_page.rows.saturating_add(1)), bytes: limit(message_page.bytes) },
        a { key: P::Ints(&keys) }
    );
    let heartbeats = query!(
        HEARTBEATS,
        {},
        a {
            key: P::Ints(&begun_keys),
            execution: P::Ints(&begun_executions)
        }
    );
    let tasks = query!(
        TASKS,
        {},
        a {
            key: P::Ints(&begun_keys),
            execution: P::Ints(&begun_executions)
        }
    );
    let (heartbeats, tasks) = match begun_keys[..] {
        [] => (None, None),
        [..] => (Some(&heartbeats), Some(&tasks)),
    };
    let queries: Vec<&Query<'_>> = [Some(&events), Some(&messages), heartbeats, tasks]
        .into_iter()
        .flatten()
        .collect();
    connection.prepare(&queries).await?;
    let (events, messages, heartbeats, tasks) = tokio::try_join!(
        biased;
        connection.run(Some(&events)),
        connection.run(Some(&messages)),
        connection.run(heartbeats),
        connection.run(tasks),
    )?;
    Ok(LoadedRows {
        events,
        messages,
        heartbeats,
        tasks,
    })
}

/// Loads what is stored of instances. The connection reads from one snapshot.
pub(crate) async fn load(connection: &Connection, request: &Load) -> Result<Vec<Result<Loaded, Failure>>, Failure> {
    if request.instances.is_empty() {
        return Ok(Vec::new());
    }
    let rows = read_rows(connection, request).await?;
    let (events, messages) = (by_key(&rows.events, 0)?, by_key(&rows.messages, 6)?);
    let (heartbeats, tasks) = (by_key(&rows.heartbeats, 0)?, by_key(&rows.tasks, 0)?);
    let mut all = Vec::with_capacity(request.instances.len());
    for one in &request.instances {
        let read = read_events(one, &rows_of(&events, one), request.history_page).and_then(|history| {
            Ok(Loaded {
                history,
                messages: MessagePage {
                    messages: read_messages(&rows_of(&messages, one))?,
                    ..MessagePage::default()
                },
                heartbeats: read_each(&heartbeats, one, |row| Ok((EventId(number(row, 1)?), text(row, 2)?)))?,
                tasks: read_each(&tasks, one, |row| Ok(EventId(number(row, 1)?)))?,
            })
        });
        let read = match read {
            Ok(loaded) => fill_messages(connection, one, loaded, request.message_page).await,
            Err(failure) => Err(failure),
        };
        match read {
            Err(failure) if !failure.is_undecodable() => return Err(failure),
            read => all.push(read),
        }
    }
    Ok(all)
}

/// Reads the page of messages again if the messages fill it. Messages beyond it that are no mail belong to the page,
/// too.
async fn fill_messages(
    connection: &Connection,
    one: &LoadOne,
    mut loaded: Loaded,
    page: PageLimit,
) -> Result<Loaded, Failure> {
    let messages = &loaded.messages.messages;
    let bytes: usize = messages.iter().map(|message| message.body.bytes()).sum();
    if messages.len() > page.rows || bytes >= page.bytes {
        loaded.messages = inbox::of_instance(connection, one.key, None, page).await?;
    }
    Ok(loaded)
}

fn read_each<T>(
    found: &HashMap<i64, Vec<&Row>>,
    one: &LoadOne,
    read: impl Fn(&Row) -> Result<T, Failure>,
) -> Result<Vec<T>, Failure> {
    rows_of(found, one).into_iter().map(read).collect()
}

fn by_key(rows: &[Row], column: usize) -> Result<HashMap<i64, Vec<&Row>>, Failure> {
    let mut by_key: HashMap<i64, Vec<&Row>> = HashMap::new();
    for row in rows {
        by_key.entry(row.try_get(column)?).or_default().push(row);
    }
    Ok(by_key)
}

fn rows_of<'r>(found: &HashMap<i64, Vec<&'r Row>>, one: &LoadOne) -> Vec<&'r Row> {
    found.get(&one.key.0).cloned().unwrap_or_default()
}

fn read_events(one: &LoadOne, rows: &[&Row], page: PageLimit) -> Result<Vec<EventRecord>, Failure> {
    if !one.history {
        return Ok(Vec::new());
    }
    let mut events = Vec::with_capacity(rows.len());
    for row in rows {
        history::push_event(row, 1, one.key, EventId::FIRST, &mut events)?;
    }
    let recorded = one.next_event_id.0.saturating_sub(1);
    let bytes = events.iter().map(EventRecord::bytes).sum();
    if recorded == 0 || !page.is_reached(events.len(), bytes) && (events.len() as u64) < recorded {
        return Err(Failure::corrupt(format!(
            "instance {} has {recorded} events, and some of them are missing",
            one.key.0
        )));
    }
    Ok(events)
}

pub(crate) fn read_messages(rows: &[&Row]) -> Result<Vec<Message>, Failure> {
    rows.iter().map(|row| message(row)).collect()
}
