//! Texts of values, read row by row, and their replacement.

use std::ops::Bound;

use perdure_engine::{Answer, EventId, EventKind, ExecutionId, MessageSeq};
use perdure_provider::{
    InstanceKey, StoredMessage, StoredText, TextChange, TextField, TextPage, TextRequest, TextRow, TextTable,
};

use crate::tables::{EventKey, Tables};

/// Returns a text if it is wanted, cut to the length that is wanted.
fn wanted(request: &TextRequest, text: Option<&str>) -> Option<String> {
    let text = text.filter(|text| !text.starts_with(&request.except))?;
    Some(match request.head {
        Some(head) => text.chars().take(head).collect(),
        None => text.to_owned(),
    })
}

pub(crate) fn page(tables: &Tables, request: &TextRequest) -> TextPage {
    let mut page = TextPage::default();
    let mut last = request.after.clone();
    let mut bytes = 0;
    for text in rows(tables, request) {
        let (row, found) = text;
        let size = found.as_ref().map_or(0, |found| {
            let texts = found.text.iter().chain(&found.other);
            texts.map(String::len).sum()
        });
        if page.walked >= request.walk_max || (bytes > 0 && bytes + size > request.bytes_max) {
            page.next = Some(last);
            break;
        }
        bytes += size;
        page.walked += 1;
        last = row;
        page.texts
            .extend(found.filter(|found| found.text.is_some() || found.other.is_some()));
    }
    page
}

/// A row, with its texts if its instance exists.
type RowOfTexts = (TextRow, Option<StoredText>);

/// Returns every row after the one of the request, with its texts.
fn rows<'t>(tables: &'t Tables, request: &'t TextRequest) -> Box<dyn Iterator<Item = RowOfTexts> + 't> {
    match request.table {
        TextTable::Messages => Box::new(messages(tables, request)),
        TextTable::Heartbeats => Box::new(heartbeats(tables, request)),
        TextTable::State => Box::new(state(tables, request)),
        TextTable::Asks => Box::new(asks(tables, request)),
        TextTable::StreamChunks => Box::new(stream_chunks(tables, request)),
        TextTable::Instances => Box::new(instances(tables, request)),
        TextTable::History => Box::new(history(tables, request)),
    }
}

/// Returns a row of an instance, without texts. `None`: the instance does not exist.
fn row_without_texts(tables: &Tables, row: &TextRow) -> Option<StoredText> {
    let instance = tables.instance(row.key)?.id.clone();
    Some(StoredText {
        row: row.clone(),
        instance,
        kind: None,
        name: None,
        execution: None,
        ref_id: None,
        scheduled: None,
        text: None,
        other: None,
    })
}

/// Returns the meta of the event that scheduled something.
fn meta_of_schedule(tables: &Tables, key: InstanceKey, execution: u64, event: Option<u64>) -> Option<String> {
    let event = tables.history.get(&(key, ExecutionId(execution), EventId(event?)))?;
    event.meta.clone()
}

/// Returns the range of the events, or heartbeats, after the row of a request.
fn range_of_events(request: &TextRequest) -> (Bound<EventKey>, Bound<EventKey>) {
    let TextRow {
        key, execution, number, ..
    } = request.after;
    let after = Bound::Excluded((key, ExecutionId(execution), EventId(number)));
    (after, Bound::Unbounded)
}

fn messages<'t>(tables: &'t Tables, request: &'t TextRequest) -> impl Iterator<Item = RowOfTexts> + 't {
    let TextRow { key, number, .. } = request.after;
    let after = (Bound::Excluded((key, MessageSeq(number))), Bound::Unbounded);
    tables.messages.range(after).map(move |((key, seq), body)| {
        let row = TextRow {
            number: seq.0,
            ..TextRow::of(*key)
        };
        let kept = StoredMessage::of(body);
        let (execution, ref_id) = (kept.execution.map(|id| id.0), kept.scheduled.map(|id| id.0));
        let found = row_without_texts(tables, &row).map(|found| StoredText {
            scheduled: meta_of_schedule(tables, *key, execution.unwrap_or_default(), ref_id)
                .filter(|_| kept.kind.starts_with("Child")),
            kind: Some(kept.kind.to_string()),
            name: kept.name.as_deref().map(str::to_owned),
            text: wanted(request, kept.payload.as_deref()),
            execution,
            ref_id,
            ..found
        });
        (row, found)
    })
}

