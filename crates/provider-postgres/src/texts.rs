//! The stored texts of values. They are read row by row, and replaced in place.

use std::borrow::Cow;
use std::sync::LazyLock;

use perdure_provider::{
    InstanceKey, SqlBuilder, StoredText, TextChange, TextField, TextPage, TextRequest, TextRow, TextTable,
};
use tokio_postgres::Row;

use crate::connection::Connection;
use crate::error::Failure;
use crate::params::P;
use crate::rows::{integer, number, optional_number, optional_text, text};
use crate::session::Session;
use crate::statement::{columns, params, sql_with};
use crate::text::encode;

/// Selects a page of texts. The walked rows have the columns key, execution, number, at, kind, name, of_execution,
/// ref_id, text, other; `at` is the name in the row. Rows after the text that fills the page come without their texts.
macro_rules! page {
    ($walked:literal, $is_of_child:literal, $other:literal) => {
        concat!(
            "WITH walked AS (",
            $walked,
            "), looked AS (
               SELECT *, text IS NOT NULL AND NOT starts_with(text, $except) AS wanted FROM walked
             ), measured AS (
               SELECT *, (sum(bytes) OVER (ORDER BY key, execution, at, number))::bigint AS up_to FROM (
                 SELECT *, CASE WHEN wanted THEN octet_length(text) ELSE 0 END
                   + CASE WHEN wanted OR number < 2 THEN coalesce(octet_length(other), 0) ELSE 0 END AS bytes
                   FROM looked) b
             )
             SELECT w.key, w.execution, w.number, i.id, w.kind, w.name, w.of_execution, w.ref_id,
               CASE WHEN ",
            $is_of_child,
            " THEN (SELECT s.meta FROM {schema}.history s
                 WHERE s.instance_key = w.key AND s.execution = coalesce(w.of_execution, w.execution)
                 AND s.event_id = w.ref_id) END,
               CASE WHEN wanted AND fits THEN CASE WHEN $head::bigint IS NULL THEN text
               ELSE left(text, $head::integer) END END,
               CASE WHEN fits THEN ",
            $other,
            " END, fits, w.at
             FROM (SELECT *, up_to <= $bytes OR up_to = bytes AS fits FROM measured) w LEFT JOIN {schema}.instances i
             ON i.key = w.key
             ORDER BY w.key, w.execution, w.at, w.number"
        )
    };
}

