//! One run: a seed, and the report of its results.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::time::Instant;

use crate::backend::{Backend, InMemory};
use crate::checker::{self, Record};
use crate::differential::compare;
use crate::log::Log;
use crate::outside::{Outside, Place};
use crate::plan::Plan;
use crate::witness::Figures;
use crate::world::World;

/// The parameters of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// The seed.
    pub seed: u64,
    /// Acts of its plan that are left out, by their place.
    pub without: BTreeSet<usize>,
    /// True if the log can be read. Otherwise there is only its fingerprint.
    pub keeps_log: bool,
    /// Stores that it runs on, one after the other, which must leave the same rows behind. If empty, it runs on a store
    /// in memory, which can be seen in full and tells other processes exactly what has changed.
    pub places: Vec<Place>,
}

/// The results of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Violations of invariants. Empty if all is well.
    pub violations: Vec<String>,
    /// A fingerprint of the log, which is the same for the same run.
    pub fingerprint: u64,
    /// The number of lines of the log.
    pub lines: u64,
    /// The rows that the store keeps in the end: a line for each instance and each event, without the store's own
    /// numbers.
    pub stored: Vec<String>,
    /// The log, if it was kept.
    pub log: Vec<String>,
    /// Acts of the plan, in the order of their times.
    pub acts: Vec<String>,
    /// The programs, if the log was kept.
    pub programs: Vec<String>,
    /// The duration of the run by its own clock, ms.
    pub virtual_ms: u64,
    /// The number of times that each fault happened.
    pub fired: BTreeMap<&'static str, u64>,
    /// The number of instances.
    pub instances: u64,
    /// The figures of the run.
    pub figures: Figures,
}

/// Runs a seed.
///
/// A panic is a violation, too.
#[must_use]
pub fn run(run: &Run) -> Report {
    if run.places.is_empty() {
        return run_on(run, None);
    }
    let on = |place: &Place| (place.clone(), run_on(run, Some(place)));
    compare(run.places.iter().map(on).collect())
}

fn run_on(run: &Run, place: Option<&Place>) -> Report {
    let ran = std::panic::catch_unwind(|| run_planned(run, place));
    ran.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Report {
            violations: vec![format!("panic: {}", text.unwrap_or_default())],
            ..Report::default()
        }
    })
}

fn run_planned(run: &Run, place: Option<&Place>) -> Report {
    let plan = Plan::of(run.seed).without(&run.without);
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without drivers can be made");
    let report = runtime.block_on(async {
        match place {
            None => live(&plan, run.keeps_log, &InMemory::new()).await,
            Some(place) => live(&plan, run.keeps_log, &Outside::new(place, run.places.len() > 1)).await,
        }
    });
    // Dead processes left tasks behind that wait for ever.
    runtime.shutdown_background();
    report
}

async fn live(plan: &Plan, keeps_log: bool, backend: &dyn Backend) -> Report {
    let begin = Instant::now();
    let log = Arc::new(Log::new(keeps_log));
    let mut world = World::new(plan, backend, Arc::clone(&log));
    world.run().await;
    let virtual_ms = begin.elapsed().as_millis() as u64;
    checker::rows(&*backend.connect().provider, &world.witness).await;
    let records = checker::read(&*backend.connect().provider, &world.witness).await;
    checker::check(plan, &world.requests, &world.witness, &records);
    checker::asks(&*backend.connect().provider, &world.requests, &world.witness, &records).await;
    checker::lines(&*backend.connect().provider, &world.witness).await;
    if let Some(snapshot) = backend.snapshot() {
        checker::leftovers(&world.witness, &snapshot, &world.left_in_order);
    }
    Report {
        violations: world.witness.take_violations(),
        fingerprint: log.fingerprint(),
        lines: log.count(),
        stored: records.iter().flat_map(Record::lines).collect(),
        log: log.take_lines(),
        acts: plan
            .acts
            .iter()
            .map(|(at_ms, act)| format!("{at_ms} ms: {act:?}"))
            .collect(),
        programs: plan
            .programs
            .all
            .iter()
            .enumerate()
            .filter(|_| keeps_log)
            .map(|(place, program)| format!("program {place}: {program:?}"))
            .collect(),
        virtual_ms,
        fired: world.faults.fired.lock().clone(),
        instances: records.len() as u64,
        figures: world.witness.figures(),
    }
}

#[cfg(test)]
mod tests {
    use std::any::Any;
    use std::sync::Weak;

    use super::*;

    type Left = (&'static str, Weak<dyn Any + Send + Sync>);

    fn left<T: Any + Send + Sync>(what: &'static str, of: &Arc<T>) -> Left {
        let of: Arc<dyn Any + Send + Sync> = Arc::clone(of) as _;
        (what, Arc::downgrade(&of))
    }

    /// Everything of a run used to be kept for ever, 400 KB for each run.
    #[test]
    fn nothing_is_left_of_a_run() {
        for seed in 0..20 {
            let plan = Plan::of(seed);
            let mut builder = tokio::runtime::Builder::new_current_thread();
            let runtime = builder.enable_time().start_paused(true).build();
            let runtime = runtime.expect("a runtime without drivers can be made");
            let parts: Vec<Left> = runtime.block_on(async {
                let backend = InMemory::new();
                let mut world = World::new(&plan, &backend, Arc::new(Log::new(false)));
                world.run().await;
                let mut parts = vec![left("the witness", &world.witness)];
                for process in &world.processes {
                    parts.push(left("a link", &process.link));
                    parts.push(left("a store", &process.store));
                    parts.push(left("a runtime", &process.runtime));
                }
                parts
            });
            runtime.shutdown_background();
            let left: Vec<&str> = parts
                .iter()
                .filter(|(_, part)| part.strong_count() > 0)
                .map(|(what, _)| *what)
                .collect();
            assert_eq!(left, Vec::<&str>::new(), "seed {seed}");
        }
    }
}
