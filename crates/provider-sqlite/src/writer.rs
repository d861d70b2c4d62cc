//! The writer thread: all jobs that wait become one transaction (a group commit), and are answered when it is durable.
//!
//! - No delay is added: the jobs that arrive while one transaction is written form the next one.
//! - Answers are given in order, on this thread, with no lock held and no transaction open, so that an answer may hand
//!   over the next batch.
//! - A failing job does not fail the others: its transaction is rolled back and its jobs run again one by one. This
//!   keeps savepoints out of every transaction that does not fail.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use perdure_provider::{Clock, ProviderError, ProviderErrorKind};
use rusqlite::Connection;

use crate::connection::{BusyLimit, WriterConnection, log_of};
use crate::error::Failure;
use crate::job::Job;
use crate::listeners::Listeners;
use crate::log_watch::LogWatch;
use crate::options::{
    CHECKPOINT_TRIES_MAX, COMMIT_EXPECTED_FIRST, COMMIT_EXPECTED_TRIES, FOREIGN_CHANGE_EVERY, TRANSACTION_JOBS_MAX,
    TRANSACTION_WRITES_MAX, WAL_BYTES_MAX, WAL_CHECK_EVERY, WATCH_AFTER,
};
use crate::queue::{Queue, Received};
use crate::readers::Readers;
use crate::session::Session;

/// The state that the writer thread shares with its provider.
pub(crate) struct Shared {
    pub(crate) queue: Queue<Box<dyn Job>>,
    pub(crate) listeners: Listeners,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) location: String,
    /// `None` if the store is in memory.
    pub(crate) file: Option<PathBuf>,
    pub(crate) transactions: AtomicU64,
    pub(crate) jobs: AtomicU64,
}

/// Runs the writer thread. It ends when the queue is closed and empty; the readers end with it.
pub(crate) fn run(writer: WriterConnection, shared: &Arc<Shared>, readers: Option<Arc<Readers>>) {
    let WriterConnection {
        connection,
        busy_limit,
        data_version,
    } = writer;
    match Session::new(&connection, data_version) {
        Ok(session) => Writer {
            session,
            connection: &connection,
            busy_limit,
            shared,
            log: Log::of(shared),
            log_watch: shared
                .file
                .as_ref()
                .and_then(|file| LogWatch::new(log_of(file), shared)),
        }
        .serve(),
        Err(failure) => refuse_all(shared, &failure.named(&shared.location)),
    }
    if let Some(readers) = readers {
        readers.close();
    }
    if shared.file.is_some() {
        // The checkpoint is useful but not needed: another process may use the log, and SQLite reads it at the next
        // open.
        let _ = connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)");
    }
    let _ = connection.close();
}

/// Refuses all jobs. A writer without its statements can only report the error.
fn refuse_all(shared: &Shared, error: &ProviderError) {
    while let Received::Items(jobs) = shared.queue.take(None, |_| true) {
        for job in jobs {
            answer(job, Err(error.clone()));
        }
    }
}

/// Answers a job. A panic in a caller's code must not end the thread that all others depend on.
fn answer(job: Box<dyn Job>, result: Result<(), ProviderError>) {
    let _ = catch_unwind(AssertUnwindSafe(|| job.answer(result)));
}

struct Writer<'c> {
    session: Session<'c>,
    connection: &'c Connection,
    busy_limit: BusyLimit,
    shared: &'c Shared,
    log: Option<Log>,
    /// `None` if the store is in memory, or the system watches no files.
    log_watch: Option<LogWatch>,
}

/// The next event that an idle writer expects.
///
/// | from | on | to |
/// |---|---|---|
/// | any | own jobs | `Own` |
/// | `Own` | idle for [`WATCH_AFTER`] | the watch is set, then `Commit`: one may have written to the log already |
/// | `Watching` | idle for [`FOREIGN_CHANGE_EVERY`] | the watch is set, then `Watching` |
/// | `Watching`, `Commit` | a write to the log | `Commit`, from the first look |
/// | `Commit` | looked, and there is a commit | `Own` |
/// | `Commit` | looked in vain [`COMMIT_EXPECTED_TRIES`] times | `Watching` |
#[derive(Clone, Copy)]
enum Expected {
    /// More jobs: each looks for foreign commits itself.
    Own,
    /// A write to the log.
    Watching,
    /// A commit, after a write to the log, and the number of looks in vain.
    Commit(u32),
}

impl Expected {
    /// Returns the time without jobs after which the writer looks for foreign commits. The sync of a commit may take
    /// long: each look for it comes after half as much time again as the one before.
    fn look_after(self) -> Duration {
        match self {
            Self::Own => WATCH_AFTER,
            Self::Watching => FOREIGN_CHANGE_EVERY,
            Self::Commit(tried) => COMMIT_EXPECTED_FIRST * 3_u32.pow(tried) / 2_u32.pow(tried),
        }
    }

