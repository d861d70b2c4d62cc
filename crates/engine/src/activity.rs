//! Retries of an activity: their number and their delays.
//!
//! | attempt | the error forbids a retry, or no attempt is left | the delay ends after the total timeout | otherwise |
//! |---|---|---|---|
//! | succeeds | `ActivityCompleted` | `ActivityCompleted` | `ActivityCompleted` |
//! | fails | `ActivityFailed` | `ActivityFailed` | `ActivityAttemptFailed`, and the next attempt after the delay |
//!
//! `engine/live.rs` applies this table; `operations.rs` says when an attempt is dispatched.

use serde::{Deserialize, Deserializer, Serialize};

use crate::backoff::Backoff;
use crate::random::mix;
use crate::{Bug, EventId, TraceContext, is_planted};

/// Options of one scheduled activity, as recorded with its schedule. The driver has already merged the options of the
/// registration and of the call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ActivityOptions {
    /// Policy for attempts after a failed one.
    pub retry: RetryPolicy,
    /// Maximum duration of one attempt, ms. `None`: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Maximum duration of all attempts and the waits between them, ms. `None`: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_timeout_ms: Option<u64>,
    /// Maximum time for which an attempt waits to begin, from when it is due, ms. `None`: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_to_start_timeout_ms: Option<u64>,
    /// Maximum time without a heartbeat in an attempt, ms. `None`: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat_timeout_ms: Option<u64>,
    /// Queue of the activity: only workers that serve this queue run it. `None`: `default`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Session of the activity: all activities of one session in a queue run on one worker. `None`: on any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Key of the attempts in the limits of the queue. `None`: they have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Priority. Where attempts wait, higher priorities go first.
    #[serde(skip_serializing_if = "is_zero")]
    pub priority: i32,
    /// True if the function is a closure of the orchestration: it runs only where the orchestration is in memory.
    #[serde(skip_serializing_if = "is_false")]
    pub inline: bool,
    /// Trace context of the schedule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: TraceContext,
    /// Fiber that scheduled the activity, for readers of a history ([`crate::EventRecord::set_fiber`]). A replay does
    /// not look at it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fiber: Option<u32>,
}

/// Queue of activities that name no queue.
pub const DEFAULT_QUEUE: &str = "default";

impl ActivityOptions {
    /// The queue in which the activity waits.
    #[must_use]
    pub fn queue(&self) -> &str {
        self.queue.as_deref().unwrap_or(DEFAULT_QUEUE)
    }

    /// The key of the attempts in the limits of their queue; empty: they have none. `None`: the queue is the default
    /// one, which limits no attempt.
    #[must_use]
    pub fn key_in_queue(&self) -> Option<&str> {
        (self.queue() != DEFAULT_QUEUE).then(|| self.key.as_deref().unwrap_or_default())
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
pub(crate) const fn is_zero(number: &i32) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// JSON has neither infinity nor NaN: both are written as `null` and read as infinity, with which the arithmetic can
/// cope.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RetryPolicy {
    /// Maximum number of attempts; 1 means no retry.
    pub max_attempts: u32,
    /// Delay before the second attempt, ms.
    #[serde(deserialize_with = "null_as_infinity")]
    pub initial_interval_ms: f64,
    /// Growth from one delay to the next.
    pub backoff: Backoff,
    /// Largest delay, ms.
    #[serde(deserialize_with = "null_as_infinity")]
    pub max_interval_ms: f64,
    /// Share of the delay by which it is spread, 0 to 1.
    #[serde(deserialize_with = "null_as_infinity")]
    pub jitter: f64,
    /// Names and codes of errors that are never retried.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub non_retryable: Vec<String>,
    /// Names and codes of the only errors that are retried. Empty: all errors are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub retry_on: Vec<String>,
}

fn null_as_infinity<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::INFINITY))
}

/// The defaults are a part of the format of histories: a value that equals the default is left out there.
impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            initial_interval_ms: 200.0,
            backoff: Backoff::Factor(2.0),
            max_interval_ms: 60_000.0,
            jitter: 0.2,
            non_retryable: Vec::new(),
            retry_on: Vec::new(),
        }
    }
}

/// Longest delay that is ever computed, ms: a year. It keeps the arithmetic far from overflow.
const DELAY_MAX_MS: f64 = 365.0 * 24.0 * 3_600_000.0;

impl RetryPolicy {
    /// True if an error with this name and these codes may be retried. `non_retryable` takes precedence over
    /// `retry_on`.
    pub(crate) fn retries(&self, error_name: &str, error_codes: &[String]) -> bool {
        let lists = |list: &[String]| {
            list.iter()
                .any(|item| item == error_name || error_codes.iter().any(|code| item == code))
        };
        !lists(&self.non_retryable) && (self.retry_on.is_empty() || lists(&self.retry_on))
    }

