//! The entries of queues that a request asks for: instances or attempts.

use perdure_provider::{Acquire, AcquiredInstance, PageLimit, Queues, Task, TaskRequest};
use tokio_postgres::Row;

use super::line::{InLine, LineRequest};
use super::steps::Taken;
use super::{attempts, instances};
use crate::acquire::parts::read_taken;
use crate::error::Failure;
use crate::params::P;
use crate::query::Query;
use crate::session::Session;
use crate::tasks::parts::acquired;

/// A request, and what was acquired for it so far.
pub(super) enum Entries<'a> {
    Instances(&'a Acquire, &'a mut Vec<AcquiredInstance>),
    Attempts(&'a TaskRequest, &'a mut Vec<Task>),
}

impl Entries<'_> {
    pub(super) fn owner(&self) -> P<'_> {
        P::Text(match self {
            Self::Instances(request, _) => &request.worker.0,
            Self::Attempts(request, _) => &request.worker.0,
        })
    }

    /// Returns the queues that the request is limited to. `None`: it concerns all.
    pub(super) fn queues(&self) -> Option<&[String]> {
        match self {
            Self::Attempts(
                TaskRequest {
                    queues: Queues::Named(queues),
                    ..
                },
                _,
            ) => Some(queues),
            _ => None,
        }
    }

    /// Returns how many more entries the worker has room for, and of how many bytes.
    pub(super) fn room(&self) -> PageLimit {
        let (limit, rows, bytes): (_, _, usize) = match self {
            Self::Instances(request, all) => {
                let bytes = all.iter().map(|instance| instance.page_bytes).sum();
                (request.limit, all.len(), bytes)
            }
            Self::Attempts(request, all) => (request.limit, all.len(), all.iter().map(Task::given_bytes).sum()),
        };
        PageLimit {
            rows: limit.rows.saturating_sub(rows),
            bytes: limit.bytes.saturating_sub(bytes),
        }
    }

    /// Returns the statement that reads the first entries in line.
    pub(super) fn line<'q>(&self, request: &LineRequest<'q>) -> Query<'q> {
        match self {
            Self::Instances(of, _) => instances::line(request, of.history_page),
            Self::Attempts(..) => attempts::line(request),
        }
    }

    /// Settles the versions that are open. Returns false if any entry is left to another worker.
    pub(super) async fn settle(&self, session: &Session<'_>, line: &mut [InLine]) -> Result<bool, Failure> {
        match self {
            Self::Instances(request, _) => instances::settle(session, request, line).await,
            Self::Attempts(..) => Ok(true),
        }
    }

    /// Returns the statement that acquires entries. `None`: there are none.
    pub(super) fn take<'q>(&'q self, taken: &'q Taken, now_ms: i64) -> Option<Query<'q>> {
        let some = !taken.key.is_empty();
        some.then(|| match self {
            Self::Instances(..) => instances::take(self.owner(), taken),
            Self::Attempts(..) => attempts::take(self.owner(), taken, now_ms),
        })
    }

    /// Adds the entries that were acquired.
    pub(super) async fn add(&mut self, session: &Session<'_>, rows: Vec<Row>) -> Result<(), Failure> {
        match self {
            Self::Instances(_, all) => all.extend(read_taken(session, rows).await?),
            Self::Attempts(_, all) => all.extend(acquired(&rows)?),
        }
        Ok(())
    }
}