    /// Returns the expectation after a nudge. One that comes after own jobs was caused by them.
    const fn nudged(self) -> Self {
        match self {
            Self::Watching | Self::Commit(_) => Self::Commit(0),
            Self::Own => self,
        }
    }

    /// Returns the expectation after a look, which has found a foreign commit or not.
    const fn looked(self, has_come: bool, watches: bool) -> Self {
        match self {
            Self::Commit(_) if has_come => Self::Own,
            Self::Commit(tried) if tried + 1 < COMMIT_EXPECTED_TRIES => Self::Commit(tried + 1),
            Self::Own if watches => Self::Commit(0),
            _ => Self::Watching,
        }
    }
}

impl Writer<'_> {
    fn serve(&mut self) {
        let mut expected = Expected::Own;
        loop {
            let watching = self.shared.file.is_some() && self.shared.listeners.any();
            let (mut jobs, mut writes) = (0, 0);
            let received = self
                .shared
                .queue
                .take(watching.then_some(expected.look_after()), |job| {
                    let fits = jobs < TRANSACTION_JOBS_MAX && writes < TRANSACTION_WRITES_MAX;
                    jobs += 1;
                    writes += job.writes();
                    fits
                });
            match received {
                Received::Items(group) => {
                    self.write(group);
                    expected = Expected::Own;
                }
                Received::Idle => expected = self.look(expected),
                Received::Nudged => expected = expected.nudged(),
                Received::Closed => return,
            }
        }
    }

    /// Looks for commits of other processes. The watch is set before that, so that no commit is missed.
    fn look(&mut self, expected: Expected) -> Expected {
        if !matches!(expected, Expected::Commit(_))
            && let Some(watch) = &mut self.log_watch
        {
            watch.set();
        }
        let has_come = self.check_foreign_changes();
        expected.looked(has_come, self.log_watch.is_some())
    }

    fn write(&mut self, mut group: Vec<Box<dyn Job>>) {
        match self.attempt(&mut group) {
            Ok(()) => {
                for job in group {
                    answer(job, Ok(()));
                }
            }
            Err(FailedStep::InJob(_)) if group.len() > 1 => {
                for job in group {
                    let mut single = [job];
                    let result = self.attempt(&mut single).map_err(|stopped| self.named(stopped));
                    let [job] = single;
                    answer(job, result);
                }
            }
            Err(stopped) => {
                let error = self.named(stopped);
                for job in group {
                    answer(job, Err(error.clone()));
                }
            }
        }
        if let Some(log) = &mut self.log {
            log.keep_bounded(self.connection, &self.busy_limit);
        }
    }

    /// Writes a group in one transaction. An error means that nothing of the group is in the store.
    ///
    /// This holds for a failed COMMIT too, as long as a process lives that has the store open: SQLite makes the frames
    /// of a commit visible, to this process and to all others, only after they are synced, and the next transaction
    /// writes over them. When all processes die before that, the next one reads the log from its beginning and finds
    /// frames that were written and not synced. The writes of such a COMMIT may therefore be there after a crash.
    fn attempt(&mut self, group: &mut [Box<dyn Job>]) -> Result<(), FailedStep> {
        self.session
            .begin(self.shared.clock.now_ms())
            .map_err(FailedStep::Around)?;
        let foreign = if self.shared.file.is_some() {
            self.session.foreign_commit()
        } else {
            Ok(false)
        };
        let result = foreign.map_err(FailedStep::Around).and_then(|foreign| {
            for job in group.iter_mut() {
                // A panic is a defect of one job. The transaction is rolled back, so that the job has no effect.
                catch_unwind(AssertUnwindSafe(|| job.run(&mut self.session)))
                    .unwrap_or_else(|_| Err(Failure::internal("a write panicked")))
                    .map_err(FailedStep::InJob)?;
            }
            self.session.commit().map_err(FailedStep::InCommit)?;
            Ok(foreign)
        });
        match result {
            Ok(foreign) => {
                self.shared.transactions.fetch_add(1, Ordering::Relaxed);
                self.shared.jobs.fetch_add(group.len() as u64, Ordering::Relaxed);
                if foreign {
                    self.tell_listeners();
                }
                Ok(())
            }
            Err(stopped) => {
                self.session.roll_back();
                // A foreign commit that was seen is not reported again, so the listeners are told now.
                self.tell_listeners();
                Err(stopped)
            }
        }
    }

    /// Asks whether another process wrote. The writer's own connection is asked, because SQLite counts only the commits
    /// of other connections there. No foreign commit is missed while this thread writes, because then the thread holds
    /// the lock.
    fn check_foreign_changes(&mut self) -> bool {
        // An error comes again with the next write, and is reported there.
        let has_come = self.session.foreign_commit().unwrap_or(true);
        if has_come {
            self.tell_listeners();
        }
        has_come
    }

    fn tell_listeners(&self) {
        let _ = catch_unwind(AssertUnwindSafe(|| self.shared.listeners.tell()));
    }

    fn named(&self, stopped: FailedStep) -> ProviderError {
        let is_unknown = match &stopped {
            FailedStep::InJob(_) | FailedStep::Around(_) => false,
            // Nothing was written to the log of a store that was locked, and a store in memory is gone after a crash.
            FailedStep::InCommit(failure) => self.shared.file.is_some() && failure.kind() != ProviderErrorKind::Busy,
        };
        let (FailedStep::InJob(failure) | FailedStep::Around(failure) | FailedStep::InCommit(failure)) = stopped;
        let error = failure.named_of_open(&self.shared.location);
        if is_unknown { error.of_unknown_outcome() } else { error }
    }
}

