//! Keys of instances that are given out a second time: the sequence is as it was earlier, in a store that was restored
//! or on a server that lost its last commits.

use perdure_provider::{Outcome, Provider};

use crate::common::lossy_proxy::Store;

/// A start with such a key failed with 23505, and so did each one after it until the block of keys was used up.
#[tokio::test]
async fn a_key_that_is_in_use_costs_the_rest_of_its_block_and_no_start() {
    let store = Store::open().await;
    store.started("first").await;
    let others = Store::open_in(&store.schema).await;
    // The others get the block again from which the first instance has its key.
    let again = format!("SELECT setval('\"{}\".instances_keys', 1, false)", store.schema.0);
    store.count(&again).await;
    // As one statement, and among others in a transaction.
    others.started("second").await;
    store.count(&again).await;
    let third = Store::open_in(&store.schema).await;
    let batch = vec![third.start("third"), third.start("fourth")];
    let outcomes = third.batch(batch).await.expect("they are written");
    assert!(
        matches!(outcomes[..], [Outcome::Started { .. }, Outcome::Started { .. }]),
        "{outcomes:?}"
    );
    assert_eq!(store.count("SELECT count(*) FROM {schema}.instances").await, 4);
    for store in [store, others, third] {
        store.provider.close().await;
    }
}
