//! S31, S32: the streams that are left in the store.

use std::collections::{BTreeMap, BTreeSet};

use perdure_engine::{CommandEvent, DeliveryEvent, Event, EventId, ExecutionId, StreamAppend};
use perdure_provider::{PageLimit, Provider, StreamChunk, StreamInfo, StreamName, StreamRequest};

use super::{Checker, Record};
use crate::code::work_of;
use crate::entries::{ACTIVITIES, Entries, SHORT, is_run_of, parts_of};
use crate::program::Work;

/// The chunks that a page has at most. Few, so that there are several pages.
const PAGE_ROWS: usize = 3;

/// A stream with all its chunks.
#[derive(Clone, Debug)]
pub(crate) struct StoredStream {
    info: StreamInfo,
    chunks: Vec<StreamChunk>,
}

/// Adds the entries that an execution writes to those of the executions before it.
pub(super) fn add(written: &mut Entries, entries: Entries) {
    for (stream, entries) in entries {
        written.entry(stream).or_default().extend(entries);
    }
}

/// One activity of an instance.
type Activity = (ExecutionId, EventId);

/// Reads the streams of an instance.
pub(super) async fn read(provider: &dyn Provider, id: &str) -> Vec<StoredStream> {
    let infos = provider.streams_of(id.to_owned()).await.expect("the store answers");
    let mut streams = Vec::new();
    for info in infos.expect("its status was there") {
        let mut chunks: Vec<StreamChunk> = Vec::new();
        loop {
            let request = StreamRequest {
                name: StreamName {
                    instance: id.to_owned(),
                    stream: info.name.clone(),
                },
                from: chunks.last().map_or(0, |chunk| chunk.first + chunk.count),
                limit: PageLimit::rows(PAGE_ROWS),
            };
            let page = provider.read_stream(request).await.expect("the store answers");
            let mut page = page.expect("its status was there").chunks;
            let is_full = page.len() >= PAGE_ROWS;
            chunks.append(&mut page);
            if !is_full {
                break;
            }
        }
        streams.push(StoredStream { info, chunks });
    }
    streams
}

/// A line for each stream and one for each of its chunks.
pub(super) fn lines<'a>(id: &'a str, streams: &'a [StoredStream]) -> impl Iterator<Item = String> + 'a {
    streams.iter().flat_map(move |StoredStream { info, chunks }| {
        let chunks = chunks.iter().map(move |chunk| format!("{id} {} {chunk:?}", info.name));
        std::iter::once(format!("{id} has the stream {info:?}")).chain(chunks)
    })
}

