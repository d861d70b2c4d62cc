//! Messages in the order and form in which workers read them (P5).

use perdure_engine::{Mailbox, Message, MessageBody, MessageSeq};
use perdure_provider::{Inbox, InboxPosition, InstanceKey, MessagePage, PageLimit, WorkerId};

use crate::revocation;
use crate::tables::Tables;

/// Returns a page of the messages that wait for an instance, of these mailboxes or of any, and of those that are not
/// mail.
pub(crate) fn of_instance(
    tables: &Tables,
    key: InstanceKey,
    mailboxes: Option<&[Mailbox]>,
    limit: PageLimit,
) -> MessagePage {
    let Some(instance) = tables.instance(key) else {
        return MessagePage::default();
    };
    let (mut mail, mut mail_bytes) = (0, 0);
    let mut messages: Vec<Message> = Vec::new();
    let (mut cancels, mut settled) = (Vec::new(), Vec::new());
    for (seq, body) in tables.messages_after(key, MessageSeq(0)) {
        match body {
            MessageBody::Mail { mailbox, .. } => {
                if !limit.is_reached(mail, mail_bytes) && mailboxes.is_none_or(|wanted| wanted.contains(mailbox)) {
                    mail += 1;
                    mail_bytes += body.bytes();
                    messages.push(message(seq, body));
                }
            }
            MessageBody::Cancel { .. } => cancels.push((seq, body)),
            MessageBody::Settled { .. } => settled.push((seq, body)),
        }
    }
    let (no_mail, mut bytes) = (cancels.into_iter().chain(settled), 0);
    let mut more_settled = false;
    for (seq, body) in no_mail {
        more_settled = bytes >= limit.bytes;
        if more_settled {
            break;
        }
        bytes += body.bytes();
        messages.push(message(seq, body));
    }
    messages.sort_unstable_by_key(|message| message.seq);
    let last = tables.messages_after(key, MessageSeq(0)).next_back();
    MessagePage {
        more_up_to: last
            .map(|(seq, _)| seq)
            .filter(|_| instance.unread > messages.len() as u64),
        messages,
        more_settled,
    }
}

/// Returns a page of the messages for instances that the worker owns. The position is the last number that was looked
/// at. An earlier message for an instance that the worker did not own then is read when that instance is acquired.
pub(crate) fn of_worker(tables: &Tables, worker: &WorkerId, since: &InboxPosition, limit: PageLimit) -> Inbox {
    let mut position = MessageSeq(since.0.parse().unwrap_or(0));
    let (mut messages, mut bytes) = (Vec::new(), 0);
    for (seq, key) in tables.arrivals.range(position.next()..) {
        if limit.is_reached(messages.len(), bytes) {
            break;
        }
        position = *seq;
        if tables.instance(*key).and_then(|row| row.owner.as_ref()) == Some(worker) {
            let body = tables.messages.get(&(*key, *seq)).expect("it waits for its instance");
            bytes += body.bytes();
            messages.push((*key, Ok(message(*seq, body))));
        }
    }
    Inbox {
        more: limit.is_reached(messages.len(), bytes),
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
