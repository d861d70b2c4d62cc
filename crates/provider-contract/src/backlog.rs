//! The backlog of an instance: its unread messages are counted exactly in every state, and read in pages.

use perdure_engine::{Mailbox, MessageBody, MessageSeq};
use perdure_provider::{InstanceKey, MessagePage, Outcome, PageLimit, TurnCommit};

use crate::store::{Handle, Store, end, event, instance, queued, release, suspend, turn};

/// Asserts that `waiting` messages wait for the instance `a`, both as the store counts them and as it returns them.
/// Sends one more.
async fn assert_waiting(store: &Handle<'_>, key: InstanceKey, waiting: u64) {
    assert_eq!(store.messages(key).await.len() as u64, waiting);
    if waiting > 0 {
        let full = Outcome::MailboxFull { max: waiting };
        assert_eq!(store.send_within(Some(waiting), "a", event("go", "1")).await, full);
    }
    let last = deliver_within(store, waiting + 1).await;
    assert_eq!(store.messages(key).await.last().map(|message| message.seq), Some(last));
}

async fn deliver_within(store: &Handle<'_>, unread_max: u64) -> MessageSeq {
    match store.send_within(Some(unread_max), "a", queued("jobs", "1")).await {
        Outcome::Delivered { seq, .. } => seq,
        other => panic!("{unread_max} messages may wait, and it is not delivered: {other:?}"),
    }
}

/// The limit counts messages of all mailboxes together. Only sends that ask for a limit are refused.
pub async fn a_full_one_takes_no_more(store: &Store) {
    let store = store.first();
    let key = store.start(instance("a")).await;
    store.start(instance("b")).await;
    let mut sent = Vec::new();
    for body in [event("go", "1"), queued("jobs", "2"), event("other", "3")] {
        sent.push(store.deliver("a", body).await);
    }
    let full = Outcome::MailboxFull { max: 3 };
    assert_eq!(store.send_within(Some(3), "a", event("go", "4")).await, full);
    assert_eq!(
        store.send_within(Some(2), "a", queued("new", "4")).await,
        Outcome::MailboxFull { max: 2 }
    );
    let seqs: Vec<_> = store.messages(key).await.iter().map(|message| message.seq).collect();
    assert_eq!(seqs, sent, "nothing was changed");
    assert!(matches!(
        store.send_within(Some(1), "b", event("go", "1")).await,
        Outcome::Delivered { .. }
    ));
    store.deliver("a", event("go", "4")).await;
    assert_waiting(&store, key, 4).await;
}

/// The turn that consumed a message makes room for another, whether it holds or releases the instance. A fenced turn
/// does not.
pub async fn a_consumed_message_makes_room(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    let mut seqs = Vec::new();
    for _ in 0..5 {
        seqs.push(store.deliver("a", event("go", "1")).await);
    }
    let consuming = |consumed: &[MessageSeq], of: TurnCommit| TurnCommit {
        consumed: consumed.to_vec(),
        seen: seqs[4],
        ..of
    };
    store.commit(consuming(&seqs[..2], turn(&owned, &worker))).await;
    let stale = TurnCommit {
        next_event_id: owned.next_event_id.next(),
        ..consuming(&seqs[2..], turn(&owned, &worker))
    };
    assert_eq!(store.turn(stale).await, Outcome::Fenced);
    store
        .commit(consuming(&seqs[2..4], release(&owned, &worker, None)))
        .await;
    assert_waiting(&store, owned.key, 1).await;
}

/// The messages of an instance that is suspended or goes to another worker are counted as before.
pub async fn a_suspension_and_another_owner_change_nothing(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    let owned = store.owned("a", &worker).await;
    let one = store.deliver("a", event("go", "1")).await;
    store.deliver("a", event("go", "2")).await;
    store.commit(suspend(&owned, &worker, "why")).await;
    assert_waiting(&store, owned.key, 2).await;
    store.resume("a").await;
    let owned = store.acquire_one(&worker).await;
    assert_waiting(&store, owned.key, 3).await;
    store
        .commit(TurnCommit {
            consumed: vec![one],
            seen: one,
            ..turn(&owned, &worker)
        })
        .await;
    assert_waiting(&store, owned.key, 3).await;
}

