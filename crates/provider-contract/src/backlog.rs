//! How many messages wait for an instance: counted exactly, whatever becomes of them.

use perdure_engine::MessageSeq;
use perdure_provider::{Outcome, TurnCommit};

use crate::store::{Handle, Store, end, event, instance, queued, release, suspend, turn};

/// So many messages wait for the instance `a`, as the store counts them and as it gives them.
async fn assert_waiting(store: &Handle<'_>, key: perdure_provider::InstanceKey, waiting: u64) {
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

/// Of any mailbox together; and only those that are asked to be bounded are refused.
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

/// With the turn that consumed it, held or released, and with no other.
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

/// What waits for an instance that is held, or goes to another worker, is counted as before.
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

/// An instance of the same id begins anew.
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
