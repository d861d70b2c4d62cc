//! Copies of a store that is in use.

mod common;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use perdure_provider::{CheckRequest, Checked, Provider, ProviderErrorKind as Kind, Rule};
use perdure_provider_sqlite::{SqliteOptions, SqliteProvider};

use common::{Directory, commit, open, start, started, system_clock};

async fn check(store: &SqliteProvider) -> Checked {
    let request = CheckRequest {
        after: None,
        limit: 500,
    };
    store.check(request).await.expect("the store is checked")
}

fn names(directory: &Directory) -> Vec<String> {
    let entries = fs::read_dir(directory.join("")).expect("the directory is there");
    let name = |entry: std::io::Result<fs::DirEntry>| {
        entry
            .expect("an entry")
            .file_name()
            .into_string()
            .expect("a name in UTF-8")
    };
    let mut names: Vec<_> = entries.map(name).collect();
    names.sort();
    names
}

/// Another handle, as another process has it, commits without a pause meanwhile. Each copy is of one moment, holds
/// every write that was acknowledged before it began, and is a store.
#[tokio::test(flavor = "multi_thread")]
async fn copies_under_load_hold_every_write_acknowledged_before_them() {
    let directory = Directory::new();
    let path = directory.join("store.db");
    let store = open(&path, system_clock());
    let acknowledged = Arc::new(AtomicU64::new(0));
    let is_over = Arc::new(AtomicBool::new(false));
    let writer = std::thread::spawn({
        let (path, acknowledged, is_over) = (path.clone(), Arc::clone(&acknowledged), Arc::clone(&is_over));
        move || {
            let other = open(&path, system_clock());
            for number in 1.. {
                started(&commit(&other, vec![start(&format!("i-{number:06}"))]));
                acknowledged.store(number, Ordering::SeqCst);
                if is_over.load(Ordering::SeqCst) {
                    return;
                }
            }
        }
    });
    for copy in ["one.db", "two.db", "three.db"] {
        while acknowledged.load(Ordering::SeqCst) < 5 {
            tokio::task::yield_now().await;
        }
        let before = acknowledged.load(Ordering::SeqCst);
        let bytes = store.back_up(directory.join(copy), false).await.expect("it is copied");
        assert_eq!(bytes, fs::metadata(directory.join(copy)).unwrap().len());
        let copied = open(&directory.join(copy), system_clock());
        let checked = check(&copied).await;
        assert_eq!(checked.findings, []);
        let last = copied.statuses(vec![format!("i-{before:06}")]).await.unwrap();
        assert!(last[0].is_some(), "what was acknowledged before is there");
        // The copy is usable.
        started(&commit(&copied, vec![start("new")]));
        copied.close().await;
    }
    is_over.store(true, Ordering::SeqCst);
    writer.join().expect("the writer ends");
    store.close().await;
    assert_eq!(names(&directory), ["one.db", "store.db", "three.db", "two.db"]);
}

#[tokio::test]
async fn a_file_that_is_there_is_replaced_only_if_that_is_said() {
    let directory = Directory::new();
    let path = directory.join("store.db");
    let store = open(&path, system_clock());
    started(&commit(&store, vec![start("one")]));
    let copy = directory.join("copy.db");
    fs::write(&copy, "precious").unwrap();
    let refused = store.back_up(copy.clone(), false).await.unwrap_err();
    assert_eq!(refused.kind, Kind::CannotOpen);
    assert!(refused.message.contains("the file exists"), "{refused}");
    assert!(refused.message.contains(copy.to_str().unwrap()), "{refused}");
    assert_eq!(fs::read(&copy).unwrap(), b"precious");
    store.back_up(copy.clone(), true).await.expect("it is replaced");
    assert_eq!(check(&open(&copy, system_clock())).await.instances, 1);

    let itself = store.back_up(path.clone(), true).await.unwrap_err();
    assert!(itself.message.contains("it is the store itself"), "{itself}");
    let in_use = directory.join("in-use.db");
    let other = open(&in_use, system_clock());
    let refused = store.back_up(in_use, true).await.unwrap_err();
    assert!(refused.message.contains("a store is in use there"), "{refused}");
    other.close().await;
    let nowhere = store.back_up(directory.join("no/copy.db"), false).await.unwrap_err();
    assert!(nowhere.message.contains("directory does not exist"), "{nowhere}");
    store.close().await;
    assert_eq!(
        names(&directory),
        ["copy.db", "in-use.db", "store.db"],
        "nothing else is left"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn a_copy_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let directory = Directory::new();
    let store = open(&directory.join("store.db"), system_clock());
    store
        .back_up(directory.join("copy.db"), false)
        .await
        .expect("it is copied");
    let mode = fs::metadata(directory.join("copy.db")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn a_store_in_memory_has_none() {
    let store = SqliteProvider::in_memory(SqliteOptions::default()).unwrap();
    let refused = store.back_up(Path::new("copy.db").into(), false).await.unwrap_err();
    assert!(
        refused.message.contains("a store in memory cannot be backed up"),
        "{refused}"
    );
}

/// A page that was destroyed is found, and the walk over the rows comes to its end.
#[tokio::test]
async fn a_destroyed_page_is_found_by_a_check() {
    let directory = Directory::new();
    let path = directory.join("store.db");
    let store = open(&path, system_clock());
    for number in 0..400 {
        started(&commit(&store, vec![start(&format!("instance {number}"))]));
    }
    store.close().await;
    let sound = fs::read(&path).unwrap();
    let mut found = 0;
    for page in (4_096..sound.len()).step_by(4_096) {
        let mut bytes = sound.clone();
        bytes[page..page + 4_096].fill(0xA5);
        fs::write(&path, bytes).unwrap();
        // Damage to the pages that an opening reads is reported at open.
        let Ok(store) = SqliteProvider::open(&path, SqliteOptions::default()) else {
            continue;
        };
        let findings = check(&store).await.findings;
        found += usize::from(findings.iter().any(|finding| finding.rule == Rule::File));
        store.close().await;
    }
    // A page that a migration gave up holds nothing.
    assert!(found > 10, "only {found} of them were found");
}
