//! When the notifications of a process are sent: a change after a pause at once, and those of a busy process together.

use std::time::Duration;

use tokio::time::Instant;

use crate::options::{NOTIFY_EVERY, NOTIFY_HEARD_MAX, NOTIFY_PAUSE, NOTIFY_ROW_MAX};

/// Decides how long a change waits for its notification. A notification costs its sender a commit, and each process
/// that listens a look. So a busy process sends one every [`NOTIFY_EVERY`], for all of its changes since the last one.
/// A process that makes a change now and then sends each at once, unless the others together send so many that each
/// listener is busy with them.
#[derive(Default)]
pub(crate) struct NotifyPace {
    last_change: Option<Instant>,
    last_sent: Option<Instant>,
    /// Number of the last changes that followed each other without a pause.
    in_row: u32,
    /// The notifications of others, and when they were begun to be counted.
    heard: Option<(Instant, u32)>,
}

impl NotifyPace {
    /// Notes a change of this process.
    pub(crate) fn changed(&mut self, now: Instant) {
        let last = self.last_change.replace(now);
        let follows = last.is_some_and(|last| now.duration_since(last) < NOTIFY_PAUSE);
        self.in_row = if follows { self.in_row.saturating_add(1) } else { 1 };
    }

    /// Notes that the notification of another process was heard.
    pub(crate) fn heard(&mut self, now: Instant) {
        match &mut self.heard {
            Some((since, count)) if now.duration_since(*since) < NOTIFY_EVERY => *count += 1,
            heard => *heard = Some((now, 1)),
        }
    }

    /// Returns how long the changes that are not sent yet wait.
    pub(crate) fn wait(&self, now: Instant) -> Duration {
        let Some(sent) = self.last_sent else {
            return Duration::ZERO;
        };
        if self.in_row > NOTIFY_ROW_MAX || self.hears_many(now) {
            NOTIFY_EVERY.saturating_sub(now.duration_since(sent))
        } else {
            Duration::ZERO
        }
    }

    /// Notes that a notification was sent.
    pub(crate) fn sent(&mut self, now: Instant) {
        self.last_sent = Some(now);
    }

    fn hears_many(&self, now: Instant) -> bool {
        self.heard
            .is_some_and(|(since, count)| count > NOTIFY_HEARD_MAX && now.duration_since(since) < 2 * NOTIFY_EVERY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Sends each change after the wait that the pace asks for. Returns the time between two sends, for many changes of
    /// which one comes each `every`.
    fn mean_time(pace: &mut NotifyPace, every: Duration) -> Duration {
        let begin = Instant::now();
        let (mut sent, mut due) = (0, None);
        for n in 0..10_000 {
            let now = begin + every * n;
            if due.is_some_and(|due| due <= now) {
                pace.sent(now);
                (sent, due) = (sent + 1, None);
            }
            pace.changed(now);
            due = due.or(Some(now + pace.wait(now)));
        }
        every * 10_000 / sent
    }

    #[test]
    fn changes_with_pauses_are_sent_at_once() {
        let (mut pace, begin) = (NotifyPace::default(), Instant::now());
        for n in 0..100 {
            let now = begin + 3 * MS * n;
            pace.changed(now);
            assert_eq!(pace.wait(now), Duration::ZERO);
            pace.sent(now);
        }
    }

    #[test]
    fn the_changes_of_a_busy_process_share_notifications() {
        for every in [MS / 10, MS / 2, MS * 9 / 10] {
            let time = mean_time(&mut NotifyPace::default(), every);
            assert!(
                NOTIFY_EVERY - MS <= time && time <= NOTIFY_EVERY + 2 * MS,
                "{time:?} for one each {every:?}"
            );
        }
    }

    #[test]
    fn a_pause_ends_the_row() {
        let (mut pace, begin) = (NotifyPace::default(), Instant::now());
        for n in 0..20 {
            pace.changed(begin + MS / 10 * n);
        }
        pace.sent(begin + 2 * MS);
        assert_eq!(pace.wait(begin + 3 * MS), NOTIFY_EVERY - MS);
        pace.changed(begin + 5 * MS);
        assert_eq!(pace.wait(begin + 5 * MS), Duration::ZERO);
    }

    #[test]
    fn many_notifications_of_others_slow_down_the_own_ones() {
        let (mut pace, begin) = (NotifyPace::default(), Instant::now());
        pace.changed(begin);
        pace.sent(begin);
        let now = begin + 5 * MS;
        pace.changed(now);
        for _ in 0..NOTIFY_HEARD_MAX {
            pace.heard(now);
        }
        assert_eq!(pace.wait(now), Duration::ZERO);
        pace.heard(now);
        assert_eq!(pace.wait(now), NOTIFY_EVERY - 5 * MS);
        assert_eq!(pace.wait(now + 5 * MS), Duration::ZERO);
    }
}