    /// Returns the delay in ms before the attempt that follows failed attempt number `attempt` (from 1), or `None` if
    /// that was the last attempt.
    ///
    /// The jitter is a function of `seed`, the schedule and the attempt, so that the same history gives the same delay.
    pub(crate) fn delay_after(&self, attempt: u32, seed: u64, scheduled: EventId) -> Option<i64> {
        if attempt >= self.max_attempts || is_planted(Bug::NoSecondAttempt) {
            return None;
        }
        let plain = self
            .backoff
            .delay_ms(self.initial_interval_ms, attempt)
            .min(self.max_interval_ms);
        let spread = 1.0 + self.jitter.clamp(0.0, 1.0) * (2.0 * unit_interval(seed, scheduled.0, attempt) - 1.0);
        let delay = (plain * spread).clamp(0.0, DELAY_MAX_MS);
        // A NaN from absurd options (0 × infinity) must not become an arbitrary integer.
        Some(if delay.is_nan() { 0 } else { delay.round() as i64 })
    }
}

/// Returns a number in 0..1 that looks random over its arguments.
fn unit_interval(seed: u64, scheduled: u64, attempt: u32) -> f64 {
    let z = mix(seed
        .wrapping_add(scheduled.wrapping_mul(0x9E37_79B9_7F4A_7C15))
        .wrapping_add(u64::from(attempt) << 48));
    (z >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays(policy: &RetryPolicy, attempts: u32) -> Vec<Option<i64>> {
        (1..=attempts).map(|n| policy.delay_after(n, 7, EventId(2))).collect()
    }

    #[test]
    fn delays_grow_to_the_maximum_and_end() {
        let policy = RetryPolicy {
            max_attempts: 6,
            max_interval_ms: 1_000.0,
            jitter: 0.0,
            ..RetryPolicy::default()
        };
        assert_eq!(
            delays(&policy, 6),
            [Some(200), Some(400), Some(800), Some(1_000), Some(1_000), None]
        );
    }

    #[test]
    fn linear_delays_grow_to_the_maximum_and_end() {
        let policy = RetryPolicy {
            max_attempts: 6,
            backoff: Backoff::Linear,
            max_interval_ms: 700.0,
            jitter: 0.0,
            ..RetryPolicy::default()
        };
        assert_eq!(
            delays(&policy, 6),
            [Some(200), Some(400), Some(600), Some(700), Some(700), None]
        );
    }

    #[test]
    fn one_attempt_is_never_repeated() {
        let policy = RetryPolicy {
            max_attempts: 1,
            ..RetryPolicy::default()
        };
        assert_eq!(delays(&policy, 1), [None]);
    }

    #[test]
    fn jitter_stays_within_its_share_and_repeats() {
        let policy = RetryPolicy {
            max_attempts: 200,
            backoff: Backoff::Factor(1.0),
            ..RetryPolicy::default()
        };
        let first = delays(&policy, 199);
        assert_eq!(first, delays(&policy, 199));
        assert!(
            first
                .iter()
                .all(|d| (160..=240).contains(&d.expect("not the last attempt")))
        );
        assert!(first.windows(2).any(|w| w[0] != w[1]));
    }

    #[test]
    fn absurd_options_give_a_delay() {
        let policy = RetryPolicy {
            max_attempts: u32::MAX,
            initial_interval_ms: f64::INFINITY,
            backoff: Backoff::Factor(0.0),
            max_interval_ms: f64::INFINITY,
            jitter: 1.0,
            non_retryable: Vec::new(),
            retry_on: Vec::new(),
        };
        for attempt in [1, 2, 1_000_000] {
            let delay = policy.delay_after(attempt, 0, EventId(2)).expect("attempts are left");
            assert!((0..=DELAY_MAX_MS as i64).contains(&delay));
        }
    }

    #[test]
    fn errors_are_retried_by_name_or_code() {
        let texts = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let policy = |non_retryable: &[&str], retry_on: &[&str]| RetryPolicy {
            non_retryable: texts(non_retryable),
            retry_on: texts(retry_on),
            ..RetryPolicy::default()
        };
        let reset = texts(&["ECONNRESET", "11000"]);
        for (policy, is_retried) in [
            (policy(&[], &[]), true),
            (policy(&["TypeError"], &[]), false),
            (policy(&["11000"], &[]), false),
            (policy(&["RangeError", "ENOENT"], &[]), true),
            (policy(&[], &["ECONNRESET"]), true),
            (policy(&[], &["TypeError"]), true),
            (policy(&[], &["RangeError", "ENOENT"]), false),
            (policy(&["TypeError"], &["ECONNRESET"]), false),
        ] {
            assert_eq!(policy.retries("TypeError", &reset), is_retried, "{policy:?}");
        }
    }

    #[test]
    fn numbers_are_read_as_they_were_written() {
        let policy = RetryPolicy {
            jitter: 9.848390628697012e-272,
            backoff: Backoff::Factor(1.7976931348623157e308),
            ..RetryPolicy::default()
        };
        let text = serde_json::to_string(&policy).expect("it is JSON");
        let read: RetryPolicy = serde_json::from_str(&text).expect("it was just written");
        assert_eq!(read, policy);
    }
}
