//! S33: the time limits of instances.

use perdure_engine::{EventKind, EventRecord};

use super::{Checker, Record};
use crate::code::program_of;
use crate::program::Kind;

impl Checker<'_> {
    /// S33: an instance whose time is over is cancelled, and not earlier. The time begins with its first turn, and goes
    /// on over its executions.
    pub(super) fn time_limit(&self, record: &Record) {
        let program = &self.programs()[program_of(&record.status.name)];
        let admission = program
            .terms
            .admission
            .as_ref()
            .filter(|_| program.kind == Kind::Overdue);
        let Some(timeout_ms) = admission.and_then(|admission| admission.timeout_ms) else {
            return;
        };
        let mut events = record.histories.iter().flatten();
        let cancelled = events.find(|event| event.kind == EventKind::CancelRequested);
        // A first turn that comes soon has the time of the start.
        let began = record.histories.first().and_then(|history| {
            let is_late = |event: &&EventRecord| event.kind == EventKind::ExecutionBegan;
            history.get(1).filter(is_late).or_else(|| history.first())
        });
        let (Some(began), Some(cancelled)) = (began, cancelled) else {
            return;
        };
        let passed_ms = cancelled.time_ms - began.time_ms;
        if u64::try_from(passed_ms).unwrap_or(0) < timeout_ms {
            let id = &record.status.id;
            self.wrong(format!(
                "S33: {id} was cancelled after {passed_ms} ms, and its time is {timeout_ms} ms"
            ));
        }
    }
}
