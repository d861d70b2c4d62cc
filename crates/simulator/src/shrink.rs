//! Makes a failing plan smaller.

use std::collections::BTreeSet;

use crate::plan::Plan;
use crate::run::{Run, run};

/// Returns acts of a failing run's plan without which it fails in the same way. They are found by leaving out halves,
/// quarters and so on.
#[must_use]
pub fn shrink(failing: &Run) -> BTreeSet<usize> {
    let quiet = Run {
        keeps_log: false,
        ..failing.clone()
    };
    let report = run(&quiet);
    let Some(kind) = report.violations.first().map(|first| kind_of(first)) else {
        return failing.without.clone();
    };
    let fails = |without: &BTreeSet<usize>| {
        let report = run(&Run {
            without: without.clone(),
            ..quiet.clone()
        });
        report.violations.iter().any(|violation| kind_of(violation) == kind)
    };
    let parts = Plan::of(failing.seed).parts();
    let mut without = failing.without.clone();
    let mut size = parts.len().div_ceil(2);
    while size > 0 {
        for some in parts.chunks(size) {
            let mut fewer = without.clone();
            fewer.extend(some.iter().flatten());
            if fewer.len() > without.len() && fails(&fewer) {
                without = fewer;
            }
        }
        size /= 2;
    }
    without
}

/// The invariant that a violation names.
fn kind_of(violation: &str) -> String {
    violation.split(':').next().unwrap_or_default().to_owned()
}