impl Checker<'_> {
    /// S31: the entries that the code of an instance writes are in its streams, each once and in order.
    pub(super) fn written(&self, record: &Record, written: &Entries) {
        let mut stored = Entries::new();
        for StoredStream { info, chunks } in &record.streams {
            for chunk in chunks.iter().filter(|chunk| chunk.writer.is_none()) {
                let entries = chunk.entries.split(StreamAppend::SEPARATOR).map(str::to_owned);
                stored.entry(info.name.clone()).or_default().extend(entries);
            }
        }
        if stored != *written {
            let id = &record.status.id;
            self.wrong(format!(
                "S31: {id} writes the entries {written:?}, and there are {stored:?}"
            ));
        }
    }

    /// S32: the indexes of a stream have no gap, each chunk names the entries that the run of its activity replaces,
    /// and the entries of an activity that a reader is left with are those of one run, each once and in order.
    pub(super) fn streams(&self, record: &Record) {
        for stream in &record.streams {
            self.indexes(record, stream);
            self.resets(record, stream);
        }
        let stream = record.streams.iter().find(|stream| stream.info.name == ACTIVITIES);
        let mut left = stream.map_or_else(BTreeMap::new, |stream| self.entries_left(record, &stream.chunks));
        for ((activity, work), is_completed) in activities(record) {
            let entries = left.remove(&activity).unwrap_or_default();
            let is_complete = entries.len() == work.entries() as usize;
            if work.writes_entries && !work.keeps_few() && is_completed && !is_complete {
                self.wrong(format!("S32: {} is over and left {entries:?}", name(record, activity)));
            }
        }
        for (activity, entries) in left {
            self.wrong(format!(
                "S32: {} does not exist and left {entries:?}",
                name(record, activity)
            ));
        }
    }

    /// Compares what the runs of activities replace with what the witness saw them append.
    fn resets(&self, record: &Record, StoredStream { info, chunks }: &StoredStream) {
        let (id, key) = (&record.status.id, record.status.key);
        for chunk in chunks {
            let expected = self.witness.replaced(key, &info.name, chunk.first);
            if expected.is_some_and(|expected| expected != chunk.reset) {
                self.wrong(format!(
                    "S32: {id} {} has {chunk:?}, which replaces {expected:?}",
                    info.name
                ));
            }
        }
    }

    /// Compares the indexes of the chunks with their entries. The first ones of a short stream may be gone.
    fn indexes(&self, record: &Record, StoredStream { info, chunks }: &StoredStream) {
        let id = &record.status.id;
        let mut next = if info.name == SHORT { info.first } else { 0 };
        let first = next;
        for chunk in chunks {
            let entries = chunk.entries.split(StreamAppend::SEPARATOR).count() as u64;
            if chunk.first != next || chunk.count != entries {
                self.wrong(format!("S32: {id} {} has {chunk:?} after the index {next}", info.name));
            }
            next = chunk.first + chunk.count;
        }
        if info.first != first || info.next != next || info.is_closed {
            self.wrong(format!("S32: {id} has {info:?}, whose next index is {next}"));
        }
    }

    /// The entries of each activity that a reader is left with. They must be the first ones of one run.
    fn entries_left<'c>(&self, record: &Record, chunks: &'c [StreamChunk]) -> BTreeMap<Activity, Vec<&'c str>> {
        let mut left: BTreeMap<Activity, Vec<(u64, &str)>> = BTreeMap::new();
        for chunk in chunks {
            let id = &record.status.id;
            let Some(writer) = chunk.writer else {
                self.wrong(format!("S32: {id} has {chunk:?}, which no activity wrote"));
                continue;
            };
            let of_activity = left.entry((writer.execution, writer.scheduled)).or_default();
            if let Some(reset) = chunk.reset.filter(|reset| reset.at == chunk.first) {
                of_activity.retain(|(index, _)| *index < reset.from);
            }
            of_activity.extend((chunk.first..).zip(chunk.entries.split(StreamAppend::SEPARATOR)));
            let is_own = |entry: &str| parts_of(entry).is_some_and(|(run, _)| is_run_of(run, writer));
            if !chunk.entries.split(StreamAppend::SEPARATOR).all(is_own) {
                self.wrong(format!("S32: {id} has {chunk:?} with entries of another writer"));
            }
        }
        let mut entries_left = BTreeMap::new();
        for (activity, entries) in left {
            let entries: Vec<&str> = entries.into_iter().map(|(_, entry)| entry).collect();
            let run = entries.first().and_then(|entry| parts_of(entry)).map(|(run, _)| run);
            let is_in_order = |(entry, counter): (&&str, u32)| parts_of(entry) == run.map(|run| (run, counter));
            if !entries.iter().zip(0..).all(is_in_order) {
                self.wrong(format!("S32: {} left {entries:?}", name(record, activity)));
            }
            entries_left.insert(activity, entries);
        }
        entries_left
    }
}

fn name(record: &Record, (execution, scheduled): Activity) -> String {
    format!("{} {execution} #{scheduled}", record.status.id)
}

/// The activities of an instance, each with true if it has succeeded.
fn activities(record: &Record) -> Vec<((Activity, Work), bool)> {
    let mut scheduled: Vec<(Activity, Work)> = Vec::new();
    let mut completed: BTreeSet<Activity> = BTreeSet::new();
    for (execution, history) in (1..).map(ExecutionId).zip(&record.histories) {
        for event in history {
            match event.clone().into_event() {
                Ok(Event::Command(CommandEvent::ActivityScheduled { input, .. })) => {
                    let work = work_of(input.as_deref().unwrap_or_default());
                    scheduled.push(((execution, event.event_id), work));
                }
                Ok(Event::Delivery(DeliveryEvent::ActivityCompleted { scheduled, .. })) => {
                    completed.insert((execution, scheduled));
                }
                _ => {}
            }
        }
    }
    let with_end = |(activity, work)| ((activity, work), completed.contains(&activity));
    scheduled.into_iter().map(with_end).collect()
}
