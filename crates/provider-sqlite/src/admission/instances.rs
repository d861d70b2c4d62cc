//! Instances as entries of queues (P24).

use perdure_provider::{Acquire, Acquired, AcquiredInstance, DueRequest, EntryKey, InstanceKey, PageLimit, WorkerId};

use super::{Answer, Request};
use crate::acquire::{self, Line};
use crate::error::Failure;
use crate::inbox;
use crate::session::Session;

impl Request for Acquire {
    fn worker(&self) -> &WorkerId {
        &self.worker
    }

    fn limit(&self) -> PageLimit {
        self.limit
    }

    fn serves(&self, _: &str) -> bool {
        true
    }

    fn can_run(&self, sort: &(String, String)) -> bool {
        self.registered.contains(sort)
    }
}

/// A worker that looks for due instances sees the queues as one that acquires them.
impl Request for DueRequest {
    fn worker(&self) -> &WorkerId {
        &self.worker
    }

    fn limit(&self) -> PageLimit {
        PageLimit::rows(self.rows)
    }

    fn serves(&self, _: &str) -> bool {
        true
    }

    fn can_run(&self, sort: &(String, String)) -> bool {
        self.registered.contains(sort)
    }
}

impl Answer for Acquired {
    type Request = Acquire;

    fn rows(&self) -> usize {
        self.instances.len()
    }

    fn bytes(&self) -> usize {
        self.instances.iter().map(|instance| instance.page_bytes).sum()
    }

    fn size(session: &Session<'_>, request: &Acquire, entry: EntryKey) -> Result<usize, Failure> {
        acquire::page_bytes(session.connection(), entry.0, request.history_page)
    }

    fn settle(session: &Session<'_>, request: &Acquire, entry: EntryKey) -> Result<bool, Failure> {
        acquire::settle_in_line(session, request, InstanceKey(entry.0))
    }

    fn take(
        &mut self,
        session: &mut Session<'_>,
        request: &Acquire,
        entries: &[(EntryKey, usize)],
    ) -> Result<(), Failure> {
        let seen = inbox::last(session.connection())?;
        for &(entry, page_bytes) in entries {
            let instance = acquire::take(session, request, InstanceKey(entry.0), seen, Line::Queue)?;
            self.instances
                .extend(instance.map(|instance| AcquiredInstance { page_bytes, ..instance }));
        }
        Ok(())
    }

    fn look_again_at(&mut self, at_ms: i64) {
        Self::look_again_at(self, at_ms);
    }

    fn want_slots(&mut self) {
        self.slots_wanted = true;
    }
}