/// A later instance of the same id begins with an empty backlog.
pub async fn an_end_drops_it(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    for is_terminated in [false, true] {
        let owned = store.acquire_anew("a", &worker).await;
        store.deliver("a", event("go", "1")).await;
        if is_terminated {
            store.terminate("a", None).await;
        } else {
            store.commit(end(&owned, &worker, None)).await;
        }
        let ended = store.send_within(Some(0), "a", event("go", "2")).await;
        assert!(
            matches!(ended, Outcome::Ended { .. }),
            "an end is told before a full mailbox: {ended:?}"
        );
    }
    let owned = store.acquire_anew("a", &worker).await;
    assert_waiting(&store, owned.key, 0).await;
}

fn seqs(page: &MessagePage) -> Vec<MessageSeq> {
    page.messages.iter().map(|message| message.seq).collect()
}

/// Sends three jobs, then a request to cancel, then an event.
async fn crowd(store: &Handle<'_>) -> [MessageSeq; 5] {
    let mut seqs = Vec::new();
    for body in [
        queued("jobs", "1"),
        queued("jobs", "2"),
        queued("jobs", "3"),
        MessageBody::Cancel { reason: None },
        event("jobs", "4"),
    ] {
        seqs.push(store.deliver("a", body).await);
    }
    seqs.try_into().expect("five were sent")
}

/// The oldest messages come first. A message that is no mail, such as a request to cancel, is in every page, and a page
/// tells of the messages that it leaves out.
pub async fn is_read_in_pages(store: &Store) {
    let store = store.first();
    let key = store.start(instance("a")).await;
    assert_eq!(store.page(key, None, 2).await, MessagePage::default());
    let [one, two, three, cancel, last] = crowd(&store).await;
    for (limit, expected) in [
        (0, vec![cancel]),
        (2, vec![one, two, cancel]),
        (3, vec![one, two, three, cancel]),
    ] {
        let page = store.page(key, None, limit).await;
        assert_eq!((seqs(&page), page.more_up_to), (expected, Some(last)));
    }
    let all = store.page(key, None, 5).await;
    assert_eq!(
        (seqs(&all), all.more_up_to),
        (vec![one, two, three, cancel, last], None)
    );
}

/// The messages of a mailbox are found wherever they stand in the backlog, and come in their order.
pub async fn is_searched_by_mailbox(store: &Store) {
    let store = store.first();
    let key = store.start(instance("a")).await;
    let (jobs, events) = (Mailbox::Queue("jobs".into()), Mailbox::Event("jobs".into()));
    assert_eq!(
        store.page(key, Some(vec![jobs.clone()]), 2).await,
        MessagePage::default()
    );
    let [one, two, three, cancel, last] = crowd(&store).await;
    let others = Mailbox::Event("others".into());
    for (mailboxes, limit, expected, more) in [
        (vec![events.clone()], 2, vec![cancel, last], Some(last)),
        (vec![jobs.clone()], 2, vec![one, two, cancel], Some(last)),
        (vec![others.clone()], 2, vec![cancel], Some(last)),
        (vec![], 2, vec![cancel], Some(last)),
        (
            vec![events.clone(), others, jobs.clone()],
            2,
            vec![one, two, cancel],
            Some(last),
        ),
        (vec![events, jobs], 9, vec![one, two, three, cancel, last], None),
    ] {
        let page = store.page(key, Some(mailboxes.clone()), limit).await;
        assert_eq!((seqs(&page), page.more_up_to), (expected, more), "{mailboxes:?}");
    }
}

/// An instance with a crowd of messages costs no more to acquire than another one.
pub async fn comes_with_its_instance_in_a_page(store: &Store) {
    let store = store.first();
    let worker = store.worker("w").await;
    store.start(instance("a")).await;
    let [one, two, _, cancel, last] = crowd(&store).await;
    let owned = store.acquire_page(&worker, PageLimit::rows(2)).await;
    assert_eq!(
        (seqs(&owned.messages), owned.messages.more_up_to),
        (vec![one, two, cancel], Some(last))
    );
    // The worker knows of all messages, although it has not read all of them, so the instance is not due again.
    let known = TurnCommit {
        seen: last,
        ..release(&owned, &worker, None)
    };
    store.commit(known).await;
    store.assert_nothing_due(&worker).await;
}
