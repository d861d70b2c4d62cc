//! Texts of values, read row by row, and their replacement.

use perdure_engine::EventId;
use perdure_provider::{InstanceKey, StoredText, TextChange, TextField, TextPage, TextRequest, TextRow, TextTable};
use rusqlite::{Connection, Row, params};

use crate::error::Failure;
use crate::rows::{integer, number, optional_number};
use crate::session::Session;

/// Builds the query for a page. Columns: those of [`row`], the id of the instance, kind, name, execution of a message,
/// event referred to, the meta of the event that scheduled a child which ended, the text if it is wanted, and the other
/// text. Parameter 5 is the beginning of the texts to leave out, parameter 6 the number of characters that are wanted.
macro_rules! page {
    (
        $row:literal, $facts:literal, $scheduled:literal, $text:literal, $other:literal, $from:literal, $order:literal
    ) => {
        concat!(
            "SELECT ",
            $row,
            ", i.id, ",
            $facts,
            ", ",
            $scheduled,
            ", CASE WHEN substr(",
            $text,
            ", 1, length(?5)) <> ?5 THEN CASE WHEN ?6 IS NULL THEN ",
            $text,
            " ELSE substr(",
            $text,
            ", 1, ?6) END END, ",
            $other,
            " FROM ",
            $from,
            " ORDER BY ",
            $order,
            " LIMIT ?4"
        )
    };
}

const MESSAGES: &str = page!(
    "m.instance_key, 0, m.seq",
    "m.kind, m.name, m.execution, m.ref_id",
    "CASE WHEN m.kind GLOB 'Child*' THEN (SELECT meta FROM history s
       WHERE s.instance_key = m.instance_key AND s.execution = m.execution AND s.event_id = m.ref_id) END",
    "m.payload",
    "NULL",
    "messages m LEFT JOIN instances i ON i.key = m.instance_key WHERE (m.instance_key, m.seq) > (?1, ?3)
     AND ?2 = 0 AND ?7 = ''",
    "m.instance_key, m.seq"
);
const HEARTBEATS: &str = page!(
    "h.instance_key, h.execution, h.event_id",
    "NULL, NULL, NULL, NULL",
    "NULL",
    "h.details",
    "NULL",
    "heartbeats h LEFT JOIN instances i ON i.key = h.instance_key
     WHERE (h.instance_key, h.execution, h.event_id) > (?1, ?2, ?3) AND ?7 = ''",
    "h.instance_key, h.execution, h.event_id"
);
const STATE: &str = page!(
    "s.instance_key, 0, 0",
    "NULL, s.name, NULL, NULL",
    "NULL",
    "s.value",
    "NULL",
    "state s LEFT JOIN instances i ON i.key = s.instance_key
     WHERE (s.instance_key, s.name) > (?1, ?7) AND ?2 = 0 AND ?3 = 0",
    "s.instance_key, s.name"
);
const ASKS: &str = page!(
    "a.instance_key, 0, 0",
    "a.outcome, a.id, NULL, NULL",
    "NULL",
    "a.answer",
    "NULL",
    "asks a LEFT JOIN instances i ON i.key = a.instance_key
     WHERE (a.instance_key, a.id) > (?1, ?7) AND ?2 = 0 AND ?3 = 0",
    "a.instance_key, a.id"
);
const STREAM_CHUNKS: &str = page!(
    "c.instance_key, 0, c.first_index",
    "NULL, c.name, NULL, NULL",
    "NULL",
    "c.entries",
    "NULL",
    "stream_chunks c LEFT JOIN instances i ON i.key = c.instance_key
     WHERE (c.instance_key, c.name, c.first_index) > (?1, ?7, ?3) AND ?2 = 0",
    "c.instance_key, c.name, c.first_index"
);
const INSTANCES: &str = page!(
    "i.key, 0, 0",
    "NULL, NULL, NULL, NULL",
    "NULL",
    "i.custom_status",
    "i.report",
    "instances i WHERE i.key > ?1 AND ?2 = 0 AND ?3 = 0 AND ?7 = ''",
    "i.key"
);
const HISTORY: &str = page!(
    "h.instance_key, h.execution, h.event_id",
    "h.kind, h.name, NULL, h.ref_id",
    "CASE WHEN h.kind IN ('ChildCompleted', 'ChildFailed') THEN (SELECT meta FROM history s
       WHERE s.instance_key = h.instance_key AND s.execution = h.execution AND s.event_id = h.ref_id) END",
    "h.payload",
    "CASE WHEN substr(h.payload, 1, length(?5)) <> ?5
     OR (h.event_id = 1 AND (instr(h.meta, '\"customStatus\"') OR instr(h.meta, '\"state\"'))) THEN h.meta END",
    "history h LEFT JOIN instances i ON i.key = h.instance_key
       WHERE (h.instance_key, h.execution, h.event_id) > (?1, ?2, ?3) AND ?7 = ''",
    "h.instance_key, h.execution, h.event_id"
);

