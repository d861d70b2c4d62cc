//! The work that an execution waits for, as text for people. It is stored with each turn, and nothing else reads it.
//!
//! The most frequent wait has no text: a single fiber waits for one operation, whose schedule is the last event, and no
//! attempt of it has failed. The history tells as much, and the text made a step 5 % slower.

use std::fmt::Write as _;

use crate::EventId;

/// Most open operations that the text names.
pub const OPEN_WORK_MAX: usize = 64;

/// An operation that has not settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenOperation {
    /// Its schedule.
    pub(crate) scheduled: EventId,
    /// The last failed attempt, if it is an activity of which one has failed.
    pub(crate) failed: Option<FailedBefore>,
}

/// The last failed attempt of an open activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FailedBefore {
    /// The event that recorded the failure.
    pub(crate) event: EventId,
    /// Number of the attempt that follows, from 2.
    pub(crate) attempt: u32,
    /// Earliest start of the attempt that follows, ms since 1970.
    pub(crate) not_before_ms: i64,
}

/// Returns the text of the first of `count` open operations, in order, and of what the fibers wait for, which is JSON
/// of the driver. `last` is the last event of the history. `None`: nothing is open, or only the operation that `last`
/// schedules.
///
/// `{"open":[5,9],"count":2,"failed":[[5,12,2,1700000000000]],"fibers":…}`: the schedules; the number of all open
/// operations; for each activity that failed before, its schedule, the event of its last failure, the number of its
/// next attempt and the earliest start of that attempt.
pub(crate) fn text(
    open: impl Iterator<Item = OpenOperation>,
    count: usize,
    fibers: Option<&str>,
    last: Option<EventId>,
) -> Option<String> {
    if count == 0 && fibers.is_none() {
        return None;
    }
    let open: Vec<OpenOperation> = open.take(OPEN_WORK_MAX).collect();
    if let ([only], 1, None) = (&*open, count, fibers)
        && only.failed.is_none()
        && Some(only.scheduled) == last
    {
        return None;
    }
    let schedules: Vec<String> = open.iter().map(|operation| operation.scheduled.0.to_string()).collect();
    let mut text = format!(r#"{{"open":[{}],"count":{count}"#, schedules.join(","));
    let failed: Vec<String> = open.iter().filter_map(failed_before).collect();
    if !failed.is_empty() {
        let _ = write!(text, r#","failed":[{}]"#, failed.join(","));
    }
    if let Some(fibers) = fibers {
        let _ = write!(text, r#","fibers":{fibers}"#);
    }
    text.push('}');
    Some(text)
}

fn failed_before(operation: &OpenOperation) -> Option<String> {
    let FailedBefore {
        event,
        attempt,
        not_before_ms,
    } = operation.failed?;
    Some(format!(
        "[{},{},{attempt},{not_before_ms}]",
        operation.scheduled.0, event.0
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(scheduled: u64) -> OpenOperation {
        OpenOperation {
            scheduled: EventId(scheduled),
            failed: None,
        }
    }

    #[test]
    fn nothing_open_has_no_text() {
        assert_eq!(text(std::iter::empty(), 0, None, None), None);
    }

    #[test]
    fn one_operation_has_a_text_unless_the_history_ends_with_its_schedule() {
        let one = |last| text([plain(5)].into_iter(), 1, None, last);
        let written = Some(r#"{"open":[5],"count":1}"#.to_owned());
        assert_eq!(
            (one(Some(EventId(5))), one(Some(EventId(6))), one(None)),
            (None, written.clone(), written)
        );
    }

    #[test]
    fn the_text_names_operations_failures_and_fibers() {
        let failed = OpenOperation {
            failed: Some(FailedBefore {
                event: EventId(12),
                attempt: 2,
                not_before_ms: 1_000,
            }),
            ..plain(5)
        };
        assert_eq!(
            text(
                [failed, plain(9)].into_iter(),
                2,
                Some(r#"[[0,"main",[["event","go"]]]]"#),
                Some(EventId(9))
            )
            .as_deref(),
            Some(r#"{"open":[5,9],"count":2,"failed":[[5,12,2,1000]],"fibers":[[0,"main",[["event","go"]]]]}"#)
        );
    }

    #[test]
    fn the_text_is_bounded_and_counts_the_rest() {
        let text = text((1..=1_000).map(plain), 1_000, None, None).expect("there is open work");
        assert!(text.ends_with(r#",63,64],"count":1000}"#), "{text}");
    }
}
