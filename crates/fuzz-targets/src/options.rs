//! Options, filters and cursors, as the addon reads them on the boundary.

use perdure_engine::ActivityOptions;
use perdure_provider::{Candidate, Filter, Status};

// The addon itself runs only in Node.
#[expect(dead_code, reason = "what writes is not used here")]
#[path = "../../node/src/listing.rs"]
mod listing;
#[path = "../../node/src/postgres.rs"]
mod postgres;
#[path = "../../node/src/options.rs"]
mod runtime;

/// Reads an input as options of each kind.
pub fn run(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    if let Ok(options) = runtime::parse(text) {
        assert!(options.activity_concurrency > 0);
        assert!(options.orchestration_concurrency > 0);
    }
    runtime::warns(text);
    let _ = postgres::parse(text);
    let candidate = candidate(text);
    if let Ok(Ok(filter)) = serde_json::from_str(text).map(|json| listing::filter(&json)) {
        let _ = filter.matches(&candidate);
    }
    let _ = of_team().matches(&candidate);
    if let Ok(place) = listing::place(text) {
        let again = listing::place(&format!("{}.{}", place.at_ms, place.key.0));
        assert_eq!(again.ok(), Some(place));
    }
    if let Ok(options) = serde_json::from_str::<ActivityOptions>(text) {
        let written = serde_json::to_string(&options).expect("options are always JSON");
        let again: ActivityOptions = serde_json::from_str(&written).expect("what was written can be read");
        assert_eq!(again, options);
    }
}

fn candidate(text: &str) -> Candidate<'_> {
    Candidate {
        id: text,
        name: text,
        version: text,
        status: Status::parse(text).unwrap_or(Status::Running),
        parent_id: Some(text),
        tags: Some(text),
        created_at_ms: i64::MIN,
        completed_at_ms: Some(i64::MAX),
    }
}

/// Returns a filter that looks at the tags of every instance.
fn of_team() -> Filter {
    Filter {
        tags: [("team".to_owned(), "a".to_owned())].into(),
        ..Filter::default()
    }
}

/// Options as `js/` sends them.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    [
        concat!(
            r#"{"threads":2,"activityConcurrency":100,"orchestrationConcurrency":20000,"queues":["default"],"#,
            r#""sessionsMax":100,"sessionIdleMs":300000,"#,
            r#""cachedInstancesMax":10000,"leaseMs":15000,"turnDeadlineMs":5000,"workerName":"w","logLevel":"info","#,
            r#""historyEvents":1000000,"historyBytes":1073741824,"turnBytes":268435456,"pendingActivities":100000,"#,
            r#""mailboxMessages":1000000}"#
        ),
        concat!(
            r#"{"schema":"perdure","poolSize":10,"notify":true,"pooler":"transaction","prepare":null,"#,
            r#""tls":{"mode":"verify-full","roots":"-----BEGIN CERTIFICATE-----","crls":null,"cert":null,"key":null},"#,
            r#""defaultRoots":null}"#
        ),
        concat!(
            r#"{"statuses":["Running","Failed"],"name":"order","version":"1.0.0","tags":{"team":"a"},"parentId":"p","#,
            r#""idPrefix":"x","createdAfter":1,"createdBefore":-2,"completedBefore":3}"#
        ),
        concat!(
            r#"{"retry":{"maxAttempts":5,"initialIntervalMs":200.5,"backoff":2,"maxIntervalMs":60000,"jitter":0.2,"#,
            r#""nonRetryable":["A"],"retryOn":["B"]},"timeoutMs":1,"totalTimeoutMs":2,"heartbeatTimeoutMs":3,"#,
            r#""scheduleToStartTimeoutMs":4,"queue":"q","session":"s","key":"k","priority":-1,"inline":true}"#
        ),
        r#"{"team":"a"}"#,
        "1700000000000.42",
    ]
    .map(|seed| seed.as_bytes().to_vec())
    .into()
}
