//! Values in place: texts, strings inside a text that is JSON, and entries of a text that has several.

use std::sync::Arc;

use parking_lot::Mutex;
use perdure_engine::StreamAppend;
use serde_json::Value as Json;

use crate::place::{Place, PlacedText};

/// A value inside a record.
pub(crate) struct Value<'a> {
    pub(crate) place: Place,
    slot: Slot<'a>,
}

enum Slot<'a> {
    Text(&'a mut String),
    /// A string inside a text that is JSON.
    Inner {
        holder: Arc<Mutex<Holder<'a>>>,
        pointer: String,
        text: String,
    },
    /// An entry of several in a text.
    Entry {
        holder: Arc<Mutex<Entries<'a>>>,
        at: usize,
        text: String,
    },
}

/// A text of entries. The new entries are put into the text when the last of its values is dropped.
struct Entries<'a> {
    text: &'a mut String,
    entries: Vec<String>,
}

impl Drop for Entries<'_> {
    fn drop(&mut self) {
        *self.text = self.entries.join(&StreamAppend::SEPARATOR.to_string());
    }
}

/// A text that is JSON with values in it. The new values are put into the text when the last of them is dropped.
struct Holder<'a> {
    text: &'a mut String,
    json: Json,
    /// The fields that have changed, as they stand in the text, and as they are to stand there.
    changed: Vec<(String, String)>,
}

impl Holder<'_> {
    fn set(&mut self, pointer: &str, from: &str, to: &str) {
        let name = Json::from(name_in(pointer));
        let field = |text: &str| format!("{name}:{}", Json::from(text));
        self.changed.push((field(from), field(to)));
        if let Some(inner) = self.json.pointer_mut(pointer) {
            *inner = Json::from(to);
        }
    }

    /// Returns the text with the new values in the place of the former ones. Everything beside them stays as it is.
    /// `None`: the values do not stand there one after the other.
    fn replaced(&self) -> Option<String> {
        let (mut replaced, mut rest) = (String::with_capacity(self.text.len()), self.text.as_str());
        for (former, field) in &self.changed {
            let (before, after) = rest.split_once(former)?;
            replaced.push_str(before);
            replaced.push_str(field);
            rest = after;
        }
        replaced.push_str(rest);
        // The field of another value may look the same.
        let is_right = serde_json::from_str(&replaced).is_ok_and(|json: Json| json == self.json);
        is_right.then_some(replaced)
    }
}

impl Drop for Holder<'_> {
    fn drop(&mut self) {
        if !self.changed.is_empty() {
            *self.text = self.replaced().unwrap_or_else(|| self.json.to_string());
        }
    }
}

impl<'a> Value<'a> {
    /// Creates the value that is a whole text.
    pub(crate) const fn of_text(place: Place, text: &'a mut String) -> Self {
        let slot = Slot::Text(text);
        Self { place, slot }
    }

    pub(crate) fn text(&self) -> &str {
        match &self.slot {
            Slot::Text(text) => text,
            Slot::Inner { text, .. } | Slot::Entry { text, .. } => text,
        }
    }

    /// Returns the reason why a text of the codec cannot be stored in the place of the value. `None`: it can.
    pub(crate) fn refuses(&self, to: &str) -> Option<&'static str> {
        let is_refused = matches!(self.slot, Slot::Entry { .. }) && to.contains(StreamAppend::SEPARATOR);
        is_refused.then_some("the codec's text of it has a line feed")
    }

    pub(crate) fn set(&mut self, to: String) {
        match &mut self.slot {
            Slot::Text(text) => **text = to,
            Slot::Inner { holder, pointer, text } => {
                holder.lock().set(pointer, text, &to);
                *text = to;
            }
            Slot::Entry { holder, at, text } => {
                holder.lock().entries[*at].clone_from(&to);
                *text = to;
            }
        }
    }

    pub(crate) fn placed_text(&self) -> PlacedText {
        PlacedText {
            place: self.place.clone(),
            text: self.text().to_owned(),
        }
    }
}

/// The values found so far.
pub(crate) type Values<'a> = Vec<Value<'a>>;

fn name_in(pointer: &str) -> String {
    let name = pointer.rsplit('/').next().unwrap_or_default();
    name.replace("~1", "/").replace("~0", "~")
}

/// Adds the strings inside a JSON text whose pointers `find` returns, each with its place.
pub(crate) fn add_inner<'a>(
    to: &mut Values<'a>,
    holder: &'a mut String,
    find: impl FnOnce(&Json) -> Vec<(String, Place)>,
) {
    let Ok(json) = serde_json::from_str::<Json>(holder) else {
        // A report that the store itself wrote is plain text.
        return;
    };
    let found: Vec<(String, Place, String)> = (find(&json).into_iter())
        .filter_map(|(pointer, place)| {
            let text = json.pointer(&pointer)?.as_str()?.to_owned();
            Some((pointer, place, text))
        })
        .collect();
    let holder = Arc::new(Mutex::new(Holder {
        text: holder,
        json,
        changed: Vec::new(),
    }));
    to.extend(found.into_iter().map(|(pointer, place, text)| Value {
        place,
        slot: Slot::Inner {
            holder: Arc::clone(&holder),
            pointer,
            text,
        },
    }));
}

/// Adds the entries of a text, except those without a text.
pub(crate) fn add_entries<'a>(place: &Place, text: &'a mut String, to: &mut Values<'a>) {
    let entries: Vec<String> = text.split(StreamAppend::SEPARATOR).map(str::to_owned).collect();
    let values: Vec<(usize, String)> = (entries.iter().cloned().enumerate())
        .filter(|(_, entry)| !entry.is_empty())
        .collect();
    let holder = Arc::new(Mutex::new(Entries { text, entries }));
    to.extend(values.into_iter().map(|(at, text)| Value {
        place: place.clone(),
        slot: Slot::Entry {
            holder: Arc::clone(&holder),
            at,
            text,
        },
    }));
}
