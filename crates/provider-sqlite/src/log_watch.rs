//! A watch over the write-ahead log. On Linux the system tells of a write to it, so that an idle writer thread learns
//! of a commit of another process at once. Elsewhere, and where the system refuses, the writer looks at intervals.
//!
//! The watch tells of one write and is then over, until it is set again. The writer sets it when it has been idle for a
//! while, so that its own commits cause no events as long as they follow each other.

use std::path::PathBuf;
use std::sync::Arc;

use crate::writer::Shared;

#[cfg(target_os = "linux")]
pub(crate) use linux::LogWatch;

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread::JoinHandle;

    use inotify::{EventMask, Inotify, WatchMask, Watches};

    use super::{Arc, PathBuf, Shared};
    use crate::threads::spawn;

    /// Bytes that hold some events.
    const EVENTS_BYTES: usize = 1_024;

    /// A folder that always exists.
    const ANY_FOLDER: &str = "/";

    /// The watch over one log.
    pub(crate) struct LogWatch {
        watches: Watches,
        log: PathBuf,
        is_over: Arc<AtomicBool>,
        /// Nudges the writer when the log is written.
        thread: Option<JoinHandle<()>>,
    }

    impl LogWatch {
        /// Prepares the watch. `None`: the system has no more of them.
        pub(crate) fn new(log: PathBuf, shared: &Arc<Shared>) -> Option<Self> {
            let inotify = Inotify::init().ok()?;
            let watches = inotify.watches();
            let is_over = Arc::new(AtomicBool::new(false));
            let body = {
                let (shared, is_over) = (Arc::clone(shared), Arc::clone(&is_over));
                move || wait(inotify, &shared, &is_over)
            };
            Some(Self {
                watches,
                log,
                is_over,
                thread: Some(spawn("log", body).ok()?),
            })
        }

        /// Nudges the writer at the next write to the log. A log that does not exist yet is not watched.
        pub(crate) fn set(&mut self) {
            let _ = self.watches.add(&self.log, WatchMask::MODIFY | WatchMask::ONESHOT);
        }

        /// Makes an event, which the thread waits for.
        fn wake(&mut self) -> io::Result<()> {
            let watch = self.watches.add(ANY_FOLDER, WatchMask::DELETE_SELF)?;
            self.watches.remove(watch)
        }
    }

    impl Drop for LogWatch {
        fn drop(&mut self) {
            self.is_over.store(true, Ordering::Release);
            if self.wake().is_ok()
                && let Some(thread) = self.thread.take()
            {
                let _ = thread.join();
            }
        }
    }

    fn wait(mut inotify: Inotify, shared: &Shared, is_over: &AtomicBool) {
        let mut buffer = [0; EVENTS_BYTES];
        while let Ok(mut events) = inotify.read_events_blocking(&mut buffer) {
            if is_over.load(Ordering::Acquire) {
                return;
            }
            if events.any(|event| event.mask.contains(EventMask::MODIFY)) {
                shared.queue.nudge();
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use std::fs;
        use std::sync::atomic::AtomicU64;
        use std::time::Duration;

        use perdure_provider::SystemClock;

        use super::*;
        use crate::listeners::Listeners;
        use crate::queue::{Queue, Received};
        use crate::testing::Directory;

        /// Only a failure waits for as long.
        const LONG: Option<Duration> = Some(Duration::from_secs(10));

        fn shared() -> Arc<Shared> {
            Arc::new(Shared {
                queue: Queue::new(),
                listeners: Listeners::default(),
                clock: Arc::new(SystemClock),
                location: String::new(),
                file: None,
                transactions: AtomicU64::new(0),
                jobs: AtomicU64::new(0),
            })
        }

        #[test]
        fn the_writer_is_nudged_once_for_each_time_that_the_watch_is_set() {
            let directory = Directory::new();
            let log = directory.join("store.db-wal");
            let shared = shared();
            let mut watch = LogWatch::new(log.clone(), &shared).expect("the system watches files");
            // There is nothing to watch yet.
            watch.set();
            fs::write(&log, "created").expect("the log is written");
            for text in ["one", "two"] {
                watch.set();
                fs::write(&log, text).expect("the log is written");
                assert!(matches!(shared.queue.take(LONG, |_| true), Received::Nudged));
                // Nothing tells of this one.
                fs::write(&log, "more").expect("the log is written");
            }
            drop(watch);
            assert!(matches!(
                shared.queue.take(Some(Duration::ZERO), |_| true),
                Received::Idle
            ));
        }
    }
}

/// No watch.
#[cfg(not(target_os = "linux"))]
pub(crate) enum LogWatch {}

#[cfg(not(target_os = "linux"))]
impl LogWatch {
    pub(crate) fn new(_log: PathBuf, _shared: &Arc<Shared>) -> Option<Self> {
        None
    }

    pub(crate) fn set(&mut self) {
        match *self {}
    }
}