pub(crate) fn page(connection: &Connection, request: &TextRequest) -> Result<TextPage, Failure> {
    let mut statement = connection.prepare_cached(match request.table {
        TextTable::Messages => MESSAGES,
        TextTable::Heartbeats => HEARTBEATS,
        TextTable::State => STATE,
        TextTable::Asks => ASKS,
        TextTable::StreamChunks => STREAM_CHUNKS,
        TextTable::Instances => INSTANCES,
        TextTable::History => HISTORY,
    })?;
    let after = &request.after;
    let mut rows = statement.query(params![
        after.key.0,
        integer(after.execution),
        integer(after.number),
        integer(request.walk_max as u64).saturating_add(1),
        request.except,
        request.head.map(|head| integer(head as u64)),
        after.name,
    ])?;
    let mut page = TextPage::default();
    let (mut last, mut bytes) = (after.clone(), 0);
    while let Some(found) = rows.next()? {
        let at = row(request.table, found)?;
        let size = length(found, 9)? + length(found, 10)?;
        if page.walked >= request.walk_max || (bytes > 0 && bytes + size > request.bytes_max) {
            page.next = Some(last);
            break;
        }
        bytes += size;
        page.walked += 1;
        page.texts.extend(stored(&at, found)?);
        last = at;
    }
    Ok(page)
}

/// Returns the bytes of a text that may be absent.
fn length(found: &Row<'_>, column: usize) -> Result<usize, Failure> {
    let text = found.get_ref(column)?.as_bytes_or_null();
    Ok(text.map_err(rusqlite::Error::from)?.map_or(0, <[u8]>::len))
}

fn row(table: TextTable, found: &Row<'_>) -> rusqlite::Result<TextRow> {
    Ok(TextRow {
        key: InstanceKey(found.get(0)?),
        execution: number(found, 1)?,
        number: number(found, 2)?,
        name: match table {
            TextTable::State | TextTable::Asks | TextTable::StreamChunks => found.get(5)?,
            _ => String::new(),
        },
    })
}

fn stored(row: &TextRow, found: &Row<'_>) -> rusqlite::Result<Option<StoredText>> {
    let (text, other): (Option<String>, Option<String>) = (found.get(9)?, found.get(10)?);
    let instance: Option<String> = found.get(3)?;
    let Some(instance) = instance.filter(|_| text.is_some() || other.is_some()) else {
        return Ok(None);
    };
    Ok(Some(StoredText {
        row: row.clone(),
        instance,
        kind: found.get(4)?,
        name: found.get(5)?,
        execution: optional_number(found, 6)?,
        ref_id: optional_number(found, 7)?,
        scheduled: found.get(8)?,
        text,
        other,
    }))
}

pub(crate) fn replace(session: &mut Session<'_>, changes: &[TextChange]) -> Result<usize, Failure> {
    let mut replaced = 0;
    for TextChange {
        table,
        row,
        field,
        before,
        after,
    } in changes
    {
        let sql = match (table, field) {
            (TextTable::Messages, TextField::Text) => {
                "UPDATE messages SET payload = ?5 WHERE seq = ?3 AND instance_key = ?1 AND ?2 = 0 AND payload = ?4
                 AND ?6 = ''"
            }
            (TextTable::Heartbeats, TextField::Text) => {
                "UPDATE heartbeats SET details = ?5 WHERE instance_key = ?1 AND execution = ?2 AND event_id = ?3
                 AND details = ?4 AND ?6 = ''"
            }
            (TextTable::State, TextField::Text) => {
                "UPDATE state SET value = ?5 WHERE instance_key = ?1 AND ?2 = 0 AND ?3 = 0 AND value = ?4 AND name = ?6"
            }
            (TextTable::Asks, TextField::Text) => {
                "UPDATE asks SET answer = ?5 WHERE instance_key = ?1 AND ?2 = 0 AND ?3 = 0 AND answer = ?4 AND id = ?6"
            }
            (TextTable::StreamChunks, TextField::Text) => {
                "UPDATE stream_chunks SET entries = ?5 WHERE instance_key = ?1 AND ?2 = 0 AND first_index = ?3
                 AND entries = ?4 AND name = ?6"
            }
            (
                TextTable::Messages
                | TextTable::Heartbeats
                | TextTable::State
                | TextTable::Asks
                | TextTable::StreamChunks,
                TextField::Other,
            ) => {
                continue;
            }
            (TextTable::Instances, TextField::Text) => {
                "UPDATE instances SET custom_status = ?5 WHERE key = ?1 AND ?2 = 0 AND ?3 = 0 AND custom_status = ?4
                 AND ?6 = ''"
            }
            (TextTable::Instances, TextField::Other) => {
                "UPDATE instances SET report = ?5 WHERE key = ?1 AND ?2 = 0 AND ?3 = 0 AND report = ?4 AND ?6 = ''"
            }
            (TextTable::History, TextField::Text) => {
                "UPDATE history SET payload = ?5 WHERE instance_key = ?1 AND execution = ?2 AND event_id = ?3
                 AND payload = ?4 AND ?6 = ''"
            }
            (TextTable::History, TextField::Other) => {
                "UPDATE history SET meta = ?5 WHERE instance_key = ?1 AND execution = ?2 AND event_id = ?3
                 AND meta = ?4 AND ?6 = ''"
            }
        };
        let (execution, number) = (integer(row.execution), integer(row.number));
        replaced += session.execute(sql, params![row.key.0, execution, number, before, after, row.name])?;
    }
    Ok(replaced)
}

const _: () = assert!(EventId::FIRST.0 == 1, "the statements above say so");
