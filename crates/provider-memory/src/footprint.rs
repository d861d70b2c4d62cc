//! The room that one instance takes.

use std::collections::BTreeMap;

use perdure_engine::{EventRecord, Mailbox, MessageBody, MessageSeq};
use perdure_provider::{FOOTPRINT_MAILBOXES_MAX, Footprint, InstanceKey};

use crate::tables::{Tables, of_instance};

pub(crate) fn of(tables: &Tables, key: InstanceKey) -> Footprint {
    let mut footprint = Footprint::default();
    let mut last = None;
    for ((_, execution, _), event) in tables.history.range(of_instance(key)) {
        footprint.executions += u64::from(last.replace(*execution) != Some(*execution));
        footprint.events += 1;
        footprint.history_bytes += bytes(event);
    }
    let mut unread: BTreeMap<&Mailbox, u64> = BTreeMap::new();
    for (_, body) in tables.messages_after(key, MessageSeq(0)) {
        if let MessageBody::Mail { mailbox, .. } = body {
            *unread.entry(mailbox).or_default() += 1;
        }
    }
    footprint.unread = unread.values().sum();
    footprint.mailboxes = unread
        .into_iter()
        .map(|(mailbox, count)| (mailbox.clone(), count))
        .collect();
    // The sort is stable: mailboxes with as many messages stay in order of kind and name.
    footprint.mailboxes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    footprint.mailboxes.truncate(FOOTPRINT_MAILBOXES_MAX);
    footprint
}

fn bytes(event: &EventRecord) -> u64 {
    (event.bytes() + event.name.as_ref().map_or(0, String::len)) as u64
}
