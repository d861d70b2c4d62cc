//! Pages of stored texts, and the texts that replace them, as JSON.

use perdure_provider::{InstanceKey, StoredText, TextChange, TextField, TextPage, TextRow, TextTable};
use perdure_runtime::RuntimeError;
use serde_json::{Value, json};

fn argument(what: &str) -> RuntimeError {
    RuntimeError::Argument(what.to_owned())
}

/// Returns the table of a name.
pub(crate) fn table(name: &str) -> Result<TextTable, RuntimeError> {
    TextTable::parse(name).ok_or_else(|| argument("there is no such table of texts"))
}

/// Reads a row from `key.execution.number.name`. The text goes through JavaScript unchanged.
pub(crate) fn row(text: &str) -> Result<TextRow, RuntimeError> {
    let mut parts = text.splitn(4, '.');
    let mut next = || parts.next();
    let parsed = (|| {
        Some(TextRow {
            key: InstanceKey(next()?.parse().ok()?),
            execution: next()?.parse().ok()?,
            number: next()?.parse().ok()?,
            name: next()?.to_owned(),
        })
    })();
    parsed.ok_or_else(|| argument("the row is not from an earlier page"))
}

fn row_text(row: &TextRow) -> String {
    format!("{}.{}.{}.{}", row.key.0, row.execution, row.number, row.name)
}

pub(crate) fn page_text(page: &TextPage) -> String {
    let text = |text: &StoredText| {
        json!({
            "row": row_text(&text.row),
            "instance": text.instance,
            "execution": text.execution.unwrap_or(text.row.execution),
            "number": text.row.number,
            "kind": text.kind,
            "name": text.name,
            "refId": text.ref_id,
            "scheduled": text.scheduled,
            "text": text.text,
            "other": text.other,
        })
    };
    let texts: Vec<Value> = page.texts.iter().map(text).collect();
    json!({ "texts": texts, "walked": page.walked, "next": page.next.as_ref().map(row_text) }).to_string()
}

/// Reads the changes that `js/client/recode.ts` makes of a page.
pub(crate) fn changes(table: TextTable, text: &str) -> Result<Vec<TextChange>, RuntimeError> {
    let json: Value = serde_json::from_str(text).map_err(|e| argument(&format!("the changes are not JSON: {e}")))?;
    let changes = json.as_array().into_iter().flatten().map(|change| {
        let text = |name: &str| change[name].as_str().ok_or_else(|| argument("a change lacks a text"));
        Ok(TextChange {
            table,
            row: row(text("row")?)?,
            field: if change["isOther"] == true {
                TextField::Other
            } else {
                TextField::Text
            },
            before: text("before")?.to_owned(),
            after: text("after")?.to_owned(),
        })
    });
    changes.collect()
}
