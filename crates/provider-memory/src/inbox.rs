//! Messages as their readers find them (P5).

use perdure_engine::{Mailbox, Message, MessageBody, MessageSeq};
use perdure_provider::{Inbox, InboxPosition, InstanceKey, MessagePage, WorkerId};

use crate::revocation;
use crate::tables::Tables;

/// Up to `limit` messages that wait for an instance, of these mailboxes or of any, and all that are no mail.
pub(crate) fn of_instance(
    tables: &Tables,
    key: InstanceKey,
    mailboxes: Option<&[Mailbox]>,
    limit: usize,
) -> MessagePage {
    let Some(instance) = tables.instance(key) else {
        return MessagePage::default();
    };
    let mut mail = 0;
    let is_wanted = |body: &MessageBody| match body {
        MessageBody::Mail { mailbox, .. } => {
            let is_one = mail < limit && mailboxes.is_none_or(|wanted| wanted.contains(mailbox));
            mail += usize::from(is_one);
            is_one
        }
        _ => true,
    };
    let messages: Vec<Message> = tables
        .messages_after(key, MessageSeq(0))
        .filter({
            let mut is_wanted = is_wanted;
            move |(_, body)| is_wanted(body)
        })
        .map(|(seq, body)| message(seq, body))
        .collect();
    let last = tables.messages_after(key, MessageSeq(0)).next_back();
    MessagePage {
        more_up_to: last
            .map(|(seq, _)| seq)
            .filter(|_| instance.unread > messages.len() as u64),
        messages,
    }
}

/// Up to `limit` messages for instances that the worker owns. The position is the last number that was looked at: what came before it for
/// an instance that the worker did not own then comes with that instance.
pub(crate) fn of_worker(tables: &Tables, worker: &WorkerId, since: &InboxPosition, limit: usize) -> Inbox {
    let mut position = MessageSeq(since.0.parse().unwrap_or(0));
    let mut messages = Vec::new();
    for (seq, key) in tables.arrivals.range(position.next()..) {
        if messages.len() == limit {
            break;
        }
        position = *seq;
        if tables.instance(*key).and_then(|row| row.owner.as_ref()) == Some(worker) {
            let body = tables.messages.get(&(*key, *seq)).expect("it waits for its instance");
            messages.push((*key, Ok(message(*seq, body))));
        }
    }
    Inbox {
        more: messages.len() == limit,
        messages,
        position: InboxPosition(position.to_string()),
        revoked: revocation::of_worker(tables, worker),
    }
}

fn message(seq: MessageSeq, body: &MessageBody) -> Message {
    Message {
        seq,
        body: body.clone(),
    }
}
