//! The totals of all runs.

use std::collections::BTreeMap;
use std::ops::Range;

use perdure_simulator::{Figures, Report};

/// The totals of all runs so far.
#[derive(Default)]
pub(crate) struct Totals {
    fired: BTreeMap<&'static str, u64>,
    virtual_ms: u64,
    instances: u64,
    figures: Figures,
    pub(crate) failed: Vec<u64>,
}

impl Totals {
    pub(crate) fn add(&mut self, seed: u64, report: &Report) {
        for (fault, times) in &report.fired {
            *self.fired.entry(fault).or_default() += times;
        }
        self.virtual_ms += report.virtual_ms;
        self.instances += report.instances;
        self.figures += report.figures;
        if !report.violations.is_empty() {
            self.failed.push(seed);
        }
    }

    /// Prints the totals of these seeds, which took `seconds`.
    pub(crate) fn print(&self, seeds: &Range<u64>, seconds: f64) {
        let hours = self.virtual_ms as f64 / 3_600_000.0;
        let Range { start, end } = seeds;
        let seeds = end - start;
        println!(
            "{seeds} seeds ({start}..{end}) in {seconds:.1} s, {:.1} seeds a second, {hours:.1} simulated hours",
            seeds as f64 / seconds
        );
        let instances = self.instances;
        let Figures {
            turns,
            events,
            wakes,
            attempts,
            repeated,
            stale,
            unaware,
            cleanups,
            flat,
            admitted,
            admitted_at_once,
            waited,
            delayed,
            pauses,
        } = self.figures;
        println!(
            "{instances} instances, {turns} turns ({wakes} wakes), {events} events, {attempts} attempts ({repeated} \
             again, {unaware} unaware), {stale} stale writes rejected"
        );
        println!("{cleanups} blocks cleaned up, {flat} executions with the flat rules of an old edition");
        println!(
            "{admitted} instances got a slot of a queue, {admitted_at_once} of them with their start, {waited} waited \
             for it; {delayed} were delayed; queues were paused {pauses} times"
        );
        for (fault, times) in &self.fired {
            println!("{times:>9} x {fault}");
        }
        println!(
            "{} passed, {} failed",
            seeds - self.failed.len() as u64,
            self.failed.len()
        );
    }
}
