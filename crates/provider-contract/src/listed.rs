//! The test that the suite lists every check.

/// The modules of the checks, with their sources.
const MODULES: [(&str, &str); 51] = [
    ("acquire", include_str!("acquire.rs")),
    ("activity_sessions", include_str!("activity_sessions.rs")),
    ("admission", include_str!("admission.rs")),
    ("asks", include_str!("asks.rs")),
    ("backlog", include_str!("backlog.rs")),
    ("batches", include_str!("batches.rs")),
    ("cancelling", include_str!("cancelling.rs")),
    ("check", include_str!("check.rs")),
    ("claimed_slots", include_str!("claimed_slots.rs")),
    ("continue_as_new", include_str!("continue_as_new.rs")),
    ("cross_instance", include_str!("cross_instance.rs")),
    ("deletion", include_str!("deletion.rs")),
    ("due", include_str!("due.rs")),
    ("executions", include_str!("executions.rs")),
    ("fences", include_str!("fences.rs")),
    ("filters", include_str!("filters.rs")),
    ("footprint", include_str!("footprint.rs")),
    ("handles", include_str!("handles.rs")),
    ("heartbeats", include_str!("heartbeats.rs")),
    ("keyed_starts", include_str!("keyed_starts.rs")),
    ("late_attempts", include_str!("late_attempts.rs")),
    ("limited_attempts", include_str!("limited_attempts.rs")),
    ("listing", include_str!("listing.rs")),
    ("logs", include_str!("logs.rs")),
    ("messages", include_str!("messages.rs")),
    ("open_work", include_str!("open_work.rs")),
    ("pages", include_str!("pages.rs")),
    ("paused_queues", include_str!("paused_queues.rs")),
    ("payloads", include_str!("payloads.rs")),
    ("queues", include_str!("queues.rs")),
    ("release", include_str!("release.rs")),
    ("revocation", include_str!("revocation.rs")),
    ("replacing", include_str!("replacing.rs")),
    ("starts", include_str!("starts.rs")),
    ("starts_with_message", include_str!("starts_with_message.rs")),
    ("state", include_str!("state.rs")),
    ("stats", include_str!("stats.rs")),
    ("statuses", include_str!("statuses.rs")),
    ("stream_lives", include_str!("stream_lives.rs")),
    ("streams", include_str!("streams.rs")),
    ("suspension", include_str!("suspension.rs")),
    ("suspicion", include_str!("suspicion.rs")),
    ("suspending", include_str!("suspending.rs")),
    ("takeovers", include_str!("takeovers.rs")),
    ("tasks", include_str!("tasks.rs")),
    ("termination", include_str!("termination.rs")),
    ("texts", include_str!("texts.rs")),
    ("turns", include_str!("turns.rs")),
    ("versions", include_str!("versions.rs")),
    ("waking", include_str!("waking.rs")),
    ("workers", include_str!("workers.rs")),
];

/// A check that is missing in the suite would never run, and no test would fail for it.
#[test]
fn every_check_is_in_the_suite() {
    let modules = include_str!("lib.rs");
    let suite = concat!(include_str!("suite.rs"), include_str!("as_kept.rs"));
    assert_eq!(
        MODULES.len(),
        modules.lines().filter(|line| line.starts_with("pub mod ")).count()
    );
    for (module, source) in MODULES {
        // A module has a list in each part of the suite that holds checks of it.
        let listed: Vec<&str> = suite
            .split(&format!("            {module} {{\n"))
            .skip(1)
            .map(|after| after.split_once('}').expect("a module's list ends").0)
            .flat_map(str::lines)
            .map(str::trim)
            .collect();
        let checks = source
            .lines()
            .filter_map(|line| line.strip_prefix("pub async fn ")?.split_once('('))
            // A generic check needs more than a [`Fixture`], so the tests of a single store call it.
            .filter(|(check, _)| !check.contains('<'));
        for (check, _) in checks {
            assert!(
                listed.contains(&format!("{check},").as_str()),
                "{module}::{check} is not in the suite"
            );
        }
    }
}
