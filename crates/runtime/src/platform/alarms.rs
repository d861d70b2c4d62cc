//! Alarms: awaited timers of instances that stay in memory, retries, and other things to do at a time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use perdure_provider::Clock;
use tokio::sync::Notify;

/// Things to do, each at its time, earliest first.
pub(crate) struct Alarms<T> {
    clock: Arc<dyn Clock>,
    state: Mutex<State<T>>,
    earlier: Notify,
}

struct State<T> {
    next: u64,
    at: BTreeMap<AlarmId, T>,
}

/// The name of an alarm: its time, ms since 1970, and a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AlarmId {
    pub(crate) at_ms: i64,
    number: u64,
}

impl<T> Alarms<T> {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            state: Mutex::new(State {
                next: 0,
                at: BTreeMap::new(),
            }),
            earlier: Notify::new(),
        }
    }

    pub(crate) fn set(&self, at_ms: i64, what: T) -> AlarmId {
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        let id = AlarmId { at_ms, number };
        state.at.insert(id, what);
        let is_first = state.at.first_key_value().is_some_and(|(first, _)| *first == id);
        drop(state);
        if is_first {
            self.earlier.notify_one();
        }
        id
    }

    /// Cancels an alarm. Its reason is over, and it must not be kept in memory until its time comes.
    pub(crate) fn cancel(&self, id: AlarmId) {
        self.state.lock().at.remove(&id);
    }

    /// Returns the time at which the next alarm is due, ms since 1970.
    pub(crate) fn next_ms(&self) -> Option<i64> {
        self.state.lock().at.first_key_value().map(|(id, _)| id.at_ms)
    }

    pub(crate) fn len(&self) -> usize {
        self.state.lock().at.len()
    }

    /// Waits for the next alarm that is due. It never returns early, however coarse the timer below is.
    pub(crate) async fn next(&self) -> (AlarmId, T) {
        loop {
            let first = {
                let mut state = self.state.lock();
                match state.at.first_entry() {
                    Some(entry) if entry.key().at_ms <= self.clock.now_ms() => return entry.remove_entry(),
                    Some(entry) => Some(entry.key().at_ms),
                    None => None,
                }
            };
            match first {
                None => self.earlier.notified().await,
                Some(at_ms) => {
                    let wait = Duration::from_millis(
                        u64::try_from(at_ms.saturating_sub(self.clock.now_ms()))
                            .unwrap_or(0)
                            .max(1),
                    );
                    tokio::select! {
                        biased;
                        () = self.earlier.notified() => {}
                        () = crate::platform::time::sleep(wait) => {}
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use perdure_provider::ManualClock;

    use super::*;

    #[tokio::test]
    async fn due_alarms_come_in_order_and_an_earlier_one_overtakes() {
        let clock = Arc::new(ManualClock::new(100));
        let alarms = Arc::new(Alarms::new(clock.clone() as Arc<dyn Clock>));
        alarms.set(3_600_100, "later");
        let waiting = {
            let alarms = Arc::clone(&alarms);
            tokio::spawn(async move { alarms.next().await })
        };
        tokio::task::yield_now().await;
        alarms.set(100, "now");
        assert_eq!(waiting.await.expect("the task ends").1, "now");
        clock.advance(3_600_000);
        assert_eq!(alarms.next().await.1, "later");
    }

    #[tokio::test]
    async fn a_cancelled_alarm_does_not_come_and_is_not_kept() {
        let clock = Arc::new(ManualClock::new(100));
        let alarms = Alarms::new(clock.clone() as Arc<dyn Clock>);
        let first = alarms.set(200, "first");
        let second = alarms.set(200, "second");
        alarms.cancel(first);
        clock.advance(1_000);
        assert_eq!(alarms.next().await, (second, "second"));
        assert_eq!(alarms.len(), 0);
        alarms.cancel(second);
    }
}
