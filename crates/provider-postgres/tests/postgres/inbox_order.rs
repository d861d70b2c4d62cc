//! Messages of transactions that got their numbers in one order and wrote in the other.
//!
//! A transaction has its number from its first write on, and may then wait for the row of an instance. An inbox in the
//! order of these numbers alone gave the second message of an instance before the first. The worker took the first
//! message for one that it had seen, and the instance slept through it for ever.

use perdure_engine::MessageSeq;
use perdure_provider::{InboxPosition, PageLimit, Provider};

use crate::common::lossy_proxy::{Store, message};
use crate::common::other_program;

#[tokio::test]
async fn a_message_that_overtakes_another_is_not_handed_over_before_it() {
    let reader = Store::open().await;
    let first = reader.started("first").await;
    let second = reader.started("second").await;
    assert!(first < second, "rows are locked in the order of their keys");
    let slow = Store::open_in(&reader.schema).await;
    // This transaction has its number, and waits for the first instance.
    let row = other_program().await;
    let schema = format!("\"{}\"", reader.schema.0);
    let lock = format!("BEGIN; SELECT FROM {schema}.instances WHERE id = 'first' FOR UPDATE");
    row.batch_execute(&lock).await.expect("it is locked");
    let overtaking = tokio::spawn(async move {
        let outcomes = slow.batch(vec![message("first"), message("second")]).await;
        (slow, outcomes)
    });
    let waits = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND position('{schema}' IN query) > 0"
    );
    while reader.count(&waits).await == 0 {
        tokio::task::yield_now().await;
    }
    // This one has a higher number, and writes first.
    reader.batch(vec![message("second")]).await.expect("it is written");
    row.batch_execute("COMMIT").await.expect("the lock goes");
    let (slow, outcomes) = overtaking.await.expect("it ends");
    outcomes.expect("they are written");

    for limit in [1, 2, 3, 10] {
        let (mut all, mut position) = (Vec::new(), InboxPosition::default());
        loop {
            let inbox = reader
                .provider
                .read_inbox(&reader.worker, &position, PageLimit::rows(limit));
            let inbox = inbox.await.expect("the store answers");
            all.extend(inbox.messages.into_iter().filter(|(key, _)| *key == second));
            position = inbox.position;
            if !inbox.more {
                break;
            }
        }
        let told: Vec<_> = all
            .iter()
            .map(|(_, message)| message.as_ref().map(|message| message.seq).map_err(|seq| *seq))
            .collect();
        // The second message is to be read from the instance, where both are in order.
        assert_eq!(told, [Err(MessageSeq(2)), Ok(MessageSeq(1))], "in pages of {limit}");
    }
    let page = reader.provider.read_messages(second, None, PageLimit::rows(10)).await;
    let page = page.expect("the store answers");
    let seqs: Vec<_> = page.messages.iter().map(|message| message.seq).collect();
    assert_eq!(seqs, [MessageSeq(1), MessageSeq(2)]);
    for store in [reader, slow] {
        store.provider.close().await;
    }
}