/// The step at which a transaction stopped.
enum FailedStep {
    /// In one of its jobs: the others may succeed without it.
    InJob(Failure),
    /// Before or after the jobs.
    Around(Failure),
    /// While the writes of the jobs were committed.
    InCommit(Failure),
}

/// The write-ahead log. SQLite starts it again from its beginning when all of it was copied and no connection reads
/// from it. Readers that follow each other without a gap keep it growing. Above a size the writer waits for such a gap.
struct Log {
    file: PathBuf,
    transactions: u64,
    limit: u64,
}

impl Log {
    fn of(shared: &Shared) -> Option<Self> {
        Some(Self {
            file: log_of(shared.file.as_ref()?),
            transactions: 0,
            limit: WAL_BYTES_MAX,
        })
    }

    fn keep_bounded(&mut self, connection: &Connection, busy_limit: &BusyLimit) {
        self.transactions += 1;
        if !self.transactions.is_multiple_of(WAL_CHECK_EVERY) {
            return;
        }
        let size = || fs::metadata(&self.file).map_or(0, |found| found.len());
        if size() <= self.limit {
            return;
        }
        // The checkpoint fails while another process reads at length. Then the next try waits until the log has grown
        // by as much again.
        let _ = busy_limit.limited(CHECKPOINT_TRIES_MAX, || {
            connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
        });
        self.limit = if size() <= WAL_BYTES_MAX {
            WAL_BYTES_MAX
        } else {
            size() + WAL_BYTES_MAX
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::{open_reader, open_writer};
    use crate::options::Durability;
    use crate::testing::Directory;

    /// Readers without a gap keep SQLite from starting the log again by itself.
    #[test]
    fn the_log_is_cut_once_it_has_no_reader() {
        let directory = Directory::new();
        let path = directory.join("store.db");
        let WriterConnection {
            connection, busy_limit, ..
        } = open_writer(&path, Durability::Normal, true).expect("the store opens");
        let reader = open_reader(&path).expect("a reader opens");
        reader
            .execute_batch("BEGIN; SELECT count(*) FROM workers")
            .expect("the store is read");
        connection
            .execute_batch("CREATE TABLE bulk AS SELECT zeroblob(1000000) FROM (VALUES (1), (2), (3), (4))")
            .expect("the store is written");

        let size = || fs::metadata(log_of(&path)).map_or(0, |found| found.len());
        let mut log = Log {
            file: log_of(&path),
            transactions: 0,
            limit: 1_000_000,
        };
        let mut check = |limit: Option<u64>| {
            log.limit = limit.unwrap_or(log.limit);
            log.transactions = WAL_CHECK_EVERY - 1;
            log.keep_bounded(&connection, &busy_limit);
        };
        check(Some(u64::MAX));
        assert!(size() > 4_000_000, "it is not over the limit");
        check(Some(1_000_000));
        assert!(size() > 4_000_000, "somebody reads from it");
        reader.execute_batch("COMMIT").expect("the reader is done");
        check(Some(1_000_000));
        assert_eq!(size(), 0);
    }

    /// A commit that wrote to the log before the watch was set causes no nudge, and may not be visible at the first
    /// look.
    #[test]
    fn a_commit_that_had_begun_when_the_watch_was_set_is_looked_for_at_once() {
        let mut expected = Expected::Own.looked(false, true);
        let mut waited = Duration::ZERO;
        while !matches!(expected, Expected::Watching) {
            assert!(expected.look_after() <= COMMIT_EXPECTED_FIRST + waited / 2);
            waited += expected.look_after();
            assert!(matches!(expected.looked(true, true), Expected::Own));
            expected = expected.looked(false, true);
        }
        assert!(
            waited >= FOREIGN_CHANGE_EVERY / 3,
            "{waited:?} would not cover a slow sync"
        );
    }

    #[test]
    fn a_write_to_the_log_begins_the_looks_anew_unless_it_is_the_writers_own() {
        for expected in [Expected::Watching, Expected::Commit(7)] {
            assert!(matches!(expected.nudged(), Expected::Commit(0)));
        }
        assert!(matches!(Expected::Own.nudged(), Expected::Own));
    }

    #[test]
    fn a_store_that_is_not_watched_is_looked_at_in_intervals() {
        assert!(matches!(Expected::Own.looked(false, false), Expected::Watching));
        assert!(matches!(Expected::Watching.looked(true, false), Expected::Watching));
    }
}
