//! The report of a worker about itself is written with its heartbeats, and only when it has changed.

use std::time::Duration;

use crate::support::{Fixture, Op};
use perdure_runtime::{RuntimeOptions, WorkerDescription};

fn options() -> RuntimeOptions {
    RuntimeOptions {
        lease: Duration::from_secs(3),
        activity_concurrency: 7,
        node_version: "20.1.0".into(),
        ..RuntimeOptions::default()
    }
}

/// Returns the report that was written with the last heartbeat.
fn told(f: &Fixture) -> Option<WorkerDescription> {
    let last = f.memory.renewals().pop().expect("a lease was renewed");
    last.map(|text| WorkerDescription::read(&text).expect("it is what workers tell"))
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_describes_the_work_of_a_worker() {
    let mut f = Fixture::started(options(), &[Op::Activity("a")]).await;
    f.start("i").await;
    f.note_busy(&[0.634]);
    f.advance(1_000).await;
    let description = told(&f).expect("it has changed");
    assert_eq!(
        (description.node_version.as_str(), description.activity_concurrency),
        ("20.1.0", 7)
    );
    assert_eq!(
        (
            description.threads,
            description.running_activities,
            description.loaded_instances
        ),
        (0, 1, 1)
    );
    assert_eq!(description.lanes.len(), 1);
    assert_eq!(description.lanes[0].busy_share, 0.63);

    f.note_busy(&[]);
    f.complete("a").await;
    f.advance(1_000).await;
    let description = told(&f).expect("it has changed");
    assert_eq!((description.running_activities, description.loaded_instances), (0, 0));
    assert_eq!(description.lanes[0].busy_share, 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_worker_without_work_has_nothing_to_tell() {
    let mut f = Fixture::started(options(), &[]).await;
    f.advance(1_000).await;
    for _ in 0..5 {
        f.advance(1_000).await;
        assert_eq!(told(&f), None);
    }
    assert_eq!(f.memory.renewals().len(), 6);
}
