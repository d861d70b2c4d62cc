//! S26: the same seed leaves the same rows behind on every store.

use crate::outside::Place;
use crate::run::Report;

/// Merges the reports of runs of the same seed on several stores. The result is the first report, with the violations
/// of all stores and the differences of the others.
///
/// All that a store keeps of instances and of their executions is compared: each event with its time and payload, and
/// each status.
pub(crate) fn compare(reports: Vec<(Place, Report)>) -> Report {
    let mut reports = reports.into_iter();
    let (place, mut all) = reports.next().expect("there is a store to run on");
    all.violations = on(&place, &all.violations);
    for (place, mut report) in reports {
        all.violations.extend(on(&place, &report.violations));
        all.violations.extend(difference(&all.stored, &place, &report.stored));
        all.log.push(format!("---- {place} ----"));
        all.log.append(&mut report.log);
    }
    all
}

fn on(place: &Place, violations: &[String]) -> Vec<String> {
    let name = |violation| format!("{violation} (on {place})");
    violations.iter().map(name).collect()
}

fn difference(expected: &[String], place: &Place, found: &[String]) -> Option<String> {
    let lines = expected.len().max(found.len());
    let at = (0..lines).find(|line| expected.get(*line) != found.get(*line))?;
    let line = |lines: &[String]| lines.get(at).cloned().unwrap_or_else(|| "nothing".to_owned());
    let (expected, found) = (line(expected), line(found));
    Some(format!("S26: stored on {place} is\n    {found}\n  not\n    {expected}"))
}