fn heartbeats<'t>(tables: &'t Tables, request: &'t TextRequest) -> impl Iterator<Item = RowOfTexts> + 't {
    let rows = tables.heartbeats.range(range_of_events(request));
    rows.map(move |(at, kept)| {
        let row = row_of(*at);
        let found = row_without_texts(tables, &row).map(|found| StoredText {
            text: wanted(request, Some(&kept.details)),
            ..found
        });
        (row, found)
    })
}

fn instances<'t>(tables: &'t Tables, request: &'t TextRequest) -> impl Iterator<Item = RowOfTexts> + 't {
    let after = request.after.key;
    let rows = tables.instances_from(after).filter(move |row| row.key > after);
    rows.map(move |instance| {
        let row = TextRow::of(instance.key);
        let found = row_without_texts(tables, &row).map(|found| StoredText {
            text: wanted(request, instance.custom_status.as_deref()),
            other: instance.report.clone(),
            ..found
        });
        (row, found)
    })
}

fn state<'t>(tables: &'t Tables, request: &'t TextRequest) -> impl Iterator<Item = RowOfTexts> + 't {
    let after = (request.after.key, request.after.name.clone());
    let rows = tables.state.range((Bound::Excluded(after), Bound::Unbounded));
    rows.map(move |((key, name), kept)| {
        let row = TextRow {
            name: name.clone(),
            ..TextRow::of(*key)
        };
        let found = row_without_texts(tables, &row).map(|found| StoredText {
            name: Some(name.clone()),
            text: wanted(request, kept.value.as_deref()),
            ..found
        });
        (row, found)
    })
}

fn asks<'t>(tables: &'t Tables, request: &'t TextRequest) -> impl Iterator<Item = RowOfTexts> + 't {
    let after = (request.after.key, request.after.name.clone());
    let rows = tables.asks.range((Bound::Excluded(after), Bound::Unbounded));
    rows.map(move |((key, id), kept)| {
        let row = TextRow {
            name: id.clone(),
            ..TextRow::of(*key)
        };
        let answer = kept.answer.as_ref().map(|(_, answer)| answer);
        let kind = answer.map(|answer| match answer {
            Answer::Value(_) => "Value".to_owned(),
            Answer::Error(_) => "Error".to_owned(),
        });
        let found = row_without_texts(tables, &row).map(|found| StoredText {
            kind,
            name: Some(id.clone()),
            text: wanted(request, answer.and_then(|answer| answer.payload().as_deref())),
            ..found
        });
        (row, found)
    })
}

fn stream_chunks<'t>(tables: &'t Tables, request: &'t TextRequest) -> impl Iterator<Item = RowOfTexts> + 't {
    let TextRow { key, number, name, .. } = request.after.clone();
    let after = (Bound::Excluded((key, name, number)), Bound::Unbounded);
    tables
        .stream_chunks
        .range(after)
        .map(move |((key, name, first), kept)| {
            let row = TextRow {
                number: *first,
                name: name.clone(),
                ..TextRow::of(*key)
            };
            let found = row_without_texts(tables, &row).map(|found| StoredText {
                name: Some(name.clone()),
                text: wanted(request, Some(&kept.chunk.entries)),
                ..found
            });
            (row, found)
        })
}