const MESSAGES: &str = page!(
    "SELECT instance_key AS key, 0::bigint AS execution, seq AS number, '' AS at, kind, name,
     execution AS of_execution, ref_id, payload AS text,
       NULL::text AS other
     FROM {schema}.messages WHERE (instance_key, seq) > ($key, $number) AND $execution = 0 AND $name = ''
     ORDER BY instance_key, seq LIMIT $rows",
    "starts_with(w.kind, 'Child')",
    "NULL"
);
const HEARTBEATS: &str = page!(
    "SELECT instance_key AS key, execution, event_id AS number, '' AS at, NULL::text AS kind, NULL::text AS name,
     NULL::bigint AS of_execution,
       NULL::bigint AS ref_id, details AS text, NULL::text AS other
     FROM {schema}.heartbeats WHERE (instance_key, execution, event_id) > ($key, $execution, $number) AND $name = ''
     ORDER BY instance_key, execution, event_id LIMIT $rows",
    "false",
    "NULL"
);
const STATE: &str = page!(
    "SELECT instance_key AS key, 0::bigint AS execution, 0::bigint AS number, name AS at, NULL::text AS kind, name,
     NULL::bigint AS of_execution,
       NULL::bigint AS ref_id, value AS text, NULL::text AS other
     FROM {schema}.state WHERE (instance_key, name) > ($key, $name COLLATE \"C\") AND $execution = 0 AND $number = 0
     ORDER BY instance_key, name LIMIT $rows",
    "false",
    "NULL"
);
const ASKS: &str = page!(
    "SELECT instance_key AS key, 0::bigint AS execution, 0::bigint AS number, id AS at, outcome AS kind, id AS name,
     NULL::bigint AS of_execution,
       NULL::bigint AS ref_id, answer AS text, NULL::text AS other
     FROM {schema}.asks WHERE (instance_key, id) > ($key, $name COLLATE \"C\") AND $execution = 0 AND $number = 0
     ORDER BY instance_key, id LIMIT $rows",
    "false",
    "NULL"
);
const STREAM_CHUNKS: &str = page!(
    "SELECT instance_key AS key, 0::bigint AS execution, first_index AS number, name AS at, NULL::text AS kind, name,
     NULL::bigint AS of_execution,
       NULL::bigint AS ref_id, entries AS text, NULL::text AS other
     FROM {schema}.stream_chunks WHERE (instance_key, name, first_index) > ($key, $name COLLATE \"C\", $number)
     AND $execution = 0
     ORDER BY instance_key, name, first_index LIMIT $rows",
    "false",
    "NULL"
);
const INSTANCES: &str = page!(
    "SELECT key, 0::bigint AS execution, 0::bigint AS number, '' AS at, NULL::text AS kind, NULL::text AS name,
     NULL::bigint AS of_execution,
       NULL::bigint AS ref_id, custom_status AS text, report AS other
     FROM {schema}.instances WHERE key > $key AND $execution = 0 AND $number = 0 AND $name = ''
     ORDER BY key LIMIT $rows",
    "false",
    "w.other"
);
const HISTORY: &str = page!(
    "SELECT instance_key AS key, execution, event_id AS number, '' AS at, kind, name,
     NULL::bigint AS of_execution, ref_id, payload AS text,
       meta AS other
     FROM {schema}.history WHERE (instance_key, execution, event_id) > ($key, $execution, $number) AND $name = ''
     ORDER BY instance_key, execution, event_id LIMIT $rows",
    "w.kind IN ('ChildCompleted', 'ChildFailed')",
    "CASE WHEN wanted OR (w.number = 1
       AND (strpos(w.other, '\"customStatus\"') > 0 OR strpos(w.other, '\"state\"') > 0)) THEN w.other END"
);

params! {
    /// The row after which a page begins, its limits, and the prefix of texts that are left out.
    struct PageParams { key, execution, number, name, rows, except, head, bytes }
}

pub(crate) async fn page(connection: &Connection, request: &TextRequest) -> Result<TextPage, Failure> {
    let sql = match request.table {
        TextTable::Messages => sql_with!(MESSAGES, PageParams),
        TextTable::Heartbeats => sql_with!(HEARTBEATS, PageParams),
        TextTable::State => sql_with!(STATE, PageParams),
        TextTable::Asks => sql_with!(ASKS, PageParams),
        TextTable::StreamChunks => sql_with!(STREAM_CHUNKS, PageParams),
        TextTable::Instances => sql_with!(INSTANCES, PageParams),
        TextTable::History => sql_with!(HISTORY, PageParams),
    };
    let after = &request.after;
    let (except, name) = (encode(&request.except), encode(&after.name));
    let params = PageParams {
        key: P::Int(after.key.0),
        execution: P::Int(integer(after.execution)),
        number: P::Int(integer(after.number)),
        name: P::Text(&name),
        rows: P::Int(integer(request.walk_max as u64).saturating_add(1)),
        except: P::Text(&except),
        head: P::MaybeInt(request.head.map(|head| integer(head as u64))),
        bytes: P::Int(integer(request.bytes_max as u64)),
    };
    let params: Vec<P<'_>> = params.values().collect();
    let rows = connection.query(sql, &params).await?;
    let mut page = TextPage::default();
    let mut last = after.clone();
    for found in &rows {
        let fits: bool = found.try_get(11)?;
        if page.walked >= request.walk_max || !fits {
            page.next = Some(last);
            break;
        }
        page.walked += 1;
        last = TextRow {
            key: InstanceKey(found.try_get(0)?),
            execution: number(found, 1)?,
            number: number(found, 2)?,
            name: text(found, 12)?,
        };
        page.texts.extend(stored(&last, found)?);
    }
    Ok(page)
}

fn stored(row: &TextRow, found: &Row) -> Result<Option<StoredText>, Failure> {
    let (wanted, other) = (optional_text(found, 9)?, optional_text(found, 10)?);
    let is_deleted = found.try_get::<_, Option<&str>>(3)?.is_none();
    if is_deleted || (wanted.is_none() && other.is_none()) {
        return Ok(None);
    }
    Ok(Some(StoredText {
        row: row.clone(),
        instance: text(found, 3)?,
        kind: optional_text(found, 4)?,
        name: optional_text(found, 5)?,
        execution: optional_number(found, 6)?,
        ref_id: optional_number(found, 7)?,
        scheduled: optional_text(found, 8)?,
        text: wanted,
        other,
    }))
}

/// Replaces texts in one column of a table, where the former text still stands.
macro_rules! replace {
    ($table:literal, $column:literal, $row:literal) => {
        concat!(
            "UPDATE {schema}.",
            $table,
            " t SET ",
            $column,
            " = c.after
             FROM {c}
             WHERE ",
            $row,
            " AND t.",
            $column,
            " = c.before RETURNING 1"
        )
    };
}

const REPLACE: [(TextTable, TextField, &str); 9] = [
    (
        TextTable::Messages,
        TextField::Text,
        replace!("messages", "payload", "t.instance_key = c.key AND t.seq = c.number"),
    ),
    (
        TextTable::Heartbeats,
        TextField::Text,
        replace!(
            "heartbeats",
            "details",
            "t.instance_key = c.key AND t.execution = c.execution AND t.event_id = c.number"
        ),
    ),
    (
        TextTable::State,
        TextField::Text,
        replace!("state", "value", "t.instance_key = c.key AND t.name = c.name"),
    ),
    (
        TextTable::Asks,
        TextField::Text,
        replace!("asks", "answer", "t.instance_key = c.key AND t.id = c.name"),
    ),
    (
        TextTable::StreamChunks,
        TextField::Text,
        replace!(
            "stream_chunks",
            "entries",
            "t.instance_key = c.key AND t.name = c.name AND t.first_index = c.number"
        ),
    ),
    (
        TextTable::Instances,
        TextField::Text,
        replace!("instances", "custom_status", "t.key = c.key"),
    ),
    (
        TextTable::Instances,
        TextField::Other,
        replace!("instances", "report", "t.key = c.key"),
    ),
    (
        TextTable::History,
        TextField::Text,
        replace!(
            "history",
            "payload",
            "t.instance_key = c.key AND t.execution = c.execution AND t.event_id = c.number"
        ),
    ),
    (
        TextTable::History,
        TextField::Other,
        replace!(
            "history",
            "meta",
            "t.instance_key = c.key AND t.execution = c.execution AND t.event_id = c.number"
        ),
    ),
];

/// The texts of the statements in [`REPLACE`].
static REPLACE_SQL: LazyLock<[String; 9]> =
    LazyLock::new(|| REPLACE.map(|(_, _, sql)| SqlBuilder::new('$', sql).arrays("c", Changes::COLUMNS).build()));

/// Changes of one column as columns.
struct Changes<'c> {
    key: Vec<i64>,
    execution: Vec<i64>,
    number: Vec<i64>,
    name: Vec<Cow<'c, str>>,
    before: Vec<Cow<'c, str>>,
    after: Vec<Cow<'c, str>>,
}

impl<'c> Changes<'c> {
    columns! { key: Ints, execution: Ints, number: Ints, name: Texts, before: Texts, after: Texts }

    fn of(changes: &[&'c TextChange]) -> Self {
        let rows = || changes.iter().map(|change| &change.row);
        Self {
            key: rows().map(|row| row.key.0).collect(),
            execution: rows().map(|row| integer(row.execution)).collect(),
            number: rows().map(|row| integer(row.number)).collect(),
            name: rows().map(|row| encode(&row.name)).collect(),
            before: changes.iter().map(|change| encode(&change.before)).collect(),
            after: changes.iter().map(|change| encode(&change.after)).collect(),
        }
    }
}

/// Replaces texts. Their instances are locked first, in the order of their keys, as by each write that changes them, so
/// that no two transactions wait for each other.
pub(crate) async fn replace(session: &Session<'_>, changes: &[TextChange]) -> Result<usize, Failure> {
    let mut keys: Vec<i64> = changes.iter().map(|change| change.row.key.0).collect();
    keys.sort_unstable();
    keys.dedup();
    session
        .query(
            "SELECT key FROM {schema}.instances WHERE key = ANY ($1::bigint[]) ORDER BY key FOR NO KEY UPDATE",
            &[P::Ints(&keys)],
        )
        .await?;
    let mut replaced = 0;
    for ((table, field, _), sql) in REPLACE.into_iter().zip(REPLACE_SQL.iter()) {
        let of_this: Vec<&TextChange> = changes
            .iter()
            .filter(|c| c.table == table && c.field == field)
            .collect();
        if of_this.is_empty() {
            continue;
        }
        let changes = Changes::of(&of_this);
        let params: Vec<P<'_>> = changes.params().collect();
        replaced += session.query(sql, &params).await?.len();
    }
    Ok(replaced)
}
