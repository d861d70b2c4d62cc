//! Panics. A panic in the middle of one instance's work is a problem of that instance alone. The instance is suspended
//! with the reason, like one whose rows cannot be read, and the task that serves all instances goes on. A panic in
//! anything else ends the session, and another worker goes on from what is stored. Otherwise a worker that still renews
//! its lease, but has lost the task that acquires or reads its inbox, would hold its instances for nothing.

use std::any::Any;
use std::fmt::Display;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// Returns the result of some work, or the reason why there is none. The data that the work changed must not be used
/// after a panic.
pub(crate) fn caught<T, E: Display>(work: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result.map_err(|problem| problem.to_string()),
        Err(panic) => Err(format!("Perdure failed while it was loaded: {}", message(&*panic))),
    }
}

/// Does some work whose panic must not reach the caller. Returns the reason if it has panicked.
pub(crate) fn contained(work: impl FnOnce()) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| message(&*panic).to_owned())
}

/// Runs a task to its end. Returns the reason if it has panicked.
pub(crate) async fn guarded(work: impl Future<Output = ()>) -> Result<(), String> {
    let mut work = pin!(work);
    poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)));
        polled.map_or_else(
            |panic| Poll::Ready(Err(message(&*panic).to_owned())),
            |poll| poll.map(Ok),
        )
    })
    .await
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let literal = panic.downcast_ref::<&str>().copied();
    literal
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no reason was given")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_problem_with_its_reason() {
        assert_eq!(caught(|| Ok::<_, String>(1)), Ok(1));
        assert_eq!(caught(|| Err::<(), _>("damaged")), Err("damaged".to_owned()));
        let problem = caught(|| -> Result<(), String> { panic!("event {} is odd", 7) });
        assert!(problem.is_err_and(|problem| problem.ends_with("event 7 is odd")));
    }
}