fn history<'t>(tables: &'t Tables, request: &'t TextRequest) -> impl Iterator<Item = RowOfTexts> + 't {
    let rows = tables.history.range(range_of_events(request));
    rows.map(move |(at, event)| {
        let row = row_of(*at);
        let ref_id = event.ref_id.map(|id| id.0);
        let is_of_child = matches!(event.kind, EventKind::ChildCompleted | EventKind::ChildFailed);
        let payload = wanted(request, event.payload.as_deref());
        let found = row_without_texts(tables, &row).map(|found| StoredText {
            kind: Some(event.kind.as_str().to_owned()),
            name: event.name.clone(),
            ref_id,
            scheduled: meta_of_schedule(tables, row.key, row.execution, ref_id).filter(|_| is_of_child),
            other: event
                .meta
                .clone()
                .filter(|meta| payload.is_some() || holds_values(&row, meta)),
            text: payload,
            ..found
        });
        (row, found)
    })
}

/// Returns true if the meta of an event may hold a custom status or a state.
fn holds_values(row: &TextRow, meta: &str) -> bool {
    row.number == EventId::FIRST.0 && (meta.contains("\"customStatus\"") || meta.contains("\"state\""))
}

fn row_of((key, execution, event): EventKey) -> TextRow {
    TextRow {
        execution: execution.0,
        number: event.0,
        ..TextRow::of(key)
    }
}

pub(crate) fn replace(tables: &mut Tables, changes: &[TextChange]) -> usize {
    changes.iter().filter(|change| replace_one(tables, change)).count()
}

fn replace_one(tables: &mut Tables, change: &TextChange) -> bool {
    let TextRow {
        key, execution, number, ..
    } = change.row;
    let of_event = (key, ExecutionId(execution), EventId(number));
    let put_text = |place: &mut String| {
        let is_same = *place == change.before;
        if is_same {
            place.clone_from(&change.after);
        }
        is_same
    };
    let put = |place: &mut Option<String>| place.as_mut().is_some_and(put_text);
    match (change.table, change.field) {
        (TextTable::Messages, TextField::Text) => {
            let at = (key, MessageSeq(number));
            let changed = tables.messages.edit(&at, |body| {
                let mut kept = StoredMessage::of(body);
                if kept.payload.as_deref() != Some(&change.before) {
                    return false;
                }
                kept.payload = Some(change.after.clone().into());
                let after = kept.into_body();
                after.map(|after| *body = after).is_some()
            });
            changed == Some(true)
        }
        (TextTable::Heartbeats, TextField::Text) => {
            tables.heartbeats.edit(&of_event, |kept| put_text(&mut kept.details)) == Some(true)
        }
        (TextTable::State, TextField::Text) => {
            let at = (key, change.row.name.clone());
            tables.state.edit(&at, |kept| put(&mut kept.value)) == Some(true)
        }
        (TextTable::Asks, TextField::Text) => {
            let at = (key, change.row.name.clone());
            let changed = tables.asks.edit(&at, |kept| match &mut kept.answer {
                Some((_, Answer::Value(payload) | Answer::Error(payload))) => put(payload),
                None => false,
            });
            changed == Some(true)
        }
        (TextTable::StreamChunks, TextField::Text) => {
            let at = (key, change.row.name.clone(), number);
            let changed = tables.stream_chunks.edit(&at, |kept| put_text(&mut kept.chunk.entries));
            changed == Some(true)
        }
        (
            TextTable::Messages | TextTable::Heartbeats | TextTable::State | TextTable::Asks | TextTable::StreamChunks,
            TextField::Other,
        ) => false,
        (TextTable::Instances, field) => {
            tables.instance(key).is_some()
                && tables.edit(key, |row| match field {
                    TextField::Text => put(&mut row.custom_status),
                    TextField::Other => put(&mut row.report),
                })
        }
        (TextTable::History, field) => {
            let changed = tables.history.edit(&of_event, |event| match field {
                TextField::Text => put(&mut event.payload),
                TextField::Other => put(&mut event.meta),
            });
            changed == Some(true)
        }
    }
}
