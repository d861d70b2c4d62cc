//! The contract of all providers, on a store in a file.

mod common;

use std::sync::Arc;

use perdure_provider::{ManualClock, Provider};
use perdure_provider_contract::{Damage, Fixture, finds_each_damage};
use rusqlite::Connection;

use common::{Directory, open};

struct InFile {
    first: Arc<dyn Provider>,
    clock: Arc<ManualClock>,
    /// Last field: the directory is removed when the provider has closed its file.
    directory: Directory,
}

impl Fixture for InFile {
    async fn open(clock: Arc<ManualClock>) -> Self {
        let directory = Directory::new();
        Self {
            first: Arc::new(open(&directory.join("store.db"), clock.clone())),
            clock,
            directory,
        }
    }

    fn provider(&self) -> Arc<dyn Provider> {
        Arc::clone(&self.first)
    }

    async fn second(&self) -> Option<Arc<dyn Provider>> {
        Some(Arc::new(open(&self.directory.join("store.db"), self.clock.clone())))
    }
}

impl Damage for InFile {
    async fn damage(&self, sql: &str) {
        let other = Connection::open(self.directory.join("store.db")).expect("the file opens");
        other.execute_batch(sql).expect("the rows are changed");
    }
}

#[tokio::test]
async fn a_check_finds_each_damage() {
    finds_each_damage::<InFile>().await;
}

perdure_provider_contract::suite!(InFile);
