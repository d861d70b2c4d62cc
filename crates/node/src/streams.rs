//! Requests about streams.

use std::sync::Arc;

use perdure_engine::{Payload, StreamAppend, StreamKeep};
use perdure_provider::{InstanceKey, StreamChunk, StreamInfo, StreamName, StreamPage};
use perdure_runtime::{ActivityToken, Appended, RuntimeError, Store, StreamPlace};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::caller::Caller;
use crate::process;

/// A place in a stream.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Place {
    id: String,
    stream: String,
    /// Key of the page before; `None` for the first one.
    key: Option<i64>,
    /// Index of the next entry.
    from: u64,
    /// Most chunks.
    limit: usize,
}

/// Entries that an attempt of an activity appends. The entries are the value of the request.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Append {
    /// Number of the runtime in this process.
    runtime: u32,
    /// Token of the attempt.
    activity: u64,
    stream: String,
    count: u64,
    /// True for the first append of the attempt to the stream.
    begins: bool,
    entries_max: Option<u64>,
    retain_ms: Option<u64>,
}

impl Place {
    fn place(self) -> (StreamPlace, usize) {
        let Self {
            id,
            stream,
            key,
            from,
            limit,
        } = self;
        let name = StreamName { instance: id, stream };
        let key = key.map(InstanceKey);
        (StreamPlace { name, key, from }, limit)
    }

    pub(crate) fn read(self, store: &Arc<Store>, caller: &Caller<'_>) {
        let (place, limit) = self.place();
        store.read_stream(place, limit, caller.text(|page| page_text(&page)));
    }

    pub(crate) fn await_entry(self, store: &Store, caller: &Caller<'_>) {
        let (place, _) = self.place();
        store.await_entry(caller.wait_id(), place, caller.done());
    }
}

impl Append {
    /// Appends the entries. The reply is the end of the append.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::Argument`]: there are no entries.
    pub(crate) fn make(self, entries: Payload, caller: &Caller<'_>) -> Result<(), RuntimeError> {
        let Some(entries) = entries.filter(|_| self.count > 0) else {
            return Err(RuntimeError::Argument("an append has at least one entry".into()));
        };
        let append = StreamAppend {
            stream: self.stream,
            entries,
            count: self.count,
            closes: false,
            keep: StreamKeep {
                entries_max: self.entries_max,
                retain_ms: self.retain_ms,
            },
        };
        let reply = caller.text(|end: Appended| end.as_str().to_owned());
        match process::RUNTIMES.get(self.runtime) {
            Ok(runtime) => runtime.append(ActivityToken(self.activity), append, self.begins, reply),
            // The runtime is gone, and its attempts with it.
            Err(_) => reply(Ok(Appended::Refused)),
        }
        Ok(())
    }
}

fn page_text(page: &StreamPage) -> String {
    let chunk = |chunk: &StreamChunk| {
        let writer = chunk.writer.map(|writer| {
            json!({
                "executionId": writer.execution.0,
                "operation": writer.scheduled.0,
                "attempt": writer.attempt,
            })
        });
        json!({
            "first": chunk.first,
            "count": chunk.count,
            "writer": writer,
            "reset": chunk.reset.map(|reset| json!({ "from": reset.from, "at": reset.at })),
            "timeMs": chunk.time_ms,
            "entries": chunk.entries,
        })
    };
    json!({
        "key": page.state.key.0,
        "status": page.state.status.as_str(),
        "next": page.state.next,
        "isClosed": page.state.is_closed,
        "chunks": page.chunks.iter().map(chunk).collect::<Vec<_>>(),
    })
    .to_string()
}

pub(crate) fn list_text(streams: Option<Vec<StreamInfo>>) -> String {
    let stream = |StreamInfo {
                      name,
                      first,
                      next,
                      is_closed,
                  }| json!({ "name": name, "first": first, "next": next, "isClosed": is_closed });
    let list = streams.map(|streams| Value::Array(streams.into_iter().map(stream).collect()));
    list.unwrap_or(Value::Null).to_string()
}
